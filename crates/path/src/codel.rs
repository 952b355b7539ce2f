//! Controlled delay (CoDel): decides which packets to drop at the head of a queue (RFC 8289, section 5).

use std::time::Duration;

use fathometer_model::Instant;

use crate::profile::Codel;
use crate::queue::{Depth, Waiting, WaitingLine};

/// CoDel's state. The link owns the queue. Names follow the RFC's pseudo-code.
#[derive(Debug, Clone)]
pub(crate) struct Control {
    parameters: Codel,
    /// A queue of at most this many bytes is never a standing queue.
    maximum_packet: u64,
    first_above: Option<Instant>,
    drop_next: Instant,
    count: u32,
    last_count: u32,
    dropping: bool,
}

impl Control {
    pub(crate) fn new(parameters: Codel, maximum_packet: u64) -> Control {
        Control {
            parameters,
            maximum_packet,
            first_above: None,
            drop_next: Instant::ZERO,
            count: 0,
            last_count: 0,
            dropping: false,
        }
    }

    /// Takes the next packet to serialise when the link becomes free at `now`. Calls `drop` for each packet
    /// that it drops.
    pub(crate) fn dequeue<P>(
        &mut self,
        now: Instant,
        line: &mut WaitingLine<P>,
        mut drop: impl FnMut(Waiting<P>, Depth),
    ) -> Option<Waiting<P>> {
        let (mut head, mut may_drop) = self.take(now, line);
        if self.dropping {
            self.dropping = may_drop;
            while self.dropping && now >= self.drop_next {
                if let Some(packet) = head {
                    drop(packet, line.depth());
                }
                self.count += 1;
                (head, may_drop) = self.take(now, line);
                self.dropping = may_drop;
                if may_drop {
                    self.drop_next = self.control_law(self.drop_next);
                }
            }
        } else if may_drop {
            if let Some(packet) = head {
                drop(packet, line.depth());
            }
            (head, _) = self.take(now, line);
            self.dropping = true;
            // If the queue was in the dropping state recently, dropping resumes at the previous rate instead of the
            // initial rate.
            let since_last = self.count - self.last_count;
            let recently = now.since(self.drop_next) < 16 * self.parameters.interval;
            self.count = if since_last > 1 && recently {
                since_last
            } else {
                1
            };
            self.last_count = self.count;
            self.drop_next = self.control_law(now);
        }
        head
    }

    /// Removes the head of the queue. Also returns whether the delay has been above the target for a whole interval.
    fn take<P>(&mut self, now: Instant, line: &mut WaitingLine<P>) -> (Option<Waiting<P>>, bool) {
        let Some(head) = line.pop() else {
            self.first_above = None;
            return (None, false);
        };
        let below = now.since(head.arrived) < self.parameters.target;
        if below || line.bytes() <= self.maximum_packet {
            self.first_above = None;
            return (Some(head), false);
        }
        let may_drop = match self.first_above {
            Some(time) => now >= time,
            None => {
                self.first_above = Some(now + self.parameters.interval);
                false
            }
        };
        (Some(head), may_drop)
    }

    fn control_law(&self, time: Instant) -> Instant {
        let gap = self.parameters.interval.as_nanos() as f64 / f64::from(self.count).sqrt();
        time + Duration::from_nanos(gap as u64)
    }
}
