//! Probability laws and draws from them.

use fathometer_model::Seed;

/// A probability law of a real number; its unit is its user's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Law {
    /// Always this.
    Fixed(f64),
    /// Uniform from `low` to `high`.
    Uniform {
        /// The smallest value.
        low: f64,
        /// The largest value.
        high: f64,
    },
    /// Negative exponential.
    Exponential {
        /// Its mean.
        mean: f64,
    },
    /// Pareto: P(X > x) = (scale / x)^shape for x >= scale.
    Pareto {
        /// The smallest value, k.
        scale: f64,
        /// The tail's index, alpha: no mean at 1 and below, no variance at 2 and below.
        shape: f64,
    },
}

impl Law {
    /// The `counter`-th draw of this law from `seed`.
    pub fn sample(&self, seed: Seed, counter: u64) -> f64 {
        let uniform = seed.uniform(counter);
        match *self {
            Law::Fixed(value) => value,
            Law::Uniform { low, high } => low + (high - low) * uniform,
            Law::Exponential { mean } => -mean * (-uniform).ln_1p(),
            Law::Pareto { scale, shape } => scale * (1.0 - uniform).powf(-1.0 / shape),
        }
    }
}
