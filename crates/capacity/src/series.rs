//! What a trial saw of one promise: counts of exchanges in short slots of time, in the order of their plan.
//!
//! Slots keep the order, so that correlation between neighbours, a warm-up and a rise of the latency stay visible. They
//! do not keep the exchanges, so that a trial of an hour fits into memory.

use crate::promise::Promise;

/// Length of a slot in seconds.
pub const SLOT: f64 = 0.05;

/// Thresholds of the latency that are counted, as shares of the promise's limit. They are close to the limit at first,
/// because a path in front of the server may be most of it.
pub const THRESHOLDS: [f64; LEVELS] = [1.0, 0.99, 0.97, 0.94, 0.9, 0.84, 0.75, 0.6, 0.4, 0.2];

/// Number of thresholds.
pub const LEVELS: usize = 10;

/// Counts of one slot.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Slot {
    /// Exchanges planned in it.
    pub planned: u32,
    /// Of these, exchanges above each of the [`THRESHOLDS`]; the first are the bad ones. Failed exchanges are above all. Where the promise has no limit, only the first is counted: exchanges that failed.
    pub over: [u32; LEVELS],
    /// Sum of the latencies in seconds, each at most [`LONGEST`] times the limit.
    pub seconds: f64,
}

/// Longer latencies count as this many times the limit in [`Slot::seconds`].
pub const LONGEST: f64 = 1000.0;

/// The slots of a trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// In order; an empty slot is one in which nothing was planned.
    pub slots: Vec<Slot>,
}

impl Series {
    /// Counts an exchange that was planned `at` seconds after the start of the trial and ended after `latency` seconds.
    pub fn record(&mut self, promise: &Promise, at: f64, latency: f64, failed: bool) {
        // An instant between two slots belongs to the later one, whatever the rounding of its seconds.
        let number = (at / SLOT + 1e-6).max(0.0) as usize;
        if self.slots.len() <= number {
            self.slots.resize(number + 1, Slot::default());
        }
        let slot = &mut self.slots[number];
        slot.planned += 1;
        let exceeded = match (failed, promise.limit) {
            (true, Some(_)) => 0..LEVELS,
            (true, None) => 0..1,
            (false, None) => 0..0,
            (false, Some(limit)) => first_exceeded(latency / limit)..LEVELS,
        };
        for over in &mut slot.over[exceeded] {
            *over += 1;
        }
        let most = promise.limit.map_or(f64::INFINITY, |limit| LONGEST * limit);
        slot.seconds += if failed { 0.0 } else { latency.min(most) };
        if failed && let Some(limit) = promise.limit {
            slot.seconds += limit;
        }
    }

    /// The slots that end by `seconds` after the start.
    pub fn until(&self, seconds: f64) -> &[Slot] {
        let count = ((seconds / SLOT + 1e-9) as usize).min(self.slots.len());
        &self.slots[..count]
    }
}

/// The first threshold that a latency exceeds which is this share of the limit.
fn first_exceeded(share: f64) -> usize {
    let exceeded = THRESHOLDS.iter().position(|&threshold| share > threshold);
    exceeded.unwrap_or(LEVELS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMISE: fn() -> Promise = || Promise {
        text: "p99<100ms".to_owned(),
        limit: Some(0.1),
        share: 0.01,
    };

    #[test]
    fn exchanges_count_above_each_threshold_that_they_exceed() {
        let mut series = Series::default();
        let mut record = |latency, failed| series.record(&PROMISE(), 0.06, latency, failed);
        record(0.1, false);
        record(0.11, false);
        record(0.03, false);
        record(0.0, true);
        let slot = series.slots[1];
        assert_eq!(slot.planned, 4);
        // Above 100 ms: one, and the failed one; above 60 ms: the one of exactly 100 ms too; above 20 ms: all.
        assert_eq!([slot.over[0], slot.over[7], slot.over[9]], [2, 3, 4]);
        assert_eq!(series.slots[0], Slot::default());
        assert!((slot.seconds - 0.34).abs() < 1e-9, "{}", slot.seconds);
    }

    #[test]
    fn only_complete_slots_are_seen() {
        let mut series = Series::default();
        for n in 0..10 {
            series.record(&PROMISE(), f64::from(n) * SLOT + 0.001, 0.01, false);
        }
        assert_eq!(series.until(0.149).len(), 2);
        assert_eq!(series.until(0.15).len(), 3);
        assert_eq!(series.until(9.0).len(), 10);
    }
}
