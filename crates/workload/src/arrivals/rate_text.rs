//! Parses rates: requests per second, and the changes of the rate.

use std::time::Duration;

use fathometer_model::{Rate, quantity};

use super::{Piece, Profile};

/// The reason why a text is not a rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RateTextError(String);

impl Profile {
    /// Parses a rate, for a test of length `whole`.
    ///
    /// | text | means |
    /// |---|---|
    /// | `1000`, `1000/s`, `60/m` | a constant rate, for as long as the test lasts |
    /// | `100..1000` | a linear ramp from the first to the second rate over the whole test |
    /// | `100x30s,200x30s,400` | steps: each rate for its time, the last rate to the end |
    /// | `0..500x10s,500` | ramps and steps in sequence |
    ///
    /// # Errors
    /// If the text is malformed, a rate is out of range, or no rate is above zero.
    pub fn from_text(text: &str, whole: Duration) -> Result<Profile, RateTextError> {
        let stretches = parse(text).map_err(RateTextError)?;
        let given: Duration = stretches.iter().filter_map(|stretch| stretch.length).sum();
        let rest = whole.saturating_sub(given);
        let last = stretches.last().map_or(0.0, |stretch| stretch.to);
        let pieces = stretches
            .iter()
            .filter(|stretch| {
                stretch.length.is_some() || (stretch.from != stretch.to && !rest.is_zero())
            })
            .map(|&Stretch { from, to, length }| Piece {
                length: length.unwrap_or(rest),
                from,
                to,
            })
            .collect();
        Profile::new(pieces, last).map_err(|error| RateTextError(error.to_string()))
    }

    /// Returns the length of a test that contains all parts of a rate. A last part without a duration gets the duration
    /// `last`. `None` if no part has a duration, so that the rate does not set the length.
    ///
    /// # Errors
    ///
    /// If the text is malformed.
    pub fn stated_length(text: &str, last: Duration) -> Result<Option<Duration>, RateTextError> {
        let stretches = parse(text).map_err(RateTextError)?;
        let has_length = stretches.iter().any(|stretch| stretch.length.is_some());
        let lengths = stretches
            .iter()
            .map(|stretch| stretch.length.unwrap_or(last));
        Ok(has_length.then(|| lengths.sum()))
    }
}

/// An interval in which the rate changes linearly from one value to another.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stretch {
    /// Requests per second at the start of the interval.
    from: f64,
    /// Requests per second at the end of the interval.
    to: f64,
    /// The length of the interval; `None`: until the end of the test.
    length: Option<Duration>,
}

fn parse(text: &str) -> Result<Vec<Stretch>, String> {
    let mut stretches = Vec::new();
    let parts: Vec<&str> = text.split(',').collect();
    for (n, part) in parts.iter().enumerate() {
        let (rate, length) = match part.split_once('x') {
            Some((rate, length)) => {
                let length = quantity::time(length)
                    .map_err(|error| format!("{length:?} is not a duration: {error}"))?;
                (rate, Some(length))
            }
            None => (*part, None),
        };
        let (from, to) = match rate.split_once("..") {
            Some((from, to)) => (per_second(from)?, per_second(to)?),
            None => {
                let rate = per_second(rate)?;
                (rate, rate)
            }
        };
        if length.is_none() && n + 1 < parts.len() {
            return Err(format!(
                "{part:?} has no duration: use {part}x30s; only the last part may omit the duration"
            ));
        }
        if length.is_some_and(|length| length.is_zero()) {
            return Err(format!("{part:?} has a duration of 0"));
        }
        stretches.push(Stretch { from, to, length });
    }
    if stretches
        .iter()
        .all(|stretch| stretch.from == 0.0 && stretch.to == 0.0)
    {
        return Err("a rate of 0 sends no request".to_owned());
    }
    Ok(stretches)
}

fn per_second(text: &str) -> Result<f64, String> {
    let (number, seconds) = match text.split_once('/') {
        Some((number, "s")) => (number, 1.0),
        Some((number, "m")) => (number, 60.0),
        Some((number, "h")) => (number, 3600.0),
        Some((_, unit)) => {
            return Err(format!(
                "{unit:?} is not a unit of a rate: use /s, /m or /h"
            ));
        }
        None => (text, 1.0),
    };
    let rate: f64 = number
        .trim()
        .parse()
        .map_err(|_| format!("{text:?} is not a rate: use requests per second, as in 1000"))?;
    let rate = Rate::try_from(rate / seconds)
        .map_err(|error| format!("the rate {text:?} is out of range: {error}"))?;
    Ok(rate.per_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretch(from: f64, to: f64, seconds: Option<u64>) -> Stretch {
        Stretch {
            from,
            to,
            length: seconds.map(Duration::from_secs),
        }
    }

    #[test]
    fn rates_are_constants_ramps_and_steps() {
        assert_eq!(parse("1000").unwrap(), [stretch(1000.0, 1000.0, None)]);
        assert_eq!(parse("120/m").unwrap(), [stretch(2.0, 2.0, None)]);
        assert_eq!(parse("100..1000").unwrap(), [stretch(100.0, 1000.0, None)]);
        assert_eq!(
            parse("0..500x10s,500x1m,200").unwrap(),
            [
                stretch(0.0, 500.0, Some(10)),
                stretch(500.0, 500.0, Some(60)),
                stretch(200.0, 200.0, None)
            ]
        );
    }

    #[test]
    fn parts_with_durations_have_a_length() {
        for (text, seconds) in [
            ("100", None),
            ("100..1000", None),
            ("100x30s,200x30s", Some(60)),
            ("0..500x10s,500x1m,200", Some(75)),
        ] {
            let length = Profile::stated_length(text, Duration::from_secs(5)).unwrap();
            assert_eq!(length, seconds.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn a_malformed_rate_is_reported_with_its_part() {
        for (text, place) in [
            ("", "\"\""),
            ("fast", "\"fast\""),
            ("-5", "\"-5\""),
            ("100x,5", "\"\""),
            ("100,200", "\"100\""),
            ("5/d", "\"d\""),
            ("0", "sends no request"),
            ("5x0s", "\"5x0s\""),
            ("1e308", "1e308: it must be a number a second"),
            ("nan", "NaN: it must be"),
            ("1e-300", "from one in 30 days"),
            ("5x99999999h", "30 days"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(place), "{text}: {error}");
        }
    }
}
