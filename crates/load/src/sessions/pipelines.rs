//! Keeps the pipelines or streams of users full: each exchange is a separate page.

use fathometer_model::Failure;

use super::super::connections::Connections;
use super::super::exchange::Exchange;
use super::Sessions;
use super::user::Stage;

impl Sessions<'_> {
    /// Fills the pipelines or streams of a user; every exchange is a separate page. A pipeline is refilled when half of
    /// its requests have been answered, so that one write sends several requests.
    pub(super) fn fill(&mut self, connections: &mut Connections<'_>, place: u32) {
        if self.users[place].stage != Stage::Page
            || self.is_paused(&mut connections.context, place)
            || self.is_half_full(connections, place)
        {
            return;
        }
        loop {
            if let Some(exchange) = self.take_overdue(&connections.context, place) {
                return self.fail_unsent(&mut connections.context, &exchange, Failure::TimedOut);
            }
            let waiting = self.users[place].backlog.next().copied();
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
                    self.users[place].backlog.take_next();
                    exchange
                }
                // A user without exchanges in flight continues: its next exchange then waits for a stream.
                None if found.is_none() && self.users[place].in_flight > 0 => return,
                None if self.is_superfluous(place) => {
                    return self.leave_filling(connections, place);
                }
                None if !self
                    .exchanges
                    .plan(&mut connections.context, &exchange, false) =>
                {
                    return;
                }
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

    /// Returns whether every pipeline of a user is open and more than half full.
    fn is_half_full(&self, connections: &Connections<'_>, place: u32) -> bool {
        let user = &self.users[place];
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

    /// Makes a user that keeps its pipelines full inactive, when the pipelines are empty.
    fn leave_filling(&mut self, connections: &mut Connections<'_>, place: u32) {
        if self.users[place].in_flight == 0 {
            self.park(connections, place);
        }
    }
}
