//! The page of HTML.

use fathometer_analysis::capacity_page::{self, CapacityReport, LoadPoint};
use fathometer_capacity::knee::knee;
use fathometer_capacity::{Answer, PromiseOutcome};

use super::curve::{by_load, worst};
use super::{Found, answer, generator};

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
    let exhausted = found.exhausted().flat_map(|(promise, gave_out)| {
        let figures = gave_out.figures.iter().map(|figure| {
            let [works, fails] = figure.words();
            (
                figure.name.clone(),
                format!("{works} at works, {fails} at fails"),
            )
        });
        let first = (format!("gave out first ({promise})"), gave_out.text.clone());
        std::iter::once(first).chain(figures)
    });
    capacity_page::render(&CapacityReport {
        url: found.url.to_owned(),
        facts: facts
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .chain(exhausted)
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
