//! Exchanges on connections: requesting, completing, failing and retrying them.

use fathometer_http::client::{Event, Received};
use fathometer_model::{Bytes, Failure, Instant, Outcome};
use fathometer_workload::plan::TargetId;

use super::super::exchange::{Exchange, Retry, Unanswered};
use super::slot::State;
use super::{Connections, Requester};

impl Connections<'_> {
    /// Passes an exchange to a connection that can take a further request. The exchange could not be sent before
    /// `since`.
    pub(crate) fn request(&mut self, place: u32, mut exchange: Exchange, since: Instant) {
        let shared = self.context.shared;
        let slot = &mut self.slots[place];
        let target = shared.target(TargetId(exchange.target()));
        let shape = shared
            .requests
            .shape(TargetId(exchange.target()), slot.host);
        // This cannot fail: the start of the test checks the targets, and the caller checks the connection.
        let content = target.content.as_deref().filter(|c| !c.is_empty());
        let queued = slot
            .machine
            .request(shape, &target.path, content)
            .expect("the target and the connection are checked");
        let length = content.map_or(0, |content| content.len() as u64);
        exchange.queued(&queued, Bytes(length));
        if slot.state == State::Open {
            exchange.could_leave(slot.room_since.max(since));
            if slot.exchanges.is_empty() {
                self.context
                    .tally
                    .idled(slot.free_since, self.context.now());
            }
        }
        slot.left -= u32::from(shared.max_requests.is_some());
        slot.exchanges.push(exchange);
        slot.note_request();
        slot.most_streams = slot.most_streams.max(slot.exchanges.len() as u32);
        let overdue_at = self.context.overdue_at(&exchange);
        self.check_by(place, overdue_at);
        self.make_dirty(place);
    }

    /// Queues a connection, so that its bytes are written at the end of the current step.
    pub(super) fn make_dirty(&mut self, place: u32) {
        self.to_write.add(place, &mut self.slots[place].dirty);
    }

    /// Passes input to the state machine of a connection and handles its events.
    pub(super) fn pump(&mut self, requester: &mut impl Requester, place: u32, mut input: &[u8]) {
        let now = self.context.now();
        if self.slots[place].machine.is_quic() {
            self.drive(requester, place);
            return self.make_dirty(place);
        }
        loop {
            let slot = &mut self.slots[place];
            if let Some(end) = slot.machine.poll_whole(&mut input, now) {
                self.begins_and_ends(requester, place, end);
                continue;
            }
            let Some(event) = slot.machine.poll(&mut input, now) else {
                break;
            };
            self.deal_with(requester, place, event);
        }
        let machine = &self.slots[place].machine;
        // HTTP/2 sends acknowledgements and window updates without a request.
        if machine.multiplexes() && !machine.transmit().is_empty() {
            self.make_dirty(place);
        }
    }

    /// Handles the end of a response for which no other event came before.
    fn begins_and_ends(&mut self, requester: &mut impl Requester, place: u32, end: Event<'_>) {
        let now = self.context.now();
        let slot = &mut self.slots[place];
        let status = slot.machine.status();
        if let Event::End { request, .. } = end
            && let Some(exchange) = slot.exchanges.get_mut(request)
        {
            exchange.response_begins(now);
            exchange.has_status(status);
        }
        self.deal_with(requester, place, end);
    }

    /// Handles an event of a state machine.
    pub(super) fn deal_with(
        &mut self,
        requester: &mut impl Requester,
        place: u32,
        event: Event<'_>,
    ) {
        let now = self.context.now();
        let slot = &mut self.slots[place];
        match event {
            Event::Begin { request } => {
                if let Some(exchange) = slot.exchanges.get_mut(request) {
                    exchange.response_begins(now);
                }
            }
            Event::Head { request } => {
                let status = slot.machine.status();
                if let Some(exchange) = slot.exchanges.get_mut(request) {
                    exchange.has_status(status);
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
                let exchange = slot.exchanges.take(request);
                self.after_exchange(requester, place, persists);
                if let Some(exchange) = exchange {
                    self.complete(requester, place, &exchange, &received);
                }
            }
            Event::Failed {
                request,
                failure,
                received,
                persists,
            } => {
                let exchange = slot.exchanges.take(request);
                self.after_exchange(requester, place, persists);
                if let Some(exchange) = exchange {
                    self.give_up_on(requester, place, &exchange, failure, &received);
                }
            }
            Event::Unanswered {
                request,
                failure,
                sent,
                idempotent,
                persists,
            } => {
                let end = Unanswered {
                    failure,
                    sent,
                    idempotent,
                    served: slot.served > 0,
                };
                let exchange = slot.exchanges.take(request);
                self.after_exchange(requester, place, persists);
                let Some(exchange) = exchange else {
                    return;
                };
                match exchange.retry(&end, now, self.context.shared.limits.timeout) {
                    Some(retry) => self.retry(requester, place, exchange, retry, failure),
                    None => {
                        let nothing = Received::default();
                        self.give_up_on(requester, place, &exchange, failure, &nothing);
                    }
                }
            }
            Event::Settings => {
                slot.has_peer_limit = true;
                self.has_room_again(requester, place);
            }
            Event::GoAway { .. } => self.detach(requester, place),
            Event::Closed { .. } => self.closed(requester, place),
        }
    }

    /// Handles the end of an exchange. `persists`: the connection accepts more requests.
    fn after_exchange(&mut self, requester: &mut impl Requester, place: u32, persists: bool) {
        let slot = &mut self.slots[place];
        slot.free_since = self.context.now();
        slot.note_room(slot.free_since);
        let is_used_up = slot.left == 0 && slot.exchanges.is_empty();
        if persists && is_used_up {
            slot.machine.finish();
        }
        if persists && !is_used_up {
            self.offer(requester, place);
            self.watch_idle(place);
        } else {
            self.detach(requester, place);
        }
    }

    /// Handles an increase of the number of requests that the server allows on a connection.
    pub(super) fn has_room_again(&mut self, requester: &mut impl Requester, place: u32) {
        let now = self.context.now();
        self.slots[place].note_room(now);
        self.offer(requester, place);
        requester.has_room(self.slots[place].owner);
    }

    fn complete(
        &mut self,
        requester: &mut impl Requester,
        place: u32,
        exchange: &Exchange,
        received: &Received,
    ) {
        let target = self.context.shared.target(TargetId(exchange.target()));
        let wanted = target
            .size
            .filter(|_| exchange.status() == 200 && target.method != "HEAD");
        requester.close_past_intervals(&mut self.context);
        let now = self.context.now();
        self.context
            .tally
            .completed(exchange, received, wanted, now);
        self.record(requester, place, exchange, received, Outcome::Complete);
        requester.has_ended(&mut self.context, exchange, true);
    }

    fn give_up_on(
        &mut self,
        requester: &mut impl Requester,
        place: u32,
        exchange: &Exchange,
        failure: Failure,
        received: &Received,
    ) {
        let failure = match exchange.has_timed_out() {
            true => Failure::TimedOut,
            false => failure,
        };
        requester.close_past_intervals(&mut self.context);
        let now = self.context.now();
        self.context
            .tally
            .failed(exchange, Some(failure), received, now);
        let outcome = Outcome::Failed(failure);
        self.record(requester, place, exchange, received, outcome);
        requester.has_ended(&mut self.context, exchange, false);
    }

    fn retry(
        &mut self,
        requester: &mut impl Requester,
        place: u32,
        mut exchange: Exchange,
        retry: Retry,
        failure: Failure,
    ) {
        self.context.tally.retried(self.context.now());
        let (nothing, outcome) = (Received::default(), Outcome::Retried(failure));
        self.record(requester, place, &exchange, &nothing, outcome);
        exchange.retried(retry);
        // The time on the connection that did not process the request is not counted as send lag.
        exchange.could_leave(self.context.now());
        requester.retry(exchange);
    }

    fn record(
        &mut self,
        requester: &impl Requester,
        place: u32,
        exchange: &Exchange,
        received: &Received,
        outcome: Outcome,
    ) {
        if self.context.tally.records() {
            let user = requester.number(exchange);
            let connection = self.slots[place].number;
            let now = self.context.now();
            self.context
                .tally
                .row(exchange, user, connection, received, outcome, now);
        }
    }

    /// Handles exchanges of a connection that have timed out. If the protocol has streams and data still arrives,
    /// cancels the streams of these exchanges. Otherwise fails the connection.
    pub(super) fn time_out(&mut self, requester: &mut impl Requester, place: u32) {
        let (now, limits) = (self.context.now(), &self.context.shared.limits);
        let slot = &mut self.slots[place];
        if !slot.machine.multiplexes() || slot.is_dead(now, limits.timeout) {
            return self.fail(requester, place, Failure::TimedOut);
        }
        for request in slot.exchanges.time_out(now, limits.timeout) {
            slot.machine.cancel(request, Failure::TimedOut, now);
        }
        self.pump(requester, place, &[]);
        if let Some(oldest) = self.slots[place].exchanges.oldest_plan() {
            self.check_by(place, oldest + limits.timeout);
        }
    }
}
