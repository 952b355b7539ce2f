//! Mixtures of probability laws.

use std::fmt;

use fathometer_model::Seed;

use super::{Law, open_uniform};

/// One component of a [`Mixture`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// The share of this part in the mixture.
    pub weight: f64,
    /// The law before the two limits below are applied.
    pub law: Law,
    /// Values at and above this limit are redrawn, so that the law is conditional on values below the limit. Infinite:
    /// no limit.
    pub below: f64,
    /// Values above the cap are set to the cap. Infinite: no cap.
    pub cap: f64,
}

impl Part {
    /// Creates a part without limits.
    pub const fn of(weight: f64, law: Law) -> Part {
        Part {
            weight,
            law,
            below: f64::INFINITY,
            cap: f64::INFINITY,
        }
    }

    /// P(X <= x) of this part alone.
    pub fn cdf(&self, x: f64) -> f64 {
        match x >= self.cap {
            true => 1.0,
            false => (self.law.cdf(x) / self.law.cdf(self.below)).min(1.0),
        }
    }

    /// Returns the value number `counter` of the stream of `seed`.
    pub fn sample(&self, seed: Seed, counter: u64) -> f64 {
        if self.below == f64::INFINITY {
            return self.law.sample(seed, counter).min(self.cap);
        }
        // Redrawing until the value is below the limit is equivalent to one draw from the law conditional on values
        // below the limit.
        let p = open_uniform(seed, counter) * self.law.cdf(self.below);
        self.law.quantile(p).min(self.cap)
    }
}

/// A law that combines several laws with given weights, such as a body and a tail, or two kinds of files.
///
/// Members of a set can be assigned to its parts in exact proportion, by [`Mixture::part_of`]. The share of a part is
/// then not random but its weight, rounded to whole members.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture {
    parts: Vec<Part>,
}

impl Mixture {
    /// Creates a mixture of these parts. `None` if there are no parts, or if the weights are not positive numbers that
    /// sum to 1 within 1e-9.
    pub fn new(parts: Vec<Part>) -> Option<Mixture> {
        let sum: f64 = parts.iter().map(|part| part.weight).sum();
        let positive = parts.iter().all(|part| part.weight > 0.0);
        (positive && (sum - 1.0).abs() < 1e-9).then_some(Mixture { parts })
    }

    /// Creates a mixture of a single law, without limits.
    pub fn single(law: Law) -> Mixture {
        Mixture {
            parts: vec![Part::of(1.0, law)],
        }
    }

    /// Returns the parts of the mixture.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the part to which member `index` of a set belongs. Among the first *n* members of any set, each part has
    /// its weight times *n* members, to within one.
    pub fn part_of(&self, index: u64) -> &Part {
        let last = self.parts.len() - 1;
        let (mut index, mut rest) = (index, 1.0);
        for part in &self.parts[..last] {
            // Among the members that no earlier part has, this part gets the members at which its rounded share
            // increases.
            let share = |n: u64| (n as f64 * (part.weight / rest) + 0.5).floor() as u64;
            if share(index + 1) > share(index) {
                return part;
            }
            index -= share(index);
            rest -= part.weight;
        }
        &self.parts[last]
    }

    /// Returns P(X <= x).
    pub fn cdf(&self, x: f64) -> f64 {
        self.parts
            .iter()
            .map(|part| part.weight * part.cdf(x))
            .sum()
    }

    /// Returns the value of member `index` of a set, drawn from the member's part.
    pub fn sample(&self, seed: Seed, index: u64) -> f64 {
        self.part_of(index).sample(seed, index)
    }
}

impl fmt::Display for Mixture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, part) in self.parts.iter().enumerate() {
            if place > 0 {
                f.write_str(" + ")?;
            }
            if self.parts.len() > 1 {
                // Rounding makes 0.07 print as 7 % and not as 7.000000000000001 %.
                write!(f, "{} % ", (part.weight * 1e6).round() / 1e4)?;
            }
            write!(f, "{}", part.law)?;
            if part.below.is_finite() {
                write!(f, " below {}", part.below)?;
            }
            if part.cap.is_finite() {
                write!(f, " capped at {}", part.cap)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hybrid() -> Mixture {
        let body = Part {
            below: 10_000.0,
            ..Part::of(
                0.93,
                Law::Lognormal {
                    mu: 7.63,
                    sigma: 1.001,
                },
            )
        };
        let tail = Part {
            cap: 1e7,
            ..Part::of(
                0.07,
                Law::Pareto {
                    scale: 10_000.0,
                    shape: 1.0,
                },
            )
        };
        Mixture::new(vec![body, tail]).unwrap()
    }

    #[test]
    fn parts_have_their_exact_share_of_every_set() {
        let thirds = Mixture::new(
            [0.3, 0.38, 0.32]
                .map(|weight| Part::of(weight, Law::Fixed(weight)))
                .to_vec(),
        )
        .unwrap();
        for mixture in [hybrid(), thirds] {
            let mut counts = vec![0.0; mixture.parts().len()];
            for n in 0..5000u64 {
                let part = mixture.part_of(n);
                let place = mixture.parts().iter().position(|p| p == part).unwrap();
                counts[place] += 1.0;
                for (count, part) in counts.iter().zip(mixture.parts()) {
                    let wanted = part.weight * (n + 1) as f64;
                    assert!(f64::abs(count - wanted) < 1.5, "{n}: {counts:?}");
                }
            }
        }
    }

    #[test]
    fn the_body_stays_below_and_the_tail_above() {
        let mixture = hybrid();
        let draws: Vec<f64> = (0..10_000).map(|n| mixture.sample(Seed(3), n)).collect();
        let above = draws.iter().filter(|&&x| x >= 10_000.0).count();
        assert_eq!(above, 700);
        assert!(draws.iter().all(|&x| x <= 1e7));
        assert!((mixture.cdf(10_000.0) - 0.93).abs() < 1e-12);
        assert!((mixture.cdf(20_000.0) - 0.965).abs() < 1e-12);
        assert_eq!(mixture.cdf(1e7), 1.0);
        // The median of a body with redraws differs from exp(7.63), which is the median without the limit.
        let below_median = draws.iter().filter(|&&x| x < 2000.0).count() as f64;
        assert!((below_median / 1e4 - mixture.cdf(2000.0)).abs() < 0.015);
    }

    #[test]
    fn weights_add_up_to_one() {
        let half = Part::of(0.5, Law::Fixed(1.0));
        assert!(Mixture::new(vec![half]).is_none());
        assert!(Mixture::new(Vec::new()).is_none());
        assert!(Mixture::new(vec![half, half]).is_some());
    }

    #[test]
    fn a_mixture_is_written_part_by_part() {
        assert_eq!(
            hybrid().to_string(),
            "93 % lognormal(mu = 7.63, sigma = 1.001) below 10000 + \
             7 % Pareto(k = 10000, alpha = 1) capped at 10000000"
        );
    }
}
