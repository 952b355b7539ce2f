//! Argument values that several commands share.

use std::time::Duration;

use fathometer_model::quantity::{self, Factor, TimeSpan};

/// Parses a length of time: `10` and `10s` are seconds; `250us`, `500ms`, `2m`, `1h`.
pub fn time(text: &str) -> Result<Duration, String> {
    quantity::time(text).map_err(|error| error.to_string())
}

/// Like [`time`], but longer than zero.
pub fn some_time(text: &str) -> Result<Duration, String> {
    quantity::some_time(text).map_err(|error| error.to_string())
}

/// Parses a whole number of seconds, up to the longest accepted time.
pub fn whole_seconds(text: &str) -> Result<Duration, String> {
    let seconds: u32 = text
        .parse()
        .map_err(|_| "write a whole number of seconds, as in 60".to_owned())?;
    let seconds = TimeSpan::try_from(f64::from(seconds)).map_err(|error| error.to_string())?;
    Ok(seconds.into())
}

/// Parses a number of bytes, with or without a unit: `500`, `64M`, `8kB`.
pub fn size(text: &str) -> Result<u64, String> {
    let bytes = quantity::bytes(text).map_err(|error| error.to_string())?;
    Ok(bytes.0)
}

/// Like [`size`], but above zero.
pub fn some_bytes(text: &str) -> Result<u64, String> {
    match size(text)? {
        0 => Err("it must be above zero".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Parses a factor above 0.
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
    fn numbers_outside_their_range_are_refused() {
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
