//! A run as stored in its folder: the facts about the run, and every replicate.
//!
//! | file | content |
//! |---|---|
//! | `run.json` | [`RunInfo`] |
//! | `replicates.ndjson` | one [`ReplicateRecord`] per line, in the order in which the replicates ended. If several machines share a study, the member `machine` is the rank, and a merged run has the records of rank 0 first |
//! | `plots.json` | optional: a list of [`Plot`]s, SVG files of the same folder |
//! | each record's `folder` | `capture.pcapng` (the client's tap; in runs of older versions all taps), `taps.pcapng` (all taps), `exchanges.ndjson`, `connections.ndjson` of that replicate |
//!
//! A run that was killed can be read too: a truncated last line is left out, with a warning.

mod info;
mod reading;
mod sweep_loads;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fathometer_model::{CellKey, ReplicateRecord};
use serde::{Deserialize, Serialize};

use crate::Error;
use reading::{cells, repeated, replicates, run_info};
use sweep_loads::by_load;

pub use crate::study_share::{MeasuringMachine, StudyShare};
pub use info::{
    Build, EraInfo, LeftOut, Mode, PathInfo, RunInfo, ServerInfo, Setting, SettingState, Stopping,
};
pub(crate) use reading::{malformed, read, stays_inside};
pub use sweep_loads::{BATCH, USERS};

/// A plot that belongs to the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plot {
    /// The heading of the plot.
    pub title: String,
    /// A description of the plot.
    pub caption: String,
    /// The SVG file, relative to the run's folder and inside it.
    pub file: String,
}

/// One combination of a block's factors, with all its replicates.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The study's block: `main`, `nagle` …
    pub block: String,
    /// The levels.
    pub key: CellKey,
    /// The replicates of the cell, by number.
    pub replicates: Vec<ReplicateRecord>,
}

/// The validity of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellState {
    /// Every replicate is valid.
    Valid,
    /// Some replicates are valid. The figures of the cell come only from these.
    PartlyValid,
    /// No replicate is valid, so the cell has no figures.
    Invalid,
}

impl Cell {
    /// The validity of the cell.
    pub fn state(&self) -> CellState {
        match self.valid().count() {
            0 => CellState::Invalid,
            n if n < self.replicates.len() => CellState::PartlyValid,
            _ => CellState::Valid,
        }
    }

    /// The valid replicates of the cell.
    pub fn valid(&self) -> impl Iterator<Item = &ReplicateRecord> {
        self.replicates.iter().filter(|r| r.validity.is_valid())
    }

    /// The values of a metric over the valid replicates of the cell, with the numbers of the replicates.
    pub fn values(&self, metric: &str) -> Vec<(u32, f64)> {
        self.valid()
            .filter_map(|r| Some((r.replicate, *r.metrics.get(metric)?)))
            .collect()
    }

    /// The reasons for invalid replicates of the cell, each distinct reason once.
    pub fn reasons(&self) -> Vec<&str> {
        let mut reasons: Vec<&str> = Vec::new();
        for reason in self.replicates.iter().flat_map(|r| &r.validity.reasons) {
            if !reasons.contains(&reason.as_str()) {
                reasons.push(reason);
            }
        }
        reasons
    }
}

/// A run that was read from its folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The folder of the run.
    pub folder: PathBuf,
    /// The facts about the run.
    pub info: RunInfo,
    /// The cells of the run, in the order of block and key.
    pub cells: Vec<Cell>,
    /// The plots of the run.
    pub plots: Vec<Plot>,
    /// Problems in the files, one sentence each.
    pub warnings: Vec<String>,
    /// Number of replicates with an earlier invalid attempt.
    pub repeated: usize,
    /// Whether the cells are loads of sweeps, so that several cells come from the same replicates.
    pub has_sweeps: bool,
}

impl Run {
    /// Reads a run's folder.
    ///
    /// # Errors
    /// When `run.json` is missing or not readable, or when a line is not a record. A truncated last line is no error.
    pub fn load(folder: &Path) -> Result<Run, Error> {
        let path = folder.join("run.json");
        let text = read(&path)?;
        let info = run_info(&path, &text)?;
        let mut warnings = Vec::new();
        let path = folder.join("replicates.ndjson");
        let records = if path.exists() {
            replicates(&path, &read(&path)?, &mut warnings)?
        } else {
            warnings.push("there is no replicates.ndjson: nothing was measured".to_owned());
            Vec::new()
        };
        let path = folder.join("plots.json");
        let plots: Vec<Plot> = if path.exists() {
            serde_json::from_str(&read(&path)?).map_err(|e| malformed(&path, e.line(), &e))?
        } else {
            Vec::new()
        };
        for plot in &plots {
            if !stays_inside(Path::new(&plot.file)) {
                let message = format!("the plot {:?} is not inside the run's folder", plot.file);
                return Err(malformed(&path, 1, &message));
            }
        }
        let repeated = repeated(&records, &mut warnings);
        let (records, has_sweeps) = by_load(records);
        Ok(Run {
            folder: folder.to_owned(),
            repeated,
            has_sweeps,
            info,
            cells: cells(records),
            plots,
            warnings,
        })
    }

    /// Reads every record of a run's folder in the order of the file. Earlier attempts at a replicate are included.
    ///
    /// # Errors
    /// When a line is not a record. A truncated last line is no error.
    pub fn records(folder: &Path) -> Result<Vec<ReplicateRecord>, Error> {
        let path = folder.join("replicates.ndjson");
        match path.exists() {
            true => replicates(&path, &read(&path)?, &mut Vec::new()),
            false => Ok(Vec::new()),
        }
    }

    /// All replicates, each with its last attempt. A replicate of a sweep occurs once, with one of its loads.
    pub fn replicates(&self) -> impl Iterator<Item = &ReplicateRecord> {
        let mut known = BTreeSet::new();
        let all = self.cells.iter().flat_map(|cell| &cell.replicates);
        all.filter(move |record| !self.has_sweeps || known.insert(record.folder.as_str()))
    }

    /// The levels of the planned cell. In a sweep they do not include the number of users, because one planned cell has
    /// all loads.
    pub fn planned(&self, cell: &Cell) -> CellKey {
        match self.has_sweeps {
            true => without(&cell.key, USERS),
            false => cell.key.clone(),
        }
    }

    /// The name of a cell: the levels of the factors that vary in its block. Common factors, such as the policy, come
    /// first.
    pub fn name(&self, cell: &Cell) -> String {
        let others = self.cells.iter().map(|cell| (&cell.block, &cell.key));
        name_among(&others, &cell.block, &cell.key)
    }

    /// The name of a cell without one of the factors.
    pub(crate) fn name_without(&self, cell: &Cell, factor: &str) -> String {
        let of_block = self.cells.iter().filter(|other| other.block == cell.block);
        let keys: Vec<CellKey> = of_block.map(|other| without(&other.key, factor)).collect();
        let others = keys.iter().map(|key| (&cell.block, key));
        name_among(&others, &cell.block, &without(&cell.key, factor))
    }

    /// Cells that are not measured, grouped by reason. Each cell is described by its block and name.
    pub fn left_out(&self) -> Vec<(&str, Vec<String>)> {
        let measured = self.cells.iter().map(|cell| (&cell.block, &cell.key));
        let others = measured.chain(
            self.info
                .left_out
                .iter()
                .map(|cell| (&cell.block, &cell.cell)),
        );
        let mut by_reason: Vec<(&str, Vec<String>)> = Vec::new();
        for cell in &self.info.left_out {
            let levels = name_among(&others, &cell.block, &cell.cell);
            let name = match levels == cell.block {
                true => levels,
                false => format!("{}, {levels}", cell.block),
            };
            match by_reason
                .iter_mut()
                .find(|(reason, _)| *reason == cell.reason)
            {
                Some((_, names)) => names.push(name),
                None => by_reason.push((&cell.reason, vec![name])),
            }
        }
        by_reason
    }

    /// The levels of a factor that occur in cells. Levels in `run.json` come first, in the order of that file.
    pub fn levels(&self, factor: &str) -> Vec<String> {
        let listed: Vec<&str> = match factor {
            "era" => self.info.eras.iter().map(|e| e.name.as_str()).collect(),
            "path" => self.info.paths.iter().map(|p| p.name.as_str()).collect(),
            "server" => self.info.servers.iter().map(|s| s.name.as_str()).collect(),
            _ => Vec::new(),
        };
        let found = self.cells.iter().filter_map(|cell| cell.key.level(factor));
        let is_found = |level: &&str| found.clone().any(|l| l == *level);
        let mut levels: Vec<String> = Vec::new();
        let in_order = listed.iter().copied().filter(is_found).chain(found.clone());
        for level in in_order {
            if !levels.iter().any(|known| known == level) {
                levels.push(level.to_owned());
            }
        }
        levels
    }
}

/// A key without one of its factors.
pub(crate) fn without(key: &CellKey, factor: &str) -> CellKey {
    let mut shared = key.clone();
    shared.0.remove(factor);
    shared
}

/// The name of a cell among others: the levels of the factors that vary in its block.
fn name_among<'a>(
    others: &(impl Iterator<Item = (&'a String, &'a CellKey)> + Clone),
    block: &str,
    key: &CellKey,
) -> String {
    const BARE: [&str; 6] = ["policy", "visit", "workload", "path", "server", "era"];
    let varies = |factor: &str| {
        others
            .clone()
            .filter(|(other, _)| *other == block)
            .any(|(_, other)| other.level(factor) != key.level(factor))
    };
    let bare = BARE.into_iter().filter_map(|factor| {
        let level = key.level(factor).filter(|_| varies(factor))?;
        Some(level.to_owned())
    });
    let rest = key
        .0
        .iter()
        .filter(|(factor, _)| !BARE.contains(&factor.as_str()) && varies(factor))
        .map(|(factor, level)| format!("{factor}={level}"));
    let words: Vec<String> = bare.chain(rest).collect();
    if words.is_empty() {
        block.to_owned()
    } else {
        words.join(" ")
    }
}
