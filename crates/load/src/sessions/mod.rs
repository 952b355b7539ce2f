//! The users of a closed loop, or the sessions of an open loop: pages, pauses and sessions.
//!
//! [`source`] provides the sessions and their next pages. [`pages`] begins and ends pages and sessions,
//! [`requests`] requests the members of a page, and [`pipelines`] keeps pipelines full. [`connection`]
//! chooses the connection for an exchange.

mod arrivals;
mod connection;
mod open;
mod page;
mod pages;
mod pipelines;
mod planned;
mod pool;
mod population;
mod requests;
mod source;
#[cfg(test)]
mod split;
mod user;
mod users;

use fathometer_model::Instant;
use fathometer_workload::plan::PageTargets;

use super::CONNECT_PAUSE;
use super::connections::{Connections, Owner, Requester};
use super::context::Context;
use super::exchange::Exchange;
use super::shared::Shared;
use super::timers::Timer;
use open::Next;
use planned::{NO_CONNECTION, PlannedExchanges, count_unanswered};
use user::{Stage, User};
use users::Users;

pub(super) use open::OpenLoop;
pub(super) use population::Population;
pub(super) use source::SessionSource;

/// The users of a closed loop, or the sessions of an open loop.
///
/// Plans exchanges and passes them to [`Connections`], which reports their ends. Every planned exchange is in flight on
/// a connection, is in the backlog of its user, or has ended. Users continue in the order of the events that they
/// waited for.
pub(super) struct Sessions<'a> {
    source: SessionSource<'a>,
    users: Users,
    exchanges: PlannedExchanges,
}

impl<'a> Sessions<'a> {
    pub(super) fn new(source: SessionSource<'a>) -> Sessions<'a> {
        Sessions {
            source,
            users: Users::default(),
            exchanges: PlannedExchanges::default(),
        }
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
                let timer = Timer::User(self.users.places().end);
                user.stage = Stage::Pause;
                user.deadline.set(at, timer, &mut context.timers);
                context.tally.paused(start, at);
            }
            self.users.add(user);
        }
        for (step, at) in population.changes(start).enumerate() {
            context.timers.set(at, Timer::Step(step as u32));
        }
    }

    /// Returns the number of exchanges that have ended and the number in flight, for users that wait for their
    /// responses.
    pub(super) fn waited_for(&self) -> Option<(u64, u64)> {
        let exchanges = &self.exchanges;
        (!self.source.is_open_loop()).then_some((exchanges.ended(), exchanges.in_flight()))
    }

    /// Returns the instant of the next arrival. When all exchanges are planned, later arrivals are skipped.
    pub(super) fn next_arrival(&self, context: &Context<'_>) -> Instant {
        self.source.next_arrival(context)
    }

    /// Returns whether all exchanges have ended and no further exchanges will be planned.
    pub(super) fn is_over(&self, context: &Context<'_>) -> bool {
        let end = context.tally.edges().end;
        let waiting = self.source.open_loop().is_some_and(|open| {
            !context.shared.is_planned_out() && open.arrivals.next_before(end).is_some()
        });
        // The schedule of an open loop may end before the test.
        let is_exhausted = || self.source.open_loop().is_some_and(OpenLoop::is_exhausted);
        self.exchanges.in_flight() == 0 && !waiting && (context.is_planned_out() || is_exhausted())
    }

    /// Closes the current interval, which ends at `end`.
    pub(super) fn close_interval(&mut self, context: &mut Context<'_>, end: Instant) {
        if let SessionSource::Arrivals(open) = &mut self.source {
            // When all permitted exchanges are planned, waiting arrivals are never planned. After a stop, a loop that
            // is at least one interval late does not count its arrivals, so that the test can end.
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

    /// Lets users continue, so that the instant of their plans is the instant of the event that they waited for.
    pub(super) fn advance_ready(&mut self, connections: &mut Connections<'_>) {
        while let Some(place) = self.users.next_ready() {
            self.advance(connections, place);
        }
    }

    /// Returns whether no user is ready to continue.
    pub(super) fn is_settled(&self) -> bool {
        self.users.is_settled()
    }

    /// Passes free connections to the sessions and arrivals of an open loop that wait for a connection.
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
                    self.users[place].waiting = false;
                    self.advance(connections, place);
                }
                Some(Next::Arrival(at)) => self.begin_arrival(connections, at),
            }
        }
    }

    fn begin_arrival(&mut self, connections: &mut Connections<'_>, at: Instant) {
        // Close the past intervals first, because a session that begins now does not belong to them.
        self.close_past_intervals(&mut connections.context);
        let Some((arrival, free_user)) = self.source.open_loop_mut().and_then(OpenLoop::begin)
        else {
            return;
        };
        let place = free_user.unwrap_or_else(|| self.users.add(User::default()));
        self.users[place].number = arrival.number;
        self.begin_session(connections.context.shared, place, arrival.number);
        self.begin_page(connections.context.shared, place, at);
        self.advance(connections, place);
    }

    /// Handles the end of an arrival's session. `cut`: the end of the test ended the session.
    fn end_arrival(&mut self, context: &mut Context<'_>, place: u32, cut: bool) {
        if !cut {
            context.tally.session_ended(context.now());
        }
        self.users[place].stage = Stage::Parked;
        if let Some(open) = self.source.open_loop_mut() {
            open.end(place);
        }
    }

    /// Counts the exchanges that have not ended at the end of the test: `left` (with the numbers of their connections),
    /// exchanges without a connection, and arrivals that never got a connection.
    pub(super) fn leave(&mut self, context: &mut Context<'_>, mut left: Vec<(Exchange, u32)>) {
        for user in self.users.iter_mut() {
            left.extend(
                user.backlog
                    .drain()
                    .map(|exchange| (exchange, NO_CONNECTION)),
            );
        }
        for (exchange, connection) in left {
            let user = self.number(&exchange);
            count_unanswered(context, &exchange, (user, connection), None);
        }
        let end = context.tally.edges().end.min(context.now());
        let shared = context.shared;
        while let Some(open) = self.source.open_loop_mut()
            && !shared.is_planned_out()
            && open.arrivals.next_before(end).is_some()
            && let Some(arrival) = open.arrivals.take()
        {
            let page = self.source.missed_page(shared, arrival.number);
            let target = shared.plan.pages.get(page).members[0].0;
            let exchange = Exchange::planned(arrival.at, 0, page.0, 0, target);
            context.tally.planned(arrival.at, true);
            let user = arrival.number as u32;
            count_unanswered(context, &exchange, (user, NO_CONNECTION), None);
        }
    }
}

impl Requester for Sessions<'_> {
    fn number(&self, exchange: &Exchange) -> u32 {
        self.users[exchange.user()].number as u32
    }

    fn has_connected(&mut self, owner: Owner) {
        if let Owner::User(place) = owner {
            self.users[place].connected += 1;
        }
    }

    fn has_not_connected(&mut self, owner: Owner, now: Instant) {
        if let Owner::User(place) = owner {
            self.users[place].pause_until = now + CONNECT_PAUSE;
        }
    }

    fn has_lost(&mut self, owner: Owner, place: u32) {
        match owner {
            Owner::User(user) => self.users[user].connections.remove(place),
            Owner::Pool => {
                if let Some(open) = self.source.open_loop_mut() {
                    open.pool.ended(place);
                }
            }
            Owner::Nothing => {}
        }
    }

    fn offer(&mut self, place: u32, is_idle: bool) {
        if let Some(open) = self.source.open_loop_mut() {
            open.pool.offer(place, is_idle);
        }
    }

    fn has_room(&mut self, owner: Owner) {
        if let Owner::User(place) = owner {
            self.users.make_ready(place);
        }
    }

    fn retry(&mut self, exchange: Exchange) {
        let user = &mut self.users[exchange.user()];
        user.in_flight -= 1;
        user.backlog.push(exchange);
        self.users.make_ready(exchange.user());
    }

    fn close_past_intervals(&mut self, context: &mut Context<'_>) {
        while context.now() >= context.tally.interval_end() {
            let end = context.tally.interval_end();
            self.close_interval(context, end);
        }
    }

    fn has_ended(&mut self, context: &mut Context<'_>, exchange: &Exchange, complete: bool) {
        self.exchanges.end();
        let now = context.now();
        let fills = context.shared.fills && !self.source.is_open_loop();
        let user = &mut self.users[exchange.user()];
        user.in_flight -= 1;
        if std::mem::take(&mut user.is_at_limit) {
            user.below_limit_since = now;
        }
        if fills {
            context.tally.page(exchange.planned_at(), now, complete, 0);
        } else if complete {
            let targets = targets(context.shared, user);
            user.page.completed(exchange.member(), targets, now);
        } else {
            user.page.failed();
        }
        self.users.make_ready(exchange.user());
    }
}

/// Returns the members of the page that a user requests.
fn targets<'p>(shared: &'p Shared, user: &User) -> PageTargets<'p> {
    shared.plan.pages.get(user.page.page())
}
