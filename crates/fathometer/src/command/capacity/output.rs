//! The result of a search: the answer first, then the curve through all trials.

use std::fmt::Write as _;

use fathometer_analysis::capacity_page::{self, CapacityReport, LoadPoint};
use fathometer_capacity::knee::knee;
use fathometer_capacity::{Answer, Goal, Outcome, PromiseOutcome, TrialRecord};
use fathometer_model::Bytes;
use fathometer_model::digits::grouped;
use serde_json::json;

use super::super::Failure;
use super::calibration::Calibration;
use super::trials::Demand;

/// A search with all that is printed of it.
#[derive(Clone, Copy)]
pub struct Found<'a> {
    /// The server.
    pub url: &'a str,
    /// What loads are.
    pub demand: Demand,
    /// What was sought.
    pub goal: Goal,
    /// What was found.
    pub outcome: &'a Outcome,
    /// The generator's own limit, if it was measured.
    pub calibration: Option<&'a Calibration>,
}

/// Width of the bars of the curve.
const BAR: usize = 30;

/// `1 234 requests/s`, `57 users`.
pub fn load(load: f64, whole: bool) -> String {
    let unit = if whole { "users" } else { "requests/s" };
    match load {
        load if whole || load >= 1000.0 => format!("{} {unit}", grouped(load.round() as i64)),
        load => format!("{load:.1} {unit}"),
    }
}

/// The generator's own limit, in words.
pub fn generator(found: &Calibration) -> String {
    format!(
        "the generator is on time up to {} against its own origin ({}, responses of {}; {:.1} s)",
        load(found.limit_per_s, false),
        found.policy,
        Bytes(found.response_bytes),
        found.seconds
    )
}

/// The text for people.
pub fn text(found: &Found<'_>) -> String {
    let Found { goal, outcome, .. } = found;
    let mut text = format!(
        "capacity of {} ({})\n\n",
        found.url,
        found.demand.describe()
    );
    for promise in &outcome.promises {
        let _ = writeln!(text, "{}", answer(promise, goal));
    }
    match outcome.recovers {
        Some(true) => text += "After the overload the server works again at the lower bound.\n",
        Some(false) => {
            text += "After the overload the server does NOT work at the lower bound: it did not recover.\n";
        }
        None => {}
    }
    let knee = knee_in_words(goal, outcome);
    if !knee.is_empty() {
        let _ = writeln!(text, "{knee}");
    }
    text += "\n";
    text += &curve(goal, outcome);
    let _ = writeln!(
        text,
        "\n{} trials in {:.0} s; warm-up {} s; shortest trial that certifies a load as working {} s (RFC 9971: final \
         trial duration)",
        outcome.trials.len(),
        outcome.seconds,
        goal.warm_up,
        goal.final_trial
    );
    if let Some(calibration) = found.calibration {
        let _ = writeln!(text, "{}", generator(calibration));
    }
    text
}

fn answer(promise: &PromiseOutcome, goal: &Goal) -> String {
    let of = |at: f64| load(at, goal.whole);
    let bound = |at: &Option<f64>, what: &str| match at {
        Some(at) => format!("{what} at {}", of(*at)),
        None => format!("no load that {what}"),
    };
    let mut text = match &promise.answer {
        Answer::Interval { works, fails } => format!(
            "{}: works at {}, fails at {} (width {:.1} %, confidence {} %)",
            promise.promise,
            of(*works),
            of(*fails),
            100.0 * (fails / works - 1.0),
            100.0 * goal.confidence
        ),
        Answer::Inconclusive {
            works,
            fails,
            reason,
        } => format!(
            "{}: INCONCLUSIVE: {reason}; certified so far: {}, {}",
            promise.promise,
            bound(works, "works"),
            bound(fails, "fails")
        ),
        Answer::Invalid {
            valid_up_to,
            reason,
        } => match valid_up_to {
            Some(load) => format!(
                "{}: INVALID: the trials were valid up to {} and the promise did not break there; above, the generator \
                 was the limit: {reason}",
                promise.promise,
                of(*load)
            ),
            None => format!(
                "{}: INVALID: no trial was valid, at whatever load: {reason}. Options of the generator follow --, as in \
                 -- --threads 2; --start sets the load of the first trial",
                promise.promise
            ),
        },
    };
    if !promise.failing_below.is_empty() {
        let loads: Vec<String> = promise.failing_below.iter().map(|at| of(*at)).collect();
        let _ = write!(
            text,
            "\n  Not monotone: the promise was also broken at the lower load {}",
            loads.join(", ")
        );
    }
    text
}

/// The trials in the order of their load: each load once, the longest trial of it.
fn by_load(outcome: &Outcome) -> Vec<&TrialRecord> {
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

/// The 99th percentile of the latency in milliseconds.
fn p99(trial: &TrialRecord) -> Option<f64> {
    trial.latency_ms.map(|latency| latency[1])
}

/// The largest share of exchanges that broke a promise.
fn worst(trial: &TrialRecord) -> f64 {
    trial
        .promises
        .iter()
        .map(|promise| promise.bad_share)
        .fold(0.0, f64::max)
}

/// The knee of the curve, in words; empty if there is none.
fn knee_in_words(goal: &Goal, outcome: &Outcome) -> String {
    knee(&by_load(outcome), goal.whole).map_or_else(String::new, |at| {
        format!(
            "knee at {} (the largest power: throughput over latency, Kleinrock 1979)",
            load(at, goal.whole)
        )
    })
}

fn curve(goal: &Goal, outcome: &Outcome) -> String {
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
            .promises
            .iter()
            .filter_map(|promise| match promise.answer {
                Answer::Interval { works, .. } if works == trial.load => {
                    Some(format!("{} works", promise.promise))
                }
                Answer::Interval { fails, .. } if fails == trial.load => {
                    Some(format!("{} fails", promise.promise))
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
        let _ = writeln!(
            text,
            "{invalid} trials were INVALID and are no trials of the server"
        );
    }
    text
}

/// The page of HTML.
pub fn page(found: &Found<'_>) -> String {
    let Found { goal, outcome, .. } = found;
    let ends = outcome
        .promises
        .iter()
        .filter_map(|promise| match promise.answer {
            Answer::Interval { works, fails } => Some([
                (works, format!("{} works", promise.promise)),
                (fails, format!("{} fails", promise.promise)),
            ]),
            _ => None,
        });
    let is_found = |promise: &PromiseOutcome| matches!(promise.answer, Answer::Interval { .. });
    let seconds = |seconds: f64| format!("{seconds} s");
    let facts = [
        ("load", found.demand.describe()),
        ("confidence", format!("{} %", 100.0 * goal.confidence)),
        ("warm-up", seconds(goal.warm_up)),
        ("final trial duration", seconds(goal.final_trial)),
        (
            "search",
            format!(
                "{} trials in {:.0} s",
                outcome.trials.len(),
                outcome.seconds
            ),
        ),
        (
            "generator",
            found
                .calibration
                .map_or_else(|| "not calibrated".to_owned(), generator),
        ),
        (
            "command",
            fathometer_load::secrets::command_line().join(" "),
        ),
    ];
    capacity_page::render(&CapacityReport {
        url: found.url.to_owned(),
        facts: facts
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        unit: if goal.whole { "users" } else { "requests/s" }.to_owned(),
        answers: outcome
            .promises
            .iter()
            .map(|promise| (answer(promise, goal), is_found(promise)))
            .collect(),
        points: by_load(outcome)
            .into_iter()
            .map(|trial| LoadPoint {
                load: trial.load,
                latency_ms: trial.latency_ms,
                completed_per_s: trial.achieved_per_s,
                bad_share: worst(trial),
            })
            .collect(),
        ends: ends.flatten().collect(),
        knee: knee(&by_load(outcome), goal.whole),
    })
}

/// The JSON for programs.
pub fn json(found: &Found<'_>) -> Result<String, Failure> {
    let Found { goal, outcome, .. } = found;
    let value = json!({
        "url": found.url,
        "demand": found.demand.describe(),
        "unit": if goal.whole { "users" } else { "per_s" },
        "goal": {
            "width": goal.width,
            "confidence": goal.confidence,
            "warm_up_s": goal.warm_up,
            "final_trial_s": goal.final_trial,
            "longest_trial_s": goal.longest_trial,
            "horizon_s": goal.horizon,
            "budget_s": goal.budget,
        },
        "generator": found.calibration,
        // The load with the largest power (Kleinrock 1979), or null.
        "knee": knee(&by_load(outcome), goal.whole),
        "outcome": outcome,
        "command": fathometer_load::secrets::command_line(),
        "version": env!("CARGO_PKG_VERSION"),
    });
    Ok(serde_json::to_string_pretty(&value)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathometer_capacity::Purpose;
    use fathometer_capacity::trial::PromiseSeen;

    fn trial(load: f64, p99: f64, bad_share: f64) -> TrialRecord {
        TrialRecord {
            load,
            purpose: Purpose::Locate,
            at_s: 0.0,
            measured_s: 2.0,
            achieved_per_s: Some(load),
            latency_ms: Some([1.0, p99]),
            invalid: Vec::new(),
            promises: vec![PromiseSeen {
                exchanges: 100,
                bad_share,
                dispersion: 1.0,
                warm_up_s: 0.0,
                rising: false,
            }],
        }
    }

    fn outcome(answer: Answer) -> Outcome {
        Outcome {
            promises: vec![PromiseOutcome {
                promise: "p99<100ms".to_owned(),
                answer,
                estimate: None,
                attempts: 1,
                failing_below: Vec::new(),
            }],
            recovers: Some(true),
            seconds: 60.0,
            trials: vec![
                trial(1224.0, 200.0, 0.3),
                trial(100.0, 2.0, 0.0),
                trial(1200.0, 20.0, 0.001),
            ],
        }
    }

    fn found(outcome: &Outcome) -> Found<'_> {
        Found {
            url: "http://server/",
            demand: Demand::Users,
            goal: Goal::default(),
            outcome,
            calibration: None,
        }
    }

    #[test]
    fn the_answer_is_first_and_the_curve_marks_its_ends() {
        let outcome = outcome(Answer::Interval {
            works: 1200.0,
            fails: 1224.0,
        });
        let text = text(&found(&outcome));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[2].starts_with("p99<100ms: works at 1"), "{text}");
        assert!(lines[2].contains("width 2.0 %, confidence 95 %"), "{text}");
        let marked: Vec<&&str> = lines.iter().filter(|line| line.contains("<-")).collect();
        // All have a median of 1 ms: the knee is the load that the most exchanges keep the promise at.
        assert!(
            marked[0].ends_with("<- p99<100ms works, knee")
                && marked[1].ends_with("<- p99<100ms fails"),
            "{text}"
        );
        assert!(text.contains("knee at 1"), "{text}");
    }

    #[test]
    fn a_limit_of_the_generator_is_no_capacity() {
        let outcome = outcome(Answer::Invalid {
            valid_up_to: Some(5000.0),
            reason: "the generator was late".to_owned(),
        });
        let text = text(&found(&outcome));
        assert!(
            text.contains("INVALID") && text.contains("the generator was late"),
            "{text}"
        );
        assert!(!text.contains("works at"), "{text}");
    }
}
