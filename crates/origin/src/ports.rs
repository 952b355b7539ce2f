//! Ports that are free for TCP and UDP.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};

/// Number of attempts to find a port that is free for both TCP and UDP.
const TRIES: usize = 16;

/// No port of an address is free for both TCP and UDP.
#[derive(Debug, thiserror::Error)]
#[error("no free port on {address} for both TCP and UDP: {error}")]
pub struct NoPort {
    address: IpAddr,
    error: io::Error,
}

/// Replaces each port 0 by a port that is free for TCP and UDP. Another program may take the port before this
/// program listens on it; listening then fails with an error.
///
/// # Errors
/// If an address has no free port.
pub fn resolved(addresses: &[SocketAddr]) -> Result<Vec<SocketAddr>, NoPort> {
    let resolved = addresses.iter().map(|address| match address.port() {
        0 => free(*address).map_err(|error| NoPort {
            address: address.ip(),
            error,
        }),
        _ => Ok(*address),
    });
    resolved.collect()
}

fn free(address: SocketAddr) -> io::Result<SocketAddr> {
    for _ in 0..TRIES {
        let tcp = TcpListener::bind(address)?;
        let found = tcp.local_addr()?;
        if UdpSocket::bind(found).is_ok() {
            return Ok(found);
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}
