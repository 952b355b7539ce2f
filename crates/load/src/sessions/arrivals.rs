//! The arrivals of an open loop: the instants at which sessions begin.

use std::iter::{Skip, StepBy};

use fathometer_model::Instant;
use fathometer_workload::arrivals::{Arrivals, Schedule};

/// The arrivals of one event loop, in chronological order.
///
/// Each arrival is taken once and announced once, in either order. Waiting arrivals are not stored: they are the part
/// of the schedule between the first arrival not taken and now. So the memory does not grow when the server stalls.
pub(super) struct ArrivalQueue<'a> {
    schedule: StepBy<Skip<Schedule<'a>>>,
    /// The next arrival to be taken.
    next: Option<Arrival>,
    /// The number of arrivals taken, and the number of arrivals announced for past intervals.
    taken: u64,
    announced: u64,
    /// A later position in the schedule, after the waiting arrivals that were announced.
    ahead: Option<Ahead<'a>>,
    /// The start of the test.
    start: Instant,
}

/// The beginning of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    /// The number of the arrival in the whole test.
    pub(super) number: u64,
    pub(super) at: Instant,
}

/// A second iterator over the schedule, which is ahead of the next arrival.
struct Ahead<'a> {
    schedule: StepBy<Skip<Schedule<'a>>>,
    /// The number of arrivals before `next`.
    before: u64,
    /// The instant of the arrival at the iterator's position.
    next: Option<Instant>,
}

impl<'a> ArrivalQueue<'a> {
    /// Creates a queue of every `stride`-th arrival, starting with number `first`. Their instants count from `start`.
    pub(super) fn new(
        arrivals: &'a Arrivals,
        first: usize,
        stride: usize,
        start: Instant,
    ) -> ArrivalQueue<'a> {
        let mut queue = ArrivalQueue {
            schedule: arrivals.schedule().skip(first).step_by(stride),
            next: None,
            taken: 0,
            announced: 0,
            ahead: None,
            start,
        };
        queue.draw();
        queue
    }

    fn draw(&mut self) {
        let next = self.schedule.next();
        self.next = next.map(|(number, after)| Arrival {
            number,
            at: self.start + after,
        });
    }

    /// Returns the next arrival before `end`, if any.
    pub(super) fn next_before(&self, end: Instant) -> Option<Arrival> {
        self.next.filter(|arrival| arrival.at < end)
    }

    /// Returns whether there are no more arrivals.
    pub(super) fn is_over(&self) -> bool {
        self.next.is_none()
    }

    /// Takes the next arrival, whose session begins now.
    pub(super) fn take(&mut self) -> Option<Arrival> {
        let taken = self.next?;
        self.taken += 1;
        self.draw();
        Some(taken)
    }

    /// Counts the arrivals before `end` that were not announced before. No arrival at or after `end` may have been
    /// taken. Only waiting arrivals are iterated over, because taken arrivals are already counted. So counting does not
    /// delay due arrivals.
    pub(super) fn announce(&mut self, end: Instant) -> u64 {
        let mut before = self.taken;
        if self.next_before(end).is_some() {
            let ahead = self.ahead.take().filter(|ahead| ahead.before > before);
            let mut ahead = ahead.unwrap_or_else(|| Ahead {
                schedule: self.schedule.clone(),
                before,
                next: self.next.map(|arrival| arrival.at),
            });
            while ahead.next.is_some_and(|at| at < end) {
                ahead.before += 1;
                ahead.next = ahead.schedule.next().map(|(_, after)| self.start + after);
            }
            before = ahead.before;
            self.ahead = Some(ahead);
        }
        let count = before.saturating_sub(self.announced);
        self.announced += count;
        count
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fathometer_workload::arrivals::Profile;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(7 + millis)
    }

    #[test]
    fn arrivals_are_counted_once_whether_they_are_carried_out_or_wait() {
        let arrivals = Arrivals::constant(Profile::constant(1000.0).unwrap());
        // The second of two loops has the arrivals 1 ms, 3 ms, 5 ms … after the start.
        let mut queue = ArrivalQueue::new(&arrivals, 1, 2, at(0));
        let arrival = |number| {
            Some(Arrival {
                number,
                at: at(number),
            })
        };
        assert_eq!(queue.announce(at(0)), 0);
        assert_eq!((queue.take(), queue.take()), (arrival(1), arrival(3)));
        assert_eq!(queue.announce(at(4)), 2);
        assert_eq!(queue.announce(at(4)), 0);
        // No arrivals are taken for some time.
        assert_eq!(queue.announce(at(10)), 3);
        assert_eq!(queue.announce(at(20)), 5);
        // One waiting arrival is taken, then all others and a new arrival.
        assert_eq!(queue.take(), arrival(5));
        assert_eq!(queue.announce(at(30)), 5);
        while queue.next_before(at(32)).is_some() {
            queue.take();
        }
        assert_eq!(queue.announce(at(32)), 1);
        // The server responds again, then stalls again.
        while queue.next_before(at(40)).is_some() {
            queue.take();
        }
        assert_eq!(queue.announce(at(50)), 9);
    }

    #[test]
    fn a_recorded_schedule_ends() {
        let times = [1, 2].map(Duration::from_millis);
        let arrivals = Arrivals::recorded(times.into(), 1.0).unwrap();
        let mut queue = ArrivalQueue::new(&arrivals, 0, 1, at(0));
        assert_eq!(queue.next_before(at(1)), None);
        assert_eq!(queue.next_before(at(2)).map(|next| next.number), Some(0));
        assert_eq!(queue.take().map(|next| next.at), Some(at(1)));
        assert!(!queue.is_over());
        queue.take();
        assert!(queue.is_over() && queue.take().is_none());
    }
}
