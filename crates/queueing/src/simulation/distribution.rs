//! Distributions of times, and draws from them.

use fathometer_model::Seed;

use crate::{ModelError, Seconds, not_negative};

/// A distribution of times.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// A constant time.
    Deterministic(Seconds),
    /// An exponential distribution with this mean.
    Exponential(Seconds),
    /// A lognormal distribution.
    Lognormal {
        /// The mean.
        mean: Seconds,
        /// The coefficient of variation: the standard deviation divided by the mean.
        variation: f64,
    },
    /// One of these times, each with the same probability.
    Empirical(Vec<Seconds>),
}

impl Distribution {
    /// The mean.
    pub fn mean(&self) -> Seconds {
        match self {
            Distribution::Deterministic(mean)
            | Distribution::Exponential(mean)
            | Distribution::Lognormal { mean, .. } => *mean,
            Distribution::Empirical(times) => {
                let sum: Seconds = times.iter().copied().sum();
                Seconds(sum.0 / times.len() as f64)
            }
        }
    }

    /// Checks the parameters.
    pub(super) fn check(&self, what: &str) -> Result<(), ModelError> {
        if let Distribution::Lognormal { variation, .. } = self {
            not_negative(&format!("the variation of {what}"), *variation)?;
        }
        if let Distribution::Empirical(times) = self {
            for time in times {
                not_negative(&format!("a time of {what}"), time.0)?;
            }
        }
        not_negative(&format!("the mean of {what}"), self.mean().0).map(drop)
    }
}

/// A stream of draws.
#[derive(Debug)]
pub(super) struct Draws {
    seed: Seed,
    counter: u64,
}

impl Draws {
    /// Creates the draws of a named part of a simulation.
    pub(super) fn new(seed: Seed, name: &str, place: usize) -> Draws {
        Draws {
            seed: seed.stream(name).child(place as u64),
            counter: 0,
        }
    }

    fn uniform(&mut self) -> f64 {
        let value = self.seed.uniform(self.counter);
        self.counter += 1;
        value
    }

    /// Draws an index of a list with these probabilities.
    pub(super) fn place(&mut self, probabilities: &[f64]) -> usize {
        let mut left = self.uniform();
        for (place, probability) in probabilities.iter().enumerate() {
            left -= probability;
            if left < 0.0 {
                return place;
            }
        }
        probabilities.len().saturating_sub(1)
    }

    /// A number that is uniform on (0, 1].
    fn positive(&mut self) -> f64 {
        1.0 - self.uniform()
    }

    /// Draws a time from a distribution, in seconds.
    pub(super) fn draw(&mut self, distribution: &Distribution) -> f64 {
        match distribution {
            Distribution::Deterministic(time) => time.0,
            Distribution::Exponential(mean) => -mean.0 * libm::log(self.positive()),
            Distribution::Lognormal { mean, variation } => {
                let variance = libm::log1p(variation * variation);
                // Box and Muller, Annals of Mathematical Statistics 29 (1958).
                let radius = libm::sqrt(-2.0 * libm::log(self.positive()));
                let normal = radius * libm::cos(std::f64::consts::TAU * self.uniform());
                mean.0 * libm::exp(normal * libm::sqrt(variance) - 0.5 * variance)
            }
            Distribution::Empirical(times) => {
                let place = (self.uniform() * times.len() as f64) as usize;
                times[place.min(times.len() - 1)].0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_mean_and_the_variation_of_their_distribution() {
        let mean = Seconds(0.2);
        let cases = [
            (Distribution::Exponential(mean), 1.0),
            (
                Distribution::Lognormal {
                    mean,
                    variation: 0.8,
                },
                0.8,
            ),
            (Distribution::Deterministic(mean), 0.0),
            (
                Distribution::Empirical(vec![Seconds(0.1), Seconds(0.3)]),
                0.5,
            ),
        ];
        for (distribution, variation) in cases {
            let mut draws = Draws::new(Seed(5), "test", 0);
            let sample: Vec<f64> = (0..200_000).map(|_| draws.draw(&distribution)).collect();
            let found = sample.iter().sum::<f64>() / sample.len() as f64;
            let squares: f64 = sample.iter().map(|x| (x - found) * (x - found)).sum();
            let deviation = (squares / sample.len() as f64).sqrt();
            assert!(
                (found / 0.2 - 1.0).abs() < 0.01,
                "{distribution:?}: mean {found}"
            );
            assert!(
                (deviation / 0.2 - variation).abs() < 0.02,
                "{distribution:?}: deviation {deviation}"
            );
            assert!((distribution.mean().0 - 0.2).abs() < 1e-12);
        }
    }
}
