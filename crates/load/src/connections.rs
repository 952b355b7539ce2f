//! The life of connections: opened, established, watched, closed.

use std::io;

use fathometer_model::{CloseReason, Failure, Instant};
use fathometer_sys::clock::thread_cpu_time;
use fathometer_sys::poller::Ready;
use fathometer_sys::socket;
use fathometer_tls::{EarlyData, Session};

use super::frames::Counted;
use super::machine::Machine;
use super::security;
use super::slot::{End, Protection, Slot, State};
use super::tally::nanos;
use super::timers::Timer;
use super::worker::Worker;

/// How long a connection that is done waits for the server to close it.
const LINGER: u64 = 1_000_000_000;

/// A connection that is idle for this long frees its buffers; nanoseconds.
const REST_AFTER: u64 = 5_000_000_000;

impl Worker<'_> {
    /// Opens a connection for a user or the pool, and returns its slot. An immediate failure is counted.
    pub(super) fn open(&mut self, owner: u32, host: u16) -> Result<u32, Failure> {
        self.tally.at(self.now).connects += 1;
        match self.try_open(owner, host) {
            Ok(slot) => Ok(slot),
            Err(error) => {
                if error.raw_os_error() == Some(rustix::io::Errno::ADDRNOTAVAIL.raw_os_error()) {
                    self.tally.ports_exhausted += 1;
                }
                let failure = socket::classify(&error);
                self.tally.connect_failed(failure, self.now);
                Err(failure)
            }
        }
    }

    fn try_open(&mut self, owner: u32, host: u16) -> io::Result<u32> {
        let place = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(Slot::new(self.shared.machine()));
            self.slots.len() as u32 - 1
        });
        let number = self.shared.next_connection();
        if let Err(error) = self.open_socket(place, host, number) {
            self.free_slots.push(place);
            return Err(error);
        }
        let slot = &mut self.slots[place as usize];
        slot.state = State::Connecting;
        slot.number = number;
        slot.owner = owner;
        slot.host = host;
        slot.opened = self.now;
        slot.established = 0;
        slot.room_since = 0;
        slot.handshake_time = 0;
        slot.early = None;
        slot.served = 0;
        slot.left = self.shared.max_requests.unwrap_or(u32::MAX);
        slot.blocked = false;
        slot.closed_there = false;
        slot.knows_server = false;
        slot.ending = None;
        slot.counted = Counted::default();
        slot.most_streams = 0;
        self.tally.connections += 1;
        self.tally.most_connections = self.tally.most_connections.max(self.tally.connections);
        self.arm(place, self.now.saturating_add(self.shared.connect_timeout));
        Ok(place)
    }

    /// Gives a slot a socket that begins to connect.
    fn open_socket(&mut self, place: u32, host: u16, number: u32) -> io::Result<()> {
        let token = u64::from(self.slots[place as usize].generation) << 32 | u64::from(place);
        if let Some(plan) = &self.shared.quic {
            let connection = self.connect_quic(plan, host, number, token)?;
            self.slots[place as usize].machine = Machine::Quic(Some(connection));
            // Its first datagrams leave with those of all others.
            self.make_dirty(place);
            return Ok(());
        }
        let stream = socket::connect(self.shared.address, None, &self.shared.sockets)?;
        self.poller.add(&stream, token)?;
        self.slots[place as usize].stream = Some(stream);
        Ok(())
    }

    /// Makes sure that a slot is checked by `at`.
    pub(super) fn arm(&mut self, place: u32, at: u64) {
        let slot = &mut self.slots[place as usize];
        if slot.armed_at == 0 || at < slot.armed_at {
            slot.armed_at = at;
            self.timers.set(at, Timer::Slot(place));
        }
    }

    pub(super) fn slot_is_due(&mut self, place: u32, at: u64) {
        let timeout = self.shared.timeout;
        let slot = &mut self.slots[place as usize];
        if slot.armed_at != at {
            return;
        }
        slot.armed_at = 0;
        let oldest = slot.oldest_plan();
        let overdue_at = oldest.map(|planned| planned.saturating_add(timeout));
        let until = match slot.state {
            State::Free => return,
            State::Connecting | State::Securing => slot
                .opened
                .saturating_add(self.shared.connect_timeout)
                .min(overdue_at.unwrap_or(u64::MAX)),
            State::Lingering => slot.linger_until,
            State::Open => match overdue_at {
                Some(overdue_at) => overdue_at,
                None => {
                    let rests = slot.free_since + REST_AFTER;
                    let ends = self.shared.keep_alive.map(|time| slot.free_since + time);
                    if rests <= self.now {
                        slot.shrink();
                    }
                    match ends {
                        None if rests <= self.now => return,
                        None => rests,
                        Some(ends) if rests <= self.now => ends,
                        Some(ends) => ends.min(rests),
                    }
                }
            },
        };
        if until > self.now {
            // A busy connection may soon be idle. Checking it after each idle time avoids a timer for every
            // exchange.
            let at = match slot.exchanges.is_empty() {
                true => until,
                false => until.min(self.now + self.idle_time()),
            };
            return self.arm(place, at);
        }
        match slot.state {
            // The server did not close as announced.
            State::Lingering => self.release(place, End::Client),
            State::Open if slot.exchanges.is_empty() => self.finish(place),
            State::Open => self.time_out(place),
            _ => self.fail(place, Failure::TimedOut),
        }
    }

    /// Handles an event of a socket.
    pub(super) fn serve(&mut self, ready: Ready, buffer: &mut [u8]) {
        let place = ready.token as u32;
        let slot = &mut self.slots[place as usize];
        if u64::from(slot.generation) != ready.token >> 32 {
            return;
        }
        if slot.machine.is_quic() {
            return self.serve_quic(place, ready);
        }
        if slot.state == State::Connecting {
            let failed = match &slot.stream {
                Some(stream) if ready.ended => stream.take_error().unwrap_or_else(Some),
                _ => None,
            };
            if let Some(error) = failed {
                return self.fail(place, socket::classify(&error));
            }
            if !ready.writable {
                return;
            }
            self.tick();
            self.reached(place);
        } else if ready.writable && slot.blocked {
            slot.blocked = false;
            // Until now the server did not read: that wait is caused by the server, and is no send lag.
            let now = self.clock.now().as_nanos();
            for exchange in slot.exchanges.iter_mut().filter(|e| e.sent == 0) {
                exchange.due = exchange.planned.max(now);
            }
            self.flush(place);
        }
        // A connection that is already queued for reading gets no second turn.
        if ready.readable && !self.slots[place as usize].unread {
            self.read(place, ready.ended, buffer);
        }
    }

    /// TCP is established: the connection can be used, or TLS begins.
    fn reached(&mut self, place: u32) {
        let now = self.now;
        let slot = &mut self.slots[place as usize];
        slot.reached = now;
        if let (Some(quick), Some(stream)) = (self.shared.quick_ack, &slot.stream) {
            // A closed connection reports that when it is read.
            let _ = socket::set_quick_ack(stream, quick);
        }
        let took = nanos(now - slot.opened);
        self.tally.at(now).latency.connect.record(took);
        match &self.shared.tls {
            None => self.established(place),
            Some(_) => self.secure(place),
        }
    }

    /// Begins the handshake of TLS, with early data where that is allowed and safe.
    fn secure(&mut self, place: u32) {
        let Some(tls) = &self.shared.tls else {
            return;
        };
        let begin = thread_cpu_time();
        let slot = &mut self.slots[place as usize];
        let name = tls.name(slot.host);
        let mut session = match Session::client(&tls.settings, name, Instant::from_nanos(self.now))
        {
            Ok(session) => session,
            Err(error) => return self.fail(place, error.failure()),
        };
        if session.may_send_early() && self.shared.is_harmless(&slot.exchanges) {
            let taken = session.early_write(slot.machine.transmit());
            slot.early = (taken > 0).then_some((taken, self.now));
        }
        slot.protection = Protection::Tls(Box::new(session));
        slot.state = State::Securing;
        slot.handshake_time = (thread_cpu_time() - begin).as_nanos() as u64;
        self.flush(place);
    }

    /// The handshake of TLS is over.
    pub(super) fn secured(&mut self, place: u32, session: &Session) -> Result<(), Failure> {
        let (Some(handshake), Some(tls)) = (session.handshake(), &self.shared.tls) else {
            return Err(Failure::LocalAbort);
        };
        if !tls.agrees(session.alpn()) {
            return Err(Failure::TlsFailed);
        }
        let now = self.now;
        let slot = &self.slots[place as usize];
        let (took, cpu) = (nanos(now - slot.reached), nanos(slot.handshake_time));
        let window = self.tally.at(now);
        window.latency.tls.record(took);
        security::count(&mut window.handshakes, handshake, cpu);
        if handshake.early_data == EarlyData::Accepted {
            self.early_was_taken(place);
        }
        self.established(place);
        Ok(())
    }

    /// A connection can be used.
    pub(super) fn established(&mut self, place: u32) {
        let now = self.now;
        let slot = &mut self.slots[place as usize];
        slot.state = State::Open;
        slot.established = now;
        slot.free_since = now;
        for exchange in slot.exchanges.iter_mut().filter(|e| e.sent == 0) {
            exchange.due = exchange.planned.max(now);
        }
        // In an open loop connections are shared and belong to no user.
        if let Some(user) = self.users.get_mut(slot.owner as usize) {
            user.connected += 1;
        }
        let window = self.tally.at(now);
        window.connected += 1;
        window.ended.connected += 1;
        self.flush(place);
        self.list(place);
        self.watch_idle(place);
    }

    /// Makes sure that an idle connection frees its memory, and is closed in time.
    pub(super) fn watch_idle(&mut self, place: u32) {
        if self.slots[place as usize].exchanges.is_empty() {
            self.arm(place, self.now + self.idle_time());
        }
    }

    /// How long a connection may be idle before it is shrunk or closed, in nanoseconds.
    fn idle_time(&self) -> u64 {
        let ends = self.shared.keep_alive.unwrap_or(u64::MAX);
        ends.min(REST_AFTER)
    }

    /// A connection failed, or could not be established.
    pub(super) fn fail(&mut self, place: u32, failure: Failure) {
        let slot = &mut self.slots[place as usize];
        if matches!(slot.state, State::Connecting | State::Securing) {
            self.not_connected(place, failure);
        }
        let instant = self.instant();
        self.slots[place as usize]
            .machine
            .handle_failure(failure, instant);
        self.pump(place, &[]);
    }

    /// Counts a connection that could not be established; its user waits a little.
    pub(super) fn not_connected(&mut self, place: u32, failure: Failure) {
        self.tally.connect_failed(failure, self.now);
        let owner = self.slots[place as usize].owner;
        if let Some(user) = self.users.get_mut(owner as usize) {
            user.pause_until = self.now + super::CONNECT_PAUSE.as_nanos() as u64;
        }
    }

    /// The machine is done with its connection. It is closed at once, unless the server is to close first,
    /// which keeps the local port free.
    pub(super) fn closed(&mut self, place: u32) {
        self.detach(place);
        let slot = &mut self.slots[place as usize];
        let reason = slot.machine.close_reason();
        let end = match reason {
            Some(CloseReason::Finished) => End::Client,
            Some(CloseReason::Failed(_)) => End::Failure,
            _ => End::Server,
        };
        if slot.machine.is_quic() {
            return self.close_quic(place, end);
        }
        let lingers = slot.state == State::Open
            && !slot.closed_there
            && !self.shared.reset_on_close
            && reason == Some(CloseReason::ServerAsked);
        if !lingers {
            // The TLS session is in use by the caller, which closes the connection afterwards.
            if matches!(slot.protection, Protection::Lent) {
                slot.ending = Some(end);
                return;
            }
            return self.close_with_words(place, end);
        }
        slot.state = State::Lingering;
        slot.linger_until = self.now + LINGER;
        let until = slot.linger_until;
        self.arm(place, until);
    }

    /// Closes a connection after the final messages of its protocols, where there are any and the connection is
    /// open.
    pub(super) fn close_with_words(&mut self, place: u32, end: End) {
        let slot = &self.slots[place as usize];
        let speaks = slot.machine.multiplexes() || matches!(slot.protection, Protection::Tls(_));
        if speaks && slot.state == State::Open {
            self.say_goodbye(place, end == End::Client);
        }
        self.release(place, end);
    }

    /// Ends a connection from this side, together with its exchanges.
    pub(super) fn finish(&mut self, place: u32) {
        self.slots[place as usize].machine.finish();
        self.pump(place, &[]);
    }

    /// Closes the socket and frees the slot. A failed connection is reset.
    pub(super) fn release(&mut self, place: u32, end: End) {
        self.count_frames(place, self.now);
        self.count_datagrams(place, self.now);
        let slot = &mut self.slots[place as usize];
        if let Some(stream) = slot.stream.take()
            && (end == End::Failure || self.shared.reset_on_close)
        {
            // If it fails there is no connection left to reset.
            let _ = socket::set_linger(&stream, Some(std::time::Duration::ZERO));
        }
        if slot.established > 0 {
            self.tally.idled(slot.free_since, self.now);
            self.tally
                .connection_ended(end, slot.established, slot.served, self.now);
        }
        slot.state = State::Free;
        slot.protection = Protection::None;
        slot.generation = slot.generation.wrapping_add(1);
        slot.machine.renew();
        self.free_slots.push(place);
        self.tally.connections -= 1;
    }
}
