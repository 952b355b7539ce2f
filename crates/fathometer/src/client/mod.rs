//! Hosts a page driver on kernel sockets: one thread, one poll loop, as many connections as the
//! policy opens.
//!
//! The loop adds no policy: it opens, writes and closes when the driver says so, and hands over
//! bytes as soon as the kernel has them. What it does decide is what the kernel needs to be told
//! of a socket ([`ClientSockets`]), and that TLS, where the policy wants it, lies between a
//! connection's machine and its socket (`transport`).

mod quic;
mod transport;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fathometer_http::driver::{Action, ConnectionId, PageDriver, Protocol};
use fathometer_model::{Instant, Seed};
use fathometer_sys::clock::thread_cpu_time;
use fathometer_sys::udp::ReceiveBuffer;
use fathometer_sys::{Clock, SocketOptions, socket};
use fathometer_tls::ClientSettings;
use mio::{Events, Poll, Token};

use self::quic::QuicTransport;
use self::transport::Transport;
pub use self::transport::alpn_name;
use crate::quic::client::ClientSettings as QuicSettings;

/// What the client asks of its sockets.
#[derive(Debug, Clone)]
pub struct ClientSockets {
    /// What is set before the handshake.
    pub options: SocketOptions,
    /// TCP_QUICKACK, set when connected and anew after every read, as the kernel leaves the mode by
    /// itself: `Some(true)` acknowledges at once, `Some(false)` delays from the first segment on,
    /// `None` leaves the kernel alone.
    pub quick_ack: Option<bool>,
    /// What TLS is begun with, for policies that want it; shared, so that later connections can resume
    /// the sessions of earlier ones.
    pub tls: Option<Arc<ClientSettings>>,
    /// What QUIC is begun with, for policies of HTTP/3; likewise.
    pub quic: Option<Arc<QuicSettings>>,
    /// What QUIC's identifiers and the like are drawn from.
    pub seed: Seed,
}

impl Default for ClientSockets {
    fn default() -> ClientSockets {
        ClientSockets {
            options: SocketOptions::default(),
            quick_ack: None,
            tls: None,
            quic: None,
            seed: Seed(0),
        }
    }
}

/// How the loop itself fared: the proof that the client was not what limited.
#[derive(Debug, Clone, Default)]
pub struct LoopStatistics {
    /// Longest time from the return of a poll to the next one: how long anything could have waited
    /// for this loop.
    pub busy_max: Duration,
    /// How late the driver's own timers were served, at most.
    pub timer_lag_max: Duration,
    /// Processor time of the thread from the first connection to the end of the last: the driver's, the
    /// loop's, and the kernel's on its behalf.
    pub cpu_time: Duration,
    /// Whether the deadline ended it.
    pub timed_out: bool,
    /// What was wrong with the first connection that TLS failed on, in words.
    pub tls_failure: Option<String>,
}

impl LoopStatistics {
    /// Those of two loops, one after the other.
    #[must_use]
    pub fn and(self, later: LoopStatistics) -> LoopStatistics {
        LoopStatistics {
            busy_max: self.busy_max.max(later.busy_max),
            timer_lag_max: self.timer_lag_max.max(later.timer_lag_max),
            cpu_time: self.cpu_time + later.cpu_time,
            timed_out: self.timed_out || later.timed_out,
            tls_failure: self.tls_failure.or(later.tls_failure),
        }
    }
}

/// Why the loop could not go on. Failures of the network or the peer are the driver's business
/// and are not errors here.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The poller or a socket could not be had.
    #[error("failed to set up the client's sockets: {0}")]
    System(#[from] io::Error),
    /// The policy wants TLS, and nobody said how.
    #[error("the policy {0} needs settings for TLS")]
    NoTls(String),
    /// The policy wants QUIC, and nobody said how.
    #[error("the policy {0} needs settings for QUIC")]
    NoQuic(String),
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
    let hosted = driver.policy().protocol == Protocol::Http3;
    if hosted && sockets.quic.is_none() {
        return Err(ClientError::NoQuic(driver.policy().to_string()));
    }
    if driver.policy().tls && !hosted && sockets.tls.is_none() {
        return Err(ClientError::NoTls(driver.policy().to_string()));
    }
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(256);
    let mut host = Host {
        driver,
        open: BTreeMap::new(),
        quic: BTreeMap::new(),
        server,
        sockets,
        clock,
        statistics: LoopStatistics::default(),
    };
    let mut buffer = vec![0; 64 * 1024];
    let mut datagrams = sockets.quic.as_ref().map(|quic| quic.receive_buffer());
    let used_before = thread_cpu_time();
    let mut woken = clock.now();
    loop {
        loop {
            host.obey(&poll)?;
            if let Some(datagrams) = &mut datagrams {
                host.work(datagrams);
            }
            if !host.write() && !host.driver.has_actions() {
                break;
            }
        }
        if host.driver.is_finished() {
            break;
        }
        let now = clock.now();
        if now >= deadline || interrupted() {
            host.statistics.timed_out = now >= deadline;
            break;
        }
        host.statistics.busy_max = host.statistics.busy_max.max(now.since(woken));
        let due = host.poll_timeout();
        let wake = due.map_or(deadline, |t| t.min(deadline));
        let wait = wake.since(now).min(Duration::from_millis(100));
        match poll.poll(&mut events, Some(wait)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error.into()),
            _ => {}
        }
        woken = clock.now();
        for event in &events {
            host.handle(event, &mut buffer, woken)?;
        }
        if let Some(due) = host.driver.poll_timeout() {
            let now = clock.now();
            if now >= due {
                let lag = &mut host.statistics.timer_lag_max;
                *lag = (*lag).max(now.since(due));
                host.driver.handle_timeout(now);
            }
        }
    }
    host.statistics.cpu_time = thread_cpu_time().saturating_sub(used_before);
    Ok(host.statistics)
}

/// What the loop holds.
struct Host<'a> {
    driver: &'a mut PageDriver,
    open: BTreeMap<ConnectionId, Transport>,
    quic: BTreeMap<ConnectionId, QuicTransport>,
    server: SocketAddr,
    sockets: &'a ClientSockets,
    clock: Clock,
    statistics: LoopStatistics,
}

fn token(id: ConnectionId) -> Token {
    Token(id.0 as usize)
}

fn identity(token: Token) -> ConnectionId {
    ConnectionId(token.0 as u32)
}

impl Host<'_> {
    /// Carries out what the driver wants done with its connections.
    fn obey(&mut self, poll: &Poll) -> io::Result<()> {
        while let Some(action) = self.driver.poll_action() {
            match action {
                Action::Connect(id) if self.driver.policy().protocol == Protocol::Http3 => {
                    let now = self.clock.now();
                    let Some(settings) = &self.sockets.quic else {
                        continue;
                    };
                    let seed = self.sockets.seed;
                    let begun =
                        QuicTransport::connect(id, self.driver, self.server, settings, seed, now);
                    match begun {
                        Ok(transport) => {
                            transport.register(poll.registry(), token(id))?;
                            self.quic.insert(id, transport);
                        }
                        Err(error) => {
                            let failure = socket::classify(&error);
                            self.driver.handle_failure(id, failure, now);
                        }
                    }
                }
                Action::Connect(id) => {
                    match socket::connect(self.server, None, &self.sockets.options) {
                        Ok(stream) => {
                            let transport = Transport::new(stream, poll.registry(), token(id))?;
                            self.open.insert(id, transport);
                        }
                        Err(error) => {
                            let failure = socket::classify(&error);
                            self.driver.handle_failure(id, failure, self.clock.now());
                        }
                    }
                }
                Action::ShutdownWrite(id) => {
                    if let Some(transport) = self.open.get_mut(&id) {
                        transport.shut_down();
                    }
                }
                Action::Close(id) | Action::Abort(id) if self.quic.contains_key(&id) => {
                    if let Some(transport) = self.quic.remove(&id) {
                        transport.close(self.clock.now());
                    }
                }
                Action::Close(id) => {
                    if let Some(transport) = self.open.remove(&id) {
                        transport.close();
                    }
                }
                Action::Abort(id) => {
                    if let Some(transport) = self.open.remove(&id) {
                        transport.abort();
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes what may be written; tells whether anything was.
    fn write(&mut self) -> bool {
        let mut progress = false;
        for (&id, transport) in &mut self.open {
            progress |= transport.write(id, self.driver, self.clock);
        }
        progress
    }

    /// Works on every connection of QUIC.
    fn work(&mut self, datagrams: &mut ReceiveBuffer) {
        for (&id, transport) in &mut self.quic {
            transport.work(id, self.driver, datagrams, self.clock.now());
            if let Some(failure) = transport.failure.take() {
                self.statistics.tls_failure.get_or_insert(failure);
            }
        }
    }

    /// When something is due if nothing happens before.
    fn poll_timeout(&mut self) -> Option<Instant> {
        let transports = self.quic.values_mut();
        let transports = transports.filter_map(QuicTransport::poll_timeout).min();
        let driver = self.driver.poll_timeout();
        [driver, transports].into_iter().flatten().min()
    }

    fn handle(
        &mut self,
        event: &mio::event::Event,
        buffer: &mut [u8],
        now: Instant,
    ) -> io::Result<()> {
        let id = identity(event.token());
        if let Some(transport) = self.quic.get_mut(&id) {
            let readable = event.is_readable() || event.is_error();
            transport.handle_ready(readable, event.is_writable());
            return Ok(());
        }
        let Some(transport) = self.open.get_mut(&id) else {
            return Ok(());
        };
        if !transport.handle_progress(id, self.driver, self.sockets, now)? {
            return Ok(());
        }
        if event.is_writable() {
            transport.wants_write = true;
        }
        if event.is_readable() || event.is_error() {
            let quick_ack = self.sockets.quick_ack;
            transport.read_all(id, self.driver, buffer, quick_ack, self.clock);
        }
        if let Some(failure) = transport.tls_failure.take() {
            self.statistics.tls_failure.get_or_insert(failure);
        }
        Ok(())
    }
}
