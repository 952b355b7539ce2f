//! Serves an origin over HTTP/3.
//!
//! A [`Service`] is several event loops on one port, each on a thread of its own with a socket of its own
//! (SO_REUSEPORT). They share nothing: the kernel deals datagrams out by the hash of both addresses and
//! ports, so all datagrams of a connection come to one loop for as long as its client stays where it is
//! and no socket of the port comes or goes. So clients cannot move to another address while there are
//! several loops, all sockets are there before the first loop runs, and none is closed before the last
//! loop has ended. With one loop, clients may move.

mod connection;
mod delivery;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use fathometer_http::h2;
use fathometer_http::h3::server::ServerConfig;
use fathometer_http::origin::Origin;
use fathometer_http::waiting::{ENOUGH_WAITING, MOST_WAITING};
use fathometer_model::{Bytes, Seed};
use fathometer_quic::{Endpoint, HalfOpen, QlogWriter, ServerSettings, TransportSettings, Waiting};
use fathometer_sys::usage::ThreadClock;
use fathometer_sys::{Clock, UdpOptions, UdpSocket, sched};

pub use self::worker::Handle;
use self::worker::Worker;
use super::{ALPN, SettingsError, Sockets};
use crate::origin::{LogFile, OriginStatistics};

/// The transport of a server that strangers may reach: what clients may send ahead of what is read is bounded as in
/// HTTP/2. Without a bound for the connection, a client that leaves a gap in each of a hundred streams makes the server
/// keep all that is behind the gaps.
pub fn guarded_transport() -> TransportSettings {
    let windows = h2::server::ReceiveWindows::default();
    TransportSettings {
        stream_window: Bytes(windows.stream.into()),
        connection_window: Some(Bytes(windows.connection.into())),
        ..TransportSettings::default()
    }
}

/// How a service is set up.
#[derive(Clone)]
pub struct ServiceOptions {
    /// Where it receives; port 0 takes a free one.
    pub addresses: Vec<SocketAddr>,
    /// TLS, whatever protocols (ALPN) it names: here it is `h3`. Loops share its tickets.
    pub tls: Arc<fathometer_tls::ServerSettings>,
    /// The transport of all connections.
    pub transport: TransportSettings,
    /// What its sockets are given.
    pub sockets: Sockets,
    /// Whether a client must show that its address is its own before anything is done for it, which
    /// costs a round trip (Retry).
    pub validates_addresses: bool,
    /// Whether each loop keeps to one processor.
    pub pinned: bool,
    /// Connections that may be open at a time in all loops; more are refused.
    pub most_open: usize,
    /// The access log.
    pub log: Option<Arc<LogFile>>,
    /// What connection identifiers and the like are drawn from.
    pub seed: Seed,
}

impl std::fmt::Debug for ServiceOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceOptions")
            .field("addresses", &self.addresses)
            .field("transport", &self.transport)
            .field("sockets", &self.sockets)
            .field("validates_addresses", &self.validates_addresses)
            .field("pinned", &self.pinned)
            .field("most_open", &self.most_open)
            .finish_non_exhaustive()
    }
}

/// Why a service does not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The address.
    #[error("{address} (UDP): {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Anything else.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Loops at work.
#[derive(Debug)]
pub struct Service {
    addresses: Vec<SocketAddr>,
    loops: Vec<(Handle, JoinHandle<io::Result<OriginStatistics>>)>,
    /// Kept open until all loops have ended: the kernel would deal out anew when one is closed.
    sockets: Vec<OwnedFd>,
}

impl Service {
    /// Starts a loop for each of the origins, which may be one and the same. `qlog` is asked for a writer
    /// for each loop and address, and gives none where nothing is to be logged.
    pub fn start(
        options: &ServiceOptions,
        origins: Vec<Arc<Origin>>,
        config: &Arc<ServerConfig>,
        clock: Clock,
        mut qlog: impl FnMut() -> Option<QlogWriter>,
    ) -> Result<Service, ServiceError> {
        let tls = options
            .tls
            .quic_config(&[ALPN])
            .map_err(SettingsError::from)?;
        // What was served is known by events; what was asked, for the log alone.
        let config = Arc::new(ServerConfig {
            events: true,
            request_text: options.log.is_some(),
            ..(**config).clone()
        });
        let count = origins.len().max(1);
        let shared = count > 1;
        let addresses = options
            .addresses
            .iter()
            .map(|&address| free_address(address, options))
            .collect::<Result<Vec<_>, _>>()?;
        let processors = sched::processors().map_err(io::Error::other)?;
        let mut kept = Vec::new();
        let mut workers = Vec::with_capacity(count);
        for (n, origin) in origins.into_iter().enumerate() {
            let mut worker = Worker::new(origin, Arc::clone(&config), options, clock)?;
            for (m, &address) in addresses.iter().enumerate() {
                let socket = bind(address, options, shared)?;
                kept.push(socket.duplicate()?);
                let settings = ServerSettings {
                    tls: Arc::clone(&tls),
                    transport: options.transport,
                    validates_addresses: options.validates_addresses,
                    migration: !shared,
                    most_connections: (options.most_open / count / addresses.len()).max(1),
                    half_open: HalfOpen::default(),
                    waiting: Waiting {
                        each: ENOUGH_WAITING,
                        all: Bytes(MOST_WAITING.0 / (count * addresses.len()) as u64),
                    },
                    qlog: qlog(),
                };
                let seed = options.seed.child(n as u64).child(m as u64);
                let endpoint = Endpoint::server(settings, socket.is_unfragmented(), seed)
                    .map_err(SettingsError::from)?;
                worker.add(socket, endpoint)?;
            }
            workers.push(worker);
        }
        // They start when all sockets are there: a failure above leaves nothing behind.
        let loops = workers
            .into_iter()
            .enumerate()
            .map(|(n, worker)| {
                let handle = worker.handle();
                let processor = options
                    .pinned
                    .then(|| processors[n % processors.len().max(1)]);
                let thread = std::thread::Builder::new()
                    .name(format!("origin h3 {n}"))
                    .spawn(move || {
                        if let Some(processor) = processor {
                            sched::pin(processor).map_err(io::Error::other)?;
                        }
                        worker.run()
                    })?;
                Ok((handle, thread))
            })
            .collect::<io::Result<Vec<_>>>()?;
        Ok(Service {
            addresses,
            loops,
            sockets: kept,
        })
    }

    /// Where it receives.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Responses that QUIC has taken whole, so far.
    pub fn responses(&self) -> u64 {
        self.loops
            .iter()
            .map(|(handle, _)| handle.responses())
            .sum()
    }

    /// The clocks of the processor time of its threads.
    pub fn threads(&self) -> Vec<ThreadClock> {
        let threads = self.loops.iter().map(|(_, thread)| thread);
        threads.filter_map(ThreadClock::of).collect()
    }

    /// Datagrams that the kernel has thrown away so far because the loops did not fetch them in time: a
    /// loss that no path made.
    pub fn overflowed(&self) -> u64 {
        self.loops
            .iter()
            .map(|(handle, _)| handle.overflowed())
            .sum()
    }

    /// Accepts no more, answers what is under way, and closes what is open after `within`.
    pub fn drain(&self, within: Duration) {
        for (handle, _) in &self.loops {
            handle.drain(within);
        }
    }

    /// Closes everything.
    pub fn stop(&self) {
        for (handle, _) in &self.loops {
            handle.stop();
        }
    }

    /// Whether a loop has ended.
    pub fn has_ended(&self) -> bool {
        self.loops.iter().any(|(_, thread)| thread.is_finished())
    }

    /// Waits for all loops to end, and tells what they did. Where one ended by a failure, the others are
    /// stopped.
    pub fn join(self) -> Result<OriginStatistics, ServiceError> {
        let mut total = OriginStatistics::default();
        let mut failure = None;
        let handles: Vec<Handle> = self
            .loops
            .iter()
            .map(|(handle, _)| handle.clone())
            .collect();
        for (_, thread) in self.loops {
            match thread.join() {
                Ok(Ok(statistics)) => total = total.and(statistics),
                Ok(Err(error)) => {
                    failure.get_or_insert(error);
                    handles.iter().for_each(Handle::stop);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        drop(self.sockets);
        match failure {
            Some(error) => Err(error.into()),
            None => Ok(total),
        }
    }
}

/// The address with its port, which nobody has: sockets that share a port would share it with a
/// stranger's, too.
fn free_address(address: SocketAddr, options: &ServiceOptions) -> Result<SocketAddr, ServiceError> {
    bind(address, options, false).map(|socket| socket.local_address())
}

fn bind(
    address: SocketAddr,
    options: &ServiceOptions,
    shared: bool,
) -> Result<UdpSocket, ServiceError> {
    let udp = UdpOptions {
        reuse_port: shared,
        packet_info: address.ip().is_unspecified(),
        ..options.sockets.options()
    };
    UdpSocket::bind(address, &udp).map_err(|error| ServiceError::Listen {
        address,
        error: io::Error::other(error),
    })
}
