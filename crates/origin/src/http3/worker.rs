//! One event loop: its sockets, their endpoints and their connections.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fathometer_http::h3::ErrorCode;
use fathometer_http::h3::server::{Connection as Http, ServerConfig};
use fathometer_http::origin::Origin;
use fathometer_model::Instant;
use fathometer_quic::{ConnectionKey, Endpoint, Transmit};
use fathometer_sys::poller::{Poller, Ready};
use fathometer_sys::udp::{Batches, ReceiveBuffer};
use fathometer_sys::{Clock, UdpSocket, heap};
use rustix::event::{EventfdFlags, eventfd};

use super::ServiceOptions;
use super::connection::Open;
use crate::access_log::AccessLog;
use crate::connection::Outcome;
use crate::memory_return::MemoryReturn;
use crate::timers::{Alarm, Timers};
use crate::wall_clock::WallClock;
use crate::{ConnectionLimit, OriginStatistics};
use crate::{ROOM_EVERY, YIELDS_AFTER, longest};
use fathometer_quic_sockets::Sockets;
use fathometer_quic_sockets::feed::FileBuffer;
use fathometer_quic_sockets::outbox::{Outbox, SendProgress};

const WAKE: u64 = u64::MAX - 1;
/// Maximum number of receive calls on one socket before connections are served.
const RECEIVES: usize = 8;
/// Maximum number of ready sockets reported by one poll.
const EVENTS: usize = 16;
/// The number of low bits of an alarm's place that contain the index of the port. The other bits contain the index of
/// the connection.
const PORT_BITS: u32 = 8;

/// Stops or drains a loop that runs on another thread.
#[derive(Debug, Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

/// The state that a loop and its handles share.
#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    drain: AtomicBool,
    /// The time limit of a drain, in nanoseconds.
    drain_for: AtomicU64,
    responses: AtomicU64,
    overflowed: AtomicU64,
    wake: OwnedFd,
}

impl Handle {
    /// Stops the loop; connections that are still open are closed.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        self.wake();
    }

    /// Makes the loop accept no more connections, respond to requests in flight and then finish. Connections
    /// that are still open after `within` are closed.
    pub fn drain(&self, within: Duration) {
        let nanoseconds = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        self.shared.drain_for.store(nanoseconds, Ordering::Release);
        self.shared.drain.store(true, Ordering::Release);
        self.wake();
    }

    /// The number of responses that were completely handed to QUIC so far.
    pub fn responses(&self) -> u64 {
        self.shared.responses.load(Ordering::Acquire)
    }

    /// The number of datagrams that the kernel has discarded so far because the loop did not read them in time.
    pub fn overflowed(&self) -> u64 {
        self.shared.overflowed.load(Ordering::Acquire)
    }

    fn wake(&self) {
        // This fails only if the counter is full; the loop then wakes up anyway.
        let _ = rustix::io::write(&self.shared.wake, &1u64.to_ne_bytes());
    }
}

/// A socket and its connections.
struct Port {
    socket: UdpSocket,
    endpoint: Endpoint,
    outbox: Outbox,
    readable: bool,
    writable: bool,
    /// Boxed, so that a free slot takes the memory of one pointer.
    open: Vec<Option<Box<Open>>>,
    count: usize,
    /// The connections to serve.
    due: VecDeque<ConnectionKey>,
    /// The connections that have data to send and wait for the socket.
    stalled: VecDeque<ConnectionKey>,
    overflowed: u32,
    received: Batches,
    /// The time at which connections were last closed to make room for others.
    room_made: Option<Instant>,
}

/// An event loop, ready to run.
pub(super) struct Worker {
    poller: Poller,
    ports: Vec<Port>,
    origin: Arc<Origin>,
    config: Arc<ServerConfig>,
    sockets: Sockets,
    /// The TLS settings. The loop sets their time, because a QUIC session does not.
    tls: Arc<fathometer_tls::ServerSettings>,
    clock: Clock,
    shared: Arc<Shared>,
    /// The limit that all loops share.
    limit: Option<Arc<ConnectionLimit>>,
    /// Whether another loop, which waits for the end of a connection, has woken this loop.
    makes_room: bool,
    timers: Timers,
    memory_return: MemoryReturn,
    buffer: ReceiveBuffer,
    file_buffer: FileBuffer,
    log: Option<AccessLog>,
    wall_clock: WallClock,
    /// The time at which open connections are closed; set while the loop drains.
    drained_by: Option<Instant>,
    statistics: OriginStatistics,
}

impl Worker {
    pub fn new(
        origin: Arc<Origin>,
        config: Arc<ServerConfig>,
        options: &ServiceOptions,
        limit: Option<&Arc<ConnectionLimit>>,
        clock: Clock,
    ) -> io::Result<Worker> {
        let sockets = options.sockets;
        let poller = Poller::new(EVENTS).map_err(io::Error::other)?;
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        poller.add(&wake, WAKE)?;
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            drain: AtomicBool::new(false),
            drain_for: AtomicU64::new(0),
            responses: AtomicU64::new(0),
            overflowed: AtomicU64::new(0),
            wake,
        });
        if let Some(limit) = limit {
            let handle = Handle {
                shared: Arc::clone(&shared),
            };
            limit.add_waker(move || handle.wake());
        }
        Ok(Worker {
            poller,
            ports: Vec::new(),
            origin,
            config,
            sockets,
            clock,
            shared,
            limit: limit.cloned(),
            makes_room: false,
            timers: Timers::default(),
            memory_return: MemoryReturn::default(),
            buffer: ReceiveBuffer::new(sockets.coalescing),
            file_buffer: FileBuffer::default(),
            log: options.log.clone().map(|log| AccessLog::new(log, clock)),
            wall_clock: WallClock::new(clock),
            tls: Arc::clone(&options.tls),
            drained_by: None,
            statistics: OriginStatistics::default(),
        })
    }

    /// Adds a socket and the endpoint of its connections.
    ///
    /// # Panics
    /// If there are already 256 sockets.
    pub fn add(&mut self, socket: UdpSocket, endpoint: Endpoint) -> io::Result<()> {
        assert!(self.ports.len() < 1 << PORT_BITS, "too many addresses");
        self.poller.add(&socket, self.ports.len() as u64)?;
        self.ports.push(Port {
            socket,
            endpoint,
            outbox: Outbox::default(),
            readable: false,
            writable: true,
            open: Vec::new(),
            count: 0,
            due: VecDeque::new(),
            stalled: VecDeque::new(),
            overflowed: 0,
            received: Batches::default(),
            room_made: None,
        });
        Ok(())
    }

    pub fn handle(&self) -> Handle {
        Handle {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Serves until the handle stops it, or until a drain is complete.
    pub fn run(mut self) -> io::Result<OriginStatistics> {
        let ended = self.serve_all();
        let now = self.clock.now();
        for port in 0..self.ports.len() {
            for place in 0..self.ports[port].open.len() {
                self.close_at_end(port, place, now);
            }
        }
        if let Some(log) = &mut self.log {
            log.flush();
            self.statistics.log_lines_lost = log.lost();
        }
        for port in &self.ports {
            let counts = port.endpoint.counts();
            self.statistics.shed += counts.refused;
            self.statistics.datagrams = self.statistics.datagrams.and(Batches {
                send_calls: port.outbox.calls,
                sent: port.outbox.datagrams,
                ..port.received
            });
        }
        self.statistics.disk_reads += self.file_buffer.reads;
        self.statistics.take_from(&self.origin);
        ended.map(|()| self.statistics)
    }

    fn serve_all(&mut self) -> io::Result<()> {
        let mut now = self.clock.now();
        while !self.shared.stop.load(Ordering::Acquire) {
            if self.shared.drain.load(Ordering::Acquire) && self.drained_by.is_none() {
                self.begin_drain(now);
            }
            if let Some(by) = self.drained_by {
                if self.is_done() || now >= by {
                    return Ok(());
                }
                // A second signal may end the process at any moment.
                if let Some(log) = &mut self.log {
                    log.flush();
                }
            }
            let timeout = self.next_timeout(now);
            let ready = self.poller.wait(timeout).map_err(io::Error::other)?;
            let woken = self.clock.now();
            self.tls.set_time(woken);
            self.wall_clock
                .follow(woken, &self.origin, self.log.as_mut());
            for place in 0..ready {
                self.note(self.poller.ready(place));
            }
            let requested = std::mem::take(&mut self.makes_room);
            for port in 0..self.ports.len() {
                self.statistics.yielded += self.ports[port].make_room(requested, woken)?;
                self.ports[port].receive(&mut self.buffer, woken);
                self.begin(port, woken);
            }
            self.ring(woken);
            for port in 0..self.ports.len() {
                self.ports[port].answer()?;
                self.serve_due(port)?;
            }
            if self.memory_return.is_due(self.open_now(), woken) {
                heap::release_free_memory();
            }
            if let Some(log) = &mut self.log {
                log.flush_due(woken);
            }
            self.shared
                .responses
                .store(self.statistics.responses, Ordering::Release);
            let overflowed = self
                .ports
                .iter()
                .map(|port| u64::from(port.overflowed))
                .sum();
            self.shared.overflowed.store(overflowed, Ordering::Release);
            now = self.clock.now();
            let busy = now.since(woken).as_nanos() as u64;
            self.statistics.busy_max_ns = self.statistics.busy_max_ns.max(busy);
        }
        Ok(())
    }

    fn open_now(&self) -> usize {
        self.ports.iter().map(|port| port.count).sum()
    }

    /// Records the readiness that the poll reported.
    fn note(&mut self, ready: Ready) {
        if ready.token == WAKE {
            let mut count = [0; 8];
            // The event only means that the flags must be checked, which the loop does in any case.
            let _ = rustix::io::read(&self.shared.wake, &mut count);
            let limit = self.limit.as_ref();
            self.makes_room = limit.is_some_and(|limit| limit.is_awaited() && limit.must_wait());
        } else if let Some(port) = self.ports.get_mut(ready.token as usize) {
            port.readable |= ready.readable;
            port.writable |= ready.writable;
        }
    }

    fn next_timeout(&self, now: Instant) -> Option<Duration> {
        let has_work = self.ports.iter().any(|port| {
            port.readable || !port.due.is_empty() || port.writable && !port.stalled.is_empty()
        });
        if has_work {
            return Some(Duration::ZERO);
        }
        [
            self.timers.next(now),
            self.drained_by.map(|by| by.since(now)),
            self.memory_return.time_left(self.open_now(), now),
            self.log.as_ref().and_then(|log| log.due(now)),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Creates the state of new connections, and schedules all connections that have received data.
    fn begin(&mut self, place: usize, now: Instant) {
        let port = &mut self.ports[place];
        while let Some(key) = port.endpoint.poll_touched() {
            let n = key.0 as usize;
            if port.open.len() <= n {
                port.open.resize_with(n + 1, || None);
            }
            if port.open[n].is_none() {
                let Some(connection) = port.endpoint.get(key) else {
                    continue;
                };
                let http = Http::new(Arc::clone(&self.origin), Arc::clone(&self.config), now);
                port.open[n] = Some(Box::new(Open::new(
                    http,
                    connection.peer(),
                    self.config.limits,
                )));
                port.count += 1;
                self.statistics.connections += 1;
            }
            port.make_due(key);
        }
    }

    /// Handles the timeouts of connections whose alarm is due.
    fn ring(&mut self, now: Instant) {
        while let Some(place) = self.timers.pop_due(now) {
            let (number, key) = place_of(place);
            let Some(port) = self.ports.get_mut(number) else {
                continue;
            };
            let Some(Some(open)) = port.open.get_mut(key.0 as usize) else {
                continue;
            };
            open.alarm = Alarm::default();
            let quic = port.endpoint.poll_timeout(key);
            let http = open.poll_timeout();
            let next = [quic, http].into_iter().flatten().min();
            if next.is_some_and(|due| due <= now) {
                port.endpoint.handle_timeout(key, now);
                port.make_due(key);
            } else {
                self.timers.set(&mut open.alarm, place, next);
            }
        }
    }

    /// Serves the connections that are due now; a connection that needs another turn is served after the next
    /// wait.
    fn serve_due(&mut self, place: usize) -> io::Result<()> {
        let port = &mut self.ports[place];
        if port.writable {
            let progress = port.outbox.resume(&port.socket)?;
            port.writable = progress != SendProgress::Blocked;
        }
        if port.writable {
            while let Some(key) = port.stalled.pop_front() {
                if let Some(Some(open)) = port.open.get_mut(key.0 as usize) {
                    open.is_stalled = false;
                }
                port.make_due(key);
            }
        }
        for _ in 0..port.due.len() {
            let Some(key) = self.ports[place].due.pop_front() else {
                break;
            };
            self.serve(place, key)?;
        }
        Ok(())
    }

    fn serve(&mut self, place: usize, key: ConnectionKey) -> io::Result<()> {
        let port = &mut self.ports[place];
        let Some(Some(open)) = port.open.get_mut(key.0 as usize) else {
            return Ok(());
        };
        open.is_due = false;
        let now = self.clock.now();
        let outcome = open.serve(
            &mut port.endpoint,
            key,
            &mut self.file_buffer,
            now,
            self.log.as_mut(),
            &mut self.statistics,
        );
        if outcome == Outcome::Over {
            self.remove(place, key, now);
            return Ok(());
        }
        let segments = self.sockets.segments_of(&port.socket);
        let is_sent = port.transmit(key, segments, now)?;
        if is_sent && outcome == Outcome::HasMore {
            port.make_due(key);
        }
        let Some(Some(open)) = port.open.get_mut(key.0 as usize) else {
            return Ok(());
        };
        if !is_sent && !open.is_stalled {
            open.is_stalled = true;
            port.stalled.push_back(key);
        }
        let quic = port.endpoint.poll_timeout(key);
        let http = open.poll_timeout();
        let next = [quic, http].into_iter().flatten().min();
        self.timers.set(&mut open.alarm, alarm_of(place, key), next);
        Ok(())
    }

    fn remove(&mut self, place: usize, key: ConnectionKey, now: Instant) {
        let port = &mut self.ports[place];
        let Some(mut open) = port.open[key.0 as usize].take() else {
            return;
        };
        port.count -= 1;
        self.timers.clear(open.alarm, alarm_of(place, key));
        if let Some(log) = &mut self.log {
            open.log_cut_short(now, log, &mut self.statistics);
        }
    }

    /// Accepts no more connections and lets every connection end.
    fn begin_drain(&mut self, now: Instant) {
        let within = self.shared.drain_for.load(Ordering::Acquire);
        self.drained_by = Some(now + Duration::from_nanos(within));
        for port in &mut self.ports {
            port.endpoint.stop_accepting();
            for n in 0..port.open.len() {
                if let Some(open) = &mut port.open[n] {
                    open.http.announce_end();
                    open.http.end(now);
                    port.make_due(ConnectionKey(n as u32));
                }
            }
        }
    }

    /// Whether nothing is in flight any more. Closed connections only wait for late packets.
    fn is_done(&self) -> bool {
        self.ports.iter().all(|port| {
            !port.outbox.is_blocked()
                && port
                    .open
                    .iter()
                    .flatten()
                    .all(|open| open.is_closed() && !open.is_due)
        })
    }

    /// Closes a connection because the loop finishes.
    fn close_at_end(&mut self, place: usize, n: usize, now: Instant) {
        let port = &mut self.ports[place];
        let key = ConnectionKey(n as u32);
        if let Some(open) = &port.open[n]
            && !open.is_closed()
        {
            self.statistics.reset_at_end += 1;
            port.endpoint.close(key, ErrorCode::NO_ERROR.0, "", now);
            // If this datagram is not sent, the peer's own timeout ends the connection.
            let _ = port.transmit(key, 1, now);
        }
        self.remove(place, key, now);
    }
}

impl Port {
    fn make_due(&mut self, key: ConnectionKey) {
        if let Some(Some(open)) = self.open.get_mut(key.0 as usize)
            && !open.is_due
        {
            open.is_due = true;
            self.due.push_back(key);
        }
    }

    /// Closes some of the connections that have waited longest for their clients, if the limit of connections is
    /// reached or another loop `requested` this. Returns the number of closed connections.
    fn make_room(&mut self, requested: bool, now: Instant) -> io::Result<u64> {
        let is_late = self.room_made.is_none_or(|at| now.since(at) >= ROOM_EVERY);
        let is_needed = requested || self.readable && self.endpoint.is_full();
        if !is_late || !is_needed {
            return Ok(0);
        }
        self.room_made = Some(now);
        let waits = |(place, open): (usize, &Option<Box<Open>>)| {
            let since = open.as_ref()?.http.waits_since()?;
            (now.since(since) >= YIELDS_AFTER).then_some((since, place))
        };
        let places = self.open.iter().enumerate();
        let yielding = longest(places.filter_map(waits).collect());
        for &place in &yielding {
            let key = ConnectionKey(place as u32);
            self.endpoint.close(key, ErrorCode::NO_ERROR.0, "", now);
            self.transmit(key, 1, now)?;
            self.endpoint.abandon(key);
        }
        Ok(yielding.len() as u64)
    }

    /// Receives datagrams for one turn.
    fn receive(&mut self, buffer: &mut ReceiveBuffer, now: Instant) {
        let mut failed = false;
        for _ in 0..RECEIVES {
            if !self.readable {
                return;
            }
            match self.socket.receive(buffer) {
                Ok(None) => self.readable = false,
                Ok(Some(more)) => {
                    // A call that did not fill the buffer has emptied the socket, and the poll reports later
                    // datagrams.
                    self.readable = more;
                    self.received.receive_calls += 1;
                    for received in buffer.iter() {
                        self.received.note_received(&received);
                        self.endpoint.handle_datagrams(
                            received.from,
                            received.to,
                            received.ecn.bits(),
                            received.segment,
                            received.bytes,
                            now,
                        );
                    }
                    self.overflowed = buffer.overflowed().unwrap_or(self.overflowed);
                }
                // An error is reported once, and concerns datagrams that were sent; QUIC detects their loss
                // itself. Waiting datagrams are read by the next call, or when more datagrams arrive.
                Err(_) if failed => self.readable = false,
                Err(_) => failed = true,
            }
        }
    }

    /// Sends responses that do not belong to a connection. Responses that the socket does not accept are lost.
    fn answer(&mut self) -> io::Result<()> {
        while self.writable && !self.outbox.is_blocked() {
            let Some(transmit) = self.endpoint.poll_response(&mut self.outbox.bytes) else {
                return Ok(());
            };
            self.send(transmit)?;
        }
        Ok(())
    }

    /// Sends the datagrams of a connection. Returns whether all were sent.
    fn transmit(&mut self, key: ConnectionKey, segments: usize, now: Instant) -> io::Result<bool> {
        loop {
            if !self.writable || self.outbox.is_blocked() {
                return Ok(false);
            }
            let bytes = &mut self.outbox.bytes;
            let Some(transmit) = self.endpoint.poll_transmit(key, segments, bytes, now) else {
                return Ok(true);
            };
            self.send(transmit)?;
        }
    }

    fn send(&mut self, transmit: Transmit) -> io::Result<()> {
        if self.outbox.send(&self.socket, transmit)? == SendProgress::Blocked {
            self.writable = false;
        }
        Ok(())
    }
}

fn alarm_of(port: usize, key: ConnectionKey) -> usize {
    (key.0 as usize) << PORT_BITS | port
}

fn place_of(alarm: usize) -> (usize, ConnectionKey) {
    let port = alarm & ((1 << PORT_BITS) - 1);
    (port, ConnectionKey((alarm >> PORT_BITS) as u32))
}
