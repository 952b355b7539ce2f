//! Probability laws, and random values from them.
//!
//! A random value depends only on a seed and a counter, and not on the machine. Logarithms and powers come from `libm`,
//! which is the same code everywhere. The system's mathematical library is not used, because the last digit of its
//! results differs between systems. IEEE 754 defines all other operations (sums, products, quotients, square roots)
//! exactly.

use std::f64::consts::LN_10;
use std::fmt;

use fathometer_model::Seed;

mod mixture;
pub mod normal;

pub use mixture::{Mixture, Part};

/// A probability law of a real number; the caller defines the unit.
///
/// The text form names the law and its parameters as the literature does: `Pareto(k = 1, alpha = 1.4)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Law {
    /// A constant.
    Fixed(f64),
    /// Uniform from `low` to `high`.
    Uniform {
        /// The smallest value.
        low: f64,
        /// The largest value.
        high: f64,
    },
    /// Exponential.
    Exponential {
        /// The mean.
        mean: f64,
    },
    /// Exponential, with larger values set to the cap, as for TPC-W's think times.
    CappedExponential {
        /// The mean before the cap.
        mean: f64,
        /// The largest value.
        cap: f64,
    },
    /// Pareto: P(X > x) = (scale / x)^shape for x >= scale.
    Pareto {
        /// The smallest value, k.
        scale: f64,
        /// The tail index, alpha. If it is 1 or less, there is no mean; if it is 2 or less, there is no variance.
        shape: f64,
    },
    /// Pareto conditional on the value being at most `high`.
    BoundedPareto {
        /// The smallest value, k.
        low: f64,
        /// The largest value, p.
        high: f64,
        /// The tail index, alpha.
        shape: f64,
    },
    /// A law whose natural logarithm is normal.
    Lognormal {
        /// The mean of ln X.
        mu: f64,
        /// The standard deviation of ln X.
        sigma: f64,
    },
    /// A law whose decimal logarithm is normal.
    Lognormal10 {
        /// The mean of log10 X.
        mu: f64,
        /// The standard deviation of log10 X.
        sigma: f64,
    },
    /// Inverse Gaussian (Wald): density sqrt(lambda / (2 pi x^3)) exp(-lambda (x - mean)^2 /
    /// (2 mean^2 x)).
    InverseGaussian {
        /// The mean, mu.
        mean: f64,
        /// The shape; the variance is mean^3 / lambda.
        lambda: f64,
    },
    /// Weibull: P(X > x) = exp(-(x / scale)^shape).
    Weibull {
        /// The exponent.
        shape: f64,
        /// The scale: the value that is exceeded with probability 1/e.
        scale: f64,
    },
}

/// A law's parameter is outside the range for which the law is defined.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{law}: {rule}")]
pub struct LawError {
    law: Law,
    rule: &'static str,
}

impl Law {
    /// Returns the value number `counter` of this law from `seed`.
    pub fn sample(&self, seed: Seed, counter: u64) -> f64 {
        match *self {
            Law::InverseGaussian { mean, lambda } => {
                let square = normal::quantile(open_uniform(seed, counter)).powi(2);
                let choice = seed.child(1).uniform(counter);
                inverse_gaussian(mean, lambda, square, choice)
            }
            _ => self.quantile(open_uniform(seed, counter)),
        }
    }

    /// Returns P(X <= x).
    pub fn cdf(&self, x: f64) -> f64 {
        if x.is_nan() {
            return f64::NAN;
        }
        match *self {
            Law::Fixed(value) => f64::from(u8::from(x >= value)),
            Law::Uniform { low, high } => match x >= high {
                true => 1.0,
                false => ((x - low) / (high - low)).max(0.0),
            },
            Law::Exponential { mean } => -libm::expm1(-x.max(0.0) / mean),
            Law::CappedExponential { mean, cap } => match x >= cap {
                true => 1.0,
                false => -libm::expm1(-x.max(0.0) / mean),
            },
            Law::Pareto { scale, shape } => match x > scale {
                true => 1.0 - libm::pow(scale / x, shape),
                false => 0.0,
            },
            Law::BoundedPareto { low, high, shape } => {
                if x <= low {
                    0.0
                } else if x >= high {
                    1.0
                } else {
                    (1.0 - libm::pow(low / x, shape)) / (1.0 - libm::pow(low / high, shape))
                }
            }
            Law::Lognormal { mu, sigma } => match x > 0.0 {
                true => normal::cdf((libm::log(x) - mu) / sigma),
                false => 0.0,
            },
            Law::Lognormal10 { mu, sigma } => match x > 0.0 {
                true => normal::cdf((libm::log10(x) - mu) / sigma),
                false => 0.0,
            },
            Law::InverseGaussian { mean, lambda } => match x > 0.0 {
                true if x == f64::INFINITY => 1.0,
                true => {
                    let root = (lambda / x).sqrt();
                    let direct = normal::cdf(root * (x / mean - 1.0));
                    let mirrored =
                        normal::scaled_tail(2.0 * lambda / mean, root * (x / mean + 1.0));
                    (direct + mirrored).min(1.0)
                }
                false => 0.0,
            },
            Law::Weibull { shape, scale } => match x > 0.0 {
                true => -libm::expm1(-libm::pow(x / scale, shape)),
                false => 0.0,
            },
        }
    }

    /// Returns the smallest x with P(X <= x) >= `p`, for `p` from 0 to 1; infinite at 1 if the law has no largest
    /// value.
    pub fn quantile(&self, p: f64) -> f64 {
        match *self {
            Law::Fixed(value) => value,
            Law::Uniform { low, high } => low + (high - low) * p,
            Law::Exponential { mean } => -mean * libm::log1p(-p),
            Law::CappedExponential { mean, cap } => (-mean * libm::log1p(-p)).min(cap),
            Law::Pareto { scale, shape } => scale * libm::pow(1.0 - p, -1.0 / shape),
            Law::BoundedPareto { low, high, shape } => {
                let rest = 1.0 - p * (1.0 - libm::pow(low / high, shape));
                (low * libm::pow(rest, -1.0 / shape)).clamp(low, high)
            }
            Law::Lognormal { mu, sigma } => libm::exp(mu + sigma * normal::quantile(p)),
            Law::Lognormal10 { mu, sigma } => libm::exp(LN_10 * (mu + sigma * normal::quantile(p))),
            Law::InverseGaussian { .. } => self.search(p),
            Law::Weibull { shape, scale } => scale * libm::pow(-libm::log1p(-p), 1.0 / shape),
        }
    }

    /// Returns the mean; `None` if it is infinite.
    pub fn mean(&self) -> Option<f64> {
        Some(match *self {
            Law::Fixed(value) => value,
            Law::Uniform { low, high } => low + (high - low) / 2.0,
            Law::Exponential { mean } | Law::InverseGaussian { mean, .. } => mean,
            Law::CappedExponential { mean, cap } => -mean * libm::expm1(-cap / mean),
            Law::Pareto { scale, shape } if shape > 1.0 => scale * shape / (shape - 1.0),
            Law::Pareto { .. } => return None,
            Law::BoundedPareto {
                low,
                high,
                shape: 1.0,
            } => low * high / (high - low) * libm::log(high / low),
            Law::BoundedPareto { low, high, shape } => {
                let power = |x: f64| libm::pow(x, 1.0 - shape);
                let weight = shape * libm::pow(low, shape) / (1.0 - libm::pow(low / high, shape));
                weight * (power(high) - power(low)) / (1.0 - shape)
            }
            Law::Lognormal { mu, sigma } => libm::exp(mu + sigma * sigma / 2.0),
            Law::Lognormal10 { mu, sigma } => libm::exp(LN_10 * mu + (LN_10 * sigma).powi(2) / 2.0),
            Law::Weibull { shape, scale } => scale * libm::tgamma(1.0 + 1.0 / shape),
        })
    }

    /// Checks that the law is defined for its parameters.
    pub fn check(&self) -> Result<(), LawError> {
        let positive = |x: f64| x > 0.0 && x.is_finite();
        let (holds, rule) = match *self {
            Law::Fixed(value) => (value.is_finite(), "the value must be finite"),
            Law::Uniform { low, high } => (
                low.is_finite() && high.is_finite() && low <= high,
                "low and high must be finite, and low must be at most high",
            ),
            Law::Exponential { mean } => (positive(mean), "the mean must be above 0"),
            Law::CappedExponential { mean, cap } => (
                positive(mean) && positive(cap),
                "the mean and the cap must be above 0",
            ),
            Law::Pareto { scale, shape } => (
                positive(scale) && positive(shape),
                "k and alpha must be above 0",
            ),
            Law::BoundedPareto { low, high, shape } => (
                positive(low) && positive(shape) && high.is_finite() && low < high,
                "0 < k < p is required, and alpha must be above 0",
            ),
            Law::Lognormal { mu, sigma } | Law::Lognormal10 { mu, sigma } => {
                (mu.is_finite() && positive(sigma), "sigma must be above 0")
            }
            Law::InverseGaussian { mean, lambda } => (
                positive(mean) && positive(lambda),
                "mu and lambda must be above 0",
            ),
            Law::Weibull { shape, scale } => (
                positive(shape) && positive(scale),
                "shape and scale must be above 0",
            ),
        };
        match holds {
            true => Ok(()),
            false => Err(LawError { law: *self, rule }),
        }
    }

    /// Computes the quantile of a law of positive numbers, by bisection on the bits of the number. The bits have the
    /// same order as the numbers, so 64 steps find the exact number.
    fn search(&self, p: f64) -> f64 {
        if p >= 1.0 {
            return f64::INFINITY;
        }
        let (mut below, mut above) = (0u64, f64::INFINITY.to_bits());
        while above - below > 1 {
            let middle = below + (above - below) / 2;
            match self.cdf(f64::from_bits(middle)) >= p {
                true => above = middle,
                false => below = middle,
            }
        }
        match p <= 0.0 {
            true => 0.0,
            false => f64::from_bits(above),
        }
    }
}

impl fmt::Display for Law {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Law::Fixed(value) => write!(f, "always {value}"),
            Law::Uniform { low, high } => write!(f, "uniform({low} to {high})"),
            Law::Exponential { mean } => write!(f, "exponential(mean = {mean})"),
            Law::CappedExponential { mean, cap } => {
                write!(f, "exponential(mean = {mean}, capped at {cap})")
            }
            Law::Pareto { scale, shape } => write!(f, "Pareto(k = {scale}, alpha = {shape})"),
            Law::BoundedPareto { low, high, shape } => {
                write!(f, "bounded Pareto(k = {low}, p = {high}, alpha = {shape})")
            }
            Law::Lognormal { mu, sigma } => write!(f, "lognormal(mu = {mu}, sigma = {sigma})"),
            Law::Lognormal10 { mu, sigma } => {
                write!(f, "log10-normal(mu = {mu}, sigma = {sigma})")
            }
            Law::InverseGaussian { mean, lambda } => {
                write!(f, "inverse Gaussian(mu = {mean}, lambda = {lambda})")
            }
            Law::Weibull { shape, scale } => {
                write!(f, "Weibull(shape = {shape}, scale = {scale})")
            }
        }
    }
}

/// Returns the number `counter` of the stream, uniform on (0, 1). It is never 0 or 1, for which quantiles may be
/// infinite.
pub(crate) fn open_uniform(seed: Seed, counter: u64) -> f64 {
    // The middle of an interval of width 2^-52, so that the sum is exact.
    ((seed.draw(counter) >> 12) as f64 + 0.5) * (1.0 / (1u64 << 52) as f64)
}

/// Computes an inverse Gaussian value from the square of a standard normal number and a uniform number. The square
/// corresponds to two roots, whose product is mean^2. The smaller root is selected with probability mean / (mean +
/// smaller).
///
/// J. Michael, W. Schucany, R. Haas, "Generating random variates using transformations with
/// multiple roots", The American Statistician 30 (1976).
fn inverse_gaussian(mean: f64, lambda: f64, square: f64, choice: f64) -> f64 {
    let scaled = mean * square;
    // The larger root is a sum of positive terms and is computed first, because the difference for the smaller root
    // would lose precision.
    let root = (scaled * (4.0 * lambda + scaled)).sqrt();
    let larger = mean + mean * (scaled + root) / (2.0 * lambda);
    let smaller = mean * mean / larger;
    match choice * (mean + smaller) <= mean {
        true => smaller,
        false => larger,
    }
}
