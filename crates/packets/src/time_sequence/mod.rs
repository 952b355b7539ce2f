//! The data of a time-sequence graph, as plain vectors (after Shepard's xplot and tcptrace).
//!
//! Each direction of a connection has its segments with their sequence numbers, and marks for notable events. It also
//! has two lines: the peer's acknowledgements, and above them the right edge of the peer's window. Sequence numbers are
//! relative to the first number seen in the direction (the SYN is 0, the first byte 1).
//!
//! Captures at this program's taps also have the path's drop log. Each dropped segment is then listed with the cause,
//! and each retransmission with the cause of the drop that it repairs.
//!
//! The number of points is bounded. Beyond the bound, points of one time bin are merged (`merge`), and
//! [`DirectionSequence::merged`] is the length of a bin. The sequence is never truncated.

mod merge;
mod recorder;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use fathometer_model::Instant;
use serde::{Deserialize, Serialize};

use super::connection_summary::Direction;

pub(super) use self::recorder::{Recorder, Transmission};

/// Default of [`Options::time_sequence_points`](super::Options::time_sequence_points).
pub const POINT_LIMIT: usize = 200_000;

/// The time sequence of one connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeSequence {
    /// Index into [`Accounting::connections`](super::Accounting::connections).
    pub connection: u32,
    /// The end that opened the connection.
    pub client: SocketAddr,
    /// The end that accepted the connection.
    pub server: SocketAddr,
    /// The direction from the client.
    pub up: DirectionSequence,
    /// The direction from the server.
    pub down: DirectionSequence,
    /// The names of the causes of drops, as the path gives them.
    #[serde(default)]
    pub causes: Vec<String>,
}

impl TimeSequence {
    /// Returns the sequence of one direction.
    pub fn direction(&self, direction: Direction) -> &DirectionSequence {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// Returns the same sequence with about `limit` points at most in each list of a direction; points of one time bin
    /// are merged.
    #[must_use]
    pub fn merged_to(mut self, limit: usize) -> TimeSequence {
        for direction in [&mut self.up, &mut self.down] {
            merge::to_limit(direction, limit.max(merge::SMALLEST_LIMIT));
        }
        self
    }

    /// Returns the length of the longest time bin whose points were merged; `None` if no points were merged.
    pub fn merged(&self) -> Option<Duration> {
        self.up.merged.max(self.down.merged)
    }
}

/// The segments that one end sent, and the acknowledgements and windows of its peer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionSequence {
    /// Segments that occupy sequence numbers, in the order seen.
    pub segments: Vec<SequenceSegment>,
    /// Acknowledgements by the peer: the time, and the first sequence number that is not acknowledged.
    pub acknowledgements: Vec<(Instant, u64)>,
    /// The edge of the window that the peer announced: the time, and the first number beyond it.
    pub window_edges: Vec<(Instant, u64)>,
    /// Notable events.
    pub marks: Vec<SequenceMark>,
    /// Segments of this end that the path dropped, whether or not they passed the counted tap. Only captures with the
    /// path's drop log contain drops.
    #[serde(default)]
    pub drops: Vec<SequenceDrop>,
    /// Number of drops by cause, including drops that are merged in `drops`.
    #[serde(default)]
    pub drop_counts: BTreeMap<u16, u64>,
    /// Retransmissions of this end, where they enter the path. Only captures with the sender's tap contain
    /// retransmissions.
    #[serde(default)]
    pub repeats: Vec<SequenceRepeat>,
    /// Length of the time bins whose points were merged because there were too many; `None` if no points were merged.
    #[serde(default)]
    pub merged: Option<Duration>,
}

impl DirectionSequence {
    /// Returns the first sequence number above all segments.
    pub fn end(&self) -> u64 {
        self.segments
            .iter()
            .map(|segment| segment.end)
            .max()
            .unwrap_or_default()
    }

    /// Returns the first sequence number above all segments and all drops: the height of a graph.
    pub fn extent(&self) -> u64 {
        let dropped = self.drops.iter().map(|dropped| dropped.end).max();
        self.end().max(dropped.unwrap_or_default())
    }
}

/// One segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceSegment {
    /// The time at which the segment was captured.
    pub at: Instant,
    /// The first sequence number of the segment.
    pub start: u64,
    /// The sequence number after the segment's last.
    pub end: u64,
    /// The relation of the segment to the segments seen before it.
    pub kind: SegmentKind,
}

/// A segment that the path dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceDrop {
    /// The time of the drop.
    pub at: Instant,
    /// The first sequence number of the segment.
    pub start: u64,
    /// The sequence number after the segment's last.
    pub end: u64,
    /// Index into [`TimeSequence::causes`].
    pub cause: u16,
}

/// A retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceRepeat {
    /// The time at which the retransmission entered the path.
    pub at: Instant,
    /// The first sequence number of the retransmission.
    pub start: u64,
    /// The sequence number after the retransmission's last.
    pub end: u64,
    /// The cause of the drop that the retransmission repairs, an index into [`TimeSequence::causes`]; `None` if the
    /// path had not dropped the bytes (a spurious retransmission).
    pub after: Option<u16>,
}

/// The relation of a segment to the segments seen before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SegmentKind {
    /// All sequence numbers of the segment are above the highest seen.
    New,
    /// The segment is new, but has lower sequence numbers than the highest seen.
    OutOfOrder,
    /// At least a part of the segment was seen before.
    Repeated,
    /// A keep-alive or window probe.
    Probe,
}

/// A notable event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceMark {
    /// The time of the event.
    pub at: Instant,
    /// The sequence number of the event in the direction.
    pub sequence: u64,
    /// The kind of event.
    pub kind: MarkKind,
}

/// The kind of a notable event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkKind {
    /// This end opens the direction.
    Syn,
    /// This end closes the direction.
    Fin,
    /// This end aborts the connection.
    Reset,
    /// The peer sends a duplicate acknowledgement.
    DuplicateAcknowledgement,
    /// The peer's window is closed.
    ZeroWindow,
}

#[cfg(test)]
mod tests;
