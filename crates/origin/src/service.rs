//! Runs several loops on one port, each on its own thread.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fathometer_http::origin::Origin;
use fathometer_sys::{Clock, socket};

use super::loops::Loops;
use super::{
    ConnectionLimit, LogFile, OriginHandle, OriginLoop, OriginSockets, OriginStatistics, Protocols,
    listen,
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
    /// The maximum number of open connections, over all loops. Each loop gets an equal share.
    pub most_open: usize,
    /// A limit that all loops share, instead of their shares of `most_open`.
    pub limit: Option<Arc<ConnectionLimit>>,
    /// The access log.
    pub log: Option<Arc<LogFile>>,
}

/// The reason why a service did not start or failed.
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
            let one = OriginLoop::with_listeners(listeners, origin, protocols.clone(), clock)?;
            let mut one = match &options.limit {
                Some(limit) => one.with_limit(Arc::clone(limit)),
                None => one.with_most_open(most_open),
            };
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

    /// Waits for all loops to finish, and returns their statistics. If a loop fails, the other loops are stopped.
    pub fn join(self) -> Result<OriginStatistics, ServiceError> {
        Ok(self.loops.join(OriginHandle::stop)?)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Shutdown, TcpStream};

    use fathometer_http::h1::server::ServerConfig;
    use fathometer_http::origin::OriginConfig;

    use super::*;
    use crate::folder::{Bounds, FolderStore};

    /// Creates a service of two loops that share a limit, and its address.
    fn limited(limit: ConnectionLimit) -> (Service, SocketAddr) {
        let folder = tempfile::tempdir().unwrap();
        let origins = (0..2).map(|_| {
            let bounds = Bounds {
                bytes: 1 << 20,
                descriptors: 8,
            };
            let store = FolderStore::open(folder.path(), bounds).unwrap();
            Arc::new(Origin::of_store(Box::new(store), OriginConfig::default()).unwrap())
        });
        let options = ServiceOptions {
            addresses: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            sockets: OriginSockets {
                nodelay: true,
                quick_ack: None,
                backlog: None,
            },
            pinned: false,
            most_open: 1000,
            limit: Some(Arc::new(limit)),
            log: None,
        };
        let protocols = Protocols::from(Arc::new(ServerConfig::default()));
        let service =
            Service::start(&options, origins.collect(), &protocols, Clock::start()).unwrap();
        let address = service.addresses()[0];
        (service, address)
    }

    /// Connects and sends a request.
    fn ask(address: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        // Fails if the server has reset the connection, which `status` shows.
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        stream
    }

    /// Reads the first bytes of the response.
    fn status(stream: &mut TcpStream) -> io::Result<[u8; 12]> {
        let mut first = [0; 12];
        stream.read_exact(&mut first)?;
        Ok(first)
    }

    #[test]
    fn as_many_connections_are_served_as_the_limit_permits_on_whichever_loop_they_are() {
        let (service, address) = limited(ConnectionLimit::new(1000, Some(40)));
        let mut open: Vec<TcpStream> = (0..40).map(|_| ask(address)).collect();
        for stream in &mut open {
            assert_eq!(&status(stream).unwrap(), b"HTTP/1.1 404");
        }
        for _ in 0..10 {
            assert!(status(&mut ask(address)).is_err(), "it is not reset");
        }
        drop(open);
        service.drain(Duration::from_secs(10));
        assert_eq!(service.join().unwrap().shed, 10);
    }

    #[test]
    fn a_waiting_connection_is_served_when_one_of_any_loop_is_closed() {
        let (service, address) = limited(ConnectionLimit::new(8, None));
        let mut open: Vec<TcpStream> = (0..8).map(|_| ask(address)).collect();
        for stream in &mut open {
            status(stream).unwrap();
        }
        let mut waiting: Vec<TcpStream> = (0..8).map(|_| ask(address)).collect();
        for stream in &open {
            stream.shutdown(Shutdown::Both).unwrap();
        }
        for stream in &mut waiting {
            assert_eq!(&status(stream).unwrap(), b"HTTP/1.1 404");
        }
        drop((open, waiting));
        service.drain(Duration::from_secs(10));
        assert_eq!(service.join().unwrap().connections, 16);
    }
}
