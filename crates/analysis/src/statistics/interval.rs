//! Intervals, and estimates that have one.

use serde::{Deserialize, Serialize};

/// The default nominal level of intervals.
pub const LEVEL: f64 = 0.95;

/// The interval from `low` to `high`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end; never below the lower end.
    pub high: f64,
}

impl Interval {
    /// Whether the interval contains the value.
    pub fn contains(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// An estimate with its number of replicates and its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Number of replicates; for two unpaired sides, the smaller number.
    pub n: usize,
    /// The estimate.
    pub value: f64,
    /// The interval. `None` with fewer than two replicates, or if the statistic of a part of the sample is not finite
    /// (for example a ratio whose denominator can be zero).
    pub interval: Option<Interval>,
}

impl Estimate {
    /// The longer of the two distances from the value to the ends of the interval.
    pub fn half_length(&self) -> Option<f64> {
        let interval = self.interval?;
        Some((self.value - interval.low).max(interval.high - self.value))
    }
}

/// Whether the sides of a comparison are paired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sides {
    /// Value i of one side and value i of the other side used the same random numbers.
    Paired,
    /// The sides are independent samples.
    Independent,
}

impl Sides {
    /// Returns [`Sides::Paired`] if all samples have the same replicates. Each item contains the replicate numbers of
    /// one sample.
    ///
    /// Replicates with the same number used the same random numbers in every cell.
    pub(crate) fn of<T: PartialEq>(numbers: impl IntoIterator<Item = T>) -> Sides {
        let mut numbers = numbers.into_iter();
        let first = numbers.next();
        match numbers.all(|other| first.as_ref() == Some(&other)) {
            true => Sides::Paired,
            false => Sides::Independent,
        }
    }
}
