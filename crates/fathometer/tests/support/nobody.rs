//! Addresses at which nobody listens, for certain.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

/// A port of loopback that refuses whoever comes, by TCP and by UDP, and that nobody else is given while
/// this lives. One that was free a moment ago may be somebody's by the time it is asked for.
pub struct Nobody {
    /// Where nobody listens.
    pub address: SocketAddr,
    _sockets: (OwnedFd, UdpSocket),
}

impl Nobody {
    /// Takes a port.
    pub fn new() -> Nobody {
        loop {
            // Bound, and not listening.
            let tcp = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            bind(&tcp, &SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)).unwrap();
            let address = SocketAddr::try_from(getsockname(&tcp).unwrap()).unwrap();
            // Connected elsewhere, it hears nobody else.
            let Ok(udp) = UdpSocket::bind(address) else {
                continue;
            };
            udp.connect((Ipv4Addr::LOCALHOST, 9)).unwrap();
            return Nobody {
                address,
                _sockets: (tcp, udp),
            };
        }
    }
}
