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
    /// The addresses to listen on; port 0 takes a free one.
    pub addresses: Vec<SocketAddr>,
    /// The options of its sockets.
    pub sockets: OriginSockets,
    /// Whether each loop is pinned to one processor.
    pub pinned: bool,
    /// The most connections that may be open at a time, in all loops together.
    pub most_open: usize,
    /// While this many connections are open in all loops together, new ones are reset.
    pub shed_above: Option<usize>,
    /// The access log.
    pub log: Option<Arc<LogFile>>,
}

/// Why a service does not start, or failed.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// An address that cannot be listened on.
    #[error("{address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// Anything else.
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
    /// Starts a loop for each of the origins, which may be one and the same. With several loops the kernel
    /// distributes connections over them (SO_REUSEPORT), in no particular order.
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
        // The first loop's listeners are bound without SO_REUSEPORT: with it the port might be shared with another
        // program. They stay open, so that no program takes the port before the other loops listen.
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
        // The loops start after all of them listen: a failure above leaves no thread running.
        let loops = loops
            .into_iter()
            .map(|one| (one.handle(), move || one.run()));
        let loops = Loops::start(loops, "origin", options.pinned)?;
        Ok(Service { addresses, loops })
    }

    /// The addresses that it listens on.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Accepts no more connections, answers requests in flight, and resets connections that are open after
    /// `within`.
    pub fn drain(&self, within: Duration) {
        for handle in self.loops.handles() {
            handle.drain(within);
        }
    }

    /// Whether a loop has ended.
    pub fn has_ended(&self) -> bool {
        self.loops.has_ended()
    }

    /// Waits for all loops to end, and returns their statistics. If one fails, the others are stopped.
    pub fn join(self) -> Result<OriginStatistics, ServiceError> {
        Ok(self.loops.join(OriginHandle::stop)?)
    }
}
