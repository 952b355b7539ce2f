//! Quantities formatted as text.

use std::time::Duration;

pub(super) use fathometer_model::digits::grouped as count;
use fathometer_model::digits::significant;

/// A time with three significant digits, down to the nanosecond: `712 µs`, `1.40 s`, `0.085 µs`.
pub(super) fn time(time: Duration) -> String {
    seconds(time.as_secs_f64())
}

/// A time in seconds, with three significant digits.
pub(super) fn seconds(seconds: f64) -> String {
    // Above this value, the smaller unit would round to 1000.
    let (value, unit) = match seconds {
        // Times are whole nanoseconds, so three decimals of a microsecond are exact.
        least if least > 0.0 && least < 0.9995e-6 => return format!("{:.3} µs", least * 1e6),
        small if small < 999.5e-6 => (small * 1e6, "µs"),
        middle if middle < 999.5e-3 => (middle * 1e3, "ms"),
        long => (long, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A value with three significant digits, or with all digits before the decimal point if there are more.
pub(super) fn three_digits(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 {
        return "0".to_owned();
    }
    match size {
        small if small < 0.000_999_5 => format!("{value:.2e}"),
        small if small < 0.099_95 => format!("{value:.4}"),
        middle if middle < 99.95 => significant(value),
        large => {
            let sign = if value < 0.0 { "-" } else { "" };
            format!("{sign}{}", count(large.round() as u64))
        }
    }
}

/// A number with its noun, as in `1 exchange` or `2 exchanges`.
pub(super) fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(number))
}

/// A number of bytes, as in `12.3 MB`, in powers of 1000; exact below a kilobyte.
pub(super) fn bytes(bytes: f64) -> String {
    let (value, unit) = match bytes {
        small if small < 999.5 => (small, "B"),
        middle if middle < 999.5e3 => (middle / 1e3, "kB"),
        middle if middle < 999.5e6 => (middle / 1e6, "MB"),
        large => (large / 1e9, "GB"),
    };
    format!("{} {unit}", three_digits(value))
}

/// A share in percent, as in `12.3 %`; small shares have more decimals, as in `0.0012 %`.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        whole if whole >= 99.95 => format!("{whole:.1} %"),
        part => format!("{} %", three_digits(part)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_carry_to_the_next_unit() {
        let of = |nanos: u64| time(Duration::from_nanos(nanos));
        assert_eq!(of(0), "0 µs");
        assert_eq!(of(1), "0.001 µs");
        assert_eq!(of(85), "0.085 µs");
        assert_eq!(of(999), "0.999 µs");
        assert_eq!(of(12_340), "12.3 µs");
        assert_eq!(of(999_499), "999 µs");
        assert_eq!(of(999_501), "1.00 ms");
        assert_eq!(of(99_960_000), "100 ms");
        assert_eq!(of(999_600_000), "1.00 s");
        assert_eq!(of(1_400_000_000), "1.40 s");
        assert_eq!(of(3_600_000_000_000), "3 600 s");
    }

    #[test]
    fn counts_are_grouped_and_shares_keep_their_digits() {
        assert_eq!(three_digits(-12_345.6), "-12 346");
        assert_eq!(counted(1, "page"), "1 page");
        assert_eq!(counted(0, "page"), "0 pages");
        assert_eq!(bytes(999.0), "999 B");
        assert_eq!(bytes(999_600.0), "1.00 MB");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.000_012_34), "0.0012 %");
        assert_eq!(percent(0.000_001), "1.00e-4 %");
        assert_eq!(percent(1.0), "100.0 %");
        assert_eq!(percent(0.999), "99.9 %");
    }
}
