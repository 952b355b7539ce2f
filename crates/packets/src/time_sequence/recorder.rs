//! Records time sequences while a capture is read.

use fathometer_model::Instant;

use super::{
    DirectionSequence, MarkKind, SegmentKind, SequenceDrop, SequenceMark, SequenceRepeat,
    SequenceSegment, TimeSequence, merge,
};
use crate::class::Class;
use crate::connection::{Observed, SegmentRelation};
use crate::connection_summary::Direction;
use crate::list::ConnectionList;
use crate::sent::{CauseId, Repeated};
use crate::sequence::{first_reference, unwrap};

/// Records time sequences while a capture is counted.
#[derive(Debug)]
pub(crate) struct Recorder {
    limit: usize,
    /// Largest number of points in each list of a direction.
    points: usize,
    /// The connections by their index in the accounting; connections beyond the limit are left out.
    connections: Vec<(u32, [Raw; 2])>,
    /// Index in `connections`, by index in the accounting.
    places: std::collections::HashMap<u32, usize>,
}

/// One direction in unwrapped sequence numbers.
#[derive(Debug, Default)]
struct Raw {
    base: Option<u64>,
    /// A recent sequence number, the reference for the numbers of dropped segments.
    reference: Option<u64>,
    sequence: DirectionSequence,
}

/// A segment captured where it enters the path.
pub(crate) struct Transmission {
    /// The connection's index in the accounting.
    pub(crate) connection: u32,
    /// The time at which the segment entered the path or was dropped, in nanoseconds since the origin.
    pub(crate) time: u64,
    pub(crate) direction: Direction,
    /// The first sequence number of the segment, in 32 bits as in the packet.
    pub(crate) sequence: u32,
    /// The number of sequence numbers that the segment occupies; more than zero.
    pub(crate) length: u64,
    /// The cause of the drop; `None` if the path did not drop the segment.
    pub(crate) dropped: Option<CauseId>,
    /// The cause of the earlier drop, if the segment is a retransmission; `None` if it is not a retransmission.
    pub(crate) repeated: Option<Repeated>,
}

impl Recorder {
    /// Creates a recorder for the first `limit` connections, with at most `points` points in each list of a direction.
    pub(crate) fn new(limit: usize, points: usize) -> Recorder {
        Recorder {
            limit,
            points: points.max(merge::SMALLEST_LIMIT),
            connections: Vec::new(),
            places: std::collections::HashMap::new(),
        }
    }

    /// Returns the approximate memory, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let ends = self.connections.iter().flat_map(|(_, ends)| ends);
        let points = ends.map(|raw| {
            let DirectionSequence {
                segments,
                acknowledgements,
                window_edges,
                marks,
                drops,
                repeats,
                drop_counts: _,
                merged: _,
            } = &raw.sequence;
            let lines = acknowledgements.len() + window_edges.len();
            segments.len() + lines + marks.len() + drops.len() + repeats.len()
        });
        (points.sum::<usize>() * size_of::<SequenceSegment>()) as u64
    }

    pub(crate) fn record(
        &mut self,
        connection: u32,
        time: u64,
        direction: Direction,
        class: Class,
        observed: &Observed,
    ) {
        let Some(place) = self.place(connection) else {
            return;
        };
        let limit = self.points;
        let at = Instant::from_nanos(time);
        let [up, down] = &mut self.connections[place].1;
        let (own, peer) = match direction {
            Direction::Up => (up, down),
            Direction::Down => (down, up),
        };
        let kind = match observed.novelty {
            SegmentRelation::Nothing => None,
            SegmentRelation::New => Some(SegmentKind::New),
            SegmentRelation::OutOfOrder => Some(SegmentKind::OutOfOrder),
            SegmentRelation::Repeated => Some(SegmentKind::Repeated),
            SegmentRelation::Probe => Some(SegmentKind::Probe),
        };
        if let Some(kind) = kind {
            let lowest = own
                .base
                .map_or(observed.start, |base| base.min(observed.start));
            own.base = Some(lowest);
            own.reference = own.reference.max(Some(observed.end));
            own.sequence.segments.push(SequenceSegment {
                at,
                start: observed.start,
                end: observed.end,
                kind,
            });
        }
        let mark = match class {
            Class::Syn | Class::SynAck => Some((MarkKind::Syn, observed.start)),
            Class::DataFin | Class::BareFin => Some((MarkKind::Fin, observed.end)),
            Class::Rst => Some((MarkKind::Reset, observed.start)),
            _ => None,
        };
        if let Some((kind, sequence)) = mark {
            let mark = SequenceMark { at, sequence, kind };
            own.sequence.marks.push(mark);
        }
        merge::to_limit(&mut own.sequence, limit);
        let Some(number) = observed.acknowledged else {
            return;
        };
        peer.sequence.acknowledgements.push((at, number));
        peer.reference = peer.reference.max(Some(number));
        if let Some(window) = observed.window {
            peer.sequence.window_edges.push((at, number + window));
            let closed = window == 0 && !matches!(class, Class::DataFin | Class::BareFin);
            let mark = match (observed.duplicate, closed) {
                (_, true) => Some(MarkKind::ZeroWindow),
                (true, _) => Some(MarkKind::DuplicateAcknowledgement),
                _ => None,
            };
            if let Some(kind) = mark {
                let sequence = number;
                let mark = SequenceMark { at, sequence, kind };
                peer.sequence.marks.push(mark);
            }
        }
        merge::to_limit(&mut peer.sequence, limit);
    }

    /// Records a drop or a retransmission where a segment enters the path. Other transmissions are recorded by
    /// [`Recorder::record`], at the counted tap.
    pub(crate) fn transmit(&mut self, sent: &Transmission) {
        if sent.dropped.is_none() && sent.repeated.is_none() {
            return;
        }
        let Some(place) = self.place(sent.connection) else {
            return;
        };
        let own = &mut self.connections[place].1[sent.direction as usize];
        let reference = own
            .reference
            .unwrap_or_else(|| first_reference(sent.sequence));
        let start = unwrap(reference, sent.sequence);
        let end = start + sent.length;
        // A segment that never arrived may be the first segment of its direction.
        own.base = Some(own.base.map_or(start, |base| base.min(start)));
        own.reference = own.reference.max(Some(end));
        let at = Instant::from_nanos(sent.time);
        if let Some(cause) = sent.dropped {
            let cause = cause.index();
            *own.sequence.drop_counts.entry(cause).or_default() += 1;
            own.sequence.drops.push(SequenceDrop {
                at,
                start,
                end,
                cause,
            });
        }
        if let Some(Repeated(after)) = sent.repeated {
            let after = after.map(CauseId::index);
            own.sequence.repeats.push(SequenceRepeat {
                at,
                start,
                end,
                after,
            });
        }
        merge::to_limit(&mut own.sequence, self.points);
    }

    /// Returns the index of a connection in `connections`; `None` beyond the limit.
    fn place(&mut self, connection: u32) -> Option<usize> {
        if let Some(place) = self.places.get(&connection) {
            return Some(*place);
        }
        if self.connections.len() >= self.limit {
            return None;
        }
        let place = self.connections.len();
        self.connections.push((connection, Default::default()));
        self.places.insert(connection, place);
        Some(place)
    }

    /// Returns the sequences, with the indices of [`Accounting::connections`](crate::Accounting::connections)
    /// and relative sequence numbers.
    pub(crate) fn finish(
        self,
        places: &[u32],
        connections: &ConnectionList,
        causes: &[String],
    ) -> Vec<TimeSequence> {
        let sequence = |(index, [up, down]): (u32, [Raw; 2])| {
            let connection = places[index as usize];
            let summary = connections.get(connection as usize)?;
            Some(TimeSequence {
                connection,
                client: summary.client,
                server: summary.server,
                up: up.relative(),
                down: down.relative(),
                causes: causes.to_vec(),
            })
        };
        self.connections.into_iter().filter_map(sequence).collect()
    }
}

impl Raw {
    fn relative(mut self) -> DirectionSequence {
        let sequence = &mut self.sequence;
        // If there are no segments, the numbers start at the first acknowledgement.
        let first_acknowledged = sequence.acknowledgements.first().map(|point| point.1);
        let base = self.base.or(first_acknowledged).unwrap_or_default();
        let segments = sequence.segments.iter_mut();
        let segments = segments.map(|segment| (&mut segment.start, &mut segment.end));
        let drops = sequence.drops.iter_mut();
        let drops = drops.map(|dropped| (&mut dropped.start, &mut dropped.end));
        let repeats = sequence.repeats.iter_mut();
        let repeats = repeats.map(|repeat| (&mut repeat.start, &mut repeat.end));
        for (start, end) in segments.chain(drops).chain(repeats) {
            *start = start.saturating_sub(base);
            *end = end.saturating_sub(base);
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
