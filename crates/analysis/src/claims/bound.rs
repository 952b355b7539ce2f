//! The range in which a figure must lie so that a claim holds.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::statistics::{Interval, Resolution};

/// A contiguous set of values: `>= 2`, `> 1`, `<= 0.6`, `< 1`, `= 0`, `0.7..0.98` (ends included).
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// The lower end; minus infinity if there is no lower bound.
    pub low: f64,
    /// The upper end; infinity if there is no upper bound.
    pub high: f64,
    /// Whether the ends belong to the set.
    pub closed: bool,
    text: String,
}

/// The position of an interval relative to a [`Bound`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// The whole interval is inside.
    Inside,
    /// One part of the interval is inside.
    Across,
    /// The whole interval is outside.
    Outside,
}

impl Bound {
    /// Whether the value lies within the bound.
    pub fn contains(&self, value: f64) -> bool {
        if self.closed {
            self.low <= value && value <= self.high
        } else {
            self.low < value && value < self.high
        }
    }

    /// The bound for an instrument of this resolution. A single claimed value becomes a range: all values less than one
    /// resolution step away.
    pub fn resolved(&self, resolution: Resolution) -> Bound {
        if self.low < self.high {
            return self.clone();
        }
        let step = resolution
            .absolute
            .max(resolution.relative * self.low.abs());
        Bound {
            low: self.low - step,
            high: self.high + step,
            closed: step == 0.0,
            text: self.text.clone(),
        }
    }

    /// The position of an interval relative to the bound.
    pub fn position(&self, interval: Interval) -> Position {
        let apart = if self.closed {
            interval.high < self.low || interval.low > self.high
        } else {
            interval.high <= self.low || interval.low >= self.high
        };
        if self.contains(interval.low) && self.contains(interval.high) {
            Position::Inside
        } else if apart {
            Position::Outside
        } else {
            Position::Across
        }
    }
}

/// The schema of the bound's notation.
impl JsonSchema for Bound {
    fn schema_name() -> Cow<'static, str> {
        "Bound".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A bound: >= 2, > 1, <= 0.6, < 1, = 0, or 0.7..0.98 with both ends.",
            "type": "string",
            "pattern": "^((>=|>|<=|<|=)\\s*-?[0-9.]+|-?[0-9.]+\\s*\\.\\.\\s*-?[0-9.]+)$",
        })
    }
}

/// Writes the bound in its original notation.
impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

/// The reason why a text is not a bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a bound: write >= 2, > 1, <= 0.6, < 1, = 0 or 0.7..0.98")]
pub struct ParseBoundError(String);

impl FromStr for Bound {
    type Err = ParseBoundError;
    fn from_str(text: &str) -> Result<Bound, ParseBoundError> {
        let error = || ParseBoundError(text.to_owned());
        let number = |text: &str| -> Result<f64, ParseBoundError> {
            let value: f64 = text.trim().parse().map_err(|_| error())?;
            value.is_finite().then_some(value).ok_or_else(error)
        };
        let (low, high, closed) = if let Some((low, high)) = text.split_once("..") {
            (number(low)?, number(high)?, true)
        } else if let Some(rest) = text.strip_prefix(">=") {
            (number(rest)?, f64::INFINITY, true)
        } else if let Some(rest) = text.strip_prefix("<=") {
            (f64::NEG_INFINITY, number(rest)?, true)
        } else if let Some(rest) = text.strip_prefix('>') {
            (number(rest)?, f64::INFINITY, false)
        } else if let Some(rest) = text.strip_prefix('<') {
            (f64::NEG_INFINITY, number(rest)?, false)
        } else if let Some(rest) = text.strip_prefix('=') {
            (number(rest)?, number(rest)?, true)
        } else {
            return Err(error());
        };
        if low > high {
            return Err(error());
        }
        Ok(Bound {
            low,
            high,
            closed,
            text: text.to_owned(),
        })
    }
}

impl<'de> Deserialize<'de> for Bound {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Bound, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl Serialize for Bound {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Position::{Across, Inside, Outside};

    fn position(bound: &str, low: f64, high: f64) -> Position {
        let bound: Bound = bound.parse().unwrap();
        bound.position(Interval { low, high })
    }

    #[test]
    fn ends_belong_to_a_bound_where_it_says_so() {
        assert_eq!(position(">= 2", 2.0, 2.2), Inside);
        assert_eq!(position("> 2", 2.0, 2.2), Across);
        assert_eq!(position(">= 2", 1.8, 2.0), Across);
        assert_eq!(position("> 2", 1.8, 2.0), Outside);
        assert_eq!(position("<= 0.6", 0.61, 0.7), Outside);
        assert_eq!(position("< 1", 0.9, 0.99), Inside);
    }

    #[test]
    fn ranges_and_points_are_bounds() {
        assert_eq!(position("0.7..0.98", 0.7, 0.98), Inside);
        assert_eq!(position("0.7..0.98", 0.6, 1.0), Across);
        assert_eq!(position("-0.02..0.02", 0.03, 0.04), Outside);
        assert_eq!(position("= 0", 0.0, 0.0), Inside);
        assert_eq!(position("= 0", 0.0, 1.0), Across);
        assert_eq!(position("= 0", 1.0, 1.0), Outside);
    }

    #[test]
    fn a_count_equals_a_number_when_it_is_less_than_one_from_it() {
        let count = Resolution {
            absolute: 1.0,
            relative: 0.0,
        };
        let none: Bound = "= 0".parse().unwrap();
        let none = none.resolved(count);
        assert_eq!(none.to_string(), "= 0");
        let position = |low, high| none.position(Interval { low, high });
        assert_eq!(position(-0.6, 0.6), Inside);
        assert_eq!(position(0.4, 1.0), Across);
        assert_eq!(position(1.0, 2.0), Outside);
        let range: Bound = "0.7..0.98".parse().unwrap();
        assert_eq!(range.resolved(count), range);
    }

    #[test]
    fn what_is_not_a_bound_is_refused() {
        for text in ["", "2", "=> 2", ">= two", "1..0", "> NaN", "> inf"] {
            assert!(text.parse::<Bound>().is_err(), "{text:?}");
        }
    }
}
