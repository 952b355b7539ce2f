//! The network of a host: what TCP has counted, how many sockets there are, in which state, and
//! how much memory the kernel holds for them.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use fathometer_model::Bytes;
use serde::{Deserialize, Serialize};

use super::kernel_file::{KernelFile, counted, text};
use crate::error::{Doing, Error, Result, check};
use crate::namespace::Namespace;

/// The network of one namespace at one moment, counted since it was made; or, by
/// [`Network::since`], what happened between two moments. `None` is what this kernel does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// What TCP has counted (`/proc/net/snmp` and `netstat`).
    pub tcp: TcpCounts,
    /// How many sockets there are (`/proc/net/sockstat`).
    pub sockets: SocketCounts,
    /// Every TCP socket looked at (sock_diag). Only in the readings that ask for it.
    pub table: Option<SocketTable>,
}

/// Counters of TCP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpCounts {
    /// Segments received, bad ones included (`InSegs`).
    pub segments_in: Option<u64>,
    /// Segments sent, retransmitted ones left out (`OutSegs`). One that is cut into several by the
    /// device counts as several.
    pub segments_out: Option<u64>,
    /// Segments sent again (`RetransSegs`).
    pub retransmitted: Option<u64>,
    /// Segments with RST sent (`OutRsts`).
    pub resets_out: Option<u64>,
    /// Connections opened from here (`ActiveOpens`).
    pub active_opens: Option<u64>,
    /// Connections opened from elsewhere (`PassiveOpens`).
    pub passive_opens: Option<u64>,
    /// Connections that came to nothing (`AttemptFails`).
    pub failed_opens: Option<u64>,
    /// Connections broken off by either side (`EstabResets`).
    pub resets: Option<u64>,
    /// Connections that are established or wait for their own side to close, now (`CurrEstab`).
    pub established: Option<u64>,
    /// Connections that found the queue of a listener full (`ListenOverflows`).
    pub listen_overflows: Option<u64>,
    /// Connections that a listener threw away, for that reason or another (`ListenDrops`).
    pub listen_drops: Option<u64>,
    /// Requests for a connection that found the queue of half-open ones full, whether answered by
    /// a cookie (`TCPReqQFullDoCookies`) or not at all (`TCPReqQFullDrop`).
    pub half_open_overflows: Option<u64>,
    /// Retransmission time-outs (`TCPTimeouts`).
    pub timeouts: Option<u64>,
    /// Sockets that entered TIME_WAIT and left it by its time running out (`TW`).
    pub time_waits_ended: Option<u64>,
}

/// Numbers of sockets, now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketCounts {
    /// TCP sockets in use, of both families, TIME_WAIT left out.
    pub tcp_in_use: Option<u64>,
    /// Sockets in TIME_WAIT.
    pub time_wait: Option<u64>,
    /// TCP sockets that belong to no program any more. Of all namespaces together.
    pub orphans: Option<u64>,
    /// Memory for TCP buffers. Of all namespaces together, to the page, and with up to a megabyte
    /// of reserves a processor that are counted before they are used.
    pub tcp_memory: Option<Bytes>,
}

/// TCP sockets by state, and what the kernel holds for them. A count of 0 is a real one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketTable {
    /// ESTABLISHED.
    pub established: u64,
    /// SYN_SENT.
    pub syn_sent: u64,
    /// SYN_RECV: half-open, not yet with a program.
    pub syn_received: u64,
    /// FIN_WAIT1.
    pub fin_wait_1: u64,
    /// FIN_WAIT2.
    pub fin_wait_2: u64,
    /// TIME_WAIT.
    pub time_wait: u64,
    /// CLOSE: neither bound nor connected, or just gone.
    pub closed: u64,
    /// CLOSE_WAIT: the peer has closed, the program here has not.
    pub close_wait: u64,
    /// LAST_ACK.
    pub last_ack: u64,
    /// LISTEN.
    pub listening: u64,
    /// CLOSING.
    pub closing: u64,
    /// Received data that the kernel holds, its own overhead counted in.
    pub receive_memory: Bytes,
    /// Data to be sent or acknowledged that the kernel holds, its own overhead counted in.
    pub send_memory: Bytes,
    /// Received data that no program has read yet, in octets of the stream.
    pub unread: Bytes,
    /// Data that the peer has not acknowledged yet, in octets of the stream.
    pub unacknowledged: Bytes,
    /// Connections that wait in listeners' queues to be accepted.
    pub to_be_accepted: u64,
}

/// Reads the network of one namespace, from whichever thread.
#[derive(Debug)]
pub struct NetworkProbe {
    snmp: KernelFile,
    netstat: Option<KernelFile>,
    sockstat: Option<KernelFile>,
    sockstat6: Option<KernelFile>,
    diagnosis: Result<OwnedFd, i32>,
    sequence: u32,
    buffer: Vec<u8>,
}

impl NetworkProbe {
    /// A probe of this namespace.
    pub fn open(namespace: &Namespace) -> Result<NetworkProbe> {
        namespace.run(NetworkProbe::open_here)?
    }

    /// A probe of the calling thread's namespace.
    pub fn open_here() -> Result<NetworkProbe> {
        let optional =
            |name: &str| KernelFile::open_if_there(&format!("/proc/thread-self/net/{name}"));
        Ok(NetworkProbe {
            snmp: KernelFile::open("/proc/thread-self/net/snmp")?,
            netstat: optional("netstat"),
            sockstat: optional("sockstat"),
            sockstat6: optional("sockstat6"),
            diagnosis: open_diagnosis().map_err(|e| e.raw_os_error().unwrap_or(0)),
            sequence: 0,
            buffer: vec![0; 64 << 10],
        })
    }

    /// Counters and numbers of sockets: some 30 µs, however many connections there are.
    pub fn read(&mut self) -> Network {
        let mut tcp = TcpCounts::default();
        tcp.take(self.snmp.read().unwrap_or_default());
        tcp.take(text(&mut self.netstat));
        let mut sockets = SocketCounts::parse(text(&mut self.sockstat));
        let six = socket_value(text(&mut self.sockstat6), "TCP6", "inuse");
        sockets.tcp_in_use = sockets.tcp_in_use.map(|four| four + six.unwrap_or(0));
        Network {
            tcp,
            sockets,
            table: None,
        }
    }

    /// Every TCP socket of the namespace, by state. The kernel goes through its whole table for
    /// this, that of all namespaces: a millisecond or more, and one more for some thousand sockets.
    pub fn table(&mut self) -> Result<SocketTable> {
        let doing = "ask for the sockets of a host (sock_diag)";
        let mut table = SocketTable::default();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let socket = match &self.diagnosis {
                Ok(socket) => socket,
                Err(errno) => return Err(io::Error::from_raw_os_error(*errno)).doing(doing),
            };
            self.sequence += 1;
            let request = request(family as u8, self.sequence);
            // SAFETY: the buffer is of the length given.
            let sent = unsafe {
                libc::send(
                    socket.as_raw_fd(),
                    request.as_ptr().cast(),
                    request.len(),
                    0,
                )
            };
            check(sent as libc::c_int).doing(doing)?;
            loop {
                // SAFETY: as above.
                let received = unsafe {
                    libc::recv(
                        socket.as_raw_fd(),
                        self.buffer.as_mut_ptr().cast(),
                        self.buffer.len(),
                        0,
                    )
                };
                let length = check(received as libc::c_int).doing(doing)? as usize;
                if table.take(&self.buffer[..length], self.sequence)? {
                    break;
                }
            }
        }
        Ok(table)
    }
}

impl Network {
    /// What was counted since an earlier reading. What is a state and no count (`established`,
    /// `sockets`, `table`) is as it is in `self`.
    pub fn since(&self, earlier: &Network) -> Network {
        let (now, then) = (&self.tcp, &earlier.tcp);
        Network {
            tcp: TcpCounts {
                segments_in: counted(now.segments_in, then.segments_in),
                segments_out: counted(now.segments_out, then.segments_out),
                retransmitted: counted(now.retransmitted, then.retransmitted),
                resets_out: counted(now.resets_out, then.resets_out),
                active_opens: counted(now.active_opens, then.active_opens),
                passive_opens: counted(now.passive_opens, then.passive_opens),
                failed_opens: counted(now.failed_opens, then.failed_opens),
                resets: counted(now.resets, then.resets),
                established: now.established,
                listen_overflows: counted(now.listen_overflows, then.listen_overflows),
                listen_drops: counted(now.listen_drops, then.listen_drops),
                half_open_overflows: counted(now.half_open_overflows, then.half_open_overflows),
                timeouts: counted(now.timeouts, then.timeouts),
                time_waits_ended: counted(now.time_waits_ended, then.time_waits_ended),
            },
            ..*self
        }
    }
}

impl TcpCounts {
    /// Takes what is of interest from `snmp` or `netstat`, where lines come in pairs: `Tcp:
    /// names…` and `Tcp: values…`.
    fn take(&mut self, text: &str) {
        let mut lines = text.lines();
        while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
            let (mut names, mut values) = (names.split(' '), values.split(' '));
            let group = names.next();
            if values.next() != group {
                return;
            }
            for (name, value) in names.zip(values) {
                let Ok(value) = value.parse::<u64>() else {
                    continue;
                };
                let place = match (group, name) {
                    (Some("Tcp:"), "InSegs") => &mut self.segments_in,
                    (Some("Tcp:"), "OutSegs") => &mut self.segments_out,
                    (Some("Tcp:"), "RetransSegs") => &mut self.retransmitted,
                    (Some("Tcp:"), "OutRsts") => &mut self.resets_out,
                    (Some("Tcp:"), "ActiveOpens") => &mut self.active_opens,
                    (Some("Tcp:"), "PassiveOpens") => &mut self.passive_opens,
                    (Some("Tcp:"), "AttemptFails") => &mut self.failed_opens,
                    (Some("Tcp:"), "EstabResets") => &mut self.resets,
                    (Some("Tcp:"), "CurrEstab") => &mut self.established,
                    (Some("TcpExt:"), "ListenOverflows") => &mut self.listen_overflows,
                    (Some("TcpExt:"), "ListenDrops") => &mut self.listen_drops,
                    (Some("TcpExt:"), "TCPTimeouts") => &mut self.timeouts,
                    (Some("TcpExt:"), "TW") => &mut self.time_waits_ended,
                    (Some("TcpExt:"), "TCPReqQFullDoCookies" | "TCPReqQFullDrop") => {
                        let sum = self.half_open_overflows.unwrap_or(0) + value;
                        self.half_open_overflows = Some(sum);
                        continue;
                    }
                    _ => continue,
                };
                *place = Some(value);
            }
        }
    }
}

impl SocketCounts {
    /// Lines like `TCP: inuse 1 orphan 0 tw 0 alloc 1 mem 371`.
    fn parse(sockstat: &str) -> SocketCounts {
        let page = super::page_size();
        SocketCounts {
            tcp_in_use: socket_value(sockstat, "TCP", "inuse"),
            time_wait: socket_value(sockstat, "TCP", "tw"),
            orphans: socket_value(sockstat, "TCP", "orphan"),
            tcp_memory: socket_value(sockstat, "TCP", "mem").map(|pages| Bytes(pages * page)),
        }
    }
}

fn socket_value(sockstat: &str, protocol: &str, key: &str) -> Option<u64> {
    let line = sockstat.lines().find_map(|line| {
        let (name, rest) = line.split_once(':')?;
        (name == protocol).then_some(rest)
    })?;
    let mut words = line.split_whitespace();
    words.by_ref().find(|word| *word == key)?;
    words.next()?.parse().ok()
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_SKMEMINFO: u16 = 7;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_DUMP`
const REQUEST_ALL: u16 = 0x301;
/// A message's header, `struct nlmsghdr`.
const HEADER: usize = 16;
/// `struct inet_diag_msg`
const DIAGNOSIS: usize = 72;

fn open_diagnosis() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the descriptor is fresh and nobody else's.
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

/// `struct nlmsghdr` and `struct inet_diag_req_v2` that ask for all TCP sockets of a family.
fn request(family: u8, sequence: u32) -> [u8; HEADER + 56] {
    let mut bytes = [0; HEADER + 56];
    bytes[..4].copy_from_slice(&(HEADER as u32 + 56).to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&REQUEST_ALL.to_ne_bytes());
    bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
    bytes[HEADER] = family;
    bytes[HEADER + 1] = libc::IPPROTO_TCP as u8;
    bytes[HEADER + 2] = 1 << (INET_DIAG_SKMEMINFO - 1);
    // All states.
    bytes[HEADER + 4..HEADER + 8].copy_from_slice(&u32::MAX.to_ne_bytes());
    bytes
}

impl SocketTable {
    /// Takes one datagram of the kernel's answer. Returns whether it was the last.
    fn take(&mut self, mut bytes: &[u8], sequence: u32) -> Result<bool> {
        let bad = || Error::BadAnswer {
            what: "the sockets of a host",
        };
        while bytes.len() >= HEADER {
            let length = u32_at(bytes, 0) as usize;
            let message = bytes.get(HEADER..length).ok_or_else(bad)?;
            // What is left of an earlier answer that was given up is not meant.
            if u32_at(bytes, 8) == sequence {
                match u16_at(bytes, 4) {
                    NLMSG_DONE => return Ok(true),
                    NLMSG_ERROR if message.len() >= 4 => {
                        let errno = -(u32_at(message, 0) as i32);
                        return Err(io::Error::from_raw_os_error(errno))
                            .doing("list the sockets of a host");
                    }
                    SOCK_DIAG_BY_FAMILY if message.len() >= DIAGNOSIS => self.count(message),
                    _ => return Err(bad()),
                }
            }
            bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(false)
    }

    fn count(&mut self, message: &[u8]) {
        let state = message[1];
        let (receive, send) = (u32_at(message, 56), u32_at(message, 60));
        let place = match state {
            1 => &mut self.established,
            2 => &mut self.syn_sent,
            // Half-open connections have a state of their own inside the kernel (12).
            3 | 12 => &mut self.syn_received,
            4 => &mut self.fin_wait_1,
            5 => &mut self.fin_wait_2,
            6 => &mut self.time_wait,
            8 => &mut self.close_wait,
            9 => &mut self.last_ack,
            10 => &mut self.listening,
            11 => &mut self.closing,
            _ => &mut self.closed,
        };
        *place += 1;
        if state == 10 {
            self.to_be_accepted += u64::from(receive);
            return;
        }
        self.unread += Bytes(u64::from(receive));
        self.unacknowledged += Bytes(u64::from(send));
        let mut attributes = &message[DIAGNOSIS..];
        while attributes.len() >= 4 {
            let length = usize::from(u16_at(attributes, 0)).max(4);
            let Some(value) = attributes.get(4..length) else {
                return;
            };
            if u16_at(attributes, 2) == INET_DIAG_SKMEMINFO && value.len() >= 24 {
                // rmem_alloc, rcvbuf, wmem_alloc, sndbuf, fwd_alloc, wmem_queued
                self.receive_memory += Bytes(u64::from(u32_at(value, 0)));
                self.send_memory += Bytes(u64::from(u32_at(value, 20)));
            }
            attributes = attributes
                .get(length.next_multiple_of(4)..)
                .unwrap_or_default();
        }
    }
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_that_are_missing_are_not_zero() {
        let mut tcp = TcpCounts::default();
        tcp.take(
            "Ip: Forwarding InReceives\nIp: 1 90\n\
             Tcp: RtoAlgorithm MaxConn ActiveOpens CurrEstab InSegs RetransSegs\n\
             Tcp: 1 -1 5 2 90 3\n",
        );
        tcp.take(
            "TcpExt: TW ListenOverflows TCPReqQFullDoCookies TCPReqQFullDrop\n\
             TcpExt: 7 1 2 3\nIpExt: InNoRoutes\nIpExt: 0\n",
        );
        assert_eq!((tcp.segments_in, tcp.retransmitted), (Some(90), Some(3)));
        assert_eq!((tcp.active_opens, tcp.established), (Some(5), Some(2)));
        assert_eq!(tcp.listen_overflows, Some(1));
        assert_eq!(tcp.half_open_overflows, Some(5));
        assert_eq!((tcp.listen_drops, tcp.segments_out), (None, None));
        // Lines that do not belong together say nothing.
        let mut odd = TcpCounts::default();
        odd.take("Tcp: InSegs\nUdp: 5\n");
        assert_eq!(odd, TcpCounts::default());
    }

    #[test]
    fn numbers_of_sockets() {
        let text =
            "sockets: used 21\nTCP: inuse 4 orphan 1 tw 9 alloc 5 mem 3\nUDP: inuse 8 mem 0\n";
        let counts = SocketCounts::parse(text);
        assert_eq!((counts.tcp_in_use, counts.time_wait), (Some(4), Some(9)));
        assert_eq!(counts.orphans, Some(1));
        let page = super::super::page_size();
        assert_eq!(counts.tcp_memory, Some(Bytes(3 * page)));
        assert_eq!(SocketCounts::parse(""), SocketCounts::default());
        assert_eq!(socket_value("TCP6: inuse 2\n", "TCP6", "inuse"), Some(2));
    }

    #[test]
    fn what_happened_is_counted_and_what_is_stays() {
        let mut before = Network::default();
        before.tcp.segments_in = Some(10);
        before.tcp.established = Some(5);
        let mut after = before;
        after.tcp.segments_in = Some(25);
        after.tcp.established = Some(3);
        after.sockets.time_wait = Some(4);
        let step = after.since(&before);
        assert_eq!(step.tcp.segments_in, Some(15));
        assert_eq!(step.tcp.established, Some(3));
        assert_eq!(step.sockets.time_wait, Some(4));
        assert_eq!(step.tcp.segments_out, None);
    }

    #[test]
    fn an_answer_that_ends_early_or_says_no_is_an_error() {
        let mut table = SocketTable::default();
        let mut done = request(2, 7).to_vec();
        done[4..6].copy_from_slice(&NLMSG_DONE.to_ne_bytes());
        assert!(table.take(&done, 7).unwrap());
        assert!(!table.take(&done, 8).unwrap(), "of another request");
        assert!(table.take(&done[..20], 7).is_err());
        done[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        done[HEADER..HEADER + 4].copy_from_slice(&(-libc::EPERM).to_ne_bytes());
        let error = table.take(&done, 7).unwrap_err();
        assert_eq!(error.errno(), Some(libc::EPERM));
        assert_eq!(table, SocketTable::default());
    }
}
