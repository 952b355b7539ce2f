//! HTTP/3 connections in a loop: opening, reading, writing, timing and counting.
//!
//! A connection is established when the QUIC handshake, which contains the TLS handshake, is complete; the connect time
//! covers both. A request counts as sent when it is passed to QUIC, which passes it to the kernel in the same step
//! unless congestion control or pacing delays it. If the server permits no further stream, a request waits, and is due
//! when a stream is permitted. If a session is resumed with early data, requests that are safe to repeat are sent with
//! the first datagrams of the handshake, and are due then. QUIC's time limits are timers of the loop, with the
//! resolution of its clock.

use std::io;

use fathometer_analysis::load::Datagrams;
use fathometer_http::client::RequestId;
use fathometer_http::h3::Direction;
use fathometer_model::{Failure, Instant};
use fathometer_quic::Handshake;
use fathometer_sys::clock::thread_cpu_time;
use fathometer_sys::poller::Ready;

use super::super::quic_plan::QuicPlan;
use super::super::security;
use super::super::tally::ConnectionEnd;
use super::super::timers::Timer;
use super::machine::Machine;
use super::quic_connection::QuicConnection;
use super::slot::State;
use super::{Connections, Requester};
use crate::http3_client::{Event, Http3Client};

impl Connections<'_> {
    /// Creates a client for a connection to one of the policy's hosts, and registers its socket under a
    /// token.
    pub(super) fn connect_quic(
        &mut self,
        plan: &QuicPlan,
        host: u16,
        number: u32,
        token: u64,
    ) -> io::Result<Box<QuicConnection>> {
        let name = match &self.context.shared.tls {
            Some(tls) => tls.name(host),
            None => "",
        };
        let client = Http3Client::connect(
            &plan.settings,
            self.context.shared.address,
            None,
            name,
            plan.seed.child(number.into()),
            None,
            self.context.now(),
        )?;
        self.poller.add(&client, token)?;
        if self.datagrams.is_none() {
            self.datagrams = Some(plan.settings.receive_buffer());
        }
        Ok(Box::new(QuicConnection::new(client)))
    }

    /// Handles an event of a QUIC socket.
    pub(super) fn serve_quic(&mut self, requester: &mut impl Requester, place: u32, ready: Ready) {
        if let Some(quic) = self.slots[place].machine.quic() {
            // The next read or write reports an error of the socket.
            let readable = ready.readable || ready.ended;
            quic.client.handle_ready(readable, ready.writable);
        }
        // A connection that is already queued for reading must not get a second turn.
        if !self.slots[place].unread {
            self.read_quic(requester, place);
        }
    }

    /// Receives and handles the available datagrams, up to the limit of one turn.
    pub(super) fn read_quic(&mut self, requester: &mut impl Requester, place: u32) {
        self.context.tick();
        let now = self.context.now();
        let slot = &mut self.slots[place];
        let (Some(quic), Some(buffer)) = (slot.machine.quic(), &mut self.datagrams) else {
            return;
        };
        // Handshakes are few. Two clock readings for each of the many exchanges would use too much CPU time.
        let begin = (slot.state == State::Connecting).then(thread_cpu_time);
        let before = quic.client.batches().received;
        let more = quic.client.receive(buffer, now);
        let has_heard = quic.client.batches().received > before;
        if let Some(begin) = begin {
            slot.handshake_time += thread_cpu_time() - begin;
        }
        // A socket is also reported as ready after it has sent a datagram.
        if has_heard {
            slot.last_received = now;
        }
        if more {
            self.to_read.add(place, &mut slot.unread);
        }
        self.drive(requester, place);
        self.make_dirty(place);
    }

    /// Handles all events of a connection.
    pub(super) fn drive(&mut self, requester: &mut impl Requester, place: u32) {
        let now = self.context.now();
        let generation = self.slots[place].generation;
        loop {
            let slot = &mut self.slots[place];
            if slot.generation != generation {
                return;
            }
            let Some(quic) = slot.machine.quic() else {
                return;
            };
            let event = match quic.client.poll_event(now) {
                None => return,
                Some(Event::Http(event)) => event.without_content(),
                Some(Event::Established(handshake)) => {
                    let handshake = handshake.clone();
                    self.quic_established(requester, place, &handshake);
                    continue;
                }
                // The machine has already reported the connection's end, and the slot is free.
                Some(Event::Closed(_)) => return,
            };
            let failure = quic.client.failure();
            let is_refused = std::mem::replace(&mut quic.is_refused, failure.is_some());
            if let Some(failure) = failure.filter(|_| !is_refused)
                && slot.state == State::Connecting
            {
                self.not_connected(requester, place, failure);
            }
            if let Some(event) = event {
                self.deal_with(requester, place, event);
            }
        }
    }

    fn quic_established(
        &mut self,
        requester: &mut impl Requester,
        place: u32,
        handshake: &Handshake,
    ) {
        let agrees = self
            .context
            .shared
            .tls
            .as_ref()
            .is_some_and(|tls| tls.agrees(handshake.protocol.as_deref()));
        if !agrees {
            return self.fail(requester, place, Failure::TlsFailed);
        }
        let now = self.context.now();
        let slot = &mut self.slots[place];
        slot.reached = now;
        self.context.tally.reached(now.since(slot.opened), now);
        let handshakes = self.context.tally.handshakes(now);
        security::count_quic(handshakes, handshake, slot.handshake_time);
        self.established(requester, place);
    }

    /// Sends the datagrams that may be sent, and sets the connection's timer.
    pub(super) fn flush_quic(&mut self, requester: &mut impl Requester, place: u32) {
        let now = self.context.exact_time();
        let slot = &mut self.slots[place];
        let Machine::Quic(Some(quic)) = &mut slot.machine else {
            return;
        };
        let client = &mut quic.client;
        if slot.state == State::Connecting && client.can_send_early() {
            match self
                .context
                .shared
                .are_safe_to_repeat(slot.exchanges.iter())
            {
                true => slot.exchanges.could_leave(slot.opened),
                false => client.wait_for_handshake(),
            }
        }
        let before = client.http_ref().first_unsent();
        client.flush(now);
        let http = client.http_ref();
        let begun = before..http.first_unsent();
        let waits = http.wants_stream() == Some(Direction::Bidirectional);
        let stalled = (waits && client.is_established()).then(|| RequestId(http.opened()));
        let has_ended = client.has_ended();
        let due = client.poll_timeout();
        let was_stalled = std::mem::replace(&mut quic.stalled, stalled);
        slot.is_full |= stalled.is_some();
        if let Some(first) = was_stalled {
            // These requests could not be sent before the server allowed streams.
            slot.exchanges.could_leave_from_request(first, now);
        }
        slot.exchanges
            .leave(begun, now, |exchange| self.context.tally.sent(exchange));
        if let Some(due) = due {
            self.wake_quic(place, due);
        }
        if was_stalled.is_some() && stalled.is_none() {
            self.has_room_again(requester, place);
        }
        if has_ended {
            self.drive(requester, place);
        }
    }

    fn wake_quic(&mut self, place: u32, due: Instant) {
        if let Some(quic) = self.slots[place].machine.quic() {
            let timer = Timer::Quic(place);
            quic.deadline.set_by(due, timer, &mut self.context.timers);
        }
    }

    /// Handles a QUIC timer of a connection that was set for `at`.
    pub(crate) fn quic_is_due(&mut self, requester: &mut impl Requester, place: u32, at: Instant) {
        let now = self.context.now();
        let Some(quic) = self.slots[place].machine.quic() else {
            return;
        };
        if !quic.deadline.is_reached(at) {
            return;
        }
        match quic.client.poll_timeout() {
            Some(due) if due <= now => quic.client.handle_timeout(now),
            // The timeout is now later, because packets were acknowledged.
            Some(due) => return self.wake_quic(place, due),
            None => return,
        }
        self.drive(requester, place);
        self.make_dirty(place);
    }

    /// Closes a connection whose state machine has finished: notifies the server and frees the slot.
    pub(super) fn close_quic(&mut self, place: u32, end: ConnectionEnd) {
        if let Some(quic) = self.slots[place].machine.quic() {
            quic.client.flush(self.context.now());
        }
        self.release(place, end);
    }

    /// Closes all QUIC connections at the end of a test.
    pub(super) fn leave_quic(&mut self, now: Instant) {
        for slot in self.slots.taken_mut() {
            if let Some(quic) = slot.machine.quic() {
                quic.client.close(now);
                quic.client.flush(now);
            }
        }
    }

    /// Counts the datagrams that a connection carried since the last call, in the window of `at`.
    pub(super) fn count_datagrams(&mut self, place: u32, at: Instant) {
        let slot = &mut self.slots[place];
        let Machine::Quic(Some(quic)) = &mut slot.machine else {
            return;
        };
        let now = quic.client.statistics();
        let before = std::mem::replace(&mut quic.counted, now);
        let batches = quic.client.batches();
        let pieces = batches.since(std::mem::replace(&mut quic.batches, batches));
        let overflowed = u64::from(quic.client.overflowed());
        let unsent = quic.client.local_losses().others;
        let datagrams = Datagrams {
            sent: now.sent.datagrams - before.sent.datagrams,
            sent_bytes: now.sent.bytes - before.sent.bytes,
            received: now.received.datagrams - before.received.datagrams,
            received_bytes: now.received.bytes - before.received.bytes,
            lost: now.packets_lost.saturating_sub(before.packets_lost),
            overflowed: overflowed - std::mem::replace(&mut quic.overflowed, overflowed),
            unsent: unsent - std::mem::replace(&mut quic.unsent, unsent),
            send_calls: pieces.send_calls,
            receive_buffers: pieces.receive_buffers,
            most_streams: slot.most_streams.into(),
        };
        slot.most_streams = slot.exchanges.len() as u32;
        self.context.tally.datagrams(&datagrams, at);
    }
}
