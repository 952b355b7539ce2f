//! Formats figures for use in sentences.

use std::time::Duration;

use fathometer_model::digits::grouped;

use super::{Resource, Response};
use crate::statistics::Estimate;

/// A share in percent, as in `12 %` or `0.8 %`: without decimals from 10 % on, otherwise with one decimal.
pub(super) fn percent(share: f64) -> String {
    let value = 100.0 * share;
    match value.abs() {
        large if large >= 9.95 => format!("{value:.0} %"),
        0.0 => "0 %".to_owned(),
        small if small < 0.05 => "less than 0.1 %".to_owned(),
        _ => format!("{value:.1} %"),
    }
}

/// A number with three significant digits.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        small if small < 0.0995 => format!("{value:.3}"),
        small if small < 9.95 => format!("{value:.2}"),
        middle if middle < 99.5 => format!("{value:.1}"),
        _ => whole(value),
    }
}

/// A mean count: without decimals if it is a whole number, otherwise with one decimal.
pub(super) fn count(value: f64) -> String {
    match (value - value.round()).abs() < 0.05 {
        true => whole(value),
        false if value < 99.5 => format!("{value:.1}"),
        false => whole(value),
    }
}

/// A whole number in groups of three digits: `1 234 567`, `-1 234`.
fn whole(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", grouped(format_args!("{:.0}", value.abs())))
}

/// A time, as in `1.25 s`, `12.0 ms` or `250 µs`.
pub(super) fn time(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    match seconds {
        small if small < 999.5e-6 => format!("{} µs", number(1e6 * small)),
        middle if middle < 999.5e-3 => format!("{} ms", number(1e3 * middle)),
        long => format!("{} s", number(long)),
    }
}

/// A number of bytes, as in `1.50 MB`, in powers of 1000.
pub(super) fn bytes(bytes: f64) -> String {
    match bytes {
        small if small < 999.5 => format!("{} B", number(small)),
        middle if middle < 999.5e3 => format!("{} kB", number(middle / 1e3)),
        large => format!("{} MB", number(large / 1e6)),
    }
}

/// An elasticity with its interval, as in `0.97 (0.91 to 1.04)`.
pub(super) fn elasticity(estimate: &Estimate) -> String {
    match estimate.interval {
        Some(interval) => format!(
            "{} ({} to {})",
            hundredths(estimate.value),
            hundredths(interval.low),
            hundredths(interval.high)
        ),
        None => hundredths(estimate.value),
    }
}

/// A number with two decimals, without `-0.00`.
pub(super) fn hundredths(value: f64) -> String {
    let text = format!("{value:.2}");
    if text == "-0.00" {
        "0.00".to_owned()
    } else {
        text
    }
}

/// A step as the subject of a sentence, as in `25 % more CPU time` or
/// `a round trip 20 % shorter`.
pub(super) fn step(resource: Resource, factor: f64) -> String {
    if resource == Resource::RoundTrip {
        return match factor {
            short if short < 1.0 => format!("a round trip {} shorter", percent(1.0 - short)),
            long if long < 2.0 => format!("a round trip {} longer", percent(long - 1.0)),
            long => format!("a round trip {} times as long", number(long)),
        };
    }
    let what = match resource {
        Resource::Cpu => "CPU time",
        Resource::OneCore => "speed of one core",
        Resource::Memory => "memory",
        Resource::DiskOperations => "disk operations per second",
        Resource::DiskBytes => "disk bytes per second",
        Resource::LinkRate => "link rate",
        Resource::Backlog => "backlog",
        Resource::Workers => "workers",
        Resource::Load => "load",
        Resource::RoundTrip | Resource::ServerItself | Resource::Generator | Resource::Path => {
            resource.noun()
        }
    };
    let less = if resource == Resource::Workers {
        "fewer"
    } else {
        "less"
    };
    match factor {
        little if little < 1.0 => format!("{} {less} {what}", percent(1.0 - little)),
        some if some < 2.0 => format!("{} more {what}", percent(some - 1.0)),
        much => format!("{} times the {what}", number(much)),
    }
}

/// A step for a narrow table column, as in `×1.25`.
pub(super) fn factor(factor: f64) -> String {
    format!("×{}", number(factor))
}

/// The effect of a step, as in
/// `25 % more CPU time gave 23 % more throughput (19 to 27 %) and 18 % less latency (14 to 21 %), n = 5`.
pub(super) fn response(resource: Resource, response: &Response) -> String {
    format!(
        "{} gave {} and {}, n = {}",
        step(resource, response.factor),
        changed("throughput", &response.throughput_change()),
        changed("latency", &response.latency_change()),
        response.throughput.n
    )
}

/// A change, as in `23 % more throughput (19 to 27 %)` or `throughput as before (-1.0 to 2.0 %)`.
fn changed(what: &str, change: &Estimate) -> String {
    let size = percent(change.value.abs());
    let (subject, sign) = match change.value {
        same if same.abs() < 0.000_5 => (format!("{what} as before"), 1.0),
        more if more > 0.0 => (format!("{size} more {what}"), 1.0),
        _ => (format!("{size} less {what}"), -1.0),
    };
    let Some(interval) = change.interval else {
        return subject;
    };
    let ends = [sign * interval.low, sign * interval.high];
    let (low, high) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
    format!("{subject} ({} to {} %)", plain(low), plain(high))
}

/// The change by a step, for a narrow table column, as in `+23 % (+19 to +27 %)`.
pub(super) fn signed(change: &Estimate) -> String {
    let sign = |share: f64| {
        let text = plain(share);
        match text.starts_with('-') || matches!(text.as_str(), "0.0" | "0") {
            true => text,
            false => format!("+{text}"),
        }
    };
    match change.interval {
        Some(interval) => format!(
            "{} % ({} to {} %)",
            sign(change.value),
            sign(interval.low),
            sign(interval.high)
        ),
        None => format!("{} %", sign(change.value)),
    }
}

/// The effect of a step on latency only, as in
/// `25 % more disk operations per second gave 17 % less latency (16 to 19 %)`.
pub(super) fn latency_response(resource: Resource, response: &Response) -> String {
    format!(
        "{} gave {}",
        step(resource, response.factor),
        changed("latency", &response.latency_change())
    )
}

/// A value in percent, without unit and without a plus sign.
fn plain(share: f64) -> String {
    let value = 100.0 * share;
    let text = match value.abs() {
        large if large >= 9.95 => format!("{value:.0}"),
        _ => format!("{value:.1}"),
    };
    if text == "-0.0" {
        "0.0".to_owned()
    } else {
        text
    }
}

/// The text with its first letter in upper case.
pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(chars).collect()
    })
}

/// Items as a list in a sentence: `a`, `a and b`, `a, b and c`.
pub(super) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [only] => only.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Interval;

    #[test]
    fn steps_are_described_in_words() {
        assert_eq!(step(Resource::Cpu, 1.25), "25 % more CPU time");
        assert_eq!(step(Resource::Workers, 0.5), "50 % fewer workers");
        assert_eq!(step(Resource::Backlog, 4.0), "4.00 times the backlog");
        assert_eq!(step(Resource::RoundTrip, 0.8), "a round trip 20 % shorter");
        assert_eq!(step(Resource::RoundTrip, 1.25), "a round trip 25 % longer");
    }

    #[test]
    fn a_change_is_reported_with_its_sign_in_words() {
        let of = |value: f64, low: f64, high: f64| {
            let interval = Some(Interval { low, high });
            changed(
                "latency",
                &Estimate {
                    n: 5,
                    value,
                    interval,
                },
            )
        };
        assert_eq!(of(0.23, 0.19, 0.27), "23 % more latency (19 to 27 %)");
        assert_eq!(of(-0.18, -0.21, -0.14), "18 % less latency (14 to 21 %)");
        assert_eq!(of(-0.02, -0.05, 0.01), "2.0 % less latency (-1.0 to 5.0 %)");
        assert_eq!(of(0.0, -0.01, 0.01), "latency as before (-1.0 to 1.0 %)");
    }

    #[test]
    fn a_change_in_a_table_has_its_sign() {
        let of = |value: f64, interval: Option<[f64; 2]>| {
            let interval = interval.map(|[low, high]| Interval { low, high });
            signed(&Estimate {
                n: 5,
                value,
                interval,
            })
        };
        assert_eq!(of(0.412, Some([0.294, 0.557])), "+41 % (+29 to +56 %)");
        assert_eq!(of(-0.018, Some([-0.042, 0.004])), "-1.8 % (-4.2 to +0.4 %)");
        assert_eq!(of(0.000_1, Some([-0.000_2, 0.0])), "0.0 % (0.0 to 0.0 %)");
        assert_eq!(of(1.5, None), "+150 %");
    }

    #[test]
    fn figures_carry_what_their_size_needs() {
        assert_eq!(percent(0.994), "99 %");
        assert_eq!(percent(0.004), "0.4 %");
        assert_eq!(percent(0.000_1), "less than 0.1 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(number(12_345.6), "12 346");
        assert_eq!(time(Duration::from_millis(1_250)), "1.25 s");
        assert_eq!(bytes(1_500_000.0), "1.50 MB");
        assert_eq!(count(8.01), "8");
        assert_eq!(count(0.7), "0.7");
        assert_eq!(hundredths(-0.001), "0.00");
        let items = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(list(&items), "a, b and c");
    }
}
