//! Hosts a page driver on kernel sockets: one thread, one poll loop, as many connections as the
//! policy opens.
//!
//! The loop adds no policy: it opens, writes and closes when the driver says so, and hands over
//! bytes as soon as the kernel has them. What it does decide is what the kernel needs to be told
//! of a socket ([`ClientSockets`]).

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

use fathometer_http::driver::{Action, ConnectionId, PageDriver};
use fathometer_model::{Failure, Instant};
use fathometer_sys::{Clock, SocketOptions, socket};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

/// What the client asks of its sockets.
#[derive(Debug, Clone, Default)]
pub struct ClientSockets {
    /// What is set before the handshake.
    pub options: SocketOptions,
    /// TCP_QUICKACK, set when connected and anew after every read, as the kernel leaves the mode by
    /// itself: `Some(true)` acknowledges at once, `Some(false)` delays from the first segment on,
    /// `None` leaves the kernel alone.
    pub quick_ack: Option<bool>,
}

/// How the loop itself fared: the proof that the client was not what limited.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoopStatistics {
    /// Longest time from the return of a poll to the next one: how long anything could have waited
    /// for this loop.
    pub busy_max: Duration,
    /// How late the driver's own timers were served, at most.
    pub timer_lag_max: Duration,
    /// Whether the deadline ended it.
    pub timed_out: bool,
}

/// Why the loop could not go on. Failures of the network or the peer are the driver's business
/// and are not errors here.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The poller or a socket could not be had.
    #[error("failed to set up the client's sockets: {0}")]
    System(#[from] io::Error),
}

struct Open {
    stream: TcpStream,
    connected: bool,
    ended: bool,
    wants_write: bool,
}

/// Drives a retrieval to its end, to `deadline`, or until `interrupted` says so (asked at least
/// every 100 ms).
pub fn drive(
    driver: &mut PageDriver,
    server: SocketAddr,
    sockets: &ClientSockets,
    clock: Clock,
    deadline: Instant,
    interrupted: &dyn Fn() -> bool,
) -> Result<LoopStatistics, ClientError> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(256);
    let mut open: BTreeMap<ConnectionId, Open> = BTreeMap::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut statistics = LoopStatistics::default();
    let mut woken = clock.now();
    loop {
        loop {
            obey(driver, &mut open, &poll, server, sockets, clock)?;
            if !write_flushed(driver, &mut open, clock) {
                break;
            }
        }
        if driver.is_finished() {
            break;
        }
        let now = clock.now();
        if now >= deadline || interrupted() {
            statistics.timed_out = now >= deadline;
            break;
        }
        statistics.busy_max = statistics.busy_max.max(now.since(woken));
        let wake = driver.poll_timeout().map_or(deadline, |t| t.min(deadline));
        let wait = wake.since(now).min(Duration::from_millis(100));
        match poll.poll(&mut events, Some(wait)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error.into()),
            _ => {}
        }
        woken = clock.now();
        for event in &events {
            let id = identity(event.token());
            let Some(connection) = open.get_mut(&id) else {
                continue;
            };
            if !connection.connected {
                if let Some(failure) = connection_failure(&connection.stream) {
                    connection.ended = true;
                    driver.handle_failure(id, failure, woken);
                    continue;
                }
                if connection.stream.peer_addr().is_err() {
                    continue;
                }
                connection.connected = true;
                if let Some(quick) = sockets.quick_ack {
                    socket::set_quick_ack(&connection.stream, quick)?;
                }
                driver.handle_connected(id, woken);
            }
            if event.is_writable() {
                connection.wants_write = true;
            }
            if event.is_readable() || event.is_error() {
                read_all(driver, id, connection, &mut buffer, sockets, clock);
            }
        }
        if let Some(due) = driver.poll_timeout() {
            let now = clock.now();
            if now >= due {
                statistics.timer_lag_max = statistics.timer_lag_max.max(now.since(due));
                driver.handle_timeout(now);
            }
        }
    }
    Ok(statistics)
}

fn token(id: ConnectionId) -> Token {
    Token(id.0 as usize)
}

fn identity(token: Token) -> ConnectionId {
    ConnectionId(token.0 as u32)
}

/// Carries out what the driver wants done with its connections.
fn obey(
    driver: &mut PageDriver,
    open: &mut BTreeMap<ConnectionId, Open>,
    poll: &Poll,
    server: SocketAddr,
    sockets: &ClientSockets,
    clock: Clock,
) -> io::Result<()> {
    while let Some(action) = driver.poll_action() {
        match action {
            Action::Connect(id) => match socket::connect(server, None, &sockets.options) {
                Ok(stream) => {
                    let mut stream = TcpStream::from_std(stream);
                    poll.registry().register(
                        &mut stream,
                        token(id),
                        Interest::READABLE | Interest::WRITABLE,
                    )?;
                    open.insert(
                        id,
                        Open {
                            stream,
                            connected: false,
                            ended: false,
                            wants_write: false,
                        },
                    );
                }
                Err(error) => driver.handle_failure(id, socket::classify(&error), clock.now()),
            },
            Action::ShutdownWrite(id) => {
                if let Some(connection) = open.get(&id) {
                    // A peer that has reset the connection meanwhile makes this fail, harmlessly.
                    let _ = connection.stream.shutdown(Shutdown::Write);
                }
            }
            Action::Close(id) => {
                open.remove(&id);
            }
            Action::Abort(id) => {
                if let Some(connection) = open.remove(&id) {
                    let _ = socket::set_linger(&connection.stream, Some(Duration::ZERO));
                }
            }
        }
    }
    Ok(())
}

/// Writes what may be written; tells whether anything was.
fn write_flushed(
    driver: &mut PageDriver,
    open: &mut BTreeMap<ConnectionId, Open>,
    clock: Clock,
) -> bool {
    let mut progress = false;
    for (&id, connection) in open.iter_mut() {
        while connection.connected && !connection.ended && connection.wants_write {
            let bytes = driver.transmit(id);
            if bytes.is_empty() {
                break;
            }
            match connection.stream.write(bytes) {
                Ok(written) => {
                    progress = true;
                    driver.transmitted(id, written, clock.now());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    connection.wants_write = false;
                }
                Err(error) => {
                    // What the peer sent before it went is still to be read: a reset shows there.
                    if error.kind() != io::ErrorKind::BrokenPipe {
                        connection.ended = true;
                        driver.handle_failure(id, socket::classify(&error), clock.now());
                        progress = true;
                    }
                    connection.wants_write = false;
                }
            }
        }
    }
    progress
}

fn read_all(
    driver: &mut PageDriver,
    id: ConnectionId,
    connection: &mut Open,
    buffer: &mut [u8],
    sockets: &ClientSockets,
    clock: Clock,
) {
    while !connection.ended {
        match connection.stream.read(buffer) {
            Ok(0) => {
                connection.ended = true;
                driver.handle_eof(id, clock.now());
            }
            Ok(length) => {
                if sockets
                    .quick_ack
                    .is_some_and(|quick| socket::set_quick_ack(&connection.stream, quick).is_err())
                {
                    connection.ended = true;
                    driver.handle_failure(id, Failure::LocalLimit, clock.now());
                    return;
                }
                driver.handle_data(id, &buffer[..length], clock.now());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => {
                connection.ended = true;
                driver.handle_failure(id, socket::classify(&error), clock.now());
            }
        }
    }
}

/// The failure of a connection attempt that has ended badly.
fn connection_failure(stream: &TcpStream) -> Option<Failure> {
    match stream.take_error() {
        Ok(None) => None,
        Ok(Some(error)) | Err(error) => Some(socket::classify(&error)),
    }
}
