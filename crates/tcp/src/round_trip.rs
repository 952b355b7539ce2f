//! The estimate of the round-trip time, and the retransmission time-out computed from it.

use std::time::Duration;

/// The time-out before the first sample (RFC 6298 section 2.1).
const FIRST: Duration = Duration::from_secs(1);
/// The longest time-out.
const LONGEST: Duration = Duration::from_secs(120);

/// The smoothed round-trip time and its deviation. Linux differs from RFC 6298: it uses the maximum deviation over a
/// round trip. This maximum decreases by at most a quarter per round trip, and samples below the mean raise the
/// deviation by less.
#[derive(Debug, Clone)]
pub(crate) struct RoundTrip {
    least_timeout: i64,
    /// The smoothed round-trip time, in units of 1/8 µs.
    smoothed: i64,
    /// The deviation, in units of 1/4 µs, like `greatest` and `in_force`.
    deviation: i64,
    greatest: i64,
    in_force: i64,
    /// The sequence number whose acknowledgement ends the current round trip.
    round_end: u64,
    /// The shortest round-trip time so far.
    pub(crate) least: Option<Duration>,
    backoff: u32,
}

impl RoundTrip {
    pub(crate) fn new(least_timeout: Duration) -> RoundTrip {
        RoundTrip {
            least_timeout: least_timeout.as_micros() as i64,
            smoothed: 0,
            deviation: 0,
            greatest: 0,
            in_force: 0,
            round_end: 0,
            least: None,
            backoff: 0,
        }
    }

    /// Records a sample and resets the back-off.
    pub(crate) fn sample(&mut self, sample: Duration, acknowledged: u64, next: u64) {
        self.backoff = 0;
        self.least = Some(self.least.map_or(sample, |least| least.min(sample)));
        let sample = (sample.as_micros() as i64).max(1);
        if self.smoothed == 0 {
            self.smoothed = sample << 3;
            self.deviation = sample << 1;
            self.in_force = self.deviation.max(self.least_timeout);
            self.greatest = self.in_force;
            self.round_end = next;
            return;
        }
        let error = sample - (self.smoothed >> 3);
        self.smoothed += error;
        let mut change = error.abs() - (self.deviation >> 2);
        if error < 0 && change > 0 {
            change >>= 3;
        }
        self.deviation += change;
        if self.deviation > self.greatest {
            self.greatest = self.deviation;
            self.in_force = self.in_force.max(self.greatest);
        }
        if acknowledged > self.round_end {
            if self.greatest < self.in_force {
                self.in_force -= (self.in_force - self.greatest) >> 2;
            }
            self.round_end = next;
            self.greatest = self.least_timeout;
        }
    }

    /// Returns the smoothed round-trip time; `None` before the first sample.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        (self.smoothed > 0).then(|| Duration::from_micros((self.smoothed >> 3) as u64))
    }

    /// Returns the minimum difference between the smoothed round-trip time and the time-out.
    pub(crate) fn least_timeout(&self) -> Duration {
        Duration::from_micros(self.least_timeout as u64)
    }

    /// Returns the retransmission time-out, with back-off.
    pub(crate) fn timeout(&self) -> Duration {
        let base = match self.smoothed {
            0 => FIRST,
            smoothed => Duration::from_micros(((smoothed >> 3) + self.in_force) as u64),
        };
        (base * (1 << self.backoff.min(10))).min(LONGEST)
    }

    /// Doubles the time-out after it has expired.
    pub(crate) fn back_off(&mut self) {
        self.backoff += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_out_is_the_round_trip_and_at_least_200_ms() {
        let mut estimate = RoundTrip::new(Duration::from_millis(200));
        assert_eq!(estimate.timeout(), FIRST);
        estimate.sample(Duration::from_millis(90), 1, 1);
        assert_eq!(estimate.timeout(), Duration::from_millis(290));
        estimate.back_off();
        assert_eq!(estimate.timeout(), Duration::from_millis(580));
    }

    #[test]
    fn a_sudden_queue_raises_the_time_out_at_once() {
        let mut estimate = RoundTrip::new(Duration::from_millis(200));
        estimate.sample(Duration::from_millis(185), 1, 1);
        assert_eq!(estimate.timeout(), Duration::from_millis(555));
        estimate.sample(Duration::from_millis(585), 2, 9);
        // Smoothed 235 ms, deviation 370 + (400 - 92.5) ms.
        assert_eq!(estimate.timeout().as_millis(), 235 + 677);
    }
}
