//! The first four lines: rate, latency, errors, and validity with the bound of the rate.

use super::super::lines::{HEAD, WIDTH, line};
use super::super::quantity::{bytes, count, counted, percent, three_digits, time};
use super::super::{Counts, LoadResult, LoopKind, Window, bound, rates};
use crate::text::columns_of;

/// The largest number of error classes in the line of errors.
const CLASSES: usize = 3;

/// The four lines. An INVALID result has one more line for each reason.
pub(super) fn lines(result: &LoadResult) -> String {
    let window = &result.measured;
    let mut text = line("rate", &rate(result));
    text.push_str(&line("latency", &latency(window)));
    text.push_str(&line("errors", &errors(window)));
    if result.validity.is_valid() {
        text.push_str(&line(
            "valid",
            &format!("yes; bound: {}", bound::of(result)),
        ));
        return text;
    }
    let mut head = "INVALID";
    for reason in &result.validity.reasons {
        text.push_str(&line(head, reason));
        head = "";
    }
    text
}

fn rate(result: &LoadResult) -> String {
    let window = &result.measured;
    let (Some(offered), Some(achieved)) = (rates::offered(window), rates::achieved(window)) else {
        return "none: the measured window has no length".to_owned();
    };
    let mut text = format!("{}/s", three_digits(achieved));
    if matches!(result.setup.kind, LoopKind::Open { .. }) {
        let offered = three_digits(offered);
        text.push_str(&format!(" of {offered}/s offered"));
    }
    let goodput = bytes(rates::goodput(window).unwrap_or(0.0));
    text.push_str(&format!(", goodput {goodput}/s"));
    text
}

fn latency(window: &Window) -> String {
    let times = &window.latency.corrected;
    let quantiles = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
    let quantiles: Vec<String> = quantiles
        .into_iter()
        .filter_map(|(name, quantile)| Some(format!("{name} {}", time(times.quantile(quantile)?))))
        .collect();
    match quantiles.is_empty() {
        true => "none: no exchange ended".to_owned(),
        false => quantiles.join(", "),
    }
}

fn errors(window: &Window) -> String {
    let counts = &window.counts;
    let all = counts.errors() + counts.unfinished;
    let exchanges = counts.completed + counts.failed() + counts.unfinished;
    if all == 0 {
        return format!("none of {}", counted(exchanges, "exchange"));
    }
    let whole = format!(
        "{} of {} ({})",
        count(all),
        counted(exchanges, "exchange"),
        percent(rates::error_share(window).unwrap_or(0.0)),
    );
    let mut classes = classes(counts);
    classes.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    let named = |shown: usize| {
        let mut names: Vec<String> = classes
            .iter()
            .take(shown)
            .map(|(name, times)| format!("{} {name}", count(*times)))
            .collect();
        if let Some(others @ 1..) = classes.len().checked_sub(shown) {
            names.push(match others {
                1 => "1 more kind".to_owned(),
                _ => format!("{others} more kinds"),
            });
        }
        format!("{whole}: {}", names.join(", "))
    };
    let fits = |text: &String| columns_of(text) <= WIDTH - HEAD;
    (0..=CLASSES).rev().map(named).find(fits).unwrap_or(whole)
}

/// Failures by reason and responses by status of 400 and above, each with its count.
fn classes(counts: &Counts) -> Vec<(String, u64)> {
    let failures = counts.failures.iter();
    let mut classes: Vec<(String, u64)> = failures
        .map(|(failure, times)| (failure.name().to_owned(), *times))
        .collect();
    let statuses = counts.statuses.range(400..);
    classes.extend(statuses.map(|(status, times)| (format!("status {status}"), *times)));
    classes.push(("unfinished".to_owned(), counts.unfinished));
    classes.retain(|(_, times)| *times > 0);
    classes
}
