//! Several loops on one port, each on a thread of its own.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use fathometer_http::origin::Origin;
use fathometer_sys::{Clock, sched};

use super::{
    LogFile, OriginHandle, OriginLoop, OriginSockets, OriginStatistics, Protocols, listen,
};

/// How a service is set up.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// Where it listens; port 0 takes a free one.
    pub addresses: Vec<SocketAddr>,
    /// What its sockets are given.
    pub sockets: OriginSockets,
    /// Whether each loop keeps to one processor.
    pub pinned: bool,
    /// Connections that may be open at a time in all loops.
    pub most_open: usize,
    /// With so many connections open in all loops, others are reset.
    pub shed_above: Option<usize>,
    /// The access log.
    pub log: Option<Arc<LogFile>>,
}

/// Why a service does not start, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The address.
    #[error("{address}: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// Anything else.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Loops at work.
#[derive(Debug)]
pub struct Service {
    addresses: Vec<SocketAddr>,
    loops: Vec<(OriginHandle, JoinHandle<io::Result<OriginStatistics>>)>,
}

impl Service {
    /// Starts a loop for each of the origins, which may be one and the same. With several loops the
    /// kernel deals connections out among them (SO_REUSEPORT), in no particular order.
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
        for &address in &options.addresses {
            let failed = |error| ServiceError::Listen { address, error };
            // Alone at first: sockets that share a port would share it with a stranger's, too.
            let alone = listen(address, options.sockets, false).map_err(failed)?;
            addresses.push(alone.local_addr()?);
        }
        let processors = sched::processors().map_err(io::Error::other)?;
        let mut loops = Vec::with_capacity(origins.len());
        for origin in origins {
            let mut listeners = Vec::with_capacity(addresses.len());
            for &address in &addresses {
                let failed = |error| ServiceError::Listen { address, error };
                listeners.push(listen(address, options.sockets, shared).map_err(failed)?);
            }
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
        // They start when all of them listen: a failure above leaves nothing behind.
        let loops = loops
            .into_iter()
            .enumerate()
            .map(|(n, one)| {
                let handle = one.handle();
                let processor = options
                    .pinned
                    .then(|| processors[n % processors.len().max(1)]);
                let thread = std::thread::Builder::new()
                    .name(format!("origin {n}"))
                    .spawn(move || {
                        if let Some(processor) = processor {
                            sched::pin(processor).map_err(io::Error::other)?;
                        }
                        one.run()
                    })?;
                Ok((handle, thread))
            })
            .collect::<io::Result<Vec<_>>>()?;
        Ok(Service { addresses, loops })
    }

    /// Where it listens.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Accepts no more, answers what is under way, and resets what is open after `within`.
    pub fn drain(&self, within: Duration) {
        for (handle, _) in &self.loops {
            handle.drain(within);
        }
    }

    /// Whether a loop has ended.
    pub fn has_ended(&self) -> bool {
        self.loops.iter().any(|(_, thread)| thread.is_finished())
    }

    /// Waits for all loops to end, and tells what they did. Where one ended by a failure, the others
    /// are stopped.
    pub fn join(self) -> Result<OriginStatistics, ServiceError> {
        let mut total = OriginStatistics::default();
        let mut failure = None;
        let handles: Vec<OriginHandle> = self
            .loops
            .iter()
            .map(|(handle, _)| handle.clone())
            .collect();
        for (_, thread) in self.loops {
            match thread.join() {
                Ok(Ok(statistics)) => total = total.and(statistics),
                Ok(Err(error)) => {
                    failure.get_or_insert(error);
                    handles.iter().for_each(OriginHandle::stop);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        match failure {
            Some(error) => Err(error.into()),
            None => Ok(total),
        }
    }
}
