//! The offset of rank 0's clock from a member's clock, by ping-pong.
//!
//! A member sends a ping at t1. Rank 0 reads the ping at t2 of its own clock and answers at once. The member reads the
//! answer at t4. The offset is t2 − (t1 + t4)/2. Its error is at most (t4 − t1)/2, for any division of the round-trip
//! time between the two directions (Cristian, "Probabilistic clock synchronization", Distributed Computing 3, 1989).
//! The round trip with the shortest time is used.

use std::time::Duration;

use fathometer_model::Instant;
use serde::{Deserialize, Serialize};

/// The offset of rank 0's clock from the clock of this rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// The offset in nanoseconds; positive if rank 0's clock is ahead.
    pub offset: i64,
    /// The maximum error of the offset.
    pub uncertainty: Duration,
}

impl ClockOffset {
    /// The offset of a clock from itself.
    pub const SAME: ClockOffset = ClockOffset {
        offset: 0,
        uncertainty: Duration::ZERO,
    };

    /// Computes the offset from one round trip. `sent` and `back` are instants of this clock; `read` is an instant of
    /// rank 0's clock.
    pub fn of_round_trip(sent: Instant, read: Instant, back: Instant) -> ClockOffset {
        let round_trip = back.since(sent);
        let middle = sent + round_trip / 2;
        let offset = i128::from(read.as_nanos()) - i128::from(middle.as_nanos());
        // An offset of more than 292 years is clamped, because a wrong clock must not stop the program.
        let most = if offset > 0 { i64::MAX } else { i64::MIN };
        ClockOffset {
            offset: i64::try_from(offset).unwrap_or(most),
            uncertainty: round_trip.div_ceil_two(),
        }
    }

    /// Converts an instant of rank 0's clock to an instant of this clock.
    pub fn own(&self, of_rank_0: Instant) -> Instant {
        let nanos = i128::from(of_rank_0.as_nanos()) - i128::from(self.offset);
        Instant::from_nanos(u64::try_from(nanos.max(0)).unwrap_or(u64::MAX))
    }

    /// The smallest drift of the clocks that can explain the difference between two measured offsets.
    pub fn certain_drift(&self, other: &ClockOffset) -> Duration {
        let between = Duration::from_nanos(self.offset.abs_diff(other.offset));
        between.saturating_sub(self.uncertainty + other.uncertainty)
    }
}

/// Halves a duration, rounding up to the next nanosecond.
trait DivCeilTwo {
    fn div_ceil_two(self) -> Duration;
}

impl DivCeilTwo for Duration {
    fn div_ceil_two(self) -> Duration {
        (self + Duration::from_nanos(1)) / 2
    }
}

/// The comparison of a member's clock with rank 0's clock during a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockRecord {
    /// The offset before the test.
    pub before: ClockOffset,
    /// The offset after the test; `None` if rank 0 did not answer.
    pub after: Option<ClockOffset>,
    /// The largest certain drift relative to the offset before the test, over all readings during and after the test.
    pub drift: Duration,
    /// Total number of round trips.
    pub round_trips: u64,
}

impl ClockRecord {
    /// The record of rank 0's own clock.
    pub const SAME: ClockRecord = ClockRecord {
        before: ClockOffset::SAME,
        after: Some(ClockOffset::SAME),
        drift: Duration::ZERO,
        round_trips: 0,
    };
}

/// The number of round trips in a series. One series precedes the test, one follows it.
pub const ROUND_TRIPS: u32 = 32;

/// Estimates an offset from series of round trips.
#[derive(Debug, Clone, Default)]
pub struct Estimator {
    best: Option<ClockOffset>,
    in_series: u32,
    round_trips: u64,
    before: Option<ClockOffset>,
    after: Option<ClockOffset>,
    drift: Duration,
}

impl Estimator {
    /// Adds a round trip. Returns whether the series has [`ROUND_TRIPS`] round trips.
    pub fn add(&mut self, sent: Instant, read: Instant, back: Instant) -> bool {
        let offset = ClockOffset::of_round_trip(sent, read, back);
        if self
            .best
            .is_none_or(|best| offset.uncertainty < best.uncertainty)
        {
            self.best = Some(offset);
        }
        if let Some(before) = &self.before {
            self.drift = self.drift.max(before.certain_drift(&offset));
        }
        self.in_series += 1;
        self.round_trips += 1;
        self.in_series >= ROUND_TRIPS
    }

    /// Starts the series before the test.
    pub fn begin(&mut self) {
        (self.best, self.in_series) = (None, 0);
    }

    /// Ends the series before the test.
    pub fn end_before(&mut self) -> Option<ClockOffset> {
        self.before = self.best.take();
        self.before
    }

    /// Ends the series after the test.
    pub fn end_after(&mut self) {
        self.after = self.best.take();
    }

    /// Returns the offsets and the drift; `None` if there was no round trip before the test.
    pub fn record(&self) -> Option<ClockRecord> {
        Some(ClockRecord {
            before: self.before?,
            after: self.after,
            drift: self.drift,
            round_trips: self.round_trips,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(1000 * micros)
    }

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    #[test]
    fn the_true_offset_is_within_the_uncertainty_whatever_either_way_takes() {
        for (there, back) in [(10, 10), (1, 500), (500, 1), (0, 0), (3, 4)] {
            for ahead in [0u64, 7_000_000] {
                let sent = at(100);
                let read = at(100 + there + ahead);
                let found = ClockOffset::of_round_trip(sent, read, at(100 + there + back));
                let error = (found.offset - 1000 * ahead as i64).unsigned_abs();
                assert!(Duration::from_nanos(error) <= found.uncertainty);
                let own = found.own(at(5_000_000 + ahead));
                let expected = at(5_000_000);
                assert!(own.since(expected).max(expected.since(own)) <= found.uncertainty);
            }
        }
    }

    #[test]
    fn the_shortest_round_trip_counts_and_drift_is_what_errors_cannot_explain() {
        let mut estimator = Estimator::default();
        estimator.begin();
        for n in 0..u64::from(ROUND_TRIPS) {
            // Rank 0's clock is 1 s behind. The 20th round trip takes 20 µs, all others 2 ms.
            let sent = 2_000_000 + 10_000 * n;
            let trip = if n == 20 { 20 } else { 2000 };
            let read = at(sent + trip / 2 - 1_000_000);
            let is_complete = estimator.add(at(sent), read, at(sent + trip));
            assert_eq!(is_complete, n + 1 == u64::from(ROUND_TRIPS));
        }
        let before = estimator.end_before().unwrap();
        assert_eq!(
            (before.offset, before.uncertainty),
            (-1_000_000_000, micros(10))
        );
        // A difference within the uncertainties is not a drift.
        estimator.begin();
        estimator.add(at(9_000_000), at(8_000_500), at(9_002_000));
        assert_eq!(estimator.record().unwrap().drift, Duration::ZERO);
        // The drift is 300 µs minus the uncertainties of both readings, 10 µs each.
        estimator.add(at(9_000_000), at(8_000_310), at(9_000_020));
        estimator.end_after();
        let record = estimator.record().unwrap();
        assert_eq!(record.drift, micros(280));
        assert_eq!(record.after.unwrap().uncertainty, micros(10));
        assert_eq!(record.round_trips, 34);
    }
}
