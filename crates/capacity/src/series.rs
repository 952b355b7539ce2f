//! The exchanges of a trial for one SLO: counts in short slots of time, in the order in which the exchanges were
//! planned.
//!
//! Slots keep the order, so that correlation between neighbours, a warm-up and a rise of the latency stay visible.
//! Single exchanges are not stored, so that a trial of an hour fits into memory.

use crate::slo_limit::SloLimit;

/// Length of a slot in seconds.
pub const SLOT: f64 = 0.05;

/// Thresholds of the latency that are counted, as shares of the SLO's limit. The first thresholds are close to the
/// limit, because a path in front of the server may cause most of the latency.
pub const THRESHOLDS: [f64; LEVELS] = [1.0, 0.99, 0.97, 0.94, 0.9, 0.84, 0.75, 0.6, 0.4, 0.2];

/// Number of thresholds.
pub const LEVELS: usize = 10;

/// Counts of one slot.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Slot {
    /// Number of exchanges planned in the slot.
    pub planned: u32,
    /// Number of these exchanges above each of the [`THRESHOLDS`]; the first number counts the bad exchanges. A
    /// failed exchange is above all thresholds. If the SLO has no limit, only failed exchanges are counted, in the
    /// first number.
    pub over: [u32; LEVELS],
    /// Sum of the latencies in seconds, each at most [`LONGEST`] times the limit.
    pub seconds: f64,
}

/// Longer latencies count as this many times the limit in [`Slot::seconds`].
pub const LONGEST: f64 = 1000.0;

/// The slots of a trial.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// The slots in order; in an empty slot, nothing was planned.
    pub slots: Vec<Slot>,
}

impl Series {
    /// Counts an exchange that was planned `at` seconds after the start of the trial and ended after `latency` seconds.
    pub fn record(&mut self, slo: &SloLimit, at: f64, latency: f64, failed: bool) {
        // An instant on the boundary of two slots belongs to the later slot, regardless of rounding errors.
        let number = (at / SLOT + 1e-6).max(0.0) as usize;
        if self.slots.len() <= number {
            self.slots.resize(number + 1, Slot::default());
        }
        let slot = &mut self.slots[number];
        slot.planned += 1;
        let exceeded = match (failed, slo.limit) {
            (true, Some(_)) => 0..LEVELS,
            (true, None) => 0..1,
            (false, None) => 0..0,
            (false, Some(limit)) => first_exceeded(latency / limit)..LEVELS,
        };
        for over in &mut slot.over[exceeded] {
            *over += 1;
        }
        let most = slo.limit.map_or(f64::INFINITY, |limit| LONGEST * limit);
        slot.seconds += if failed { 0.0 } else { latency.min(most) };
        if failed && let Some(limit) = slo.limit {
            slot.seconds += limit;
        }
    }

    /// Returns the slots that end at most `seconds` after the start.
    pub fn until(&self, seconds: f64) -> &[Slot] {
        let count = ((seconds / SLOT + 1e-9) as usize).min(self.slots.len());
        &self.slots[..count]
    }
}

/// Returns the first threshold that a latency of this share of the limit exceeds.
fn first_exceeded(share: f64) -> usize {
    let exceeded = THRESHOLDS.iter().position(|&threshold| share > threshold);
    exceeded.unwrap_or(LEVELS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLO: fn() -> SloLimit = || SloLimit {
        text: "p99<100ms".to_owned(),
        limit: Some(0.1),
        share: 0.01,
    };

    #[test]
    fn exchanges_count_above_each_threshold_that_they_exceed() {
        let mut series = Series::default();
        let mut record = |latency, failed| series.record(&SLO(), 0.06, latency, failed);
        record(0.1, false);
        record(0.11, false);
        record(0.03, false);
        record(0.0, true);
        let slot = series.slots[1];
        assert_eq!(slot.planned, 4);
        // Above 100 ms: one exchange and the failed one; above 60 ms: also the exchange of exactly 100 ms; above 20
        // ms: all.
        assert_eq!([slot.over[0], slot.over[7], slot.over[9]], [2, 3, 4]);
        assert_eq!(series.slots[0], Slot::default());
        assert!((slot.seconds - 0.34).abs() < 1e-9, "{}", slot.seconds);
    }

    #[test]
    fn only_complete_slots_are_seen() {
        let mut series = Series::default();
        for n in 0..10 {
            series.record(&SLO(), f64::from(n) * SLOT + 0.001, 0.01, false);
        }
        assert_eq!(series.until(0.149).len(), 2);
        assert_eq!(series.until(0.15).len(), 3);
        assert_eq!(series.until(9.0).len(), 10);
    }
}
