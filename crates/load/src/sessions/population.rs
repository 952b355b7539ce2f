//! The number of users of a closed loop, and its changes.

use std::time::Duration;

use fathometer_model::Instant;

/// The users of a closed loop that belong to one of the event loops.
///
/// Users are numbered across the whole test, from 0. Users whose number is below the current number of users are
/// active. An event loop has every `stride`-th user, starting with number `first`.
#[derive(Debug, Clone)]
pub(crate) struct Population {
    /// The current number of users in the whole test.
    active: u32,
    start_interval: Duration,
    /// The changes: the instant, and the new number of users.
    steps: Vec<(Duration, u32)>,
    first: u32,
    stride: u32,
}

impl Population {
    pub(crate) fn new(
        users: u32,
        start_interval: Duration,
        steps: &[(Duration, u32)],
        first: u32,
        stride: u32,
    ) -> Population {
        Population {
            active: users,
            start_interval,
            steps: steps.to_vec(),
            first,
            stride,
        }
    }

    /// Returns the numbers of all users that this event loop ever has.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        let steps = self.steps.iter().map(|&(_, users)| users);
        let most = steps.fold(self.active, u32::max);
        (self.first..most).step_by(self.stride as usize)
    }

    /// Returns the instant at which a user starts; `None` if the user does not start with the test.
    pub(super) fn start(&self, number: u32, test: Instant) -> Option<Instant> {
        self.is_active(number)
            .then(|| test + self.start_interval * number)
    }

    /// Returns the instants of the changes.
    pub(super) fn changes(&self, test: Instant) -> impl Iterator<Item = Instant> {
        self.steps.iter().map(move |&(after, _)| test + after)
    }

    /// Applies a change that is due at `at`. Returns the start of each user that becomes active. New users start one
    /// after another.
    pub(super) fn change(
        &mut self,
        step: u32,
        at: Instant,
    ) -> impl Fn(u32) -> Option<Instant> + use<> {
        let before = self.active;
        self.active = self.steps[step as usize].1;
        let (active, interval) = (self.active, self.start_interval);
        move |number| (number < active).then(|| at + interval * number.saturating_sub(before))
    }

    /// Returns whether a user is active. A user that becomes inactive stops after its page.
    pub(super) fn is_active(&self, number: u32) -> bool {
        number < self.active
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: Instant = Instant::from_nanos(1_000);

    fn nanos(nanos: u64) -> Duration {
        Duration::from_nanos(nanos)
    }

    /// Creates the second of three event loops, for a test with 5 users, then 9, then 2.
    fn population() -> Population {
        Population::new(5, nanos(10), &[(nanos(500), 9), (nanos(700), 2)], 1, 3)
    }

    #[test]
    fn an_event_loop_has_its_share_of_the_most_users() {
        let population = population();
        assert_eq!(population.numbers().collect::<Vec<_>>(), [1, 4, 7]);
        let starts = [1, 4, 7].map(|number| population.start(number, TEST));
        assert_eq!(
            starts,
            [Some(TEST + nanos(10)), Some(TEST + nanos(40)), None]
        );
        let changes: Vec<Instant> = population.changes(TEST).collect();
        assert_eq!(changes, [TEST + nanos(500), TEST + nanos(700)]);
    }

    #[test]
    fn an_event_loop_may_have_no_user() {
        let population = Population::new(2, Duration::ZERO, &[], 2, 3);
        assert_eq!(population.numbers().count(), 0);
    }

    #[test]
    fn new_users_start_one_after_another_and_surplus_ones_end() {
        let mut population = population();
        let at = TEST + nanos(500);
        let start = population.change(0, at);
        let starts = [4, 5, 7, 9].map(start);
        assert_eq!(starts, [Some(at), Some(at), Some(at + nanos(20)), None]);
        assert!(population.is_active(8) && !population.is_active(9));
        let start = population.change(1, at);
        assert_eq!([1, 2].map(start), [Some(at), None]);
        assert!(population.is_active(1) && !population.is_active(4));
    }
}
