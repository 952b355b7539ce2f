//! Times, counted exactly enough.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::buckets::{self, Buckets};

/// A distribution of times: a histogram of nanoseconds with three significant digits, beside the
/// exact count, sum, extremes and sum of squares.
#[derive(Debug, Clone)]
pub struct Distribution {
    buckets: Buckets,
    sum: u128,
    squares: f64,
    least: u64,
    greatest: u64,
}

impl Distribution {
    /// Significant decimal digits of a quantile: its relative error is below 10^-3.
    pub const DIGITS: u8 = buckets::DIGITS;

    /// Nothing recorded.
    pub fn new() -> Distribution {
        Distribution {
            buckets: Buckets::default(),
            sum: 0,
            squares: 0.0,
            least: u64::MAX,
            greatest: 0,
        }
    }

    /// Nothing recorded, with memory for times up to `longest` that is there at once: whatever is
    /// recorded, up to that, takes no further memory. A longer time is recorded as well, and makes
    /// the histogram grow.
    pub fn with_room(longest: Duration) -> Distribution {
        let mut distribution = Distribution {
            buckets: Buckets::with_room(whole_nanos(longest)),
            ..Distribution::new()
        };
        // The system makes fresh zeros when they are first written to, and a compiler that knows them
        // to be zeros would not write them.
        std::hint::black_box(&mut distribution).clear();
        distribution
    }

    /// Forgets all that was recorded, and keeps the memory.
    pub fn clear(&mut self) {
        let Distribution {
            buckets,
            sum,
            squares,
            least,
            greatest,
        } = self;
        buckets.clear();
        *sum = 0;
        *squares = 0.0;
        *least = u64::MAX;
        *greatest = 0;
    }

    /// Records one time.
    pub fn record(&mut self, time: Duration) {
        self.record_nanos(whole_nanos(time));
    }

    /// Records one time, in nanoseconds.
    #[inline]
    pub fn record_nanos(&mut self, nanos: u64) {
        // No time is longer than half of what the number holds, and a signed number is the quicker to convert.
        let nanos = nanos.min(LONGEST);
        self.buckets.count(nanos);
        self.sum += u128::from(nanos);
        let float = nanos as i64 as f64;
        self.squares += float * float;
        self.least = self.least.min(nanos);
        self.greatest = self.greatest.max(nanos);
    }

    /// Adds what another has recorded.
    pub fn merge(&mut self, other: &Distribution) {
        self.buckets.add(&other.buckets);
        self.sum += other.sum;
        self.squares += other.squares;
        self.least = self.least.min(other.least);
        self.greatest = self.greatest.max(other.greatest);
    }

    /// How many times were recorded.
    pub fn count(&self) -> u64 {
        self.buckets.total()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// Their sum.
    pub fn sum(&self) -> Duration {
        let seconds = (self.sum / 1_000_000_000) as u64;
        Duration::new(seconds, (self.sum % 1_000_000_000) as u32)
    }

    /// Their mean; `None` when there are none.
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum.checked_div(u128::from(self.count()))?;
        Some(Duration::from_nanos(mean as u64))
    }

    /// Their standard deviation; `None` when there are none.
    pub fn standard_deviation(&self) -> Option<Duration> {
        let count = self.count() as f64;
        let mean = self.mean()?.as_nanos() as f64;
        let variance = (self.squares / count - mean * mean).max(0.0);
        Some(Duration::from_nanos(variance.sqrt() as u64))
    }

    /// The smallest, exactly.
    pub fn min(&self) -> Option<Duration> {
        (!self.is_empty()).then(|| Duration::from_nanos(self.least))
    }

    /// The largest, exactly.
    pub fn max(&self) -> Option<Duration> {
        (!self.is_empty()).then(|| Duration::from_nanos(self.greatest))
    }

    /// The smallest value that at least the fraction `quantile` (0 to 1) of them does not exceed, to
    /// three digits.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let nanos = self.buckets.quantile(quantile);
        (!self.is_empty()).then(|| Duration::from_nanos(nanos.clamp(self.least, self.greatest)))
    }

    /// The share of them that lies within a standard deviation of the mean (h2load's last column).
    pub fn within_one_deviation(&self) -> Option<f64> {
        let (mean, deviation) = (self.mean()?, self.standard_deviation()?);
        let low = mean.saturating_sub(deviation).as_nanos() as u64;
        let high = (mean + deviation).as_nanos() as u64;
        Some(self.buckets.between(low, high) as f64 / self.count() as f64)
    }

    /// How many times were not longer than this one, to three digits.
    pub fn count_up_to(&self, time: Duration) -> u64 {
        self.buckets.between(0, whole_nanos(time))
    }

    /// What was recorded, in nanoseconds to three digits: the longest of the times that are not told apart, and
    /// how many they were, from the shortest to the longest.
    pub fn recorded(&self) -> impl Iterator<Item = (u64, u64)> {
        self.buckets.recorded()
    }

    /// A histogram of it, in nanoseconds.
    pub fn histogram(&self) -> Histogram<u64> {
        self.buckets.histogram()
    }
}

impl Default for Distribution {
    fn default() -> Distribution {
        Distribution::new()
    }
}

/// The longest time, in nanoseconds: what is longer is not to be believed.
const LONGEST: u64 = u64::MAX / 2;

/// A time that can be counted.
fn whole_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).map_or(LONGEST, |nanos| nanos.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_with_room_counts_as_any_other_and_can_begin_anew() {
        let times = [0, 1, 1_500, 999_999, 29_000_000_000, 90_000_000_000];
        for room in [Duration::ZERO, Duration::from_secs(30), Duration::MAX] {
            let mut roomy = Distribution::with_room(room);
            assert_eq!((roomy.count(), roomy.max()), (0, None));
            // More than there is room for in the second round.
            for most in [5, 6] {
                roomy.clear();
                let mut plain = Distribution::new();
                for nanos in &times[..most] {
                    roomy.record(Duration::from_nanos(*nanos));
                    plain.record(Duration::from_nanos(*nanos));
                }
                assert_eq!(roomy.count(), most as u64);
                assert_eq!(roomy.sum(), plain.sum());
                assert_eq!((roomy.min(), roomy.max()), (plain.min(), plain.max()));
                assert_eq!(roomy.standard_deviation(), plain.standard_deviation());
                for quantile in [0.0, 0.2, 0.5, 0.9, 1.0] {
                    assert_eq!(roomy.quantile(quantile), plain.quantile(quantile));
                }
            }
        }
    }

    #[test]
    fn a_merged_distribution_is_that_of_all_its_values() {
        let millis = Duration::from_millis;
        let (mut all, mut low, mut high) = (
            Distribution::new(),
            Distribution::new(),
            Distribution::new(),
        );
        for n in 1..=1000 {
            all.record(millis(n));
            if n <= 300 { &mut low } else { &mut high }.record(millis(n));
        }
        low.merge(&high);
        for distribution in [&all, &low] {
            assert_eq!(distribution.count(), 1000);
            assert_eq!(distribution.sum(), millis(500_500));
            assert_eq!(distribution.mean(), Some(Duration::from_micros(500_500)));
            assert_eq!(distribution.min(), Some(millis(1)));
            assert_eq!(distribution.max(), Some(millis(1000)));
            let p98 = distribution.quantile(0.98).unwrap().as_secs_f64();
            assert!((p98 - 0.980).abs() < 0.001, "{p98}");
            // Of a uniform distribution the share within a deviation is 1/sqrt(3).
            let share = distribution.within_one_deviation().unwrap();
            assert!((share - 0.577).abs() < 0.005, "{share}");
        }
        assert_eq!(Distribution::new().quantile(0.5), None);
    }
}
