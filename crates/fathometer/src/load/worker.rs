//! One event loop: its sockets, its timers and the order of things.

use std::collections::VecDeque;
use std::io;

use fathometer_http::h1::client::{Event, Received, RequestId};
use fathometer_model::{CloseReason, Failure, Instant, Outcome};
use fathometer_sys::poller::{Poller, Ready};
use fathometer_sys::usage::{ProcessorTime, thread_time};
use fathometer_sys::{Clock, socket};
use fathometer_workload::plan::TargetId;
use rustix::net::{RecvFlags, SendFlags};

use super::LoadError;
use super::pool::Pool;
use super::shared::Shared;
use super::slot::{End, Exchange, Slot, State};
use super::tally::{Tally, nanos};
use super::timers::{Timer, Timers};
use super::user::User;

/// Octets read at a time.
const BUFFER: usize = 128 * 1024;

/// Full buffers read from one connection before others have their turn.
const READS_IN_A_ROW: usize = 8;

/// Sockets whose readiness is learnt at a time.
const EVENTS: usize = 256;

/// How long a connection that is done waits for the server to close it.
const LINGER: u64 = 1_000_000_000;

/// The longest wait: so late may the wish to end be noticed.
const LONGEST_WAIT: u64 = 100_000_000;

/// Waits of this length and more are cut short, because the kernel may exceed a wait by a thousandth
/// of it; a second wait is then short enough to be exact.
const LONG_WAIT: u64 = 2_000_000;

/// One event loop.
pub(super) struct Worker<'a> {
    pub(super) shared: &'a Shared,
    pub(super) clock: Clock,
    poller: Poller,
    pub(super) slots: Vec<Slot>,
    free_slots: Vec<u32>,
    pub(super) users: Vec<User>,
    pub(super) timers: Timers,
    /// Users that may be able to go on.
    ready: VecDeque<u32>,
    /// Slots with something to write.
    dirty: Vec<u32>,
    /// Slots that have more to read than was read.
    unread: Vec<u32>,
    pub(super) tally: Tally,
    /// The arrivals and connections of an open loop.
    pub(super) pool: Option<Pool<'a>>,
    /// The users of a closed loop.
    pub(super) population: Option<super::user::Population>,
    /// Exchanges planned that have not ended.
    pub(super) pending: u64,
    /// When it is given up to wait for them.
    give_up: u64,
    spin: u64,
    /// The last reading of the clock.
    pub(super) now: u64,
}

/// What a loop leaves.
pub(super) struct Outcomes {
    pub(super) tally: Tally,
    /// Processor time within the measured window.
    pub(super) processor: ProcessorTime,
    /// When it ended, in nanoseconds of the clock.
    pub(super) finished: u64,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        clock: Clock,
        tally: Tally,
        drain: u64,
        spin: u64,
    ) -> Result<Worker<'a>, LoadError> {
        Ok(Worker {
            shared,
            clock,
            poller: Poller::new(EVENTS)?,
            slots: Vec::new(),
            free_slots: Vec::new(),
            users: Vec::new(),
            timers: Timers::default(),
            ready: VecDeque::new(),
            dirty: Vec::new(),
            unread: Vec::new(),
            give_up: tally.edges.end.saturating_add(drain),
            tally,
            pool: None,
            population: None,
            pending: 0,
            spin,
            now: 0,
        })
    }

    /// Runs to the end of the test.
    pub(super) fn run(mut self) -> Result<Outcomes, LoadError> {
        let mut buffer = vec![0; BUFFER];
        let mut meter = Meter::default();
        self.tick();
        self.enter();
        loop {
            self.tick();
            meter.look(self.now, &self.tally);
            self.roll();
            self.run_timers();
            self.settle();
            self.read_on(&mut buffer);
            if self.is_over() {
                break;
            }
            let ready = self.wait()?;
            for place in 0..ready {
                let ready = self.poller.ready(place);
                self.serve(ready, &mut buffer);
                self.settle();
            }
        }
        self.leave();
        self.tick();
        let processor = meter.finish(self.now, &self.tally);
        self.roll();
        self.close_interval(self.now);
        self.tally.hang_up();
        Ok(Outcomes {
            tally: self.tally,
            processor,
            finished: self.now,
        })
    }

    /// Closes the intervals of the timeline that are over.
    fn roll(&mut self) {
        while self.now >= self.tally.interval_end() {
            self.close_interval(self.tally.interval_end());
        }
    }

    fn close_interval(&mut self, end: u64) {
        if let Some(pool) = &mut self.pool
            && !self.shared.is_planned_out()
        {
            self.tally
                .announce(pool.announce(end.min(self.tally.edges.end)));
        }
        self.tally.close_interval();
    }

    /// Reads the clock.
    pub(super) fn tick(&mut self) {
        self.now = self.clock.now().as_nanos();
    }

    pub(super) fn instant(&self) -> Instant {
        Instant::from_nanos(self.now)
    }

    /// Whether nothing more is planned.
    pub(super) fn is_planned_out(&self) -> bool {
        self.now >= self.tally.edges.end || self.shared.is_planned_out() || self.shared.is_stopped()
    }

    fn is_over(&self) -> bool {
        if self.shared.is_stopped() || self.now >= self.give_up {
            return true;
        }
        let waiting = self.pool.as_ref().is_some_and(|pool| {
            !self.shared.is_planned_out() && pool.has_arrivals_before(self.tally.edges.end)
        });
        self.pending == 0 && !waiting && (self.is_planned_out() || self.has_no_more_to_come())
    }

    /// Whether an open loop's arrivals have come to an end by themselves.
    fn has_no_more_to_come(&self) -> bool {
        self.pool.as_ref().is_some_and(Pool::is_exhausted)
    }

    /// Waits for sockets until the next thing is to be done.
    fn wait(&mut self) -> Result<usize, LoadError> {
        self.tick();
        let before = self.now;
        let edges = &self.tally.edges;
        let mut planned = self.timers.next().unwrap_or(u64::MAX);
        if let Some(pool) = &self.pool {
            planned = planned.min(pool.next_wake(edges.end));
        }
        let wake = [edges.measured, edges.end, self.give_up]
            .into_iter()
            .filter(|&edge| edge > before)
            .fold(planned.min(self.tally.interval_end()), u64::min);
        let mut wait = wake.saturating_sub(before).min(LONGEST_WAIT);
        if wait >= LONG_WAIT {
            wait -= wait / 256;
        } else if wake == planned {
            wait = wait.saturating_sub(self.spin);
        }
        if !self.unread.is_empty() {
            wait = 0;
        }
        self.tally.waits(before);
        let ready = self.poller.wait(Some(nanos(wait)))?;
        self.tick();
        self.tally.wakes(before, self.now);
        Ok(ready)
    }

    fn run_timers(&mut self) {
        while let Some((at, timer)) = self.timers.due(self.now) {
            match timer {
                Timer::Slot(slot) => self.slot_is_due(slot, at),
                Timer::User(user) => self.user_is_due(user, at),
                Timer::Step(step) => self.step_users(step, at),
            }
            self.settle();
        }
    }

    /// Lets users go on, gives requests to connections and writes them, until nothing is left that
    /// can be done at once.
    pub(super) fn settle(&mut self) {
        loop {
            while let Some(user) = self.ready.pop_front() {
                self.users[user as usize].queued = false;
                self.advance(user);
            }
            self.distribute();
            while let Some(slot) = self.dirty.pop() {
                self.slots[slot as usize].dirty = false;
                self.flush(slot);
            }
            if self.ready.is_empty() && self.dirty.is_empty() {
                return;
            }
        }
    }

    /// Has a user go on as soon as what is being done is done.
    pub(super) fn make_ready(&mut self, user: u32) {
        let entry = &mut self.users[user as usize];
        if !entry.queued {
            entry.queued = true;
            self.ready.push_back(user);
        }
    }

    /// Opens a connection for a user or the pool, and returns its slot. A failure that is known at
    /// once is counted.
    pub(super) fn open(&mut self, owner: u32) -> Result<u32, Failure> {
        self.tally.at(self.now).connects += 1;
        match self.try_open(owner) {
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

    fn try_open(&mut self, owner: u32) -> io::Result<u32> {
        let stream = socket::connect(self.shared.address, None, &self.shared.sockets)?;
        let place = self.free_slots.pop().unwrap_or_else(|| {
            self.slots.push(Slot::new(self.shared.machine()));
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[place as usize];
        let token = u64::from(slot.generation) << 32 | u64::from(place);
        if let Err(error) = self.poller.add(&stream, token) {
            self.free_slots.push(place);
            return Err(error);
        }
        slot.state = State::Connecting;
        slot.stream = Some(stream);
        slot.number = self.shared.next_connection();
        slot.owner = owner;
        slot.opened = self.now;
        slot.established = 0;
        slot.served = 0;
        slot.left = self.shared.max_requests.unwrap_or(u32::MAX);
        slot.blocked = false;
        slot.closed_there = false;
        self.tally.connections += 1;
        self.tally.most_connections = self.tally.most_connections.max(self.tally.connections);
        self.arm(place, self.now + self.shared.connect_timeout);
        Ok(place)
    }

    /// Gives an exchange to a connection that has room for it.
    pub(super) fn ask(&mut self, place: u32, mut exchange: Exchange) {
        let shared = self.shared;
        let slot = &mut self.slots[place as usize];
        let target = shared.target(TargetId(exchange.target));
        let shape = shared.requests.shape(TargetId(exchange.target));
        // What could fail was checked: the targets when the test began, the room by the caller.
        let queued = slot
            .machine
            .request_prepared(shape, &target.path)
            .expect("a checked request fits a connection with room");
        exchange.head = queued.head.0 as u32;
        if let Some(content) = target.content.as_deref().filter(|c| !c.is_empty()) {
            exchange.content = content.len() as u64;
            slot.machine
                .send_content(content)
                .expect("content is as long as announced");
        }
        slot.machine.flush();
        // An exchange that is asked again keeps the instants of its first time.
        if exchange.sent == 0 && slot.state == State::Open {
            exchange.due = exchange.planned.max(slot.free_since);
        }
        if slot.state == State::Open && slot.exchanges.is_empty() {
            self.tally.idled(slot.free_since, self.now);
        }
        exchange.first_byte = 0;
        exchange.status = 0;
        self.users[exchange.user as usize].in_flight += 1;
        slot.left -= u32::from(shared.max_requests.is_some());
        slot.exchanges.push_back(exchange);
        if !slot.dirty {
            slot.dirty = true;
            self.dirty.push(place);
        }
    }

    /// Writes what a connection has to write, as far as it goes.
    fn flush(&mut self, place: u32) {
        let slot = &mut self.slots[place as usize];
        if slot.state != State::Open {
            return;
        }
        let Some(stream) = &slot.stream else {
            return;
        };
        let mut oldest = None;
        while !slot.blocked {
            let octets = slot.machine.transmit();
            if octets.is_empty() {
                break;
            }
            let (length, before) = (octets.len(), slot.machine.begun());
            // The instant at which it is handed over is the one before the call: over loopback the
            // call itself runs the server's side of TCP.
            let now = self.clock.now();
            match rustix::net::send(stream, octets, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(written) => {
                    slot.machine.transmitted(written, now);
                    slot.blocked = written < length;
                    let begun = before..slot.machine.begun();
                    for exchange in slot.exchanges.range_mut(begun) {
                        oldest.get_or_insert(now.as_nanos());
                        if exchange.sent == 0 {
                            exchange.sent = now.as_nanos();
                            self.tally.sent(exchange);
                        }
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => slot.blocked = true,
                Err(_) => {
                    // What the server sent before it went is still to be read, and the failure is
                    // told behind it.
                    slot.blocked = true;
                    self.unread.push(place);
                }
            }
        }
        if let Some(sent) = oldest {
            self.arm(place, sent + self.shared.timeout);
        }
    }

    /// Makes sure that a slot is looked at by `at`.
    fn arm(&mut self, place: u32, at: u64) {
        let slot = &mut self.slots[place as usize];
        if slot.armed_at == 0 || at < slot.armed_at {
            slot.armed_at = at;
            self.timers.set(at, Timer::Slot(place));
        }
    }

    fn slot_is_due(&mut self, place: u32, at: u64) {
        let slot = &mut self.slots[place as usize];
        if slot.armed_at != at {
            return;
        }
        slot.armed_at = 0;
        let until = match slot.state {
            State::Free => return,
            State::Connecting => slot.opened + self.shared.connect_timeout,
            State::Lingering => slot.linger_until,
            State::Open => match (slot.exchanges.front(), self.shared.keep_alive) {
                (Some(oldest), _) if oldest.sent > 0 => oldest.sent + self.shared.timeout,
                (None, Some(keep_alive)) => slot.free_since + keep_alive,
                _ => return,
            },
        };
        if until > self.now {
            // What is busy now may soon be idle: so it need not set a timer for every exchange.
            let idle = self.shared.keep_alive.map(|time| self.now + time);
            return self.arm(place, idle.map_or(until, |idle| idle.min(until)));
        }
        match slot.state {
            // The server did not do what it had said.
            State::Lingering => self.release(place, End::Client),
            State::Open if slot.exchanges.is_empty() => self.finish(place),
            _ => self.fail(place, Failure::TimedOut),
        }
    }

    /// Deals with news of a socket.
    fn serve(&mut self, ready: Ready, buffer: &mut [u8]) {
        let place = ready.token as u32;
        let slot = &mut self.slots[place as usize];
        if u64::from(slot.generation) != ready.token >> 32 {
            return;
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
            self.connected(place);
        } else if ready.writable && slot.blocked {
            slot.blocked = false;
            self.flush(place);
        }
        if ready.readable {
            self.read(place, ready.ended, buffer);
        }
    }

    fn connected(&mut self, place: u32) {
        let now = self.now;
        let slot = &mut self.slots[place as usize];
        slot.state = State::Open;
        slot.established = now;
        slot.free_since = now;
        for exchange in slot.exchanges.iter_mut().filter(|e| e.sent == 0) {
            exchange.due = exchange.planned.max(now);
        }
        if let (Some(quick), Some(stream)) = (self.shared.quick_ack, &slot.stream) {
            // A connection that is gone already says so when it is read.
            let _ = socket::set_quick_ack(stream, quick);
        }
        let took = nanos(now - slot.opened);
        let window = self.tally.at(now);
        window.connected += 1;
        window.ended.connected += 1;
        window.latency.connect.record(took);
        self.flush(place);
        self.list(place);
        self.watch_idle(place);
    }

    /// Sees to it that a connection that has become idle is closed in time.
    fn watch_idle(&mut self, place: u32) {
        if let Some(keep_alive) = self.shared.keep_alive
            && self.slots[place as usize].exchanges.is_empty()
        {
            self.arm(place, self.now + keep_alive);
        }
    }

    /// Reads on where reading was broken off for the sake of the others.
    fn read_on(&mut self, buffer: &mut [u8]) {
        for _ in 0..self.unread.len() {
            let place = self.unread.swap_remove(0);
            self.read(place, true, buffer);
            self.settle();
        }
    }

    /// Reads what there is. A read that does not fill the buffer has emptied the socket, and what
    /// comes after is told; only when the end was told already it has to be looked for.
    fn read(&mut self, place: u32, ended: bool, buffer: &mut [u8]) {
        for _ in 0..READS_IN_A_ROW {
            let slot = &self.slots[place as usize];
            let (state @ (State::Open | State::Lingering), Some(stream)) =
                (slot.state, &slot.stream)
            else {
                return;
            };
            let result = rustix::net::recv(stream, &mut *buffer, RecvFlags::DONTWAIT);
            if let (Some(quick), Ok(_)) = (self.shared.quick_ack, &result) {
                // A connection that is gone says so by itself.
                let _ = socket::set_quick_ack(stream, quick);
            }
            self.tick();
            match result {
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                // What comes now answers nothing.
                Ok((1.., _)) if state == State::Lingering => {}
                _ if state == State::Lingering => return self.release(place, End::Server),
                Ok((0, _)) => {
                    let now = self.instant();
                    let slot = &mut self.slots[place as usize];
                    slot.closed_there = true;
                    slot.machine.handle_eof(now);
                    return self.pump(place, &[]);
                }
                Ok((length, _)) => {
                    self.pump(place, &buffer[..length]);
                    if length < buffer.len() && !ended {
                        return;
                    }
                }
                Err(error) => return self.fail(place, socket::classify(&error.into())),
            }
        }
        self.unread.push(place);
    }

    /// A connection failed, or could not be established.
    fn fail(&mut self, place: u32, failure: Failure) {
        let slot = &mut self.slots[place as usize];
        if slot.state == State::Connecting {
            self.tally.connect_failed(failure, self.now);
            if let Some(user) = self.users.get_mut(slot.owner as usize) {
                user.pause_until = self.now + super::CONNECT_PAUSE.as_nanos() as u64;
            }
        }
        slot.machine
            .handle_failure(failure, Instant::from_nanos(self.now));
        self.pump(place, &[]);
    }

    /// Feeds the machine of a connection and deals with what that means.
    fn pump(&mut self, place: u32, mut input: &[u8]) {
        let instant = self.instant();
        let now = self.now;
        loop {
            let slot = &mut self.slots[place as usize];
            let Some(event) = slot.machine.poll(&mut input, instant) else {
                break;
            };
            match event {
                Event::Begin { .. } => {
                    if let Some(exchange) = slot.exchanges.front_mut() {
                        exchange.first_byte = now;
                    }
                }
                Event::Head { .. } => {
                    let status = slot.machine.head().status();
                    if let Some(exchange) = slot.exchanges.front_mut() {
                        exchange.status = status;
                    }
                }
                Event::Content { .. } | Event::Interim { .. } | Event::SendContent { .. } => {}
                Event::End {
                    received, persists, ..
                } => {
                    slot.served += 1;
                    slot.free_since = now;
                    let exchange = slot.exchanges.pop_front();
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
                    if let Some(exchange) = exchange {
                        self.complete(place, &exchange, &received);
                    }
                }
                Event::Failed {
                    failure, received, ..
                } => {
                    slot.free_since = now;
                    let exchange = slot.exchanges.pop_front();
                    self.detach(place);
                    if let Some(exchange) = exchange {
                        self.give_up_on(place, &exchange, failure, &received);
                    }
                }
                Event::Unanswered {
                    failure,
                    sent,
                    idempotent,
                    request: RequestId(_),
                } => {
                    let served = slot.served > 0;
                    slot.free_since = now;
                    let exchange = slot.exchanges.pop_front();
                    self.detach(place);
                    let Some(exchange) = exchange else {
                        continue;
                    };
                    let silent = matches!(failure, Failure::ClosedEarly | Failure::Reset);
                    if served && silent && !exchange.retried && (idempotent || !sent) {
                        self.ask_again(place, exchange, failure);
                    } else {
                        self.give_up_on(place, &exchange, failure, &Received::default());
                    }
                }
                Event::Closed { .. } => self.closed(place),
            }
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
        self.roll();
        self.tally.failed(exchange, Some(failure), self.now);
        self.record(place, exchange, received, Outcome::Failed(failure));
        self.resolved(exchange, false);
    }

    /// Fails an exchange that no connection could be had for.
    pub(super) fn fail_unsent(&mut self, exchange: &Exchange, failure: Failure) {
        self.tally.failed(exchange, Some(failure), self.now);
        let user = self.users[exchange.user as usize].number as u32;
        let nothing = Received::default();
        let outcome = Outcome::Failed(failure);
        self.tally
            .row(exchange, user, u32::MAX, &nothing, outcome, self.now);
        self.users[exchange.user as usize].in_flight += 1;
        self.resolved(exchange, false);
    }

    fn ask_again(&mut self, place: u32, mut exchange: Exchange, failure: Failure) {
        self.tally.at(self.now).retried += 1;
        let nothing = Received::default();
        self.record(place, &exchange, &nothing, Outcome::Retried(failure));
        exchange.retried = true;
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

    /// The machine is done with its connection: it is closed at once, unless the server is to close
    /// first, which keeps the local port free.
    fn closed(&mut self, place: u32) {
        self.detach(place);
        let slot = &mut self.slots[place as usize];
        let reason = slot.machine.close_reason();
        let end = match reason {
            Some(CloseReason::Finished) => End::Client,
            Some(CloseReason::Failed(_)) => End::Failure,
            _ => End::Server,
        };
        let lingers = slot.state == State::Open
            && !slot.closed_there
            && !self.shared.reset_on_close
            && reason == Some(CloseReason::ServerAsked);
        if !lingers {
            return self.release(place, end);
        }
        slot.state = State::Lingering;
        slot.linger_until = self.now + LINGER;
        let until = slot.linger_until;
        self.arm(place, until);
    }

    /// Ends a connection from this side, its exchanges with it.
    pub(super) fn finish(&mut self, place: u32) {
        self.slots[place as usize].machine.finish();
        self.pump(place, &[]);
    }

    /// Closes the socket and frees the slot. What failed is reset.
    fn release(&mut self, place: u32, end: End) {
        let slot = &mut self.slots[place as usize];
        if let Some(stream) = slot.stream.take()
            && (end == End::Failure || self.shared.reset_on_close)
        {
            // Where it fails there is no connection left to reset.
            let _ = socket::set_linger(&stream, Some(std::time::Duration::ZERO));
        }
        if slot.established > 0 {
            self.tally.idled(slot.free_since, self.now);
            self.tally
                .connection_ended(end, slot.established, slot.served, self.now);
        }
        slot.state = State::Free;
        slot.generation = slot.generation.wrapping_add(1);
        slot.machine.renew();
        self.free_slots.push(place);
        self.tally.connections -= 1;
    }

    /// Counts what is still under way when the test is over, and lets go of everything.
    fn leave(&mut self) {
        self.tick();
        let now = self.now;
        let user_numbers = |worker: &Worker<'_>, exchange: &Exchange| {
            worker.users[exchange.user as usize].number as u32
        };
        let mut left = Vec::new();
        for slot in &mut self.slots {
            let is_there = slot.state != State::Free && slot.established > 0;
            if is_there && slot.exchanges.is_empty() {
                self.tally.idled(slot.free_since, now);
            }
            if is_there && slot.state == State::Lingering {
                self.tally
                    .connection_ended(End::Server, slot.established, slot.served, now);
            } else if is_there {
                self.tally.was_open(slot.established, now);
            }
            left.extend(slot.exchanges.drain(..).map(|e| (e, slot.number)));
            slot.stream = None;
        }
        for user in &mut self.users {
            left.extend(user.again.drain(..).map(|exchange| (exchange, u32::MAX)));
        }
        for (exchange, connection) in left {
            let user = user_numbers(self, &exchange);
            self.tally.failed(&exchange, None, now);
            let outcome = Outcome::Failed(Failure::LocalAbort);
            let nothing = Received::default();
            self.tally
                .row(&exchange, user, connection, &nothing, outcome, now);
        }
        self.leave_arrivals();
    }
}

/// The processor time of a loop within the measured window.
#[derive(Default)]
struct Meter {
    begin: Option<ProcessorTime>,
    end: Option<ProcessorTime>,
}

impl Meter {
    fn look(&mut self, now: u64, tally: &Tally) {
        if self.begin.is_none() && now >= tally.edges.measured {
            self.begin = Some(thread_time());
        }
        if self.end.is_none() && now >= tally.edges.end {
            self.end = Some(thread_time());
        }
    }

    fn finish(&mut self, now: u64, tally: &Tally) -> ProcessorTime {
        self.look(now, tally);
        let end = self.end.unwrap_or_else(thread_time);
        self.begin
            .map_or_else(ProcessorTime::default, |begin| end.since(begin))
    }
}
