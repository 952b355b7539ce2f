//! The description of a run: `run.json`.

use std::collections::BTreeSet;

use fathometer_analysis::run::{EraInfo, PathInfo, RunInfo, ServerInfo, Setting, SettingState};
use fathometer_lab::era::Era;
use fathometer_lab::hosts::Side;
use fathometer_model::Instant;
use fathometer_sys::era::{AppliedSettings, SettingOutcome};
use fathometer_sys::{Clock, Machine};

use super::Request;
use crate::materials::Materials;
use crate::spec::Cell;

/// The note of a run that the user has interrupted.
pub(super) const INTERRUPTED: &str =
    "interrupted by the user: the remaining cells are not measured";

/// Returns the description of a resumed run, with the original start and command, and with notes about the resumption.
pub(super) fn resumed(now: RunInfo, earlier: RunInfo, cells: &[Cell]) -> RunInfo {
    let mut notes = now.notes;
    for note in earlier.notes {
        if !notes.contains(&note) && note != INTERRUPTED {
            notes.push(note);
        }
    }
    notes.push(format!(
        "resumed after an interruption, by: {}",
        now.command.join(" ")
    ));
    // If the machine has changed, this is noted, but is not an error: a kernel update or a change of the virtual
    // machine may have caused the interruption.
    for fact in ["cpu", "cores", "memory", "kernel"] {
        let (then, now) = (earlier.machine.get(fact), now.machine.get(fact));
        if let (Some(then), Some(now)) = (then, now)
            && then != now
        {
            notes.push(format!(
                "resumed on another machine: {fact} was {then} and is {now}"
            ));
        }
    }
    // Inputs of only an earlier invocation are also inputs of the run.
    let mut data = earlier.data;
    data.extend(now.data);
    let mut left_out = earlier.left_out;
    left_out.retain(|out| {
        let is_run_now = |cell: &Cell| cell.block == out.block && cell.key == out.cell;
        !cells.iter().any(is_run_now)
    });
    RunInfo {
        started: earlier.started,
        command: earlier.command,
        eras: match earlier.eras.is_empty() {
            true => now.eras,
            false => earlier.eras,
        },
        // The run is not complete if this invocation runs fewer cells (`--only`).
        replicates_planned: now.replicates_planned.max(earlier.replicates_planned),
        paths: united(now.paths, earlier.paths, |a, b| a.name == b.name),
        servers: united(now.servers, earlier.servers, |a, b| a.name == b.name),
        left_out: united(now.left_out, left_out, |a, b| {
            a.block == b.block && a.cell == b.cell
        }),
        notes,
        data,
        ..now
    }
}

/// Merges the entries of two invocations. If both have the same entry, uses the entry of the later invocation.
fn united<T>(mut now: Vec<T>, earlier: Vec<T>, is_same: impl Fn(&T, &T) -> bool) -> Vec<T> {
    for entry in earlier {
        if !now.iter().any(|other| is_same(other, &entry)) {
            now.push(entry);
        }
    }
    now
}

pub(super) fn info(
    request: &Request,
    materials: &Materials,
    cells: &[Cell],
    notes: Vec<String>,
    planned: u32,
    clock: Clock,
) -> RunInfo {
    let used: BTreeSet<&str> = cells.iter().flat_map(Cell::servers).collect();
    RunInfo {
        format: RunInfo::FORMAT,
        study: request.study.name.clone(),
        title: request.study.title.clone(),
        mode: request.mode,
        command: request.command.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        build: Some(request.build.clone()),
        study_files: request.files.hashes(),
        data: materials.data.clone(),
        machine: Machine::read().facts(),
        seed: request.seed,
        started: clock.realtime_of(Instant::ZERO).as_secs_f64(),
        finished: None,
        replicates_planned: Some(u64::from(planned)),
        eras: materials
            .eras
            .values()
            .map(|era| era_info(era, None))
            .collect(),
        paths: materials
            .profiles
            .iter()
            .map(|(name, (_, text))| PathInfo {
                name: name.clone(),
                profile: text.clone(),
            })
            .collect(),
        servers: materials
            .servers
            .iter()
            .filter(|(name, _)| used.contains(name.as_str()))
            .map(|(name, (definition, installed))| ServerInfo {
                name: name.clone(),
                version: installed.as_ref().map_or_else(
                    || format!("fathometer {}", env!("CARGO_PKG_VERSION")),
                    |installed| installed.version.clone(),
                ),
                description: definition.title.clone(),
            })
            .collect(),
        notes,
        left_out: Vec::new(),
        stopping: None,
        share: None,
        machines: Vec::new(),
    }
}

pub(super) fn era_info(era: &Era, applied: Option<&[AppliedSettings; 2]>) -> EraInfo {
    let mut settings = Vec::new();
    for (side, list) in [Side::Client, Side::Server]
        .iter()
        .zip(applied.into_iter().flatten())
    {
        for setting in &list.0 {
            let (state, detail) = match &setting.outcome {
                SettingOutcome::Applied(before) => {
                    (SettingState::Applied, Some(format!("was {before}")))
                }
                SettingOutcome::Unchanged => (SettingState::Applied, None),
                SettingOutcome::Impossible(reason) => {
                    (SettingState::Impossible, Some(reason.clone()))
                }
            };
            settings.push(Setting {
                name: format!("{}: {}", side.name(), setting.name),
                wanted: setting.wanted.clone(),
                state,
                detail,
            });
        }
    }
    EraInfo {
        name: era.name.clone(),
        description: format!("{} ({})", era.title, era.source),
        limits: era.limits.clone(),
        settings,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fathometer_analysis::run::Mode;
    use fathometer_model::Seed;

    use super::*;

    fn path(name: &str) -> PathInfo {
        PathInfo {
            name: name.to_owned(),
            profile: String::new(),
        }
    }

    #[test]
    fn a_run_resumed_with_fewer_cells_keeps_what_it_was_to_measure() {
        let info = RunInfo {
            format: RunInfo::FORMAT,
            study: "small".to_owned(),
            title: String::new(),
            mode: Mode::Full,
            command: vec!["fathometer".to_owned()],
            version: String::new(),
            build: None,
            study_files: BTreeMap::new(),
            data: BTreeMap::new(),
            machine: BTreeMap::new(),
            seed: Seed(1),
            started: 1.0,
            finished: None,
            replicates_planned: Some(600),
            eras: Vec::new(),
            paths: vec![path("lan"), path("wan")],
            servers: Vec::new(),
            notes: Vec::new(),
            left_out: Vec::new(),
            stopping: None,
            share: None,
            machines: Vec::new(),
        };
        let earlier = info.clone();
        let now = RunInfo {
            started: 2.0,
            replicates_planned: Some(200),
            paths: vec![path("lan")],
            ..info
        };
        let united = resumed(now, earlier, &[]);
        assert_eq!(united.replicates_planned, Some(600));
        let names: Vec<&str> = united.paths.iter().map(|path| path.name.as_str()).collect();
        assert_eq!(names, ["lan", "wan"]);
        assert_eq!(united.started.to_bits(), 1f64.to_bits());
    }
}
