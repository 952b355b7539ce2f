//! The kernel's description of one connection, in a list of all sockets.

use std::net::SocketAddr;
use std::time::Duration;

use fathometer_model::Bytes;

use super::diagnosis::{Answer, INFO, MEMORY, u32_at};
use crate::tcp_info::TcpInfo;

/// The state of a TCP socket (RFC 9293), with Linux's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TcpState {
    /// ESTABLISHED.
    Established,
    /// SYN_SENT.
    SynSent,
    /// SYN_RECV: half-open, not yet accepted by a program.
    SynReceived,
    /// FIN_WAIT1.
    FinWait1,
    /// FIN_WAIT2.
    FinWait2,
    /// TIME_WAIT.
    TimeWait,
    /// CLOSE: neither bound nor connected, or just closed.
    Closed,
    /// CLOSE_WAIT: the peer has closed its side, the local program has not.
    CloseWait,
    /// LAST_ACK.
    LastAck,
    /// LISTEN.
    Listening,
    /// CLOSING.
    Closing,
}

impl TcpState {
    /// Returns the state with the kernel's number.
    pub(super) fn of(number: u8) -> TcpState {
        match number {
            1 => TcpState::Established,
            2 => TcpState::SynSent,
            // Inside the kernel, half-open connections have a separate state (12).
            3 | 12 => TcpState::SynReceived,
            4 => TcpState::FinWait1,
            5 => TcpState::FinWait2,
            6 => TcpState::TimeWait,
            8 => TcpState::CloseWait,
            9 => TcpState::LastAck,
            10 => TcpState::Listening,
            11 => TcpState::Closing,
            _ => TcpState::Closed,
        }
    }
}

/// The kernel memory of one socket, in bytes, including overhead (`INET_DIAG_SKMEMINFO`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SocketMemory {
    /// Received data that has not been read.
    pub receive: Bytes,
    /// Data to be sent or acknowledged.
    pub send: Bytes,
    /// Memory reserved for later data of this socket.
    pub reserved: Bytes,
    /// Socket options and similar data.
    pub options: Bytes,
}

impl SocketMemory {
    /// Returns the sum of all kinds.
    pub fn total(&self) -> Bytes {
        self.receive + self.send + self.reserved + self.options
    }

    /// Parses `rmem_alloc`, `rcvbuf`, `wmem_alloc`, `sndbuf`, `fwd_alloc`, `wmem_queued`, `optmem`, …
    pub(super) fn parse(attribute: &[u8]) -> Option<SocketMemory> {
        let word = |n: usize| Bytes(u64::from(u32_at(attribute, 4 * n)));
        (attribute.len() >= 28).then(|| SocketMemory {
            receive: word(0),
            send: word(5),
            reserved: word(4),
            options: word(6),
        })
    }
}

/// One TCP socket of a namespace: a connection, or a listener. Source: sock_diag, with `INET_DIAG_INFO` and
/// `INET_DIAG_SKMEMINFO`. A figure that this kernel does not provide is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The local endpoint. An IPv4-mapped IPv6 address is given as IPv4.
    pub local: SocketAddr,
    /// The remote endpoint.
    pub remote: SocketAddr,
    /// The state of the socket.
    pub state: TcpState,
    /// Unread received data, in bytes of the stream; `None` for a listener.
    pub unread: Option<Bytes>,
    /// Data written and not acknowledged yet, sent or not, in bytes of the stream; `None` for a listener.
    pub unacknowledged: Option<Bytes>,
    /// The kernel memory of the socket. `None` in TIME_WAIT and for half-open connections, which are not full sockets.
    pub memory: Option<SocketMemory>,
    /// The TCP state, as a program can read it from its own sockets: congestion window, round trips, bytes,
    /// retransmissions, rates. `None` in the same cases as `memory`, and for listeners.
    pub tcp: Option<TcpInfo>,
}

impl Connection {
    pub(super) fn of(answer: &Answer<'_>) -> Connection {
        let state = TcpState::of(answer.state());
        let listens = state == TcpState::Listening;
        let queue = |bytes: u32| (!listens).then(|| Bytes(u64::from(bytes)));
        Connection {
            local: answer.local(),
            remote: answer.remote(),
            state,
            unread: queue(answer.receive_queue()),
            unacknowledged: queue(answer.send_queue()),
            memory: answer.attribute(MEMORY).and_then(SocketMemory::parse),
            // Excluded for a listener: the kernel's values then describe the backlog.
            tcp: answer
                .attribute(INFO)
                .filter(|_| !listens)
                .map(TcpInfo::parse),
        }
    }

    /// Returns the congestion window, in segments.
    pub fn congestion_window(&self) -> Option<u32> {
        self.tcp.as_ref().map(|tcp| tcp.congestion_window_segments)
    }

    /// Returns the smoothed round-trip time; `None` before the first sample.
    pub fn round_trip(&self) -> Option<Duration> {
        let time = self.tcp.as_ref().map(|tcp| tcp.round_trip);
        time.filter(|time| !time.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::super::diagnosis::tests::message;
    use super::*;

    /// Builds `struct tcp_info` with a congestion window, in an old kernel's layout.
    fn info(window: u32, round_trip: u32) -> Vec<u8> {
        let mut raw = vec![0; 104];
        raw[68..72].copy_from_slice(&round_trip.to_ne_bytes());
        raw[80..84].copy_from_slice(&window.to_ne_bytes());
        raw
    }

    fn memory() -> Vec<u8> {
        (1u32..=9).flat_map(u32::to_ne_bytes).collect()
    }

    #[test]
    fn a_connection_has_the_figures_of_the_kernel() {
        let bytes = message(1, &[(INFO, info(12, 45_000)), (MEMORY, memory())]);
        let connection = Connection::of(&Answer::new(&bytes).unwrap());
        assert_eq!(connection.state, TcpState::Established);
        assert_eq!(connection.congestion_window(), Some(12));
        assert_eq!(connection.round_trip(), Some(Duration::from_millis(45)));
        assert_eq!(connection.unread, Some(Bytes(7)));
        assert_eq!(connection.unacknowledged, Some(Bytes(9)));
        let held = connection.memory.unwrap();
        assert_eq!((held.receive, held.send), (Bytes(1), Bytes(6)));
        assert_eq!((held.reserved, held.options), (Bytes(5), Bytes(7)));
        assert_eq!(held.total(), Bytes(19));
        let tcp = connection.tcp.unwrap();
        assert_eq!((tcp.bytes_sent, tcp.delivery_rate), (None, None));
    }

    #[test]
    fn sockets_without_a_connection_have_no_figures() {
        let bytes = message(6, &[]);
        let waiting = Connection::of(&Answer::new(&bytes).unwrap());
        assert_eq!(waiting.state, TcpState::TimeWait);
        assert_eq!((waiting.memory, waiting.tcp), (None, None));
        let bytes = message(10, &[(INFO, info(10, 0)), (MEMORY, memory())]);
        let listener = Connection::of(&Answer::new(&bytes).unwrap());
        assert_eq!((listener.unread, listener.unacknowledged), (None, None));
        assert_eq!(
            (listener.congestion_window(), listener.round_trip()),
            (None, None)
        );
        let bytes = message(12, &[(MEMORY, vec![0; 8])]);
        let half_open = Connection::of(&Answer::new(&bytes).unwrap());
        assert_eq!(half_open.state, TcpState::SynReceived);
        assert_eq!(half_open.memory, None, "too short to parse");
    }
}
