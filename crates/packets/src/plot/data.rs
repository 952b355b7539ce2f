//! The graph of [`time_sequences`](super::time_sequences) as data, for an interactive viewer.
//!
//! Times are whole microseconds since the first event of all connections. Connections are stacked: the sequence numbers
//! of each connection begin at its field `below`. Points are lists of numbers without names, because a page may have
//! 10^5 points.

use fathometer_model::Instant;
use serde::Serialize;

use super::{begin, end};
use crate::connection_summary::Direction;
use crate::time_sequence::{DirectionSequence, MarkKind, SegmentKind, TimeSequence};

/// One direction of all connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Panel {
    /// The heading of the panel.
    pub title: &'static str,
    /// The time of the last event, in microseconds.
    pub end_us: u64,
    /// The height of all connections together, in sequence numbers (bytes).
    pub bytes: u64,
    /// Points in time bins of this length, in nanoseconds, are merged; 0 if no points are merged.
    pub merged_ns: u64,
    /// Connections in the order in which they were opened.
    pub connections: Vec<Connection>,
}

/// One connection of a panel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Connection {
    /// The addresses and ports of both ends.
    pub name: String,
    /// The total height of the connections drawn below this connection, in sequence numbers.
    pub below: u64,
    /// Time, first number, number after the last, and kind (0 new, 1 out of order, 2 repeated, 3 probe) of each
    /// segment.
    pub segments: Vec<(u64, u64, u64, u8)>,
    /// Time, and the first number that is not acknowledged.
    pub acknowledged: Vec<(u64, u64)>,
    /// Time, and the first number beyond the receiver's window.
    pub window: Vec<(u64, u64)>,
    /// Time, sequence number and name of each mark.
    pub marks: Vec<(u64, u64, &'static str)>,
    /// Time, first number, number after the last, and cause of each drop.
    pub drops: Vec<(u64, u64, u64, String)>,
    /// Time, first number, number after the last, and the cause of the drop that the retransmission repairs. The cause
    /// is `null` if the path had not dropped the bytes.
    pub repeats: Vec<(u64, u64, u64, Option<String>)>,
}

/// Returns the panels of the segments from the server and from the client; `None` if there is nothing to draw.
pub fn panels(sequences: &[TimeSequence]) -> Option<[Panel; 2]> {
    let mut opened: Vec<(Instant, &TimeSequence)> = sequences
        .iter()
        .filter_map(|sequence| Some((begin(sequence)?, sequence)))
        .collect();
    opened.sort_by_key(|(at, _)| *at);
    let start = opened.first()?.0;
    let sequences: Vec<&TimeSequence> = opened.into_iter().map(|(_, s)| s).collect();
    let end = sequences.iter().copied().filter_map(end).max()?;
    let panel = |title, direction| {
        let mut below = 0;
        let connections = sequences.iter().map(|sequence| {
            let connection = connection(sequence, direction, start, below);
            below += sequence.direction(direction).extent();
            connection
        });
        let connections = connections.collect();
        let merged = sequences
            .iter()
            .filter_map(|s| s.direction(direction).merged);
        Panel {
            title,
            end_us: micros(end, start),
            bytes: below,
            merged_ns: merged.max().map_or(0, |bin| bin.as_nanos() as u64),
            connections,
        }
    };
    Some([
        panel("From the server", Direction::Down),
        panel("From the client", Direction::Up),
    ])
}

fn connection(
    sequence: &TimeSequence,
    direction: Direction,
    start: Instant,
    below: u64,
) -> Connection {
    let DirectionSequence {
        segments,
        acknowledgements,
        window_edges,
        marks,
        drops,
        repeats,
        ..
    } = sequence.direction(direction);
    let time = |at: Instant| micros(at, start);
    let cause = |index| super::cause_name(&sequence.causes, index).to_owned();
    let line = |points: &[(Instant, u64)]| {
        let points = points.iter();
        points.map(|(at, number)| (time(*at), *number)).collect()
    };
    let segments = segments.iter();
    let drops = drops.iter();
    let repeats = repeats.iter();
    Connection {
        name: format!("{} to {}", sequence.client, sequence.server),
        below,
        segments: segments
            .map(|s| (time(s.at), s.start, s.end, kind(s.kind)))
            .collect(),
        acknowledged: line(acknowledgements),
        window: line(window_edges),
        marks: marks
            .iter()
            .map(|mark| (time(mark.at), mark.sequence, mark_name(mark.kind)))
            .collect(),
        drops: drops
            .map(|d| (time(d.at), d.start, d.end, cause(d.cause)))
            .collect(),
        repeats: repeats
            .map(|r| (time(r.at), r.start, r.end, r.after.map(cause)))
            .collect(),
    }
}

fn micros(at: Instant, start: Instant) -> u64 {
    at.as_nanos().saturating_sub(start.as_nanos()) / 1_000
}

fn kind(kind: SegmentKind) -> u8 {
    match kind {
        SegmentKind::New => 0,
        SegmentKind::OutOfOrder => 1,
        SegmentKind::Repeated => 2,
        SegmentKind::Probe => 3,
    }
}

fn mark_name(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::Syn => "SYN",
        MarkKind::Fin => "FIN",
        MarkKind::Reset => "RST",
        MarkKind::DuplicateAcknowledgement => "duplicate ACK",
        MarkKind::ZeroWindow => "closed window",
    }
}
