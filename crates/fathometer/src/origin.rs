//! Hosts origin connections on kernel sockets: one thread, one poll loop, any number of
//! connections.
//!
//! The loop adds no policy: when responses leave, when a connection is closed and how is the
//! connection machine's decision. Bodies go from the site's memory to the kernel without a copy of
//! ours.

use std::io::{self, IoSlice, Read as _};
use std::net::{Shutdown, SocketAddr, TcpListener as StdTcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fathometer_http::h1::server::{Action, Connection, ServerConfig};
use fathometer_http::origin::Origin;
use fathometer_model::Instant;
use fathometer_sys::{Clock, socket};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};

const WAKE: Token = Token(usize::MAX);
const LISTENER: usize = usize::MAX / 2;
/// Slices handed to the kernel in one call.
const SLICES: usize = 64;

/// What the origin's sockets are given.
#[derive(Debug, Clone, Copy)]
pub struct OriginSockets {
    /// TCP_NODELAY on accepted connections.
    pub nodelay: bool,
    /// TCP_QUICKACK of the listening sockets, which accepted connections inherit; `None` leaves the
    /// kernel alone.
    pub quick_ack: Option<bool>,
}

/// What an origin has done, counted over all its connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OriginStatistics {
    /// Connections accepted.
    pub connections: u64,
    /// Responses that were handed to the kernel whole.
    pub responses: u64,
    /// Longest time from the return of a poll to the next one, in nanoseconds.
    pub busy_max_ns: u64,
}

/// Ends an origin that runs on another thread.
#[derive(Debug, Clone)]
pub struct OriginHandle {
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
    responses: Arc<AtomicU64>,
}

impl OriginHandle {
    /// Asks the loop to end; connections still open are reset.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        // A waker fails only when its poller is gone, and then the loop has ended.
        let _ = self.waker.wake();
    }

    /// Responses handed to the kernel whole, so far.
    pub fn responses(&self) -> u64 {
        self.responses.load(Ordering::Acquire)
    }
}

/// The loop with its listeners, ready to run.
pub struct OriginLoop {
    poll: Poll,
    listeners: Vec<TcpListener>,
    origin: Arc<Origin>,
    config: Arc<ServerConfig>,
    sockets: OriginSockets,
    clock: Clock,
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
    responses: Arc<AtomicU64>,
    open: Vec<Option<Open>>,
    free: Vec<usize>,
    statistics: OriginStatistics,
}

struct Open {
    stream: TcpStream,
    machine: Connection,
    readable: bool,
    writable: bool,
}

impl OriginLoop {
    /// Listens on the given addresses, in the calling thread's namespace. Port 0 takes a free one.
    pub fn bind(
        addresses: &[SocketAddr],
        origin: Arc<Origin>,
        config: Arc<ServerConfig>,
        sockets: OriginSockets,
        clock: Clock,
    ) -> Result<OriginLoop, io::Error> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        let mut listeners = Vec::new();
        let options = socket::SocketOptions {
            quick_ack: sockets.quick_ack,
            ..socket::SocketOptions::default()
        };
        for (n, address) in addresses.iter().enumerate() {
            let listener: StdTcpListener =
                socket::listen(*address, 1024, &options).map_err(io::Error::other)?;
            let mut listener = TcpListener::from_std(listener);
            poll.registry()
                .register(&mut listener, Token(LISTENER + n), Interest::READABLE)?;
            listeners.push(listener);
        }
        Ok(OriginLoop {
            poll,
            listeners,
            origin,
            config,
            sockets,
            clock,
            stop: Arc::new(AtomicBool::new(false)),
            waker,
            responses: Arc::new(AtomicU64::new(0)),
            open: Vec::new(),
            free: Vec::new(),
            statistics: OriginStatistics::default(),
        })
    }

    /// Where it listens.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, io::Error> {
        self.listeners.iter().map(TcpListener::local_addr).collect()
    }

    /// What another thread ends it with.
    pub fn handle(&self) -> OriginHandle {
        OriginHandle {
            stop: Arc::clone(&self.stop),
            waker: Arc::clone(&self.waker),
            responses: Arc::clone(&self.responses),
        }
    }

    /// Serves until the handle says stop.
    pub fn run(mut self) -> Result<OriginStatistics, io::Error> {
        let mut events = Events::with_capacity(1024);
        let mut buffer = vec![0; 64 * 1024];
        while !self.stop.load(Ordering::Acquire) {
            let timeout = self.next_timeout();
            match self.poll.poll(&mut events, timeout) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            let woken = self.clock.now();
            for event in &events {
                let Token(token) = event.token();
                if event.token() == WAKE {
                    continue;
                }
                if token >= LISTENER {
                    self.accept(token - LISTENER)?;
                    continue;
                }
                if let Some(Some(open)) = self.open.get_mut(token) {
                    open.readable |= event.is_readable() || event.is_error();
                    open.writable |= event.is_writable();
                    self.serve(token, &mut buffer);
                }
            }
            self.serve_timeouts(&mut buffer);
            let busy = self.clock.now().since(woken).as_nanos() as u64;
            self.statistics.busy_max_ns = self.statistics.busy_max_ns.max(busy);
        }
        for open in self.open.iter().flatten() {
            let _ = socket::set_linger(&open.stream, Some(Duration::ZERO));
        }
        self.statistics.responses = self.responses.load(Ordering::Acquire);
        Ok(self.statistics)
    }

    fn next_timeout(&self) -> Option<Duration> {
        let due = self
            .open
            .iter()
            .flatten()
            .filter_map(|open| open.machine.poll_timeout())
            .min()?;
        Some(due.since(self.clock.now()))
    }

    fn accept(&mut self, listener: usize) -> Result<(), io::Error> {
        loop {
            match self.listeners[listener].accept() {
                Ok((mut stream, _)) => {
                    // The peer may be gone already; reading will say so.
                    let _ = stream.set_nodelay(self.sockets.nodelay);
                    let place = self.free.pop().unwrap_or_else(|| {
                        self.open.push(None);
                        self.open.len() - 1
                    });
                    self.poll.registry().register(
                        &mut stream,
                        Token(place),
                        Interest::READABLE | Interest::WRITABLE,
                    )?;
                    let machine = Connection::new(
                        Arc::clone(&self.origin),
                        Arc::clone(&self.config),
                        self.clock.now(),
                    );
                    self.statistics.connections += 1;
                    self.open[place] = Some(Open {
                        stream,
                        machine,
                        readable: false,
                        writable: true,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
                    ) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn serve_timeouts(&mut self, buffer: &mut [u8]) {
        let now = self.clock.now();
        for place in 0..self.open.len() {
            if let Some(open) = &mut self.open[place]
                && open.machine.poll_timeout().is_some_and(|due| due <= now)
            {
                open.machine.handle_timeout(now);
                self.serve(place, buffer);
            }
        }
    }

    /// Moves one connection on as far as it goes without waiting.
    fn serve(&mut self, place: usize, buffer: &mut [u8]) {
        let Some(open) = &mut self.open[place] else {
            return;
        };
        loop {
            let mut progress = write_flushed(open, self.clock);
            while open.machine.poll_event().is_some() {
                self.responses.fetch_add(1, Ordering::Release);
            }
            while let Some(action) = open.machine.poll_action() {
                progress = true;
                match action {
                    Action::ShutdownWrite => {
                        // Fails when the peer has reset the connection: there is nothing left to end.
                        let _ = open.stream.shutdown(Shutdown::Write);
                    }
                    Action::Close => {
                        self.open[place] = None;
                        self.free.push(place);
                        return;
                    }
                    Action::Abort => {
                        let _ = socket::set_linger(&open.stream, Some(Duration::ZERO));
                        self.open[place] = None;
                        self.free.push(place);
                        return;
                    }
                }
            }
            if open.readable && open.machine.wants_data() {
                progress |= read_once(open, buffer, self.clock.now());
            }
            if !progress {
                return;
            }
        }
    }
}

fn write_flushed(open: &mut Open, clock: Clock) -> bool {
    let mut progress = false;
    while open.writable {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let count = open.machine.transmit(&mut slices);
        if count == 0 {
            break;
        }
        let ends = open.machine.more_follows();
        match socket::send_vectored(&open.stream, &slices[..count], ends) {
            Ok(Some(written)) => {
                progress = true;
                open.machine.transmitted(written, clock.now());
            }
            Ok(None) => open.writable = false,
            Err(_) => {
                open.writable = false;
                open.machine.handle_failure();
                progress = true;
            }
        }
    }
    progress
}

fn read_once(open: &mut Open, buffer: &mut [u8], now: Instant) -> bool {
    match open.stream.read(buffer) {
        Ok(0) => {
            open.readable = false;
            open.machine.handle_eof(now);
        }
        Ok(length) => open.machine.handle_data(&buffer[..length], now),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            open.readable = false;
            return false;
        }
        Err(_) => {
            open.readable = false;
            open.machine.handle_failure();
        }
    }
    true
}
