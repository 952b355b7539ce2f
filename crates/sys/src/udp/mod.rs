//! UDP sockets as QUIC wants them: many datagrams a call, each with its ECN codepoint and the address
//! it was sent to.
//!
//! A datagram costs the kernel about as much as its contents do, so the calls that handle several at
//! once decide what QUIC costs. They are factors of experiments here and not a matter of course:
//!
//! - *segmentation offload* (`UDP_SEGMENT`, GSO): one call sends datagrams of one length that lie end
//!   to end, of which the last may be shorter. Without it each datagram is a call of its own.
//! - *receive offload* (`UDP_GRO`): a call receives datagrams of one sender that came together, end to
//!   end. Without it each lies in a buffer of its own.
//!
//! Receiving is always by `recvmmsg`, and tells how many datagrams the kernel has thrown away because
//! the socket's buffer was full: a loss that no path made.
//!
//! Sockets belong to the namespace of the thread that makes them and never block. Losing a datagram is
//! the network's right, so a send that fails for one datagram is told ([`Sent::Lost`]) and is not an
//! error; what the loss means is the business of the protocol above.

mod address;
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

pub use receive::{ReceiveBuffer, Received};
pub use send::{Datagrams, Loss, Sent};

/// Most datagrams that the kernel takes in one call with segmentation offload (`UDP_MAX_SEGMENTS` of
/// kernels before 6.9; later ones take twice as many).
pub const MOST_SEGMENTS: usize = 64;

/// An ECN codepoint as it stands in the IP header (RFC 3168).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not capable of ECN.
    #[default]
    NotCapable,
    /// ECT(0): capable.
    Capable0,
    /// ECT(1): capable.
    Capable1,
    /// CE: congestion was met.
    Congestion,
}

impl Ecn {
    /// The two bits.
    pub const fn bits(self) -> u8 {
        match self {
            Ecn::NotCapable => 0b00,
            Ecn::Capable1 => 0b01,
            Ecn::Capable0 => 0b10,
            Ecn::Congestion => 0b11,
        }
    }

    /// From the two lowest bits of an octet (type of service, traffic class).
    pub const fn from_bits(octet: u8) -> Ecn {
        match octet & 0b11 {
            0b00 => Ecn::NotCapable,
            0b01 => Ecn::Capable1,
            0b10 => Ecn::Capable0,
            _ => Ecn::Congestion,
        }
    }
}

/// What is set on a UDP socket before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpOptions {
    /// Whether datagrams are sent by segmentation offload (GSO) where the kernel has it.
    pub segmentation: bool,
    /// Whether datagrams are received by receive offload (GRO) where the kernel has it.
    pub coalescing: bool,
    /// Whether ECN codepoints are sent and received.
    pub ecn: bool,
    /// Whether the address that a datagram was sent to is received (`IP_PKTINFO`), which a socket on
    /// an unspecified address needs in order to answer from it.
    pub packet_info: bool,
    /// Whether datagrams carry DF and larger ones than the link takes are refused instead of
    /// fragmented (`IP_PMTUDISC_PROBE`): path MTU discovery needs it.
    pub dont_fragment: bool,
    /// Whether several sockets may have the port (`SO_REUSEPORT`). The kernel then deals datagrams
    /// out by the hash of addresses and ports, the same for as long as no such socket comes or goes.
    pub reuse_port: bool,
    /// `SO_RCVBUF`, in octets as the kernel accounts them before it doubles them; beyond
    /// `net.core.rmem_max` where this process has `CAP_NET_ADMIN`. `None` leaves the kernel's
    /// default, which holds about a hundred small datagrams.
    pub receive_buffer_bytes: Option<u32>,
    /// `SO_SNDBUF`, likewise (`net.core.wmem_max`).
    pub send_buffer_bytes: Option<u32>,
}

/// All offloads, ECN and DF on; addresses not received; buffers of the kernel's choosing.
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
    /// Cleared for good when a device turns out not to be able to.
    segmentation: AtomicBool,
    coalescing: bool,
    ecn: bool,
    dont_fragment: bool,
}

impl UdpSocket {
    /// A socket that receives on an address, in the calling thread's namespace. Port 0 takes a free
    /// one. An IPv6 address takes IPv6 alone.
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
        let local = local_address(&socket).doing("learn the address of a socket")?;
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

    /// A socket for one peer. It receives from nobody else, learns when nobody listens there, and
    /// sends more cheaply. With a `source`, that address and, unless zero, that port are used.
    ///
    /// A failure (no route, no port left) is returned as the kernel puts it, for
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

    /// The address and port it receives on.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Datagrams that one call sends: 1 without segmentation offload.
    pub fn segments(&self) -> usize {
        if self.segmentation.load(Ordering::Relaxed) {
            MOST_SEGMENTS
        } else {
            1
        }
    }

    /// Whether datagrams that came together are received together.
    pub fn coalesces(&self) -> bool {
        self.coalescing
    }

    /// Whether no datagram is fragmented on its way.
    pub fn is_unfragmented(&self) -> bool {
        self.dont_fragment
    }

    /// The receive and the send buffer as the kernel accounts them, in octets: twice what was asked
    /// for by option.
    pub fn buffers(&self) -> io::Result<(u32, u32)> {
        crate::socket::buffers(self)
    }

    /// The same socket once more, for one who only has to keep it open.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    /// The failure that waits on the socket, such as that nobody listens at the peer.
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

/// Sets the options; tells whether segmentation, coalescing and DF are there.
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
    // A kernel without the option says so; zero changes nothing.
    let segmentation =
        options.segmentation && set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
    let coalescing = options.coalescing && set(socket, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
    Ok((segmentation, coalescing, dont_fragment))
}

fn local_address(socket: &OwnedFd) -> io::Result<SocketAddr> {
    let address = rustix::net::getsockname(socket)?;
    SocketAddr::try_from(address).map_err(Into::into)
}
