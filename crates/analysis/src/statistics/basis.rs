//! The basis of an interval over replicates: an estimate, its standard error, and the degrees of freedom of that error.
//! These values determine the interval at any level, the p-value of a verdict, and the number of replicates that would
//! decide.

use super::distributions::{normal_cdf, normal_quantile, student_t_cdf, student_t_quantile};
use super::{Estimate, Interval};

/// The smallest change of a value that the instrument resolves.
///
/// Equal readings still have an error. A reading differs from the value by up to half the resolution, with a standard
/// deviation of the resolution divided by the square root of 12 (JCGM 100:2008, "Guide to the expression of
/// uncertainty in measurement", F.2.2.1). This deviation sets the minimum length of an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Resolution {
    /// The resolution in the unit of the value.
    pub absolute: f64,
    /// The resolution as a share of the value.
    pub relative: f64,
}

impl Resolution {
    /// The standard deviation of readings near `value` that is due to the resolution.
    pub fn deviation(self, value: f64) -> f64 {
        self.absolute.max(self.relative * value.abs()) / 12f64.sqrt()
    }
}

/// An estimate on the scale on which its error is symmetric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Basis {
    /// Number of replicates; for unpaired sides, the smaller number.
    pub n: usize,
    /// The estimate, or its logarithm if `logarithmic`.
    pub centre: f64,
    /// The standard error, on the same scale.
    pub error: f64,
    /// Degrees of freedom of the standard error.
    pub freedom: f64,
    /// The part of the error that is due to the resolution of the instrument. More replicates do not reduce it.
    pub floor: f64,
    /// The number of machines, if the sample is the machines' means. `None` if the sample is the replicates, because
    /// the machines agree or there is only one machine.
    pub machines: Option<usize>,
    /// The largest possible distance of the true value below and above the estimate, on the same scale. For example,
    /// the true knee lies between the knee's level and the previous level.
    pub slack: (f64, f64),
    /// Whether the scale is the natural logarithm.
    pub logarithmic: bool,
    /// The range of possible values, to which an interval is cut.
    pub range: Interval,
}

/// An estimate and the basis of its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Inference {
    /// The estimate, with an interval of the method's level.
    pub estimate: Estimate,
    /// The basis of the interval; `None` if there is no interval.
    pub basis: Option<Basis>,
}

/// The range of all numbers.
pub(super) const UNBOUNDED: Interval = Interval {
    low: f64::NEG_INFINITY,
    high: f64::INFINITY,
};

impl Basis {
    /// The interval that covers the true value with this probability.
    pub fn interval(&self, level: f64) -> Interval {
        let outer = 0.5 * (1.0 - level);
        let student = match self.error > 0.0 {
            true => -student_t_quantile(outer, self.freedom) * self.error,
            false => 0.0,
        };
        let half = student.max(-normal_quantile(outer) * self.floor);
        let end = |value: f64| {
            let value = if self.logarithmic { value.exp() } else { value };
            value.clamp(self.range.low, self.range.high)
        };
        Interval {
            low: end(self.centre - self.slack.0 - half),
            high: end(self.centre + self.slack.1 + half),
        }
    }

    /// The two-sided p-value of the hypothesis that `value` is the true value. It is the smallest probability of error
    /// at which the interval excludes `value`.
    pub fn p_value(&self, value: f64) -> f64 {
        let Some(distance) = self.distance(value) else {
            return 0.0;
        };
        if distance == 0.0 {
            return 1.0;
        }
        let student = match self.error > 0.0 {
            true => 2.0 * student_t_cdf(-distance / self.error, self.freedom),
            false => 0.0,
        };
        let resolved = match self.floor > 0.0 {
            true => 2.0 * normal_cdf(-distance / self.floor),
            false => 0.0,
        };
        student.max(resolved)
    }

    /// The approximate number of replicates for which the interval excludes `value`, if the estimate and the spread of
    /// the replicates do not change. `None` if no number is sufficient.
    pub fn replicates_to_exclude(&self, value: f64, level: f64) -> Option<u64> {
        const MOST: u64 = 1_000_000;
        let outer = 0.5 * (1.0 - level);
        let distance = self.distance(value)?;
        if distance <= -normal_quantile(outer) * self.floor || self.n < 2 {
            return None;
        }
        let now = self.n as f64;
        let excludes = |n: u64| {
            let n = n as f64;
            let freedom = (self.freedom * (n - 1.0) / (now - 1.0)).max(1.0);
            let error = self.error * (now / n).sqrt();
            error == 0.0 || -student_t_quantile(outer, freedom) * error < distance
        };
        let mut high = 2;
        while !excludes(high) {
            high *= 2;
            if high > MOST {
                return None;
            }
        }
        let mut low = high / 2;
        while high - low > 1 {
            let middle = (low + high) / 2;
            match excludes(middle) {
                true => high = middle,
                false => low = middle,
            }
        }
        Some(high)
    }

    /// The distance of a value from the estimate; `None` if a logarithm of the value does not exist.
    fn distance(&self, value: f64) -> Option<f64> {
        let value = match self.logarithmic {
            true if value <= 0.0 => return None,
            true => value.ln(),
            false => value,
        };
        let (low, high) = (self.centre - self.slack.0, self.centre + self.slack.1);
        Some((low - value).max(value - high).max(0.0))
    }
}
