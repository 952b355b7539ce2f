//! The open loop: arrivals, and the connections that they share.

use std::collections::VecDeque;
use std::iter::{Skip, StepBy};

use fathometer_http::client::Received;
use fathometer_model::{Failure, Outcome};
use fathometer_workload::arrivals::{Arrivals, Schedule};
use fathometer_workload::plan::PageId;

use super::slot::{Exchange, POOL, State};
use super::user::{Stage, User};
use super::worker::Worker;

/// The arrivals of one loop and its connections.
///
/// Arrivals that wait for a connection are not stored: they are the schedule between the first one not carried
/// out and now. So a server that has stopped costs no memory.
pub(super) struct Pool<'a> {
    schedule: StepBy<Skip<Schedule<'a>>>,
    /// The next arrival to be carried out: number and instant.
    next: Option<(u64, u64)>,
    /// Arrivals carried out so far, and those counted for past intervals.
    taken: u64,
    announced: u64,
    /// A position further on in the schedule, behind the waiting arrivals that have been counted.
    ahead: Option<Ahead<'a>>,
    start: u64,
    /// The most connections.
    most: u32,
    /// How long an arrival may wait and take, in nanoseconds.
    timeout: u64,
    /// Connections that are open or being opened.
    open: u32,
    /// Slots that can take a request. The idle ones are at the back, the most recently used one last. Those
    /// whose pipeline has room are at the front. Slots that no longer can are skipped.
    available: VecDeque<u32>,
    /// Sessions that wait for a connection, and since when.
    waiting: VecDeque<(u64, u32)>,
    free_users: Vec<u32>,
    /// Sessions in progress.
    active: u64,
    /// An arrival is due, and no connection is free.
    blocked: bool,
}

/// A second iterator over the schedule, ahead of the next arrival.
struct Ahead<'a> {
    schedule: StepBy<Skip<Schedule<'a>>>,
    /// Arrivals before `next`.
    before: u64,
    /// The instant of the arrival after those.
    next: Option<u64>,
}

impl<'a> Pool<'a> {
    /// Every `stride`-th arrival from the `first`, with instants from `start` on.
    pub(super) fn new(
        arrivals: &'a Arrivals,
        first: usize,
        stride: usize,
        start: u64,
        most: u32,
        timeout: u64,
    ) -> Pool<'a> {
        let schedule = arrivals.schedule().skip(first).step_by(stride);
        let mut pool = Pool {
            schedule,
            next: None,
            taken: 0,
            announced: 0,
            ahead: None,
            start,
            most,
            timeout,
            open: 0,
            available: VecDeque::new(),
            waiting: VecDeque::new(),
            free_users: Vec::new(),
            active: 0,
            blocked: false,
        };
        pool.draw();
        pool
    }

    fn instant(&self, at: std::time::Duration) -> u64 {
        self.start.saturating_add(at.as_nanos() as u64)
    }

    fn draw(&mut self) {
        let next = self.schedule.next();
        self.next = next.map(|(number, at)| (number, self.instant(at)));
    }

    /// Takes the next arrival.
    fn step(&mut self) -> Option<(u64, u64)> {
        let taken = self.next?;
        self.taken += 1;
        self.draw();
        Some(taken)
    }

    /// Counts the arrivals before `end` that were not counted before; none from `end` on may have been carried
    /// out. The number carried out is known. Only arrivals that the server holds up are searched for, so that
    /// counting takes no time from those that are due.
    pub(super) fn announce(&mut self, end: u64) -> u64 {
        let mut before = self.taken;
        if self.has_arrivals_before(end) {
            let ahead = self.ahead.take().filter(|ahead| ahead.before > before);
            let mut ahead = ahead.unwrap_or_else(|| Ahead {
                schedule: self.schedule.clone(),
                before,
                next: self.next.map(|(_, at)| at),
            });
            while ahead.next.is_some_and(|at| at < end) {
                ahead.before += 1;
                ahead.next = ahead.schedule.next().map(|(_, at)| self.instant(at));
            }
            before = ahead.before;
            self.ahead = Some(ahead);
        }
        let count = before.saturating_sub(self.announced);
        self.announced += count;
        count
    }

    /// Whether an arrival before `end` has not been carried out.
    pub(super) fn has_arrivals_before(&self, end: u64) -> bool {
        self.next.is_some_and(|(_, at)| at < end)
    }

    /// Whether the schedule is over and all its sessions have ended.
    pub(super) fn is_exhausted(&self) -> bool {
        self.next.is_none() && self.active == 0
    }

    /// When the next arrival is due. One that waits for a connection waits until it times out.
    pub(super) fn next_wake(&self, end: u64) -> u64 {
        match self.next {
            Some((_, at)) if at < end && self.blocked => at.saturating_add(self.timeout),
            Some((_, at)) if at < end => at,
            _ => u64::MAX,
        }
    }

    /// A connection has ended.
    pub(super) fn connection_ended(&mut self, place: u32, listed: bool) {
        self.open -= 1;
        // Those that end unused have waited longest: they are at the front.
        if listed && let Some(at) = self.available.iter().position(|&slot| slot == place) {
            self.available.remove(at);
        }
    }
}

impl Worker<'_> {
    /// Gives free connections to the sessions and arrivals that wait for one, in the order of their instants.
    pub(super) fn distribute(&mut self) {
        loop {
            let (now, end) = (self.now, self.tally.edges.end);
            let over = self.shared.is_planned_out() || self.shared.is_stopped();
            let Some(pool) = &mut self.pool else {
                return;
            };
            pool.blocked = false;
            let arrival = pool.next.filter(|&(_, at)| at <= now && at < end && !over);
            let waiting = pool.waiting.front().copied();
            let (since, waiter) = match (waiting, arrival) {
                (None, None) => return,
                (Some((since, user)), Some((_, at))) if since <= at => (since, Some(user)),
                (Some((since, user)), None) => (since, Some(user)),
                (_, Some((_, at))) => (at, None),
            };
            if !self.has_free_connection() {
                let timeout = self.shared.timeout;
                // It timed out before there was a connection: it begins, and fails.
                if let Some((_, at)) = arrival.filter(|(_, at)| at.saturating_add(timeout) <= now) {
                    self.begin_arrival(at);
                    continue;
                }
                if let Some(pool) = &mut self.pool {
                    pool.blocked = arrival.is_some();
                }
                return;
            }
            match waiter {
                Some(user) => {
                    if let Some(pool) = &mut self.pool {
                        pool.waiting.pop_front();
                    }
                    self.users[user as usize].waiting = false;
                    self.advance(user);
                }
                None => self.begin_arrival(since),
            }
        }
    }

    fn begin_arrival(&mut self, at: u64) {
        // What is carried out now does not belong to a past interval.
        self.roll();
        let Some(pool) = &mut self.pool else {
            return;
        };
        let Some((number, _)) = pool.step() else {
            return;
        };
        pool.active += 1;
        let place = match pool.free_users.pop() {
            Some(place) => place,
            None => {
                self.users.push(User::default());
                self.users.len() as u32 - 1
            }
        };
        self.users[place as usize].number = number;
        self.begin_session(place, number);
        self.begin_page(place, at);
        self.advance(place);
    }

    /// A session has ended, or was cut short by the end of the test.
    pub(super) fn end_arrival(&mut self, place: u32, cut: bool) {
        if !cut {
            self.tally.at(self.now).sessions += 1;
        }
        self.users[place as usize].stage = Stage::Parked;
        if let Some(pool) = &mut self.pool {
            pool.active -= 1;
            pool.free_users.push(place);
        }
    }

    /// Whether a connection can take a request, or a new one may be opened.
    fn has_free_connection(&mut self) -> bool {
        let Worker { pool, slots, .. } = self;
        let Some(pool) = pool else {
            return false;
        };
        while let Some(&place) = pool.available.back() {
            let slot = &mut slots[place as usize];
            if slot.listed && slot.has_room() {
                return true;
            }
            slot.listed = false;
            pool.available.pop_back();
        }
        pool.open < pool.most
    }

    /// A connection for a session: the most recently used idle one, else a new one, else one whose pipeline has
    /// room. `None`: none at present.
    pub(super) fn connection_of_pool(
        &mut self,
        place: u32,
        planned: u64,
    ) -> Option<Result<u32, Failure>> {
        let policy = self.shared.policy;
        let depth = u32::from(self.shared.depth());
        let most = u32::from(policy.connections.max(1)) * depth;
        if self.users[place as usize].in_flight >= most {
            return None;
        }
        if !self.has_free_connection() {
            let user = &mut self.users[place as usize];
            if !user.waiting {
                user.waiting = true;
                if let Some(pool) = &mut self.pool {
                    pool.waiting.push_back((planned, place));
                }
            }
            return None;
        }
        let Worker { pool, slots, .. } = &mut *self;
        let pool = pool.as_mut()?;
        if let Some(&found) = pool.available.back() {
            let slot = &mut slots[found as usize];
            if slot.exchanges.is_empty() || pool.open >= pool.most {
                pool.available.pop_back();
                slot.listed = depth > 1;
                if slot.listed {
                    pool.available.push_front(found);
                }
                self.uses(place, found);
                return Some(Ok(found));
            }
        }
        let opened = self.open(POOL, 0);
        if let Ok(slot) = opened {
            if let Some(pool) = &mut self.pool {
                pool.open += 1;
            }
            self.uses(place, slot);
        }
        Some(opened)
    }

    /// Records which connections a page has used, where they are closed with it.
    fn uses(&mut self, place: u32, slot: u32) {
        let connection = (slot, self.slots[slot as usize].number);
        let used = &mut self.users[place as usize].used;
        if self.shared.policy.early_close && !used.contains(&connection) {
            used.push(connection);
        }
    }

    /// Lists a connection that can take a request.
    pub(super) fn list(&mut self, place: u32) {
        let Worker { pool, slots, .. } = self;
        let slot = &mut slots[place as usize];
        let (Some(pool), POOL, State::Open) = (pool, slot.owner, slot.state) else {
            return;
        };
        if slot.listed || !slot.has_room() {
            return;
        }
        slot.listed = true;
        match slot.exchanges.is_empty() {
            true => pool.available.push_back(place),
            false => pool.available.push_front(place),
        }
    }

    /// Counts the arrivals for which no connection was ever free.
    pub(super) fn leave_arrivals(&mut self) {
        let end = self.tally.edges.end.min(self.now);
        let over = self.shared.is_planned_out();
        loop {
            let Some(pool) = &mut self.pool else {
                return;
            };
            if over || !pool.has_arrivals_before(end) {
                return;
            }
            let Some((number, planned)) = pool.step() else {
                return;
            };
            let page = match self.shared.script(number) {
                Some(script) => script.steps[0].0,
                None if self.shared.plan.sessions.pages.is_none() => self.shared.page(number),
                None => PageId(0),
            };
            let target = self.shared.plan.pages.get(page).members[0].0;
            let exchange = Exchange::planned(planned, 0, page.0, 0, target);
            self.tally.planned(planned, true);
            let nothing = Received::default();
            self.tally.failed(&exchange, None, &nothing, self.now);
            let outcome = Outcome::Failed(Failure::LocalAbort);
            self.tally.row(
                &exchange,
                number as u32,
                u32::MAX,
                &nothing,
                outcome,
                self.now,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use fathometer_workload::arrivals::Profile;

    use super::*;

    const MILLI: u64 = 1_000_000;

    #[test]
    fn arrivals_are_counted_once_whether_they_are_carried_out_or_wait() {
        let arrivals = Arrivals::constant(Profile::constant(1000.0).unwrap());
        // The odd ones of a loop of two, 1 ms, 3 ms, 5 ms … after the start.
        let mut pool = Pool::new(&arrivals, 1, 2, 7 * MILLI, 10, 1000 * MILLI);
        let at = |millis: u64| (7 + millis) * MILLI;
        assert_eq!(pool.announce(at(0)), 0);
        assert_eq!(
            (pool.step(), pool.step()),
            (Some((1, at(1))), Some((3, at(3))))
        );
        assert_eq!(pool.announce(at(4)), 2);
        assert_eq!(pool.announce(at(4)), 0);
        // Nothing is carried out for a while.
        assert_eq!(pool.announce(at(10)), 3);
        assert_eq!(pool.announce(at(20)), 5);
        // Some of what has waited, then all of it and one more.
        assert_eq!(pool.step(), Some((5, at(5))));
        assert_eq!(pool.announce(at(30)), 5);
        while pool.has_arrivals_before(at(32)) {
            pool.step();
        }
        assert_eq!(pool.announce(at(32)), 1);
        // The server answers again, and stops once more.
        while pool.has_arrivals_before(at(40)) {
            pool.step();
        }
        assert_eq!(pool.announce(at(50)), 9);
    }
}
