//! The kernel's list of sockets (`sock_diag`, `man 7 sock_diag`): the request and the layout of its answers.
//! [`table`](super::table) and [`connection`](super::connection) interpret them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::error::{Doing, Error, Result, check};

/// `INET_DIAG_INFO`: the attribute with `struct tcp_info`.
pub(super) const INFO: u16 = 2;
/// `INET_DIAG_SKMEMINFO`: the attribute with the kernel memory of a socket.
pub(super) const MEMORY: u16 = 7;

/// Sockets in all states.
pub(super) const ALL_STATES: u32 = u32::MAX;
/// Sockets in the state ESTABLISHED, number 1.
pub(super) const ESTABLISHED_ONLY: u32 = 1 << 1;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_DUMP`
const REQUEST_ALL: u16 = 0x301;
/// A message's header, `struct nlmsghdr`.
const HEADER: usize = 16;
/// `struct inet_diag_msg`
const DIAGNOSIS: usize = 72;

/// A query: the states of the sockets to list, and the attributes of each socket besides addresses and queues.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question {
    /// The states to list: a bit for each state, at the position of the kernel's number.
    pub(super) states: u32,
    /// The attributes to return; each takes the kernel some time per socket.
    pub(super) attributes: &'static [u16],
}

/// A sock_diag socket. It stays in the namespace in which it was opened.
#[derive(Debug)]
pub(super) struct Diagnosis {
    /// The socket, or the error of opening it, which every query then returns.
    socket: Result<OwnedFd, i32>,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Diagnosis {
    /// Opens the socket in the calling thread's namespace.
    pub(super) fn open() -> Diagnosis {
        Diagnosis {
            socket: open().map_err(|error| error.raw_os_error().unwrap_or(0)),
            sequence: 0,
            buffer: vec![0; 64 << 10],
        }
    }

    /// Calls a function for each TCP socket of both families.
    pub(super) fn query(
        &mut self,
        question: Question,
        each: &mut dyn FnMut(&Answer<'_>),
    ) -> Result<()> {
        let doing = "request the sockets of a host (sock_diag)";
        let socket = match &self.socket {
            Ok(socket) => socket.as_raw_fd(),
            Err(errno) => return Err(io::Error::from_raw_os_error(*errno)).doing(doing),
        };
        for family in [libc::AF_INET, libc::AF_INET6] {
            self.sequence += 1;
            let request = request(family as u8, self.sequence, question);
            // SAFETY: the length is the buffer's length.
            let sent = unsafe { libc::send(socket, request.as_ptr().cast(), request.len(), 0) };
            check(sent as libc::c_int).doing(doing)?;
            loop {
                let (start, room) = (self.buffer.as_mut_ptr(), self.buffer.len());
                // SAFETY: as above.
                let received = unsafe { libc::recv(socket, start.cast(), room, 0) };
                let length = check(received as libc::c_int).doing(doing)? as usize;
                if take(&self.buffer[..length], self.sequence, each)? {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn open() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the descriptor is new and has no other owner.
    unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        let socket = check(libc::socket(
            libc::AF_NETLINK,
            kind,
            libc::NETLINK_SOCK_DIAG,
        ))?;
        Ok(OwnedFd::from_raw_fd(socket))
    }
}

/// Builds `struct nlmsghdr` and `struct inet_diag_req_v2`.
fn request(family: u8, sequence: u32, question: Question) -> [u8; HEADER + 56] {
    let mut bytes = [0; HEADER + 56];
    bytes[..4].copy_from_slice(&(HEADER as u32 + 56).to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&REQUEST_ALL.to_ne_bytes());
    bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
    bytes[HEADER] = family;
    bytes[HEADER + 1] = libc::IPPROTO_TCP as u8;
    for attribute in question.attributes {
        bytes[HEADER + 2] |= 1 << (attribute - 1);
    }
    bytes[HEADER + 4..HEADER + 8].copy_from_slice(&question.states.to_ne_bytes());
    bytes
}

/// Parses one datagram of the kernel's answer. Returns whether it was the last datagram.
fn take(mut bytes: &[u8], sequence: u32, each: &mut dyn FnMut(&Answer<'_>)) -> Result<bool> {
    let bad = || Error::BadAnswer {
        what: "the sockets of a host",
    };
    while bytes.len() >= HEADER {
        let length = u32_at(bytes, 0) as usize;
        let message = bytes.get(HEADER..length).ok_or_else(bad)?;
        // Skips the remaining messages of an earlier answer that was not read completely.
        if u32_at(bytes, 8) == sequence {
            match u16_at(bytes, 4) {
                NLMSG_DONE => return Ok(true),
                NLMSG_ERROR if message.len() >= 4 => {
                    let errno = -(u32_at(message, 0) as i32);
                    return Err(io::Error::from_raw_os_error(errno))
                        .doing("list the sockets of a host");
                }
                SOCK_DIAG_BY_FAMILY => each(&Answer::new(message).ok_or_else(bad)?),
                _ => return Err(bad()),
            }
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// The kernel's answer about one socket: `struct inet_diag_msg`, followed by attributes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer<'a> {
    message: &'a [u8],
}

impl<'a> Answer<'a> {
    pub(super) fn new(message: &'a [u8]) -> Option<Answer<'a>> {
        (message.len() >= DIAGNOSIS).then_some(Answer { message })
    }

    /// Returns the kernel's number of the state.
    pub(super) fn state(&self) -> u8 {
        self.message[1]
    }

    pub(super) fn local(&self) -> SocketAddr {
        SocketAddr::new(self.address_at(8), self.local_port())
    }

    pub(super) fn local_port(&self) -> u16 {
        u16::from_be_bytes([self.message[4], self.message[5]])
    }

    pub(super) fn remote(&self) -> SocketAddr {
        let port = u16::from_be_bytes([self.message[6], self.message[7]]);
        SocketAddr::new(self.address_at(24), port)
    }

    /// Returns the number of unread bytes; for a listener, the number of connections in its backlog.
    pub(super) fn receive_queue(&self) -> u32 {
        u32_at(self.message, 56)
    }

    /// Returns the number of unacknowledged bytes, sent or not; for a listener, the limit of its backlog.
    pub(super) fn send_queue(&self) -> u32 {
        u32_at(self.message, 60)
    }

    pub(super) fn attribute(&self, kind: u16) -> Option<&'a [u8]> {
        let mut attributes = &self.message[DIAGNOSIS..];
        while attributes.len() >= 4 {
            let length = usize::from(u16_at(attributes, 0)).max(4);
            let value = attributes.get(4..length)?;
            if u16_at(attributes, 2) == kind {
                return Some(value);
            }
            attributes = attributes.get(length.next_multiple_of(4)..)?;
        }
        None
    }

    /// Returns an address of the socket's family; an IPv4-mapped IPv6 address is returned as IPv4.
    fn address_at(&self, at: usize) -> IpAddr {
        let mut address = [0; 16];
        address.copy_from_slice(&self.message[at..at + 16]);
        match i32::from(self.message[0]) {
            libc::AF_INET => IpAddr::V4(Ipv4Addr::new(
                address[0], address[1], address[2], address[3],
            )),
            _ => Ipv6Addr::from(address).to_canonical(),
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

/// Reads a number in the byte order of this machine.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Builds a message of the kernel about one IPv4 connection from port 80, with attributes.
    pub(in super::super) fn message(state: u8, attributes: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut message = vec![0; DIAGNOSIS];
        message[0] = libc::AF_INET as u8;
        message[1] = state;
        message[4..6].copy_from_slice(&80u16.to_be_bytes());
        message[6..8].copy_from_slice(&50_000u16.to_be_bytes());
        message[8..12].copy_from_slice(&[10, 0, 0, 2]);
        message[24..28].copy_from_slice(&[10, 0, 0, 1]);
        message[56..60].copy_from_slice(&7u32.to_ne_bytes());
        message[60..64].copy_from_slice(&9u32.to_ne_bytes());
        for (kind, value) in attributes {
            let length = value.len() as u16 + 4;
            message.extend(length.to_ne_bytes());
            message.extend(kind.to_ne_bytes());
            message.extend(value);
            message.resize(message.len().next_multiple_of(4), 0);
        }
        message
    }

    #[test]
    fn addresses_queues_and_attributes_of_a_socket() {
        let bytes = message(1, &[(3, vec![1]), (INFO, vec![2, 3, 4]), (MEMORY, vec![5])]);
        let answer = Answer::new(&bytes).unwrap();
        assert_eq!(answer.local(), "10.0.0.2:80".parse().unwrap());
        assert_eq!(answer.remote(), "10.0.0.1:50000".parse().unwrap());
        assert_eq!((answer.receive_queue(), answer.send_queue()), (7, 9));
        assert_eq!(answer.attribute(INFO), Some([2, 3, 4].as_slice()));
        assert_eq!(answer.attribute(MEMORY), Some([5].as_slice()));
        assert_eq!(answer.attribute(9), None);
        // Connections of a dual-stack listener are reported as IPv4 too.
        let mut six = bytes.clone();
        six[0] = libc::AF_INET6 as u8;
        six[8..24].copy_from_slice(&Ipv4Addr::new(10, 0, 0, 2).to_ipv6_mapped().octets());
        let answer = Answer::new(&six).unwrap();
        assert_eq!(answer.local(), "10.0.0.2:80".parse().unwrap());
        assert!(Answer::new(&bytes[..71]).is_none());
        // An attribute that is longer than the message.
        let cut = &bytes[..bytes.len() - 4];
        assert_eq!(Answer::new(cut).unwrap().attribute(MEMORY), None);
    }

    #[test]
    fn a_truncated_or_negative_answer_is_an_error() {
        let question = Question {
            states: ALL_STATES,
            attributes: &[MEMORY],
        };
        let none = &mut |_: &Answer<'_>| panic!("no socket was described");
        let mut done = request(2, 7, question).to_vec();
        done[4..6].copy_from_slice(&NLMSG_DONE.to_ne_bytes());
        assert!(take(&done, 7, none).unwrap());
        assert!(!take(&done, 8, none).unwrap(), "of another request");
        assert!(take(&done[..20], 7, none).is_err());
        done[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        done[HEADER..HEADER + 4].copy_from_slice(&(-libc::EPERM).to_ne_bytes());
        let error = take(&done, 7, none).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EPERM));
        // An answer that is too short for the description of a socket.
        done[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        assert!(take(&done, 7, none).is_err());
    }
}
