//! Numbers that come in from outside (arguments, files), checked once where they come in.
//!
//! A number that is NaN, infinite, negative or absurd has no meaning as any of these, and panics, hangs or wraps
//! around somewhere further in. So each quantity is a type that holds good values alone, and every border makes one:
//! arguments by [`TryFrom`], files by the same through serde.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The longest time that makes sense here: ten years of 365 days. Sums of a few of them fit 64 bits of nanoseconds.
const LONGEST_S: f64 = 10.0 * 365.0 * 86_400.0;

/// The most events a second; far beyond what a machine can carry out.
const MOST_PER_S: f64 = 1e7;

/// The least rate that is more than none: one event in ten years.
const LEAST_PER_S: f64 = 1.0 / LONGEST_S;

/// The border of [`Factor`]; the other one is its inverse.
const MOST_FACTOR: f64 = 1e6;

/// Why a number is not the quantity that it was given as.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum QuantityError {
    /// NaN or infinite.
    #[error("{0} is not a finite number")]
    NotFinite(f64),
    /// Below what the quantity can be.
    #[error("{value} is too small: it must be at least {least} {unit}")]
    TooSmall {
        /// The number.
        value: f64,
        /// The least that can be.
        least: f64,
        /// In what.
        unit: &'static str,
    },
    /// Above what makes sense.
    #[error("{value} is too large: it must be at most {most} {unit}")]
    TooLarge {
        /// The number.
        value: f64,
        /// The most that can be.
        most: f64,
        /// In what.
        unit: &'static str,
    },
}

fn between(value: f64, least: f64, most: f64, unit: &'static str) -> Result<f64, QuantityError> {
    match value {
        value if !value.is_finite() => Err(QuantityError::NotFinite(value)),
        value if value < least => Err(QuantityError::TooSmall { value, least, unit }),
        value if value > most => Err(QuantityError::TooLarge { value, most, unit }),
        value => Ok(value),
    }
}

/// A length of time that is written as a number of seconds: none to ten years.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Seconds(f64);

impl Seconds {
    /// As a length of time.
    pub fn duration(self) -> Duration {
        Duration::from_secs_f64(self.0)
    }

    /// As the number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Seconds {
    type Error = QuantityError;

    fn try_from(seconds: f64) -> Result<Seconds, QuantityError> {
        between(seconds, 0.0, LONGEST_S, "seconds").map(|seconds| Seconds(seconds.abs()))
    }
}

impl From<Seconds> for f64 {
    fn from(seconds: Seconds) -> f64 {
        seconds.0
    }
}

/// A length of time that is written as a number of milliseconds: none to ten years.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Milliseconds(f64);

impl Milliseconds {
    /// As a length of time.
    pub fn duration(self) -> Duration {
        Duration::from_secs_f64(self.0 / 1e3)
    }

    /// As the number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Milliseconds {
    type Error = QuantityError;

    fn try_from(millis: f64) -> Result<Milliseconds, QuantityError> {
        between(millis, 0.0, LONGEST_S * 1e3, "milliseconds")
            .map(|millis| Milliseconds(millis.abs()))
    }
}

impl From<Milliseconds> for f64 {
    fn from(millis: Milliseconds) -> f64 {
        millis.0
    }
}

/// A length of time that is written as a number of microseconds: none to ten years.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Microseconds(f64);

impl Microseconds {
    /// As a length of time.
    pub fn duration(self) -> Duration {
        Duration::from_secs_f64(self.0 * 1e-6)
    }

    /// As the number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Microseconds {
    type Error = QuantityError;

    fn try_from(micros: f64) -> Result<Microseconds, QuantityError> {
        between(micros, 0.0, LONGEST_S * 1e6, "microseconds")
            .map(|micros| Microseconds(micros.abs()))
    }
}

impl From<Microseconds> for f64 {
    fn from(micros: Microseconds) -> f64 {
        micros.0
    }
}

/// Events a second: none, or one in ten years to ten million a second.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Rate(f64);

impl Rate {
    /// As the number.
    pub fn per_second(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Rate {
    type Error = QuantityError;

    fn try_from(rate: f64) -> Result<Rate, QuantityError> {
        let least = if rate == 0.0 { 0.0 } else { LEAST_PER_S };
        between(rate, least, MOST_PER_S, "a second").map(|rate| Rate(rate.abs()))
    }
}

impl From<Rate> for f64 {
    fn from(rate: Rate) -> f64 {
        rate.0
    }
}

/// By how much something is multiplied: a millionth to a million.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Factor(f64);

impl Factor {
    /// As the number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Factor {
    type Error = QuantityError;

    fn try_from(factor: f64) -> Result<Factor, QuantityError> {
        between(factor, 1.0 / MOST_FACTOR, MOST_FACTOR, "times").map(Factor)
    }
}

impl From<Factor> for f64 {
    fn from(factor: Factor) -> f64 {
        factor.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_a_meaning_are_no_quantity() {
        for bad in [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            -1.0,
            -1e-300,
            1e20,
            1e308,
        ] {
            assert!(Seconds::try_from(bad).is_err(), "{bad} s");
            assert!(Milliseconds::try_from(bad).is_err(), "{bad} ms");
            assert!(Microseconds::try_from(bad).is_err(), "{bad} us");
            assert!(Rate::try_from(bad).is_err(), "{bad}/s");
            assert!(Factor::try_from(bad).is_err(), "{bad} times");
        }
        assert!(Rate::try_from(1e-300).is_err());
        assert!(Factor::try_from(0.0).is_err() && Factor::try_from(1e-20).is_err());
    }

    #[test]
    fn a_file_is_read_by_the_same_rules() {
        assert_eq!(
            serde_json::from_str::<Rate>("2.5").unwrap().per_second(),
            2.5
        );
        for bad in ["-1", "1e300", "1e20"] {
            let error = serde_json::from_str::<Seconds>(bad).unwrap_err();
            assert!(error.to_string().contains("it must be"), "{error}");
        }
    }

    #[test]
    fn what_makes_sense_keeps_its_value() {
        for good in [0.0, -0.0, 1e-9, 0.5, 3600.0, 1e6] {
            assert_eq!(f64::from(Seconds::try_from(good).unwrap()), good);
            assert_eq!(f64::from(Milliseconds::try_from(good).unwrap()), good);
            assert_eq!(f64::from(Microseconds::try_from(good).unwrap()), good);
        }
        assert!(Seconds::try_from(-0.0).unwrap().get().is_sign_positive());
        let longest = Seconds::try_from(LONGEST_S).unwrap().duration();
        assert!(
            longest
                .checked_mul(20)
                .is_some_and(|sum| u64::try_from(sum.as_nanos()).is_ok())
        );
        assert_eq!(Rate::try_from(0.25).unwrap().per_second(), 0.25);
        assert_eq!(Factor::try_from(2.0).unwrap().get(), 2.0);
        let micros = Microseconds::try_from(1500.0).unwrap();
        assert_eq!(micros.duration(), Duration::from_micros(1500));
    }
}
