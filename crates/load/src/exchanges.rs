//! Exchanges on connections: requested, answered, failed, retried.

use fathometer_http::client::{Event, Received, RequestId};
use fathometer_model::{Failure, Outcome};
use fathometer_workload::plan::TargetId;

use super::slot::{Exchange, State};
use super::worker::Worker;

impl Worker<'_> {
    /// Gives an exchange to a connection that has room for it.
    pub(super) fn ask(&mut self, place: u32, mut exchange: Exchange) {
        let shared = self.shared;
        let slot = &mut self.slots[place as usize];
        let target = shared.target(TargetId(exchange.target));
        let shape = shared.requests.shape(TargetId(exchange.target), slot.host);
        // This cannot fail: the targets were checked when the test began, the room by the caller.
        let content = target.content.as_deref().filter(|c| !c.is_empty());
        let queued = slot
            .machine
            .request(shape, &target.path, content)
            .expect("a checked request fits a connection with room");
        exchange.request = queued.request;
        exchange.head = queued.head.0 as u32;
        exchange.fields = queued.fields.0 as u32;
        exchange.content = content.map_or(0, |content| content.len() as u64);
        // A retried exchange keeps the instants of its first attempt.
        if exchange.sent == 0 && slot.state == State::Open {
            exchange.due = exchange.planned.max(slot.free_since).max(slot.room_since);
        }
        if slot.state == State::Open && slot.exchanges.is_empty() {
            self.tally.idled(slot.free_since, self.now);
        }
        exchange.first_byte = 0;
        exchange.status = 0;
        self.users[exchange.user as usize].in_flight += 1;
        slot.left -= u32::from(shared.max_requests.is_some());
        slot.exchanges.push_back(exchange);
        slot.most_streams = slot.most_streams.max(slot.exchanges.len() as u32);
        let overdue_at = self.overdue_at(&exchange);
        self.arm(place, overdue_at);
        self.make_dirty(place);
    }

    /// Schedules a connection's bytes to be written as soon as the current step is done.
    pub(super) fn make_dirty(&mut self, place: u32) {
        let slot = &mut self.slots[place as usize];
        if !slot.dirty {
            slot.dirty = true;
            self.dirty.push(place);
        }
    }

    /// Feeds the machine of a connection and handles its events.
    pub(super) fn pump(&mut self, place: u32, mut input: &[u8]) {
        let instant = self.instant();
        if self.slots[place as usize].machine.is_quic() {
            self.drive(place);
            return self.make_dirty(place);
        }
        loop {
            let slot = &mut self.slots[place as usize];
            if let Some(end) = slot.machine.poll_whole(&mut input, instant) {
                self.begins_and_ends(place, end);
                continue;
            }
            let Some(event) = slot.machine.poll(&mut input, instant) else {
                break;
            };
            self.deal_with(place, event);
        }
        let machine = &self.slots[place as usize].machine;
        // HTTP/2 sends acknowledgements and window updates by itself.
        if machine.multiplexes() && !machine.transmit().is_empty() {
            self.make_dirty(place);
        }
    }

    /// Handles the end of a response of which the machine has reported nothing else.
    fn begins_and_ends(&mut self, place: u32, end: Event<'_>) {
        let now = self.now;
        let slot = &mut self.slots[place as usize];
        let status = slot.machine.status();
        if let Event::End { request, .. } = end
            && let Some(exchange) = slot.exchange(request)
        {
            exchange.first_byte = now;
            exchange.status = status;
        }
        self.deal_with(place, end);
    }

    /// Handles an event of a machine.
    pub(super) fn deal_with(&mut self, place: u32, event: Event<'_>) {
        let now = self.now;
        let slot = &mut self.slots[place as usize];
        match event {
            Event::Begin { request } => {
                if let Some(exchange) = slot.exchange(request) {
                    exchange.first_byte = now;
                }
            }
            Event::Head { request } => {
                let status = slot.machine.status();
                if let Some(exchange) = slot.exchange(request) {
                    exchange.status = status;
                }
            }
            Event::Content { .. }
            | Event::Interim { .. }
            | Event::SendContent { .. }
            | Event::Trailers { .. }
            | Event::Promised { .. }
            | Event::Pong { .. }
            | Event::Alternatives { .. } => {}
            Event::End {
                request,
                received,
                persists,
            } => {
                slot.served += 1;
                let exchange = slot.take(request);
                self.goes_on(place, persists);
                if let Some(exchange) = exchange {
                    self.complete(place, &exchange, &received);
                }
            }
            Event::Failed {
                request,
                failure,
                received,
                persists,
            } => {
                let exchange = slot.take(request);
                self.goes_on(place, persists);
                if let Some(exchange) = exchange {
                    self.give_up_on(place, &exchange, failure, &received);
                }
            }
            Event::Unanswered {
                request,
                failure,
                sent,
                idempotent,
                persists,
            } => {
                let served = slot.served > 0;
                let exchange = slot.take(request);
                self.goes_on(place, persists);
                let Some(exchange) = exchange else {
                    return;
                };
                // A connection that has served before and closed without any data was idle for too long. A
                // request that the server refused without processing it can go elsewhere.
                let silent = matches!(failure, Failure::ClosedEarly | Failure::Reset);
                let put_aside = matches!(failure, Failure::GoneAway | Failure::StreamReset);
                let harmless = served && silent && (idempotent || !sent) || put_aside && !sent;
                // A refusal on a connection that has served others does not count as an attempt: there is
                // progress, however often it happens.
                let is_free = put_aside && !sent && served;
                let has_time = !exchange.overdue && !self.is_overdue(&exchange);
                if harmless && (is_free || !exchange.retried) && has_time {
                    self.ask_again(place, exchange, failure, is_free);
                } else {
                    self.give_up_on(place, &exchange, failure, &Received::default());
                }
            }
            Event::Settings => {
                slot.knows_server = true;
                self.has_room_again(place);
            }
            Event::GoAway { .. } => self.detach(place),
            Event::Closed { .. } => self.closed(place),
        }
    }

    /// An exchange has ended. `persists`: the connection takes more.
    fn goes_on(&mut self, place: u32, persists: bool) {
        let slot = &mut self.slots[place as usize];
        slot.free_since = self.now;
        let is_used_up = slot.left == 0 && slot.exchanges.is_empty();
        if persists && is_used_up {
            slot.machine.finish();
        }
        if persists && !is_used_up {
            self.list(place);
            self.watch_idle(place);
        } else {
            self.detach(place);
        }
    }

    /// A connection may take more than before. Until now the server made requests wait.
    pub(super) fn has_room_again(&mut self, place: u32) {
        let now = self.now;
        self.slots[place as usize].room_since = now;
        self.list(place);
        let owner = self.slots[place as usize].owner;
        if (owner as usize) < self.users.len() && self.pool.is_none() {
            self.make_ready(owner);
        }
    }

    fn complete(&mut self, place: u32, exchange: &Exchange, received: &Received) {
        let target = self.shared.target(TargetId(exchange.target));
        let wanted = target
            .size
            .filter(|_| exchange.status == 200 && target.method != "HEAD");
        self.roll();
        self.tally.completed(exchange, received, wanted, self.now);
        self.record(place, exchange, received, Outcome::Complete);
        self.resolved(exchange, true);
    }

    fn give_up_on(
        &mut self,
        place: u32,
        exchange: &Exchange,
        failure: Failure,
        received: &Received,
    ) {
        let failure = match exchange.overdue {
            true => Failure::TimedOut,
            false => failure,
        };
        self.roll();
        self.tally
            .failed(exchange, Some(failure), received, self.now);
        self.record(place, exchange, received, Outcome::Failed(failure));
        self.resolved(exchange, false);
    }

    /// Fails an exchange for which no connection was available.
    pub(super) fn fail_unsent(&mut self, exchange: &Exchange, failure: Failure) {
        let nothing = Received::default();
        self.tally
            .failed(exchange, Some(failure), &nothing, self.now);
        let user = self.users[exchange.user as usize].number as u32;
        let outcome = Outcome::Failed(failure);
        self.tally
            .row(exchange, user, u32::MAX, &nothing, outcome, self.now);
        self.users[exchange.user as usize].in_flight += 1;
        self.resolved(exchange, false);
    }

    fn ask_again(&mut self, place: u32, mut exchange: Exchange, failure: Failure, is_free: bool) {
        self.tally.at(self.now).retried += 1;
        let nothing = Received::default();
        self.record(place, &exchange, &nothing, Outcome::Retried(failure));
        exchange.retried |= !is_free;
        let user = &mut self.users[exchange.user as usize];
        user.in_flight -= 1;
        user.again.push(exchange);
        self.make_ready(exchange.user);
    }

    fn record(&mut self, place: u32, exchange: &Exchange, received: &Received, outcome: Outcome) {
        if self.tally.rows.is_some() {
            let user = self.users[exchange.user as usize].number as u32;
            let connection = self.slots[place as usize].number;
            self.tally
                .row(exchange, user, connection, received, outcome, self.now);
        }
    }

    /// When an exchange times out, whatever it waits for.
    pub(super) fn overdue_at(&self, exchange: &Exchange) -> u64 {
        exchange.planned.saturating_add(self.shared.timeout)
    }

    /// Whether an exchange has timed out.
    pub(super) fn is_overdue(&self, exchange: &Exchange) -> bool {
        self.overdue_at(exchange) <= self.now
    }

    /// Some exchanges of a connection have timed out. Ends their streams, where there are streams and data
    /// still arrives; otherwise ends the connection.
    pub(super) fn time_out(&mut self, place: u32) {
        let (limit, instant, now) = (self.shared.timeout, self.instant(), self.now);
        let slot = &mut self.slots[place as usize];
        // A request that waited long before it was sent is no evidence about the connection.
        let is_dead = slot.exchanges.front().is_some_and(|oldest| {
            let waits = now.saturating_sub(oldest.sent);
            oldest.sent > 0 && slot.heard <= oldest.sent && waits >= limit / 2
        });
        if !slot.machine.multiplexes() || is_dead {
            return self.fail(place, Failure::TimedOut);
        }
        let overdue: Vec<RequestId> = slot
            .exchanges
            .iter_mut()
            .filter(|exchange| exchange.planned.saturating_add(limit) <= now)
            .map(|exchange| {
                exchange.overdue = true;
                exchange.request
            })
            .collect();
        for request in overdue {
            slot.machine.cancel(request, Failure::TimedOut, instant);
        }
        self.pump(place, &[]);
        if let Some(oldest) = self.slots[place as usize].oldest_plan() {
            self.arm(place, oldest.saturating_add(limit));
        }
    }
}
