//! A user of a closed loop, or a session of an open loop.

use std::time::Duration;

use fathometer_model::Instant;

use super::super::exchange::Exchange;
use super::super::timers::Deadline;
use super::page::PageProgress;

/// The state of a user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// Inactive.
    #[default]
    Parked,
    /// Waiting for its start, or for the next page.
    Pause,
    /// Requesting a page.
    Page,
}

/// A user of a closed loop, or a session of an open loop.
#[derive(Debug, Default)]
pub(super) struct User {
    /// The number of the user in the whole test; in an open loop, the number of the arrival.
    pub(super) number: u64,
    pub(super) stage: Stage,
    pub(super) session: SessionProgress,
    pub(super) page: PageProgress,
    /// The number of the user's own connections that were established for its current page.
    pub(super) connected: u32,
    /// The number of the user's exchanges in flight on connections.
    pub(super) in_flight: u32,
    /// Exchanges that wait for a connection: retries, and exchanges that were planned while all connections were full.
    pub(super) backlog: Backlog,
    /// The user's own connections, in a closed loop.
    pub(super) connections: OwnConnections,
    /// The shared connections that the page has used and that are closed with the page: slot and number.
    pub(super) used: Vec<(u32, u32)>,
    /// The time at which the user continues.
    pub(super) deadline: Deadline,
    /// The user sends no requests before this instant.
    pub(super) pause_until: Instant,
    /// Whether the session of an open loop has the maximum number of exchanges in flight that its policy permits.
    pub(super) is_at_limit: bool,
    /// The instant at which the user was last below that limit again.
    pub(super) below_limit_since: Instant,
    /// Whether the user is in the queue of users that may continue.
    pub(super) queued: bool,
    /// Whether the user is in the queue of sessions that wait for a shared connection.
    pub(super) waiting: bool,
}

/// The progress of a session.
#[derive(Debug, Default)]
pub(super) struct SessionProgress {
    number: u64,
    pages_done: u32,
    /// The number of pages; `None`: unlimited.
    pages: Option<u32>,
}

impl SessionProgress {
    pub(super) fn begin(&mut self, number: u64, pages: Option<u32>) {
        *self = SessionProgress {
            number,
            pages_done: 0,
            pages,
        };
    }

    /// Ends the session early, so that the user begins another session when it continues.
    pub(super) fn abandon(&mut self) {
        self.pages_done = 0;
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the number of pages that have ended.
    pub(super) fn pages_done(&self) -> u32 {
        self.pages_done
    }

    /// Records the end of a page. Returns its number, from 0.
    pub(super) fn page_done(&mut self) -> u32 {
        self.pages_done = self.pages_done.saturating_add(1);
        self.pages_done - 1
    }

    /// Returns whether all pages of the session have ended.
    pub(super) fn is_complete(&self) -> bool {
        self.pages.is_some_and(|pages| self.pages_done >= pages)
    }
}

/// Exchanges of a user that wait for a connection. The newest exchange is taken first, unless an exchange has timed
/// out.
#[derive(Debug, Default)]
pub(super) struct Backlog(Vec<Exchange>);

impl Backlog {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, exchange: Exchange) {
        self.0.push(exchange);
    }

    /// Returns the next exchange to pass to a connection.
    pub(super) fn next(&self) -> Option<&Exchange> {
        self.0.last()
    }

    /// Removes the exchange that [`Backlog::next`] returns.
    pub(super) fn take_next(&mut self) -> Option<Exchange> {
        self.0.pop()
    }

    /// Removes an exchange that has timed out.
    pub(super) fn take_overdue(&mut self, now: Instant, timeout: Duration) -> Option<Exchange> {
        let is_overdue = |exchange: &Exchange| exchange.is_overdue(now, timeout);
        let index = self.0.iter().position(is_overdue)?;
        Some(self.0.remove(index))
    }

    /// Returns the earliest planned instant.
    pub(super) fn oldest_plan(&self) -> Option<Instant> {
        self.0.iter().map(Exchange::planned_at).min()
    }

    /// Removes all exchanges.
    pub(super) fn drain(&mut self) -> std::vec::Drain<'_, Exchange> {
        self.0.drain(..)
    }
}

/// The connection for an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// The existing connection in this slot.
    Use(u32),
    /// A new connection.
    Open,
    /// No connection at present.
    Wait,
}

/// The connections of a closed-loop user: for each host, at most the number that the policy allows.
#[derive(Debug, Default)]
pub(super) struct OwnConnections {
    places: Vec<u32>,
    /// The index of the next connection in round-robin order.
    turn: u32,
}

impl OwnConnections {
    /// Chooses the connection for an exchange, out of at most `most`. Without pipelining, this is an idle connection.
    /// With pipelining or streams (`in_turn`), it is the next connection in round-robin order, or a new connection if
    /// there are fewer than `most`. `is_there` selects the connections to the exchange's host, `has_room` the
    /// connections that can take a request.
    pub(super) fn choose(
        &mut self,
        most: u32,
        in_turn: bool,
        is_there: impl Fn(u32) -> bool,
        has_room: impl Fn(u32) -> bool,
    ) -> Choice {
        let there = || self.places.iter().copied().filter(|&place| is_there(place));
        let open = there().count() as u32;
        if in_turn {
            for step in 0..most {
                let turn = (self.turn + step) % most;
                let found = there().nth(turn as usize);
                if found.is_some_and(|place| !has_room(place)) {
                    continue;
                }
                self.turn = turn + 1;
                match found {
                    Some(place) => return Choice::Use(place),
                    None => break,
                }
            }
        } else if let Some(place) = there().find(|&place| has_room(place)) {
            return Choice::Use(place);
        }
        match open < most {
            true => Choice::Open,
            false => Choice::Wait,
        }
    }

    /// Begins a page: the round-robin order starts with the first connection.
    pub(super) fn begin_page(&mut self) {
        self.turn = 0;
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.places.iter().copied()
    }

    pub(super) fn push(&mut self, place: u32) {
        self.places.push(place);
    }

    /// Removes a connection from the list; the caller closes it.
    pub(super) fn pop(&mut self) -> Option<u32> {
        self.places.pop()
    }

    /// Removes a closed connection from the list, if it is listed.
    pub(super) fn remove(&mut self, place: u32) {
        if let Some(index) = self.places.iter().position(|&own| own == place) {
            self.places.swap_remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(places: &[u32]) -> OwnConnections {
        OwnConnections {
            places: places.to_vec(),
            turn: 0,
        }
    }

    #[test]
    fn serially_an_idle_connection_is_used_before_a_new_one_is_opened() {
        let mut own = own(&[7, 8]);
        let mut choose =
            |most, idle: &[u32]| own.choose(most, false, |_| true, |p| idle.contains(&p));
        assert_eq!(choose(2, &[8]), Choice::Use(8));
        assert_eq!(choose(2, &[7, 8]), Choice::Use(7));
        assert_eq!(choose(3, &[]), Choice::Open);
        assert_eq!(choose(2, &[]), Choice::Wait);
    }

    #[test]
    fn each_host_has_connections_of_its_own() {
        let mut own = own(&[7, 8, 9]);
        // Connections in slots with even numbers go to the host.
        let mut choose = |most| own.choose(most, false, |p| p % 2 == 0, |p| p != 8);
        assert_eq!(choose(1), Choice::Wait);
        assert_eq!(choose(2), Choice::Open);
    }

    #[test]
    fn pipelines_are_used_in_turn_and_full_ones_are_passed_over() {
        let mut own = own(&[]);
        assert_eq!(own.choose(3, true, |_| true, |_| true), Choice::Open);
        own.push(7);
        // The second connection is opened before the first one is used again.
        assert_eq!(own.choose(3, true, |_| true, |_| true), Choice::Open);
        own.push(8);
        assert_eq!(own.choose(3, true, |_| true, |_| true), Choice::Open);
        own.push(9);
        for place in [7, 8, 9, 7] {
            assert_eq!(own.choose(3, true, |_| true, |_| true), Choice::Use(place));
        }
        assert_eq!(own.choose(3, true, |_| true, |p| p != 8), Choice::Use(9));
        assert_eq!(own.choose(3, true, |_| true, |_| false), Choice::Wait);
        own.begin_page();
        assert_eq!(own.choose(3, true, |_| true, |_| true), Choice::Use(7));
        own.remove(7);
        own.remove(7);
        assert_eq!(own.iter().collect::<Vec<_>>(), [9, 8]);
    }

    #[test]
    fn the_newest_exchange_leaves_the_backlog_first_unless_one_has_timed_out() {
        let at = Instant::from_nanos;
        let timeout = Duration::from_nanos(100);
        let mut backlog = Backlog::default();
        for (member, planned) in [30, 10, 20].into_iter().enumerate() {
            backlog.push(Exchange::planned(at(planned), 0, 0, member as u16, 0));
        }
        assert_eq!(backlog.oldest_plan(), Some(at(10)));
        assert!(backlog.take_overdue(at(109), timeout).is_none());
        let overdue = backlog.take_overdue(at(110), timeout).unwrap();
        assert_eq!(overdue.member(), 1);
        assert_eq!(backlog.next().unwrap().member(), 2);
        assert_eq!(backlog.take_next().unwrap().member(), 2);
        assert_eq!(backlog.take_next().unwrap().member(), 0);
        assert!(backlog.is_empty() && backlog.oldest_plan().is_none());
    }

    #[test]
    fn a_session_is_complete_when_its_pages_have_ended() {
        let mut session = SessionProgress::default();
        session.begin(4, Some(2));
        assert_eq!((session.number(), session.pages_done()), (4, 0));
        assert_eq!((session.page_done(), session.is_complete()), (0, false));
        assert_eq!((session.page_done(), session.is_complete()), (1, true));
        session.abandon();
        assert_eq!((session.pages_done(), session.is_complete()), (0, false));
        session.begin(5, None);
        session.page_done();
        assert!(!session.is_complete());
    }
}
