//! Formats the curve through all trials as text.

use std::fmt::Write as _;

use fathometer_capacity::knee::knee;
use fathometer_capacity::{Answer, Goal, Outcome, TrialRecord};

use super::load;

/// The width of the bars, in characters.
const BAR: usize = 30;

/// Returns the longest trial of each load, in ascending order of the loads.
pub(super) fn by_load(outcome: &Outcome) -> Vec<&TrialRecord> {
    let mut trials: Vec<&TrialRecord> = outcome
        .trials
        .iter()
        .filter(|trial| trial.invalid.is_empty())
        .collect();
    trials.sort_by(|a, b| {
        a.load
            .total_cmp(&b.load)
            .then(b.measured_s.total_cmp(&a.measured_s))
    });
    trials.dedup_by(|later, kept| later.load == kept.load);
    trials
}

/// Returns the 99th percentile of the latency in milliseconds.
fn p99(trial: &TrialRecord) -> Option<f64> {
    trial.latency_ms.map(|latency| latency[1])
}

/// Returns the largest share of exchanges that violated an SLO, over all SLOs.
pub(super) fn worst(trial: &TrialRecord) -> f64 {
    trial
        .slos
        .iter()
        .map(|slo| slo.bad_share)
        .fold(0.0, f64::max)
}

/// Describes the knee of the curve in words. Returns an empty text if the curve has no knee.
pub(super) fn knee_in_words(goal: &Goal, outcome: &Outcome) -> String {
    knee(&by_load(outcome), goal.whole).map_or_else(String::new, |at| {
        format!(
            "knee at {} (the largest power: throughput divided by latency, Kleinrock 1979)",
            load(at, goal.whole)
        )
    })
}

/// Formats one line for each load. Marks the ends of the intervals and the knee.
pub(super) fn curve(goal: &Goal, outcome: &Outcome) -> String {
    let trials = by_load(outcome);
    let knee = knee(&trials, goal.whole);
    let all = || {
        trials
            .iter()
            .filter_map(|trial| p99(trial))
            .filter(|ms| *ms > 0.0)
    };
    let (least, most) = (
        all().fold(f64::INFINITY, f64::min),
        all().fold(0.0, f64::max),
    );
    let mut text = format!(
        "{:>20} {:>12} {:>10} {:>10} {:>9}  p99, logarithmic\n",
        "load", "completed/s", "p50 ms", "p99 ms", "bad"
    );
    for trial in trials {
        let figure =
            |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.1}"));
        let bar = p99(trial)
            .filter(|ms| *ms > 0.0 && most > least)
            .map_or(0, |ms| {
                1 + ((ms / least).ln() / (most / least).ln() * (BAR - 1) as f64).round() as usize
            });
        let mut marks: Vec<String> = outcome
            .slos
            .iter()
            .filter_map(|slo| match slo.answer {
                Answer::Interval { works, .. } if works == trial.load => {
                    Some(format!("{} works", slo.slo))
                }
                Answer::Interval { fails, .. } if fails == trial.load => {
                    Some(format!("{} fails", slo.slo))
                }
                _ => None,
            })
            .collect();
        if knee == Some(trial.load) {
            marks.push("knee".to_owned());
        }
        let mark = if marks.is_empty() {
            String::new()
        } else {
            format!("  <- {}", marks.join(", "))
        };
        let _ = writeln!(
            text,
            "{:>20} {:>12} {:>10} {:>10} {:>7.2} %  {}{mark}",
            load(trial.load, goal.whole),
            figure(trial.achieved_per_s),
            figure(trial.latency_ms.map(|latency| latency[0])),
            figure(p99(trial)),
            100.0 * worst(trial),
            "#".repeat(bar)
        );
    }
    let invalid = outcome
        .trials
        .iter()
        .filter(|trial| !trial.invalid.is_empty())
        .count();
    if invalid > 0 {
        let _ = writeln!(text, "INVALID trials, which are not shown: {invalid}");
    }
    text
}
