//! The timers of a loop.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fathometer_model::Instant;

/// An instant that is later than every instant of a test.
pub(super) const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// The purpose of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Checks a connection for a time-out.
    Connection(u32),
    /// Does the due work of QUIC on a connection.
    Quic(u32),
    /// Lets a user continue.
    User(u32),
    /// Changes the number of users.
    Step(u32),
}

/// The timers that are set; the earliest is due first.
///
/// A timer is never cancelled: its handler checks whether the timer still applies ([`Deadline::is_reached`]). So a
/// connection sets one timer per time-out period, and not one timer per exchange.
#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<(Instant, Timer)>>);

impl Timers {
    pub(super) fn set(&mut self, at: Instant, timer: Timer) {
        self.0.push(Reverse((at, timer)));
    }

    /// Returns the instant of the next timer.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.peek().map(|&Reverse((at, _))| at)
    }

    /// Removes and returns the next timer that is due.
    pub(super) fn due(&mut self, now: Instant) -> Option<(Instant, Timer)> {
        if self.next()? > now {
            return None;
        }
        self.0.pop().map(|Reverse(entry)| entry)
    }
}

/// The currently valid timer of a connection or a user. Timers that were set for other instants are ignored.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Deadline(Option<Instant>);

impl Deadline {
    /// Sets a timer for `at`, which replaces any earlier timer.
    pub(super) fn set(&mut self, at: Instant, timer: Timer, timers: &mut Timers) {
        self.0 = Some(at);
        timers.set(at, timer);
    }

    /// Ensures that a timer is due at `at` or earlier: sets a timer unless an earlier one is set.
    pub(super) fn set_by(&mut self, at: Instant, timer: Timer, timers: &mut Timers) {
        if self.0.is_none_or(|set| at < set) {
            self.set(at, timer, timers);
        }
    }

    /// Returns whether the due timer, which was set for `at`, is valid. If it is, no timer is valid afterwards.
    pub(super) fn is_reached(&mut self, at: Instant) -> bool {
        let applies = self.0 == Some(at);
        if applies {
            self.0 = None;
        }
        applies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn timers_are_due_in_the_order_of_their_instants_and_not_before() {
        let mut timers = Timers::default();
        for nanos in [7, 3, 9, 3] {
            timers.set(at(nanos), Timer::User(nanos as u32));
        }
        assert_eq!(timers.next(), Some(at(3)));
        assert_eq!(timers.due(at(2)), None);
        let due: Vec<u64> = std::iter::from_fn(|| timers.due(at(8)))
            .map(|(at, _)| at.as_nanos())
            .collect();
        assert_eq!(due, [3, 3, 7]);
        assert_eq!(timers.next(), Some(at(9)));
    }

    #[test]
    fn only_the_earliest_timer_of_a_deadline_applies_and_only_once() {
        let (mut timers, mut deadline) = (Timers::default(), Deadline::default());
        let timer = Timer::Connection(1);
        deadline.set_by(at(10), timer, &mut timers);
        deadline.set_by(at(20), timer, &mut timers);
        deadline.set_by(at(5), timer, &mut timers);
        deadline.set_by(at(5), timer, &mut timers);
        // The later instant set no timer, and the equal instant set no second timer.
        let due: Vec<Instant> = std::iter::from_fn(|| timers.due(at(100)))
            .map(|(at, _)| at)
            .collect();
        assert_eq!(due, [at(5), at(10)]);
        assert!(deadline.is_reached(at(5)));
        assert!(!deadline.is_reached(at(5)));
        assert!(!deadline.is_reached(at(10)));
    }

    #[test]
    fn a_deadline_can_be_moved_to_a_later_instant() {
        let (mut timers, mut deadline) = (Timers::default(), Deadline::default());
        deadline.set(at(10), Timer::User(0), &mut timers);
        deadline.set(at(20), Timer::User(0), &mut timers);
        assert!(!deadline.is_reached(at(10)));
        assert!(deadline.is_reached(at(20)));
    }
}
