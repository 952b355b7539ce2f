//! The course of a test: what all loops saw in each interval, put together.

use std::collections::BTreeMap;
use std::time::Duration;

use fathometer_analysis::load::{Counts, Distribution, Interval};
use fathometer_model::Bytes;

use super::tally::Part;

/// The quantiles that an interval tells; its maximum is told as well.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// Puts intervals together, in order, and keeps their number bounded.
pub(super) struct Timeline {
    loops: usize,
    interval: Duration,
    /// An even number.
    most: usize,
    /// Intervals that not all loops have told of yet.
    partial: BTreeMap<u64, Partial>,
    done: Vec<(Interval, Sketch)>,
    /// How many intervals are merged into an entry of these, and how many are in the last one.
    stride: u64,
    in_last: u64,
    /// Corrected latency of everything so far.
    pub(super) corrected: Distribution,
}

struct Partial {
    told: usize,
    part: Part,
    so_far: Counts,
}

/// An interval that all loops have told of.
pub(super) struct Told {
    pub(super) interval: Interval,
    pub(super) so_far: Counts,
}

impl Timeline {
    pub(super) fn new(loops: usize, interval: Duration, most: usize) -> Timeline {
        Timeline {
            loops,
            interval,
            most,
            partial: BTreeMap::new(),
            done: Vec::new(),
            stride: 1,
            in_last: 0,
            corrected: Distribution::new(),
        }
    }

    /// Takes what a loop saw, and returns the interval if that was the last loop.
    pub(super) fn add(&mut self, mut part: Part) -> Option<Told> {
        let number = part.interval;
        let so_far = std::mem::take(&mut part.so_far);
        match self.partial.get_mut(&number) {
            None => {
                let partial = Partial {
                    told: 1,
                    part,
                    so_far,
                };
                self.partial.insert(number, partial);
            }
            Some(partial) => {
                partial.told += 1;
                partial.part.merge(&part);
                merge_counts(&mut partial.so_far, so_far);
            }
        }
        let is_whole = self.partial.get(&number)?.told == self.loops;
        let partial = is_whole.then(|| self.partial.remove(&number))??;
        Some(self.close(partial))
    }

    fn close(&mut self, partial: Partial) -> Told {
        let part = partial.part;
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
        self.keep(&interval, Sketch::of(&part.latency));
        Told {
            interval,
            so_far: partial.so_far,
        }
    }

    /// Adds an interval to the last entry, or begins a new one. When there are too many, each pair
    /// becomes one entry, and from then on entries are twice as long.
    fn keep(&mut self, interval: &Interval, sketch: Sketch) {
        if self.in_last < self.stride
            && let Some((last, whole)) = self.done.last_mut()
        {
            whole.merge(&sketch);
            *last = joined(last, interval, whole);
            self.in_last += 1;
            return;
        }
        if self.done.len() == self.most {
            let entries = std::mem::take(&mut self.done);
            for entry in entries.chunks(2) {
                let (first, mut whole) = (&entry[0].0, entry[0].1.clone());
                let interval = entry.get(1).map_or(first.clone(), |(second, sketch)| {
                    whole.merge(sketch);
                    joined(first, second, &whole)
                });
                self.done.push((interval, whole));
            }
            self.stride *= 2;
        }
        self.done.push((interval.clone(), sketch));
        self.in_last = 1;
    }

    /// All intervals, the last one cut off at the end of the test.
    pub(super) fn finish(mut self, end: Duration) -> Vec<Interval> {
        while let Some((_, partial)) = self.partial.pop_first() {
            self.close(partial);
        }
        let mut intervals: Vec<Interval> = self.done.into_iter().map(|(i, _)| i).collect();
        // A loop that ended with an interval has an empty one after it.
        intervals.retain(|interval| interval.start < end);
        if let Some(last) = intervals.last_mut() {
            last.length = last.length.min(end - last.start);
        }
        intervals
    }
}

/// Two neighbours as one. The send lag is the larger of the two: an upper bound.
fn joined(before: &Interval, after: &Interval, sketch: &Sketch) -> Interval {
    let max = before.latency[3].max(after.latency[3]);
    let quantile = |q| Some(sketch.quantile(q)?.min(max?));
    let [p50, p90, p99] = QUANTILES.map(quantile);
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
    /// Adds what another loop saw in the same interval.
    fn merge(&mut self, other: &Part) {
        self.planned += other.planned;
        self.completed += other.completed;
        self.errors += other.errors;
        self.received = Bytes(self.received.0 + other.received.0);
        self.connections += other.connections;
        self.latency.merge(&other.latency);
        self.send_lag.merge(&other.send_lag);
    }
}

/// Adds counts.
pub(super) fn merge_counts(to: &mut Counts, from: Counts) {
    to.planned += from.planned;
    to.sent += from.sent;
    to.completed += from.completed;
    to.unfinished += from.unfinished;
    to.wrong_size += from.wrong_size;
    to.retried += from.retried;
    to.connects += from.connects;
    to.connected += from.connected;
    to.pages += from.pages;
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

/// A histogram in a kilobyte or two: 64 classes for each doubling, so that a quantile is right to
/// 1.6 %. Kept for each interval in case neighbours are to be merged.
#[derive(Clone, Default)]
struct Sketch(Vec<(u16, u64)>);

impl Sketch {
    fn of(distribution: &Distribution) -> Sketch {
        let mut sketch = Sketch::default();
        for value in distribution.histogram().iter_recorded() {
            let class = class(value.value_iterated_to());
            let count = value.count_since_last_iteration();
            match sketch.0.last_mut() {
                Some(last) if last.0 == class => last.1 += count,
                _ => sketch.0.push((class, count)),
            }
        }
        sketch.0.shrink_to_fit();
        sketch
    }

    fn merge(&mut self, other: &Sketch) {
        let mut all: BTreeMap<u16, u64> = self.0.iter().copied().collect();
        for &(class, count) in &other.0 {
            *all.entry(class).or_default() += count;
        }
        self.0 = all.into_iter().collect();
    }

    fn quantile(&self, quantile: f64) -> Option<Duration> {
        let total: u64 = self.0.iter().map(|&(_, count)| count).sum();
        let wanted = (quantile * total as f64).ceil().max(1.0) as u64;
        let mut passed = 0;
        self.0.iter().find_map(|&(class, count)| {
            passed += count;
            (passed >= wanted).then(|| Duration::from_nanos(greatest(class)))
        })
    }
}

/// The class of a value: itself below 64, else its power of two and the six bits behind its first.
fn class(value: u64) -> u16 {
    let power = value.max(64).ilog2() - 6;
    (u64::from(power) * 64 + (value >> power)) as u16
}

/// The greatest value of a class.
fn greatest(class: u16) -> u64 {
    if class < 64 {
        return class.into();
    }
    let power = u32::from(class) / 64 - 1;
    let bits = u64::from(class) - u64::from(power) * 64;
    ((bits + 1) << power) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(interval: u64, millis: u64) -> Part {
        let mut latency = Distribution::new();
        for _ in 0..10 {
            latency.record(Duration::from_millis(millis));
        }
        Part {
            interval,
            planned: 11,
            completed: 10,
            errors: 1,
            received: Bytes(100),
            connections: 3,
            latency,
            send_lag: Distribution::new(),
            so_far: Counts {
                planned: 11 * (interval + 1),
                ..Counts::default()
            },
        }
    }

    #[test]
    fn classes_cover_every_value_within_a_sixtieth() {
        for value in (0..10_000).chain((14..63).map(|power| 1 << power)) {
            let greatest = greatest(class(value));
            assert!(greatest >= value, "{value}: {greatest}");
            assert!(greatest - value <= value / 64, "{value}: {greatest}");
        }
    }

    #[test]
    fn an_interval_is_told_when_all_loops_have_told_theirs() {
        let mut timeline = Timeline::new(2, Duration::from_secs(1), 100);
        assert!(timeline.add(part(0, 5)).is_none());
        assert!(timeline.add(part(1, 5)).is_none());
        let told = timeline.add(part(0, 7)).unwrap();
        assert_eq!((told.interval.planned, told.so_far.planned), (22, 22));
        assert_eq!(told.interval.connections, 6);
        let intervals = timeline.finish(Duration::from_millis(1500));
        assert_eq!(intervals.len(), 2);
        assert_eq!(intervals[1].length, Duration::from_millis(500));
    }

    #[test]
    fn a_long_test_has_a_bounded_timeline_that_loses_no_count() {
        let mut timeline = Timeline::new(1, Duration::from_secs(1), 16);
        for number in 0..1000 {
            timeline.add(part(number, 1 + number % 2 * 8));
            assert!(timeline.done.len() <= 16);
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
