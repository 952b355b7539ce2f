//! Quantities whose unit is part of their type.

use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::digits::trimmed;

/// A number of bytes.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// The number of bytes as a floating-point value, for ratios.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        self.0 += other.0;
    }
}

impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0 - other.0)
    }
}

impl std::iter::Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(bytes: I) -> Bytes {
        Bytes(bytes.map(|b| b.0).sum())
    }
}

/// Prints decimal multiples (1 kB = 1000 B), and the exact number below 10 kB.
impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.0 as f64;
        if self.0 < 10_000 {
            write!(f, "{} B", self.0)
        } else if value < 1e6 {
            write!(f, "{:.1} kB", value / 1e3)
        } else if value < 1e9 {
            write!(f, "{:.2} MB", value / 1e6)
        } else {
            write!(f, "{:.2} GB", value / 1e9)
        }
    }
}

/// The rate of a link in bits per second, including framing. Never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bandwidth(u64);

impl Bandwidth {
    /// Returns a rate in bit/s; `None` for 0, because such a link would never deliver a packet.
    pub const fn bits_per_second(rate: u64) -> Option<Bandwidth> {
        if rate == 0 {
            None
        } else {
            Some(Bandwidth(rate))
        }
    }

    /// The rate in bit/s.
    pub const fn as_bits_per_second(self) -> u64 {
        self.0
    }
}

/// The number of bytes that a link of this rate serialises in a time, rounded down.
impl Mul<Duration> for Bandwidth {
    type Output = Bytes;
    fn mul(self, time: Duration) -> Bytes {
        Bytes((u128::from(self.0) * time.as_nanos() / 8 / 1_000_000_000) as u64)
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.0 as f64;
        if self.0 < 1_000 {
            write!(f, "{} bit/s", self.0)
        } else if rate < 1e6 {
            write!(f, "{} kbit/s", trimmed(rate / 1e3))
        } else if rate < 1e9 {
            write!(f, "{} Mbit/s", trimmed(rate / 1e6))
        } else {
            write!(f, "{} Gbit/s", trimmed(rate / 1e9))
        }
    }
}

/// Why a quantity in a file or on the command line could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a {what}: write {example}")]
pub struct ParseQuantityError {
    text: String,
    what: &'static str,
    example: &'static str,
}

/// Parses `28.8kbit/s`, `10 Mbit/s`, `1Gbit/s`, `300 bit/s`: decimal multiples of bit/s. A unit is required.
impl FromStr for Bandwidth {
    type Err = ParseQuantityError;
    fn from_str(text: &str) -> Result<Bandwidth, ParseQuantityError> {
        let error = || ParseQuantityError {
            text: text.to_owned(),
            what: "bandwidth",
            example: "a number and a unit, as in 28.8kbit/s or 10Mbit/s",
        };
        let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (number, scale) = [
            ("Gbit/s", 1e9),
            ("Mbit/s", 1e6),
            ("kbit/s", 1e3),
            ("bit/s", 1.0),
        ]
        .into_iter()
        .find_map(|(unit, scale)| compact.strip_suffix(unit).map(|n| (n, scale)))
        .ok_or_else(error)?;
        let value: f64 = number.parse().map_err(|_| error())?;
        let rate = (value * scale).round();
        if !(1.0..=1e15).contains(&rate) {
            return Err(error());
        }
        Ok(Bandwidth(rate as u64))
    }
}

impl Serialize for Bandwidth {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Bandwidth {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Bandwidth, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// A number from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Probability(f64);

impl Probability {
    /// Zero: the event never happens.
    pub const ZERO: Probability = Probability(0.0);

    /// Returns a probability; `None` outside [0, 1] and for NaN.
    pub fn new(value: f64) -> Option<Probability> {
        (0.0..=1.0).contains(&value).then_some(Probability(value))
    }

    /// The value, from 0 to 1.
    pub fn value(self) -> f64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Probability {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Probability, D::Error> {
        let value = f64::deserialize(deserializer)?;
        Probability::new(value).ok_or_else(|| {
            serde::de::Error::custom(format!("{value} is not a probability: write 0 to 1"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidth_reads_what_it_writes() {
        for text in ["28.8 kbit/s", "10 Mbit/s", "1.5 Gbit/s", "300 bit/s"] {
            let rate: Bandwidth = text.parse().unwrap();
            assert_eq!(rate.to_string(), text);
        }
        for text in ["", "10", "10MB/s", "-1 Mbit/s", "0 bit/s", "NaN bit/s"] {
            assert!(text.parse::<Bandwidth>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_link_serialises_bytes_in_a_time() {
        let ethernet: Bandwidth = "10Mbit/s".parse().unwrap();
        assert_eq!(ethernet * Duration::from_millis(12), Bytes(15_000));
    }

    #[test]
    fn probabilities_outside_the_unit_interval_are_refused() {
        assert!(Probability::new(1.01).is_none());
        assert!(Probability::new(f64::NAN).is_none());
        assert_eq!(Probability::new(0.5).unwrap().value(), 0.5);
    }
}
