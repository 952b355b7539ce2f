//! Positive numbers with a wide exponent: normalisation constants of large populations exceed the range of `f64`.

use std::ops::{Add, Mul};

/// 2^512. The mantissa of a number other than zero stays within 2^-256 and 2^256.
const STEP: f64 = f64::from_bits((512 + 1023) << 52);
const UPPER: f64 = f64::from_bits((256 + 1023) << 52);
const LOWER: f64 = 1.0 / UPPER;

/// `mantissa` × 2^(512 × `exponent`), at least zero.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wide {
    mantissa: f64,
    exponent: i32,
}

impl Wide {
    /// Zero.
    pub(crate) const ZERO: Wide = Wide {
        mantissa: 0.0,
        exponent: 0,
    };

    /// Converts a number.
    pub(crate) fn new(value: f64) -> Wide {
        Wide {
            mantissa: value,
            exponent: 0,
        }
        .normalised()
    }

    /// Returns the quotient of two numbers, which must be in the range of `f64`.
    pub(crate) fn over(self, other: Wide) -> f64 {
        if self.mantissa == 0.0 {
            // The exponent of zero has no meaning.
            return 0.0;
        }
        let quotient = self.mantissa / other.mantissa;
        match self.exponent - other.exponent {
            0 => quotient,
            1 => quotient * STEP,
            -1 => quotient / STEP,
            above if above > 1 => f64::INFINITY,
            _ => 0.0,
        }
    }

    fn normalised(mut self) -> Wide {
        if self.mantissa >= UPPER {
            self.mantissa /= STEP;
            self.exponent += 1;
        } else if self.mantissa < LOWER && self.mantissa > 0.0 {
            self.mantissa *= STEP;
            self.exponent -= 1;
        }
        self
    }
}

impl Mul<f64> for Wide {
    type Output = Wide;

    fn mul(self, factor: f64) -> Wide {
        self * Wide::new(factor)
    }
}

impl Mul for Wide {
    type Output = Wide;

    fn mul(self, other: Wide) -> Wide {
        if self.mantissa == 0.0 || other.mantissa == 0.0 {
            return Wide::ZERO;
        }
        Wide {
            mantissa: self.mantissa * other.mantissa,
            exponent: self.exponent + other.exponent,
        }
        .normalised()
    }
}

impl Add for Wide {
    type Output = Wide;

    fn add(self, other: Wide) -> Wide {
        if self.mantissa == 0.0 {
            return other;
        }
        if other.mantissa == 0.0 {
            return self;
        }
        let (large, small) = match self.exponent >= other.exponent {
            true => (self, other),
            false => (other, self),
        };
        let addend = match large.exponent - small.exponent {
            0 => small.mantissa,
            1 => small.mantissa / STEP,
            _ => 0.0,
        };
        Wide {
            mantissa: large.mantissa + addend,
            exponent: large.exponent,
        }
        .normalised()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factorials_beyond_the_range_of_a_float_keep_their_quotient() {
        let factorial = |n: u32| (1..=n).fold(Wide::new(1.0), |product, k| product * f64::from(k));
        let quotient = factorial(5001).over(factorial(5000));
        assert!((quotient - 5001.0).abs() < 1e-8, "{quotient}");
        let sum = factorial(3000) + factorial(2999);
        assert!((sum.over(factorial(2999)) - 3001.0).abs() < 1e-8);
        assert_eq!(Wide::ZERO.over(factorial(3)), 0.0);
        let small = (1..=400).fold(Wide::new(1.0), |product, k| {
            product * (0.009 / f64::from(k))
        });
        assert_eq!(Wide::ZERO.over(small), 0.0);
    }
}
