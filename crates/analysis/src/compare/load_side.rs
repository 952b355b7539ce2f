//! Sides from saved results of load tests.
//!
//! The samples of a single result are its seconds, because exchanges within a second are not independent. The samples
//! of several results are the results.

use std::collections::{BTreeMap, BTreeSet};

use super::{Better, Metric, Scale, Side};
use crate::load::Summary;
use crate::load::summary::{IntervalSummary, LoopSummary};
use crate::statistics::Resolution;

/// The largest number of blocks. More blocks are merged with their neighbours, so that a block lasts longer than the
/// correlation.
const MOST_BLOCKS: usize = 60;

/// A side from one result.
pub fn of_load(name: &str, summary: &Summary) -> Side {
    let blocks = blocks(summary);
    let per_second = |count: fn(&IntervalSummary) -> f64| -> Vec<f64> {
        let each = blocks.iter().map(|block| count(block) / block.length_s);
        merged(each)
    };
    let of = |value: fn(&IntervalSummary) -> Option<f64>| -> Vec<f64> {
        merged(blocks.iter().filter_map(|block| value(block)))
    };
    let mut metrics = vec![
        metric(
            "rate",
            "/s",
            Better::Higher,
            per_second(|b| b.completed as f64),
        ),
        metric("p50", "ms", Better::Lower, of(|b| b.p50_ms)),
        metric("p90", "ms", Better::Lower, of(|b| b.p90_ms)),
        metric("p99", "ms", Better::Lower, of(|b| b.p99_ms)),
        metric(
            "throughput",
            "B/s",
            Better::Higher,
            per_second(|b| b.received_bytes as f64),
        ),
    ];
    let counts = &summary.measured.counts;
    let failures = failures_among_errors(counts.failed, counts.status_errors);
    let tried = |b: &IntervalSummary| tried(b.completed, b.errors, failures);
    let share = |b: &IntervalSummary| {
        let tried = tried(b);
        (tried > 0.0).then(|| b.errors as f64 / tried)
    };
    let exchanges = blocks.iter().map(|block| tried(block)).sum::<f64>() as u64;
    let mut errors = metric(
        "errors",
        "",
        Better::Lower,
        merged(blocks.iter().filter_map(|block| share(block))),
    );
    errors.scale = Scale::Difference;
    resolves(&mut errors, exchanges);
    metrics.push(errors);
    for metric in &mut metrics {
        metric.is_series = true;
        metric.no_interval = "fewer than four whole seconds were measured";
    }
    metrics.extend(costs(summary));
    Side {
        metrics: metrics
            .into_iter()
            .filter(|metric| !metric.samples.is_empty())
            .collect(),
        ..described(name, summary)
    }
}

/// A side from several results of the same load; each result is one sample. INVALID results are left out if others are
/// valid.
pub fn of_loads(name: &str, summaries: &[Summary]) -> Side {
    let is_valid = |summary: &&Summary| summary.validity.reasons.is_empty();
    let all = summaries.len();
    let reasons: BTreeSet<&str> = summaries
        .iter()
        .flat_map(|summary| &summary.validity.reasons)
        .map(String::as_str)
        .collect();
    let reasons: Vec<&str> = reasons.into_iter().collect();
    let valid: Vec<&Summary> = summaries.iter().filter(is_valid).collect();
    let (mut invalid, mut left_out) = (Vec::new(), BTreeMap::new());
    let summaries = match valid.len() {
        0 => {
            invalid = reasons.iter().map(|&reason| reason.to_owned()).collect();
            summaries.iter().collect()
        }
        n if n < all => {
            left_out.insert(
                format!("{} of {all} results", all - n),
                format!("INVALID: {}", reasons.join("; ")),
            );
            valid
        }
        _ => valid,
    };
    let [first, ..] = summaries.as_slice() else {
        return Side::default();
    };
    let of = |value: &dyn Fn(&Summary) -> Option<f64>| -> Vec<f64> {
        summaries.iter().copied().filter_map(value).collect()
    };
    let phase = |value: fn(&crate::load::summary::Phase) -> f64| {
        of(&|summary| summary.measured.phases.corrected.as_ref().map(value))
    };
    let rates = |summary: &Summary| summary.measured.rates;
    let mut metrics = vec![
        metric(
            "rate",
            "/s",
            Better::Higher,
            of(&|s| rates(s).achieved_per_s),
        ),
        metric("p50", "ms", Better::Lower, phase(|p| p.p50_ms)),
        metric("p90", "ms", Better::Lower, phase(|p| p.p90_ms)),
        metric("p99", "ms", Better::Lower, phase(|p| p.p99_ms)),
        metric("p99.9", "ms", Better::Lower, phase(|p| p.p99_9_ms)),
        metric("mean", "ms", Better::Lower, phase(|p| p.mean_ms)),
        metric(
            "throughput",
            "B/s",
            Better::Higher,
            of(&|s| rates(s).throughput_bytes_per_s),
        ),
    ];
    let mut errors = metric("errors", "", Better::Lower, of(&|s| rates(s).errors_share));
    errors.scale = Scale::Difference;
    let exchanges = summaries.iter().map(|summary| {
        let counts = &summary.measured.counts;
        counts.completed + counts.failed + counts.unfinished
    });
    let exchanges: u64 = exchanges.sum();
    resolves(&mut errors, exchanges);
    metrics.push(errors);
    let mut by_name: BTreeMap<String, Metric> = BTreeMap::new();
    for cost in summaries.iter().copied().flat_map(costs) {
        let entry = by_name.entry(cost.name.clone());
        match entry {
            std::collections::btree_map::Entry::Vacant(place) => drop(place.insert(cost)),
            std::collections::btree_map::Entry::Occupied(mut place) => {
                place.get_mut().samples.extend(cost.samples);
            }
        }
    }
    metrics.extend(by_name.into_values());
    metrics.retain(|metric| !metric.samples.is_empty());
    Side {
        metrics,
        invalid,
        left_out,
        ..described(name, first)
    }
}

/// A side without metrics: its name, its validity, the settings that must agree, and the facts that may differ.
fn described(name: &str, summary: &Summary) -> Side {
    let setup = &summary.setup;
    let kind = match &setup.kind {
        LoopSummary::Closed { users } => format!("closed, {users} users"),
        LoopSummary::Open {
            arrivals,
            connections,
            ..
        } => format!("open, {arrivals}, at most {connections} connections"),
    };
    let scheme = setup.url.split(':').next().unwrap_or_default();
    let mut settings: BTreeMap<String, String> = [
        ("policy", setup.policy.clone()),
        ("workload", setup.workload.clone()),
        ("loop", kind),
        ("scheme", scheme.to_owned()),
        ("timeout", format!("{} s", setup.timeout_s)),
        (
            "wake-up coalescing",
            format!("{} ms", setup.wake_up_coalescing_ms),
        ),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    settings.insert("kind".to_owned(), "load test".to_owned());
    let mut facts: BTreeMap<String, String> = [
        ("url", setup.url.clone()),
        ("threads", setup.threads.to_string()),
        ("warm-up", format!("{} s", setup.warm_up_s)),
        ("seed", setup.seed.to_string()),
        ("version", setup.version.clone()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    if let Some(length) = setup.duration_s {
        facts.insert("duration".to_owned(), format!("{length} s"));
    }
    for (fact, value) in &setup.machine {
        facts.insert(format!("machine {fact}"), value.clone());
    }
    Side {
        name: name.to_owned(),
        invalid: summary.validity.reasons.clone(),
        settings,
        facts,
        metrics: Vec::new(),
        without: BTreeMap::new(),
        left_out: BTreeMap::new(),
        machines: Vec::new(),
    }
}

/// The share of failed exchanges among the errors of a result. The other errors are complete responses with an error
/// status. An interval of the timeline has only the sum of both, so each interval uses the share of the whole window.
fn failures_among_errors(failed: u64, status_errors: u64) -> f64 {
    match failed + status_errors {
        0 => 1.0,
        errors => failed as f64 / errors as f64,
    }
}

/// The number of exchanges that ended in an interval. `completed` includes responses with an error status, but no
/// failed exchanges.
fn tried(completed: u64, errors: u64, failures: f64) -> f64 {
    (completed as f64 + failures * errors as f64).max(errors as f64)
}

/// Sets the resolution of a share of events among this number of exchanges.
fn resolves(share: &mut Metric, exchanges: u64) {
    let each = 1.0 / exchanges.max(1) as f64;
    // The rule of three: with no event in n exchanges, the true share is at most 3/n, at 95 %.
    share.resolution = 3.0 * each;
    share.instrument = Resolution {
        absolute: each,
        relative: 0.0,
    };
}

/// CPU time per exchange, of the generator, and of the server if it was probed. Each result has one sample.
fn costs(summary: &Summary) -> Vec<Metric> {
    let ended = summary.measured.rates.achieved_per_s.unwrap_or(0.0);
    let server = summary.server.as_ref().map(|server| {
        let cpu: f64 = server.programs.iter().map(|program| program.cpu_s).sum();
        1e6 * cpu / (ended * server.watched_s)
    });
    let server = server.filter(|cost| cost.is_finite() && *cost > 0.0);
    [
        ("generator-cpu", summary.generator.cpu_per_exchange_us),
        ("server-cpu", server),
    ]
    .into_iter()
    .filter_map(|(name, value)| {
        let better = match name {
            "server-cpu" => Better::Lower,
            _ => Better::Neither,
        };
        Some(metric(name, "µs/exchange", better, vec![value?]))
    })
    .collect()
}

fn metric(name: &str, unit: &'static str, better: Better, samples: Vec<f64>) -> Metric {
    const WHY: &str =
        "one figure per result: compare folders of several results, or use load --against";
    Metric::ratio(name, unit, better, samples, WHY)
}

/// The complete intervals of the timeline within the measured window.
fn blocks(summary: &Summary) -> Vec<&IntervalSummary> {
    let start = summary
        .warm_up
        .as_ref()
        .map_or(0.0, |window| window.duration_s);
    let end = start + summary.measured.duration_s;
    let whole = summary.timeline.first().map_or(1.0, |first| first.length_s);
    summary
        .timeline
        .iter()
        .filter(|interval| {
            let is_whole = interval.length_s >= 0.999 * whole;
            let is_within = interval.start_s >= start - 1e-6
                && interval.start_s + interval.length_s <= end + 1e-6;
            is_whole && is_within
        })
        .collect()
}

/// Merges neighbouring values to at most [`MOST_BLOCKS`] means.
fn merged(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let values: Vec<f64> = values.collect();
    let size = values.len().div_ceil(MOST_BLOCKS).max(1);
    let chunks = values.chunks_exact(size);
    chunks
        .map(|chunk| chunk.iter().sum::<f64>() / size as f64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_errors_is_that_of_all_exchanges() {
        let share = |completed, errors, (failed, status_errors)| {
            let failures = failures_among_errors(failed, status_errors);
            errors as f64 / tried(completed, errors, failures)
        };
        // 60 responses and 40 failures are 100 exchanges.
        assert_eq!(share(60, 40, (400, 0)), 0.4);
        // 40 of 100 responses have an error status.
        assert_eq!(share(100, 40, (0, 400)), 0.4);
        assert_eq!(share(80, 40, (200, 200)), 0.4);
        // In a second in which every exchange failed, the share is 1 for any failures in other seconds.
        assert_eq!(share(0, 40, (1, 9)), 1.0);
        assert_eq!(share(100, 0, (0, 0)), 0.0);
    }
}
