//! The result of the accounting of a capture.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fathometer_model::{Bytes, Instant};
use serde::{Deserialize, Serialize};

use super::capture::{Format, Integrity, LinkType};
use super::class::{Class, ClassCounts};
use super::list::ConnectionList;
use super::quantiles::RttSummary;
use super::tap::TapChoice;

/// The direction of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the side that sent the first SYN. If the capture has no SYN of a connection: from the client by the
    /// tap's name, otherwise towards the lower port. For UDP: from the end that sent the flow's first datagram.
    /// If that datagram came from a system port and went to another port, up is the opposite direction.
    Up,
    /// The opposite direction.
    Down,
}

impl Direction {
    /// Both directions.
    pub const BOTH: [Direction; 2] = [Direction::Up, Direction::Down];

    /// The opposite direction.
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

/// The accounting of a capture. It is a function of the file and the options alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Accounting {
    /// The file's format.
    pub format: Format,
    /// Whether the file could be read to its end.
    pub integrity: Integrity,
    /// Notes for a reader of the figures, one sentence each.
    pub notes: Vec<String>,
    /// The counted interfaces.
    pub taps: TapChoice,
    /// The interfaces of the file.
    pub interfaces: Vec<InterfaceSummary>,
    /// The zero of every instant here: the time of the first packet of the file, counted or not, in nanoseconds
    /// since the Unix epoch.
    pub origin_unix_ns: u64,
    /// The first counted packet.
    pub first: Option<Instant>,
    /// The last counted packet.
    pub last: Option<Instant>,
    /// Counted packets by class; the classes add up to all counted packets.
    pub classes: ClassCounts,
    /// The packets in the class `other`, by kind.
    pub other: OtherCounts,
    /// Totals of the direction up, TCP or not.
    pub up: DirectionSummary,
    /// Totals of the direction down.
    pub down: DirectionSummary,
    /// Packets without a direction, because they are not IP or are invalid.
    pub undirected: u64,
    /// Packet trains within connections: runs of packets of one connection, in either direction, with no gap
    /// longer than [`Options::train_gap`](super::Options::train_gap).
    pub trains: RunSummary,
    /// Runs of consecutive packets of one connection, in the order of the capture.
    pub runs: RunSummary,
    /// The gaps in connections that were longer than the threshold, in the order of their ends.
    pub idle_gaps: Vec<IdleGap>,
    /// Number of gaps above the threshold that are not listed, because the list was full.
    pub idle_gaps_unlisted: u64,
    /// The senders' repetitions and their causes. `None` unless the capture was taken where packets enter the
    /// path and reports the path's drops.
    pub sent: Option<SentSummary>,
    /// Every connection, in the order of the first packets.
    pub connections: ConnectionList,
}

impl Accounting {
    /// Number of counted packets.
    pub fn packets(&self) -> u64 {
        self.classes.total()
    }

    /// One direction's totals.
    pub fn direction(&self, direction: Direction) -> &DirectionSummary {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// Number of counted packets in connections.
    pub fn connection_packets(&self) -> u64 {
        self.connections.totals().packets.iter().sum()
    }

    /// Bytes of IP packets.
    pub fn ip_bytes(&self) -> Bytes {
        self.up.ip_bytes + self.down.ip_bytes
    }

    /// Bytes of TCP payload, repetitions included.
    pub fn payload_bytes(&self) -> Bytes {
        self.up.payload_bytes + self.down.payload_bytes
    }

    /// The share of TCP/IP headers by the rule of the papers, from 0 to 1: each packet of a connection has 40
    /// bytes of headers, whatever its options. `None` without packets.
    pub fn overhead_by_rule(&self) -> Option<f64> {
        let headers = 40.0 * self.connection_packets() as f64;
        let all = headers + self.payload_bytes().as_f64();
        (all > 0.0).then(|| headers / all)
    }

    /// The share of the actual headers, IP and TCP with options, from 0 to 1.
    pub fn overhead(&self) -> Option<f64> {
        let headers = (self.up.header_bytes + self.down.header_bytes).as_f64();
        let all = headers + self.payload_bytes().as_f64();
        (all > 0.0).then(|| headers / all)
    }

    /// The direction whose round-trip times cross the path: up when packets are captured at the client, down
    /// when they are captured at the server.
    pub fn rtt_direction(&self) -> Direction {
        match self.taps {
            TapChoice::Server => Direction::Down,
            _ => Direction::Up,
        }
    }

    /// The longest gap between two packets of one connection, in nanoseconds.
    pub fn idle_max_ns(&self) -> Option<u64> {
        self.connections.totals().idle_max_ns
    }
}

/// An interface and its part of the capture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceSummary {
    /// Its name, if the file has one.
    pub name: Option<String>,
    /// Its link type.
    pub link: LinkType,
    /// Packets captured there.
    pub packets: u64,
    /// Whether its packets are counted.
    pub counted: bool,
    /// Packets that the capture itself lost there, if the file reports them.
    pub lost: u64,
    /// Packets that the path dropped there, by the comments in the capture: number by cause.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drops: BTreeMap<String, u64>,
}

/// The packets in the class [`Class::Other`], by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherCounts {
    /// UDP datagrams.
    pub udp: u64,
    /// ICMP and ICMPv6 messages.
    pub icmp: u64,
    /// Fragments of IP packets.
    pub fragments: u64,
    /// TCP segments whose header is incomplete or invalid, or that have no payload and none of SYN, ACK, FIN
    /// and RST.
    pub odd_tcp: u64,
    /// Other protocols over IP.
    pub other_ip: u64,
    /// Frames without IP.
    pub not_ip: u64,
    /// Frames that claim to carry IP but whose IP header is invalid.
    pub malformed: u64,
}

impl OtherCounts {
    /// The sum: the number of packets in [`Class::Other`].
    pub fn total(&self) -> u64 {
        self.udp
            + self.icmp
            + self.fragments
            + self.odd_tcp
            + self.other_ip
            + self.not_ip
            + self.malformed
    }
}

/// One direction of a connection, or of all connections together with the packets other than TCP.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionSummary {
    /// Packets by class.
    pub classes: ClassCounts,
    /// Bytes of IP packets.
    pub ip_bytes: Bytes,
    /// Bytes of IP and TCP headers of TCP segments.
    pub header_bytes: Bytes,
    /// Bytes of TCP payload, repetitions included.
    pub payload_bytes: Bytes,
    /// Bytes of TCP payload, each position in the stream counted once.
    pub unique_payload_bytes: Bytes,
    /// Packets that repeat something seen before: payload, a SYN or a FIN.
    pub retransmitted_packets: u64,
    /// Bytes of payload that were seen before. `payload_bytes` is the sum of this, of `unique_payload_bytes`
    /// and of the payload of probes and resets.
    pub retransmitted_bytes: Bytes,
    /// Packets that are new but lie before what was seen: reordered, or repetitions of packets that were lost
    /// before this tap.
    pub out_of_order_packets: u64,
    /// Pure ACKs that acknowledge nothing new while data are outstanding, with an unchanged window or with
    /// selective acknowledgements (RFC 5681, RFC 6675).
    pub duplicate_acks: u64,
    /// Keep-alives: packets with the number before the next expected one and with at most one byte, which is
    /// already acknowledged.
    pub keep_alives: u64,
    /// As keep-alives, or with one new byte, while the peer's window is closed.
    pub zero_window_probes: u64,
    /// Packets, other than SYN, FIN and RST, that announce a window of zero.
    pub zero_windows: u64,
    /// The smallest window announced after the SYN, scaled.
    pub window_min: Option<Bytes>,
    /// The largest window announced after the SYN, scaled.
    pub window_max: Option<Bytes>,
    /// Maximum segment size announced in the SYN; the smallest over several connections.
    pub mss: Option<u16>,
    /// Window scale (a shift) offered in the SYN; the smallest over several connections.
    pub window_scale: Option<u8>,
    /// Whether selective acknowledgements were offered; over several connections, whether any offered them.
    pub sack_permitted: bool,
    /// Whether any packet carried time stamps.
    pub timestamps: bool,
    /// The largest number of bytes of sequence space that were sent but not acknowledged, as seen at this tap.
    pub outstanding_max: Bytes,
    /// The time from a packet of this direction to the acknowledgement of exactly this packet, by Karn's rule:
    /// never across a repetition. At the sender's end this is the path's round trip plus the receiver's delay
    /// of the acknowledgement; at the receiver's end it is that delay alone.
    pub rtt: Option<RttSummary>,
    /// The first packet.
    pub first: Option<Instant>,
    /// The last packet.
    pub last: Option<Instant>,
}

impl DirectionSummary {
    /// Packets of all classes.
    pub fn packets(&self) -> u64 {
        self.classes.total()
    }

    /// Adds the figures of another direction, except the round-trip times, which cannot be added.
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

/// The smaller of the values that are present.
fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// One connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConnectionSummary {
    /// The end that opened it.
    pub client: SocketAddr,
    /// The end that accepted it.
    pub server: SocketAddr,
    /// Whether the capture holds the SYN.
    pub opening_seen: bool,
    /// Its first packet.
    pub first: Instant,
    /// Its last packet.
    pub last: Instant,
    /// How it ended.
    pub ending: Ending,
    /// The longest time between two of its packets, in nanoseconds.
    pub idle_max_ns: u64,
    /// Number of its packet trains.
    pub trains: u64,
    /// The direction from the client.
    pub up: DirectionSummary,
    /// The direction from the server.
    pub down: DirectionSummary,
}

impl ConnectionSummary {
    /// Number of packets, both directions.
    pub fn packets(&self) -> u64 {
        self.up.packets() + self.down.packets()
    }

    /// One direction.
    pub fn direction(&self, direction: Direction) -> &DirectionSummary {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}

/// How a connection ended, as far as the capture shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "how", content = "by")]
pub enum Ending {
    /// Both sides sent FIN. A RST after both FINs loses no data and does not change this.
    Closed,
    /// One side sent FIN, the other did not; the direction is that of the FIN.
    HalfClosed(Direction),
    /// Aborted by a RST before both sides had sent FIN.
    Reset(Direction),
    /// Neither FIN nor RST.
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

/// Runs of packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSummary {
    /// Number of runs.
    pub count: u64,
    /// Number of packets in all runs.
    pub packets: u64,
    /// Number of packets in the longest run.
    pub longest: u64,
}

impl RunSummary {
    /// Mean number of packets per run; `None` without runs.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.packets as f64 / self.count as f64)
    }

    pub(super) fn add(&mut self, packets: u64) {
        if packets > 0 {
            self.count += 1;
            self.packets += packets;
            self.longest = self.longest.max(packets);
        }
    }
}

/// A time without packets on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleGap {
    /// Index into [`Accounting::connections`].
    pub connection: u32,
    /// The time of the packet before.
    pub start: Instant,
    /// The length in nanoseconds.
    pub duration_ns: u64,
    /// The packet before.
    pub after: Happening,
    /// The packet that ended it.
    pub ended_by: Happening,
}

/// A short description of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happening {
    /// Its direction.
    pub direction: Direction,
    /// Its class.
    pub class: Class,
    /// Whether it repeats an earlier packet.
    pub retransmission: bool,
}

/// `data down`, `data up again`.
impl std::fmt::Display for Happening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let again = if self.retransmission { " again" } else { "" };
        write!(f, "{} {}{again}", self.class, self.direction)
    }
}

/// The senders' repetitions, seen where packets enter the path. Each is joined with what the path did to the
/// packet that it repeats.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentSummary {
    /// Repetitions by the client.
    pub up: Repetitions,
    /// Repetitions by the server.
    pub down: Repetitions,
    /// Every repetition, in the order of the capture, up to a limit.
    pub repetitions: Vec<Repetition>,
}

impl SentSummary {
    /// The sum of both directions.
    pub fn total(&self) -> Repetitions {
        let mut total = self.up.clone();
        total.spurious += self.down.spurious;
        for (cause, count) in &self.down.lost {
            *total.lost.entry(cause.clone()).or_default() += count;
        }
        total
    }
}

/// How many packets a sender repeated, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repetitions {
    /// Repetitions of packets that the path dropped, by the path's cause.
    pub lost: BTreeMap<String, u64>,
    /// Repetitions of packets that the path did not drop: the acknowledgement was lost or late, or the sender
    /// repeated too early.
    pub spurious: u64,
}

impl Repetitions {
    /// Number of repetitions of packets that the path dropped.
    pub fn lost_total(&self) -> u64 {
        self.lost.values().sum()
    }

    /// Number of all repetitions.
    pub fn total(&self) -> u64 {
        self.lost_total() + self.spurious
    }
}

/// One packet that repeats another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repetition {
    /// Index into [`Accounting::connections`].
    pub connection: u32,
    /// The direction of the repetition.
    pub direction: Direction,
    /// The time of the repetition.
    pub at: Instant,
    /// The cause of the drop; `None` when the path had not dropped the repeated packet.
    pub cause: Option<String>,
}
