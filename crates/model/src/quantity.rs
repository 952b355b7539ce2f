//! Quantities from user input: command lines, study files, server definitions.
//!
//! An `f64` from a user may be NaN, infinite, negative, or so large that arithmetic with it panics or
//! never ends. Each type here checks its value once, when the number is read, and never contains such a value.
//! Every range is wider than any practical use, and narrow enough for nanoseconds in 64 bits.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// The longest time that a user may set: thirty days, in seconds.
const LONGEST_S: f64 = 30.0 * 86_400.0;

/// The largest number of cores.
const MOST_CORES: f64 = 4096.0;

/// The highest rate, in events per second: much higher than any machine can reach.
const HIGHEST_RATE: f64 = 1e7;

/// The largest number of round trips in a time.
const MOST_ROUND_TRIPS: f64 = 1e6;

/// Why a number is not a valid quantity.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("is {found}: it must be a number {range}")]
pub struct QuantityError {
    found: String,
    range: &'static str,
}

/// Why a text is not a valid time.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum TimeTextError {
    /// The number is missing or malformed.
    #[error("write a number and a unit, as in 10s, 500ms or 2m")]
    Number,
    /// The unit is unknown.
    #[error("{0:?} is not a unit of time: use us, ms, s, m or h")]
    Unit(String),
    /// The time is out of range.
    #[error(transparent)]
    Range(#[from] QuantityError),
    /// The time is 0, but must be positive.
    #[error("it must be longer than 0")]
    Zero,
}

/// Checks that a number is finite and in a range.
fn within(value: f64, least: f64, most: f64, range: &'static str) -> Result<f64, QuantityError> {
    // NaN is outside every range.
    match (least..=most).contains(&value) {
        // Turns a negative zero into zero.
        true => Ok(value + 0.0),
        false => Err(QuantityError {
            // The debug format prints an exponent instead of up to three hundred digits.
            found: format!("{value:?}"),
            range,
        }),
    }
}

/// A time from 0 to 30 days, given in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct TimeSpan(f64);

/// A time from a microsecond to 30 days, given in seconds.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct PositiveTimeSpan(f64);

/// A time from 0 to 30 days, given in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Microseconds(f64);

/// CPU time, in cores. The meaning of 0, no CPU time or no limit, depends on the use.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Cores(f64);

/// A share of a whole in percent, from 0 to 100.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Percent(f64);

/// A number of round trips, from 0 to a million; fractions are allowed.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct RoundTrips(f64);

/// A ratio of two scales, from a billionth to a billion.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Ratio(f64);

/// A rate in events per second, from 0 to ten million. A rate above 0 is at least one event in 30 days.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Rate(f64);

/// A multiplier, from a millionth to a million.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Factor(f64);

macro_rules! checked {
    ($name:ident, $least:expr, $most:expr, $range:expr) => {
        impl TryFrom<f64> for $name {
            type Error = QuantityError;

            fn try_from(value: f64) -> Result<$name, QuantityError> {
                within(value, $least, $most, $range).map($name)
            }
        }

        impl From<$name> for f64 {
            fn from(quantity: $name) -> f64 {
                quantity.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = QuantityError;

            fn from_str(text: &str) -> Result<$name, QuantityError> {
                match text.trim().parse::<f64>() {
                    Ok(number) => $name::try_from(number),
                    Err(_) => Err(QuantityError {
                        found: format!("{text:?}"),
                        range: $range,
                    }),
                }
            }
        }

        impl $name {
            /// The number, in the unit in which it was given.
            pub fn value(self) -> f64 {
                self.0
            }
        }
    };
}

checked!(
    TimeSpan,
    0.0,
    LONGEST_S,
    "of seconds from 0 to 2592000 (30 days)"
);
checked!(
    PositiveTimeSpan,
    1e-6,
    LONGEST_S,
    "of seconds from 0.000001 to 2592000 (30 days)"
);
checked!(
    Microseconds,
    0.0,
    LONGEST_S * 1e6,
    "of microseconds from 0 to 2592000000000 (30 days)"
);
checked!(Cores, 0.0, MOST_CORES, "of cores from 0 to 4096");
checked!(Percent, 0.0, 100.0, "of percent from 0 to 100");
checked!(
    RoundTrips,
    0.0,
    MOST_ROUND_TRIPS,
    "of round trips from 0 to 1000000"
);
checked!(Ratio, 1e-9, 1e9, "from 0.000000001 to 1000000000");
checked!(Factor, 1e-6, 1e6, "from 0.000001 to 1000000");

impl TryFrom<f64> for Rate {
    type Error = QuantityError;

    fn try_from(value: f64) -> Result<Rate, QuantityError> {
        let least = if value == 0.0 { 0.0 } else { 1.0 / LONGEST_S };
        let range = "a second: 0, or from one in 30 days to 10000000";
        within(value, least, HIGHEST_RATE, range).map(Rate)
    }
}

impl From<Rate> for f64 {
    fn from(rate: Rate) -> f64 {
        rate.0
    }
}

impl Rate {
    /// The rate in events per second.
    pub fn per_second(self) -> f64 {
        self.0
    }
}

impl TimeSpan {
    /// Converts a time in milliseconds.
    ///
    /// # Errors
    /// When the time is not between 0 and 30 days.
    pub fn from_milliseconds(value: f64) -> Result<TimeSpan, QuantityError> {
        let range = "of milliseconds from 0 to 2592000000 (30 days)";
        within(value, 0.0, LONGEST_S * 1e3, range).map(|ms| TimeSpan(ms / 1e3))
    }
}

/// Parses a length of time: `10` and `10s` are seconds; `250us`, `500ms`, `2m`, `1h`.
///
/// # Errors
/// When the text has another form, or the time is longer than 30 days.
pub fn time(text: &str) -> Result<Duration, TimeTextError> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "" | "s" => 1.0,
        "us" => 1e-6,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(TimeTextError::Unit(unit.to_owned())),
    };
    let number: f64 = number.parse().map_err(|_| TimeTextError::Number)?;
    Ok(TimeSpan::try_from(number * seconds)?.into())
}

/// Parses a length of time as [`time`] does, but does not accept 0.
///
/// # Errors
/// The errors of [`time`], and an error if the time is 0.
pub fn some_time(text: &str) -> Result<Duration, TimeTextError> {
    match time(text)? {
        Duration::ZERO => Err(TimeTextError::Zero),
        time => Ok(time),
    }
}

/// Why a text is not a number of bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a size: write a number of bytes, or a number with a unit, as in 64M (1024 × 1024) or 8kB (1000)"
)]
pub struct SizeTextError(String);

/// Parses a number of bytes: `500`, `64M`, `1.5GiB`. `K`, `M`, `G` and `T`, and these with `iB`, are powers of 1024; `kB`,
/// `MB`, `GB` and `TB` are powers of 1000.
///
/// # Errors
/// When the text has another form, or the number is above 10^18.
pub fn bytes(text: &str) -> Result<Bytes, SizeTextError> {
    let wrong = || SizeTextError(text.to_owned());
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let (base, power) = match unit.trim_start() {
        "" | "B" => (1, 0),
        "K" | "k" | "KiB" => (1024, 1),
        "M" | "m" | "MiB" => (1024, 2),
        "G" | "g" | "GiB" => (1024, 3),
        "T" | "t" | "TiB" => (1024, 4),
        "kB" => (1000, 1),
        "MB" => (1000, 2),
        "GB" => (1000, 3),
        "TB" => (1000, 4),
        _ => return Err(wrong()),
    };
    let scale = f64::from(base).powi(power);
    // The result is exact up to 2^53 bytes.
    let bytes = number.parse::<f64>().map_err(|_| wrong())? * scale;
    match (0.0..=1e18).contains(&bytes) {
        true => Ok(Bytes(bytes.round() as u64)),
        false => Err(wrong()),
    }
}

impl From<TimeSpan> for Duration {
    fn from(time: TimeSpan) -> Duration {
        Duration::from_secs_f64(time.0)
    }
}

impl From<PositiveTimeSpan> for Duration {
    fn from(time: PositiveTimeSpan) -> Duration {
        Duration::from_secs_f64(time.0)
    }
}

impl From<Microseconds> for Duration {
    fn from(time: Microseconds) -> Duration {
        Duration::from_secs_f64(time.0 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [f64; 6] = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -1.0,
        1e308,
        f64::MAX,
    ];

    #[test]
    fn sizes_have_binary_or_decimal_units() {
        for (text, expected) in [
            ("0", 0),
            ("700", 700),
            ("64M", 64 << 20),
            ("64 MiB", 64 << 20),
            ("1.5k", 1536),
            ("8kB", 8000),
            ("2T", 2 << 40),
        ] {
            assert_eq!(bytes(text), Ok(Bytes(expected)), "{text}");
        }
        for wrong in ["", "M", "-1M", "64X", "1e9", "1.2.3", "9999999T"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn invalid_quantities_are_refused_with_the_valid_range() {
        for number in NONE {
            for refused in [
                TimeSpan::try_from(number).err(),
                PositiveTimeSpan::try_from(number).err(),
                Microseconds::try_from(number).err(),
                Cores::try_from(number).err(),
                Percent::try_from(number).err(),
                RoundTrips::try_from(number).err(),
                Ratio::try_from(number).err(),
                Factor::try_from(number).err(),
                Rate::try_from(number).err(),
                TimeSpan::from_milliseconds(number).err(),
            ] {
                let error = refused.expect("the value is out of range").to_string();
                assert!(error.contains("must be a number"), "{error}");
            }
        }
        assert!(Rate::try_from(1e-300).is_err());
        assert_eq!(Rate::try_from(0.0).unwrap().per_second(), 0.0);
        assert_eq!(Rate::try_from(0.25).unwrap().per_second(), 0.25);
        for text in ["", "ten", "1 s", "nan", "-1", "1e400"] {
            let error = text.parse::<PositiveTimeSpan>().expect_err(text);
            assert!(error.to_string().contains("from 0"), "{error}");
        }
        assert!(PositiveTimeSpan::try_from(0.0).is_err());
        assert!(PositiveTimeSpan::try_from(1e-20).is_err());
        assert!(Ratio::try_from(1e-20).is_err());
    }

    #[test]
    fn every_value_of_a_time_is_a_duration() {
        for seconds in [0.0, -0.0, 1e-300, 1e-9, 0.25, LONGEST_S] {
            let time = TimeSpan::try_from(seconds).unwrap();
            assert!(Duration::from(time).as_secs_f64() <= LONGEST_S);
        }
        let longest = Microseconds::try_from(LONGEST_S * 1e6).unwrap();
        assert_eq!(Duration::from(longest), Duration::from_secs(30 * 86_400));
        let short = TimeSpan::from_milliseconds(2.5).unwrap();
        assert_eq!(Duration::from(short), Duration::from_micros(2500));
        let least = PositiveTimeSpan::try_from(1e-6).unwrap();
        assert_eq!(Duration::from(least), Duration::from_micros(1));
    }

    #[test]
    fn times_are_read_with_their_unit() {
        for (text, nanos) in [
            ("10", 10_000_000_000_u128),
            ("1.5s", 1_500_000_000),
            ("250us", 250_000),
            ("500ms", 500_000_000),
            ("2m", 120_000_000_000),
            ("1h", 3_600_000_000_000),
        ] {
            assert_eq!(time(text).unwrap().as_nanos(), nanos, "{text}");
        }
        for bad in [
            "",
            "s",
            "10 s",
            "1d",
            "-1s",
            "1e3",
            "1..2s",
            "nan",
            "inf",
            "999999999h",
        ] {
            assert!(time(bad).is_err(), "{bad}");
        }
        assert_eq!(time("0s").unwrap(), Duration::ZERO);
        assert!(some_time("0s").is_err());
    }
}
