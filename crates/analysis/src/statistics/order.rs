//! Intervals for medians and percentiles by order statistics, for any distribution.
//!
//! The number of values below the quantile at p is binomial with parameters n and p. So the interval from the
//! r-th to the s-th smallest value covers the quantile with a probability that depends only on n, p, r and s: H.
//! A. David and H. N. Nagaraja, "Order Statistics" (2003), section 7.1; W. J. Conover, "Practical Nonparametric
//! Statistics" (1999), section 3.2.

use super::Interval;

/// An interval for a quantile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuantileInterval {
    /// The interval. Both ends are values of the sample.
    pub interval: Interval,
    /// The smallest probability that the interval contains the quantile; at least the requested level.
    pub coverage: f64,
}

/// The interval for the quantile at `p`. The probability of error is at most (1 - `level`) / 2 on each side. `None` if
/// the sample is too small; [`least_for_quantile`] returns the required size.
pub fn quantile_interval(sample: &[f64], p: f64, level: f64) -> Option<QuantileInterval> {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = ranks(sorted.len(), p, level)?;
    let below = binomial_cdf(low, sorted.len(), p);
    let above = 1.0 - binomial_cdf(high, sorted.len(), p);
    Some(QuantileInterval {
        interval: Interval {
            low: sorted[low],
            high: sorted[high],
        },
        coverage: 1.0 - below - above,
    })
}

/// The smallest sample size for an interval of the quantile at `p`: 6 for a median at 95 %, 368 for a 99th percentile.
/// `None` if `p` is not between 0 and 1.
pub fn least_for_quantile(p: f64, level: f64) -> Option<usize> {
    let tail = 0.5 * (1.0 - level);
    if !(p > 0.0 && p < 1.0) || tail <= 0.0 {
        return None;
    }
    // All values lie above the quantile with probability (1-p)^n, and below it with probability p^n.
    let n = (tail.ln() / p.max(1.0 - p).ln()).ceil();
    (n < 1e9).then_some(n as usize)
}

/// The indices of the two ends in the sorted sample, from 0.
fn ranks(n: usize, p: f64, level: f64) -> Option<(usize, usize)> {
    let tail = 0.5 * (1.0 - level);
    // An interval from index `low` misses the quantile if at most `low` values are below the quantile.
    let low = (0..n)
        .take_while(|low| binomial_cdf(*low, n, p) <= tail)
        .last()?;
    // An interval to index `high` misses the quantile if more than `high` values are below the quantile.
    let high = (0..n).find(|high| 1.0 - binomial_cdf(*high, n, p) <= tail)?;
    Some((low, high))
}

/// The probability of at most `k` successes in `n` trials, each with probability `p`.
fn binomial_cdf(k: usize, n: usize, p: f64) -> f64 {
    let mut logarithm = n as f64 * (1.0 - p).ln();
    let mut sum = logarithm.exp();
    for i in 1..=k.min(n) {
        logarithm += ((n - i + 1) as f64 / i as f64).ln() + (p / (1.0 - p)).ln();
        sum += logarithm.exp();
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: [f64; 12] = [1.0, 1.2, 0.9, 1.1, 3.9, 1.3, 0.8, 2.2, 1.7, 0.6, 1.4, 2.8];

    // Expected values from SciPy 1.17.1: scipy.stats.quantile_test(SAMPLE, p=p).confidence_interval(level).
    #[test]
    fn intervals_of_quantiles_are_scipys() {
        let median = quantile_interval(&SAMPLE, 0.5, 0.95).unwrap();
        assert_eq!(
            median.interval,
            Interval {
                low: 0.9,
                high: 2.2
            }
        );
        let lower = quantile_interval(&SAMPLE, 0.25, 0.9).unwrap();
        assert_eq!(
            lower.interval,
            Interval {
                low: 0.6,
                high: 1.3
            }
        );
    }

    #[test]
    fn a_sample_that_is_too_small_has_none() {
        for (p, least) in [(0.5, 6), (0.9, 36), (0.99, 368)] {
            assert_eq!(least_for_quantile(p, 0.95), Some(least));
            let sample: Vec<f64> = (0..least).map(|v| v as f64).collect();
            let interval = quantile_interval(&sample, p, 0.95);
            assert!(interval.is_some_and(|i| i.coverage >= 0.95), "{interval:?}");
            assert_eq!(quantile_interval(&sample[1..], p, 0.95), None, "{p}");
        }
        assert_eq!(quantile_interval(&[], 0.5, 0.95), None);
        assert_eq!(least_for_quantile(1.0, 0.95), None);
    }
}
