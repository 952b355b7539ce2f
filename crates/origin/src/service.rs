//! Several loops on one port, each on a thread of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fathometer_http::origin::Origin;
use fathometer_sys::{Clock, socket};

use super::loops::Loops;
use super::{
    LogFile, OriginHandle, OriginLoop, OriginSockets, OriginStatistics, Protocols, listen,
};

/// The options of a service.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// The addresses to listen on; port 0 selects a free port.
    pub addresses: Vec<SocketAddr>,
    /// The options of the sockets.
    pub sockets: OriginSockets,
    /// Whether each loop is pinned to one processor.
    pub pinned: bool,
    /// The maximum number of open connections, over all loops.
    pub most_open: usize,
    /// New connections are reset while this many connections are open, over all loops.
    pub shed_above: Option<usize>,
    /// The access log.
    pub log: Option<Arc<LogFile>>,
}

/// Why a service did not start, or why it failed.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The service cannot listen on an address.
    #[error("{address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// Any other error.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Running loops.
#[derive(Debug)]
pub struct Service {
    addresses: Vec<SocketAddr>,
    loops: Loops<OriginHandle>,
}

impl Service {
    /// Starts a loop for each of `origins`, which may all be the same origin. The kernel distributes
    /// connections over the loops (SO_REUSEPORT) in no particular order.
    pub fn start(
        options: &ServiceOptions,
        origins: Vec<Arc<Origin>>,
        protocols: &Protocols,
        clock: Clock,
    ) -> Result<Service, ServiceError> {
        let shared = origins.len() > 1;
        let count = origins.len().max(1);
        let most_open = options.most_open / count;
        let mut addresses = Vec::new();
        // The listeners of the first loop are bound without SO_REUSEPORT, which might share the port with
        // another program. They stay open, so that no program takes the port before the other loops listen.
        let mut first = Vec::new();
        for &address in &options.addresses {
            let failed = |error| ServiceError::Listen { address, error };
            let listener = listen(address, options.sockets, false).map_err(failed)?;
            if shared {
                socket::share_port(&listener).map_err(io::Error::other)?;
            }
            addresses.push(listener.local_addr()?);
            first.push(listener);
        }
        let mut first = Some(first);
        let mut loops = Vec::with_capacity(origins.len());
        for origin in origins {
            let listeners = match first.take() {
                Some(listeners) => listeners,
                None => addresses
                    .iter()
                    .map(|&address| {
                        listen(address, options.sockets, true)
                            .map_err(|error| ServiceError::Listen { address, error })
                    })
                    .collect::<Result<Vec<_>, _>>()?,
            };
            let mut one = OriginLoop::with_listeners(listeners, origin, protocols.clone(), clock)?
                .with_most_open(most_open);
            if let Some(most) = options.shed_above {
                one = one.shedding_above(most.div_ceil(count));
            }
            if let Some(log) = &options.log {
                one = one.with_log(Arc::clone(log));
            }
            loops.push(one);
        }
        // The loops start only after all of them listen, so that a failure above leaves no thread running.
        let loops = loops
            .into_iter()
            .map(|one| (one.handle(), move || one.run()));
        let loops = Loops::start(loops, "origin", options.pinned)?;
        Ok(Service { addresses, loops })
    }

    /// The addresses on which the service listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Accepts no more connections, responds to requests in flight, and resets connections that are still open
    /// after `within`.
    pub fn drain(&self, within: Duration) {
        for handle in self.loops.handles() {
            handle.drain(within);
        }
    }

    /// Whether a loop has finished.
    pub fn has_ended(&self) -> bool {
        self.loops.has_ended()
    }

    /// Waits for all loops to finish, and returns their statistics. If a loop fails, the others are stopped.
    pub fn join(self) -> Result<OriginStatistics, ServiceError> {
        Ok(self.loops.join(OriginHandle::stop)?)
    }
}
