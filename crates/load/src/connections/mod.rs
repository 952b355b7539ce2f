//! The connections of a loop: opening, establishing, monitoring and closing them.

mod exchanges;
mod in_flight;
mod machine;
mod quic;
mod quic_connection;
mod requester;
mod slot;
mod slots;
mod transfer;

use std::io;
use std::time::Duration;

use fathometer_model::{CloseReason, Failure, Instant};
use fathometer_sys::clock::thread_cpu_time;
use fathometer_sys::poller::{Poller, Ready};
use fathometer_sys::socket;
use fathometer_sys::udp::ReceiveBuffer;
use fathometer_tls::{EarlyData, Session};

use super::context::Context;
use super::exchange::Exchange;
use super::tally::ConnectionEnd;
use super::timers::Timer;
use super::turns::Turns;
use super::{LoadError, security};
use machine::Machine;
use slot::{Check, Protection, Slot, State, idle_time};
use slots::Slots;

pub(super) use requester::Requester;
pub(super) use slot::Owner;

/// Maximum number of ready sockets reported by one poll.
const EVENTS: usize = 256;

/// The time that a finished connection waits for the server to close it.
const LINGER: Duration = Duration::from_secs(1);

/// The connections of a loop, and their sockets.
///
/// Handles the handshakes, the bytes of exchanges, the time-outs and the ends of connections. Reports events that
/// concern a user to a [`Requester`], which decides what to request.
///
/// Every exchange that is passed to a connection is reported exactly once: as ended, for a retry, or in the result of
/// [`Connections::leave`]. Connections are read and written in the order in which they became ready.
pub(super) struct Connections<'a> {
    /// The state that all parts of the loop share.
    pub(super) context: Context<'a>,
    pub(super) poller: Poller,
    slots: Slots,
    /// Connections with something to write.
    to_write: Turns,
    /// Connections with unread data.
    to_read: Turns,
    /// Memory to receive datagrams into; `None` without QUIC.
    datagrams: Option<ReceiveBuffer>,
}

impl<'a> Connections<'a> {
    pub(super) fn new(context: Context<'a>) -> Result<Connections<'a>, LoadError> {
        Ok(Connections {
            context,
            poller: Poller::new(EVENTS)?,
            slots: Slots::default(),
            to_write: Turns::default(),
            to_read: Turns::default(),
            datagrams: None,
        })
    }

    /// Returns the number of connections with unread data.
    pub(super) fn unread(&self) -> usize {
        self.to_read.len()
    }

    /// Returns whether a request may be passed to a connection now.
    pub(super) fn has_room(&self, place: u32) -> bool {
        self.slots[place].has_room()
    }

    /// Returns the number of exchanges in flight on a connection.
    pub(super) fn in_flight(&self, place: u32) -> usize {
        self.slots[place].exchanges.len()
    }

    /// Returns the index of the host to which a connection goes.
    pub(super) fn host(&self, place: u32) -> u16 {
        self.slots[place].host
    }

    /// Returns the number of a connection in the whole test.
    pub(super) fn number(&self, place: u32) -> u32 {
        self.slots[place].number
    }

    /// Frees unused memory of a connection that will be idle for long.
    pub(super) fn shrink(&mut self, place: u32) {
        self.slots[place].shrink();
    }

    /// Opens a connection and returns the index of its slot. Counts an immediate failure.
    pub(super) fn open(&mut self, owner: Owner, host: u16) -> Result<u32, Failure> {
        self.context.tally.connect_begins(self.context.now());
        match self.try_open(owner, host) {
            Ok(place) => Ok(place),
            Err(error) => {
                if error.raw_os_error() == Some(rustix::io::Errno::ADDRNOTAVAIL.raw_os_error()) {
                    self.context.tally.port_missing();
                }
                let failure = socket::classify(&error);
                self.context
                    .tally
                    .connect_failed(failure, self.context.now());
                Err(failure)
            }
        }
    }

    fn try_open(&mut self, owner: Owner, host: u16) -> io::Result<u32> {
        let shared = self.context.shared;
        let place = self.slots.take(|| Slot::new(Machine::new(shared)));
        let number = shared.next_connection();
        if let Err(error) = self.open_socket(place, host, number) {
            self.slots.give_back(place);
            return Err(error);
        }
        let left = shared.max_requests.unwrap_or(u32::MAX);
        self.slots[place].begin(number, owner, host, left, self.context.now());
        self.context.tally.connection_opened();
        let until = self.context.now() + shared.limits.connect_timeout;
        self.check_by(place, until);
        Ok(place)
    }

    /// Opens a socket for a slot and begins to connect.
    fn open_socket(&mut self, place: u32, host: u16, number: u32) -> io::Result<()> {
        let shared = self.context.shared;
        let token = self.slots.token(place);
        if let Some(plan) = &shared.quic {
            let connection = self.connect_quic(plan, host, number, token)?;
            self.slots[place].machine = Machine::Quic(Some(connection));
            // The first datagrams are sent together with those of other connections.
            self.make_dirty(place);
            return Ok(());
        }
        let stream = socket::connect(shared.address, None, &shared.sockets)?;
        self.poller.add(&stream, token)?;
        self.slots[place].stream = Some(stream);
        Ok(())
    }

    /// Ensures that a connection is checked at `at` or earlier.
    fn check_by(&mut self, place: u32, at: Instant) {
        let timer = Timer::Connection(place);
        let deadline = &mut self.slots[place].deadline;
        deadline.set_by(at, timer, &mut self.context.timers);
    }

    /// Handles a connection's timer that was set for `at`.
    pub(super) fn is_due(&mut self, requester: &mut impl Requester, place: u32, at: Instant) {
        let slot = &mut self.slots[place];
        if !slot.deadline.is_reached(at) {
            return;
        }
        match slot.check(self.context.now(), &self.context.shared.limits) {
            Check::Nothing => {}
            Check::Again(at) => self.check_by(place, at),
            Check::StopLingering => self.release(place, ConnectionEnd::Client),
            Check::CloseIdle => self.finish(requester, place),
            Check::TimeOutExchanges => self.time_out(requester, place),
            Check::FailToConnect => self.fail(requester, place, Failure::TimedOut),
        }
    }

    /// Handles an event of a socket.
    pub(super) fn serve(
        &mut self,
        requester: &mut impl Requester,
        ready: Ready,
        buffer: &mut [u8],
    ) {
        let Some(place) = self.slots.at_token(ready.token) else {
            return;
        };
        let slot = &mut self.slots[place];
        if slot.machine.is_quic() {
            return self.serve_quic(requester, place, ready);
        }
        if slot.state == State::Connecting {
            let failed = match &slot.stream {
                Some(stream) if ready.ended => stream.take_error().unwrap_or_else(Some),
                _ => None,
            };
            if let Some(error) = failed {
                return self.fail(requester, place, socket::classify(&error));
            }
            if !ready.writable {
                return;
            }
            self.context.tick();
            self.reached(requester, place);
        } else if ready.writable && slot.blocked {
            slot.blocked = false;
            // The server did not read its data before, so it caused this wait, which is not counted as send lag.
            slot.exchanges.could_leave(self.context.exact_time());
            self.flush(requester, place);
        }
        // A connection that is already queued for reading must not get a second turn.
        if ready.readable && !self.slots[place].unread {
            self.read(requester, place, ready.ended, buffer);
        }
    }

    /// Handles the end of the TCP handshake: the connection can be used, or the TLS handshake begins.
    fn reached(&mut self, requester: &mut impl Requester, place: u32) {
        let now = self.context.now();
        let slot = &mut self.slots[place];
        slot.reached = now;
        if let (Some(quick), Some(stream)) = (self.context.shared.quick_ack, &slot.stream) {
            // If the connection is closed, the next read reports it.
            let _ = socket::set_quick_ack(stream, quick);
        }
        self.context.tally.reached(now.since(slot.opened), now);
        match &self.context.shared.tls {
            None => self.established(requester, place),
            Some(_) => self.secure(requester, place),
        }
    }

    /// Begins the TLS handshake, with early data if this is allowed and safe.
    fn secure(&mut self, requester: &mut impl Requester, place: u32) {
        let Some(tls) = &self.context.shared.tls else {
            return;
        };
        let begin = thread_cpu_time();
        let slot = &mut self.slots[place];
        let name = tls.name(slot.host);
        let mut session = match Session::client(&tls.settings, name, self.context.now()) {
            Ok(session) => session,
            Err(error) => return self.fail(requester, place, error.failure()),
        };
        if session.may_send_early()
            && self
                .context
                .shared
                .are_safe_to_repeat(slot.exchanges.iter())
        {
            let taken = session.early_write(slot.machine.transmit());
            slot.early = (taken > 0).then_some((taken, self.context.now()));
        }
        slot.protection = Protection::Tls(Box::new(session));
        slot.state = State::Securing;
        slot.handshake_time = thread_cpu_time() - begin;
        self.flush(requester, place);
    }

    /// Handles the end of the TLS handshake.
    fn secured(
        &mut self,
        requester: &mut impl Requester,
        place: u32,
        session: &Session,
    ) -> Result<(), Failure> {
        let (Some(handshake), Some(tls)) = (session.handshake(), &self.context.shared.tls) else {
            return Err(Failure::LocalAbort);
        };
        if !tls.agrees(session.alpn()) {
            return Err(Failure::TlsFailed);
        }
        let now = self.context.now();
        let slot = &self.slots[place];
        self.context.tally.secured(now.since(slot.reached), now);
        let handshakes = self.context.tally.handshakes(now);
        security::count(handshakes, handshake, slot.handshake_time);
        if handshake.early_data == EarlyData::Accepted {
            self.early_was_taken(place);
        }
        self.established(requester, place);
        Ok(())
    }

    /// Handles a connection that can now carry requests.
    fn established(&mut self, requester: &mut impl Requester, place: u32) {
        let now = self.context.now();
        let slot = &mut self.slots[place];
        slot.state = State::Open;
        slot.established = now;
        slot.free_since = now;
        slot.room_since = now;
        slot.exchanges.could_leave(now);
        requester.has_connected(slot.owner);
        self.context.tally.established(now);
        self.flush(requester, place);
        self.offer(requester, place);
        self.watch_idle(place);
    }

    /// Offers a connection that can take a request to the sessions that share the connections.
    fn offer(&mut self, requester: &mut impl Requester, place: u32) {
        let slot = &self.slots[place];
        if slot.owner == Owner::Pool && slot.state == State::Open && slot.has_room() {
            requester.offer(place, slot.exchanges.is_empty());
        }
    }

    /// Sets the timer that frees the memory of an idle connection or closes it.
    fn watch_idle(&mut self, place: u32) {
        if self.slots[place].exchanges.is_empty() {
            let at = self.context.now() + idle_time(&self.context.shared.limits);
            self.check_by(place, at);
        }
    }

    /// Handles the failure of a connection, or of an attempt to connect.
    fn fail(&mut self, requester: &mut impl Requester, place: u32, failure: Failure) {
        let slot = &self.slots[place];
        if matches!(slot.state, State::Connecting | State::Securing) {
            self.not_connected(requester, place, failure);
        }
        let machine = &mut self.slots[place].machine;
        machine.handle_failure(failure, self.context.now());
        self.pump(requester, place, &[]);
    }

    /// Counts a failed attempt to connect, and notifies the connection's user, which then pauses.
    fn not_connected(&mut self, requester: &mut impl Requester, place: u32, failure: Failure) {
        self.context
            .tally
            .connect_failed(failure, self.context.now());
        requester.has_not_connected(self.slots[place].owner, self.context.now());
    }

    /// Handles a connection whose state machine has finished. The connection is closed at once, unless the server
    /// should close first so that the local port is free without TIME_WAIT.
    fn closed(&mut self, requester: &mut impl Requester, place: u32) {
        self.detach(requester, place);
        let slot = &mut self.slots[place];
        let reason = slot.machine.close_reason();
        let end = match reason {
            Some(CloseReason::Finished) => ConnectionEnd::Client,
            Some(CloseReason::Failed(_)) => ConnectionEnd::Failure,
            _ => ConnectionEnd::Server,
        };
        if slot.machine.is_quic() {
            return self.close_quic(place, end);
        }
        let lingers = slot.state == State::Open
            && !slot.peer_closed
            && !self.context.shared.reset_on_close
            && reason == Some(CloseReason::ServerAsked);
        if !lingers {
            // The caller uses the TLS session, and closes the connection afterwards.
            if matches!(slot.protection, Protection::Lent) {
                slot.ending = Some(end);
                return;
            }
            return self.close_after_messages(place, end);
        }
        let until = self.context.now() + LINGER;
        slot.state = State::Lingering;
        slot.linger_until = until;
        self.check_by(place, until);
    }

    /// Removes the owner of a connection that accepts no more requests.
    fn detach(&mut self, requester: &mut impl Requester, place: u32) {
        let owner = std::mem::replace(&mut self.slots[place].owner, Owner::Nothing);
        requester.has_lost(owner, place);
    }

    /// Closes a connection. If the connection is open, sends the final messages of its protocols first.
    fn close_after_messages(&mut self, place: u32, end: ConnectionEnd) {
        let slot = &mut self.slots[place];
        let has_messages =
            slot.machine.multiplexes() || matches!(slot.protection, Protection::Tls(_));
        if has_messages && slot.state == State::Open {
            slot.write_close_messages(end == ConnectionEnd::Client);
        }
        self.release(place, end);
    }

    /// Closes a connection from the client's side, and ends its exchanges.
    pub(super) fn finish(&mut self, requester: &mut impl Requester, place: u32) {
        self.slots[place].machine.finish();
        self.pump(requester, place, &[]);
    }

    /// Closes the shared connection with this number, unless it carries exchanges or is already closed.
    pub(super) fn finish_if_idle(
        &mut self,
        requester: &mut impl Requester,
        place: u32,
        number: u32,
    ) {
        let slot = &self.slots[place];
        let is_the_same = slot.number == number && slot.owner == Owner::Pool;
        if is_the_same && slot.state == State::Open && slot.exchanges.is_empty() {
            self.finish(requester, place);
        }
    }

    /// Closes the socket and frees the slot. Resets a failed connection.
    fn release(&mut self, place: u32, end: ConnectionEnd) {
        let now = self.context.now();
        self.count_frames(place, now);
        self.count_datagrams(place, now);
        let slot = &mut self.slots[place];
        if let Some(stream) = slot.stream.take()
            && (end == ConnectionEnd::Failure || self.context.shared.reset_on_close)
        {
            // If this fails, there is no connection left to reset.
            let _ = socket::set_linger(&stream, Some(Duration::ZERO));
        }
        let tally = &mut self.context.tally;
        if slot.is_established() {
            tally.idled(slot.free_since, now);
            tally.connection_ended(end, slot.established, slot.served, now);
        }
        self.slots.release(place);
        tally.connection_closed();
    }

    /// Counts the frames that a connection carried since the last call, in the window of `at`.
    fn count_frames(&mut self, place: u32, at: Instant) {
        let slot = &mut self.slots[place];
        let Some(connection) = slot.machine.http2().filter(|_| slot.state != State::Free) else {
            return;
        };
        let frames = self.context.tally.frames(at);
        frames.count(connection, &mut slot.counted, slot.most_streams);
        slot.most_streams = slot.exchanges.len() as u32;
    }

    /// Counts the frames and datagrams of all connections, before a window ends.
    pub(super) fn count_all_frames(&mut self, at: Instant) {
        for place in 0..self.slots.len() {
            self.count_frames(place, at);
            self.count_datagrams(place, at);
        }
    }

    /// Releases everything at the end of the test. Returns the exchanges in flight, each with the number of
    /// its connection.
    pub(super) fn leave(&mut self) -> Vec<(Exchange, u32)> {
        let now = self.context.now();
        self.count_all_frames(now);
        self.leave_quic(now);
        let tally = &mut self.context.tally;
        let mut left = Vec::new();
        for slot in self.slots.taken_mut() {
            if slot.is_established() && slot.exchanges.is_empty() {
                tally.idled(slot.free_since, now);
            }
            if slot.is_established() && slot.state == State::Lingering {
                tally.connection_ended(ConnectionEnd::Server, slot.established, slot.served, now);
            } else if slot.is_established() {
                tally.was_open(slot.established, now);
            }
            left.extend(slot.exchanges.drain().map(|e| (e, slot.number)));
            slot.stream = None;
            slot.protection = Protection::None;
        }
        left
    }
}
