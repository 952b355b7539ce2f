//! The description of a merged run.

use fathometer_analysis::run::{LeftOut, RunInfo};

use super::part::Part;
use crate::share;
use crate::spec::folder_of;

/// Returns the description of the merged run.
pub(super) fn merged_info(parts: &[Part]) -> RunInfo {
    let first = &parts[0].info;
    let mut info = first.clone();
    let infos = || parts.iter().map(|part| &part.info);
    info.share = None;
    info.machines = parts.iter().map(Part::machine).collect();
    info.machine.retain(|fact, value| {
        let value = Some(&*value);
        infos().all(|other| other.machine.get(fact) == value)
    });
    info.started = infos().map(|i| i.started).fold(f64::INFINITY, f64::min);
    let ends: Option<Vec<f64>> = infos().map(|i| i.finished).collect();
    info.finished = ends.map(|ends| ends.into_iter().fold(f64::NEG_INFINITY, f64::max));
    info.replicates_planned = Some(planned(parts));
    for other in infos().skip(1) {
        for era in &other.eras {
            if !info.eras.iter().any(|known| known.name == era.name) {
                info.eras.push(era.clone());
            }
        }
    }
    info.eras.sort_by(|a, b| a.name.cmp(&b.name));
    (info.left_out, info.notes) = (left_out_by_all(parts), notes(parts));
    info
}

/// Returns the total number of replicates that the study planned for all machines.
fn planned(parts: &[Part]) -> u64 {
    let share = &parts[0].share;
    match parts.len() == share.ranks as usize {
        // The replicates of cells that no machine can run are not counted.
        true => parts
            .iter()
            .filter_map(|part| part.info.replicates_planned)
            .sum(),
        false => share.replicates,
    }
}

/// Returns the cells that every machine left out.
fn left_out_by_all(parts: &[Part]) -> Vec<LeftOut> {
    let is_out = |part: &Part, cell: &LeftOut| {
        let mut left_out = part.info.left_out.iter();
        left_out.any(|out| out.block == cell.block && out.cell == cell.cell)
    };
    let mut left_out = parts[0].info.left_out.clone();
    left_out.retain(|cell| parts.iter().all(|part| is_out(part, cell)));
    left_out
}

/// Returns the notes of all parts, and notes about the merged run. If a note is not in all parts, the rank of its
/// machine precedes the note.
fn notes(parts: &[Part]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for part in parts {
        let own = share::note(&part.share);
        for note in part.info.notes.iter().filter(|note| **note != own) {
            let of_all = parts.iter().all(|other| other.info.notes.contains(note));
            let note = match of_all {
                true => note.clone(),
                false => format!("rank {}: {note}", part.share.rank),
            };
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    let all_out = left_out_by_all(parts);
    for part in parts {
        let only_here = part
            .info
            .left_out
            .iter()
            .filter(|out| !all_out.contains(out));
        notes.extend(only_here.map(|out| {
            let cell = folder_of(&out.block, &out.cell);
            format!(
                "rank {} did not measure {cell}: {}",
                part.share.rank, out.reason
            )
        }));
        if part.info.eras.iter().any(|era| {
            let first = parts[0]
                .info
                .eras
                .iter()
                .find(|other| other.name == era.name);
            first.is_some_and(|first| first.settings != era.settings)
        }) {
            notes.push(format!(
                "rank {} applied different kernel settings from rank {}, whose settings are listed",
                part.share.rank, parts[0].share.rank
            ));
        }
    }
    notes.extend(on_one_kernel(parts));
    let missing = merged_ranks_missing(parts);
    if !missing.is_empty() {
        let missing: Vec<String> = missing.iter().map(u32::to_string).collect();
        notes.push(format!(
            "the parts of rank {} are missing: the run is incomplete",
            missing.join(", ")
        ));
    }
    notes
}

fn merged_ranks_missing(parts: &[Part]) -> Vec<u32> {
    let is_there = |rank: &u32| parts.iter().any(|part| part.share.rank == *rank);
    (0..parts[0].share.ranks)
        .filter(|rank| !is_there(rank))
        .collect()
}

/// Returns notes about parts that ran at the same time on the same machine and may have disturbed each other.
fn on_one_kernel(parts: &[Part]) -> Vec<String> {
    let mut notes = Vec::new();
    for (place, one) in parts.iter().enumerate() {
        for other in &parts[place + 1..] {
            let is_same = !one.share.boot_id.is_empty() && one.share.boot_id == other.share.boot_id;
            let end = |part: &Part| {
                let last = part.records.last().map_or(part.info.started, |r| r.started);
                part.info.finished.unwrap_or(last)
            };
            let overlap = one.info.started < end(other) && other.info.started < end(one);
            if is_same && overlap {
                notes.push(format!(
                    "rank {} and rank {} ran on the same machine at the same time and may have disturbed each other",
                    one.share.rank, other.share.rank
                ));
            }
        }
    }
    notes
}
