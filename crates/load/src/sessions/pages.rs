//! Begins and ends pages and sessions, and handles the pauses between them.

use std::time::Duration;

use fathometer_model::Instant;

use super::super::connections::Connections;
use super::super::context::Context;
use super::super::shared::Shared;
use super::super::timers::Timer;
use super::user::Stage;
use super::{SessionSource, Sessions};

/// The minimum length of a pause that justifies freeing the buffers of the user's connections.
const LONG_PAUSE: Duration = Duration::from_secs(1);

impl Sessions<'_> {
    /// Changes the number of users.
    pub(crate) fn change_population(&mut self, context: &mut Context<'_>, step: u32, at: Instant) {
        let SessionSource::Users(population) = &mut self.source else {
            return;
        };
        let start = population.change(step, at);
        for place in self.users.places() {
            let user = &mut self.users[place];
            if user.stage == Stage::Parked
                && let Some(at) = start(user.number as u32)
            {
                self.sleep_until(context, place, at);
            }
        }
    }

    fn sleep_until(&mut self, context: &mut Context<'_>, place: u32, at: Instant) {
        let user = &mut self.users[place];
        user.stage = Stage::Pause;
        user.deadline
            .set(at, Timer::User(place), &mut context.timers);
    }

    /// Ensures that a user continues at `at` at the latest.
    pub(super) fn wake_by(&mut self, context: &mut Context<'_>, place: u32, at: Instant) {
        let deadline = &mut self.users[place].deadline;
        deadline.set_by(at, Timer::User(place), &mut context.timers);
    }

    /// Handles a user's timer that was set for `at`.
    pub(crate) fn user_is_due(
        &mut self,
        connections: &mut Connections<'_>,
        place: u32,
        at: Instant,
    ) {
        let user = &mut self.users[place];
        if !user.deadline.is_reached(at) {
            return;
        }
        if user.stage == Stage::Pause {
            if at >= connections.context.tally.edges().end || connections.context.is_planned_out() {
                return self.park(connections, place);
            }
            self.resume(connections, place, at);
        }
        self.users.make_ready(place);
    }

    /// Begins the next page at `at`, in a new session if the last session has ended.
    fn resume(&mut self, connections: &mut Connections<'_>, place: u32, at: Instant) {
        if self.is_superfluous(place) {
            return self.park(connections, place);
        }
        let session = &self.users[place].session;
        let (has_begun, has_ended) = (session.pages_done() > 0, session.is_complete());
        if has_begun && has_ended {
            let context = &mut connections.context;
            context.tally.session_ended(context.now());
            self.close_connections(connections, place);
        }
        if !has_begun || has_ended {
            let session = connections.context.shared.next_session();
            self.begin_session(connections.context.shared, place, session);
        }
        self.begin_page(connections.context.shared, place, at);
    }

    /// Returns whether the index of a closed-loop user is above the current number of users.
    pub(super) fn is_superfluous(&self, place: u32) -> bool {
        self.source.is_superfluous(self.users[place].number)
    }

    /// Makes a user inactive until the number of users increases again.
    pub(super) fn park(&mut self, connections: &mut Connections<'_>, place: u32) {
        self.close_connections(connections, place);
        let user = &mut self.users[place];
        user.stage = Stage::Parked;
        user.session.abandon();
    }

    pub(super) fn begin_session(&mut self, shared: &Shared, place: u32, session: u64) {
        let pages = self.source.pages_of(shared, session);
        self.users[place].session.begin(session, pages);
    }

    pub(super) fn begin_page(&mut self, shared: &Shared, place: u32, at: Instant) {
        let user = &mut self.users[place];
        let page = self.source.next_page(shared, &user.session);
        user.stage = Stage::Page;
        user.page.begin(page, at);
        user.connections.begin_page();
    }

    /// Handles the end of a page. The next page begins at once, after a pause, or never.
    pub(super) fn end_page(&mut self, connections: &mut Connections<'_>, place: u32) {
        let is_open_loop = self.source.is_open_loop();
        let user = &mut self.users[place];
        let page = user.session.page_done();
        let session = user.session.number();
        let connected = std::mem::take(&mut user.connected);
        if !user.page.is_cut() {
            let (started, complete) = (user.page.started(), !user.page.has_failed());
            let context = &mut connections.context;
            let now = context.now();
            context.tally.page(started, now, complete, connected);
        }
        let is_complete = user.session.is_complete();
        if connections.context.shared.policy.early_close {
            match is_open_loop {
                true => self.close_used(connections, place),
                false => self.close_connections(connections, place),
            }
        }
        if is_open_loop && (is_complete || connections.context.is_planned_out()) {
            return self.end_arrival(&mut connections.context, place, !is_complete);
        }
        if connections.context.is_planned_out() || self.is_superfluous(place) {
            return self.park(connections, place);
        }
        let now = connections.context.now();
        let pause = connections.context.shared.pause_after(session, page);
        if pause.is_zero() {
            return match is_open_loop {
                true => self.begin_page(connections.context.shared, place, now),
                false => self.resume(connections, place, now),
            };
        }
        if pause >= LONG_PAUSE {
            for connection in self.users[place].connections.iter() {
                connections.shrink(connection);
            }
        }
        connections.context.tally.paused(now, now + pause);
        self.sleep_until(&mut connections.context, place, now + pause);
    }

    /// Closes all connections of a user.
    fn close_connections(&mut self, connections: &mut Connections<'_>, place: u32) {
        while let Some(connection) = self.users[place].connections.pop() {
            connections.finish(self, connection);
        }
    }

    /// Closes the shared connections that a page has used, except for those that another page uses.
    fn close_used(&mut self, connections: &mut Connections<'_>, place: u32) {
        while let Some((used, number)) = self.users[place].used.pop() {
            connections.finish_if_idle(self, used, number);
        }
    }
}
