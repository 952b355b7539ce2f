//! The figures of a connection and of its two directions.

use std::net::SocketAddr;

use fathometer_model::{Bytes, Instant};
use serde::{Deserialize, Serialize};

use super::class::ClassCounts;
use super::quantiles::RttSummary;

/// The direction of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the client to the server. The client is the side that sent the first SYN. If the capture has no SYN, the
    /// tap's name determines the client; otherwise the end with the higher port is the client. For UDP, the client is
    /// the sender of the flow's first datagram, unless that datagram went from a system port to another port.
    Up,
    /// The opposite direction.
    Down,
}

impl Direction {
    /// Both directions: up, then down.
    pub const BOTH: [Direction; 2] = [Direction::Up, Direction::Down];

    /// Returns the opposite of this direction.
    pub fn opposite(self) -> Direction {
        match self {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        }
    }
}

impl std::fmt::Display for Direction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Direction::Up => "up",
            Direction::Down => "down",
        })
    }
}

/// One direction of a connection, or of all connections and of packets other than TCP.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionSummary {
    /// Packets by class.
    pub classes: ClassCounts,
    /// Bytes of IP packets.
    pub ip_bytes: Bytes,
    /// Bytes of IP and TCP headers of TCP segments.
    pub header_bytes: Bytes,
    /// Bytes of TCP payload, including retransmissions.
    pub payload_bytes: Bytes,
    /// Bytes of TCP payload; each byte of the stream counts once.
    pub unique_payload_bytes: Bytes,
    /// Packets that repeat payload, a SYN or a FIN that was seen before.
    pub retransmitted_packets: u64,
    /// Bytes of payload that were seen before. `payload_bytes` is the sum of this number,
    /// `unique_payload_bytes`, and the payload of probes and resets.
    pub retransmitted_bytes: Bytes,
    /// Packets with new sequence numbers below the highest number seen: reordered packets, or retransmissions of
    /// packets that were lost before this tap.
    pub out_of_order_packets: u64,
    /// Duplicate ACKs: pure ACKs without new acknowledged data while data is outstanding, with an unchanged window or
    /// with selective acknowledgements (RFC 5681, RFC 6675).
    pub duplicate_acks: u64,
    /// Keep-alives: packets whose sequence number is one below the next expected number, with at most one byte,
    /// which is already acknowledged.
    pub keep_alives: u64,
    /// Zero-window probes: packets with the form of a keep-alive, or with one new byte, while the peer's window is
    /// closed.
    pub zero_window_probes: u64,
    /// Packets, other than SYN, FIN and RST, that announce a window of zero.
    pub zero_windows: u64,
    /// The smallest window announced after the SYN, in bytes after scaling.
    pub window_min: Option<Bytes>,
    /// The largest window announced after the SYN, in bytes after scaling.
    pub window_max: Option<Bytes>,
    /// Maximum segment size announced in the SYN; over several connections, the minimum.
    pub mss: Option<u16>,
    /// Window scale (a shift) offered in the SYN; over several connections, the minimum.
    pub window_scale: Option<u8>,
    /// Whether selective acknowledgements were offered; over several connections, whether any offered them.
    pub sack_permitted: bool,
    /// Whether any packet carried time stamps.
    pub timestamps: bool,
    /// The maximum number of bytes in flight (sent but not acknowledged), as seen at this tap.
    pub outstanding_max: Bytes,
    /// The time from a packet of this direction to the acknowledgement of exactly this packet. By Karn's rule,
    /// retransmitted data gives no sample. At the sender's tap, this is the path's round-trip time plus the receiver's
    /// acknowledgement delay. At the receiver's tap, it is the acknowledgement delay alone.
    pub rtt: Option<RttSummary>,
    /// The time of the first packet.
    pub first: Option<Instant>,
    /// The time of the last packet.
    pub last: Option<Instant>,
}

impl DirectionSummary {
    /// Returns the number of packets of all classes.
    pub fn packets(&self) -> u64 {
        self.classes.total()
    }

    /// Adds the figures of another direction, except for round-trip times, which cannot be added.
    pub(super) fn absorb(&mut self, other: &DirectionSummary) {
        self.classes += other.classes;
        self.ip_bytes += other.ip_bytes;
        self.header_bytes += other.header_bytes;
        self.payload_bytes += other.payload_bytes;
        self.unique_payload_bytes += other.unique_payload_bytes;
        self.retransmitted_packets += other.retransmitted_packets;
        self.retransmitted_bytes += other.retransmitted_bytes;
        self.out_of_order_packets += other.out_of_order_packets;
        self.duplicate_acks += other.duplicate_acks;
        self.keep_alives += other.keep_alives;
        self.zero_window_probes += other.zero_window_probes;
        self.zero_windows += other.zero_windows;
        self.window_min = least(self.window_min, other.window_min);
        self.window_max = self.window_max.max(other.window_max);
        self.mss = least(self.mss, other.mss);
        self.window_scale = least(self.window_scale, other.window_scale);
        self.sack_permitted |= other.sack_permitted;
        self.timestamps |= other.timestamps;
        self.outstanding_max = self.outstanding_max.max(other.outstanding_max);
        self.first = least(self.first, other.first);
        self.last = self.last.max(other.last);
    }
}

/// Returns the smaller of two values; if only one value is present, returns that value.
fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// One connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConnectionSummary {
    /// The end that opened the connection.
    pub client: SocketAddr,
    /// The end that accepted the connection.
    pub server: SocketAddr,
    /// Whether the capture contains the SYN.
    pub opening_seen: bool,
    /// The time of the first packet.
    pub first: Instant,
    /// The time of the last packet.
    pub last: Instant,
    /// The ending of the connection.
    pub ending: Ending,
    /// The longest time between two packets of the connection, in nanoseconds.
    pub idle_max_ns: u64,
    /// Number of packet trains of the connection.
    pub trains: u64,
    /// The direction from the client.
    pub up: DirectionSummary,
    /// The direction from the server.
    pub down: DirectionSummary,
}

impl ConnectionSummary {
    /// Returns the number of packets in both directions.
    pub fn packets(&self) -> u64 {
        self.up.packets() + self.down.packets()
    }

    /// Returns the figures of one direction.
    pub fn direction(&self, direction: Direction) -> &DirectionSummary {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}

/// The ending of a connection, according to the capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "how", content = "by")]
pub enum Ending {
    /// Both sides sent FIN. A RST after both FINs loses no data and is ignored.
    Closed,
    /// Only one side sent FIN; the value is the direction of the FIN.
    HalfClosed(Direction),
    /// A RST aborted the connection before both sides had sent FIN; the value is the direction of the RST.
    Reset(Direction),
    /// The capture has neither a FIN nor a RST of the connection.
    Open,
}

impl std::fmt::Display for Ending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let side = |by: &Direction| match by {
            Direction::Up => "client",
            Direction::Down => "server",
        };
        match self {
            Ending::Closed => f.pad("closed"),
            Ending::HalfClosed(by) => f.pad(&format!("half-closed by {}", side(by))),
            Ending::Reset(by) => f.pad(&format!("reset by {}", side(by))),
            Ending::Open => f.pad("open"),
        }
    }
}
