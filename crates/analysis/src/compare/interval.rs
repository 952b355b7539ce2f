//! Intervals of the difference of two means.
//!
//! - [`independent`]: Welch, *The generalization of "Student's" problem when several different population
//!   variances are involved*, Biometrika 34 (1947), for replicates.
//! - [`series`]: the same for consecutive blocks of time (batch means: Law, *Simulation Modeling and Analysis*, 5th
//!   edition, section 9.5.3). Correlation of neighbouring blocks reduces the number of samples to the effective one,
//!   n (1 - r) / (1 + r) (Bartlett 1935, for a process of first order).
//! - [`paired`]: Student's interval of the differences of pairs.
//! - [`paired_series`]: the same for consecutive pairs, with the effective number of them: what acts on one side alone
//!   for longer than a block, such as the processor that a server's thread was placed on, correlates neighbours.

pub use crate::statistics::Interval;
use crate::statistics::{normal_quantile, student_t_quantile};

/// The interval of the mean of `b` minus the mean of `a`; `None` with fewer than two samples on a side.
pub fn independent(a: &[f64], b: &[f64], level: f64) -> Option<Interval> {
    welch(Moments::of(a, 0.0)?, Moments::of(b, 0.0)?, level)
}

/// The same for consecutive blocks; `None` with fewer than four blocks on a side.
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

/// The same for consecutive pairs, which may be correlated; below [`FEW`] pairs, that cannot be estimated, and is
/// ignored.
pub fn paired_series(a: &[f64], b: &[f64], level: f64) -> Option<Interval> {
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| b - a).collect();
    let correlation = match differences.len() {
        FEW.. => correlation(&differences),
        _ => 0.0,
    };
    welch(NONE, Moments::of(&differences, correlation)?, level)
}

/// The interval, extended by what events that never happened leave open: the mean of a side may be higher by this.
pub fn widened(interval: Interval, before: f64, after: f64) -> Interval {
    Interval {
        low: interval.low - before,
        high: interval.high + after,
    }
}

/// The interval, made as long as the resolution of the instrument requires. `floor` is the standard deviation that
/// the resolution alone causes, see [`Resolution`](crate::statistics::Resolution).
pub fn no_narrower(interval: Interval, floor: f64, level: f64) -> Interval {
    let centre = 0.5 * (interval.low + interval.high);
    let half = normal_quantile(0.5 + level / 2.0) * floor;
    Interval {
        low: interval.low.min(centre - half),
        high: interval.high.max(centre + half),
    }
}

/// The deviation of a sample, pooled over both sides; `None` without spread.
pub fn pooled_deviation(a: &[f64], b: &[f64]) -> Option<f64> {
    let sums = [a, b].map(|samples| {
        let mean = samples.iter().sum::<f64>() / samples.len().max(1) as f64;
        samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>()
    });
    let freedom = (a.len() + b.len()).checked_sub(2).filter(|n| *n > 0)?;
    let deviation = ((sums[0] + sums[1]) / freedom as f64).sqrt();
    (deviation > 0.0).then_some(deviation)
}

/// The smallest number of pairs whose correlation is estimated.
pub const FEW: usize = 8;

/// What differences are compared with.
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
    /// Degrees of freedom of that.
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
            // As for batch means: with few blocks, the estimate of the correlation would decide it otherwise.
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
    // Welch-Satterthwaite; never fewer than one.
    let freedom = square.powi(2) / (a.square.powi(2) / a.freedom + b.square.powi(2) / b.freedom);
    let freedom = freedom.max(1.0);
    let reach = student_t_quantile(0.5 + level / 2.0, freedom) * square.sqrt();
    reach.is_finite().then_some(Interval {
        low: shift - reach,
        high: shift + reach,
    })
}

/// The correlation of neighbouring blocks, 0 to 0.9. The usual estimate is too low by about (1 + 4r) / n for r
/// (Kendall 1954); that is added. A negative one is taken as zero, which makes intervals longer.
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
