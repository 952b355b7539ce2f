//! Values that several commands take.

use std::time::Duration;

/// Reads a length of time: `10` and `10s` are seconds; `250us`, `500ms`, `2m`, `1h`.
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
    Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())
}

/// As [`time`], and longer than nothing.
pub fn some_time(text: &str) -> Result<Duration, String> {
    match time(text)? {
        Duration::ZERO => Err("it must be longer than nothing".to_owned()),
        time => Ok(time),
    }
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
        for bad in ["", "s", "10 s", "1d", "-1s", "1e3", "1..2s"] {
            assert!(time(bad).is_err(), "{bad}");
        }
        assert_eq!(time("0s").unwrap(), Duration::ZERO);
        assert!(some_time("0s").is_err());
    }
}
