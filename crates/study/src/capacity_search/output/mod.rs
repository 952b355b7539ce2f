//! Formats the output of a search: first the answer, then the curve through all trials.

mod curve;
mod page;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;

use fathometer_analysis::bottleneck::GaveOut;
use fathometer_capacity::knee::knee;
use fathometer_capacity::{Answer, Goal, Outcome, SloOutcome};
use fathometer_model::Bytes;
use fathometer_model::digits::grouped;
use serde_json::json;

use self::curve::{by_load, curve, knee_in_words};
pub use self::page::page;
use super::{Calibration, Demand};

/// The data of a search that are printed.
#[derive(Clone, Copy)]
pub struct Found<'a> {
    /// The URL of the server.
    pub url: &'a str,
    /// The kind of load.
    pub demand: Demand,
    /// The goal of the search.
    pub goal: Goal,
    /// The result of the search.
    pub outcome: &'a Outcome,
    /// The generator's own limit, if it was measured.
    pub calibration: Option<&'a Calibration>,
    /// The resource that was exhausted first, for each SLO. `None` without probes or without an interval.
    pub gave_out: &'a [Option<GaveOut>],
}

impl<'a> Found<'a> {
    /// Returns each SLO whose exhausted resource was determined, with that resource.
    pub fn exhausted(&self) -> impl Iterator<Item = (&'a str, &'a GaveOut)> {
        let slos = self.outcome.slos.iter().zip(self.gave_out);
        slos.filter_map(|(slo, found)| Some((slo.slo.as_str(), found.as_ref()?)))
    }
}

/// Formats a load, as in `1 234 requests/s` or `57 users`.
pub fn load(load: f64, whole: bool) -> String {
    let unit = if whole { "users" } else { "requests/s" };
    match load {
        load if whole || load >= 1000.0 => format!("{} {unit}", grouped(load.round() as i64)),
        load => format!("{load:.1} {unit}"),
    }
}

/// Describes the generator's own limit in words.
pub fn generator(found: &Calibration) -> String {
    format!(
        "the generator is on time up to {} against its own origin ({}, responses of {}; {:.1} s)",
        load(found.limit_per_s, false),
        found.policy,
        Bytes(found.response_bytes),
        found.seconds
    )
}

/// Formats the result as text for the terminal.
pub fn text(found: &Found<'_>) -> String {
    let Found { goal, outcome, .. } = found;
    let mut text = format!(
        "capacity of {} ({})\n\n",
        found.url,
        found.demand.describe()
    );
    for slo in &outcome.slos {
        let _ = writeln!(text, "{}", answer(slo, goal));
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
    for (slo, gave_out) in found.exhausted() {
        text += &exhausted(slo, gave_out);
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

/// Formats the resource that was exhausted first, with the figures at both ends of the interval.
fn exhausted(slo: &str, found: &GaveOut) -> String {
    let mut text = format!("\nExhausted resource ({slo}): {}\n", found.text);
    let _ = writeln!(text, "{:<58} {:>10} {:>10}", "", "at works", "at fails");
    for figure in &found.figures {
        let [works, fails] = figure.words();
        let _ = writeln!(text, "  {:<56} {works:>10} {fails:>10}", figure.name);
    }
    text
}

fn answer(slo: &SloOutcome, goal: &Goal) -> String {
    let of = |at: f64| load(at, goal.whole);
    let bound = |at: &Option<f64>, what: &str| match at {
        Some(at) => format!("{what} at {}", of(*at)),
        None => format!("no load that {what}"),
    };
    let mut text = match &slo.answer {
        Answer::Interval { works, fails } => format!(
            "{}: works at {}, fails at {} (width {:.1} %, confidence {} %)",
            slo.slo,
            of(*works),
            of(*fails),
            100.0 * (fails / works - 1.0),
            100.0 * goal.confidence
        ),
        Answer::Inconclusive {
            works: None,
            fails: Some(fails),
            reason,
        } => format!(
            "{}: INCONCLUSIVE: fails at {} (confidence {} %), and no load that works was found: {reason}",
            slo.slo,
            of(*fails),
            100.0 * goal.confidence
        ),
        Answer::Inconclusive {
            works,
            fails,
            reason,
        } => format!(
            "{}: INCONCLUSIVE: {reason}; certified so far: {}, {}",
            slo.slo,
            bound(works, "works"),
            bound(fails, "fails")
        ),
        Answer::Invalid {
            valid_up_to,
            reason,
        } => match valid_up_to {
            Some(load) => format!(
                "{}: INVALID: the trials were valid up to {} and the SLO held there; at higher loads, the generator \
                 was the limit: {reason}",
                slo.slo,
                of(*load)
            ),
            None => format!(
                "{}: INVALID: no trial was valid at any load: {reason}. Options of the generator follow --, as in \
                 -- --threads 2; --start sets the load of the first trial",
                slo.slo
            ),
        },
    };
    if !slo.failing_below.is_empty() {
        let loads: Vec<String> = slo.failing_below.iter().map(|at| of(*at)).collect();
        let _ = write!(
            text,
            "\n  Not monotone: the SLO was also violated at the lower load {}",
            loads.join(", ")
        );
    }
    text
}

/// Returns the result as JSON.
///
/// # Errors
/// If a figure cannot be written as JSON.
pub fn json(found: &Found<'_>) -> Result<String, serde_json::Error> {
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
        // The load with the largest power (throughput divided by latency, Kleinrock 1979), or null.
        "knee": knee(&by_load(outcome), goal.whole),
        // For each SLO: the exhausted resource or null, the evidence, and the figures at both ends of the interval. The
        // whole entry is null without probes or without an interval.
        "gave_out": found.gave_out,
        "outcome": outcome,
        "command": fathometer_load::secrets::command_line(),
        "version": env!("CARGO_PKG_VERSION"),
    });
    serde_json::to_string_pretty(&value)
}
