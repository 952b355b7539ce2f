//! Sends datagrams.

use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use super::address::RawAddress;
use super::control::{Space, Writer};
use super::{Ecn, MOST_SEGMENTS, UdpSocket};

/// The largest number of bytes in one call: the payload of the largest IPv4 datagram.
const MAX_PAYLOAD: usize = 65_507;

/// Datagrams to one peer.
#[derive(Debug, Clone, Copy)]
pub struct Datagrams<'a> {
    /// The destination. A connected socket ignores it and sends to its peer.
    pub to: SocketAddr,
    /// The source address; `None` lets the kernel choose.
    pub from: Option<IpAddr>,
    /// The ECN codepoint of the datagrams.
    pub ecn: Ecn,
    /// The length of each datagram in bytes, if there are several; the last may be shorter.
    pub segment: Option<usize>,
    /// The bytes of the datagrams, contiguous.
    pub bytes: &'a [u8],
}

/// The result of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// The kernel has accepted all datagrams.
    Whole,
    /// The socket's buffer is full. The kernel has accepted the first `taken` bytes, which are whole datagrams. Send the
    /// other datagrams when the socket is writable.
    Blocked {
        /// The number of bytes of the accepted datagrams.
        taken: usize,
    },
    /// The kernel has rejected datagrams. Sending them again would fail again. The datagrams after them are not sent yet.
    Lost {
        /// The reason why the kernel has rejected the datagrams.
        loss: Loss,
        /// The number of bytes of the accepted datagrams before the rejected datagrams.
        taken: usize,
        /// The number of bytes of the rejected datagrams.
        rejected: usize,
    },
}

/// The reason why the kernel rejects a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// The datagram is larger than the MTU of the link or path. This is an expected result of a path MTU probe.
    TooLarge,
    /// No program listens at the peer's port. The kernel reports this at a later call, whose data are not sent.
    Refused,
    /// There is no route to the peer.
    Unreachable,
    /// The local system has no memory for the datagram.
    NoMemory,
    /// The local system does not permit or does not support sending the datagram.
    NotPermitted,
}

impl UdpSocket {
    /// Sends as many datagrams as fit, without waiting, up to the first that the kernel rejects. With segmentation
    /// offload, one system call sends up to [`segments`](UdpSocket::segments) datagrams. Without this offload, each
    /// datagram takes one call.
    ///
    /// Fails only if the socket itself is unusable.
    pub fn send(&self, datagrams: &Datagrams<'_>) -> io::Result<Sent> {
        let raw = RawAddress::new(datagrams.to);
        let segment = datagrams.segment.unwrap_or(datagrams.bytes.len()).max(1);
        let mut start = 0;
        while start < datagrams.bytes.len() {
            let rest = &datagrams.bytes[start..];
            let many = self.segments().min(MAX_PAYLOAD / segment).max(1);
            let piece = &rest[..rest.len().min(many * segment)];
            match self.send_piece(&raw, datagrams, piece, segment) {
                Ok(()) => start += piece.len(),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(Sent::Blocked { taken: start }),
                    Some(libc::EINTR) => {}
                    // Before Linux 6.11, devices without checksum offload reject segmentation, and datagrams
                    // for IPsec are never segmented. Such datagrams are sent one by one.
                    Some(libc::EIO | libc::EINVAL) if piece.len() > segment => {
                        // Invalid addresses (port 0, a broadcast address) fail in the same way: segmentation is the
                        // cause only if a single datagram is accepted.
                        match self.send_piece(&raw, datagrams, &piece[..segment], segment) {
                            Ok(()) => {
                                self.segmentation.store(false, Ordering::Relaxed);
                                start += segment;
                            }
                            Err(alone) => match alone.raw_os_error() {
                                Some(libc::EAGAIN) => return Ok(Sent::Blocked { taken: start }),
                                Some(libc::EINTR) => {}
                                _ => return lost(alone, start, piece),
                            },
                        }
                    }
                    errno => {
                        if errno == Some(libc::EMSGSIZE) {
                            // Clears the error. Otherwise the kernel would report the same error again instead of
                            // sending the next datagram.
                            self.take_error()?;
                        }
                        return lost(error, start, piece);
                    }
                },
            }
        }
        Ok(Sent::Whole)
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
            // The caller has limited the length to the maximum of an IP datagram.
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
        // SAFETY: all memory that the message points to outlives the call, and the kernel only reads it.
        let sent = unsafe { libc::sendmsg(self.as_raw_fd(), &raw const message, flags) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// Returns the loss of a piece after `taken` bytes, or the error if it does not concern a datagram.
fn lost(error: io::Error, taken: usize, piece: &[u8]) -> io::Result<Sent> {
    let loss = classify(&error).ok_or(error)?;
    Ok(Sent::Lost {
        loss,
        taken,
        rejected: piece.len(),
    })
}

/// Maps an error to the loss of a datagram; `None` if the error does not concern the datagram.
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
