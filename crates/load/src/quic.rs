//! Connections of HTTP/3 in a loop: opened, read, written, timed, counted.
//!
//! A connection is established when the handshake of QUIC is over, which includes that of TLS: the time of
//! connecting covers both. A request counts as sent when it was handed to QUIC, which hands it to the kernel in
//! the same step as far as congestion control and pacing allow. Requests for which the server allows no stream
//! wait for one, and are due when there is one. Where a session is resumed with early data, requests that may
//! be repeated leave with the first datagrams of the handshake, and are due then. Time limits of QUIC are
//! timers of the loop, exact to its clock.

use std::io;
use std::sync::Arc;

use fathometer_analysis::load::Datagrams;
use fathometer_http::client::RequestId;
use fathometer_http::h1::client::Timeouts;
use fathometer_http::h3::{Direction, client as http3};
use fathometer_model::{Bytes, Failure, Instant, Seed};
use fathometer_quic::{Handshake, Statistics, TransportSettings};
use fathometer_sys::clock::thread_cpu_time;
use fathometer_sys::poller::Ready;
use fathometer_sys::udp::Batches;

use super::machine::Machine;
use super::slot::{End, State};
use super::tally::nanos;
use super::timers::Timer;
use super::transfer::note_sent;
use super::worker::Worker;
use super::{LoadError, Options, security};
use crate::http3_client::{ClientSettings, Event, Http3Client};
use fathometer_quic_sockets::Sockets;

/// The settings of a test's connections.
pub(super) struct QuicPlan {
    pub(super) settings: Arc<ClientSettings>,
    seed: Seed,
}

/// One connection.
pub(super) struct QuicConnection {
    pub(super) client: Http3Client,
    /// When its timer is due; zero when there is none.
    wakes_at: u64,
    /// The first request that has no stream.
    stalled: Option<RequestId>,
    /// It failed before it was established, and that was counted.
    is_refused: bool,
    /// Figures that are already in the tally.
    counted: Statistics,
    batches: Batches,
    overflowed: u64,
    unsent: u64,
}

impl QuicConnection {
    fn new(client: Http3Client) -> QuicConnection {
        QuicConnection {
            client,
            wakes_at: 0,
            stalled: None,
            is_refused: false,
            counted: Statistics::default(),
            batches: Batches::default(),
            overflowed: 0,
            unsent: 0,
        }
    }

    /// Whether a request may be given to it: not while others wait for streams.
    pub(super) fn can_request(&self) -> bool {
        self.stalled.is_none() && self.client.http_ref().can_request()
    }
}

impl QuicPlan {
    pub(super) fn new(options: &Options) -> Result<Option<QuicPlan>, LoadError> {
        let policy = options.policy;
        let Some(tls) = options
            .tls
            .as_ref()
            .filter(|_| policy.protocol == fathometer_http::driver::Protocol::Http3)
        else {
            return Ok(None);
        };
        let http = http3::Config {
            streams: policy.streams.map_or(u32::MAX, u32::from),
            // The loop enforces time limits.
            timeouts: Timeouts {
                head: None,
                idle: None,
                total: None,
                ..Timeouts::default()
            },
            ..http3::Config::default()
        };
        let transport = TransportSettings {
            stream_window: Bytes(options.windows.stream.into()),
            connection_window: Some(Bytes(options.windows.connection.into())),
            // The exchanges of a silent server time out.
            max_idle: None,
            ..TransportSettings::client()
        };
        let sockets = Sockets::default().offloaded(options.udp_offload);
        let settings = ClientSettings::new(tls, transport, sockets, http)
            .map_err(|error| LoadError::Quic(error.to_string()))?;
        Ok(Some(QuicPlan {
            settings: Arc::new(settings),
            seed: options.seed.stream("load.quic"),
        }))
    }
}

impl Worker<'_> {
    /// Creates a client for a connection to one of the policy's hosts, and watches its socket under a token.
    pub(super) fn connect_quic(
        &mut self,
        plan: &QuicPlan,
        host: u16,
        number: u32,
        token: u64,
    ) -> io::Result<Box<QuicConnection>> {
        let name = match &self.shared.tls {
            Some(tls) => tls.name(host),
            None => "",
        };
        let client = Http3Client::connect(
            &plan.settings,
            self.shared.address,
            None,
            name,
            plan.seed.child(number.into()),
            None,
            self.instant(),
        )?;
        self.poller.add(&client, token)?;
        if self.datagrams.is_none() {
            self.datagrams = Some(plan.settings.receive_buffer());
        }
        Ok(Box::new(QuicConnection::new(client)))
    }

    /// Handles an event of a QUIC socket.
    pub(super) fn serve_quic(&mut self, place: u32, ready: Ready) {
        if let Some(quic) = self.slots[place as usize].machine.quic() {
            // Using the socket reports its errors.
            let readable = ready.readable || ready.ended;
            quic.client.handle_ready(readable, ready.writable);
        }
        // A connection that is already queued for reading gets no second turn.
        if !self.slots[place as usize].unread {
            self.read_quic(place);
        }
    }

    /// Receives what there is, for one turn, and handles it.
    pub(super) fn read_quic(&mut self, place: u32) {
        self.tick();
        let (now, instant) = (self.now, self.instant());
        let slot = &mut self.slots[place as usize];
        let (Some(quic), Some(buffer)) = (slot.machine.quic(), &mut self.datagrams) else {
            return;
        };
        // Handshakes are few. Exchanges are many, and not worth two clock readings each.
        let begin = (slot.state == State::Connecting).then(thread_cpu_time);
        let before = quic.client.batches().received;
        let more = quic.client.receive(buffer, instant);
        let has_heard = quic.client.batches().received > before;
        if let Some(begin) = begin {
            slot.handshake_time += (thread_cpu_time() - begin).as_nanos() as u64;
        }
        // The socket is ready as well when a datagram that was sent has left it.
        if has_heard {
            slot.heard = now;
        }
        if more {
            self.unread.add(place, &mut slot.unread);
        }
        self.drive(place);
        self.make_dirty(place);
    }

    /// Handles all events of a connection.
    pub(super) fn drive(&mut self, place: u32) {
        let instant = self.instant();
        let generation = self.slots[place as usize].generation;
        loop {
            let slot = &mut self.slots[place as usize];
            if slot.generation != generation {
                return;
            }
            let Some(quic) = slot.machine.quic() else {
                return;
            };
            let event = match quic.client.poll_event(instant) {
                None => return,
                Some(Event::Http(event)) => event.without_content(),
                Some(Event::Established(handshake)) => {
                    let handshake = handshake.clone();
                    self.quic_established(place, &handshake);
                    continue;
                }
                // The machine reported its own end before, and the slot is free.
                Some(Event::Closed(_)) => return,
            };
            let failure = quic.client.failure();
            let is_refused = std::mem::replace(&mut quic.is_refused, failure.is_some());
            if let Some(failure) = failure.filter(|_| !is_refused)
                && slot.state == State::Connecting
            {
                self.not_connected(place, failure);
            }
            if let Some(event) = event {
                self.deal_with(place, event);
            }
        }
    }

    fn quic_established(&mut self, place: u32, handshake: &Handshake) {
        let agrees = self
            .shared
            .tls
            .as_ref()
            .is_some_and(|tls| tls.agrees(handshake.protocol.as_deref()));
        if !agrees {
            return self.fail(place, Failure::TlsFailed);
        }
        let now = self.now;
        let slot = &mut self.slots[place as usize];
        slot.reached = now;
        let (took, cpu) = (nanos(now - slot.opened), nanos(slot.handshake_time));
        let window = self.tally.at(now);
        window.latency.connect.record(took);
        security::count_quic(&mut window.handshakes, handshake, cpu);
        self.established(place);
    }

    /// Sends what may be sent, and sets the connection's timer.
    pub(super) fn flush_quic(&mut self, place: u32) {
        let now = self.clock.now();
        let slot = &mut self.slots[place as usize];
        let Machine::Quic(Some(quic)) = &mut slot.machine else {
            return;
        };
        let client = &mut quic.client;
        if slot.state == State::Connecting && client.can_send_early() {
            match self.shared.is_harmless(&slot.exchanges) {
                true => {
                    let early = slot.exchanges.iter_mut().filter(|e| e.sent == 0);
                    early.for_each(|exchange| exchange.due = exchange.planned.max(slot.opened));
                }
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
        if let Some(first) = was_stalled {
            // They could not leave before the server allowed streams.
            let late = slot.exchanges.iter_mut();
            for exchange in late.filter(|e| e.sent == 0 && e.request >= first) {
                exchange.due = exchange.planned.max(now.as_nanos());
            }
        }
        note_sent(&mut slot.exchanges, begun, now, &mut self.tally);
        if let Some(due) = due {
            self.wake_quic(place, due);
        }
        if was_stalled.is_some() && stalled.is_none() {
            self.has_room_again(place);
        }
        if has_ended {
            self.drive(place);
        }
    }

    fn wake_quic(&mut self, place: u32, due: Instant) {
        let at = due.as_nanos().max(1);
        if let Some(quic) = self.slots[place as usize].machine.quic()
            && (quic.wakes_at == 0 || at < quic.wakes_at)
        {
            quic.wakes_at = at;
            self.timers.set(at, Timer::Quic(place));
        }
    }

    /// The timer of a connection is due.
    pub(super) fn quic_is_due(&mut self, place: u32, at: u64) {
        let instant = self.instant();
        let Some(quic) = self.slots[place as usize].machine.quic() else {
            return;
        };
        if quic.wakes_at != at {
            return;
        }
        quic.wakes_at = 0;
        match quic.client.poll_timeout() {
            Some(due) if due <= instant => quic.client.handle_timeout(instant),
            // The timeout has moved meanwhile: packets were acknowledged.
            Some(due) => return self.wake_quic(place, due),
            None => return,
        }
        self.drive(place);
        self.make_dirty(place);
    }

    /// The machine is done: notifies the server and frees the slot.
    pub(super) fn close_quic(&mut self, place: u32, end: End) {
        let instant = self.instant();
        if let Some(quic) = self.slots[place as usize].machine.quic() {
            quic.client.flush(instant);
        }
        self.release(place, end);
    }

    /// Closes all QUIC connections at the end of a test.
    pub(super) fn leave_quic(&mut self) {
        let instant = self.instant();
        for slot in &mut self.slots {
            if let Some(quic) = slot.machine.quic() {
                quic.client.close(instant);
                quic.client.flush(instant);
            }
        }
    }

    /// Counts the datagrams of a connection since the last call into the window of an instant.
    pub(super) fn count_datagrams(&mut self, place: u32, at: u64) {
        let slot = &mut self.slots[place as usize];
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
            sent_octets: now.sent.bytes - before.sent.bytes,
            received: now.received.datagrams - before.received.datagrams,
            received_octets: now.received.bytes - before.received.bytes,
            lost: now.packets_lost.saturating_sub(before.packets_lost),
            overflowed: overflowed - std::mem::replace(&mut quic.overflowed, overflowed),
            unsent: unsent - std::mem::replace(&mut quic.unsent, unsent),
            send_calls: pieces.send_calls,
            receive_buffers: pieces.receive_buffers,
            most_streams: slot.most_streams.into(),
        };
        slot.most_streams = slot.exchanges.len() as u32;
        self.tally.at(at).datagrams.merge(&datagrams);
    }
}
