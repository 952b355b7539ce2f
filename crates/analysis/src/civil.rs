//! Formats seconds since the Unix epoch as a date in UTC, and durations as text.

use fathometer_model::calendar;

/// A date as in `2026-11-21 19:39 UTC`; `an unknown time` if the value is not finite, negative, or
/// beyond the year 9999.
pub fn utc(seconds: f64) -> String {
    if !seconds.is_finite() || !(0.0..253_402_300_800.0).contains(&seconds) {
        return "an unknown time".to_owned();
    }
    let seconds = seconds as u64;
    let (year, month, day) = calendar::date(seconds / 86_400);
    let minute = seconds % 86_400 / 60;
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02} UTC",
        minute / 60,
        minute % 60
    )
}

/// A duration, as in `3 min 20 s`, `2 h 5 min` or `12 s`.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Expected values from GNU date -u -d @N.
    #[test]
    fn dates_are_those_of_gnu_date() {
        assert_eq!(utc(0.0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(68_169_599.0), "1972-02-28 23:59 UTC");
        assert_eq!(utc(68_169_600.0), "1972-02-29 00:00 UTC");
        assert_eq!(utc(951_782_400.0), "2000-02-29 00:00 UTC");
        assert_eq!(utc(978_307_199.0), "2000-12-31 23:59 UTC");
        assert_eq!(utc(1_795_289_940.5), "2026-11-21 19:39 UTC");
        assert_eq!(utc(4_107_542_400.0), "2100-03-01 00:00 UTC");
        assert_eq!(utc(f64::NAN), "an unknown time");
        assert_eq!(utc(-1.0), "an unknown time");
    }

    #[test]
    fn durations_have_two_units() {
        assert_eq!(duration(59.4), "59 s");
        assert_eq!(duration(200.0), "3 min 20 s");
        assert_eq!(duration(7_500.0), "2 h 5 min");
    }
}
