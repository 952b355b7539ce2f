//! Timers of the connections of a loop.
//!
//! The deadline of a connection moves with every exchange, nearly always to a later time. So a connection has
//! one alarm, which is moved only if it must be due earlier. An alarm that is due too early is set again.
//! An exchange therefore changes no timer, and an idle connection costs one alarm per timeout.

use std::collections::BTreeSet;
use std::time::Duration;

use fathometer_model::Instant;

/// The alarm of one connection, stored with the connection and passed to [`Timers`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Alarm(Option<Instant>);

/// All alarms of a loop.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    set: BTreeSet<(Instant, usize)>,
}

impl Timers {
    /// Ensures that the alarm of the connection at `place` is due no later than `at`.
    pub fn set(&mut self, alarm: &mut Alarm, place: usize, at: Option<Instant>) {
        let Some(at) = at else {
            return;
        };
        match alarm.0 {
            Some(before) if before <= at => return,
            Some(before) => {
                self.set.remove(&(before, place));
            }
            None => {}
        }
        self.set.insert((at, place));
        alarm.0 = Some(at);
    }

    /// Removes the alarm of a closed connection.
    pub fn clear(&mut self, alarm: Alarm, place: usize) {
        if let Some(at) = alarm.0 {
            self.set.remove(&(at, place));
        }
    }

    /// Returns a connection whose alarm is due. The caller must reset its [`Alarm`].
    pub fn pop_due(&mut self, now: Instant) -> Option<usize> {
        let &(at, place) = self.set.first()?;
        (at <= now).then(|| {
            self.set.pop_first();
            place
        })
    }

    /// The time until the next alarm.
    pub fn next(&self, now: Instant) -> Option<Duration> {
        self.set.first().map(|(at, _)| at.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Instant {
        Instant::from_nanos(second * 1_000_000_000)
    }

    #[test]
    fn an_alarm_moves_earlier_at_once_and_later_when_it_rings() {
        let mut timers = Timers::default();
        let (mut first, mut second) = (Alarm::default(), Alarm::default());
        timers.set(&mut first, 1, Some(at(60)));
        timers.set(&mut second, 2, Some(at(50)));
        timers.set(&mut first, 1, Some(at(70)));
        assert_eq!(timers.next(at(10)), Some(Duration::from_secs(40)));
        timers.set(&mut first, 1, Some(at(20)));
        timers.set(&mut first, 1, None);
        assert_eq!(timers.next(at(10)), Some(Duration::from_secs(10)));
        assert_eq!(timers.pop_due(at(19)), None);
        assert_eq!(timers.pop_due(at(20)), Some(1));
        assert_eq!(timers.pop_due(at(20)), None);
        timers.clear(second, 2);
        assert_eq!(timers.next(at(0)), None);
    }
}
