//! Ports for servers that are given a port number and bind it some time later.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;
use std::sync::atomic::{AtomicU16, Ordering};

/// Ports below the ephemeral ports of Linux (32 768 and up by default), so that no connection of another test can take
/// the port before the server binds it.
const PORTS: Range<u16> = 10_240..32_000;

static TAKEN: AtomicU16 = AtomicU16::new(0);

/// Returns a loopback address whose port is free for TCP and UDP. Each call in a process returns another port, and
/// processes begin at different ports.
pub fn free_address() -> SocketAddr {
    let first = std::process::id().wrapping_mul(101);
    for _ in PORTS {
        let number = first.wrapping_add(TAKEN.fetch_add(1, Ordering::Relaxed).into());
        let offset = number % u32::from(PORTS.end - PORTS.start);
        let port = PORTS.start + u16::try_from(offset).expect("less than the number of ports");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no port of {PORTS:?} is free");
}
