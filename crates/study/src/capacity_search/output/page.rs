//! Formats the result of a search as an HTML page.

use fathometer_analysis::capacity_page::{self, CapacityReport, LoadPoint};
use fathometer_capacity::knee::knee;
use fathometer_capacity::{Answer, SloOutcome};

use super::curve::{by_load, worst};
use super::{Found, answer, generator};

/// Returns the HTML page of a search.
pub fn page(found: &Found<'_>) -> String {
    let Found { goal, outcome, .. } = found;
    let ends = outcome.slos.iter().filter_map(|slo| match slo.answer {
        Answer::Interval { works, fails } => Some([
            (works, format!("{} works", slo.slo)),
            (fails, format!("{} fails", slo.slo)),
        ]),
        _ => None,
    });
    let is_found = |slo: &SloOutcome| matches!(slo.answer, Answer::Interval { .. });
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
    let exhausted = found.exhausted().flat_map(|(slo, gave_out)| {
        let figures = gave_out.figures.iter().map(|figure| {
            let [works, fails] = figure.words();
            (
                figure.name.clone(),
                format!("{works} at works, {fails} at fails"),
            )
        });
        let first = (format!("exhausted first ({slo})"), gave_out.text.clone());
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
            .slos
            .iter()
            .map(|slo| (answer(slo, goal), is_found(slo)))
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
