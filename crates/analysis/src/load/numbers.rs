//! Distributions of whole numbers, to two significant digits.

use hdrhistogram::Histogram;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A distribution of whole numbers: exact count, sum and extremes. Quantiles are exact up to 255, and have two
/// significant digits above. The memory use does not depend on the number of records.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Unchecked")]
pub struct Numbers {
    #[serde(serialize_with = "write")]
    histogram: Histogram<u64>,
    sum: u128,
    least: u64,
    greatest: u64,
}

/// Numbers that were read but not yet checked for contradictions.
#[derive(Deserialize)]
#[serde(rename = "Numbers")]
struct Unchecked {
    #[serde(deserialize_with = "read")]
    histogram: Histogram<u64>,
    sum: u128,
    least: u64,
    greatest: u64,
}

impl TryFrom<Unchecked> for Numbers {
    type Error = &'static str;

    fn try_from(read: Unchecked) -> Result<Numbers, &'static str> {
        let Unchecked {
            histogram,
            sum,
            least,
            greatest,
        } = read;
        let count = u128::from(histogram.len());
        let is_sound = match count {
            0 => (sum, least, greatest) == (0, u64::MAX, 0),
            _ => {
                let sums = count * u128::from(least)..=count * u128::from(greatest);
                least <= greatest
                    && histogram.equivalent(least, histogram.min())
                    && histogram.equivalent(greatest, histogram.max())
                    && sums.contains(&sum)
            }
        };
        match is_sound {
            false => Err("the sum or the extremes of numbers contradict their counts"),
            true => Ok(Numbers {
                histogram,
                sum,
                least,
                greatest,
            }),
        }
    }
}

impl Numbers {
    /// Creates an empty distribution.
    pub fn new() -> Numbers {
        Numbers {
            histogram: empty(),
            sum: 0,
            least: u64::MAX,
            greatest: 0,
        }
    }

    /// Records one number.
    pub fn record(&mut self, number: u64) {
        self.histogram
            .record(number)
            .expect("an automatic histogram grows to any value");
        self.sum += u128::from(number);
        self.least = self.least.min(number);
        self.greatest = self.greatest.max(number);
    }

    /// Adds the numbers of `other`.
    pub fn merge(&mut self, other: &Numbers) {
        self.histogram
            .add(&other.histogram)
            .expect("an automatic histogram grows to any other");
        self.sum += other.sum;
        self.least = self.least.min(other.least);
        self.greatest = self.greatest.max(other.greatest);
    }

    /// Number of recorded numbers.
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Whether no number was recorded.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The mean; `None` when the distribution is empty.
    pub fn mean(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum as f64 / self.count() as f64)
    }

    /// The smallest number; `None` when the distribution is empty.
    pub fn min(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.least)
    }

    /// The largest number; `None` when the distribution is empty.
    pub fn max(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.greatest)
    }

    /// The smallest number that is at least as large as the fraction `quantile` (0 to 1) of the numbers.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        let value = self.histogram.value_at_quantile(quantile);
        (!self.is_empty()).then(|| value.clamp(self.least, self.greatest))
    }
}

fn empty() -> Histogram<u64> {
    let mut histogram = Histogram::new(2).expect("2 digits are allowed");
    histogram.auto(true);
    histogram
}

/// Writes the largest number and the count of each non-empty bucket.
fn write<S: Serializer>(histogram: &Histogram<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    let recorded = histogram.iter_recorded();
    let counted: Vec<(u64, u64)> = recorded
        .map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()))
        .collect();
    counted.serialize(serializer)
}

fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Histogram<u64>, D::Error> {
    let mut histogram = empty();
    for (number, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
        histogram
            .record_n(number, count)
            .map_err(D::Error::custom)?;
    }
    Ok(histogram)
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_numbers_are_those_of_all_and_small_ones_are_exact() {
        let (mut low, mut high) = (Numbers::new(), Numbers::new());
        for number in 0..=200 {
            if number <= 50 { &mut low } else { &mut high }.record(number);
        }
        low.merge(&high);
        assert_eq!(
            (low.count(), low.min(), low.max()),
            (201, Some(0), Some(200))
        );
        assert_eq!(low.mean(), Some(100.0));
        assert_eq!(low.quantile(0.5), Some(100));
        low.record(1_000_000);
        assert_eq!(low.max(), Some(1_000_000));
        let text = serde_json::to_string(&low).unwrap();
        let read: Numbers = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert_eq!(
            (read.count(), read.mean(), read.quantile(0.5)),
            (202, low.mean(), low.quantile(0.5))
        );
        for (of, absurd) in [
            ("\"least\":0", "\"least\":2000000"),
            ("\"greatest\":1000000", "\"greatest\":200"),
            ("\"sum\":", "\"sum\":9999"),
        ] {
            let altered = text.replace(of, absurd);
            assert_ne!(altered, text);
            assert!(
                serde_json::from_str::<Numbers>(&altered).is_err(),
                "{absurd}"
            );
        }
        let none = Numbers::new();
        assert!(none.is_empty() && none.mean().is_none() && none.quantile(0.5).is_none());
    }
}
