//! The runs in a folder, and their cells with many replicates, which simulations resample.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::run::Run;

/// The metrics that are resampled: one time and one rate.
const METRICS: [&str; 2] = ["server_response_s", "exchanges_per_s"];

/// The smallest number of replicates of a cell that can represent a distribution.
const LEAST: usize = 8;

/// Returns the folders of runs in a folder, sorted by name.
///
/// # Errors
/// When the folder cannot be read.
pub fn run_folders(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::Read {
        path: folder.to_owned(),
        source,
    };
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.join("run.json").is_file() {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}

/// Returns the values of each cell with at least eight replicates, from all runs in a folder; empty if the
/// folder does not exist.
///
/// # Errors
/// When a run cannot be read.
pub fn real_cells(folder: &Path) -> Result<Vec<Vec<f64>>, Error> {
    cells_with(folder, &METRICS)
}

/// As [`real_cells()`], but for these metrics.
///
/// # Errors
/// When a run cannot be read.
pub fn cells_with(folder: &Path, metrics: &[&str]) -> Result<Vec<Vec<f64>>, Error> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut cells = Vec::new();
    for folder in run_folders(folder)? {
        for cell in &Run::load(&folder)?.cells {
            for metric in metrics {
                let values: Vec<f64> = cell.values(metric).into_iter().map(|(_, v)| v).collect();
                if values.len() >= LEAST {
                    cells.push(values);
                }
            }
        }
    }
    Ok(cells)
}
