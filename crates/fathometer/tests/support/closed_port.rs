//! Addresses that reliably refuse connections.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

/// A loopback port that refuses every client, by TCP and UDP, and that no other process can get while this
/// value exists. A port that was free a moment ago may belong to another process when a test uses it.
pub struct ClosedPort {
    /// The address on which no process listens.
    pub address: SocketAddr,
    _sockets: (OwnedFd, UdpSocket),
}

impl ClosedPort {
    /// Reserves a port.
    pub fn new() -> ClosedPort {
        loop {
            // Bound, but not listening.
            let tcp = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            bind(&tcp, &SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)).unwrap();
            let address = SocketAddr::try_from(getsockname(&tcp).unwrap()).unwrap();
            // Connected to another port, so it receives from no other peer.
            let Ok(udp) = UdpSocket::bind(address) else {
                continue;
            };
            udp.connect((Ipv4Addr::LOCALHOST, 9)).unwrap();
            return ClosedPort {
                address,
                _sockets: (tcp, udp),
            };
        }
    }
}
