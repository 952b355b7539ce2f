//! The data of a time-sequence graph, as plain vectors (after Shepard's xplot and tcptrace).
//!
//! Each direction of a connection has the segments with their sequence numbers, the line of the
//! acknowledgements that came back, the line of the window's edge above it, and marks for notable events.
//! Sequence numbers are relative to the first one seen in the direction (the SYN is 0, the first byte 1).

use std::net::SocketAddr;

use fathometer_model::Instant;
use serde::{Deserialize, Serialize};

use super::class::Class;
use super::connection::{Novelty, Observed};
use super::connection_summary::Direction;
use super::list::ConnectionList;

/// Largest number of points per direction; a graph cannot show more.
const POINT_LIMIT: usize = 200_000;

/// The time sequence of one connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeSequence {
    /// Index into [`Accounting::connections`](super::Accounting::connections).
    pub connection: u32,
    /// The end that opened it.
    pub client: SocketAddr,
    /// The end that accepted it.
    pub server: SocketAddr,
    /// What the client sent.
    pub up: DirectionSequence,
    /// What the server sent.
    pub down: DirectionSequence,
}

impl TimeSequence {
    /// One direction.
    pub fn direction(&self, direction: Direction) -> &DirectionSequence {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }
}

/// What one end sent, and what its peer reported about it.
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
}

impl DirectionSequence {
    /// The first sequence number beyond all segments.
    pub fn end(&self) -> u64 {
        self.segments
            .iter()
            .map(|segment| segment.end)
            .max()
            .unwrap_or_default()
    }
}

/// One segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceSegment {
    /// When it was seen.
    pub at: Instant,
    /// Its first sequence number.
    pub start: u64,
    /// The sequence number after its last one.
    pub end: u64,
    /// How it relates to what was seen before.
    pub kind: SegmentKind,
}

/// How a segment relates to what was seen before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SegmentKind {
    /// Beyond all of it.
    New,
    /// Not seen before, but with lower sequence numbers than the highest seen.
    OutOfOrder,
    /// Seen before, at least in part.
    Repeated,
    /// A keep-alive or window probe.
    Probe,
}

/// A notable event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceMark {
    /// The time.
    pub at: Instant,
    /// The sequence number of the direction.
    pub sequence: u64,
    /// The kind of event.
    pub kind: MarkKind,
}

/// The kind of a notable event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkKind {
    /// The direction opens.
    Syn,
    /// The direction ends.
    Fin,
    /// This end aborts the connection.
    Reset,
    /// The peer acknowledges the same number again.
    DuplicateAcknowledgement,
    /// The peer's window is closed.
    ZeroWindow,
}

/// Records time sequences while a capture is counted.
#[derive(Debug)]
pub(super) struct Recorder {
    limit: usize,
    /// By the accounting's index of the connection; connections beyond the limit are left out.
    connections: Vec<(u32, [Raw; 2])>,
    /// Position in `connections` by index.
    places: std::collections::HashMap<u32, usize>,
}

/// One direction in unwrapped sequence numbers.
#[derive(Debug, Default)]
struct Raw {
    base: Option<u64>,
    sequence: DirectionSequence,
}

impl Recorder {
    /// A recorder for the first `limit` connections.
    pub(super) fn new(limit: usize) -> Recorder {
        Recorder {
            limit,
            connections: Vec::new(),
            places: std::collections::HashMap::new(),
        }
    }

    /// Approximate memory, in bytes.
    pub(super) fn memory(&self) -> u64 {
        let ends = self.connections.iter().flat_map(|(_, ends)| ends);
        let points = ends.map(|raw| {
            let DirectionSequence {
                segments,
                acknowledgements,
                window_edges,
                marks,
            } = &raw.sequence;
            segments.len() + acknowledgements.len() + window_edges.len() + marks.len()
        });
        (points.sum::<usize>() * size_of::<SequenceSegment>()) as u64
    }

    pub(super) fn record(
        &mut self,
        connection: u32,
        time: u64,
        direction: Direction,
        class: Class,
        observed: &Observed,
    ) {
        let place = match self.places.get(&connection) {
            Some(place) => *place,
            None if self.connections.len() < self.limit => {
                let place = self.connections.len();
                self.connections.push((connection, Default::default()));
                self.places.insert(connection, place);
                place
            }
            None => return,
        };
        let at = Instant::from_nanos(time);
        let [up, down] = &mut self.connections[place].1;
        let (own, peer) = match direction {
            Direction::Up => (up, down),
            Direction::Down => (down, up),
        };
        let kind = match observed.novelty {
            Novelty::Nothing => None,
            Novelty::New => Some(SegmentKind::New),
            Novelty::OutOfOrder => Some(SegmentKind::OutOfOrder),
            Novelty::Repeated => Some(SegmentKind::Repeated),
            Novelty::Probe => Some(SegmentKind::Probe),
        };
        if let Some(kind) = kind {
            let lowest = own
                .base
                .map_or(observed.start, |base| base.min(observed.start));
            own.base = Some(lowest);
            push(
                &mut own.sequence.segments,
                SequenceSegment {
                    at,
                    start: observed.start,
                    end: observed.end,
                    kind,
                },
            );
        }
        let mark = match class {
            Class::Syn | Class::SynAck => Some((MarkKind::Syn, observed.start)),
            Class::DataFin | Class::BareFin => Some((MarkKind::Fin, observed.end)),
            Class::Rst => Some((MarkKind::Reset, observed.start)),
            _ => None,
        };
        if let Some((kind, sequence)) = mark {
            push(&mut own.sequence.marks, SequenceMark { at, sequence, kind });
        }
        let Some(number) = observed.acknowledged else {
            return;
        };
        push(&mut peer.sequence.acknowledgements, (at, number));
        if let Some(window) = observed.window {
            push(&mut peer.sequence.window_edges, (at, number + window));
            let closed = window == 0 && !matches!(class, Class::DataFin | Class::BareFin);
            let mark = match (observed.duplicate, closed) {
                (_, true) => Some(MarkKind::ZeroWindow),
                (true, _) => Some(MarkKind::DuplicateAcknowledgement),
                _ => None,
            };
            if let Some(kind) = mark {
                let sequence = number;
                push(
                    &mut peer.sequence.marks,
                    SequenceMark { at, sequence, kind },
                );
            }
        }
    }

    /// The sequences, with the indices of [`Accounting::connections`](super::Accounting::connections) and
    /// relative numbers.
    pub(super) fn finish(self, places: &[u32], connections: &ConnectionList) -> Vec<TimeSequence> {
        let sequence = |(index, [up, down]): (u32, [Raw; 2])| {
            let connection = places[index as usize];
            let summary = connections.get(connection as usize)?;
            Some(TimeSequence {
                connection,
                client: summary.client,
                server: summary.server,
                up: up.relative(),
                down: down.relative(),
            })
        };
        self.connections.into_iter().filter_map(sequence).collect()
    }
}

impl Raw {
    fn relative(mut self) -> DirectionSequence {
        let sequence = &mut self.sequence;
        // Without segments, the numbers start at the first acknowledgement.
        let first_acknowledged = sequence.acknowledgements.first().map(|point| point.1);
        let base = self.base.or(first_acknowledged).unwrap_or_default();
        for segment in &mut sequence.segments {
            segment.start = segment.start.saturating_sub(base);
            segment.end = segment.end.saturating_sub(base);
        }
        let points = sequence.acknowledgements.iter_mut();
        for point in points.chain(&mut sequence.window_edges) {
            point.1 = point.1.saturating_sub(base);
        }
        for mark in &mut sequence.marks {
            mark.sequence = mark.sequence.saturating_sub(base);
        }
        self.sequence
    }
}

fn push<T>(list: &mut Vec<T>, item: T) {
    if list.len() < POINT_LIMIT {
        list.push(item);
    }
}
