//! UDP sockets for QUIC: many datagrams per call, each with its ECN codepoint and its destination address.
//!
//! The kernel's fixed CPU time per datagram is about as large as the CPU time for its contents. Therefore calls that handle
//! several datagrams at once determine the CPU time of QUIC. They are factors of experiments, and can be switched off:
//!
//! - *segmentation offload* (`UDP_SEGMENT`, GSO): one call sends a contiguous series of datagrams of equal length; the
//!   last may be shorter. Without this offload, each datagram needs its own call.
//! - *receive offload* (`UDP_GRO`): a call receives a contiguous series of datagrams of one sender that arrived together.
//!   Without this offload, each datagram is in its own buffer.
//!
//! Receiving always uses `recvmmsg`. It also reports the number of datagrams that the kernel has dropped because the
//! socket's buffer was full: a loss that the path did not cause.
//!
//! A socket stays in the namespace of the thread that creates it, and never blocks. A failure that concerns one datagram
//! is reported as a loss ([`Sent::Lost`]) and not as an error, because a network may lose datagrams too. The protocol
//! above UDP decides how to react.

mod address;
mod batches;
mod control;
mod receive;
mod send;
#[cfg(test)]
mod tests;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Doing, Result, check};
use crate::socket::{get, set};

pub use batches::Batches;
pub use receive::{ReceiveBuffer, Received};
pub use send::{Datagrams, Loss, Sent};

/// The largest number of datagrams that the kernel accepts in one call with segmentation offload (`UDP_MAX_SEGMENTS`
/// before Linux 6.9; later kernels accept twice as many).
const MOST_SEGMENTS: usize = 64;

/// The ECN codepoint in the IP header (RFC 3168).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not capable of ECN.
    #[default]
    NotCapable,
    /// ECT(0): capable.
    Capable0,
    /// ECT(1): capable.
    Capable1,
    /// CE: congestion was experienced.
    Congestion,
}

impl Ecn {
    /// Returns the two bits.
    pub const fn bits(self) -> u8 {
        match self {
            Ecn::NotCapable => 0b00,
            Ecn::Capable1 => 0b01,
            Ecn::Capable0 => 0b10,
            Ecn::Congestion => 0b11,
        }
    }

    /// Returns the codepoint in the two lowest bits of a byte (type of service, traffic class).
    pub const fn from_bits(byte: u8) -> Ecn {
        match byte & 0b11 {
            0b00 => Ecn::NotCapable,
            0b01 => Ecn::Capable1,
            0b10 => Ecn::Capable0,
            _ => Ecn::Congestion,
        }
    }
}

/// Options set on a UDP socket before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpOptions {
    /// Whether to send with segmentation offload (GSO), if the kernel supports it.
    pub segmentation: bool,
    /// Whether to receive with receive offload (GRO), if the kernel supports it.
    pub coalescing: bool,
    /// Whether to send and receive ECN codepoints.
    pub ecn: bool,
    /// Whether to receive the destination address of each datagram (`IP_PKTINFO`). A socket that is bound to an
    /// unspecified address needs it, to answer from the same address.
    pub packet_info: bool,
    /// Whether datagrams are sent with DF (`IP_PMTUDISC_PROBE`), as path MTU discovery requires. Datagrams larger than the
    /// link's MTU are then rejected instead of fragmented.
    pub dont_fragment: bool,
    /// Whether several sockets may share the port (`SO_REUSEPORT`). The kernel then distributes datagrams by a hash of
    /// addresses and ports. The distribution is stable until a socket with this option is added or removed.
    pub reuse_port: bool,
    /// `SO_RCVBUF`, in bytes, before the kernel doubles it. It may exceed `net.core.rmem_max` if this process has
    /// `CAP_NET_ADMIN`. `None` leaves the kernel's default, which has room for about 100 small datagrams.
    pub receive_buffer_bytes: Option<u32>,
    /// `SO_SNDBUF`, in bytes, with the same rules (`net.core.wmem_max`).
    pub send_buffer_bytes: Option<u32>,
}

/// The default: all offloads, ECN and DF on; destination addresses not received; buffers of the kernel's default size.
impl Default for UdpOptions {
    fn default() -> UdpOptions {
        UdpOptions {
            segmentation: true,
            coalescing: true,
            ecn: true,
            packet_info: false,
            dont_fragment: true,
            reuse_port: false,
            receive_buffer_bytes: None,
            send_buffer_bytes: None,
        }
    }
}

/// A UDP socket.
#[derive(Debug)]
pub struct UdpSocket {
    socket: OwnedFd,
    local: SocketAddr,
    connected: bool,
    /// Whether segmentation offload is used; cleared permanently when a device does not support it.
    segmentation: AtomicBool,
    coalescing: bool,
    ecn: bool,
    dont_fragment: bool,
}

impl UdpSocket {
    /// Creates a socket that receives on an address, in the calling thread's namespace. Port 0 selects a free port. A
    /// socket on an IPv6 address receives only IPv6 datagrams.
    pub fn bind(address: SocketAddr, options: &UdpOptions) -> Result<UdpSocket> {
        let socket = open(address).doing("open a socket")?;
        let (segmentation, coalescing, dont_fragment) = prepare(&socket, address, options)?;
        rustix::net::bind(&socket, &address).map_err(|error| match error {
            rustix::io::Errno::ADDRINUSE => crate::Error::PortTaken { address },
            error => crate::Error::System {
                doing: format!("bind to {address}"),
                source: error.into(),
            },
        })?;
        let local = local_address(&socket).doing("read the address of a socket")?;
        Ok(UdpSocket {
            socket,
            local,
            connected: false,
            segmentation: AtomicBool::new(segmentation),
            coalescing,
            ecn: options.ecn,
            dont_fragment,
        })
    }

    /// Lets other sockets of this user with [`reuse_port`](UdpOptions::reuse_port) bind to this socket's address. Bind the
    /// first socket without that option: then no other program shares its port.
    pub fn share_port(&self) -> Result<()> {
        set(&self.socket, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1).doing("set SO_REUSEPORT")
    }

    /// Creates a socket for one peer. It receives only from that peer, reports if no program listens at the peer's port,
    /// and takes less CPU time to send. `source` sets the local address and, unless it is 0, the local port.
    ///
    /// A failure (no route, no free port) is returned as the kernel reports it, for
    /// [`classify`](crate::socket::classify).
    pub fn connect(
        peer: SocketAddr,
        source: Option<SocketAddr>,
        options: &UdpOptions,
    ) -> io::Result<UdpSocket> {
        let plain = |error: crate::Error| match error.errno() {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => io::Error::other(error),
        };
        let socket = open(peer)?;
        let (segmentation, coalescing, dont_fragment) =
            prepare(&socket, peer, options).map_err(plain)?;
        if let Some(source) = source {
            rustix::net::bind(&socket, &source)?;
        }
        rustix::net::connect(&socket, &peer)?;
        let local = local_address(&socket)?;
        Ok(UdpSocket {
            socket,
            local,
            connected: true,
            segmentation: AtomicBool::new(segmentation),
            coalescing,
            ecn: options.ecn,
            dont_fragment,
        })
    }

    /// Returns the address and port on which the socket receives.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Returns the largest number of datagrams per send call: 1 without segmentation offload.
    pub fn segments(&self) -> usize {
        if self.segmentation.load(Ordering::Relaxed) {
            MOST_SEGMENTS
        } else {
            1
        }
    }

    /// Whether one buffer receives several datagrams that arrive together.
    pub fn coalesces(&self) -> bool {
        self.coalescing
    }

    /// Whether datagrams are never fragmented.
    pub fn is_unfragmented(&self) -> bool {
        self.dont_fragment
    }

    /// Returns the receive and the send buffer as the kernel accounts them, in bytes: twice the values set by the options.
    pub fn buffers(&self) -> io::Result<(u32, u32)> {
        crate::socket::buffers(self)
    }

    /// Returns a duplicate of the descriptor, to keep the socket open.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    /// Returns and clears the pending error of the socket, for example if no program listens at the peer's port.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        let errno = get(self, libc::SOL_SOCKET, libc::SO_ERROR)?;
        Ok((errno != 0).then(|| io::Error::from_raw_os_error(errno)))
    }
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for UdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

fn open(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => libc::AF_INET,
        SocketAddr::V6(_) => libc::AF_INET6,
    };
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers; the descriptor is owned from here on.
    unsafe {
        let fd = check(libc::socket(family, kind, libc::IPPROTO_UDP))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Sets the options. Returns whether segmentation, coalescing and DF are available.
fn prepare(
    socket: &OwnedFd,
    address: SocketAddr,
    options: &UdpOptions,
) -> Result<(bool, bool, bool)> {
    let yes = |level, option, name: &str| {
        set(socket, level, option, 1).doing(format!("set {name} on a UDP socket"))
    };
    if options.reuse_port {
        yes(libc::SOL_SOCKET, libc::SO_REUSEPORT, "SO_REUSEPORT")?;
    }
    yes(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, "SO_RXQ_OVFL")?;
    let discover = libc::IP_PMTUDISC_PROBE;
    let mut dont_fragment = options.dont_fragment;
    if address.is_ipv4() {
        if options.ecn {
            yes(libc::IPPROTO_IP, libc::IP_RECVTOS, "IP_RECVTOS")?;
        }
        if options.packet_info {
            yes(libc::IPPROTO_IP, libc::IP_PKTINFO, "IP_PKTINFO")?;
        }
        if options.dont_fragment {
            dont_fragment &= set(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, discover).is_ok();
        }
    } else {
        yes(libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, "IPV6_V6ONLY")?;
        if options.ecn {
            yes(libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, "IPV6_RECVTCLASS")?;
        }
        if options.packet_info {
            yes(
                libc::IPPROTO_IPV6,
                libc::IPV6_RECVPKTINFO,
                "IPV6_RECVPKTINFO",
            )?;
        }
        if options.dont_fragment {
            let (level, option) = (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER);
            dont_fragment &= set(socket, level, option, discover).is_ok()
                && set(socket, level, libc::IPV6_DONTFRAG, 1).is_ok();
        }
    }
    let buffers = [
        (
            libc::SO_RCVBUFFORCE,
            libc::SO_RCVBUF,
            options.receive_buffer_bytes,
        ),
        (
            libc::SO_SNDBUFFORCE,
            libc::SO_SNDBUF,
            options.send_buffer_bytes,
        ),
    ];
    for (force, option, value) in buffers {
        let Some(value) = value else { continue };
        let value = i32::try_from(value).unwrap_or(i32::MAX);
        if set(socket, libc::SOL_SOCKET, force, value).is_err() {
            set(socket, libc::SOL_SOCKET, option, value)
                .doing(format!("set the buffers of a UDP socket to {value}"))?;
        }
    }
    // Detects the option: a kernel without it returns an error, and the value 0 changes nothing.
    let segmentation =
        options.segmentation && set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
    let coalescing = options.coalescing && set(socket, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
    Ok((segmentation, coalescing, dont_fragment))
}

fn local_address(socket: &OwnedFd) -> io::Result<SocketAddr> {
    let address = rustix::net::getsockname(socket)?;
    SocketAddr::try_from(address).map_err(Into::into)
}
