//! The handshake, with its time-outs.

use std::time::Duration;

use fathometer_model::Instant;

use super::{Endpoint, Phase};
use crate::acknowledging::Acknowledging;
use crate::segment::{Flags, Segment};
use crate::sender::Sender;

/// The time-out of a SYN; it doubles after [`LINEAR`] time-outs (`tcp_syn_linear_timeouts`).
const SYN_TIMEOUT: Duration = Duration::from_secs(1);
const LINEAR: u32 = 4;
/// The shortest time between two answers to retransmitted SYNs or SYN-ACKs (`tcp_invalid_ratelimit`).
const LEAST_BETWEEN: Duration = Duration::from_millis(500);

impl Endpoint {
    /// Completes the handshake of a server.
    pub(super) fn establish(
        &mut self,
        segment: &Segment,
        echoed: Option<(Duration, u64)>,
        sent: u32,
        now: Instant,
    ) {
        self.phase = Phase::Established;
        let sample = match (sent, echoed) {
            (1, _) => Some(now.since(self.opened)),
            (_, echoed) => echoed.map(|(round_trip, _)| round_trip),
        };
        if let Some(sample) = sample {
            self.sender.round_trip.sample(sample, 1, 1);
        }
        self.sender.open_window(segment.window);
        self.acknowledging = Acknowledging::new(self.ticks, now);
        self.acknowledging.acknowledged = self.receiver.next;
    }

    pub(super) fn handle_syn(&mut self, segment: &Segment, now: Instant) {
        match self.phase {
            Phase::Listening if !segment.flags.ack => {
                self.agree(segment);
                self.open(now, 1);
                self.opened = now;
            }
            Phase::Opening { sent, .. } if !self.is_client => {
                // The client has retransmitted its SYN.
                let is_recent = self
                    .answered_bare
                    .is_some_and(|last| now.since(last) < LEAST_BETWEEN);
                if !is_recent {
                    self.answered_bare = Some(now);
                    self.retransmitted_open += 1;
                    let due = self.phase;
                    self.open(now, sent + 1);
                    self.phase = match due {
                        Phase::Opening { due, .. } => Phase::Opening {
                            sent: sent + 1,
                            due,
                        },
                        phase => phase,
                    };
                }
            }
            Phase::Opening { sent, .. } if segment.flags.ack => {
                self.agree(segment);
                let stamped = segment.timestamps.map(|(_, echo)| {
                    let since = (now.as_nanos() / 1_000_000).saturating_sub(echo);
                    Duration::from_millis(since.max(1))
                });
                let sample = match sent {
                    1 => Some(now.since(self.opened)),
                    _ => stamped,
                };
                if let Some(sample) = sample {
                    self.sender.round_trip.sample(sample, 1, 1);
                }
                self.sender.open_window(segment.window);
                self.phase = Phase::Established;
                self.acknowledging = Acknowledging::new(self.ticks, now);
                self.acknowledge(now);
            }
            Phase::Established => {
                // A retransmitted SYN-ACK: the server has not received the acknowledgement in time.
                let is_recent = self
                    .answered_bare
                    .is_some_and(|last| now.since(last) < LEAST_BETWEEN);
                if !is_recent {
                    self.answered_bare = Some(now);
                    self.acknowledge(now);
                }
            }
            _ => {}
        }
    }

    /// Disables the options that the peer's SYN does not offer.
    pub(super) fn agree(&mut self, segment: &Segment) {
        self.receiver.next = 1;
        self.settings.timestamps &= segment.timestamps.is_some();
        self.settings.sack &= segment.offers_sack;
        self.settings.window_scaling &= segment.offers_scaling;
        if let Some((stamp, _)) = segment.timestamps {
            self.recent = stamp;
        }
        self.sender = Sender::new(&self.settings, self.ticks, self.opened);
    }

    pub(super) fn open(&mut self, now: Instant, sent: u32) {
        let flags = Flags {
            syn: true,
            ack: !self.is_client,
            ..Flags::default()
        };
        let segment = Segment {
            sequence: 0,
            acknowledgement: self.receiver.next,
            flags,
            window: self.window.min(65_535),
            timestamps: self.stamps(now),
            offers_sack: self.settings.sack,
            offers_scaling: self.settings.window_scaling,
            retransmission: sent > 1,
            ..Segment::default()
        };
        self.out.push_back(segment);
        let doublings = match self.is_client {
            true => (sent - 1).saturating_sub(LINEAR),
            false => sent - 1,
        };
        let wait = SYN_TIMEOUT * (1 << doublings.min(6));
        self.phase = Phase::Opening {
            sent,
            due: self.ticks.expiry(now, wait),
        };
    }
}
