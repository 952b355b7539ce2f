//! The page of a load test.

use std::time::Duration;

use fathometer_analysis::load::{Distribution, Interval, Slo, Summary};
use fathometer_analysis::load_page;

use super::sample;

#[test]
fn every_page_is_whole_and_needs_nothing_from_outside() {
    let slo: Slo = "p98<100ms,errors<0.1%".parse().unwrap();
    for (name, result) in sample::all() {
        let page = load_page::render(&result, &slo.judge(&result));
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
        for bad in ["NaN", "inf\"", "<script", "<img", "<link", "src=", "url("] {
            assert!(!page.contains(bad), "{name}: {bad}");
        }
        let has = |text: &str| page.contains(text);
        let badge = match result.validity.is_valid() {
            true => "badge holds\">valid",
            false => "INVALID",
        };
        assert!(has(badge), "{name}");
        assert!(
            has("code>p98&lt;100ms") || has("code>p98&lt;100ms</code>"),
            "{name}"
        );
        let summary = Summary::of(&result);
        let latency = &summary.measured.phases.corrected;
        assert_eq!(
            latency.is_some(),
            has("Distribution of the latency"),
            "{name}"
        );
        assert_eq!(
            !summary.timeline.is_empty(),
            has("Open connections"),
            "{name}"
        );
        for status in summary.measured.counts.statuses.keys() {
            assert!(has(&format!("status {status}</text>")), "{name}: {status}");
        }
    }
}

#[test]
fn the_distribution_has_a_bar_for_the_slowest_exchange() {
    // A stall of one second causes latencies of 0.9 ms to 1 s.
    let page = load_page::render(&sample::stalled(), &[]);
    let start = page.find("Distribution of the latency").unwrap();
    let end = start + page[start..].find("</svg>").unwrap();
    let bars = page[start..end].matches("<rect class=\"bar era1\"").count();
    assert!(bars > 40, "{bars}");
    for mark in [">p50<", ">p99<", ">p99.9<", ">max<"] {
        assert!(page[start..end].contains(mark), "{mark}");
    }
}

/// The page does not grow with the test. The distribution has one bar per class of latency, and the engine merges the
/// seconds of a long test into at most 1024 intervals (`fathometer_load::MOST_INTERVALS`).
#[test]
fn the_page_of_a_million_exchanges_stays_small() {
    let mut result = sample::stalled();
    let latency = &mut result.measured.latency.corrected;
    *latency = Distribution::default();
    for n in 0..1_000_000_u64 {
        // Latencies from 0.1 ms to 10 s, evenly spaced on a logarithmic scale.
        let millis = 0.1 * 1e5_f64.powf(n as f64 / 1e6);
        latency.record(Duration::from_secs_f64(millis / 1e3));
    }
    let interval = result.timeline[0].clone();
    result.timeline = (0..1024_u64)
        .map(|second| Interval {
            start: Duration::from_secs(second),
            ..interval.clone()
        })
        .collect();
    let page = load_page::render(&result, &[]);
    let marks = page.matches("<rect ").count() + page.matches("<path ").count();
    assert!(page.contains("1 000 000 exchanges in 120 classes"));
    assert!((120..400).contains(&marks), "{marks} marks");
    assert!(page.len() < 500_000, "{} bytes", page.len());
}
