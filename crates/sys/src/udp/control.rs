//! Control messages: the metadata that accompanies a datagram.

use std::marker::PhantomData;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Ecn;

/// The room for all control messages of one call, in bytes. The four messages in use take at most 32 + 40 + 24 + 24
/// bytes.
pub(super) const ROOM: usize = 128;

/// The memory of control messages, aligned as the kernel requires.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Space(pub(super) [u8; ROOM]);

impl Space {
    pub(super) const EMPTY: Space = Space([0; ROOM]);
}

/// Writes control messages into a space.
pub(super) struct Writer<'s> {
    space: &'s mut Space,
    length: usize,
}

impl<'s> Writer<'s> {
    pub(super) fn new(space: &'s mut Space) -> Writer<'s> {
        Writer { space, length: 0 }
    }

    /// Returns the number of bytes written; 0 without messages.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Adds a message.
    ///
    /// # Panics
    /// If there is no room. The four messages in use always fit.
    pub(super) fn push<T: Copy>(&mut self, level: libc::c_int, kind: libc::c_int, value: T) {
        let size = mem::size_of::<T>() as libc::c_uint;
        // SAFETY: both functions only calculate.
        let (whole, length) = unsafe { (libc::CMSG_SPACE(size), libc::CMSG_LEN(size)) };
        let end = self.length + whole as usize;
        assert!(end <= ROOM, "no room for a control message");
        // SAFETY: cmsghdr is plain data, for which zero is a value.
        let mut header: libc::cmsghdr = unsafe { mem::zeroed() };
        header.cmsg_level = level;
        header.cmsg_type = kind;
        header.cmsg_len = length as _;
        let start = self.space.0[self.length..end].as_mut_ptr();
        // SAFETY: by the check above there is room for header and value from `start` on. The header is
        // aligned, because the space is aligned and every message takes a multiple of the alignment.
        unsafe {
            start.cast::<libc::cmsghdr>().write(header);
            let data = start.add(length as usize - size as usize);
            data.cast::<T>().write_unaligned(value);
        }
        self.length = end;
    }
}

/// The metadata of a received datagram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Arrived {
    pub(super) ecn: Ecn,
    /// The destination address of the datagram.
    pub(super) to: Option<IpAddr>,
    /// The length of each datagram in bytes, if several were coalesced.
    pub(super) segment: Option<usize>,
    /// The number of datagrams that the socket has lost so far because its buffer was full.
    pub(super) overflowed: Option<u32>,
}

/// Reads the control messages that the kernel put into the space of `header`.
pub(super) fn read(header: &libc::msghdr, space: &Space) -> Arrived {
    let mut arrived = Arrived::default();
    let mut messages = Messages {
        header,
        next: None,
        begun: false,
        _space: PhantomData::<&Space>,
    };
    debug_assert!(std::ptr::eq(header.msg_control.cast(), space.0.as_ptr()));
    while let Some((message, data, length)) = messages.next() {
        let fits = |size: usize| length >= size;
        match (message.cmsg_level, message.cmsg_type) {
            (libc::IPPROTO_IP, libc::IP_TOS) if fits(1) => {
                // SAFETY: there is at least one byte.
                arrived.ecn = Ecn::from_bits(unsafe { data.read() });
            }
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) if fits(4) => {
                // SAFETY: there are at least four bytes.
                let class = unsafe { data.cast::<libc::c_int>().read_unaligned() };
                arrived.ecn = Ecn::from_bits(class as u8);
            }
            (libc::IPPROTO_IP, libc::IP_PKTINFO) if fits(mem::size_of::<libc::in_pktinfo>()) => {
                // SAFETY: the whole structure is there.
                let info = unsafe { data.cast::<libc::in_pktinfo>().read_unaligned() };
                let bytes = info.ipi_addr.s_addr.to_ne_bytes();
                arrived.to = Some(Ipv4Addr::from(bytes).into());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO)
                if fits(mem::size_of::<libc::in6_pktinfo>()) =>
            {
                // SAFETY: the whole structure is there.
                let info = unsafe { data.cast::<libc::in6_pktinfo>().read_unaligned() };
                arrived.to = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
            }
            (libc::SOL_UDP, libc::UDP_GRO) if fits(4) => {
                // SAFETY: there are at least four bytes.
                let segment = unsafe { data.cast::<libc::c_int>().read_unaligned() };
                arrived.segment = usize::try_from(segment).ok().filter(|&size| size > 0);
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) if fits(4) => {
                // SAFETY: there are at least four bytes.
                arrived.overflowed = Some(unsafe { data.cast::<u32>().read_unaligned() });
            }
            _ => {}
        }
    }
    arrived
}

struct Messages<'m> {
    header: &'m libc::msghdr,
    next: Option<*const libc::cmsghdr>,
    begun: bool,
    _space: PhantomData<&'m Space>,
}

impl Messages<'_> {
    /// Returns the next message: its header, a pointer to its data and the length of the data in bytes.
    fn next(&mut self) -> Option<(libc::cmsghdr, *const u8, usize)> {
        // SAFETY: the header describes memory that the kernel has filled. These functions only use memory
        // within `msg_controllen`.
        let message = unsafe {
            match self.next {
                Some(before) => libc::CMSG_NXTHDR(self.header, before),
                None if self.begun => std::ptr::null_mut(),
                None => libc::CMSG_FIRSTHDR(self.header),
            }
        };
        self.begun = true;
        self.next = None;
        if message.is_null() {
            return None;
        }
        self.next = Some(message);
        // SAFETY: the pointer is not null, so it points to a complete header within the space, followed by its data.
        unsafe {
            let header = message.read();
            let length = (header.cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            Some((header, libc::CMSG_DATA(message), length))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut space = Space::EMPTY;
        let mut writer = Writer::new(&mut space);
        writer.push(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, 0b10 as libc::c_int);
        writer.push(libc::SOL_UDP, libc::UDP_GRO, 1200 as libc::c_int);
        writer.push(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 7u32);
        writer.push(
            libc::IPPROTO_IPV6,
            libc::IPV6_PKTINFO,
            libc::in6_pktinfo {
                ipi6_addr: libc::in6_addr {
                    s6_addr: Ipv6Addr::LOCALHOST.octets(),
                },
                ipi6_ifindex: 0,
            },
        );
        let length = writer.length();
        assert!(length <= ROOM);
        // SAFETY: msghdr is plain data, for which zero is a value.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        header.msg_control = space.0.as_mut_ptr().cast();
        header.msg_controllen = length as _;
        let arrived = read(&header, &space);
        assert_eq!(
            arrived,
            Arrived {
                ecn: Ecn::Capable0,
                to: Some(Ipv6Addr::LOCALHOST.into()),
                segment: Some(1200),
                overflowed: Some(7),
            }
        );
        header.msg_controllen = 0;
        assert_eq!(read(&header, &space), Arrived::default());
    }
}
