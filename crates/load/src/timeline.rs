//! The timeline of a test: merges the figures of all loops in each interval.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fathometer_analysis::load::{Counts, Distribution, Interval};
use fathometer_model::Bytes;
use serde::{Deserialize, Serialize};

/// The quantiles of an interval, in addition to the maximum.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// The figures of one loop in one interval.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Part {
    /// The interval's number, from 0.
    pub interval: u64,
    /// Exchanges planned in the interval.
    pub planned: u64,
    /// Exchanges completed in the interval.
    pub completed: u64,
    /// Exchanges that failed in the interval, and responses of status 400 and above.
    pub errors: u64,
    /// Response bytes of the completed exchanges.
    pub received: Bytes,
    /// Connections open at the end of the interval.
    pub connections: u64,
    /// Corrected latency of the exchanges that ended in the interval.
    pub latency: Distribution,
    /// Send lag of the requests that were sent in the interval.
    pub send_lag: Distribution,
    /// The counts of the interval's window (warm-up or measured) at the end of the interval.
    pub so_far: Counts,
}

/// Merges intervals, in chronological order, and limits their number.
///
/// Memory is allocated at the start. It grows, up to a limit, only if the test lasts longer than expected.
#[derive(Debug)]
pub struct Timeline {
    loops: usize,
    interval: Duration,
    /// The maximum number of entries, which is even.
    most: usize,
    /// Intervals that only some loops have reported.
    partial: BTreeMap<u64, Partial>,
    entries: Vec<Interval>,
    /// One histogram for each entry.
    sketches: Sketches,
    /// The number of intervals that are merged into an entry, and the number already merged into the last entry.
    stride: u64,
    in_last: u64,
    /// Corrected latency of all intervals until now.
    pub(super) corrected: Distribution,
    /// Receives merged parts for reuse.
    spares: Arc<Spares>,
}

#[derive(Debug)]
struct Partial {
    reported: usize,
    part: Part,
    so_far: Counts,
}

/// An interval that all loops have reported.
#[derive(Debug, Clone)]
pub struct ClosedInterval {
    /// The interval.
    pub interval: Interval,
    /// The counts of the interval's window at the end of the interval.
    pub so_far: Counts,
}

/// Receives the figures of all loops in each interval, merged.
pub type Sink<'a> = &'a mut dyn FnMut(&Part);

/// Merged parts that the loops reuse, so that a loop allocates no memory while it measures.
#[derive(Debug)]
pub struct Spares {
    longest: Duration,
    /// The maximum number of stored parts: one for each loop, which also fills one. If merging is behind, more parts
    /// are allocated, and are freed afterwards.
    most: usize,
    parts: Mutex<Vec<Part>>,
}

impl Spares {
    /// Allocates two parts for each loop: one part that the loop fills, and one that is being merged or waits for it.
    /// They have memory for latencies up to `longest`.
    pub fn new(loops: usize, longest: Duration) -> Arc<Spares> {
        let mut parts = Vec::with_capacity(2 * loops);
        parts.resize_with(2 * loops, || Part::with_room(0, longest));
        Arc::new(Spares {
            longest,
            most: loops,
            parts: Mutex::new(parts),
        })
    }

    /// Returns the longest latency for which parts have memory.
    pub(super) fn longest(&self) -> Duration {
        self.longest
    }

    /// Returns a part for a new interval. Allocates it if there is no spare part, or if another thread has the lock,
    /// because a loop must not wait.
    pub(super) fn take(&self, interval: u64) -> Part {
        let spare = self.parts.try_lock().ok().and_then(|mut parts| parts.pop());
        match spare {
            Some(part) => Part { interval, ..part },
            None => Part::with_room(interval, self.longest),
        }
    }

    fn give_back(&self, mut part: Part) {
        part.clear();
        // The list remains valid if a thread panics while it has the lock.
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if parts.len() < self.most {
            parts.push(part);
        }
    }
}

impl Timeline {
    /// Creates a timeline of at most `most` entries, with initial memory for `expected` entries. Merged parts are
    /// returned to `spares`.
    pub fn new(
        loops: usize,
        interval: Duration,
        most: usize,
        expected: usize,
        spares: Arc<Spares>,
    ) -> Timeline {
        let expected = expected.min(most);
        // Filling the entries makes their memory pages resident; memory that is only reserved has no resident pages.
        let mut entries = vec![NOTHING; expected];
        entries.clear();
        Timeline {
            loops,
            interval,
            most,
            partial: BTreeMap::new(),
            entries,
            sketches: Sketches::with_room(expected),
            stride: 1,
            in_last: 0,
            corrected: Distribution::with_room(spares.longest),
            spares,
        }
    }

    /// Adds the part of one loop. Returns the interval if all loops have now reported it.
    pub fn add(&mut self, part: Part) -> Option<ClosedInterval> {
        self.add_and_pass_on(part, &mut |_| ())
    }

    /// Like [`Timeline::add`], and passes the merged interval to `sink`.
    pub(super) fn add_and_pass_on(
        &mut self,
        mut part: Part,
        sink: Sink<'_>,
    ) -> Option<ClosedInterval> {
        let number = part.interval;
        let so_far = std::mem::take(&mut part.so_far);
        match self.partial.get_mut(&number) {
            None => {
                let partial = Partial {
                    reported: 1,
                    part,
                    so_far,
                };
                self.partial.insert(number, partial);
            }
            Some(partial) => {
                partial.reported += 1;
                partial.part.merge(&part);
                merge_counts(&mut partial.so_far, so_far);
                self.spares.give_back(part);
            }
        }
        let is_whole = self.partial.get(&number)?.reported == self.loops;
        let partial = is_whole.then(|| self.partial.remove(&number))??;
        Some(self.close(partial, sink))
    }

    /// Returns the corrected latency of all intervals until now.
    pub fn corrected(&self) -> &Distribution {
        &self.corrected
    }

    fn close(&mut self, partial: Partial, sink: Sink<'_>) -> ClosedInterval {
        let mut part = partial.part;
        part.so_far = partial.so_far;
        sink(&part);
        let so_far = std::mem::take(&mut part.so_far);
        self.corrected.merge(&part.latency);
        let [p50, p90, p99] = QUANTILES.map(|quantile| part.latency.quantile(quantile));
        let nanos = self.interval.as_nanos() as u64;
        let interval = Interval {
            start: Duration::from_nanos(nanos.saturating_mul(part.interval)),
            length: self.interval,
            planned: part.planned,
            completed: part.completed,
            errors: part.errors,
            received: part.received,
            latency: [p50, p90, p99, part.latency.max()],
            connections: part.connections,
            send_lag_p99: part.send_lag.quantile(0.99),
        };
        self.keep(&interval, &part.latency);
        self.spares.give_back(part);
        ClosedInterval { interval, so_far }
    }

    /// Adds an interval to the last entry, or begins a new entry. If there are too many entries, each pair is merged
    /// into one entry; later entries are also twice as long.
    fn keep(&mut self, interval: &Interval, latency: &Distribution) {
        if self.in_last < self.stride
            && let Some(last) = self.entries.last_mut()
        {
            self.sketches.add_to_last(latency);
            *last = joined(last, interval, self.sketches.last());
            self.in_last += 1;
            return;
        }
        if self.entries.len() == self.most {
            self.halve();
        }
        self.entries.push(interval.clone());
        self.sketches.push();
        self.sketches.add_to_last(latency);
        self.in_last = 1;
    }

    fn halve(&mut self) {
        self.sketches.halve();
        let halves = self.entries.len() / 2;
        for place in 0..halves {
            let (before, after) = (&self.entries[2 * place], &self.entries[2 * place + 1]);
            self.entries[place] = joined(before, after, self.sketches.of(place));
        }
        self.entries.truncate(halves);
        self.stride *= 2;
    }

    /// Returns all intervals; the last one is shortened to the end of the test.
    pub fn finish(self, end: Duration) -> Vec<Interval> {
        self.finish_and_pass_on(end, &mut |_| ())
    }

    /// Like [`Timeline::finish`], and passes the intervals that only some loops have reported to `sink`.
    pub(super) fn finish_and_pass_on(mut self, end: Duration, sink: Sink<'_>) -> Vec<Interval> {
        while let Some((_, partial)) = self.partial.pop_first() {
            self.close(partial, sink);
        }
        let mut intervals = self.entries;
        // If a loop finished exactly at the end of an interval, an empty interval follows.
        intervals.retain(|interval| interval.start < end);
        if let Some(last) = intervals.last_mut() {
            last.length = last.length.min(end - last.start);
        }
        intervals
    }
}

/// An interval without any events.
const NOTHING: Interval = Interval {
    start: Duration::ZERO,
    length: Duration::ZERO,
    planned: 0,
    completed: 0,
    errors: 0,
    received: Bytes(0),
    latency: [None; 4],
    connections: 0,
    send_lag_p99: None,
};

/// Merges two adjacent intervals. The merged send lag is the larger of the two, which is an upper bound.
fn joined(before: &Interval, after: &Interval, sketch: &[u32]) -> Interval {
    let max = before.latency[3].max(after.latency[3]);
    let [p50, p90, p99] = QUANTILES.map(|q| Some(quantile(sketch, q)?.min(max?)));
    Interval {
        start: before.start,
        length: before.length + after.length,
        planned: before.planned + after.planned,
        completed: before.completed + after.completed,
        errors: before.errors + after.errors,
        received: before.received + after.received,
        latency: [p50, p90, p99, max],
        connections: after.connections,
        send_lag_p99: before.send_lag_p99.max(after.send_lag_p99),
    }
}

impl Part {
    /// Creates the part of an interval that has just begun.
    pub fn new(interval: u64) -> Part {
        Part::with(interval, Distribution::new)
    }

    /// Like [`Part::new`], with memory for latencies and send lags up to `longest`.
    fn with_room(interval: u64, longest: Duration) -> Part {
        Part::with(interval, || Distribution::with_room(longest))
    }

    fn with(interval: u64, distribution: impl Fn() -> Distribution) -> Part {
        Part {
            interval,
            planned: 0,
            completed: 0,
            errors: 0,
            received: Bytes(0),
            connections: 0,
            latency: distribution(),
            send_lag: distribution(),
            so_far: Counts::default(),
        }
    }

    /// Resets the figures and retains the memory.
    fn clear(&mut self) {
        let Part {
            interval,
            planned,
            completed,
            errors,
            received,
            connections,
            latency,
            send_lag,
            so_far,
        } = self;
        for count in [interval, planned, completed, errors, connections] {
            *count = 0;
        }
        *received = Bytes(0);
        latency.clear();
        send_lag.clear();
        *so_far = Counts::default();
    }

    /// Adds the part of another loop in the same interval, except for [`Part::so_far`].
    pub fn merge(&mut self, other: &Part) {
        self.planned += other.planned;
        self.completed += other.completed;
        self.errors += other.errors;
        self.received = Bytes(self.received.0 + other.received.0);
        self.connections += other.connections;
        self.latency.merge(&other.latency);
        self.send_lag.merge(&other.send_lag);
    }
}

/// Adds `from` to `to`.
pub fn merge_counts(to: &mut Counts, from: Counts) {
    to.planned += from.planned;
    to.sent += from.sent;
    to.completed += from.completed;
    to.unfinished += from.unfinished;
    to.wrong_size += from.wrong_size;
    to.retried += from.retried;
    to.connects += from.connects;
    to.connected += from.connected;
    to.pages += from.pages;
    to.page_connections += from.page_connections;
    to.pages_failed += from.pages_failed;
    to.sessions += from.sessions;
    for (status, count) in from.statuses {
        *to.statuses.entry(status).or_default() += count;
    }
    for (failure, count) in from.failures {
        *to.failures.entry(failure).or_default() += count;
    }
    for (failure, count) in from.connect_failures {
        *to.connect_failures.entry(failure).or_default() += count;
    }
}

/// Times below this number of nanoseconds are in the first bucket.
const LEAST: u64 = 1 << LEAST_POWER;
const LEAST_POWER: u32 = 10;
/// The number of buckets in each power of two from [`LEAST`] on.
const CLASSES_A_DOUBLING: usize = 32;
/// The number of powers of two. Times of 137 s and more are in the last bucket.
const DOUBLINGS: usize = 27;
const CLASSES: usize = 1 + DOUBLINGS * CLASSES_A_DOUBLING;

/// Histograms of latency, one for each entry, so that adjacent entries can be merged. They are coarse (a quantile is
/// accurate to 1.6 %) and are stored in one block of memory.
#[derive(Debug)]
struct Sketches(Vec<u32>);

impl Sketches {
    /// Allocates memory for this number of histograms, and adds none of them.
    fn with_room(sketches: usize) -> Sketches {
        // Zeroed memory would have no resident pages until the first write.
        let mut counts = vec![u32::MAX; sketches * CLASSES];
        counts.clear();
        Sketches(counts)
    }

    fn push(&mut self) {
        self.0.resize(self.0.len() + CLASSES, 0);
    }

    fn of(&self, place: usize) -> &[u32] {
        &self.0[place * CLASSES..][..CLASSES]
    }

    fn last(&self) -> &[u32] {
        &self.0[self.0.len() - CLASSES..]
    }

    fn add_to_last(&mut self, latency: &Distribution) {
        let begin = self.0.len() - CLASSES;
        for (nanos, times) in latency.recorded() {
            let count = &mut self.0[begin + class(nanos)];
            let more = u32::try_from(times).unwrap_or(u32::MAX);
            *count = count.saturating_add(more);
        }
    }

    /// Merges each pair of adjacent histograms.
    fn halve(&mut self) {
        let halves = self.0.len() / CLASSES / 2;
        for to in 0..halves * CLASSES {
            let from = to + to / CLASSES * CLASSES;
            self.0[to] = self.0[from].saturating_add(self.0[from + CLASSES]);
        }
        self.0.truncate(halves * CLASSES);
    }
}

fn quantile(sketch: &[u32], quantile: f64) -> Option<Duration> {
    let total: u64 = sketch.iter().map(|&count| u64::from(count)).sum();
    let wanted = (quantile * total as f64).ceil().max(1.0) as u64;
    let mut passed = 0;
    let class = sketch.iter().position(|&count| {
        passed += u64::from(count);
        passed >= wanted
    })?;
    Some(Duration::from_nanos(middle(class)))
}

/// Returns the bucket of a time in nanoseconds: its power of two, and the part of that range.
fn class(nanos: u64) -> usize {
    if nanos < LEAST {
        return 0;
    }
    let power = nanos.ilog2();
    let part = (nanos >> (power - CLASSES_A_DOUBLING.ilog2())) as usize % CLASSES_A_DOUBLING;
    let class = 1 + (power - LEAST_POWER) as usize * CLASSES_A_DOUBLING + part;
    class.min(CLASSES - 1)
}

/// Returns the middle of a bucket; for the last bucket, the largest number.
fn middle(class: usize) -> u64 {
    match class {
        0 => LEAST / 2,
        class if class == CLASSES - 1 => u64::MAX,
        class => {
            let power = LEAST_POWER + ((class - 1) / CLASSES_A_DOUBLING) as u32;
            let part = ((class - 1) % CLASSES_A_DOUBLING) as u64;
            let width = (1 << power) / CLASSES_A_DOUBLING as u64;
            (1 << power) + part * width + width / 2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(interval: u64, millis: u64) -> Part {
        let mut part = Part {
            planned: 11,
            completed: 10,
            errors: 1,
            received: Bytes(100),
            connections: 3,
            ..Part::new(interval)
        };
        for _ in 0..10 {
            part.latency.record(Duration::from_millis(millis));
        }
        part.so_far.planned = 11 * (interval + 1);
        part
    }

    #[test]
    fn the_middle_of_a_class_is_within_a_sixtieth_of_all_its_times() {
        let most = 137_000_000_000;
        let mut nanos = LEAST;
        let mut before = 0;
        while nanos < most {
            let class = class(nanos);
            assert!((before..=before + 1).contains(&class), "{nanos}: {class}");
            before = class;
            let off = middle(class).abs_diff(nanos);
            assert!(off <= nanos / 64 + 1 || class == CLASSES - 1, "{nanos}");
            nanos += nanos / 100;
        }
        assert_eq!(
            (class(0), class(1023), class(u64::MAX)),
            (0, 0, CLASSES - 1)
        );
    }

    fn spares(loops: usize) -> Arc<Spares> {
        Spares::new(loops, Duration::from_secs(1))
    }

    #[test]
    fn a_reused_part_is_empty() {
        let spares = spares(1);
        let mut timeline = Timeline::new(1, Duration::from_secs(1), 100, 3, Arc::clone(&spares));
        for number in 0..10 {
            let used = spares.take(number);
            assert_eq!(
                (used.interval, used.planned, used.completed),
                (number, 0, 0)
            );
            assert_eq!((used.errors, used.received.0, used.connections), (0, 0, 0));
            assert!(used.latency.is_empty() && used.send_lag.is_empty());
            assert_eq!(used.so_far, Counts::default());
            let latency = part(number, 5).latency;
            timeline.add(Part { latency, ..used });
        }
        assert_eq!(spares.parts.lock().unwrap().len(), 1);
    }

    #[test]
    fn memory_of_a_backlog_is_freed() {
        let spares = spares(2);
        let mut timeline = Timeline::new(2, Duration::from_secs(1), 100, 3, Arc::clone(&spares));
        let filled: Vec<Part> = (0..20).map(|place| spares.take(place / 2)).collect();
        filled.into_iter().for_each(|part| drop(timeline.add(part)));
        assert_eq!(spares.parts.lock().unwrap().len(), 2);
    }

    #[test]
    fn an_interval_is_reported_when_all_loops_have_reported_theirs() {
        let mut timeline = Timeline::new(2, Duration::from_secs(1), 100, 3, spares(2));
        assert!(timeline.add(part(0, 5)).is_none());
        assert!(timeline.add(part(1, 5)).is_none());
        let reported = timeline.add(part(0, 7)).unwrap();
        assert_eq!(
            (reported.interval.planned, reported.so_far.planned),
            (22, 22)
        );
        assert_eq!(reported.interval.connections, 6);
        let intervals = timeline.finish(Duration::from_millis(1500));
        assert_eq!(intervals.len(), 2);
        assert_eq!(intervals[1].length, Duration::from_millis(500));
    }

    #[test]
    fn a_long_test_has_a_bounded_timeline_that_loses_no_count() {
        for expected in [0, 5, 16, 1000] {
            let mut timeline = Timeline::new(1, Duration::from_secs(1), 16, expected, spares(1));
            for number in 0..1000 {
                timeline.add(part(number, 1 + number % 2 * 8));
                assert!(timeline.entries.len() <= 16);
            }
            let intervals = timeline.finish(Duration::from_secs(1000));
            assert_eq!(intervals.iter().map(|i| i.completed).sum::<u64>(), 10_000);
            let mut end = Duration::ZERO;
            for interval in &intervals {
                assert_eq!(interval.start, end);
                end += interval.length;
                if interval.length > Duration::from_secs(1) {
                    let [p50, p90, ..] = interval.latency.map(|l| l.unwrap().as_secs_f64());
                    assert!((p50 - 0.001).abs() < 2e-5 && (p90 - 0.009).abs() < 2e-4);
                }
            }
            assert_eq!(end, Duration::from_secs(1000));
        }
    }
}
