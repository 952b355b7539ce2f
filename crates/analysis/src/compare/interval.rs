//! Intervals of the difference of two means.
//!
//! - [`independent`]: Welch, *The generalization of "Student's" problem when several different population
//!   variances are involved*, Biometrika 34 (1947), for replicates.
//! - [`series`]: as [`independent`], for consecutive blocks of time (batch means: Law, *Simulation Modeling and
//!   Analysis*, 5th edition, section 9.5.3). Correlation of neighbouring blocks reduces the number of samples to the
//!   effective number, n (1 - r) / (1 + r) (Bartlett 1935, for a first-order process).
//! - [`paired`]: Student's interval of the differences of pairs.
//! - [`paired_series`]: as [`paired`], for consecutive pairs, with their effective number. An effect on only one side
//!   that lasts longer than a block, such as the placement of a server's thread on a processor, correlates
//!   neighbouring pairs.

pub use crate::statistics::Interval;
use crate::statistics::{normal_quantile, student_t_quantile};

/// The interval of the mean of `b` minus the mean of `a`; `None` with fewer than two samples on a side.
pub fn independent(a: &[f64], b: &[f64], level: f64) -> Option<Interval> {
    welch(Moments::of(a, 0.0)?, Moments::of(b, 0.0)?, level)
}

/// As [`independent`], for consecutive blocks; `None` with fewer than four blocks on a side.
pub fn series(a: &[f64], b: &[f64], level: f64) -> Option<Interval> {
    if a.len().min(b.len()) < 4 {
        return None;
    }
    let of = |blocks: &[f64]| Moments::of(blocks, correlation(blocks));
    welch(of(a)?, of(b)?, level)
}

/// The interval of the mean difference of pairs; `None` with fewer than two pairs.
pub fn paired(a: &[f64], b: &[f64], level: f64) -> Option<Interval> {
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
    welch(NONE, Moments::of(&differences, 0.0)?, level)
}

/// As [`paired`], for consecutive pairs, which may be correlated. With fewer than [`FEW`] pairs, the correlation
/// cannot be estimated and is ignored.
pub fn paired_series(a: &[f64], b: &[f64], level: f64) -> Option<Interval> {
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
    let correlation = match differences.len() {
        FEW.. => correlation(&differences),
        _ => 0.0,
    };
    welch(NONE, Moments::of(&differences, correlation)?, level)
}

/// The interval, extended for sides without events: by `before` at the lower end, and by `after` at the upper end. Each
/// is the largest plausible mean of its side.
pub fn widened(interval: Interval, before: f64, after: f64) -> Interval {
    Interval {
        low: interval.low - before,
        high: interval.high + after,
    }
}

/// The interval, extended to the length that the resolution of the instrument requires. `floor` is the standard
/// deviation due to the resolution, see [`Resolution`](crate::statistics::Resolution).
pub fn no_narrower(interval: Interval, floor: f64, level: f64) -> Interval {
    let centre = 0.5 * (interval.low + interval.high);
    let half = normal_quantile(0.5 + level / 2.0) * floor;
    Interval {
        low: interval.low.min(centre - half),
        high: interval.high.max(centre + half),
    }
}

/// The standard deviation of a sample, pooled over both sides; `None` without spread.
pub fn pooled_deviation(a: &[f64], b: &[f64]) -> Option<f64> {
    let sums = [a, b].map(|samples| {
        let mean = samples.iter().sum::<f64>() / samples.len().max(1) as f64;
        samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>()
    });
    let freedom = (a.len() + b.len()).checked_sub(2).filter(|n| *n > 0)?;
    let deviation = ((sums[0] + sums[1]) / freedom as f64).sqrt();
    (deviation > 0.0).then_some(deviation)
}

/// The smallest number of pairs from which a correlation is estimated.
pub const FEW: usize = 8;

/// A mean of exactly zero, the reference for the mean of differences.
const NONE: Moments = Moments {
    mean: 0.0,
    square: 0.0,
    freedom: 1.0,
};

/// A mean and its uncertainty.
#[derive(Clone, Copy)]
struct Moments {
    mean: f64,
    /// The square of the standard error of the mean.
    square: f64,
    /// The degrees of freedom of the squared standard error.
    freedom: f64,
}

impl Moments {
    fn of(samples: &[f64], correlation: f64) -> Option<Moments> {
        let n = samples.len() as f64;
        if samples.len() < 2 {
            return None;
        }
        let mean = samples.iter().sum::<f64>() / n;
        let variance = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let effective = n * (1.0 - correlation) / (1.0 + correlation);
        Some(Moments {
            mean,
            square: variance / effective,
            // The degrees of freedom of batch means, not reduced by the correlation: few blocks give a poor estimate of
            // it.
            freedom: n - 1.0,
        })
    }
}

fn welch(a: Moments, b: Moments, level: f64) -> Option<Interval> {
    let square = a.square + b.square;
    let shift = b.mean - a.mean;
    if square == 0.0 {
        return Some(Interval {
            low: shift,
            high: shift,
        });
    }
    // Welch-Satterthwaite, but at least 1.
    let freedom = square.powi(2) / (a.square.powi(2) / a.freedom + b.square.powi(2) / b.freedom);
    let freedom = freedom.max(1.0);
    let reach = student_t_quantile(0.5 + level / 2.0, freedom) * square.sqrt();
    reach.is_finite().then_some(Interval {
        low: shift - reach,
        high: shift + reach,
    })
}

/// The correlation of neighbouring blocks, 0 to 0.9. The usual estimate has a bias of about -(1 + 4r) / n (Kendall
/// 1954), which is corrected. A negative correlation is replaced by zero, which makes intervals longer.
fn correlation(blocks: &[f64]) -> f64 {
    let n = blocks.len() as f64;
    let mean = blocks.iter().sum::<f64>() / n;
    let all: f64 = blocks.iter().map(|x| (x - mean).powi(2)).sum();
    if all == 0.0 {
        return 0.0;
    }
    let neighbours: f64 = blocks
        .windows(2)
        .map(|pair| (pair[0] - mean) * (pair[1] - mean))
        .sum();
    let raw = neighbours / all;
    (raw + (1.0 + 4.0 * raw.max(0.0)) / n).clamp(0.0, 0.9)
}
