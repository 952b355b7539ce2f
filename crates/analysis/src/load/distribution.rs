//! Distributions of times, to three significant digits.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::buckets::{self, Buckets};

/// A distribution of times: a histogram of nanoseconds with three significant digits, together with the exact
/// count, sum, extremes and sum of squares.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Distribution {
    buckets: Buckets,
    sum: u128,
    squares: f64,
    least: u64,
    greatest: u64,
}

/// A distribution that was read but not yet checked for contradictions.
#[derive(Deserialize)]
#[serde(rename = "Distribution")]
struct Unchecked {
    buckets: Buckets,
    sum: u128,
    squares: f64,
    least: u64,
    greatest: u64,
}

impl TryFrom<Unchecked> for Distribution {
    type Error = &'static str;

    /// Checks the conditions that quantiles, means and sums require.
    fn try_from(read: Unchecked) -> Result<Distribution, &'static str> {
        let Unchecked {
            buckets,
            sum,
            squares,
            least,
            greatest,
        } = read;
        let count = u128::from(buckets.total());
        let is_sound = match count {
            0 => (sum, least, greatest) == (0, u64::MAX, 0),
            _ => {
                let sums = count * u128::from(least)..=count * u128::from(greatest.min(LONGEST));
                greatest <= LONGEST && buckets.are_between(least, greatest) && sums.contains(&sum)
            }
        };
        if !is_sound || !squares.is_finite() || squares < 0.0 {
            return Err("the sum or the extremes of a distribution contradict its counts");
        }
        Ok(Distribution {
            buckets,
            sum,
            squares,
            least,
            greatest,
        })
    }
}

impl Distribution {
    /// Significant decimal digits of a quantile: its relative error is below 10^-3.
    pub const DIGITS: u8 = buckets::DIGITS;

    /// Creates an empty distribution.
    pub fn new() -> Distribution {
        Distribution {
            buckets: Buckets::default(),
            sum: 0,
            squares: 0.0,
            least: u64::MAX,
            greatest: 0,
        }
    }

    /// Creates an empty distribution with preallocated memory for times up to `longest`. A longer time is also
    /// recorded, but makes the histogram grow.
    pub fn with_room(longest: Duration) -> Distribution {
        let mut distribution = Distribution {
            buckets: Buckets::with_room(whole_nanos(longest)),
            ..Distribution::new()
        };
        // The kernel maps the pages only at the first write. Without `black_box`, the compiler would omit the write,
        // because it can prove that the memory is already zero.
        std::hint::black_box(&mut distribution).clear();
        distribution
    }

    /// Resets the distribution, but does not free the memory.
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
        // The largest time is half of the type's range. So each time fits into a signed number, which converts faster
        // to a float.
        let nanos = nanos.min(LONGEST);
        self.buckets.count(nanos);
        self.sum += u128::from(nanos);
        let float = nanos as i64 as f64;
        self.squares += float * float;
        self.least = self.least.min(nanos);
        self.greatest = self.greatest.max(nanos);
    }

    /// Adds the times of `other`.
    pub fn merge(&mut self, other: &Distribution) {
        self.buckets.add(&other.buckets);
        self.sum += other.sum;
        self.squares += other.squares;
        self.least = self.least.min(other.least);
        self.greatest = self.greatest.max(other.greatest);
    }

    /// Number of recorded times.
    pub fn count(&self) -> u64 {
        self.buckets.total()
    }

    /// Whether no time was recorded.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The sum of the times.
    pub fn sum(&self) -> Duration {
        let seconds = (self.sum / 1_000_000_000) as u64;
        Duration::new(seconds, (self.sum % 1_000_000_000) as u32)
    }

    /// The mean; `None` when the distribution is empty.
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum.checked_div(u128::from(self.count()))?;
        Some(Duration::from_nanos(mean as u64))
    }

    /// The standard deviation; `None` when the distribution is empty.
    pub fn standard_deviation(&self) -> Option<Duration> {
        if self.is_empty() {
            return None;
        }
        let count = self.count() as f64;
        // The mean is not rounded, because the variance would multiply the rounding error by twice the mean.
        let mean = self.sum as f64 / count;
        let variance = (self.squares / count - mean * mean).max(0.0);
        Some(Duration::from_nanos(variance.sqrt() as u64))
    }

    /// The smallest time, exact.
    pub fn min(&self) -> Option<Duration> {
        (!self.is_empty()).then(|| Duration::from_nanos(self.least))
    }

    /// The largest time, exact.
    pub fn max(&self) -> Option<Duration> {
        (!self.is_empty()).then(|| Duration::from_nanos(self.greatest))
    }

    /// The smallest value that is at least as large as the fraction `quantile` (0 to 1) of the times, to three digits.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let nanos = self.buckets.quantile(quantile);
        (!self.is_empty()).then(|| Duration::from_nanos(nanos.clamp(self.least, self.greatest)))
    }

    /// The share of the times within one standard deviation of the mean (the last column of h2load).
    pub fn within_one_deviation(&self) -> Option<f64> {
        let (mean, deviation) = (self.mean()?, self.standard_deviation()?);
        let low = mean.saturating_sub(deviation).as_nanos() as u64;
        let high = (mean + deviation).as_nanos() as u64;
        Some(self.buckets.between(low, high) as f64 / self.count() as f64)
    }

    /// Number of times up to and including `time`, to three digits.
    pub fn count_up_to(&self, time: Duration) -> u64 {
        self.buckets.between(0, whole_nanos(time))
    }

    /// The longest time of each bucket, in nanoseconds to three digits, and the count of the bucket. The order is
    /// ascending.
    pub fn recorded(&self) -> impl Iterator<Item = (u64, u64)> {
        self.buckets.recorded()
    }

    /// Converts the distribution to a histogram of nanoseconds.
    pub fn histogram(&self) -> Histogram<u64> {
        self.buckets.histogram()
    }
}

impl Default for Distribution {
    fn default() -> Distribution {
        Distribution::new()
    }
}

/// The longest time that can be recorded, in nanoseconds; longer times are recorded as this time.
const LONGEST: u64 = u64::MAX / 2;

/// The time in nanoseconds, at most `LONGEST`.
fn whole_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).map_or(LONGEST, |nanos| nanos.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_that_was_serialized_is_the_same() {
        let mut times = Distribution::with_room(Duration::from_secs(1));
        for nanos in [0, 1, 2047, 2048, 999_999_937, u64::MAX] {
            (0..=nanos % 7).for_each(|_| times.record_nanos(nanos));
        }
        for times in [times, Distribution::new()] {
            let text = serde_json::to_string(&times).unwrap();
            let read: Distribution = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json::to_string(&read).unwrap(), text);
            assert_eq!(read.count(), times.count());
            assert!(read.recorded().eq(times.recorded()));
            let of = |times: &Distribution| {
                (
                    times.sum(),
                    times.min(),
                    times.max(),
                    times.standard_deviation(),
                )
            };
            assert_eq!(of(&read), of(&times));
        }
    }

    #[test]
    fn counts_that_no_distribution_has_are_refused() {
        let whole = serde_json::to_string(&Distribution::new()).unwrap();
        for (buckets, why) in [
            ("[[0,0]]", "no count"),
            ("[[4000000000,1]]", "out of range"),
            ("[[0,18446744073709551615],[1,1]]", "overflows"),
        ] {
            let text = whole.replace("\"buckets\":[]", &format!("\"buckets\":{buckets}"));
            let error = serde_json::from_str::<Distribution>(&text).unwrap_err();
            assert!(error.to_string().contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn extremes_and_sums_that_contradict_the_counts_are_refused() {
        let mut times = Distribution::new();
        for nanos in [5, 7, 3_000] {
            times.record_nanos(nanos);
        }
        let whole = serde_json::to_string(&times).unwrap();
        assert!(serde_json::from_str::<Distribution>(&whole).is_ok());
        for (of, absurd) in [
            ("\"least\":5", "\"least\":6"),
            ("\"least\":5", "\"least\":9000"),
            ("\"greatest\":3000", "\"greatest\":18446744073709551615"),
            ("\"greatest\":3000", "\"greatest\":3"),
            ("\"sum\":3012", "\"sum\":14"),
            ("\"sum\":3012", "\"sum\":9001"),
            ("\"squares\":", "\"squares\":-"),
        ] {
            let text = whole.replace(of, absurd);
            assert_ne!(text, whole);
            let error = serde_json::from_str::<Distribution>(&text).unwrap_err();
            assert!(error.to_string().contains("contradict"), "{text}: {error}");
        }
        let empty = serde_json::to_string(&Distribution::new()).unwrap();
        let text = empty.replace("\"sum\":0", "\"sum\":1");
        assert!(serde_json::from_str::<Distribution>(&text).is_err());
    }

    #[test]
    fn the_deviation_of_nearly_equal_times_is_small() {
        let mut times = Distribution::new();
        times.record_nanos(100_000_000);
        (0..9).for_each(|_| times.record_nanos(100_000_001));
        assert!(times.standard_deviation().unwrap() < Duration::from_nanos(100));
    }

    #[test]
    fn a_preallocated_distribution_counts_like_any_other_and_can_be_cleared() {
        let times = [0, 1, 1_500, 999_999, 29_000_000_000, 90_000_000_000];
        for room in [Duration::ZERO, Duration::from_secs(30), Duration::MAX] {
            let mut roomy = Distribution::with_room(room);
            assert_eq!((roomy.count(), roomy.max()), (0, None));
            // The second iteration records more than the preallocated range.
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
            // In a uniform distribution the share within one deviation is 1/sqrt(3).
            let share = distribution.within_one_deviation().unwrap();
            assert!((share - 0.577).abs() < 0.005, "{share}");
        }
        assert_eq!(Distribution::new().quantile(0.5), None);
    }
}
