//! Lower limits of a capacity as text: `capacity>=1200/s`, `capacity>=300users`.

use std::str::FromStr;

use crate::Answer;

/// A lower limit of the capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gate {
    least: f64,
    is_users: bool,
}

impl Gate {
    /// Whether the limit is a number of users, and not a rate.
    pub fn is_users(&self) -> bool {
        self.is_users
    }

    /// Whether an answer meets the limit; `None` if the limit is between the bounds, or if a bound is missing.
    pub fn is_kept(&self, answer: &Answer) -> Option<bool> {
        let (works, fails) = match answer {
            Answer::Interval { works, fails } => (Some(*works), Some(*fails)),
            Answer::Inconclusive { works, fails, .. } => (*works, *fails),
            Answer::Invalid { .. } => (None, None),
        };
        if works.is_some_and(|works| works >= self.least) {
            return Some(true);
        }
        fails
            .is_some_and(|fails| fails <= self.least)
            .then_some(false)
    }
}

/// The error for a text that is not a gate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a gate: write capacity>=1200/s or capacity>=300users")]
pub struct GateError(String);

impl FromStr for Gate {
    type Err = GateError;

    fn from_str(text: &str) -> Result<Gate, GateError> {
        let wrong = || GateError(text.to_owned());
        let limit = text.trim().strip_prefix("capacity").ok_or_else(wrong)?;
        let limit = limit
            .trim_start()
            .strip_prefix(">=")
            .ok_or_else(wrong)?
            .trim();
        let (number, is_users) = match (limit.strip_suffix("/s"), limit.strip_suffix("users")) {
            (Some(number), _) => (number, false),
            (None, Some(number)) => (number, true),
            (None, None) => return Err(wrong()),
        };
        match number.trim().parse::<f64>() {
            Ok(least) if least > 0.0 && least.is_finite() => Ok(Gate { least, is_users }),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_bound_keeps_a_gate_and_the_upper_bound_breaks_it() {
        let answer = Answer::Interval {
            works: 1200.0,
            fails: 1224.0,
        };
        let kept = |text: &str| text.parse::<Gate>().unwrap().is_kept(&answer);
        assert_eq!(kept("capacity>=1200/s"), Some(true));
        assert_eq!(kept("capacity >= 1210 /s"), None);
        assert_eq!(kept("capacity>=1224/s"), Some(false));
        let invalid = Answer::Invalid {
            valid_up_to: Some(1e5),
            reason: String::new(),
        };
        assert_eq!(
            "capacity>=1/s".parse::<Gate>().unwrap().is_kept(&invalid),
            None
        );
        assert!("capacity>=300users".parse::<Gate>().unwrap().is_users());
        for wrong in [
            "capacity>1/s",
            "capacity>=5",
            "rate>=5/s",
            "capacity>=0/s",
            "capacity>=x/s",
        ] {
            assert!(wrong.parse::<Gate>().is_err(), "{wrong}");
        }
    }
}
