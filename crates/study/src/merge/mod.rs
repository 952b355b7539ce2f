//! Merges the runs of several machines that shared a study into one run.
//!
//! The result depends only on the set of runs, not on their order: parts are sorted by rank. The merged run contains no
//! data about this machine or the time of the merge. Each record still names the machine that measured it.

mod agreement;
mod part;
mod whole;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use fathometer_analysis::run::{Run, RunInfo};

use self::agreement::check;
pub use self::part::MergeError;
use self::part::Part;
use self::whole::merged_info;
use crate::files::StudyFiles;
use crate::plots;
use crate::run_folder::RunFolder;
use crate::share::OfMachine;
use crate::spec::folder_of;

/// The result of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The ranks whose runs are missing.
    pub missing: Vec<u32>,
    /// The ranks whose runs are not finished.
    pub unfinished: Vec<u32>,
    /// The number of cells without a valid replicate.
    pub cells_without_figures: usize,
}

impl Merged {
    /// Whether the merged run has all replicates that the study planned.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty() && self.unfinished.is_empty() && self.cells_without_figures == 0
    }

    /// Returns the gaps of the merged run, one line each.
    pub fn problems(&self) -> Vec<String> {
        let list = |ranks: &[u32]| {
            let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
            ranks.join(", ")
        };
        let mut problems = Vec::new();
        if !self.missing.is_empty() {
            problems.push(format!(
                "the runs of rank {} are missing; merge again when they are available",
                list(&self.missing)
            ));
        }
        if !self.unfinished.is_empty() {
            problems.push(format!(
                "the runs of rank {} are not finished; `fathometer study --resume` continues them",
                list(&self.unfinished)
            ));
        }
        if self.cells_without_figures > 0 {
            problems.push(format!(
                "{} cells have no valid replicate; the reasons are in the report",
                self.cells_without_figures
            ));
        }
        problems
    }
}

/// Merges the runs of several machines into a new run.
///
/// # Errors
/// When the runs are not parts of one run, or a file cannot be read or written.
pub fn merge(folders: &[PathBuf], output: &Path) -> Result<Merged, MergeError> {
    let mut parts = Vec::new();
    for folder in folders {
        parts.push(Part::load(folder)?);
    }
    parts.sort_by_key(|part| part.share.rank);
    check(&parts)?;
    let info = merged_info(&parts);
    let files = StudyFiles::of_run(&parts[0].folder, &info)?;
    let folder = RunFolder::create(output.to_owned())?;
    write(&folder, &parts, &info, files.as_ref()).inspect_err(|_| {
        // The folder contains only copies, so it can be removed. If the removal fails, the error above is still more
        // informative.
        let _ = fs::remove_dir_all(output);
    })?;
    let unfinished = parts.iter().filter(|part| part.info.finished.is_none());
    Ok(Merged {
        missing: info.missing_ranks(),
        unfinished: unfinished.map(|part| part.share.rank).collect(),
        cells_without_figures: without_figures(&parts),
    })
}

/// Writes the new run. `run.json` is written last, so that a folder with an incomplete copy is not a run.
fn write(
    folder: &RunFolder,
    parts: &[Part],
    info: &RunInfo,
    files: Option<&StudyFiles>,
) -> Result<(), MergeError> {
    for part in parts {
        for record in &part.records {
            copy(
                &part.folder.join(&record.folder),
                &folder.path().join(&record.folder),
            )?;
            folder.append_replicate(&OfMachine {
                record,
                machine: part.share.rank,
            })?;
        }
    }
    if let Some(files) = files {
        files.keep(folder)?;
        let records = Run::records(folder.path())?;
        let plots = plots::draw(&files.study()?, folder, &records)?;
        folder.write_json("plots.json", &plots)?;
    }
    folder.write_json("run.json", info)?;
    Ok(())
}

/// Copies a replicate's folder. Symbolic links and special files are skipped, because runs have none. A replicate whose
/// server did not start may have no folder.
fn copy(from: &Path, to: &Path) -> Result<(), MergeError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| MergeError::Copy { path, error }
    };
    fs::create_dir_all(to).map_err(failed(to))?;
    let entries = match fs::read_dir(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed(from))?,
    };
    for entry in entries {
        let entry = entry.map_err(failed(from))?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(failed(&path))?;
        if kind.is_dir() {
            copy(&path, &to)?;
        } else if kind.is_file() {
            fs::copy(&path, &to).map_err(failed(&path))?;
        }
    }
    Ok(())
}

/// Returns the number of cells that have records, but no valid record.
fn without_figures(parts: &[Part]) -> usize {
    let mut cells: BTreeMap<String, bool> = BTreeMap::new();
    for record in parts.iter().flat_map(|part| &part.records) {
        let valid = cells
            .entry(folder_of(&record.block, &record.cell))
            .or_default();
        *valid |= record.validity.is_valid();
    }
    cells.values().filter(|valid| !**valid).count()
}
