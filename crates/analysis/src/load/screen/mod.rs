//! The final screen of `fathometer load`: at most 100 columns, readable without colour.
//!
//! The answer comes first, in four lines: the rate, the latency, the errors, and the validity with the bound of
//! the rate (`answer.rs`). A small distribution of the latency and the table of phases follow. All other figures
//! are in [`details()`]: outcomes, bytes, errors with their meanings, the cost of the generator, and every default
//! setting.

mod answer;
mod details;
mod shape;
mod table;

use super::lines::WIDTH;
use super::quantity::{count, counted, time};
use super::{LoadResult, LoopKind, Verdict, findings, ranks, server_screen};
use crate::civil;
use crate::text::{Align, Grid, columns_of, hanging};

/// Number of targets that are shown; the others are only in the files.
const TARGETS: usize = 10;

/// Returns the screen. `slos` are the verdicts on the SLOs, if there are any. Figures that the command line requested,
/// such as figures of probes and targets, are always shown.
pub fn render(result: &LoadResult, slos: &[Verdict]) -> String {
    let mut text = answer(result);
    text.push('\n');
    text.push_str(&table::render(&result.measured));
    text.push_str(&requested(result, slos));
    text.push_str("\nMore: --details (all figures, every default), --report FILE.html, --json\n");
    text
}

/// Returns the screen with all figures and all settings.
pub fn details(result: &LoadResult, slos: &[Verdict]) -> String {
    let mut text = answer(result);
    text.push('\n');
    text.push_str(&table::render(&result.measured));
    text.push_str(table::NOTE);
    text.push('\n');
    text.push_str(&details::render(result));
    text.push_str(&ranks::table(&result.ranks));
    text.push_str(&requested(result, slos));
    // Repeated here, because the top of a long screen scrolls out of view.
    if !result.validity.is_valid() {
        let reasons = counted(result.validity.reasons.len() as u64, "reason");
        text.push_str(&format!("\nINVALID: {reasons}, above\n"));
    }
    text
}

/// The answer, the settings of the measurement, and the distribution of the latency.
fn answer(result: &LoadResult) -> String {
    let mut text = answer::lines(result);
    text.push('\n');
    text.push_str(&heading(result));
    text.push_str(&ranks::summary(&result.ranks));
    if let Some(mismatch) = result.measured.counts.size_mismatch()
        && !result.validity.reasons.contains(&mismatch)
    {
        text.push('\n');
        text.push_str(&hanging("NOTE: ", &mismatch, WIDTH));
    }
    let shape = shape::render("latency", &result.measured.latency.corrected);
    if !shape.is_empty() {
        text.push('\n');
        text.push_str(&shape);
    }
    text
}

/// The measurements of probes on the server's machine; empty without probes.
pub fn server(result: &LoadResult) -> String {
    server_screen::render(result)
}

/// Output that the command line requested (probes, targets, SLOs), and then the findings.
fn requested(result: &LoadResult, slos: &[Verdict]) -> String {
    let mut text = server_screen::render(result);
    if result.targets.len() > 1 {
        text.push('\n');
        text.push_str(&targets(result));
    }
    if !slos.is_empty() {
        text.push('\n');
        text.push_str(&slo_lines(slos, result.validity.is_valid()));
    }
    text.push_str(&remarks(result));
    text
}

/// The reasons why the figures are not valid; `None` if they are valid.
pub(super) fn invalid(result: &LoadResult) -> Option<String> {
    if result.validity.is_valid() {
        return None;
    }
    let mut text = String::from("INVALID: do not trust these figures\n");
    for reason in &result.validity.reasons {
        text.push_str(&hanging("  - ", reason, WIDTH));
    }
    Some(text)
}

/// The findings, one per line; empty without findings.
pub(super) fn remarks(result: &LoadResult) -> String {
    let findings = findings::of(result);
    // The warning about content lengths is already shown at the top.
    let mismatch = result.measured.counts.size_mismatch();
    let findings = findings
        .iter()
        .filter(|&finding| Some(finding) != mismatch.as_ref())
        .map(|finding| format!("\n{}", hanging("NOTE: ", finding, WIDTH)));
    findings.collect()
}

fn heading(result: &LoadResult) -> String {
    let setup = &result.setup;
    let users = match &setup.kind {
        LoopKind::Closed { users } => {
            format!("closed loop of {}", counted(u64::from(*users), "user"))
        }
        LoopKind::Open {
            arrivals,
            connections,
            ..
        } => {
            let connections = counted(u64::from(*connections), "connection");
            format!("open loop, {arrivals}, at most {connections}")
        }
    };
    let mut text = hanging(
        "",
        &format!(
            "{}: {}, policy {}, {users}, {}",
            setup.url,
            setup.workload,
            setup.policy,
            counted(u64::from(setup.threads), "thread"),
        ),
        WIDTH,
    );
    if !setup.wake_up_coalescing.is_zero() {
        let longest = time(setup.wake_up_coalescing);
        let what = format!(
            "wake-ups delayed by up to {longest} (--rest): latencies are not comparable with a load without --rest"
        );
        text.push_str(&hanging("", &what, WIDTH));
    }
    let mut measured = format!("measured {}", time(result.measured.duration));
    if let Some(warm_up) = &result.warm_up {
        measured.push_str(&format!(" after {} of warm-up", time(warm_up.duration)));
    }
    text.push_str(&hanging(
        "",
        &format!(
            "{measured}, {}, seed {}, version {}",
            civil::utc(setup.started),
            setup.seed,
            setup.version
        ),
        WIDTH,
    ));
    text
}

fn targets(result: &LoadResult) -> String {
    let mut most: Vec<_> = result.targets.iter().collect();
    most.sort_by(|a, b| {
        (b.completed + b.failed)
            .cmp(&(a.completed + a.failed))
            .then_with(|| a.target.cmp(&b.target))
    });
    let mut grid = Grid::new(vec![Align::Right, Align::Right, Align::Left], vec![1, 2]);
    grid.line(vec![
        "completed".to_owned(),
        "failed".to_owned(),
        "target".to_owned(),
    ]);
    for target in most.iter().take(TARGETS) {
        let mut name: String = target.target.chars().take(WIDTH - 30).collect();
        if columns_of(&name) < columns_of(&target.target) {
            name.push('…');
        }
        grid.line(vec![count(target.completed), count(target.failed), name]);
    }
    let mut text = grid.render();
    if let Some(others @ 1..) = most.len().checked_sub(TARGETS) {
        let others = counted(others as u64, "target");
        text.push_str(&format!("and {others} more, in the files\n"));
    }
    text
}

/// The verdicts on SLOs. With an INVALID result, no SLO is decided.
fn slo_lines(slos: &[Verdict], is_valid: bool) -> String {
    let mut text = String::new();
    for verdict in slos {
        let word = match (verdict.met, is_valid) {
            (true, _) => "kept",
            (false, true) => "BROKEN",
            (false, false) => "inconclusive",
        };
        let mut outcome = format!("{word}: {}", verdict.measured_text());
        if let Some(reason) = &verdict.reason {
            outcome.push_str(&format!(" ({reason})"));
        }
        text.push_str(&hanging(&format!("SLO {} ", verdict.slo), &outcome, WIDTH));
    }
    text
}
