//! Addresses that reliably refuse connections.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

/// A loopback port that refuses every client, by TCP and UDP. No other process can get the port while this value
/// exists. A port that was free a moment ago may belong to another process when a test uses it.
pub struct ClosedPort {
    /// The address on which no process listens.
    pub address: SocketAddr,
    _sockets: (OwnedFd, UdpSocket),
}

impl ClosedPort {
    /// Reserves a port.
    pub fn new() -> ClosedPort {
        loop {
            // This socket is bound but does not listen.
            let tcp = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            bind(&tcp, &SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)).unwrap();
            let address = SocketAddr::try_from(getsockname(&tcp).unwrap()).unwrap();
            // This socket is connected to another port, so it receives only from that port.
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
