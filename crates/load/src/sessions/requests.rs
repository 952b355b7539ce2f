//! Requests the next exchanges of a user, or waits for a connection.

use fathometer_model::Failure;

use super::super::connections::{Connections, Owner};
use super::super::context::Context;
use super::super::exchange::Exchange;
use super::connection::{self, Found};
use super::planned::{NO_CONNECTION, count_unanswered};
use super::user::Stage;
use super::{Requester as _, Sessions, targets};

impl Sessions<'_> {
    /// Does everything that a user can do without waiting.
    pub(super) fn advance(&mut self, connections: &mut Connections<'_>, place: u32) {
        if connections.context.shared.fills && !self.source.is_open_loop() {
            return self.fill(connections, place);
        }
        while self.users[place].stage == Stage::Page && self.request_page(connections, place) {
            self.end_page(connections, place);
        }
    }

    /// Requests every member that can be requested. Returns true at the end of the page.
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
            if let Some(&exchange) = self.users[place].backlog.next() {
                let Some(found) = self.connection(connections, place, &exchange) else {
                    self.wake_for_oldest(&mut connections.context, place);
                    return false;
                };
                self.users[place].backlog.take_next();
                if !self.request(connections, found, exchange) {
                    return false;
                }
                continue;
            }
            let user = &mut self.users[place];
            let Some((member, planned)) = user.page.next_member(|| targets(shared, user)) else {
                return user.in_flight == 0;
            };
            let waits_alone = user.in_flight == 0;
            let target = targets(shared, user).members[usize::from(member)].0;
            let exchange = Exchange::planned(planned, place, user.page.page().0, member, target);
            let end = connections.context.tally.edges().end;
            let arrived = member == 0 && self.source.is_open_loop() && planned < end;
            let over = shared.is_stopped()
                || shared.is_planned_out()
                || (connections.context.now() >= end && !arrived);
            if over {
                self.users[place].page.cut();
                return waits_alone;
            }
            let found = match connections.context.is_overdue(&exchange) {
                true => Some(Err(Failure::TimedOut)),
                false => self.connection(connections, place, &exchange),
            };
            // While other members are in flight, the next member is planned only when a connection is free.
            if found.is_none() && !waits_alone {
                return false;
            }
            let context = &mut connections.context;
            if !self.exchanges.plan(context, &exchange, arrived) {
                self.users[place].page.cut();
                continue;
            }
            self.users[place].page.requested();
            let Some(found) = found else {
                self.wait_for_connection(&mut connections.context, place, exchange);
                return false;
            };
            if !self.request(connections, found, exchange) {
                return false;
            }
        }
    }

    /// Passes an exchange to the connection that was found. Returns false if no connection could be opened, so that the
    /// exchange has failed.
    pub(super) fn request(
        &mut self,
        connections: &mut Connections<'_>,
        found: Result<u32, Failure>,
        exchange: Exchange,
    ) -> bool {
        match found {
            Ok(connection) => {
                let user = &mut self.users[exchange.user()];
                user.in_flight += 1;
                // A session's wait for its own exchanges, or after a failure to connect, is not counted as send lag.
                let since = user.below_limit_since.max(user.pause_until);
                connections.request(connection, exchange, since);
            }
            Err(failure) => self.fail_unsent(&mut connections.context, &exchange, failure),
        }
        found.is_ok()
    }

    /// Fails an exchange for which no connection was available.
    pub(super) fn fail_unsent(
        &mut self,
        context: &mut Context<'_>,
        exchange: &Exchange,
        failure: Failure,
    ) {
        let user = self.number(exchange);
        count_unanswered(context, exchange, (user, NO_CONNECTION), Some(failure));
        self.users[exchange.user()].in_flight += 1;
        self.has_ended(context, exchange, false);
    }

    /// Stores an exchange of a user without other exchanges in flight, until a connection can take it or it times out.
    pub(super) fn wait_for_connection(
        &mut self,
        context: &mut Context<'_>,
        place: u32,
        exchange: Exchange,
    ) {
        self.users[place].backlog.push(exchange);
        let overdue_at = context.overdue_at(&exchange);
        self.wake_by(context, place, overdue_at);
    }

    /// Removes a timed-out exchange of a user that waits for a connection.
    pub(super) fn take_overdue(&mut self, context: &Context<'_>, place: u32) -> Option<Exchange> {
        let timeout = context.shared.limits.timeout;
        let backlog = &mut self.users[place].backlog;
        backlog.take_overdue(context.now(), timeout)
    }

    /// Sets the user's timer for the time-out of the first exchange that waits for a connection.
    pub(super) fn wake_for_oldest(&mut self, context: &mut Context<'_>, place: u32) {
        if let Some(planned) = self.users[place].backlog.oldest_plan() {
            let timeout = context.shared.limits.timeout;
            self.wake_by(context, place, planned + timeout);
        }
    }

    /// Returns whether the user must pause because it could not connect; if so, sets its timer.
    pub(super) fn is_paused(&mut self, context: &mut Context<'_>, place: u32) -> bool {
        let until = self.users[place].pause_until;
        let is_paused = until > context.now();
        if is_paused {
            self.wake_by(context, place, until);
        }
        is_paused
    }

    /// Finds a connection for an exchange.
    pub(super) fn connection(
        &mut self,
        connections: &mut Connections<'_>,
        place: u32,
        exchange: &Exchange,
    ) -> Found {
        let user = &mut self.users[place];
        if let Some(open) = self.source.open_loop_mut() {
            return connection::shared(open, user, place, connections, exchange.planned_at());
        }
        let host = connections.context.shared.host_of(exchange.member());
        let found = connection::own(user, place, connections, host);
        if let Some(Err(_)) = found {
            self.has_not_connected(Owner::User(place), connections.context.now());
        }
        found
    }
}
