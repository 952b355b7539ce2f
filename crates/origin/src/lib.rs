//! Serves origin connections on kernel sockets: one thread, one poll loop, any number of connections. A
//! [`Service`] consists of several such loops, which share only their port.
//!
//! A loop adds no policy: the connection's state machine decides when responses are sent, and when and how the
//! connection is closed. Bodies pass from the site's memory, or from a file's pages, to the kernel without an
//! extra copy.
//!
//! If the process or the system is out of descriptors, a loop closes the connections that have waited longest
//! for their clients, if they have waited for at least two seconds. If there are no such connections, the loop
//! stops accepting for a while and reports this; new connections then wait in the kernel's queue.

pub(crate) mod access_log;
mod connection;
mod encoders;
pub mod folder;
mod handle;
pub mod http3;
mod kept;
mod listing;
mod loops;
mod machine;
pub(crate) mod memory_return;
pub mod ports;
mod protocols;
mod root;
mod secure;
mod service;
mod statistics;
pub(crate) mod timers;
pub(crate) mod wall_clock;

use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fathometer_http::origin::Origin;
use fathometer_model::Instant;
use fathometer_sys::{Clock, heap, socket};
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};

use self::access_log::AccessLog;
pub use self::access_log::{LogFile, LogFormat};
use self::connection::{Buffers, Lent, Open, Outcome};
pub use self::encoders::LibraryEncoders;
pub use self::handle::OriginHandle;
use self::handle::Shared;
pub use self::kept::PackageFolder;
use self::machine::Common;
use self::memory_return::MemoryReturn;
pub use self::protocols::Protocols;
pub use self::service::{Service, ServiceError, ServiceOptions};
pub use self::statistics::OriginStatistics;
use self::timers::{Alarm, Timers};
use self::wall_clock::WallClock;
use fathometer_sys::stderr::say;

const WAKE: Token = Token(usize::MAX);
const LISTENER: usize = usize::MAX / 2;
/// Maximum number of connections that wait to be accepted; the kernel may allow fewer.
pub const BACKLOG: u32 = 4096;
/// Maximum number of connections accepted before other connections are served.
const ACCEPTED_AT_ONCE: usize = 128;
/// The time for which accepting pauses if there are no descriptors, unless a connection is closed earlier.
const PAUSE: Duration = Duration::from_secs(1);
/// The time that a connection must have waited for its client before it may be closed to free its descriptor.
pub(crate) const YIELDS_AFTER: Duration = Duration::from_secs(2);
/// One in this many waiting connections is closed at a time, so that not every new connection needs a search of
/// all connections.
pub(crate) const YIELDS_OF: usize = 64;
/// The minimum time between two messages about a pause.
const REPEATED_AFTER: Duration = Duration::from_secs(60);
/// A connection that is idle for this long frees its buffers.
const SHRINK_AFTER: Duration = Duration::from_secs(5);

/// The options of the origin's sockets.
#[derive(Debug, Clone, Copy)]
pub struct OriginSockets {
    /// Whether TCP_NODELAY is set on accepted connections.
    pub nodelay: bool,
    /// TCP_QUICKACK of the listening sockets, which accepted connections inherit; `None`: the kernel's default.
    pub quick_ack: Option<bool>,
    /// Maximum number of connections that wait to be accepted; the kernel may allow fewer. `None`: [`BACKLOG`].
    pub backlog: Option<u32>,
}

/// An event loop and its listeners, ready to run.
pub struct OriginLoop {
    poll: Poll,
    listeners: Vec<TcpListener>,
    common: Common,
    clock: Clock,
    shared: Arc<Shared>,
    waker: Arc<Waker>,
    /// Boxed, so that a free place, or a larger vector, costs one word per place.
    open: Vec<Option<Box<Open>>>,
    free: Vec<usize>,
    most_open: usize,
    /// New connections are reset while this many connections are open.
    shed_above: usize,
    timers: Timers,
    memory_return: MemoryReturn,
    /// Connections whose turn has ended before their work.
    again: Vec<usize>,
    /// Whether a listener may have more connections, or until when accepting is paused.
    accepting: Accepting,
    reported: Option<Instant>,
    /// When connections that are still open are reset; set while the loop drains.
    drained_by: Option<Instant>,
    log: Option<AccessLog>,
    wall_clock: WallClock,
    statistics: OriginStatistics,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accepting {
    /// The poll reports when connections wait.
    WhenReady,
    /// More connections may wait now.
    Now,
    PausedUntil(Instant),
}

impl OriginLoop {
    /// Listens on the given addresses, in the calling thread's network namespace. Port 0 selects a free port.
    pub fn bind(
        addresses: &[SocketAddr],
        origin: Arc<Origin>,
        protocols: impl Into<Protocols>,
        sockets: OriginSockets,
        clock: Clock,
    ) -> Result<OriginLoop, io::Error> {
        let listeners = addresses
            .iter()
            .map(|address| listen(*address, sockets, false))
            .collect::<Result<Vec<_>, _>>()?;
        OriginLoop::with_listeners(listeners, origin, protocols.into(), clock)
    }

    /// A loop for sockets that are listening already.
    fn with_listeners(
        listeners: Vec<StdTcpListener>,
        origin: Arc<Origin>,
        protocols: Protocols,
        clock: Clock,
    ) -> Result<OriginLoop, io::Error> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        let mut registered = Vec::with_capacity(listeners.len());
        for (n, listener) in listeners.into_iter().enumerate() {
            let mut listener = TcpListener::from_std(listener);
            poll.registry()
                .register(&mut listener, Token(LISTENER + n), Interest::READABLE)?;
            registered.push(listener);
        }
        Ok(OriginLoop {
            poll,
            listeners: registered,
            common: Common { origin, protocols },
            clock,
            shared: Arc::default(),
            waker,
            open: Vec::new(),
            free: Vec::new(),
            most_open: LISTENER,
            shed_above: usize::MAX,
            timers: Timers::default(),
            memory_return: MemoryReturn::default(),
            again: Vec::new(),
            accepting: Accepting::WhenReady,
            reported: None,
            drained_by: None,
            log: None,
            wall_clock: WallClock::new(clock),
            statistics: OriginStatistics::default(),
        })
    }

    /// Limits the number of open connections; more connections wait in the kernel's queue.
    fn with_most_open(mut self, most: usize) -> OriginLoop {
        self.most_open = most.clamp(1, LISTENER);
        self
    }

    /// Resets new connections while this many are open, as a server does that prefers to serve some clients
    /// well rather than all clients badly.
    fn shedding_above(mut self, most: usize) -> OriginLoop {
        self.shed_above = most;
        self
    }

    /// Writes an access log.
    fn with_log(mut self, log: Arc<LogFile>) -> OriginLoop {
        self.log = Some(AccessLog::new(log, self.clock));
        self
    }

    /// The addresses on which the loop listens.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, io::Error> {
        self.listeners.iter().map(TcpListener::local_addr).collect()
    }

    /// A handle that stops the loop from another thread.
    pub fn handle(&self) -> OriginHandle {
        OriginHandle {
            shared: Arc::clone(&self.shared),
            waker: Arc::clone(&self.waker),
        }
    }

    /// Serves until the handle stops it, or until a drain is complete.
    pub fn run(mut self) -> Result<OriginStatistics, io::Error> {
        let ended = self.serve_all();
        for place in 0..self.open.len() {
            if let Some(open) = &self.open[place] {
                let _ = socket::set_linger(&open.stream, Some(Duration::ZERO));
                self.statistics.reset_at_end += 1;
                self.remove(place);
            }
        }
        if let Some(log) = &mut self.log {
            log.flush();
            self.statistics.log_lines_lost = log.lost();
        }
        self.statistics.take_from(&self.common.origin);
        ended.map(|()| self.statistics)
    }

    fn serve_all(&mut self) -> Result<(), io::Error> {
        let mut events = Events::with_capacity(1024);
        let mut buffers = Buffers::default();
        let mut now = self.clock.now();
        while !self.shared.stop.load(Ordering::Acquire) {
            if self.shared.drain.load(Ordering::Acquire) && self.drained_by.is_none() {
                self.begin_drain(&mut buffers, now);
            }
            if let Some(by) = self.drained_by {
                if self.open_now() == 0 || now >= by {
                    break;
                }
                // A second signal may end the process at any moment.
                if let Some(log) = &mut self.log {
                    log.flush();
                }
            }
            let timeout = self.next_timeout(now);
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            let woken = self.clock.now();
            self.wall_clock
                .follow(woken, &self.common.origin, self.log.as_mut());
            for event in &events {
                let Token(token) = event.token();
                if event.token() == WAKE {
                    continue;
                }
                if token >= LISTENER {
                    self.accepting = match self.accepting {
                        Accepting::WhenReady => Accepting::Now,
                        accepting => accepting,
                    };
                    continue;
                }
                if let Some(Some(open)) = self.open.get_mut(token) {
                    open.note(event);
                    self.serve(token, &mut buffers);
                }
            }
            for place in std::mem::take(&mut self.again) {
                self.serve(place, &mut buffers);
            }
            self.accept(woken, &mut buffers);
            self.serve_alarms(woken, &mut buffers);
            if self.memory_return.is_due(self.open_now(), woken) {
                heap::release_free_memory();
            }
            if let Some(log) = &mut self.log {
                log.flush_due(woken);
            }
            self.shared
                .responses
                .store(self.statistics.responses, Ordering::Release);
            now = self.clock.now();
            let busy = now.since(woken).as_nanos() as u64;
            self.statistics.busy_max_ns = self.statistics.busy_max_ns.max(busy);
        }
        Ok(())
    }

    fn open_now(&self) -> usize {
        self.open.len() - self.free.len()
    }

    fn next_timeout(&self, now: Instant) -> Option<Duration> {
        if !self.again.is_empty() || self.accepting == Accepting::Now {
            return Some(Duration::ZERO);
        }
        let resumed = match self.accepting {
            Accepting::PausedUntil(at) => Some(at.since(now)),
            _ => None,
        };
        [
            self.timers.next(now),
            resumed,
            self.drained_by.map(|by| by.since(now)),
            self.memory_return.time_left(self.open_now(), now),
            self.log.as_ref().and_then(|log| log.due(now)),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Accepts waiting connections: up to a limit now, and the rest after other connections were served.
    fn accept(&mut self, now: Instant, buffers: &mut Buffers) {
        match self.accepting {
            Accepting::WhenReady => return,
            Accepting::PausedUntil(at) if now < at => return,
            _ => {}
        }
        self.accepting = Accepting::WhenReady;
        let mut accepted = 0;
        for listener in 0..self.listeners.len() {
            loop {
                if self.open_now() >= self.most_open && !self.make_room(now) {
                    self.pause(now, "the maximum number of connections is open");
                    return;
                }
                if accepted == ACCEPTED_AT_ONCE {
                    self.accepting = Accepting::Now;
                    return;
                }
                match self.listeners[listener].accept() {
                    Ok((stream, _)) if self.open_now() >= self.shed_above => {
                        accepted += 1;
                        self.statistics.shed += 1;
                        // Closing resets the connection, whatever data has arrived.
                        let _ = socket::set_linger(&stream, Some(Duration::ZERO));
                    }
                    Ok((stream, peer)) => {
                        accepted += 1;
                        self.add(stream, peer, buffers);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // The system is out of descriptors, or of memory for descriptors.
                    Err(error)
                        if socket::classify(&error) == fathometer_model::Failure::LocalLimit =>
                    {
                        if self.make_room(now) {
                            self.accepting = Accepting::Now;
                        } else {
                            self.pause(now, &error.to_string());
                        }
                        return;
                    }
                    // The connection failed before it was accepted: accept(2) returns such errors.
                    Err(_) => accepted += 1,
                }
            }
        }
    }

    /// Closes some of the connections that have waited longest for their clients; returns false if none has
    /// waited long enough.
    fn make_room(&mut self, now: Instant) -> bool {
        let waits = |(place, open): (usize, &Option<Box<Open>>)| {
            let since = open.as_ref()?.waits_since()?;
            (now.since(since) >= YIELDS_AFTER).then_some((since, place))
        };
        let places = self.open.iter().enumerate();
        let yielding = longest(places.filter_map(waits).collect());
        for &place in &yielding {
            if let Some(open) = &self.open[place]
                && open.is_sending()
            {
                // If the client does not read, the kernel would hold unsent data forever.
                let _ = socket::set_linger(&open.stream, Some(Duration::ZERO));
            }
            self.statistics.yielded += 1;
            self.remove(place);
        }
        !yielding.is_empty()
    }

    fn pause(&mut self, now: Instant, why: &str) {
        self.accepting = Accepting::PausedUntil(now + PAUSE);
        self.statistics.pauses += 1;
        if self
            .reported
            .is_none_or(|reported| now.since(reported) >= REPEATED_AFTER)
        {
            self.reported = Some(now);
            say(format_args!(
                "new connections wait: {why} ({} open); allow more with `ulimit -n` or --max-connections",
                self.open_now()
            ));
        }
    }

    fn add(&mut self, mut stream: mio::net::TcpStream, peer: SocketAddr, buffers: &mut Buffers) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        });
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = self
            .poll
            .registry()
            .register(&mut stream, Token(place), interest);
        if registered.is_err() {
            // The system cannot poll more descriptors, so this connection is closed.
            self.free.push(place);
            return;
        }
        self.statistics.connections += 1;
        let Some(open) = Open::new(stream, peer, &self.common, self.clock.now()) else {
            self.statistics.handshakes_failed += 1;
            self.free.push(place);
            return;
        };
        self.statistics.http2 += u64::from(open.is_http2());
        self.open[place] = Some(Box::new(open));
        // A request has often arrived with the connection. A connection that is accepted while the loop drains
        // still gets one response.
        self.serve(place, buffers);
    }

    /// Advances one connection as far as possible in one turn.
    fn serve(&mut self, place: usize, buffers: &mut Buffers) {
        let Some(Some(open)) = self.open.get_mut(place) else {
            return;
        };
        let now = self.clock.now();
        let mut lent = Lent {
            common: &self.common,
            buffers,
            log: self.log.as_mut(),
            statistics: &mut self.statistics,
        };
        match open.serve(&mut lent, now) {
            Outcome::Waits => {}
            Outcome::HasMore => self.again.push(place),
            Outcome::Over => {
                self.remove(place);
                return;
            }
        }
        open.rested = false;
        open.served_at = now;
        let at = open.poll_timeout().map(|at| at.min(now + SHRINK_AFTER));
        self.timers.set(&mut open.alarm, place, at);
    }

    fn serve_alarms(&mut self, now: Instant, buffers: &mut Buffers) {
        while let Some(place) = self.timers.pop_due(now) {
            let Some(Some(open)) = self.open.get_mut(place) else {
                continue;
            };
            open.alarm = Alarm::default();
            if open.poll_timeout().is_some_and(|due| due <= now) {
                open.handle_timeout(now);
                self.serve(place, buffers);
                continue;
            }
            if !open.rested && now.since(open.served_at) >= SHRINK_AFTER {
                open.rest();
                open.rested = true;
            }
            let mut at = open.poll_timeout();
            if !open.rested {
                at = at.map(|at| at.min(open.served_at + SHRINK_AFTER));
            }
            self.timers.set(&mut open.alarm, place, at);
        }
    }

    fn remove(&mut self, place: usize) {
        let Some(mut open) = self.open[place].take() else {
            return;
        };
        self.timers.clear(open.alarm, place);
        if let Some(log) = &mut self.log {
            open.log_cut_short(self.clock.now(), log);
        }
        self.free.push(place);
        if let Accepting::PausedUntil(at) = &mut self.accepting {
            // A descriptor is free again.
            *at = Instant::ZERO;
        }
    }

    /// Accepts waiting connections, closes the listeners and lets every connection end.
    fn begin_drain(&mut self, buffers: &mut Buffers, now: Instant) {
        let within = self.shared.drain_for.load(Ordering::Acquire);
        self.drained_by = Some(now + Duration::from_nanos(within));
        loop {
            self.accepting = Accepting::Now;
            self.accept(now, buffers);
            // Clients that connect faster than connections are accepted must not prevent the end.
            let is_late = self.drained_by.is_some_and(|by| self.clock.now() >= by);
            let is_stopped = self.shared.stop.load(Ordering::Acquire);
            if self.accepting != Accepting::Now || is_late || is_stopped {
                break;
            }
        }
        self.accepting = Accepting::WhenReady;
        self.listeners.clear();
        for place in 0..self.open.len() {
            if let Some(open) = &mut self.open[place] {
                open.announce_end();
                self.serve(place, buffers);
            }
            if let Some(open) = &mut self.open[place] {
                open.end(now);
                self.serve(place, buffers);
            }
        }
    }
}

/// The places of the connections that have waited longest: one in [`YIELDS_OF`], but at least one.
pub(crate) fn longest(mut waiting: Vec<(Instant, usize)>) -> Vec<usize> {
    let count = (waiting.len() / YIELDS_OF).max(1).min(waiting.len());
    if count > 0 {
        waiting.select_nth_unstable(count - 1);
    }
    waiting[..count].iter().map(|&(_, place)| place).collect()
}

fn listen(
    address: SocketAddr,
    sockets: OriginSockets,
    reuse_port: bool,
) -> Result<StdTcpListener, io::Error> {
    let options = socket::SocketOptions {
        no_delay: Some(sockets.nodelay),
        quick_ack: sockets.quick_ack,
        reuse_port,
        ..socket::SocketOptions::default()
    };
    let backlog = sockets.backlog.unwrap_or(BACKLOG);
    socket::listen(address, backlog, &options).map_err(io::Error::other)
}
