//! Sending.

use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use super::address::RawAddress;
use super::control::{Space, Writer};
use super::{Ecn, MOST_SEGMENTS, UdpSocket};

/// Most octets that one call can send: what an IPv4 datagram can hold.
const MOST_OCTETS: usize = 65_507;

/// Datagrams to one peer.
#[derive(Debug, Clone, Copy)]
pub struct Datagrams<'a> {
    /// The peer. A connected socket has but one, and leaves it at that.
    pub to: SocketAddr,
    /// The address they leave from; `None` is the kernel's choice.
    pub from: Option<IpAddr>,
    /// What their IP headers say of ECN.
    pub ecn: Ecn,
    /// Octets of each, when there are several; the last may have fewer.
    pub segment: Option<usize>,
    /// Their octets, end to end.
    pub octets: &'a [u8],
}

/// What became of datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The kernel has taken all of them.
    Whole,
    /// The socket's buffer is full. The kernel has taken the first `taken` octets, which is a number
    /// of whole datagrams; the others may be sent when the socket is writable.
    Blocked {
        /// Octets of datagrams that are done with.
        taken: usize,
    },
    /// The kernel has refused one or more. There is no point in sending them again.
    Lost(Loss),
}

/// Why the kernel refuses a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// It is larger than the link or the path takes: what a probe for the path's MTU is to find out.
    TooLarge,
    /// Nobody listens at the peer's port. This is told of datagrams that were sent before, by the
    /// next call, and what that call was to send is not sent.
    Refused,
    /// There is no way to the peer.
    Unreachable,
    /// The local system has no memory for it.
    NoMemory,
    /// The local system does not allow it, or does not know what is asked of it.
    NotPermitted,
}

impl UdpSocket {
    /// Sends datagrams as far as they fit, without waiting: by one call with segmentation offload,
    /// and by one call each without. Which of the two it will be [`segments`](UdpSocket::segments)
    /// says; more datagrams than that are welcome and take more calls.
    ///
    /// Fails only when the socket itself is unusable.
    pub fn send(&self, datagrams: &Datagrams<'_>) -> io::Result<Sent> {
        let raw = RawAddress::new(datagrams.to);
        let segment = datagrams.segment.unwrap_or(datagrams.octets.len()).max(1);
        let mut start = 0;
        let mut lost = None;
        while start < datagrams.octets.len() {
            let rest = &datagrams.octets[start..];
            let many = self.segments().min(MOST_OCTETS / segment).max(1);
            let piece = &rest[..rest.len().min(many * segment)];
            match self.send_piece(&raw, datagrams, piece, segment) {
                Ok(()) => start += piece.len(),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(Sent::Blocked { taken: start }),
                    Some(libc::EINTR) => {}
                    // Devices that cannot checksum refuse segmentation before Linux 6.11, and
                    // datagrams that IPsec is to carry are never segmented. One by one they go.
                    Some(libc::EIO | libc::EINVAL) if piece.len() > segment => {
                        self.segmentation.store(false, Ordering::Relaxed);
                    }
                    errno => {
                        if errno == Some(libc::EMSGSIZE) {
                            // The kernel would tell it again in place of sending the next datagram.
                            self.take_error()?;
                        }
                        lost = Some(classify(&error).ok_or(error)?);
                        start += piece.len();
                    }
                },
            }
        }
        Ok(lost.map_or(Sent::Whole, Sent::Lost))
    }

    fn send_piece(
        &self,
        raw: &RawAddress,
        datagrams: &Datagrams<'_>,
        piece: &[u8],
        segment: usize,
    ) -> io::Result<()> {
        let mut space = Space::EMPTY;
        let mut control = Writer::new(&mut space);
        if self.ecn && datagrams.ecn != Ecn::NotCapable {
            let bits = libc::c_int::from(datagrams.ecn.bits());
            match datagrams.to {
                SocketAddr::V4(_) => control.push(libc::IPPROTO_IP, libc::IP_TOS, bits),
                SocketAddr::V6(_) => control.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, bits),
            }
        }
        match datagrams.from {
            None => {}
            Some(IpAddr::V4(from)) => control.push(
                libc::IPPROTO_IP,
                libc::IP_PKTINFO,
                libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: libc::in_addr {
                        s_addr: u32::from_ne_bytes(from.octets()),
                    },
                    ipi_addr: libc::in_addr { s_addr: 0 },
                },
            ),
            Some(IpAddr::V6(from)) => control.push(
                libc::IPPROTO_IPV6,
                libc::IPV6_PKTINFO,
                libc::in6_pktinfo {
                    ipi6_addr: libc::in6_addr {
                        s6_addr: from.octets(),
                    },
                    ipi6_ifindex: 0,
                },
            ),
        }
        if piece.len() > segment {
            debug_assert!(piece.len().div_ceil(segment) <= MOST_SEGMENTS);
            // More than an IP datagram holds was cut down by the caller.
            control.push(libc::SOL_UDP, libc::UDP_SEGMENT, segment as u16);
        }
        let length = control.length();
        let mut vector = libc::iovec {
            iov_base: piece.as_ptr().cast_mut().cast(),
            iov_len: piece.len(),
        };
        // SAFETY: msghdr is plain data, for which zero is a value.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        if !self.connected {
            message.msg_name = (&raw const raw.storage).cast_mut().cast();
            message.msg_namelen = raw.length;
        }
        if length > 0 {
            message.msg_control = space.0.as_mut_ptr().cast();
            message.msg_controllen = length as _;
        }
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: all that the message points to outlives the call, and the kernel only reads it.
        let sent = unsafe { libc::sendmsg(self.as_raw_fd(), &raw const message, flags) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// What a failure means for a datagram; `None` when it is not about the datagram.
fn classify(error: &io::Error) -> Option<Loss> {
    Some(match error.raw_os_error()? {
        libc::EMSGSIZE => Loss::TooLarge,
        libc::ECONNREFUSED => Loss::Refused,
        libc::ENETUNREACH
        | libc::EHOSTUNREACH
        | libc::ENETDOWN
        | libc::EHOSTDOWN
        | libc::EADDRNOTAVAIL => Loss::Unreachable,
        libc::ENOBUFS | libc::ENOMEM => Loss::NoMemory,
        libc::EPERM | libc::EACCES | libc::EINVAL | libc::EIO => Loss::NotPermitted,
        _ => return None,
    })
}
