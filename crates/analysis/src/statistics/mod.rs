//! Statistics over replicates: descriptions of one sample, intervals, and multiple verdicts.
//!
//! A cell has few replicates, so no method here relies on the central limit theorem. All random numbers come from a
//! [`Seed`](fathometer_model::Seed) of the caller: the same records give the same interval on every machine. The module
//! does not depend on the measured quantities.
//!
//! - [`Summary`]: n, mean, median, standard deviation, extremes
//! - [`Intervals`]: means, differences, ratios and other figures of few replicates, by Student's t; [`Basis`]: the
//!   basis of such an interval
//! - [`quantile_interval`]: medians and percentiles, by order statistics
//! - [`pseudo_median`]: the centre of a sample with outliers
//! - [`simultaneous_level`], [`benjamini_yekutieli`]: corrections for several intervals or several verdicts
//! - [`Looks`]: evaluation of verdicts before all replicates are measured (sequential analysis)
//! - [`simulation`]: the coverage of the intervals; [`designs`]: the error rates and power of stopping rules and
//!   ledgers
//! - [`machine_coverage`]: the coverage of intervals over several machines
//! - `distributions`: the normal, binomial and F distributions, and Student's t

mod basis;
pub mod designs;
pub mod distributions;
mod interval;
pub mod machine_coverage;
mod multiple;
mod order;
mod pseudo_median;
pub mod simulation;
mod spread;
mod stopping;
mod student;

pub use basis::{Basis, Inference, Resolution};
pub(crate) use distributions::{normal_quantile, student_t_quantile};
pub use interval::{Estimate, Interval, LEVEL, Sides};
pub use multiple::{adjusted, benjamini_yekutieli, simultaneous_level};
pub use order::{QuantileInterval, least_for_quantile, quantile_interval};
pub use pseudo_median::pseudo_median;
pub use stopping::Looks;
pub use student::{Intervals, OnMachines, Scale};

/// The description of one sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// Number of values.
    pub n: usize,
    /// The arithmetic mean of the values.
    pub mean: f64,
    /// The middle value, or the mean of the two middle values.
    pub median: f64,
    /// The standard deviation with n - 1 in the denominator; `None` with fewer than two values.
    pub sd: Option<f64>,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

impl Summary {
    /// Describes a sample; `None` when it is empty or has a value that is not finite.
    pub fn of(sample: &[f64]) -> Option<Summary> {
        if sample.is_empty() || sample.iter().any(|v| !v.is_finite()) {
            return None;
        }
        let mut sorted = sample.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Summary {
            n: sample.len(),
            mean: mean(sample),
            median: quantile_of_sorted(&sorted, 0.5),
            sd: standard_deviation(sample),
            min: sorted[0],
            max: sorted[sorted.len() - 1],
        })
    }
}

/// The arithmetic mean; NaN for an empty sample.
///
/// The mean of equal values is exactly that value. A plain sum would not ensure this.
pub fn mean(sample: &[f64]) -> f64 {
    let Some(&origin) = sample.first() else {
        return f64::NAN;
    };
    origin + sample.iter().map(|v| v - origin).sum::<f64>() / sample.len() as f64
}

/// The indices of a sample. A statistic of several metrics that leaves out replicates receives indices in place of
/// values; [`mean_at`] then computes the mean of a metric at the remaining indices.
pub(crate) fn indices(size: usize) -> Vec<f64> {
    (0..size).map(|index| index as f64).collect()
}

/// The mean of the values at these [`indices`].
pub(crate) fn mean_at(values: &[f64], places: &[f64]) -> f64 {
    let at: Vec<f64> = places.iter().map(|index| values[*index as usize]).collect();
    mean(&at)
}

/// The standard deviation with n - 1 in the denominator; `None` with fewer than two values.
pub fn standard_deviation(sample: &[f64]) -> Option<f64> {
    if sample.len() < 2 {
        return None;
    }
    let centre = mean(sample);
    let squares: f64 = sample.iter().map(|v| (v - centre).powi(2)).sum();
    Some((squares / (sample.len() - 1) as f64).sqrt())
}

/// The quantile at `p` of values in ascending order, by linear interpolation between order
/// statistics: definition 7 of Hyndman and Fan, "Sample quantiles in statistical packages", The
/// American Statistician 50 (1996). It is the default of NumPy and R.
///
/// # Panics
/// When the slice is empty.
pub fn quantile_of_sorted(sorted: &[f64], p: f64) -> f64 {
    let last = sorted.len() - 1;
    let position = p.clamp(0.0, 1.0) * last as f64;
    let below = (position.floor() as usize).min(last);
    let above = (below + 1).min(last);
    sorted[below] + (position - below as f64) * (sorted[above] - sorted[below])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_sample_is_described_as_numpy_describes_it() {
        // Expected values from NumPy 2.4.6: mean, median, std(ddof=1) and quantile(…, 0.1) of this list.
        let sample = [4.17, 4.09, 4.31, 4.02, 4.22];
        let summary = Summary::of(&sample).unwrap();
        assert_eq!(summary.n, 5);
        assert!((summary.mean - 4.162).abs() < 1e-12);
        assert!((summary.median - 4.17).abs() < 1e-12);
        assert!((summary.sd.unwrap() - 0.112_561_094_522_041_66).abs() < 1e-12);
        let mut sorted = sample;
        sorted.sort_by(f64::total_cmp);
        assert!((quantile_of_sorted(&sorted, 0.1) - 4.048).abs() < 1e-12);
    }

    #[test]
    fn empty_samples_and_samples_with_nan_have_no_summary() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
        assert_eq!(Summary::of(&[1.0]).unwrap().sd, None);
    }

    proptest! {
        #[test]
        fn equal_values_have_exactly_that_mean(value in -1e9f64..1e9, n in 1usize..12) {
            prop_assert_eq!(mean(&vec![value; n]), value);
        }

        #[test]
        fn the_mean_and_the_median_lie_within_the_sample(
            sample in prop::collection::vec(-1e6f64..1e6, 1..20)
        ) {
            let summary = Summary::of(&sample).unwrap();
            let slack = 1e-9 * (summary.max - summary.min);
            prop_assert!(summary.min - slack <= summary.mean && summary.mean <= summary.max + slack);
            prop_assert!(summary.min <= summary.median && summary.median <= summary.max);
        }
    }
}
