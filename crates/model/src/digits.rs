//! Numbers as text for people.

use std::fmt::Display;

/// Formats a number with three significant digits, but at most three decimals: `63.8`, `4.17`, `0.094`, `1204`.
pub fn significant(value: f64) -> String {
    format!("{value:.*}", decimals(value))
}

/// Returns the number of decimals with which [`significant`] prints a value.
pub fn decimals(value: f64) -> usize {
    match value.abs() {
        size if size < 0.9995 => 3,
        size if size < 9.995 => 2,
        size if size < 99.95 => 1,
        _ => 0,
    }
}

/// Formats a number with at most three decimals, without trailing zeros: `28.8`, `10`.
pub fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text {
        "-0" => "0".to_owned(),
        text => text.to_owned(),
    }
}

/// Formats a whole number with its digits in groups of three: `1 234 567`.
pub fn grouped(number: impl Display) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_significant_digits() {
        for (value, text) in [
            (0.0941, "0.094"),
            (0.99961, "1.00"),
            (4.168, "4.17"),
            (9.996, "10.0"),
            (63.84, "63.8"),
            (99.96, "100"),
            (1204.4, "1204"),
            (-0.25, "-0.250"),
        ] {
            assert_eq!(significant(value), text);
        }
    }

    #[test]
    fn zeros_at_the_end_are_left_out() {
        assert_eq!(trimmed(28.8), "28.8");
        assert_eq!(trimmed(10.0), "10");
        assert_eq!(trimmed(0.1234), "0.123");
        assert_eq!(trimmed(-0.0001), "0");
    }

    #[test]
    fn digits_are_grouped_from_the_right() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1 000");
        assert_eq!(grouped(12_345_678), "12 345 678");
    }
}
