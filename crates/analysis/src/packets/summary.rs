//! What the accounting of a capture comes to.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use fathometer_model::{Bytes, Instant};
use serde::{Deserialize, Serialize};

use super::capture::{Format, Integrity, LinkType};
use super::class::{Class, ClassCounts};
use super::list::ConnectionList;
use super::quantiles::RttSummary;
use super::tap::TapChoice;

/// Which way a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the side that sent the first SYN. Where the capture has no SYN of a connection: from
    /// the client by the tap's name, else towards the lower port. Of UDP: from the end that sent the flow's
    /// first datagram, or away from it where that came from a system port and went to another.
    Up,
    /// The other way.
    Down,
}

impl Direction {
    /// Both.
    pub const BOTH: [Direction; 2] = [Direction::Up, Direction::Down];

    /// The other one.
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

/// The accounting of a capture. A function of the file and the options alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Accounting {
    /// The file's format.
    pub format: Format,
    /// Whether the file could be read to its end.
    pub integrity: Integrity,
    /// What a reader of the figures should know: each a sentence.
    pub notes: Vec<String>,
    /// Which interfaces were counted.
    pub taps: TapChoice,
    /// The interfaces of the file.
    pub interfaces: Vec<InterfaceSummary>,
    /// The instant zero of every other instant here: the first packet of the file, counted or not,
    /// in nanoseconds since the Unix epoch.
    pub origin_unix_ns: u64,
    /// The first counted packet.
    pub first: Option<Instant>,
    /// The last counted packet.
    pub last: Option<Instant>,
    /// Counted packets by class. They sum to all counted packets.
    pub classes: ClassCounts,
    /// What the class `other` consists of.
    pub other: OtherCounts,
    /// Everything that went up, TCP or not.
    pub up: DirectionSummary,
    /// Everything that went down.
    pub down: DirectionSummary,
    /// Packets that are in neither direction because they are not IP or make no sense.
    pub undirected: u64,
    /// Packet trains within connections: runs of packets of one connection, whichever way they go,
    /// no two of them further apart than [`Options::train_gap`](super::Options::train_gap).
    pub trains: RunSummary,
    /// Runs of consecutive packets of the same connection in the order of the capture.
    pub runs: RunSummary,
    /// The gaps in connections that were longer than the threshold, in the order of their ends.
    pub idle_gaps: Vec<IdleGap>,
    /// Gaps beyond the threshold that were too many to list.
    pub idle_gaps_unlisted: u64,
    /// What the senders repeated and why; `None` unless the capture was taken where packets enter
    /// the path and says what the path dropped.
    pub sent: Option<SentSummary>,
    /// Every connection, in the order of their first packets.
    pub connections: ConnectionList,
}

impl Accounting {
    /// Counted packets.
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

    /// Counted packets that belong to connections.
    pub fn connection_packets(&self) -> u64 {
        self.connections.totals().packets.iter().sum()
    }

    /// Octets of IP packets.
    pub fn ip_bytes(&self) -> Bytes {
        self.up.ip_bytes + self.down.ip_bytes
    }

    /// Octets of TCP payload, repetitions included.
    pub fn payload_bytes(&self) -> Bytes {
        self.up.payload_bytes + self.down.payload_bytes
    }

    /// The share of TCP/IP headers by the rule of the papers, from 0 to 1: each packet of a
    /// connection has 40 octets of headers, whatever its options. `None` without packets.
    pub fn overhead_by_rule(&self) -> Option<f64> {
        let headers = 40.0 * self.connection_packets() as f64;
        let all = headers + self.payload_bytes().as_f64();
        (all > 0.0).then(|| headers / all)
    }

    /// The share of the headers that were really there, IP and TCP with options, from 0 to 1.
    pub fn overhead(&self) -> Option<f64> {
        let headers = (self.up.header_bytes + self.down.header_bytes).as_f64();
        let all = headers + self.payload_bytes().as_f64();
        (all > 0.0).then(|| headers / all)
    }

    /// The direction whose round-trip times cross the path: up when packets are taken at the
    /// client, down when they are taken at the server.
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

/// An interface and its share of the capture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceSummary {
    /// Its name, when the file tells.
    pub name: Option<String>,
    /// Its link type.
    pub link: LinkType,
    /// Packets taken there.
    pub packets: u64,
    /// Whether they count.
    pub counted: bool,
    /// Packets that the capture itself lost there, when the file tells.
    pub lost: u64,
    /// Packets that the path dropped there, by the comments beside them: cause and number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drops: BTreeMap<String, u64>,
}

/// What the class [`Class::Other`] consists of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherCounts {
    /// UDP datagrams.
    pub udp: u64,
    /// ICMP and ICMPv6 messages.
    pub icmp: u64,
    /// Fragments of IP packets.
    pub fragments: u64,
    /// TCP segments whose header is cut short or senseless, or that have none of SYN, ACK, FIN,
    /// RST and no payload.
    pub odd_tcp: u64,
    /// Other protocols over IP.
    pub other_ip: u64,
    /// Frames that carry no IP.
    pub not_ip: u64,
    /// Frames that claim to carry IP but whose IP header makes no sense.
    pub malformed: u64,
}

impl OtherCounts {
    /// All of them: as many as [`Class::Other`] has.
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

/// One direction of a connection, or of all connections and what is not TCP together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionSummary {
    /// Packets by class.
    pub classes: ClassCounts,
    /// Octets of IP packets.
    pub ip_bytes: Bytes,
    /// Octets of IP and TCP headers of TCP segments.
    pub header_bytes: Bytes,
    /// Octets of TCP payload, repetitions included.
    pub payload_bytes: Bytes,
    /// Octets of TCP payload, each position in the stream counted once.
    pub unique_payload_bytes: Bytes,
    /// Packets that repeat something seen before: payload, a SYN or a FIN.
    pub retransmitted_packets: u64,
    /// Octets of payload that were seen before. `payload_bytes` is the sum of this, of
    /// `unique_payload_bytes` and of the payload of probes and resets.
    pub retransmitted_bytes: Bytes,
    /// Packets that are new and yet lie before what was seen: reordered, or repetitions of packets
    /// lost before they came to this tap.
    pub out_of_order_packets: u64,
    /// Pure ACKs that acknowledge nothing new while data are outstanding, with an unchanged window
    /// or with selective acknowledgements (RFC 5681, RFC 6675).
    pub duplicate_acks: u64,
    /// Packets with the number before the next expected one and at most one octet, acknowledged
    /// already: they ask whether the peer is still there.
    pub keep_alives: u64,
    /// As keep-alives, or with one new octet, while the peer's window is closed.
    pub zero_window_probes: u64,
    /// Packets, other than SYN, FIN and RST, that announce a window of zero.
    pub zero_windows: u64,
    /// The smallest window announced after the SYN, scaled.
    pub window_min: Option<Bytes>,
    /// The largest.
    pub window_max: Option<Bytes>,
    /// Maximum segment size announced in the SYN; the smallest over several connections.
    pub mss: Option<u16>,
    /// Window scale offered in the SYN, a shift; the smallest over several connections.
    pub window_scale: Option<u8>,
    /// Whether selective acknowledgements were offered; by any, over several connections.
    pub sack_permitted: bool,
    /// Whether any packet carried time stamps.
    pub timestamps: bool,
    /// The most octets of sequence space that were sent and not yet acknowledged, as this tap saw.
    pub outstanding_max: Bytes,
    /// From a packet of this direction to the acknowledgement of exactly it, by Karn's rule: never
    /// across a repetition. At the sender's end this is the path's round trip, with the time the
    /// receiver waits before it acknowledges; at the receiver's end it is that wait alone.
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

    /// Adds another direction's figures, except the round-trip times, which do not add.
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

/// The lesser of those that are there.
fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// One connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConnectionSummary {
    /// Who opened it.
    pub client: SocketAddr,
    /// Who was asked.
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
    /// Its packet trains.
    pub trains: u64,
    /// From the client.
    pub up: DirectionSummary,
    /// From the server.
    pub down: DirectionSummary,
}

impl ConnectionSummary {
    /// Packets both ways.
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

/// How a connection ended, as far as the capture goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "how", content = "by")]
pub enum Ending {
    /// Both sides sent FIN. A RST after both loses nothing and does not change this.
    Closed,
    /// One side sent FIN, the other did not.
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
    /// How many.
    pub count: u64,
    /// Packets in all of them.
    pub packets: u64,
    /// Packets in the longest.
    pub longest: u64,
}

impl RunSummary {
    /// Packets in a run on average; `None` without runs.
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

/// A time in which nothing happened on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleGap {
    /// Index into [`Accounting::connections`].
    pub connection: u32,
    /// The packet before.
    pub start: Instant,
    /// How long, in nanoseconds.
    pub duration_ns: u64,
    /// What the packet before was.
    pub after: Happening,
    /// What the packet was that ended it.
    pub ended_by: Happening,
}

/// A packet in few words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happening {
    /// Its direction.
    pub direction: Direction,
    /// Its class.
    pub class: Class,
    /// Whether it repeated something.
    pub retransmission: bool,
}

/// `data down`, `data up again`.
impl std::fmt::Display for Happening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let again = if self.retransmission { " again" } else { "" };
        write!(f, "{} {}{again}", self.class, self.direction)
    }
}

/// What the senders repeated, seen where packets enter the path, each repetition joined with what
/// the path did to the packet it repeats.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentSummary {
    /// Repetitions by the client.
    pub up: Repetitions,
    /// Repetitions by the server.
    pub down: Repetitions,
    /// Each of them in the order of the capture, up to a limit.
    pub repetitions: Vec<Repetition>,
}

impl SentSummary {
    /// Both directions together.
    pub fn total(&self) -> Repetitions {
        let mut total = self.up.clone();
        total.spurious += self.down.spurious;
        for (cause, count) in &self.down.lost {
            *total.lost.entry(cause.clone()).or_default() += count;
        }
        total
    }
}

/// How often a sender repeated itself, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repetitions {
    /// Packets that repeat one that the path had dropped, by the path's cause.
    pub lost: BTreeMap<String, u64>,
    /// Packets that repeat one that the path had not dropped: the acknowledgement was lost or
    /// late, or the sender was hasty.
    pub spurious: u64,
}

impl Repetitions {
    /// Packets that repeat one that the path had dropped.
    pub fn lost_total(&self) -> u64 {
        self.lost.values().sum()
    }

    /// All packets that repeat another.
    pub fn total(&self) -> u64 {
        self.lost_total() + self.spurious
    }
}

/// One packet that repeats another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repetition {
    /// Index into [`Accounting::connections`].
    pub connection: u32,
    /// Who repeats.
    pub direction: Direction,
    /// When.
    pub at: Instant,
    /// Why the path had dropped what is repeated; `None` when it had not.
    pub cause: Option<String>,
}
