//! The result of accounting a capture.

use std::collections::BTreeMap;

use fathometer_model::{Bytes, Instant};
use serde::{Deserialize, Serialize};

use super::capture::{Format, Integrity, LinkType};
use super::class::{Class, ClassCounts};
use super::connection_summary::{Direction, DirectionSummary};
use super::list::ConnectionList;
use super::tap::TapChoice;

/// The accounting of a capture. The result depends only on the file and the options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Accounting {
    /// The file's format.
    pub format: Format,
    /// The integrity of the file: complete, truncated or damaged.
    pub integrity: Integrity,
    /// Notes for the reader of the figures, one sentence each.
    pub notes: Vec<String>,
    /// The counted interfaces.
    pub taps: TapChoice,
    /// The interfaces of the file.
    pub interfaces: Vec<InterfaceSummary>,
    /// The origin of all instants in this structure: the time of the first packet of the file (counted or not),
    /// in nanoseconds since the Unix epoch.
    pub origin_unix_ns: u64,
    /// The time of the first counted packet.
    pub first: Option<Instant>,
    /// The time of the last counted packet.
    pub last: Option<Instant>,
    /// Counted packets by class; the classes add up to all counted packets.
    pub classes: ClassCounts,
    /// The packets in the class `other`, by kind.
    pub other: OtherCounts,
    /// Totals of the direction up, including packets other than TCP.
    pub up: DirectionSummary,
    /// Totals of the direction down, including packets other than TCP.
    pub down: DirectionSummary,
    /// Number of packets without a direction, because they are not IP or are invalid.
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
    /// The retransmissions of both senders and their causes. `None` unless the capture was taken where packets
    /// enter the path and reports the path's drops.
    pub sent: Option<SentSummary>,
    /// All connections, in the order of their first packets.
    pub connections: ConnectionList,
}

impl Accounting {
    /// Returns the number of counted packets.
    pub fn packets(&self) -> u64 {
        self.classes.total()
    }

    /// Returns the totals of one direction.
    pub fn direction(&self, direction: Direction) -> &DirectionSummary {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// Returns the number of counted packets in connections.
    pub fn connection_packets(&self) -> u64 {
        self.connections.totals().packets.iter().sum()
    }

    /// Returns the bytes of all IP packets.
    pub fn ip_bytes(&self) -> Bytes {
        self.up.ip_bytes + self.down.ip_bytes
    }

    /// Returns the bytes of TCP payload, including retransmissions.
    pub fn payload_bytes(&self) -> Bytes {
        self.up.payload_bytes + self.down.payload_bytes
    }

    /// Returns the share of TCP/IP headers by the rule of the papers, from 0 to 1: each packet of a connection counts
    /// as 40 bytes of headers, with or without options. `None` if there are no packets.
    pub fn overhead_by_rule(&self) -> Option<f64> {
        let headers = 40.0 * self.connection_packets() as f64;
        let all = headers + self.payload_bytes().as_f64();
        (all > 0.0).then(|| headers / all)
    }

    /// Returns the share of the actual IP and TCP headers, including options, from 0 to 1.
    pub fn overhead(&self) -> Option<f64> {
        let headers = (self.up.header_bytes + self.down.header_bytes).as_f64();
        let all = headers + self.payload_bytes().as_f64();
        (all > 0.0).then(|| headers / all)
    }

    /// Returns the direction whose round-trip times include the path: up at the client's taps, down at the server's
    /// taps.
    pub fn rtt_direction(&self) -> Direction {
        match self.taps {
            TapChoice::Server => Direction::Down,
            _ => Direction::Up,
        }
    }

    /// Returns the longest gap between two packets of one connection, in nanoseconds.
    pub fn idle_max_ns(&self) -> Option<u64> {
        self.connections.totals().idle_max_ns
    }
}

/// An interface and its share of the capture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceSummary {
    /// The name of the interface, if the file contains it.
    pub name: Option<String>,
    /// The link type of the interface.
    pub link: LinkType,
    /// Number of packets captured at the interface.
    pub packets: u64,
    /// Whether the packets of the interface are counted.
    pub counted: bool,
    /// Number of packets that the capture itself lost at the interface, if the file reports it.
    pub lost: u64,
    /// Number of packets that the path dropped at the interface, by cause, from the comments in the capture.
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
    /// Frames marked as IP whose IP header is invalid.
    pub malformed: u64,
}

impl OtherCounts {
    /// Returns the number of packets in [`Class::Other`].
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
    /// Returns the mean number of packets per run; `None` if there are no runs.
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

/// A period without packets on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleGap {
    /// Index into [`Accounting::connections`].
    pub connection: u32,
    /// The time of the packet before the gap.
    pub start: Instant,
    /// The length of the gap, in nanoseconds.
    pub duration_ns: u64,
    /// The packet before the gap.
    pub after: PacketSummary,
    /// The packet that ended the gap.
    pub ended_by: PacketSummary,
}

/// A short description of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketSummary {
    /// The direction of the packet.
    pub direction: Direction,
    /// The class of the packet.
    pub class: Class,
    /// Whether the packet repeats an earlier packet.
    pub retransmission: bool,
}

/// Writes, for example, `data down` and `data up again`.
impl std::fmt::Display for PacketSummary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let again = if self.retransmission { " again" } else { "" };
        write!(f, "{} {}{again}", self.class, self.direction)
    }
}

/// The retransmissions of both senders, captured where packets enter the path. Each retransmission is matched with the
/// drop that it repairs, if any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentSummary {
    /// Retransmissions by the client.
    pub up: Repetitions,
    /// Retransmissions by the server.
    pub down: Repetitions,
    /// Every retransmission, in the order of the capture, up to a limit.
    pub repetitions: Vec<Repetition>,
}

impl SentSummary {
    /// Returns the sum of both directions.
    pub fn total(&self) -> Repetitions {
        let mut total = self.up.clone();
        total.spurious += self.down.spurious;
        for (cause, count) in &self.down.lost {
            *total.lost.entry(cause.clone()).or_default() += count;
        }
        total
    }
}

/// Number of a sender's retransmissions, by cause.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repetitions {
    /// Retransmissions of packets that the path dropped, by the path's cause.
    pub lost: BTreeMap<String, u64>,
    /// Retransmissions of packets that the path did not drop: the acknowledgement was lost or late, or the
    /// sender retransmitted too early.
    pub spurious: u64,
}

impl Repetitions {
    /// Returns the number of retransmissions of packets that the path dropped.
    pub fn lost_total(&self) -> u64 {
        self.lost.values().sum()
    }

    /// Returns the number of all retransmissions.
    pub fn total(&self) -> u64 {
        self.lost_total() + self.spurious
    }
}

/// A retransmission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repetition {
    /// Index into [`Accounting::connections`].
    pub connection: u32,
    /// The direction of the retransmission.
    pub direction: Direction,
    /// The time of the retransmission.
    pub at: Instant,
    /// The cause of the drop; `None` if the path had not dropped the repeated packet.
    pub cause: Option<String>,
}
