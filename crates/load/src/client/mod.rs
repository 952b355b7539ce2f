//! Runs a page driver on kernel sockets: one thread, one poll loop, as many connections as the policy opens. Its timers
//! use the resolution of the kernel, because QUIC paces packets at intervals of microseconds.
//!
//! The loop adds no policy: it opens, writes and closes when the driver requests it, and passes bytes to the driver as
//! soon as they arrive. The only settings of the loop are the socket options ([`ClientSockets`]). If the policy has
//! TLS, the loop runs TLS between a connection's state machine and its socket (`transport`).

mod quic;
mod transport;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fathometer_http::driver::{Action, ConnectionId, PageDriver};
use fathometer_model::{Instant, Seed};
use fathometer_sys::clock::thread_cpu_time;
use fathometer_sys::poller::{Poller, Ready};
use fathometer_sys::udp::{Batches, ReceiveBuffer};
use fathometer_sys::{Clock, SocketOptions, socket};
use fathometer_tls::ClientSettings;

use self::quic::QuicTransport;
use self::transport::Transport;
use crate::http3_client::ClientSettings as QuicSettings;

/// The options of the client's sockets.
#[derive(Debug, Clone)]
pub struct ClientSockets {
    /// The options that are set before the handshake.
    pub options: SocketOptions,
    /// TCP_QUICKACK, set after connecting and again after every read, because the kernel can leave the mode
    /// at any time. `Some(true)` acknowledges at once, `Some(false)` delays from the first segment on,
    /// `None` keeps the kernel's default.
    pub quick_ack: Option<bool>,
    /// The TLS settings, for policies with TLS; shared, so that later connections can resume the sessions of
    /// earlier ones.
    pub tls: Option<Arc<ClientSettings>>,
    /// The QUIC settings, for policies with HTTP/3; shared, so that later connections can resume the sessions of
    /// earlier ones.
    pub quic: Option<Arc<QuicSettings>>,
    /// The seed of QUIC's identifiers and other random values.
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

/// Statistics of the loop; they show whether the client limited the result.
#[derive(Debug, Clone, Default)]
pub struct LoopStatistics {
    /// The longest time from the return of a poll to the next poll, which is the longest delay of an event that the
    /// loop can have caused.
    pub busy_max: Duration,
    /// The largest delay of a timer of the driver.
    pub timer_lag_max: Duration,
    /// The number of waits that ended with a QUIC timer (pacing, losses, acknowledgements) and not with another event.
    pub transport_waits: u64,
    /// The total delay of these timers.
    pub transport_lag: Duration,
    /// The number of system calls and buffers that carried QUIC datagrams.
    pub datagrams: Batches,
    /// CPU time of the thread from the first connection to the end of the last one: in the driver, in the loop and in
    /// the kernel.
    pub cpu_time: Duration,
    /// Whether the retrieval reached the deadline.
    pub timed_out: bool,
    /// The error of the first connection on which TLS failed.
    pub tls_failure: Option<String>,
}

impl LoopStatistics {
    /// Combines the statistics of two loops that ran one after the other.
    #[must_use]
    pub fn and(self, later: LoopStatistics) -> LoopStatistics {
        LoopStatistics {
            busy_max: self.busy_max.max(later.busy_max),
            timer_lag_max: self.timer_lag_max.max(later.timer_lag_max),
            transport_waits: self.transport_waits + later.transport_waits,
            transport_lag: self.transport_lag + later.transport_lag,
            datagrams: self.datagrams.and(later.datagrams),
            cpu_time: self.cpu_time + later.cpu_time,
            timed_out: self.timed_out || later.timed_out,
            tls_failure: self.tls_failure.or(later.tls_failure),
        }
    }
}

/// The error that stopped the loop. The driver handles failures of the network or the peer; they are not errors here.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The poller or a socket failed.
    #[error("failed to set up the client's sockets: {0}")]
    System(#[from] io::Error),
    /// The policy has TLS, but there are no TLS settings.
    #[error("the policy {0} needs settings for TLS")]
    NoTls(String),
    /// The policy has QUIC, but there are no QUIC settings.
    #[error("the policy {0} needs settings for QUIC")]
    NoQuic(String),
}

/// Maximum number of ready sockets reported by one poll.
const EVENTS: usize = 256;
/// The longest time between two checks of the deadline and of `interrupted`.
const LOOK: Duration = Duration::from_millis(100);

/// Drives a retrieval until it ends, `deadline` passes, or `interrupted` returns true. Calls `interrupted` at least
/// every 100 ms.
pub fn drive(
    driver: &mut PageDriver,
    server: SocketAddr,
    sockets: &ClientSockets,
    clock: Clock,
    deadline: Instant,
    interrupted: &dyn Fn() -> bool,
) -> Result<LoopStatistics, ClientError> {
    let policy = driver.policy();
    if policy.protocol.is_over_quic() && sockets.quic.is_none() {
        return Err(ClientError::NoQuic(policy.to_string()));
    }
    if policy.tls && !policy.first_protocol().is_over_quic() && sockets.tls.is_none() {
        return Err(ClientError::NoTls(policy.to_string()));
    }
    let mut poller = Poller::new(EVENTS).map_err(io::Error::other)?;
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
            host.obey(&poller)?;
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
        let of_quic = host.quic_timeout();
        let due = earlier(host.driver.poll_timeout(), of_quic);
        let wake = earlier(due, Some(deadline)).unwrap_or(deadline);
        let wait = match host.has_unread() {
            true => Duration::ZERO,
            false => wake.since(now).min(LOOK),
        };
        let ready = poller.wait(Some(wait)).map_err(io::Error::other)?;
        woken = clock.now();
        for place in 0..ready {
            host.handle(poller.ready(place), woken)?;
        }
        host.read(&mut buffer);
        if let Some(due) = of_quic.filter(|due| ready == 0 && *due > now && *due <= woken) {
            host.statistics.transport_waits += 1;
            host.statistics.transport_lag += woken.since(due);
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
    for transport in std::mem::take(&mut host.quic).into_values() {
        host.retire(transport.batches());
    }
    host.statistics.cpu_time = thread_cpu_time().saturating_sub(used_before);
    Ok(host.statistics)
}

fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    [one, other].into_iter().flatten().min()
}

/// The state of the loop.
struct Host<'a> {
    driver: &'a mut PageDriver,
    open: BTreeMap<ConnectionId, Transport>,
    quic: BTreeMap<ConnectionId, QuicTransport>,
    server: SocketAddr,
    sockets: &'a ClientSockets,
    clock: Clock,
    statistics: LoopStatistics,
}

fn token(id: ConnectionId) -> u64 {
    id.0.into()
}

fn identity(token: u64) -> ConnectionId {
    ConnectionId(token as u32)
}

impl Host<'_> {
    /// Performs the driver's actions on its connections.
    fn obey(&mut self, poller: &Poller) -> io::Result<()> {
        while let Some(action) = self.driver.poll_action() {
            match action {
                Action::Connect(id) if self.driver.protocol_of(id).is_over_quic() => {
                    let now = self.clock.now();
                    let Some(settings) = &self.sockets.quic else {
                        continue;
                    };
                    let seed = self.sockets.seed;
                    let server = match self.driver.port_of(id) {
                        Some(port) => SocketAddr::new(self.server.ip(), port),
                        None => self.server,
                    };
                    let begun =
                        QuicTransport::connect(id, self.driver, server, settings, seed, now);
                    match begun {
                        Ok(transport) => {
                            poller.add(&transport, token(id))?;
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
                            poller.add(&stream, token(id))?;
                            self.open.insert(id, Transport::new(stream));
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
                    if let Some(mut transport) = self.quic.remove(&id) {
                        transport.close(self.clock.now());
                        self.retire(transport.batches());
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

    /// Writes the bytes that may be written now; returns whether any were written.
    fn write(&mut self) -> bool {
        let mut progress = false;
        for (&id, transport) in &mut self.open {
            progress |= transport.write(id, self.driver, self.clock);
        }
        progress
    }

    /// Advances every QUIC connection.
    fn work(&mut self, datagrams: &mut ReceiveBuffer) {
        for (&id, transport) in &mut self.quic {
            transport.work(id, self.driver, datagrams, self.clock.now());
            if let Some(failure) = transport.failure.take() {
                self.statistics.tls_failure.get_or_insert(failure);
            }
        }
    }

    /// Returns the time at which QUIC must run if there is no earlier event.
    fn quic_timeout(&mut self) -> Option<Instant> {
        let transports = self.quic.values_mut();
        transports.filter_map(QuicTransport::poll_timeout).min()
    }

    /// Adds the counts of a closed QUIC connection.
    fn retire(&mut self, batches: Batches) {
        self.statistics.datagrams = self.statistics.datagrams.and(batches);
    }

    /// Returns whether a connection may have unread data.
    fn has_unread(&self) -> bool {
        self.open.values().any(Transport::is_unread) || self.quic.values().any(|quic| quic.more)
    }

    /// Reads from every connection that has unread data, one turn per connection. A connection that always has more
    /// data thus cannot delay the other connections or the deadline.
    fn read(&mut self, buffer: &mut [u8]) {
        let quick_ack = self.sockets.quick_ack;
        for (&id, transport) in &mut self.open {
            if transport.is_unread() {
                transport.read(id, self.driver, buffer, quick_ack, self.clock);
            }
            if let Some(failure) = transport.tls_failure.take() {
                self.statistics.tls_failure.get_or_insert(failure);
            }
        }
    }

    fn handle(&mut self, ready: Ready, now: Instant) -> io::Result<()> {
        let id = identity(ready.token);
        if let Some(transport) = self.quic.get_mut(&id) {
            transport.handle_ready(ready.readable, ready.writable);
            return Ok(());
        }
        let Some(transport) = self.open.get_mut(&id) else {
            return Ok(());
        };
        if !transport.handle_progress(id, self.driver, self.sockets, now)? {
            return Ok(());
        }
        if ready.writable {
            transport.wants_write = true;
        }
        if ready.readable {
            transport.note_readable();
        }
        Ok(())
    }
}
