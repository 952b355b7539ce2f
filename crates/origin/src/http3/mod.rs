//! Serves an origin over HTTP/3.
//!
//! A [`Service`] consists of several event loops on one port, each with its own thread and its own socket
//! (SO_REUSEPORT). The loops share no connections: the kernel distributes datagrams by the hash of both
//! addresses and ports. So all datagrams of a connection reach the same loop, as long as the client's address
//! and the set of sockets on the port do not change. Therefore, with several loops, clients cannot migrate to
//! another address, all sockets exist before the first loop runs, and none is closed before the last loop has
//! finished. With one loop, clients may migrate.

mod connection;
mod delivery;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use fathometer_http::h2;
use fathometer_http::h3::server::ServerConfig;
use fathometer_http::origin::Origin;
use fathometer_http::protocol::Protocol;
use fathometer_http::waiting::{MAX_UNSENT_PER_RESPONSE, MOST_WAITING};
use fathometer_model::{Bytes, Seed};
use fathometer_quic::{
    Endpoint, HalfOpen, QlogWriter, ServerSettings, SharedLimit, TransportSettings, Waiting,
};
use fathometer_sys::usage::ThreadClock;
use fathometer_sys::{Clock, UdpOptions, UdpSocket};

pub use self::worker::Handle;
use self::worker::Worker;
use crate::loops::Loops;
use crate::{ConnectionLimit, LogFile, OriginStatistics};
use fathometer_quic_sockets::{SettingsError, Sockets};

/// Returns the transport settings of a public server: the data that clients may send before the server reads it is
/// bounded, as in HTTP/2. Without a limit per connection, a client that leaves a gap in each of a hundred streams could
/// make the server keep all data after the gaps.
pub fn guarded_transport() -> TransportSettings {
    let windows = h2::server::ReceiveWindows::default();
    TransportSettings {
        stream_window: Bytes(windows.stream.into()),
        connection_window: Some(Bytes(windows.connection.into())),
        ..TransportSettings::default()
    }
}

/// The options of a service.
#[derive(Clone)]
pub struct ServiceOptions {
    /// The addresses to receive on; port 0 selects a free port.
    pub addresses: Vec<SocketAddr>,
    /// TLS settings. The protocol (ALPN) is always `h3`, regardless of the TLS settings. The loops share the session
    /// tickets.
    pub tls: Arc<fathometer_tls::ServerSettings>,
    /// The transport settings of all connections.
    pub transport: TransportSettings,
    /// The options of the sockets.
    pub sockets: Sockets,
    /// Whether a client must prove ownership of its address before the server does any work for it (Retry);
    /// this takes a round trip.
    pub validates_addresses: bool,
    /// Whether each loop is pinned to one processor.
    pub pinned: bool,
    /// The maximum number of open connections, over all loops; further connections are refused. Each loop gets an equal
    /// share.
    pub most_open: usize,
    /// The access log.
    pub log: Option<Arc<LogFile>>,
    /// The seed of connection identifiers and other random values.
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

/// The reason why a service did not start or failed.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The service cannot receive on an address.
    #[error("{address} (UDP): {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// The settings are invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Any other error.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Running loops.
#[derive(Debug)]
pub struct Service {
    addresses: Vec<SocketAddr>,
    loops: Loops<Handle>,
    /// The sockets, which stay open until all loops have finished. Closing a socket would change the kernel's
    /// distribution of datagrams.
    sockets: Vec<OwnedFd>,
}

impl Service {
    /// Starts a loop for each of `origins`, which may all be the same origin. `qlog` is called for each loop
    /// and address; `None` disables the qlog.
    pub fn start(
        options: &ServiceOptions,
        origins: Vec<Arc<Origin>>,
        config: &Arc<ServerConfig>,
        clock: Clock,
        qlog: impl FnMut() -> Option<QlogWriter>,
    ) -> Result<Service, ServiceError> {
        Service::start_within(options, None, origins, config, clock, qlog)
    }

    /// Like [`start`](Self::start). A `limit` that is shared with other services replaces the loops' shares of
    /// [`most_open`](ServiceOptions::most_open).
    pub fn start_within(
        options: &ServiceOptions,
        limit: Option<&Arc<ConnectionLimit>>,
        origins: Vec<Arc<Origin>>,
        config: &Arc<ServerConfig>,
        clock: Clock,
        mut qlog: impl FnMut() -> Option<QlogWriter>,
    ) -> Result<Service, ServiceError> {
        let tls = options
            .tls
            .quic_config(&[Protocol::Http3.alpn().as_bytes()])
            .map_err(SettingsError::from)?;
        // Events report the served responses; request text is needed only for the log.
        let config = Arc::new(ServerConfig {
            events: true,
            request_text: options.log.is_some(),
            ..(**config).clone()
        });
        let count = origins.len().max(1);
        let shared = count > 1;
        // The sockets of the first loop are bound without SO_REUSEPORT, which might share the port with another
        // program. They stay open, so that no program takes the port before the other loops bind it.
        let mut first = Vec::new();
        for &address in &options.addresses {
            let socket = bind(address, options, false)?;
            if shared {
                socket.share_port().map_err(io::Error::other)?;
            }
            first.push(socket);
        }
        let addresses: Vec<_> = first.iter().map(UdpSocket::local_address).collect();
        let mut first = first.into_iter();
        let mut kept = Vec::new();
        let mut workers = Vec::with_capacity(count);
        for (n, origin) in origins.into_iter().enumerate() {
            let mut worker = Worker::new(origin, Arc::clone(&config), options, limit, clock)?;
            for (m, &address) in addresses.iter().enumerate() {
                let socket = match first.next() {
                    Some(socket) => socket,
                    None => bind(address, options, true)?,
                };
                kept.push(socket.duplicate()?);
                let settings = ServerSettings {
                    tls: Arc::clone(&tls),
                    transport: options.transport,
                    validates_addresses: options.validates_addresses,
                    migration: !shared,
                    most_connections: match limit {
                        Some(_) => usize::MAX,
                        None => (options.most_open / count / addresses.len()).max(1),
                    },
                    half_open: HalfOpen::default(),
                    waiting: Waiting {
                        each: MAX_UNSENT_PER_RESPONSE,
                        all: Bytes(MOST_WAITING.0 / (count * addresses.len()) as u64),
                    },
                    qlog: qlog(),
                };
                let seed = options.seed.child(n as u64).child(m as u64);
                let mut endpoint = Endpoint::server(settings, socket.is_unfragmented(), seed)
                    .map_err(SettingsError::from)?;
                if let Some(limit) = limit {
                    endpoint.share_limit(Arc::clone(limit) as Arc<dyn SharedLimit>);
                }
                worker.add(socket, endpoint)?;
            }
            workers.push(worker);
        }
        // The loops start only after all sockets exist, so that a failure above leaves no thread running.
        let loops = workers
            .into_iter()
            .map(|worker| (worker.handle(), move || worker.run()));
        let loops = Loops::start(loops, "origin h3", options.pinned)?;
        Ok(Service {
            addresses,
            loops,
            sockets: kept,
        })
    }

    /// The addresses on which the service receives.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The number of responses that were completely handed to QUIC so far.
    pub fn responses(&self) -> u64 {
        self.loops.handles().map(Handle::responses).sum()
    }

    /// The CPU clocks of the threads.
    pub fn threads(&self) -> Vec<ThreadClock> {
        self.loops.clocks()
    }

    /// The number of datagrams that the kernel has discarded so far because the loops did not read them in
    /// time; the path did not cause these losses.
    pub fn overflowed(&self) -> u64 {
        self.loops.handles().map(Handle::overflowed).sum()
    }

    /// Accepts no more connections, responds to requests in flight, and closes connections that are still open
    /// after `within`.
    pub fn drain(&self, within: Duration) {
        for handle in self.loops.handles() {
            handle.drain(within);
        }
    }

    /// Closes all connections.
    pub fn stop(&self) {
        self.loops.handles().for_each(Handle::stop);
    }

    /// Whether a loop has finished.
    pub fn has_ended(&self) -> bool {
        self.loops.has_ended()
    }

    /// Waits for all loops to finish, and returns their statistics. If a loop fails, the other loops are stopped.
    pub fn join(self) -> Result<OriginStatistics, ServiceError> {
        let statistics = self.loops.join(Handle::stop);
        drop(self.sockets);
        Ok(statistics?)
    }
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
