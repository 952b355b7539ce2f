//! A comparison on a terminal: the answer, the table of changes, the differences in settings and facts, and the method.

use fathometer_model::digits::{grouped, significant};

use super::{Change, Comparison, Design, Outcome, Scale, Verdict};
use crate::text::{Align, Grid, hanging};

const WIDTH: usize = 100;
/// The largest number of rows of a table; decided changes come first.
const ROWS: usize = 40;

/// Returns the whole text.
pub fn render(comparison: &Comparison) -> String {
    let mut text = hanging("", &answer(comparison), WIDTH);
    for reason in &comparison.invalid {
        text.push_str(&hanging("  - ", reason, WIDTH));
    }
    text.push('\n');
    text.push_str(&table(comparison));
    for verdict in &comparison.gate {
        let word = match verdict.outcome {
            Outcome::Kept => "kept",
            Outcome::Broken => "BROKEN",
            Outcome::Undecided => "undecided",
        };
        let reason = verdict.reason.as_ref();
        let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
        text.push_str(&hanging(
            &format!("gate {} ", verdict.limit),
            &format!("{word}{reason}"),
            WIDTH,
        ));
    }
    if !comparison.gate.is_empty() {
        text.push('\n');
    }
    text.push_str(&machines(comparison));
    text.push_str(&missing(comparison));
    text.push_str(&differences(comparison));
    text.push_str(&hanging("method: ", &method(comparison), WIDTH));
    text
}

/// Returns the answer in one sentence.
pub fn answer(comparison: &Comparison) -> String {
    let (before, after) = (&comparison.before, &comparison.after);
    if !comparison.invalid.is_empty() {
        return format!("INVALID: no verdict on {after} against {before}");
    }
    let of = |verdict: Verdict| -> Vec<String> {
        let changes = comparison.changes.iter();
        changes
            .filter(|change| change.verdict == verdict)
            .map(|change| format!("{} {}", change.metric, shift(change, change.change)))
            .collect()
    };
    let parts: Vec<String> = [
        ("worse", of(Verdict::Worse)),
        ("better", of(Verdict::Better)),
        ("different", of(Verdict::Different)),
    ]
    .into_iter()
    .filter(|(_, changes)| !changes.is_empty())
    .map(|(word, changes)| match changes.len() {
        1..=4 => format!("{word}: {}", changes.join(", ")),
        n => format!("{word}: {n} metrics"),
    })
    .collect();
    let (equal, undecided) = (of(Verdict::Equal).len(), of(Verdict::Undecided).len());
    let rest = format!("{equal} equal, {undecided} undecided");
    match parts.is_empty() {
        true => format!("{after} against {before}: no change found; {rest}"),
        false => format!("{after} against {before}: {}; {rest}", parts.join("; ")),
    }
}

fn table(comparison: &Comparison) -> String {
    let mut changes: Vec<&Change> = comparison.changes.iter().collect();
    if changes.len() > ROWS {
        changes.sort_by_key(|change| match change.verdict {
            Verdict::Worse => 0,
            Verdict::Better => 1,
            Verdict::Different => 2,
            Verdict::Undecided => 3,
            Verdict::Equal => 4,
        });
    }
    let mut aligns = vec![Align::Left];
    aligns.extend([Align::Right; 5]);
    aligns.push(Align::Left);
    let mut grid = Grid::new(aligns, vec![1, 2, 3, 4, 5, 6]);
    let header = ["", "before", "after", "change", "interval", "n", ""];
    grid.line(header.map(str::to_owned).to_vec());
    for change in changes.iter().take(ROWS) {
        let interval = match change.low.zip(change.high) {
            Some((low, high)) => format!("{} to {}", shift(change, low), shift(change, high)),
            None => "–".to_owned(),
        };
        grid.line(vec![
            name(change),
            value(change, change.before),
            value(change, change.after),
            shift(change, change.change),
            interval,
            match change.samples_before == change.samples_after {
                true => change.samples_before.to_string(),
                false => format!("{}, {}", change.samples_before, change.samples_after),
            },
            change.verdict.word().to_owned(),
        ]);
    }
    let mut text = grid.render();
    if let Some(others @ 1..) = changes.len().checked_sub(ROWS) {
        text.push_str(&format!("and {others} more metrics (--json)\n"));
    }
    text.push('\n');
    text
}

fn name(change: &Change) -> String {
    match change.unit.is_empty() {
        true => change.metric.clone(),
        false => format!("{}, {}", change.metric, change.unit),
    }
}

fn value(change: &Change, value: f64) -> String {
    match change.scale {
        Scale::Difference if change.unit.is_empty() => format!("{} %", significant(100.0 * value)),
        _ if value.abs() >= 1000.0 => grouped(value.round() as i64),
        _ => significant(value),
    }
}

/// A change as in `+2.1 %`; for a share, in percentage points.
fn shift(change: &Change, shift: f64) -> String {
    let (number, unit) = match change.scale {
        Scale::Ratio => (100.0 * shift, " %"),
        Scale::Difference if change.unit.is_empty() => (100.0 * shift, " pp"),
        Scale::Difference => (shift, ""),
    };
    let sign = if number < 0.0 { "-" } else { "+" };
    let decimals = if number.abs() < 99.95 { 2 } else { 0 };
    format!("{sign}{:.decimals$}{unit}", number.abs())
}

/// The pairs of machines that are compared, and the number of metrics in which the machines are the samples.
fn machines(comparison: &Comparison) -> String {
    if comparison.machines.is_empty() {
        return String::new();
    }
    let pairs = comparison.machines.iter().map(|pair| {
        let how = if pair.same_kernel {
            "the same kernel"
        } else {
            "the same rank"
        };
        format!("rank {} with rank {} ({how})", pair.before, pair.after)
    });
    let pairs: Vec<String> = pairs.collect();
    let differing = comparison
        .changes
        .iter()
        .filter(|change| change.machines.is_some());
    let text = match differing.count() {
        0 => pairs.join(", "),
        n => format!(
            "{}. In {n} of {} metrics the changes of the machines differ: the change of each machine is one sample",
            pairs.join(", "),
            comparison.changes.len()
        ),
    };
    format!("{}\n", hanging("machines: ", &text, WIDTH))
}

fn missing(comparison: &Comparison) -> String {
    if comparison.missing.is_empty() {
        return String::new();
    }
    let mut text = String::from("not compared:\n");
    for missing in comparison.missing.iter().take(ROWS) {
        let of = &missing.side;
        let entry = format!("{}: {of}: {}", missing.what, missing.reason);
        text.push_str(&hanging("  ", &entry, WIDTH));
    }
    if let Some(others @ 1..) = comparison.missing.len().checked_sub(ROWS) {
        text.push_str(&format!("  and {others} more (--json)\n"));
    }
    text.push('\n');
    text
}

fn differences(comparison: &Comparison) -> String {
    if comparison.differences.is_empty() {
        return "differences: none in machine, kernel, build and settings\n".to_owned();
    }
    let mut text = String::from("differences:\n");
    for difference in &comparison.differences {
        let of = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
        let mark = match difference.incomparable {
            true => " (not comparable)",
            false => "",
        };
        text.push_str(&hanging(
            "  ",
            &format!(
                "{}: {} → {}{mark}",
                difference.what,
                of(&difference.before),
                of(&difference.after)
            ),
            WIDTH,
        ));
    }
    text
}

fn method(comparison: &Comparison) -> String {
    let level = 100.0 * comparison.level;
    let margin = significant(100.0 * comparison.margin);
    let design = match comparison.design {
        Design::Separate if !comparison.machines.is_empty() => {
            "Student's interval of the changes on each machine (the machine is a block)"
        }
        Design::Paired => {
            "Student's interval of paired blocks of slices in ABBA order, corrected for correlation"
        }
        Design::Separate => {
            "Welch's interval over blocks of a second, results or replicates; it covers changes from run to run on the \
             same machine only if a side has several results"
        }
    };
    format!(
        "{design}. All intervals hold together at {level:.0} % (Bonferroni). equal: within {margin} %. See \
         docs/compare.md"
    )
}
