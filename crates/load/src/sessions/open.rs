//! The sessions of an open loop: chooses the arrival or waiting session that gets the next free connection.

use std::collections::VecDeque;
use std::time::Duration;

use fathometer_model::Instant;
use fathometer_workload::arrivals::Arrivals;

use super::super::timers::NEVER;
use super::arrivals::{Arrival, ArrivalQueue};
use super::pool::Pool;

/// The arrivals of one event loop, and the sessions that wait for connections.
///
/// Arrivals and waiting sessions get connections in the order of their instants. The session of an arrival begins when
/// a connection is free, or when the arrival has timed out.
pub(crate) struct OpenLoop<'a> {
    pub(super) arrivals: ArrivalQueue<'a>,
    pub(super) pool: Pool,
    /// The time limit of an arrival, including the wait for a connection.
    timeout: Duration,
    /// Sessions that wait for a connection, each with the start of its wait.
    waiting: VecDeque<(Instant, u32)>,
    /// Users without a session.
    free_users: Vec<u32>,
    /// The number of sessions in progress.
    active: u64,
    /// Whether an arrival is due and no connection is free.
    is_blocked: bool,
}

/// The next user of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// The waiting session of a user.
    Session(u32),
    /// The next arrival, with its planned instant.
    Arrival(Instant),
}

impl<'a> OpenLoop<'a> {
    /// Creates an open loop from every `stride`-th arrival, starting with number `first`. Instants count from `start`.
    /// At most `most` connections carry `depth` concurrent exchanges each.
    pub(crate) fn new(
        arrivals: &'a Arrivals,
        (first, stride): (usize, usize),
        start: Instant,
        (most, depth): (u32, u16),
        timeout: Duration,
    ) -> OpenLoop<'a> {
        OpenLoop {
            arrivals: ArrivalQueue::new(arrivals, first, stride, start),
            pool: Pool::new(most, depth.into()),
            timeout,
            waiting: VecDeque::new(),
            free_users: Vec::new(),
            active: 0,
            is_blocked: false,
        }
    }

    /// Returns the arrival or session that gets the next connection. Arrivals at or after `end` are skipped. `has_room`
    /// returns whether a connection can take a request.
    pub(super) fn next(
        &mut self,
        now: Instant,
        end: Instant,
        has_room: impl Fn(u32) -> bool,
    ) -> Option<Next> {
        self.is_blocked = false;
        let due = self.arrivals.next_before(end).map(|arrival| arrival.at);
        let due = due.filter(|&at| at <= now);
        let next = match (self.waiting.front(), due) {
            (None, None) => return None,
            (Some(&(since, user)), Some(at)) if since <= at => Next::Session(user),
            (Some(&(_, user)), None) => Next::Session(user),
            (_, Some(at)) => Next::Arrival(at),
        };
        if !self.pool.has_free(has_room) {
            self.is_blocked = due.is_some();
            // An arrival that timed out before a connection was free begins and fails.
            return due
                .filter(|&at| at + self.timeout <= now)
                .map(Next::Arrival);
        }
        if let Next::Session(_) = next {
            self.waiting.pop_front();
        }
        Some(next)
    }

    /// Records that a session waits for a connection since this instant.
    pub(super) fn wait(&mut self, since: Instant, user: u32) {
        self.waiting.push_back((since, user));
    }

    /// Takes the next arrival, and a free user for its session; `None` if a new user is needed.
    pub(super) fn begin(&mut self) -> Option<(Arrival, Option<u32>)> {
        let arrival = self.arrivals.take()?;
        self.active += 1;
        Some((arrival, self.free_users.pop()))
    }

    /// Records that the session of a user has ended.
    pub(super) fn end(&mut self, user: u32) {
        self.active -= 1;
        self.free_users.push(user);
    }

    /// Returns whether the schedule and all of its sessions have ended.
    pub(super) fn is_exhausted(&self) -> bool {
        self.arrivals.is_over() && self.active == 0
    }

    /// Returns the instant at which the next arrival before `end` must be handled. If the arrival waits for a
    /// connection, this is its time-out.
    pub(super) fn next_wake(&self, end: Instant) -> Instant {
        match self.arrivals.next_before(end) {
            Some(arrival) if self.is_blocked => arrival.at + self.timeout,
            Some(arrival) => arrival.at,
            None => NEVER,
        }
    }
}

#[cfg(test)]
mod tests {
    use fathometer_workload::arrivals::Profile;

    use super::*;

    const ALL: fn(u32) -> bool = |_| true;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Creates an open loop with arrivals after 0, 1, 2 … ms over one connection, and a time-out of 10 ms.
    fn open_loop(arrivals: &Arrivals) -> OpenLoop<'_> {
        OpenLoop::new(arrivals, (0, 1), at(0), (1, 1), Duration::from_millis(10))
    }

    fn arrivals() -> Arrivals {
        Arrivals::constant(Profile::constant(1000.0).unwrap())
    }

    #[test]
    fn an_arrival_begins_at_its_instant_if_there_is_a_connection() {
        let arrivals = arrivals();
        let mut open = open_loop(&arrivals);
        let first = open.next(at(0), at(100), ALL);
        assert_eq!(first, Some(Next::Arrival(at(0))));
        assert_eq!(
            open.begin().map(|(next, user)| (next.number, user)),
            Some((0, None))
        );
        assert_eq!(open.next(at(0), at(100), ALL), None);
        assert_eq!(open.next_wake(at(100)), at(1));
        assert_eq!(open.next(at(1), at(1), ALL), None, "the test is over");
        assert_eq!(open.next_wake(at(1)), NEVER);
        assert!(!open.is_exhausted());
        open.end(3);
        let second = open.begin().map(|(next, user)| (next.number, user));
        assert_eq!(second, Some((1, Some(3))));
    }

    #[test]
    fn arrivals_and_sessions_wait_in_the_order_of_their_instants() {
        let arrivals = arrivals();
        let mut open = open_loop(&arrivals);
        open.begin();
        open.pool.opened();
        open.wait(at(1), 5);
        open.wait(at(2), 6);
        assert_eq!(open.next(at(3), at(100), ALL), None);
        // The due arrival has no connection, so the loop wakes at the arrival's time-out.
        assert_eq!(open.next_wake(at(100)), at(11));
        open.pool.offer(0, true);
        let mut order = Vec::new();
        while let Some(next) = open.next(at(3), at(100), ALL) {
            if let Next::Arrival(_) = next {
                open.begin();
            }
            order.push(next);
        }
        let arrival = |millis| Next::Arrival(at(millis));
        let (five, six) = (Next::Session(5), Next::Session(6));
        assert_eq!(order, [five, arrival(1), six, arrival(2), arrival(3)]);
    }

    #[test]
    fn an_arrival_that_has_timed_out_begins_without_a_connection() {
        let arrivals = arrivals();
        let mut open = open_loop(&arrivals);
        open.pool.opened();
        open.wait(at(0), 5);
        assert_eq!(open.next(at(9), at(100), ALL), None);
        let next = open.next(at(10), at(100), ALL);
        assert_eq!(next, Some(Next::Arrival(at(0))));
        open.begin();
        assert_eq!(open.next(at(10), at(100), ALL), None);
    }
}
