//! The users of a closed loop, or the sessions of an open one: pages, pauses and sessions.

mod arrivals;
mod open;
mod page;
mod pool;
mod population;
mod user;

use std::time::Duration;

use fathometer_http::client::Received;
use fathometer_model::{Failure, Instant, Outcome};
use fathometer_workload::plan::{PageId, PageTargets};

use super::CONNECT_PAUSE;
use super::connections::{Connections, Owner, Requester};
use super::context::Context;
use super::exchange::Exchange;
use super::shared::Shared;
use super::timers::{NEVER, Timer};
use super::turns::Turns;
use open::Next;
use user::{Choice, Stage, User};

pub(super) use open::OpenLoop;
pub(super) use population::Population;

/// For a pause of at least this long, freeing the buffers of a user's connections is worthwhile.
const LONG_PAUSE: Duration = Duration::from_secs(1);

/// The users of a closed loop, or the sessions of an open one.
///
/// Responsible for what is requested and when: it plans exchanges and gives them to [`Connections`], which report
/// how they end. Every planned exchange is in flight on a connection, in the backlog of its user, or has ended.
/// Users continue in the order of the events that let them.
pub(super) struct Sessions<'a> {
    source: SessionSource<'a>,
    users: Vec<User>,
    /// Users that may be able to continue.
    ready: Turns,
    /// Exchanges planned that have not ended.
    in_flight: u64,
    /// Exchanges that have ended.
    ended: u64,
}

/// Where sessions come from.
pub(super) enum SessionSource<'a> {
    /// The users of a closed loop.
    Users(Population),
    /// The arrivals of an open one.
    Arrivals(Box<OpenLoop<'a>>),
}

/// A connection for an exchange, or why none could be opened; `None`: none at present.
type Found = Option<Result<u32, Failure>>;

impl<'a> Sessions<'a> {
    pub(super) fn new(source: SessionSource<'a>) -> Sessions<'a> {
        Sessions {
            source,
            users: Vec::new(),
            ready: Turns::default(),
            in_flight: 0,
            ended: 0,
        }
    }

    fn open_loop(&self) -> Option<&OpenLoop<'a>> {
        match &self.source {
            SessionSource::Users(_) => None,
            SessionSource::Arrivals(open) => Some(open),
        }
    }

    fn open_loop_mut(&mut self) -> Option<&mut OpenLoop<'a>> {
        match &mut self.source {
            SessionSource::Users(_) => None,
            SessionSource::Arrivals(open) => Some(open),
        }
    }

    fn is_open_loop(&self) -> bool {
        self.open_loop().is_some()
    }

    /// Creates the users of a closed loop and sets their timers.
    pub(super) fn enter(&mut self, context: &mut Context<'_>) {
        let SessionSource::Users(population) = &self.source else {
            return;
        };
        let start = context.tally.edges().start;
        for number in population.numbers() {
            let mut user = User {
                number: number.into(),
                ..User::default()
            };
            if let Some(at) = population.start(number, start) {
                let timer = Timer::User(self.users.len() as u32);
                user.stage = Stage::Pause;
                user.deadline.set(at, timer, &mut context.timers);
                context.tally.paused(start, at);
            }
            self.users.push(user);
        }
        for (step, at) in population.changes(start).enumerate() {
            context.timers.set(at, Timer::Step(step as u32));
        }
    }

    /// Exchanges that have ended, and those in flight, where users wait for their responses.
    pub(super) fn waited_for(&self) -> Option<(u64, u64)> {
        (!self.is_open_loop()).then_some((self.ended, self.in_flight))
    }

    /// When the next arrival is due. Once all exchanges are planned, later arrivals are not carried out.
    pub(super) fn next_arrival(&self, context: &Context<'_>) -> Instant {
        match self.open_loop() {
            Some(open) if !context.shared.is_planned_out() => {
                open.next_wake(context.tally.edges().end)
            }
            _ => NEVER,
        }
    }

    /// Whether all exchanges have ended and no more will be planned.
    pub(super) fn is_over(&self, context: &Context<'_>) -> bool {
        let end = context.tally.edges().end;
        let waiting = self.open_loop().is_some_and(|open| {
            !context.shared.is_planned_out() && open.arrivals.next_before(end).is_some()
        });
        // The schedule of an open loop may end by itself.
        let is_exhausted = || self.open_loop().is_some_and(OpenLoop::is_exhausted);
        self.in_flight == 0 && !waiting && (context.is_planned_out() || is_exhausted())
    }

    /// Closes the current interval, which ends at `end`.
    pub(super) fn close_interval(&mut self, context: &mut Context<'_>, end: Instant) {
        if let SessionSource::Arrivals(open) = &mut self.source {
            // When all permitted exchanges are planned, waiting arrivals will not be. A stopped test does not
            // wait for a loop that is at least one interval behind to count its arrivals.
            let shared = context.shared;
            let is_late = context.now().since(end) >= context.tally.interval();
            let end = match shared.is_planned_out() || (is_late && shared.is_stopped()) {
                true => Instant::ZERO,
                false => end.min(context.tally.edges().end),
            };
            context.tally.announce(open.arrivals.announce(end));
        }
        context.tally.close_interval();
    }

    /// Lets users continue, so that what they plan has the instant of the event that let them.
    pub(super) fn advance_ready(&mut self, connections: &mut Connections<'_>) {
        while let Some(place) = self.ready.next() {
            self.user(place).queued = false;
            self.advance(connections, place);
        }
    }

    /// Whether no user may be able to continue.
    pub(super) fn is_settled(&self) -> bool {
        self.ready.is_empty()
    }

    /// Gives free connections to the sessions and arrivals of an open loop that wait for one.
    pub(super) fn distribute(&mut self, connections: &mut Connections<'_>) {
        loop {
            let SessionSource::Arrivals(open) = &mut self.source else {
                return;
            };
            let context = &connections.context;
            let end = match context.shared.is_planned_out() || context.shared.is_stopped() {
                true => Instant::ZERO,
                false => context.tally.edges().end,
            };
            let has_room = |place| connections.has_room(place);
            match open.next(context.now(), end, has_room) {
                None => return,
                Some(Next::Session(place)) => {
                    self.user(place).waiting = false;
                    self.advance(connections, place);
                }
                Some(Next::Arrival(at)) => self.begin_arrival(connections, at),
            }
        }
    }

    fn begin_arrival(&mut self, connections: &mut Connections<'_>, at: Instant) {
        // What is carried out now does not belong to a past interval.
        self.close_past_intervals(&mut connections.context);
        let Some((arrival, free_user)) = self.open_loop_mut().and_then(OpenLoop::begin) else {
            return;
        };
        let place = free_user.unwrap_or_else(|| {
            self.users.push(User::default());
            self.users.len() as u32 - 1
        });
        self.user(place).number = arrival.number;
        self.begin_session(connections.context.shared, place, arrival.number);
        self.begin_page(connections.context.shared, place, at);
        self.advance(connections, place);
    }

    /// The session of an arrival has ended, or was cut short by the end of the test.
    fn end_arrival(&mut self, context: &mut Context<'_>, place: u32, cut: bool) {
        if !cut {
            context.tally.session_ended(context.now());
        }
        self.user(place).stage = Stage::Parked;
        if let Some(open) = self.open_loop_mut() {
            open.end(place);
        }
    }

    /// Counts the exchanges that have not ended when the test is over: `left`, with the numbers of their
    /// connections, those without a connection, and the arrivals for which no connection was ever free.
    pub(super) fn leave(&mut self, context: &mut Context<'_>, mut left: Vec<(Exchange, u32)>) {
        for user in &mut self.users {
            left.extend(user.backlog.drain().map(|exchange| (exchange, u32::MAX)));
        }
        for (exchange, connection) in left {
            let user = self.number(&exchange);
            unfinished(context, &exchange, user, connection);
        }
        let end = context.tally.edges().end.min(context.now());
        let shared = context.shared;
        while let Some(open) = self.open_loop_mut()
            && !shared.is_planned_out()
            && open.arrivals.next_before(end).is_some()
            && let Some(arrival) = open.arrivals.take()
        {
            let page = match shared.script(arrival.number) {
                Some(script) => script.steps[0].0,
                None if shared.plan.sessions.pages.is_none() => shared.page(arrival.number),
                None => PageId(0),
            };
            let target = shared.plan.pages.get(page).members[0].0;
            let exchange = Exchange::planned(arrival.at, 0, page.0, 0, target);
            context.tally.planned(arrival.at, true);
            unfinished(context, &exchange, arrival.number as u32, u32::MAX);
        }
    }

    /// Lets a user continue as soon as the current step is done.
    fn make_ready(&mut self, place: u32) {
        let user = &mut self.users[place as usize];
        self.ready.add(place, &mut user.queued);
    }

    fn user(&mut self, place: u32) -> &mut User {
        &mut self.users[place as usize]
    }
}

/// Counts an exchange that has not ended when the test is over.
fn unfinished(context: &mut Context<'_>, exchange: &Exchange, user: u32, connection: u32) {
    let (nothing, now) = (Received::default(), context.now());
    context.tally.failed(exchange, None, &nothing, now);
    let outcome = Outcome::Failed(Failure::LocalAbort);
    context
        .tally
        .row(exchange, user, connection, &nothing, outcome, now);
}

impl Requester for Sessions<'_> {
    fn number(&self, exchange: &Exchange) -> u32 {
        self.users[exchange.user() as usize].number as u32
    }

    fn has_connected(&mut self, owner: Owner) {
        if let Owner::User(place) = owner {
            self.user(place).connected += 1;
        }
    }

    fn has_not_connected(&mut self, owner: Owner, now: Instant) {
        if let Owner::User(place) = owner {
            self.user(place).pause_until = now + CONNECT_PAUSE;
        }
    }

    fn has_lost(&mut self, owner: Owner, place: u32) {
        match owner {
            Owner::User(user) => self.user(user).connections.remove(place),
            Owner::Pool => {
                if let Some(open) = self.open_loop_mut() {
                    open.pool.ended(place);
                }
            }
            Owner::Nothing => {}
        }
    }

    fn offer(&mut self, place: u32, is_idle: bool) {
        if let Some(open) = self.open_loop_mut() {
            open.pool.offer(place, is_idle);
        }
    }

    fn has_room(&mut self, owner: Owner) {
        if let Owner::User(place) = owner {
            self.make_ready(place);
        }
    }

    fn retry(&mut self, exchange: Exchange) {
        let user = self.user(exchange.user());
        user.in_flight -= 1;
        user.backlog.push(exchange);
        self.make_ready(exchange.user());
    }

    fn close_past_intervals(&mut self, context: &mut Context<'_>) {
        while context.now() >= context.tally.interval_end() {
            let end = context.tally.interval_end();
            self.close_interval(context, end);
        }
    }

    fn has_ended(&mut self, context: &mut Context<'_>, exchange: &Exchange, complete: bool) {
        self.in_flight -= 1;
        self.ended += 1;
        let now = context.now();
        let fills = context.shared.fills && !self.is_open_loop();
        let user = self.user(exchange.user());
        user.in_flight -= 1;
        if fills {
            context.tally.page(exchange.planned_at(), now, complete, 0);
        } else if complete {
            let targets = targets(context.shared, user);
            user.page.completed(exchange.member(), targets, now);
        } else {
            user.page.failed();
        }
        self.make_ready(exchange.user());
    }
}

/// The members of the page that a user requests.
fn targets<'p>(shared: &'p Shared, user: &User) -> PageTargets<'p> {
    shared.plan.pages.get(user.page.page())
}

/// Pages and sessions.
impl Sessions<'_> {
    /// The number of users changes.
    pub(super) fn change_population(&mut self, context: &mut Context<'_>, step: u32, at: Instant) {
        let SessionSource::Users(population) = &mut self.source else {
            return;
        };
        let start = population.change(step, at);
        for place in 0..self.users.len() as u32 {
            let user = self.user(place);
            if user.stage == Stage::Parked
                && let Some(at) = start(user.number as u32)
            {
                self.sleep_until(context, place, at);
            }
        }
    }

    fn sleep_until(&mut self, context: &mut Context<'_>, place: u32, at: Instant) {
        let user = self.user(place);
        user.stage = Stage::Pause;
        user.deadline
            .set(at, Timer::User(place), &mut context.timers);
    }

    /// Lets a user continue at `at` at the latest.
    fn wake_by(&mut self, context: &mut Context<'_>, place: u32, at: Instant) {
        let deadline = &mut self.user(place).deadline;
        deadline.set_by(at, Timer::User(place), &mut context.timers);
    }

    /// The timer of a user is due, which was set for `at`.
    pub(super) fn user_is_due(
        &mut self,
        connections: &mut Connections<'_>,
        place: u32,
        at: Instant,
    ) {
        let user = self.user(place);
        if !user.deadline.is_reached(at) {
            return;
        }
        if user.stage == Stage::Pause {
            if at >= connections.context.tally.edges().end || connections.context.is_planned_out() {
                return self.park(connections, place);
            }
            self.go_on(connections, place, at);
        }
        self.make_ready(place);
    }

    /// Begins the next page at `at`, of a new session if the last one has ended.
    fn go_on(&mut self, connections: &mut Connections<'_>, place: u32, at: Instant) {
        if self.is_superfluous(place) {
            return self.park(connections, place);
        }
        let session = &self.user(place).session;
        let (begun, through) = (session.pages_done() > 0, session.is_through());
        if begun && through {
            let context = &mut connections.context;
            context.tally.session_ended(context.now());
            self.close_connections(connections, place);
        }
        if !begun || through {
            let session = connections.context.shared.next_session();
            self.begin_session(connections.context.shared, place, session);
        }
        self.begin_page(connections.context.shared, place, at);
    }

    /// Whether a user of a closed loop exceeds the current number of users.
    fn is_superfluous(&self, place: u32) -> bool {
        match &self.source {
            SessionSource::Users(population) => {
                !population.is_active(self.users[place as usize].number as u32)
            }
            SessionSource::Arrivals(_) => false,
        }
    }

    /// Parks a user for now.
    fn park(&mut self, connections: &mut Connections<'_>, place: u32) {
        self.close_connections(connections, place);
        let user = self.user(place);
        user.stage = Stage::Parked;
        user.session.abandon();
    }

    fn begin_session(&mut self, shared: &Shared, place: u32, session: u64) {
        let pages = shared.pages_of(session);
        let pages = match self.is_open_loop() {
            true => pages.or(Some(1)),
            false => pages,
        };
        self.user(place).session.begin(session, pages);
    }

    fn begin_page(&mut self, shared: &Shared, place: u32, at: Instant) {
        let alone = self.is_open_loop() && shared.plan.sessions.pages.is_none();
        let user = self.user(place);
        let page = match shared.script(user.session.number()) {
            Some(script) => script.steps[user.session.pages_done() as usize].0,
            // So the plan of an open loop does not depend on the order of threads.
            None if alone => shared.page(user.session.number()),
            None if shared.fills => PageId(0),
            None => shared.next_page(),
        };
        user.stage = Stage::Page;
        user.page.begin(page, at);
        user.connections.begin_page();
    }

    fn end_page(&mut self, connections: &mut Connections<'_>, place: u32) {
        let is_open_loop = self.is_open_loop();
        let user = self.user(place);
        let page = user.session.page_done();
        let session = user.session.number();
        let connected = std::mem::take(&mut user.connected);
        if !user.page.is_cut() {
            let (started, complete) = (user.page.started(), !user.page.has_failed());
            let context = &mut connections.context;
            let now = context.now();
            context.tally.page(started, now, complete, connected);
        }
        let through = user.session.is_through();
        if connections.context.shared.policy.early_close {
            match is_open_loop {
                true => self.close_used(connections, place),
                false => self.close_connections(connections, place),
            }
        }
        if is_open_loop && (through || connections.context.is_planned_out()) {
            return self.end_arrival(&mut connections.context, place, !through);
        }
        if connections.context.is_planned_out() || self.is_superfluous(place) {
            return self.park(connections, place);
        }
        let now = connections.context.now();
        let pause = connections.context.shared.pause_after(session, page);
        if pause.is_zero() {
            return match is_open_loop {
                true => self.begin_page(connections.context.shared, place, now),
                false => self.go_on(connections, place, now),
            };
        }
        if pause >= LONG_PAUSE {
            for connection in self.user(place).connections.iter() {
                connections.shrink(connection);
            }
        }
        connections.context.tally.paused(now, now + pause);
        self.sleep_until(&mut connections.context, place, now + pause);
    }

    /// Closes all connections of a user.
    fn close_connections(&mut self, connections: &mut Connections<'_>, place: u32) {
        while let Some(connection) = self.user(place).connections.pop() {
            connections.finish(self, connection);
        }
    }

    /// Closes the shared connections that a page has used, except those that another page uses now.
    fn close_used(&mut self, connections: &mut Connections<'_>, place: u32) {
        while let Some((used, number)) = self.user(place).used.pop() {
            connections.finish_if_idle(self, used, number);
        }
    }
}

/// Requests.
impl Sessions<'_> {
    /// Does all that a user can do without waiting.
    fn advance(&mut self, connections: &mut Connections<'_>, place: u32) {
        if connections.context.shared.fills && !self.is_open_loop() {
            return self.fill(connections, place);
        }
        while self.user(place).stage == Stage::Page && self.request_page(connections, place) {
            self.end_page(connections, place);
        }
    }

    /// Requests what can be requested. True: the page is over.
    fn request_page(&mut self, connections: &mut Connections<'_>, place: u32) -> bool {
        if self.is_paused(&mut connections.context, place) {
            return false;
        }
        let shared = connections.context.shared;
        loop {
            if let Some(exchange) = self.take_overdue(&connections.context, place) {
                self.fail_unsent(&mut connections.context, &exchange, Failure::TimedOut);
                return false;
            }
            if let Some(&exchange) = self.user(place).backlog.next() {
                let Some(found) = self.connection(connections, place, &exchange) else {
                    self.wake_for_oldest(&mut connections.context, place);
                    return false;
                };
                self.user(place).backlog.take_next();
                if !self.request(connections, found, exchange) {
                    return false;
                }
                continue;
            }
            let user = self.user(place);
            let Some((member, planned)) = user.page.next_member(|| targets(shared, user)) else {
                return user.in_flight == 0;
            };
            let waits_alone = user.in_flight == 0;
            let target = targets(shared, user).members[usize::from(member)].0;
            let exchange = Exchange::planned(planned, place, user.page.page().0, member, target);
            let end = connections.context.tally.edges().end;
            let arrived = member == 0 && self.is_open_loop() && planned < end;
            let over = shared.is_stopped()
                || shared.is_planned_out()
                || (connections.context.now() >= end && !arrived);
            if over {
                self.user(place).page.cut();
                return waits_alone;
            }
            let found = match connections.context.is_overdue(&exchange) {
                true => Some(Err(Failure::TimedOut)),
                false => self.connection(connections, place, &exchange),
            };
            // While others are in flight, the next one is planned when there is a connection for it.
            if found.is_none() && !waits_alone {
                return false;
            }
            if !self.plan(&mut connections.context, &exchange, arrived) {
                self.user(place).page.cut();
                continue;
            }
            self.user(place).page.requested();
            let Some(found) = found else {
                self.wait_for_connection(&mut connections.context, place, exchange);
                return false;
            };
            if !self.request(connections, found, exchange) {
                return false;
            }
        }
    }

    /// Gives an exchange to the connection that was found for it. False: it has failed, because there is none.
    fn request(
        &mut self,
        connections: &mut Connections<'_>,
        found: Result<u32, Failure>,
        exchange: Exchange,
    ) -> bool {
        match found {
            Ok(connection) => {
                connections.request(connection, exchange);
                self.user(exchange.user()).in_flight += 1;
            }
            Err(failure) => self.fail_unsent(&mut connections.context, &exchange, failure),
        }
        found.is_ok()
    }

    /// Fails an exchange for which no connection was available.
    fn fail_unsent(&mut self, context: &mut Context<'_>, exchange: &Exchange, failure: Failure) {
        let (nothing, now) = (Received::default(), context.now());
        let tally = &mut context.tally;
        tally.failed(exchange, Some(failure), &nothing, now);
        let (user, outcome) = (self.number(exchange), Outcome::Failed(failure));
        tally.row(exchange, user, u32::MAX, &nothing, outcome, now);
        self.user(exchange.user()).in_flight += 1;
        self.has_ended(context, exchange, false);
    }

    /// Plans an exchange, unless all that may be planned have been.
    fn plan(&mut self, context: &mut Context<'_>, exchange: &Exchange, announced: bool) -> bool {
        let planned = exchange.planned_at();
        let counted = planned < context.tally.edges().measured || context.shared.take_exchange();
        if counted {
            context.tally.planned(planned, announced);
            self.in_flight += 1;
        }
        counted
    }

    /// Keeps an exchange of a user that has nothing else in flight, until a connection has room for it or it
    /// times out.
    fn wait_for_connection(&mut self, context: &mut Context<'_>, place: u32, exchange: Exchange) {
        self.user(place).backlog.push(exchange);
        let overdue_at = context.overdue_at(&exchange);
        self.wake_by(context, place, overdue_at);
    }

    /// Takes an exchange of a user that waits for a connection and has timed out.
    fn take_overdue(&mut self, context: &Context<'_>, place: u32) -> Option<Exchange> {
        let timeout = context.shared.limits.timeout;
        let backlog = &mut self.user(place).backlog;
        backlog.take_overdue(context.now(), timeout)
    }

    /// Lets a user continue when the first of its exchanges that wait for a connection times out.
    fn wake_for_oldest(&mut self, context: &mut Context<'_>, place: u32) {
        if let Some(planned) = self.user(place).backlog.oldest_plan() {
            let timeout = context.shared.limits.timeout;
            self.wake_by(context, place, planned + timeout);
        }
    }

    /// Whether the user has to wait because it could not connect; if so, sets its timer.
    fn is_paused(&mut self, context: &mut Context<'_>, place: u32) -> bool {
        let until = self.user(place).pause_until;
        let is_paused = until > context.now();
        if is_paused {
            self.wake_by(context, place, until);
        }
        is_paused
    }

    /// A connection for an exchange.
    fn connection(
        &mut self,
        connections: &mut Connections<'_>,
        place: u32,
        exchange: &Exchange,
    ) -> Found {
        if self.is_open_loop() {
            return self.shared_connection(connections, place, exchange.planned_at());
        }
        let host = connections.context.shared.host_of(exchange.member());
        let found = self.own_connection(connections, place, host);
        if let Some(Err(_)) = found {
            self.has_not_connected(Owner::User(place), connections.context.now());
        }
        found
    }

    /// A connection of the user's own to a host.
    fn own_connection(
        &mut self,
        connections: &mut Connections<'_>,
        place: u32,
        host: u16,
    ) -> Found {
        let policy = &connections.context.shared.policy;
        let most = u32::from(policy.connections.max(1));
        let in_turn = policy.pipeline.is_some() || policy.protocol.multiplexes();
        let is_there = |connection| connections.host(connection) == host;
        let has_room = |connection| connections.has_room(connection);
        let own = &mut self.user(place).connections;
        match own.choose(most, in_turn, is_there, has_room) {
            Choice::Use(connection) => Some(Ok(connection)),
            Choice::Wait => None,
            Choice::Open => {
                let opened = connections.open(Owner::User(place), host);
                if let Ok(connection) = opened {
                    own.push(connection);
                }
                Some(opened)
            }
        }
    }

    /// One of the connections that all sessions share.
    fn shared_connection(
        &mut self,
        connections: &mut Connections<'_>,
        place: u32,
        planned: Instant,
    ) -> Found {
        let Sessions {
            source: SessionSource::Arrivals(open),
            users,
            ..
        } = self
        else {
            return None;
        };
        let user = &mut users[place as usize];
        let policy = &connections.context.shared.policy;
        let most =
            u32::from(policy.connections.max(1)) * u32::from(connections.context.shared.depth());
        if user.in_flight >= most {
            return None;
        }
        let has_room = |connection| connections.has_room(connection);
        let is_idle = |connection| connections.in_flight(connection) == 0;
        let found = match open.pool.choose(has_room, is_idle) {
            Choice::Use(connection) => Ok(connection),
            Choice::Open => connections
                .open(Owner::Pool, 0)
                .inspect(|_| open.pool.opened()),
            Choice::Wait => {
                if !std::mem::replace(&mut user.waiting, true) {
                    open.wait(planned, place);
                }
                return None;
            }
        };
        if let Ok(connection) = found
            && policy.early_close
        {
            let used = (connection, connections.number(connection));
            if !user.used.contains(&used) {
                user.used.push(used);
            }
        }
        Some(found)
    }

    /// Fills the pipelines of a user, or its streams; every exchange is a page of its own. A pipeline is filled
    /// when half of it has been answered, so that requests leave in one write and not one by one.
    fn fill(&mut self, connections: &mut Connections<'_>, place: u32) {
        if self.user(place).stage != Stage::Page
            || self.is_paused(&mut connections.context, place)
            || self.is_half_full(connections, place)
        {
            return;
        }
        loop {
            if let Some(exchange) = self.take_overdue(&connections.context, place) {
                return self.fail_unsent(&mut connections.context, &exchange, Failure::TimedOut);
            }
            let waiting = self.user(place).backlog.next().copied();
            let exchange = match waiting {
                Some(exchange) => exchange,
                None if connections.context.is_planned_out() => return,
                None => Exchange::planned(connections.context.now(), place, 0, 0, 0),
            };
            let found = self.connection(connections, place, &exchange);
            let exchange = match waiting {
                Some(_) if found.is_none() => {
                    return self.wake_for_oldest(&mut connections.context, place);
                }
                Some(exchange) => {
                    self.user(place).backlog.take_next();
                    exchange
                }
                // A user always waits for something: with nothing else in flight, for a stream.
                None if found.is_none() && self.user(place).in_flight > 0 => return,
                None if self.is_superfluous(place) => {
                    return self.leave_filling(connections, place);
                }
                None if !self.plan(&mut connections.context, &exchange, false) => return,
                None => {
                    let page = connections.context.shared.next_page();
                    let target = connections.context.shared.plan.pages.get(page).members[0];
                    exchange.for_page(page.0, target.0)
                }
            };
            let Some(found) = found else {
                return self.wait_for_connection(&mut connections.context, place, exchange);
            };
            if !self.request(connections, found, exchange) {
                return;
            }
        }
    }

    /// Whether every pipeline of a user is open and more than half full.
    fn is_half_full(&self, connections: &Connections<'_>, place: u32) -> bool {
        let user = &self.users[place as usize];
        let policy = &connections.context.shared.policy;
        let Some(depth) = policy.pipeline else {
            return false;
        };
        let half = usize::from(depth) / 2;
        user.backlog.is_empty()
            && user.connections.len() >= usize::from(policy.connections.max(1))
            && user
                .connections
                .iter()
                .all(|connection| connections.in_flight(connection) > half)
    }

    /// Parks a user that keeps its pipelines full, once they are empty.
    fn leave_filling(&mut self, connections: &mut Connections<'_>, place: u32) {
        if self.user(place).in_flight == 0 {
            self.park(connections, place);
        }
    }
}
