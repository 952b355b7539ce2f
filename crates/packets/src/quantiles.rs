//! Minimum, mean, median and maximum of a stream of durations in bounded memory.

use serde::{Deserialize, Serialize};

/// Maximum number of samples that are stored exactly; beyond it, samples are counted in buckets.
const EXACT_LIMIT: usize = 4_096;
/// Initial capacity; it is small because most connections are short.
const FIRST_SAMPLES: usize = 16;
/// Number of buckets per power of two: a bucketed median deviates by at most 1/512 of its value.
const BUCKETS: usize = 256;
const BUCKET_BITS: u32 = BUCKETS.trailing_zeros();

/// Round-trip times of one direction, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RttSummary {
    /// Number of samples.
    pub samples: u64,
    /// The shortest round-trip time.
    pub min_ns: u64,
    /// The mean round-trip time.
    pub mean_ns: f64,
    /// The median round-trip time: exact up to 4096 samples, otherwise within 0.2 %.
    pub median_ns: f64,
    /// The longest round-trip time.
    pub max_ns: u64,
}

/// Collects samples.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Quantiles {
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
    exact: Vec<u64>,
    buckets: Vec<u32>,
}

impl Quantiles {
    pub(super) fn add(&mut self, value: u64) {
        self.min = if self.count == 0 {
            value
        } else {
            self.min.min(value)
        };
        self.max = self.max.max(value);
        self.count += 1;
        self.sum += u128::from(value);
        if self.buckets.is_empty() && self.exact.len() < EXACT_LIMIT {
            if self.exact.capacity() == 0 {
                self.exact.reserve(FIRST_SAMPLES);
            }
            self.exact.push(value);
            return;
        }
        if self.buckets.is_empty() {
            self.buckets = vec![0; bucket(u64::MAX) + 1];
            for value in std::mem::take(&mut self.exact) {
                self.buckets[bucket(value)] += 1;
            }
        }
        let slot = &mut self.buckets[bucket(value)];
        *slot = slot.saturating_add(1);
    }

    /// Returns the approximate heap memory, in bytes.
    pub(super) fn memory(&self) -> u64 {
        (self.exact.capacity() * size_of::<u64>() + self.buckets.capacity() * size_of::<u32>())
            as u64
    }

    /// Returns the summary; `None` if there are no samples.
    pub(super) fn summary(&self) -> Option<RttSummary> {
        (self.count > 0).then(|| RttSummary {
            samples: self.count,
            min_ns: self.min,
            mean_ns: self.sum as f64 / self.count as f64,
            median_ns: self.median(),
            max_ns: self.max,
        })
    }

    fn median(&self) -> f64 {
        let middle = ((self.count - 1) / 2, self.count / 2);
        if self.buckets.is_empty() {
            let mut sorted = self.exact.clone();
            sorted.sort_unstable();
            let at = |rank: u64| sorted[rank as usize] as f64;
            return (at(middle.0) + at(middle.1)) / 2.0;
        }
        let at = |rank: u64| {
            let mut before = 0;
            let index = self.buckets.iter().position(|count| {
                before += u64::from(*count);
                before > rank
            });
            middle_of(index.unwrap_or_default())
        };
        ((at(middle.0) + at(middle.1)) / 2.0).clamp(self.min as f64, self.max as f64)
    }
}

/// Returns the bucket of a value: buckets of 1 ns up to 256 ns, then 256 buckets per doubling.
fn bucket(value: u64) -> usize {
    let doublings = (u64::BITS - value.leading_zeros()).saturating_sub(BUCKET_BITS + 1);
    let within = (value >> doublings) as usize;
    doublings as usize * BUCKETS + within
}

fn middle_of(index: usize) -> f64 {
    let doublings = (index / BUCKETS).saturating_sub(1);
    let within = index - doublings * BUCKETS;
    let width = 2f64.powi(doublings as i32);
    within as f64 * width + (width - 1.0) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn few_samples_are_exact() {
        let mut quantiles = Quantiles::default();
        assert_eq!(quantiles.summary(), None);
        for value in [9, 1, 5, 7] {
            quantiles.add(value);
        }
        let summary = quantiles.summary().unwrap();
        assert_eq!(
            (
                summary.min_ns,
                summary.median_ns,
                summary.mean_ns,
                summary.max_ns
            ),
            (1, 6.0, 5.5, 9)
        );
    }

    #[test]
    fn many_samples_keep_the_median_within_its_bound() {
        let mut quantiles = Quantiles::default();
        for value in 0..100_001u64 {
            quantiles.add(value * 1_000);
        }
        let summary = quantiles.summary().unwrap();
        assert_eq!((summary.min_ns, summary.max_ns), (0, 100_000_000));
        let error = (summary.median_ns / 50_000_000.0 - 1.0).abs();
        assert!(error <= 1.0 / 512.0, "{error}");
    }

    proptest! {
        #[test]
        fn buckets_are_ordered_and_their_middle_is_near(value in any::<u64>(), more in any::<u32>()) {
            let larger = value.saturating_add(u64::from(more));
            prop_assert!(bucket(value) <= bucket(larger));
            let error = (middle_of(bucket(value)) - value as f64).abs();
            prop_assert!(error <= value as f64 / 512.0 + 0.5, "{value}: off by {error}");
        }
    }
}
