//! The final screen of a study: tables, their differences from the published tables, claims, and validity. It has at
//! most 110 columns and is readable without colour.

mod curve;
mod equal_cells;
mod gave_out;
mod machines;
mod table;

use fathometer_model::digits::significant;

use crate::civil;
use crate::claims::{EraVerdict, Part, Verdict};
use crate::closeness::Closeness;
use crate::digest::Digest;
use crate::run::{CellState, Mode, Run, SettingState};
use crate::text::{Align, Grid, columns_of, hanging, superscript, wrap};

const WIDTH: usize = 110;
/// The largest number of invalid cells, or of settings, that are named. The report contains all of them.
const NAMED: usize = 12;

/// Returns the screen of `fathometer study` for a run, finished or not. A quick run has the short form.
pub fn render(digest: &Digest<'_>) -> String {
    let mut text = heading(digest);
    let is_quick = digest.run.info.mode == Mode::Quick;
    for table in &digest.study.tables {
        let results = digest.measured_tables(&table.id);
        if results.is_empty() {
            continue;
        }
        if !is_quick {
            for result in results {
                text.push('\n');
                text.push_str(&table::full(result));
            }
        } else if table.of_the_paper {
            text.push('\n');
            text.push_str(&table::brief(&results));
        }
    }
    for curve in digest.measured_curves() {
        if is_quick && !curve.of_the_paper {
            continue;
        }
        text.push('\n');
        text.push_str(&curve::full(curve, digest.eras().len() > 1));
    }
    text.push('\n');
    if !digest.study.layouts.is_empty() {
        let layouts = &digest.study.layouts;
        let is_relative = layouts.iter().any(|layout| layout.relative_to.is_some());
        let columns = &digest.study.about.columns;
        text.push_str(&table::legend(
            columns,
            digest.coverage_of_tables().as_deref(),
            is_relative,
            is_quick,
        ));
    }
    if digest.measured_curves().next().is_some() {
        text.push_str(&curve::legend());
    }
    for (ids, reason) in unmeasured(digest, is_quick) {
        text.push_str(&hanging(&format!("{}: ", ids.join(", ")), reason, WIDTH));
    }
    if !digest.closeness.is_empty() {
        text.push('\n');
        text.push_str(&closeness(digest));
    }
    if !digest.claims.is_empty() {
        text.push('\n');
        text.push_str(&claims(digest, is_quick));
    }
    if digest.equal_cells.is_some() {
        text.push('\n');
        text.push_str(&equal_cells::lines(digest));
    }
    text.push_str(&gave_out::section(&digest.run));
    text.push('\n');
    text.push_str(&validity(digest));
    text
}

/// The differences between the machines of a merged run, and the missing parts; empty for a run of one machine.
pub fn machines(digest: &Digest<'_>) -> String {
    machines::lines(digest)
}

/// The A/A tests, for a study without tables; empty for a run without equal cells.
pub fn equal_cells(digest: &Digest<'_>) -> String {
    equal_cells::lines(digest)
}

fn heading(digest: &Digest<'_>) -> String {
    let info = &digest.run.info;
    let mode = info.mode.name();
    let ended = match info.finished {
        Some(end) => format!("in {}", civil::duration(end - info.started)),
        None => "not finished".to_owned(),
    };
    format!(
        "{}: {}\n{mode} run of {}, {ended}, seed {}, version {}\n",
        info.study,
        info.title,
        civil::utc(info.started),
        info.seed,
        info.version,
    )
}

fn closeness(digest: &Digest<'_>) -> String {
    let mut text = String::from("Differences from the published figures\n");
    let mut grid = Grid::new(
        vec![
            Align::Left,
            Align::Left,
            Align::Right,
            Align::Left,
            Align::Left,
        ],
        vec![],
    );
    let mut misses = String::new();
    for bar in &digest.closeness {
        let worst = bar
            .comparisons
            .iter()
            .filter_map(|c| Some((c, c.off_pct?)))
            .max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()));
        grid.line(vec![
            bar.title.clone(),
            format!("era {}", bar.era),
            format!("±{} %", bar.tolerance_pct),
            match bar.counts() {
                none if none == "not measured" => none,
                counts => format!("within: {counts}"),
            },
            worst.map_or(String::new(), |(c, off)| {
                format!("worst {off:+.1} % ({})", c.table)
            }),
        ]);
        misses.push_str(&outside(bar));
    }
    text.push_str(&grid.render());
    text.push_str(&misses);
    text
}

/// The comparisons that miss a tolerance, and the explanations, each once.
fn outside(bar: &Closeness) -> String {
    let mut grid = Grid::new(
        vec![
            Align::Left,
            Align::Left,
            Align::Left,
            Align::Right,
            Align::Left,
            Align::Right,
            Align::Right,
        ],
        vec![],
    );
    let mut explanations: Vec<&str> = Vec::new();
    let mut is_empty = true;
    for miss in bar.comparisons.iter().filter(|c| !c.is_within()) {
        let (Some(ours), Some(off)) = (miss.ours, miss.off_pct) else {
            continue;
        };
        let mark = miss.explanation.as_deref().map_or(" ".to_owned(), |text| {
            let known = explanations.iter().position(|known| *known == text);
            superscript(
                1 + known.unwrap_or_else(|| {
                    explanations.push(text);
                    explanations.len() - 1
                }),
            )
        });
        let derived = if miss.derived { "~" } else { "" };
        grid.line(vec![
            format!("  {}", miss.table),
            miss.row.clone(),
            miss.group.clone(),
            significant(ours),
            "against".to_owned(),
            format!("{derived}{} ", significant(miss.published)),
            format!("{off:+.1} %{mark}"),
        ]);
        is_empty = false;
    }
    if is_empty {
        return String::new();
    }
    let mut text = format!(
        "Outside ±{} %, {}:\n{}",
        bar.tolerance_pct,
        bar.title,
        grid.render()
    );
    for (index, explanation) in explanations.iter().enumerate() {
        text.push_str(&hanging(
            &format!("  {} ", superscript(index + 1)),
            explanation,
            WIDTH,
        ));
    }
    text
}

/// Tables that are missing, grouped by reason. The short form lists only the paper's tables.
fn unmeasured<'a>(digest: &'a Digest<'_>, is_quick: bool) -> Vec<(Vec<&'a str>, &'a str)> {
    let mut reasons: Vec<(Vec<&str>, &str)> = Vec::new();
    for (id, reason) in digest.unmeasured_tables() {
        let of_the_paper = digest.study.table(id).is_some_and(|t| t.of_the_paper);
        if is_quick && !of_the_paper {
            continue;
        }
        match reasons.iter_mut().find(|(_, known)| *known == reason) {
            Some((ids, _)) => ids.push(id),
            None => reasons.push((vec![id], reason)),
        }
    }
    reasons
}

fn claims(digest: &Digest<'_>, is_quick: bool) -> String {
    let eras = digest.eras();
    let verdicts = digest.claims.iter().flat_map(|claim| &claim.eras);
    let widest = verdicts.map(|verdict| columns_of(&verdict.text())).max();
    let verdict_width = 2 + widest.unwrap_or(0).max(9);
    let indent = 7 + eras.len() * verdict_width;
    let mut text = format!("{:7}", "Claim");
    for era in &eras {
        text.push_str(&format!("{:verdict_width$}", format!("era {era}")));
    }
    text.push_str(&match digest.coverage_of_claims() {
        Some(covered) => format!("by intervals over replicates that cover {covered}\n"),
        None => "there are no intervals\n".to_owned(),
    });
    let mut untested = Vec::new();
    for claim in &digest.claims {
        if claim.not_tested.is_some() {
            untested.push(claim.id.as_str());
            continue;
        }
        let mut head = format!("{:7}", claim.id);
        for verdict in &claim.eras {
            head.push_str(&format!("{:verdict_width$}", verdict.text()));
        }
        let sentence = wrap(&claim.sentence, WIDTH - indent);
        for (index, line) in sentence.iter().enumerate() {
            if index == 0 {
                text.push_str(&format!("{head}{line}\n"));
            } else {
                text.push_str(&format!("{:indent$}{line}\n", ""));
            }
        }
        if !is_quick {
            let published = match claim.bound.is_empty() {
                true => claim.published.clone(),
                false => format!("{}; bound: {}", claim.published, claim.bound),
            };
            text.push_str(&evidence(&claim.eras, &published));
        }
        for variant in &claim.variants {
            let verdicts = variant.eras.iter();
            let verdicts = verdicts.map(|verdict| format!("{} {}", verdict.era, verdict.text()));
            let verdicts = verdicts.collect::<Vec<_>>().join(", ");
            let line = format!("{} ({}): {verdicts}", variant.name, variant.date);
            text.push_str(&hanging("       read otherwise: ", &line, WIDTH));
        }
    }
    if !untested.is_empty() {
        let list = untested.join(", ");
        text.push_str(&hanging("Not tested yet: ", &list, WIDTH));
    }
    if let Some(caveat) = digest.coverage_caveat() {
        text.push_str(&hanging("", &caveat, WIDTH));
    }
    text
}

/// The estimates of each test. For each era, they are the range over the environments, and the environments in which
/// the claim does not hold.
fn evidence(eras: &[EraVerdict], published: &str) -> String {
    let mut text = hanging("       paper: ", published, WIDTH);
    let mut labels: Vec<&str> = Vec::new();
    for part in eras.iter().flat_map(|era| &era.parts) {
        if !labels.contains(&part.label.as_str()) {
            labels.push(&part.label);
        }
    }
    for label in labels {
        let of_label = |era: &'_ &EraVerdict| era.parts.iter().any(|p| p.label == label);
        let ranges: Vec<String> = eras
            .iter()
            .filter(of_label)
            .map(|era| {
                let parts = era.parts.iter().filter(|p| p.label == label);
                format!("{} {}", era.era, range(&parts.collect::<Vec<_>>()))
            })
            .collect();
        let part = eras
            .iter()
            .flat_map(|era| &era.parts)
            .find(|p| p.label == label);
        let (bound, aside) = part.map_or((String::new(), ""), |part| {
            let aside = if part.counts {
                ""
            } else {
                "; shown, does not decide"
            };
            (part.holds.to_string(), aside)
        });
        text.push_str(&hanging(
            "       ",
            &format!("{label} ({bound}{aside}): {}", ranges.join("; ")),
            WIDTH,
        ));
    }
    for era in eras {
        let is_telling = |part: &&Part| part.counts && part.verdict == era.verdict;
        if matches!(era.verdict, Verdict::Undecided | Verdict::Reversed) {
            for part in era.parts.iter().filter(is_telling) {
                let head = format!("         {}, {}: ", part.verdict, era.era);
                text.push_str(&hanging(&head, &part_text(part), WIDTH));
            }
        }
    }
    text
}

/// A range of estimates, as in `0.539 to 0.541 in 6 environments, n = 5`.
fn range(parts: &[&Part]) -> String {
    let values: Vec<f64> = parts.iter().filter_map(|part| part.value).collect();
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = (significant(low), significant(high));
    let range = match values.len() {
        0 => return "not measured".to_owned(),
        1 => low,
        several if low == high => format!("{low} in {several} environments"),
        several => format!("{low} to {high} in {several} environments"),
    };
    let n = parts.iter().map(|part| part.n).filter(|n| *n > 0).min();
    format!("{range}, n = {}", n.unwrap_or(0))
}

/// The text of a part, as in `wan embedded-apache: 1.02 [0.98, 1.07], n = 5`.
fn part_text(part: &Part) -> String {
    let mut text = part.environment_text();
    if let Some(value) = part.value {
        text.push_str(&format!(": {}", significant(value)));
    }
    if let Some(interval) = part.interval {
        let (low, high) = (significant(interval.low), significant(interval.high));
        text.push_str(&format!(" [{low}, {high}]"));
    }
    if part.n > 0 {
        text.push_str(&format!(", n = {}", part.n));
    }
    if !part.remark.is_empty() {
        text.push_str(&format!(" ({})", part.remark));
    }
    text
}

/// The cells of a study that were not measured, each with the reason.
pub fn left_out(run: &Run) -> String {
    let mut text = String::new();
    for (reason, cells) in run.left_out() {
        let named = cells.iter().take(NAMED).cloned().collect::<Vec<_>>();
        let rest = match cells.len().saturating_sub(NAMED) {
            0 => String::new(),
            rest => format!("; and {rest} more: see report.html"),
        };
        let count = match cells.len() {
            1 => "1 cell".to_owned(),
            count => format!("{count} cells"),
        };
        let line = format!("{count}: {reason}: {}{rest}", named.join("; "));
        text.push_str(&hanging("Left out: ", &line, WIDTH));
    }
    text
}

fn validity(digest: &Digest<'_>) -> String {
    let summary = &digest.validity;
    let planned = match summary.replicates_planned {
        Some(planned) if !summary.is_complete() => format!(" ({planned} planned)"),
        _ => String::new(),
    };
    let line = format!(
        "{} of {} replicates valid{planned}, {} of them repeated; of {} cells {} INVALID, {} partly. Lateness of \
         the path: \
         worst p99 {} ms, worst packet {} ms. Packets lost by the emulation: {}.",
        summary.replicates_valid(),
        summary.replicates,
        summary.replicates_repeated,
        summary.cells,
        summary.cells_invalid,
        summary.cells_partly_valid,
        significant(summary.lateness_p99_ms),
        significant(summary.lateness_max_ms),
        summary.unasked_drops,
    );
    let mut text = machines::lines(digest);
    text.push_str(&hanging("Validity: ", &line, WIDTH));
    let doubtful: Vec<_> = digest
        .run
        .cells
        .iter()
        .filter(|cell| cell.state() != CellState::Valid)
        .collect();
    for cell in doubtful.iter().take(NAMED) {
        let state = match cell.state() {
            CellState::Invalid => "INVALID",
            _ => "partly",
        };
        let reasons = cell.reasons().join("; ");
        let line = format!("{}, {}: {reasons}", cell.block, digest.run.name(cell));
        text.push_str(&hanging(&format!("  {state} "), &line, WIDTH));
    }
    if doubtful.len() > NAMED {
        let rest = doubtful.len() - NAMED;
        text.push_str(&format!("  and {rest} more: see report.html\n"));
    }
    text.push_str(&left_out(&digest.run));
    for era in &digest.run.info.eras {
        for limit in &era.limits {
            let head = format!("Not restored, era {}: ", era.name);
            text.push_str(&hanging(&head, limit, WIDTH));
        }
        for setting in era
            .settings
            .iter()
            .filter(|s| s.state == SettingState::Impossible)
        {
            let head = format!("Not applied, era {}: ", era.name);
            let detail = setting.detail.as_deref().unwrap_or("refused by the kernel");
            let line = format!("{} = {}: {detail}", setting.name, setting.wanted);
            text.push_str(&hanging(&head, &line, WIDTH));
        }
    }
    if let Some(stopping) = &digest.run.info.stopping {
        text.push_str(&hanging("Replicates: ", &stopping.sentence(), WIDTH));
    }
    for note in digest.run.info.notes.iter().chain(&digest.run.warnings) {
        text.push_str(&hanging("Note: ", note, WIDTH));
    }
    text
}
