//! Receives datagrams.

use std::fmt;
use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use super::address::RawAddress;
use super::control::{self, Arrived, Space};
use super::{Ecn, UdpSocket};

/// The number of messages per call with coalescing. Each message may contain up to 64 datagrams.
const COALESCED: usize = 8;
/// The number of messages per call without coalescing. Each message is one datagram.
const SINGLE: usize = 32;
/// The size in bytes of a message that may hold coalesced datagrams.
const LARGE: usize = 65_536;
/// The size in bytes of a message that holds one datagram: enough for every link except loopback.
const SMALL: usize = 9_216;

/// Memory for received datagrams, which several sockets can share.
pub struct ReceiveBuffer {
    bytes: Box<[u8]>,
    /// The size of each message in bytes.
    size: usize,
    addresses: Box<[RawAddress]>,
    controls: Box<[Space]>,
    vectors: Box<[libc::iovec]>,
    headers: Box<[libc::mmsghdr]>,
    arrived: Box<[Arrived]>,
    received: usize,
}

// SAFETY: the pointers point into the buffer's own memory, and are rewritten before every call that uses
// them.
unsafe impl Send for ReceiveBuffer {}

impl fmt::Debug for ReceiveBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiveBuffer")
            .field("messages", &self.headers.len())
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// Datagrams of one sender that arrived together, or a single datagram.
#[derive(Debug, Clone, Copy)]
pub struct Received<'a> {
    /// The sender's address.
    pub from: SocketAddr,
    /// The destination address, if the socket was created with `packet_info`.
    pub to: Option<IpAddr>,
    /// The ECN codepoint of the datagrams. The kernel does not coalesce datagrams with different codepoints.
    pub ecn: Ecn,
    /// The length of each datagram in bytes; the last may be shorter.
    pub segment: usize,
    /// The bytes of the datagrams, contiguous. Empty datagrams are not returned.
    pub bytes: &'a [u8],
}

impl<'a> Received<'a> {
    /// Iterates over the datagrams.
    pub fn datagrams(&self) -> impl Iterator<Item = &'a [u8]> {
        self.bytes.chunks(self.segment.max(1))
    }
}

impl ReceiveBuffer {
    /// Allocates memory for sockets with coalescing ([`UdpSocket::coalesces`], 512 KiB) or without (288 KiB). A buffer of
    /// the other kind also works, but more slowly. Datagrams that do not fit are discarded.
    pub fn new(coalescing: bool) -> ReceiveBuffer {
        let (messages, size) = if coalescing {
            (COALESCED, LARGE)
        } else {
            (SINGLE, SMALL)
        };
        let no_vector = libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        // SAFETY: mmsghdr is plain data, for which zero is a value.
        let no_header: libc::mmsghdr = unsafe { mem::zeroed() };
        ReceiveBuffer {
            bytes: vec![0; messages * size].into(),
            size,
            addresses: vec![RawAddress::empty(); messages].into(),
            controls: vec![Space::EMPTY; messages].into(),
            vectors: vec![no_vector; messages].into(),
            headers: vec![no_header; messages].into(),
            arrived: vec![Arrived::default(); messages].into(),
            received: 0,
        }
    }

    /// Iterates over the datagrams of the last call, in order.
    pub fn iter(&self) -> impl Iterator<Item = Received<'_>> {
        (0..self.received).filter_map(|n| {
            let header = &self.headers[n];
            let length = header.msg_len as usize;
            let is_cut = header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
            let arrived = &self.arrived[n];
            let from = self.addresses[n].address()?;
            (length > 0 && !is_cut).then(|| Received {
                from,
                to: arrived.to,
                ecn: arrived.ecn,
                segment: arrived.segment.unwrap_or(length),
                bytes: &self.bytes[n * self.size..][..length],
            })
        })
    }

    /// Returns the number of datagrams that the socket of the last call has lost so far because its buffer was full;
    /// `None` if that call did not report it.
    pub fn overflowed(&self) -> Option<u32> {
        let arrived = &self.arrived[..self.received];
        arrived.iter().rev().find_map(|arrived| arrived.overflowed)
    }

    /// Resets the headers before each call, because the kernel changes them.
    fn prepare(&mut self) {
        for n in 0..self.headers.len() {
            self.vectors[n] = libc::iovec {
                iov_base: self.bytes[n * self.size..].as_mut_ptr().cast(),
                iov_len: self.size,
            };
            let header = &mut self.headers[n].msg_hdr;
            header.msg_name = (&raw mut self.addresses[n].storage).cast();
            header.msg_namelen = mem::size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = &raw mut self.vectors[n];
            header.msg_iovlen = 1;
            header.msg_control = self.controls[n].0.as_mut_ptr().cast();
            header.msg_controllen = control::ROOM as _;
            header.msg_flags = 0;
        }
    }
}

impl UdpSocket {
    /// Receives the available datagrams that fit into the buffer, without waiting. Returns whether the buffer is full,
    /// so that more datagrams may be available; `Ok(None)` if no datagram is available.
    ///
    /// An error caused by datagrams sent earlier (no program listens at the peer's port) is returned as the kernel reports
    /// it, for [`classify`](crate::socket::classify). The socket stays usable.
    pub fn receive(&self, buffer: &mut ReceiveBuffer) -> io::Result<Option<bool>> {
        buffer.received = 0;
        buffer.prepare();
        let most = buffer.headers.len();
        loop {
            // SAFETY: the headers point to memory of the buffer, which outlives the call and which no other
            // code borrows; no time is passed.
            let received = unsafe {
                libc::recvmmsg(
                    self.as_raw_fd(),
                    buffer.headers.as_mut_ptr(),
                    most as libc::c_uint,
                    libc::MSG_DONTWAIT as _,
                    std::ptr::null_mut(),
                )
            };
            if received < 0 {
                let error = io::Error::last_os_error();
                match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(None),
                    io::ErrorKind::Interrupted => continue,
                    _ => return Err(error),
                }
            }
            buffer.received = received as usize;
            for n in 0..buffer.received {
                buffer.arrived[n] = control::read(&buffer.headers[n].msg_hdr, &buffer.controls[n]);
            }
            return Ok(Some(buffer.received == most));
        }
    }
}
