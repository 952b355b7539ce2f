//! Argument values that several commands share.

use std::time::Duration;

use fathometer_model::quantity::{Factor, TimeSpan};

/// Parses a length of time: `10` and `10s` are seconds; `250us`, `500ms`, `2m`, `1h`.
pub fn time(text: &str) -> Result<Duration, String> {
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
        _ => return Err(format!("{unit:?} is no unit of time: us, ms, s, m or h")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| "write a number and a unit, as in 10s, 500ms or 2m".to_owned())?;
    let seconds = TimeSpan::try_from(number * seconds).map_err(|error| error.to_string())?;
    Ok(seconds.into())
}

/// Like [`time`], but longer than zero.
pub fn some_time(text: &str) -> Result<Duration, String> {
    match time(text)? {
        Duration::ZERO => Err("it must be longer than nothing".to_owned()),
        time => Ok(time),
    }
}

/// A whole number of seconds, at most the longest accepted time.
pub fn whole_seconds(text: &str) -> Result<Duration, String> {
    let seconds: u32 = text
        .parse()
        .map_err(|_| "write a whole number of seconds, as in 60".to_owned())?;
    let seconds = TimeSpan::try_from(f64::from(seconds)).map_err(|error| error.to_string())?;
    Ok(seconds.into())
}

/// A multiplication factor.
pub fn factor(text: &str) -> Result<f64, String> {
    let number = text
        .parse::<f64>()
        .map_err(|_| "write a number above 0: 2 is double, 0.5 is half".to_owned())?;
    if number <= 0.0 {
        return Err("write a number above 0: 2 is double, 0.5 is half".to_owned());
    }
    let factor = Factor::try_from(number).map_err(|error| error.to_string())?;
    Ok(factor.value())
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn numbers_that_are_absurd_are_refused() {
        for bad in ["0", "-1", "nan", "inf", "1e-20", "1e308", "fast", ""] {
            assert!(factor(bad).is_err(), "{bad}");
        }
        assert_eq!(factor("0.5"), Ok(0.5));
        for bad in ["-1", "1.5", "18446744073709551615", "4294967295", "inf"] {
            assert!(whole_seconds(bad).is_err(), "{bad}");
        }
        assert_eq!(whole_seconds("60"), Ok(Duration::from_secs(60)));
    }
}
