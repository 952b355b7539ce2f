//! Users: pages, pauses and sessions.

use fathometer_model::Failure;
use fathometer_workload::plan::{PageId, PageTargets};

use super::CONNECT_PAUSE;
use super::shared::Shared;
use super::slot::{Exchange, POOL, State};
use super::timers::Timer;
use super::worker::Worker;

/// For a pause of at least this long, in nanoseconds, freeing the buffers of a user's connections is
/// worthwhile.
const LONG_PAUSE: u64 = 1_000_000_000;

/// The state of a user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// Doing nothing.
    #[default]
    Parked,
    /// Waiting to start, or to continue with the next page.
    Pause,
    /// Requesting a page.
    Page,
}

/// A user of a closed loop, or a session of an open one.
#[derive(Debug, Default)]
pub(super) struct User {
    /// Its number in the whole test; that of the arrival in an open loop.
    pub(super) number: u64,
    pub(super) stage: Stage,
    session: u64,
    /// Pages of the session that have ended.
    pages_done: u32,
    /// Pages of the session; `None`: it never ends.
    pages: Option<u32>,
    page: u32,
    /// When the page was to begin.
    started: u64,
    /// Members of the page that have been requested.
    asked: u32,
    /// Members of the page that may be requested, in a page whose base names all others.
    known: u32,
    /// Since when they may be requested.
    named_at: u64,
    /// The same, one by one, in a page with dependencies: index in the page, and when it was named.
    named: Vec<(u16, u64)>,
    /// A member of the page failed.
    failed: bool,
    /// The test ended before the page did.
    cut: bool,
    /// Connections of its own that were established for its page.
    pub(super) connected: u32,
    pub(super) in_flight: u32,
    /// Exchanges that wait for a connection: retries, and those planned when no connection had room.
    pub(super) again: Vec<Exchange>,
    pub(super) slots: Vec<u32>,
    /// Shared connections that its page has used and that are closed with it: slot and number.
    pub(super) used: Vec<(u32, u32)>,
    /// Which of its connections is next in turn.
    turn: u32,
    /// When its timer is due; zero when it has none.
    wake_at: u64,
    /// It requests nothing before this.
    pub(super) pause_until: u64,
    /// It is on the list of users that may continue.
    pub(super) queued: bool,
    /// It is on the list of users that wait for a connection.
    pub(super) waiting: bool,
}

impl User {
    /// Whether all pages of its session have ended.
    fn is_through(&self) -> bool {
        self.pages.is_some_and(|pages| self.pages_done >= pages)
    }

    fn targets<'p>(&self, shared: &'p Shared) -> PageTargets<'p> {
        shared.plan.pages.get(PageId(self.page))
    }
}

/// How many users there are, and how that changes.
#[derive(Debug, Clone)]
pub(super) struct Population {
    /// The current number of users in the whole test.
    pub(super) active: u32,
    pub(super) start_interval: u64,
    /// Changes: from when on, and how many.
    pub(super) steps: Vec<(u64, u32)>,
    /// The number of this loop's first user, and the distance to its next one.
    pub(super) first: u32,
    pub(super) stride: u32,
}

impl Population {
    /// The most users of this loop at any time.
    fn most(&self) -> u32 {
        let steps = self.steps.iter().map(|&(_, users)| users);
        let most = steps.fold(self.active, u32::max);
        most.saturating_sub(self.first).div_ceil(self.stride)
    }
}

impl Worker<'_> {
    /// Creates the users and sets their timers.
    pub(super) fn enter(&mut self) {
        let Some(population) = &self.population else {
            return;
        };
        let population = population.clone();
        let start = self.tally.edges.start;
        for place in 0..population.most() {
            let number = population.first + place * population.stride;
            self.users.push(User {
                number: number.into(),
                ..User::default()
            });
            if number < population.active {
                self.sleep_until(place, start + u64::from(number) * population.start_interval);
            }
        }
        for (step, &(after, _)) in population.steps.iter().enumerate() {
            self.timers.set(start + after, Timer::Step(step as u32));
        }
    }

    /// The number of users changes.
    pub(super) fn step_users(&mut self, step: u32, at: u64) {
        let Some(population) = &mut self.population else {
            return;
        };
        let before = population.active;
        population.active = population.steps[step as usize].1;
        let (active, interval) = (population.active, population.start_interval);
        for place in 0..self.users.len() as u32 {
            let user = &self.users[place as usize];
            if user.stage == Stage::Parked && user.number < u64::from(active) {
                let turn = user.number.saturating_sub(before.into());
                self.sleep_until(place, at + turn * interval);
            }
        }
    }

    fn sleep_until(&mut self, place: u32, at: u64) {
        let user = &mut self.users[place as usize];
        user.stage = Stage::Pause;
        user.wake_at = at;
        self.timers.set(at, Timer::User(place));
    }

    pub(super) fn user_is_due(&mut self, place: u32, at: u64) {
        let user = &mut self.users[place as usize];
        if user.wake_at != at {
            return;
        }
        user.wake_at = 0;
        if user.stage == Stage::Pause {
            if at >= self.tally.edges.end || self.is_planned_out() {
                return self.park(place);
            }
            self.go_on(place, at);
        }
        self.make_ready(place);
    }

    /// Begins the next page at `at`, of a new session if the last one has ended.
    fn go_on(&mut self, place: u32, at: u64) {
        if self.is_superfluous(place) {
            return self.park(place);
        }
        let user = &self.users[place as usize];
        let (begun, through) = (user.pages_done > 0, user.is_through());
        if begun && through {
            self.tally.at(self.now).sessions += 1;
            self.close_connections(place);
        }
        if !begun || through {
            let session = self.shared.next_session();
            self.begin_session(place, session);
        }
        self.begin_page(place, at);
    }

    /// Whether a user of a closed loop exceeds the current number of users.
    fn is_superfluous(&self, place: u32) -> bool {
        let number = self.users[place as usize].number;
        self.population
            .as_ref()
            .is_some_and(|population| number >= u64::from(population.active))
    }

    /// Parks a user for now.
    fn park(&mut self, place: u32) {
        self.close_connections(place);
        let user = &mut self.users[place as usize];
        user.stage = Stage::Parked;
        user.pages_done = 0;
    }

    pub(super) fn begin_session(&mut self, place: u32, session: u64) {
        let pages = self.shared.pages_of(session);
        let open = self.pool.is_some();
        let user = &mut self.users[place as usize];
        user.session = session;
        user.pages_done = 0;
        user.pages = if open { pages.or(Some(1)) } else { pages };
    }

    pub(super) fn begin_page(&mut self, place: u32, at: u64) {
        let shared = self.shared;
        let alone = self.pool.is_some() && shared.plan.sessions.pages.is_none();
        let user = &mut self.users[place as usize];
        let page = match shared.script(user.session) {
            Some(script) => script.steps[user.pages_done as usize].0,
            // So the plan of an open loop does not depend on the order of threads.
            None if alone => shared.page(user.session),
            None if shared.fills => PageId(0),
            None => shared.next_page(),
        };
        user.stage = Stage::Page;
        user.page = page.0;
        user.started = at;
        user.asked = 0;
        user.known = 1;
        user.named_at = at;
        user.named.clear();
        user.failed = false;
        user.cut = false;
        user.turn = 0;
    }

    /// Does all that a user can do without waiting.
    pub(super) fn advance(&mut self, place: u32) {
        if self.shared.fills && self.pool.is_none() {
            return self.fill(place);
        }
        while self.users[place as usize].stage == Stage::Page && self.ask_for_page(place) {
            self.end_page(place);
        }
    }

    /// Requests what can be requested. True: the page is over.
    fn ask_for_page(&mut self, place: u32) -> bool {
        if self.is_paused(place) {
            return false;
        }
        loop {
            if let Some(exchange) = self.take_overdue(place) {
                self.fail_unsent(&exchange, Failure::TimedOut);
                return false;
            }
            if let Some(&exchange) = self.users[place as usize].again.last() {
                let Some(slot) = self.connection(place, &exchange) else {
                    self.wake_for_oldest(place);
                    return false;
                };
                self.users[place as usize].again.pop();
                match slot {
                    Ok(slot) => self.ask(slot, exchange),
                    Err(failure) => {
                        self.fail_unsent(&exchange, failure);
                        return false;
                    }
                }
                continue;
            }
            let user = &self.users[place as usize];
            let Some((member, planned)) = self.next_member(user) else {
                return user.in_flight == 0;
            };
            let arrived = member == 0 && self.pool.is_some() && planned < self.tally.edges.end;
            let over = self.shared.is_stopped()
                || self.shared.is_planned_out()
                || (self.now >= self.tally.edges.end && !arrived);
            if over {
                let user = &mut self.users[place as usize];
                user.cut = true;
                return user.in_flight == 0;
            }
            let user = &self.users[place as usize];
            let target = user.targets(self.shared).members[usize::from(member)].0;
            let exchange = Exchange::planned(planned, place, user.page, member, target);
            let waits_alone = user.in_flight == 0;
            let slot = match self.is_overdue(&exchange) {
                true => Some(Err(Failure::TimedOut)),
                false => self.connection(place, &exchange),
            };
            // While others are in flight, the next one is planned when there is a connection for it.
            if slot.is_none() && !waits_alone {
                return false;
            }
            if !self.plan(&exchange, arrived) {
                self.users[place as usize].cut = true;
                continue;
            }
            self.users[place as usize].asked += 1;
            let Some(slot) = slot else {
                return self.wait_for_connection(place, exchange);
            };
            match slot {
                Ok(slot) => self.ask(slot, exchange),
                Err(failure) => {
                    self.fail_unsent(&exchange, failure);
                    return false;
                }
            }
        }
    }

    /// Keeps an exchange of a user that has nothing else in flight, until a connection has room for it or it
    /// times out. The page is not over.
    fn wait_for_connection(&mut self, place: u32, exchange: Exchange) -> bool {
        self.users[place as usize].again.push(exchange);
        self.wake_by(place, self.overdue_at(&exchange));
        false
    }

    /// Takes an exchange of a user that waits for a connection and has timed out.
    fn take_overdue(&mut self, place: u32) -> Option<Exchange> {
        let (limit, now) = (self.shared.timeout, self.now);
        let again = &mut self.users[place as usize].again;
        let is_overdue = |exchange: &Exchange| exchange.planned.saturating_add(limit) <= now;
        let at = again.iter().position(is_overdue)?;
        Some(again.remove(at))
    }

    /// Lets a user continue when the first of its exchanges that wait for a connection times out.
    fn wake_for_oldest(&mut self, place: u32) {
        let again = &self.users[place as usize].again;
        if let Some(planned) = again.iter().map(|exchange| exchange.planned).min() {
            self.wake_by(place, planned.saturating_add(self.shared.timeout));
        }
    }

    /// Lets a user continue at `at` at the latest.
    fn wake_by(&mut self, place: u32, at: u64) {
        let user = &mut self.users[place as usize];
        if user.wake_at == 0 || at < user.wake_at {
            user.wake_at = at;
            self.timers.set(at, Timer::User(place));
        }
    }

    /// The next member that may be requested, and since when.
    fn next_member(&self, user: &User) -> Option<(u16, u64)> {
        if user.cut {
            return None;
        }
        if user.asked == 0 {
            return Some((0, user.started));
        }
        if user.targets(self.shared).named_by.is_empty() {
            return (user.asked < user.known).then_some((user.asked as u16, user.named_at));
        }
        user.named.get(user.asked as usize - 1).copied()
    }

    /// Plans an exchange, unless all that may be planned have been.
    fn plan(&mut self, exchange: &Exchange, announced: bool) -> bool {
        let counted = exchange.planned < self.tally.edges.measured || self.shared.take_exchange();
        if counted {
            self.tally.planned(exchange.planned, announced);
            self.pending += 1;
        }
        counted
    }

    /// A connection for an exchange; `None`: none yet.
    fn connection(&mut self, place: u32, exchange: &Exchange) -> Option<Result<u32, Failure>> {
        let found = match self.pool.is_some() {
            true => self.connection_of_pool(place, exchange.planned),
            false => self.connection_of_user(place, self.shared.host_of(exchange.member)),
        };
        if let Some(Err(_)) = found
            && self.pool.is_none()
        {
            self.users[place as usize].pause_until = self.now + CONNECT_PAUSE.as_nanos() as u64;
        }
        found
    }

    /// A connection of the user's own to a host: serially an idle one, pipelined or with streams the
    /// next in turn, a new one where there is none yet.
    fn connection_of_user(&mut self, place: u32, host: u16) -> Option<Result<u32, Failure>> {
        let policy = &self.shared.policy;
        let most = u32::from(policy.connections.max(1));
        let user = &self.users[place as usize];
        let is_there = |slot: u32| self.slots[slot as usize].host == host;
        let usable = |slot: u32| self.slots[slot as usize].has_room();
        let there = || user.slots.iter().copied().filter(|&slot| is_there(slot));
        let open = there().count() as u32;
        if policy.pipeline.is_none() && !policy.protocol.multiplexes() {
            if let Some(slot) = there().find(|&slot| usable(slot)) {
                return Some(Ok(slot));
            }
        } else {
            for step in 0..most {
                let turn = (user.turn + step) % most;
                match there().nth(turn as usize) {
                    Some(slot) if !usable(slot) => {}
                    Some(slot) => {
                        self.users[place as usize].turn = turn + 1;
                        return Some(Ok(slot));
                    }
                    None => {
                        self.users[place as usize].turn = turn + 1;
                        break;
                    }
                }
            }
        }
        if open >= most {
            return None;
        }
        let opened = self.open(place, host);
        if let Ok(slot) = opened {
            self.users[place as usize].slots.push(slot);
        }
        Some(opened)
    }

    /// Whether the user has to wait because it could not connect; if so, sets its timer.
    fn is_paused(&mut self, place: u32) -> bool {
        let user = &mut self.users[place as usize];
        let until = user.pause_until;
        if until <= self.now {
            return false;
        }
        self.wake_by(place, until);
        true
    }

    /// Fills the pipelines of a user, or its streams; every exchange is a page of its own. A pipeline is filled
    /// when half of it has been answered, so that requests leave in one write and not one by one.
    fn fill(&mut self, place: u32) {
        if self.users[place as usize].stage != Stage::Page
            || self.is_paused(place)
            || self.is_half_full(place)
        {
            return;
        }
        loop {
            if let Some(exchange) = self.take_overdue(place) {
                return self.fail_unsent(&exchange, Failure::TimedOut);
            }
            let again = self.users[place as usize].again.last().copied();
            let exchange = match again {
                Some(exchange) => exchange,
                None if self.is_planned_out() => return,
                None => Exchange::planned(self.now, place, 0, 0, 0),
            };
            let slot = self.connection(place, &exchange);
            let exchange = match again {
                Some(_) if slot.is_none() => return self.wake_for_oldest(place),
                Some(exchange) => {
                    self.users[place as usize].again.pop();
                    exchange
                }
                // A user always waits for something: with nothing else in flight, for a stream.
                None if slot.is_none() && self.users[place as usize].in_flight > 0 => return,
                None if self.is_superfluous(place) => return self.leave_filling(place),
                None if !self.plan(&exchange, false) => return,
                None => {
                    let page = self.shared.next_page();
                    Exchange {
                        page: page.0,
                        target: self.shared.plan.pages.get(page).members[0].0,
                        ..exchange
                    }
                }
            };
            match slot {
                Some(Ok(slot)) => self.ask(slot, exchange),
                Some(Err(failure)) => return self.fail_unsent(&exchange, failure),
                None => {
                    self.wait_for_connection(place, exchange);
                    return;
                }
            }
        }
    }

    /// Whether every pipeline of a user is open and more than half full.
    fn is_half_full(&self, place: u32) -> bool {
        let user = &self.users[place as usize];
        let policy = &self.shared.policy;
        let Some(depth) = policy.pipeline else {
            return false;
        };
        let half = usize::from(depth) / 2;
        user.again.is_empty()
            && user.slots.len() >= usize::from(policy.connections.max(1))
            && user
                .slots
                .iter()
                .all(|&slot| self.slots[slot as usize].exchanges.len() > half)
    }

    /// Parks a user that keeps its pipelines full, once they are empty.
    fn leave_filling(&mut self, place: u32) {
        if self.users[place as usize].in_flight == 0 {
            self.park(place);
        }
    }

    /// An exchange has ended, complete or not.
    pub(super) fn resolved(&mut self, exchange: &Exchange, complete: bool) {
        self.pending -= 1;
        self.ended += 1;
        let now = self.now;
        let fills = self.shared.fills && self.pool.is_none();
        let user = &mut self.users[exchange.user as usize];
        user.in_flight -= 1;
        if fills {
            self.tally.page(exchange.planned, now, complete, 0);
        } else if complete {
            let page = user.targets(self.shared);
            if page.named_by.is_empty() {
                if exchange.member == 0 {
                    user.known = page.members.len() as u32;
                    user.named_at = now;
                }
            } else {
                let named_by = page.named_by.iter().enumerate().skip(1);
                let named = named_by.filter(|&(_, &by)| by == exchange.member);
                user.named
                    .extend(named.map(|(member, _)| (member as u16, now)));
            }
        } else {
            user.failed = true;
        }
        self.make_ready(exchange.user);
    }

    fn end_page(&mut self, place: u32) {
        let user = &mut self.users[place as usize];
        user.pages_done = user.pages_done.saturating_add(1);
        let (session, page) = (user.session, user.pages_done - 1);
        let connected = std::mem::take(&mut user.connected);
        if !user.cut {
            self.tally
                .page(user.started, self.now, !user.failed, connected);
        }
        let through = user.is_through();
        if self.shared.policy.early_close {
            match self.pool.is_some() {
                true => self.close_used(place),
                false => self.close_connections(place),
            }
        }
        if self.pool.is_some() && (through || self.is_planned_out()) {
            let cut = !through;
            return self.end_arrival(place, cut);
        }
        if self.is_planned_out() || self.is_superfluous(place) {
            return self.park(place);
        }
        let pause = self.shared.pause_after(session, page);
        if pause == 0 {
            return self.go_on_at_once(place);
        }
        if pause >= LONG_PAUSE {
            let Worker { users, slots, .. } = self;
            for &slot in &users[place as usize].slots {
                slots[slot as usize].shrink();
            }
        }
        self.sleep_until(place, self.now + pause);
    }

    fn go_on_at_once(&mut self, place: u32) {
        let now = self.now;
        match self.pool.is_some() {
            true => self.begin_page(place, now),
            false => self.go_on(place, now),
        }
    }

    /// Closes all connections of a user.
    fn close_connections(&mut self, place: u32) {
        while let Some(slot) = self.users[place as usize].slots.pop() {
            self.finish(slot);
        }
    }

    /// Closes the shared connections that a page has used, except those that another page uses now.
    fn close_used(&mut self, place: u32) {
        while let Some((used, number)) = self.users[place as usize].used.pop() {
            let slot = &self.slots[used as usize];
            let is_the_same = slot.number == number && slot.owner == POOL;
            if is_the_same && slot.state == State::Open && slot.exchanges.is_empty() {
                self.finish(used);
            }
        }
    }

    /// Takes a connection from its owner: it will carry nothing more.
    pub(super) fn detach(&mut self, place: u32) {
        let slot = &mut self.slots[place as usize];
        let owner = std::mem::replace(&mut slot.owner, NOBODY);
        if owner == POOL {
            let listed = std::mem::take(&mut slot.listed);
            if let Some(pool) = &mut self.pool {
                pool.connection_ended(place, listed);
            }
        } else if let Some(user) = self.users.get_mut(owner as usize)
            && let Some(at) = user.slots.iter().position(|&slot| slot == place)
        {
            user.slots.swap_remove(at);
        }
    }
}

/// The owner of a connection that is ending.
const NOBODY: u32 = u32::MAX - 1;
