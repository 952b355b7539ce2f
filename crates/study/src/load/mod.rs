//! One replicate of a load study: a cell's levels define a trial, and the trial's measurements become the
//! record of the replicate.
//!
//! `levels` interprets the level of each factor, and `metrics` extracts the metrics of a trial. `ability` finds
//! which limits of a host this machine cannot set, and which cells are left out for that reason.
//!
//! A replicate writes these files to its folder, in addition to its line in the run:
//!
//! - `load.json`: the figures of the clients
//! - `load-beside.json`: those of the second load, if the cell has one
//! - `probes.ndjson`: every reading of the probes, one per line
//! - `windows.json`: a histogram of the congestion windows of the server's connections in the measured window

pub mod ability;
mod levels;
mod memory;
mod metrics;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fathometer_model::{Instant, ReplicateRecord};
use fathometer_sys::Clock;
use fathometer_sys::probe::Windows;
use fathometer_workload::plan::Plan;
use serde::Serialize;

use self::levels::Levels;
use super::replicate::{Finished, ReplicateError, Setup, Shared, wire_limits};
use crate::run_folder::{WriteError, write_lines};
use fathometer_files::whole_file;
use fathometer_lab::trial::{Measured, Trial};

/// A workload of a load study, with its files on disk.
pub struct LoadSite {
    /// The requests.
    pub plan: Arc<Plan>,
    /// The folder with its files.
    pub folder: PathBuf,
}

/// Runs one replicate.
pub fn run(shared: &Shared<'_>, setup: &Setup<'_>) -> Result<Finished, ReplicateError> {
    let levels = Levels::of(shared, setup)?;
    let clock = Clock::start();
    let started = clock.realtime_of(Instant::ZERO).as_secs_f64();
    // Common random numbers: the users' requests depend only on the workload and the repetition.
    let seed = shared
        .seed
        .stream(setup.cell.level("workload"))
        .child(u64::from(setup.replicate));
    let mut measured = Trial {
        definition: setup.definition,
        installed: setup.installed,
        folder: &levels.site.folder,
        profile: setup.profile,
        era: setup.era,
        initial_window: levels.initial_window,
        limits: levels.limits.clone(),
        throttle: levels.throttle,
        wire_limits: shared
            .study
            .limits
            .get(setup.cell.level("path"))
            .map(wire_limits),
        seed,
        clock,
        warm_cache: levels
            .warm
            .then(|| levels.every_page_once(setup, shared.study, seed))
            .transpose()?,
        load: levels.options(setup, shared.study, seed)?,
        beside: levels.beside(setup, shared.study, seed)?,
    }
    .run(&shared.building, shared.interrupted)?;
    write_files(setup.folder, &measured)?;
    let metrics = metrics::of(&mut measured, &levels);
    for result in [Some(&measured.result), measured.beside.as_ref()] {
        let Some(result) = result else { continue };
        metrics::judge(result, &levels.load, &mut measured.validity);
    }
    Ok(Finished {
        record: ReplicateRecord {
            block: setup.cell.block.clone(),
            cell: setup.cell.key.clone(),
            replicate: setup.replicate,
            seed: seed.0,
            order: setup.order,
            started,
            metrics,
            path: measured.certificate,
            validity: measured.validity,
            folder: setup.folder_name.clone(),
        },
        applied: measured.applied,
    })
}

/// The histogram of congestion windows.
#[derive(Serialize)]
struct WindowsFile<'a> {
    /// Number of readings in the measured window; each covers every existing connection.
    readings: u64,
    /// Number of connections found, indexed by the window in segments.
    found: &'a [u64],
}

fn write_files(folder: &Path, measured: &Measured) -> Result<(), WriteError> {
    let results = [
        ("load.json", Some(&measured.result)),
        ("load-beside.json", measured.beside.as_ref()),
    ];
    for (name, result) in results {
        if let Some(result) = result {
            let summary = fathometer_analysis::load::Summary::of(result);
            write(folder.join(name), &summary.to_json())?;
        }
    }
    write_lines(&folder.join("probes.ndjson"), &measured.samples.readings)?;
    if let Some(windows) = windows_of(measured) {
        let file = WindowsFile {
            readings: windows.readings,
            found: windows.histogram(),
        };
        let text = serde_json::to_string(&file).expect("numbers are JSON");
        write(folder.join("windows.json"), &text)?;
    }
    Ok(())
}

fn write(path: PathBuf, text: &str) -> Result<(), WriteError> {
    whole_file::write(&path, text.as_bytes()).map_err(|error| WriteError { path, error })
}

/// The congestion windows of the server's connections over the measured window.
fn windows_of(measured: &Measured) -> Option<Windows> {
    let step = measured.samples.between(measured.from, measured.to)?;
    let network = step.change.networks.into_iter().next()??;
    network.windows
}
