//! Merges the points of each time bin, so that a sequence of any length has a bounded number of points.
//!
//! A bin keeps the points that a graph of its resolution can show: for each kind of segment, the sequence numbers from
//! the lowest to the highest; for each line, its lowest and its highest point; for each kind of mark, drop and
//! retransmission, the first item, with the range of all items. More points need longer bins.

use std::time::Duration;

use fathometer_model::Instant;

use super::{DirectionSequence, SequenceDrop, SequenceMark, SequenceRepeat, SequenceSegment};

/// The smallest useful limit: three quarters of it are still more than the merged points of one bin.
pub(super) const SMALLEST_LIMIT: usize = 64;

/// If a list has more than `limit` points, merges points until each list has at most three quarters of the limit. The
/// cost per recorded point is therefore constant.
pub(super) fn to_limit(sequence: &mut DirectionSequence, limit: usize) {
    if longest(sequence) <= limit {
        return;
    }
    let mut bin = match sequence.merged {
        Some(bin) => nanoseconds(bin).saturating_mul(2),
        None => (span(sequence) / (limit as u64 / 4)).max(1),
    };
    loop {
        merge(sequence, bin);
        if longest(sequence) <= limit / 4 * 3 || bin == u64::MAX {
            break;
        }
        bin = bin.saturating_mul(2);
    }
    sequence.merged = Some(Duration::from_nanos(bin));
}

fn longest(sequence: &DirectionSequence) -> usize {
    let lines = sequence
        .acknowledgements
        .len()
        .max(sequence.window_edges.len());
    let events = sequence.drops.len().max(sequence.repeats.len());
    let marks = sequence.marks.len();
    sequence.segments.len().max(lines).max(events).max(marks)
}

/// Returns the time from the first to the last point of any list, in nanoseconds.
fn span(sequence: &DirectionSequence) -> u64 {
    let lines = sequence
        .acknowledgements
        .iter()
        .chain(&sequence.window_edges);
    let times = sequence.segments.iter().map(|segment| segment.at);
    let times = times.chain(lines.map(|point| point.0));
    let times = times.chain(sequence.marks.iter().map(|mark| mark.at));
    let nanos = times.map(Instant::as_nanos);
    let ends = nanos.fold((u64::MAX, 0), |(low, high), at| (low.min(at), high.max(at)));
    ends.1.saturating_sub(ends.0)
}

fn merge(sequence: &mut DirectionSequence, bin: u64) {
    of_kinds(
        &mut sequence.segments,
        bin,
        |segment: &SequenceSegment| segment.at,
        |segment| segment.kind,
        |one, other| {
            one.start = one.start.min(other.start);
            one.end = one.end.max(other.end);
        },
    );
    of_kinds(
        &mut sequence.marks,
        bin,
        |mark: &SequenceMark| mark.at,
        |mark| mark.kind,
        |_, _| {},
    );
    of_kinds(
        &mut sequence.drops,
        bin,
        |dropped: &SequenceDrop| dropped.at,
        |dropped| dropped.cause,
        |one, other| {
            one.start = one.start.min(other.start);
            one.end = one.end.max(other.end);
        },
    );
    of_kinds(
        &mut sequence.repeats,
        bin,
        |repeat: &SequenceRepeat| repeat.at,
        |repeat| repeat.after,
        |one, other| {
            one.start = one.start.min(other.start);
            one.end = one.end.max(other.end);
        },
    );
    of_line(&mut sequence.acknowledgements, bin);
    of_line(&mut sequence.window_edges, bin);
}

/// Merges the items of one kind in each bin into the first of these items.
fn of_kinds<T, K: PartialEq>(
    list: &mut Vec<T>,
    bin: u64,
    at: impl Fn(&T) -> Instant,
    kind: impl Fn(&T) -> K,
    absorb: impl Fn(&mut T, T),
) {
    let place = |item: &T| at(item).as_nanos() / bin;
    let mut merged: Vec<T> = Vec::new();
    // The first item of the current bin.
    let mut first = 0;
    for item in std::mem::take(list) {
        if merged.last().is_none_or(|last| place(last) != place(&item)) {
            first = merged.len();
        }
        let same = merged[first..]
            .iter_mut()
            .find(|known| kind(known) == kind(&item));
        match same {
            Some(known) => absorb(known, item),
            None => merged.push(item),
        }
    }
    *list = merged;
}

/// Keeps the lowest and the highest point of each bin, in the order of their times.
fn of_line(list: &mut Vec<(Instant, u64)>, bin: u64) {
    let place = |point: &(Instant, u64)| point.0.as_nanos() / bin;
    let mut merged: Vec<(Instant, u64)> = Vec::new();
    for group in list.chunk_by(|one, other| place(one) == place(other)) {
        let lowest = group.iter().min_by_key(|point| point.1);
        // Among equal points, `max_by_key` returns the last, so that a level line keeps both of its ends.
        let highest = group.iter().max_by_key(|point| point.1);
        let mut kept: Vec<_> = lowest.into_iter().chain(highest).copied().collect();
        kept.sort_by_key(|point| point.0);
        kept.dedup();
        merged.append(&mut kept);
    }
    *list = merged;
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().min(u128::from(u64::MAX)) as u64
}
