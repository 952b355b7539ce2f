//! Serves origin connections on kernel sockets: one thread, one poll loop, any number of connections. A
//! [`Service`] consists of several such loops, which share only their port.
//!
//! A loop adds no policy: the connection's state machine decides when responses are sent and when the connection is
//! closed. Bodies pass from the site's memory, or from a file's pages, to the kernel without an extra copy.
//!
//! If the process or the system is out of descriptors, a loop closes the connections that have waited longest for their
//! clients, if they have waited for at least two seconds. If there are no such connections, the loop stops accepting
//! for a second and reports this; new connections then wait in the kernel's queue.

pub(crate) mod access_log;
mod connection;
mod connection_limit;
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
use rustix::io::Errno;

use self::access_log::AccessLog;
pub use self::access_log::{LogFile, LogFormat};
use self::connection::{Buffers, Lent, Open, Outcome};
use self::connection_limit::Admission;
pub use self::connection_limit::ConnectionLimit;
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
/// The minimum time between two searches for connections to close.
pub(crate) const ROOM_EVERY: Duration = Duration::from_millis(100);
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
    /// Boxed, so that each slot of the vector takes only the memory of one pointer.
    open: Vec<Option<Box<Open>>>,
    free: Vec<usize>,
    most_open: usize,
    /// The limit that all loops share.
    limit: Option<Arc<ConnectionLimit>>,
    /// An accepted connection that waits, because another loop has just reached the shared limit.
    held: Option<(mio::net::TcpStream, SocketAddr)>,
    /// The time at which another loop last made this loop close connections.
    room_made: Option<Instant>,
    timers: Timers,
    memory_return: MemoryReturn,
    /// Connections that need another turn.
    again: Vec<usize>,
    /// Whether a listener may have more connections, or the time until which accepting is paused.
    accepting: Accepting,
    reported: Option<Instant>,
    /// The time at which open connections are reset; set while the loop drains.
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

    /// Creates a loop for sockets that are listening already.
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
            limit: None,
            held: None,
            room_made: None,
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

    /// Limits the number of open connections together with other loops.
    fn with_limit(mut self, limit: Arc<ConnectionLimit>) -> OriginLoop {
        let waker = Arc::clone(&self.waker);
        // A waker fails only if its poller is closed, that is, after the loop has finished.
        limit.add_waker(move || drop(waker.wake()));
        self.limit = Some(limit);
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
                self.begin_drain(&mut buffers, now)?;
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
                    self.follow_limit(woken);
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
            self.accept(woken, &mut buffers)?;
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

    /// Accepts waiting connections: up to a limit now, and further connections after other connections were served.
    /// Fails if the listeners do not work.
    fn accept(&mut self, now: Instant, buffers: &mut Buffers) -> io::Result<()> {
        match self.accepting {
            Accepting::WhenReady => return Ok(()),
            Accepting::PausedUntil(at) if now < at => return Ok(()),
            _ => {}
        }
        self.accepting = Accepting::WhenReady;
        let mut accepted = 0;
        for listener in 0..self.listeners.len() {
            loop {
                if self.must_wait() && !self.make_room(now) {
                    self.pause_at_limit(now);
                    return Ok(());
                }
                if accepted == ACCEPTED_AT_ONCE {
                    self.accepting = Accepting::Now;
                    return Ok(());
                }
                let next = match self.held.take() {
                    Some(held) => Ok(held),
                    None => self.listeners[listener].accept(),
                };
                match next {
                    Ok((stream, peer)) => {
                        accepted += 1;
                        let limit = self.limit.as_ref();
                        match limit.map_or(Admission::Admitted, |limit| limit.admit()) {
                            Admission::Admitted => self.add(stream, peer, buffers),
                            Admission::Shed => {
                                self.statistics.shed += 1;
                                // Closing then resets the connection, regardless of the data that has arrived.
                                let _ = socket::set_linger(&stream, Some(Duration::ZERO));
                            }
                            Admission::Full => self.held = Some((stream, peer)),
                        }
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
                        return Ok(());
                    }
                    Err(error) if is_of_connection(&error) => accepted += 1,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Whether new connections must wait until others are closed.
    fn must_wait(&self) -> bool {
        let shared = self.limit.as_ref();
        self.open_now() >= self.most_open || shared.is_some_and(|limit| limit.must_wait())
    }

    fn pause_at_limit(&mut self, now: Instant) {
        self.pause(now, "the maximum number of connections is open");
        if let Some(limit) = &self.limit {
            limit.request_room();
        }
    }

    /// Checks the shared limit, because another loop has woken this loop.
    fn follow_limit(&mut self, now: Instant) {
        let Some(limit) = &self.limit else {
            return;
        };
        if !limit.must_wait() {
            self.resume();
        } else if limit.is_awaited() && self.room_made.is_none_or(|at| now.since(at) >= ROOM_EVERY)
        {
            self.room_made = Some(now);
            self.make_room(now);
        }
    }

    /// Ends a pause.
    fn resume(&mut self) {
        if let Accepting::PausedUntil(at) = &mut self.accepting {
            *at = Instant::ZERO;
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
                // If the client does not read, the kernel would keep unsent data forever.
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
            let shared = self.limit.as_ref();
            let open = shared.map_or_else(|| self.open_now(), |limit| limit.open());
            say(format_args!(
                "new connections wait: {why} ({open} open); allow more with `ulimit -n` or --max-connections"
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
            self.free_place(place);
            return;
        }
        self.statistics.connections += 1;
        let Some(open) = Open::new(stream, peer, &self.common, self.clock.now()) else {
            self.statistics.handshakes_failed += 1;
            self.free_place(place);
            return;
        };
        self.statistics.http2 += u64::from(open.is_http2());
        self.open[place] = Some(Box::new(open));
        // A request has often arrived with the connection. A connection that is accepted while the loop drains
        // still gets one response.
        self.serve(place, buffers);
    }

    /// Serves one connection for one turn.
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
        self.free_place(place);
        // A descriptor is free again.
        self.resume();
    }

    fn free_place(&mut self, place: usize) {
        self.free.push(place);
        if let Some(limit) = &self.limit {
            limit.release();
        }
    }

    /// Accepts waiting connections, closes the listeners and lets every connection end.
    fn begin_drain(&mut self, buffers: &mut Buffers, now: Instant) -> io::Result<()> {
        let within = self.shared.drain_for.load(Ordering::Acquire);
        self.drained_by = Some(now + Duration::from_nanos(within));
        loop {
            self.accepting = Accepting::Now;
            self.accept(now, buffers)?;
            // Clients that connect faster than connections are accepted must not prevent the end of the drain.
            let is_late = self.drained_by.is_some_and(|by| self.clock.now() >= by);
            let is_stopped = self.shared.stop.load(Ordering::Acquire);
            if self.accepting != Accepting::Now || is_late || is_stopped {
                break;
            }
        }
        self.accepting = Accepting::WhenReady;
        self.listeners.clear();
        self.held = None;
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
        Ok(())
    }
}

/// Whether an error of accept(2) concerns one connection, which failed before it was accepted, and not the listener.
fn is_of_connection(error: &io::Error) -> bool {
    let Some(error) = Errno::from_io_error(error) else {
        return false;
    };
    [
        Errno::CONNABORTED,
        Errno::CONNRESET,
        Errno::INTR,
        // A firewall forbids the connection.
        Errno::PERM,
        // On Linux, accept(2) also returns pending network errors, to be treated like EAGAIN.
        Errno::NETDOWN,
        Errno::PROTO,
        Errno::NOPROTOOPT,
        Errno::HOSTDOWN,
        Errno::NONET,
        Errno::HOSTUNREACH,
        Errno::OPNOTSUPP,
        Errno::NETUNREACH,
        Errno::TIMEDOUT,
    ]
    .contains(&error)
}

/// Returns the places of the connections that have waited longest: one in [`YIELDS_OF`], but at least one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_connection_are_not_errors_of_the_listener() {
        for (error, is_connections) in [
            (Errno::CONNABORTED, true),
            (Errno::PERM, true),
            (Errno::BADF, false),
            (Errno::INVAL, false),
            (Errno::NOTSOCK, false),
        ] {
            assert_eq!(is_of_connection(&error.into()), is_connections, "{error}");
        }
    }
}
