//! Formats figures as short texts of nearly constant width, usually with two or three digits.

use std::time::Duration;

use fathometer_analysis::load::Counts;
use fathometer_model::Failure;
pub(super) use fathometer_model::digits::grouped as count;

/// Formats a time with two or three digits: `850 ns`, `12 µs`, `1.2 ms`, `140 s`.
pub(super) fn time(time: Duration) -> String {
    let nanos = time.as_nanos() as f64;
    // 999.5 of a unit would be rounded to 1000.
    for (size, unit) in [(1.0, "ns"), (1e3, "µs"), (1e6, "ms")] {
        let value = nanos / size;
        if value < 999.5 {
            return match unit {
                "ns" => format!("{value:.0} ns"),
                _ => format!("{} {unit}", decimal(value)),
            };
        }
    }
    format!("{} s", decimal(nanos / 1e9))
}

/// Formats a time that may be unknown.
pub(super) fn maybe(duration: Option<Duration>) -> String {
    duration.map_or_else(|| "-".to_owned(), time)
}

/// Formats a rate: `10 234/s`, `8.5/s`.
pub(super) fn rate(per_second: f64) -> String {
    if per_second > 0.0 && per_second < 9.95 {
        format!("{per_second:.1}/s")
    } else {
        format!("{}/s", count(per_second.round() as u64))
    }
}

/// Formats a time in whole seconds, rounded down: `7 s`, `2 min 05 s`, `1 h 00 min`.
pub(super) fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Returns the errors by class, the most frequent first: `timed out 12`, `status 404 3`.
pub(super) fn errors(counts: &Counts) -> Vec<String> {
    let failures = counts
        .failures
        .iter()
        .map(|(failure, count)| (name(*failure).to_owned(), *count));
    let statuses = counts
        .statuses
        .range(400..)
        .map(|(status, count)| (format!("status {status}"), *count));
    let connects = counts
        .connect_failures
        .iter()
        .map(|(failure, count)| (format!("connecting: {}", name(*failure)), *count));
    let sizes = ("of a wrong size".to_owned(), counts.wrong_size);
    let mut classes: Vec<(String, u64)> = failures
        .chain(statuses)
        .chain(connects)
        .chain([sizes])
        .filter(|(_, count)| *count > 0)
        .collect();
    classes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    classes
        .into_iter()
        .map(|(name, number)| format!("{name} {}", count(number)))
        .collect()
}

fn name(failure: Failure) -> &'static str {
    match failure {
        Failure::Refused => "refused",
        Failure::Reset => "reset",
        Failure::ClosedEarly => "closed early",
        Failure::Truncated => "truncated",
        Failure::BadResponse => "bad response",
        Failure::StreamReset => "stream reset",
        Failure::GoneAway => "gone away",
        Failure::TlsFailed => "TLS failed",
        Failure::TooLarge => "too large",
        Failure::TimedOut => "timed out",
        Failure::LocalAbort => "given up",
        Failure::LocalLimit => "local limit",
    }
}

fn decimal(value: f64) -> String {
    // 9.95 would be rounded to 10.0.
    if value < 9.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_change_their_unit_before_they_have_four_digits() {
        for (nanos, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.0 µs"),
            (9_949, "9.9 µs"),
            (9_950, "10 µs"),
            (999_499, "999 µs"),
            (999_500, "1.0 ms"),
            (1_234_567, "1.2 ms"),
            (1_400_000_000, "1.4 s"),
            (140_000_000_000, "140 s"),
        ] {
            assert_eq!(time(Duration::from_nanos(nanos)), text, "{nanos}");
        }
    }

    #[test]
    fn rates_are_grouped_by_thousands() {
        assert_eq!(rate(0.0), "0/s");
        assert_eq!(rate(9.94), "9.9/s");
        assert_eq!(rate(9.96), "10/s");
        assert_eq!(rate(10_233.6), "10 234/s");
    }

    #[test]
    fn errors_are_named_by_class_the_most_frequent_first() {
        let mut counts = Counts::default();
        assert!(errors(&counts).is_empty());
        counts.statuses.insert(200, 5_000);
        counts.statuses.insert(503, 7);
        counts.failures.insert(Failure::TimedOut, 1_200);
        counts.connect_failures.insert(Failure::Refused, 9);
        assert_eq!(
            errors(&counts),
            ["timed out 1 200", "connecting: refused 9", "status 503 7"]
        );
    }
}
