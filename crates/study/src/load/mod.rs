//! Load studies: a cell's levels define a trial, and the trial's measurements become the record of the
//! replicate.
//!
//! The module `factors` declares the factors of a load study, `levels` converts a cell's levels into settings, `site`
//! writes the requested files, and `metrics` extracts the metrics of a trial. `ability` finds the cells that this
//! machine cannot run. Two other kinds of studies also apply loads to servers with limits. A replicate of `capacity` is
//! a search, and a replicate of `sweep` applies several numbers of users one after another. `replicate` is the common
//! code of all three kinds.

mod ability;
mod capacity;
mod factors;
mod levels;
mod memory;
mod metrics;
mod others;
mod replicate;
mod site;
mod sweep;

use std::path::{Path, PathBuf};
use std::time::Duration;

use fathometer_analysis::run::Mode;
use fathometer_path::Profile;
use fathometer_sys::probe::Windows;
use serde::Serialize;

pub use self::capacity::CAPACITY;
pub use self::sweep::SWEEP;

use self::replicate::Replicate;
use self::site::Sites;
use crate::experiment::{
    Experiment, Finished, Needs, Preparation, PrepareError, Prepared, ReplicateError, Replicates,
    Servers, Setup, Shared,
};
use crate::factor::AnyFactor;
use crate::run_folder::{WriteError, write_lines};
use crate::spec::{Cell, Key, Study};
use fathometer_files::whole_file;
use fathometer_lab::trial::{Measured, Trial};

/// The experiment of load studies.
pub static LOAD: LoadExperiment = LoadExperiment;

/// A replicate is a load test of a server with limits.
pub struct LoadExperiment;

impl Experiment for LoadExperiment {
    fn name(&self) -> &'static str {
        "load"
    }

    fn meaning(&self) -> &'static str {
        "a replicate is a load test"
    }

    fn factors(&self) -> Vec<&'static dyn AnyFactor> {
        factors::of_loads()
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("load.json", "the figures of the clients"),
            (
                "load-beside.json",
                "the clients' figures of the second load, if the cell has one",
            ),
            ("probes.ndjson", "every reading of the probes, one per line"),
            (
                "windows.json",
                "a histogram of the congestion windows of the server's connections in the measured window",
            ),
        ]
    }

    fn keys(&self) -> &'static [Key] {
        &[Key::Load]
    }

    fn check(&self, study: &Study) -> Result<(), String> {
        if study.load.is_none() {
            return Err(
                "a study with kind = \"load\" needs a table [load], which defines how its load is measured"
                    .to_owned(),
            );
        }
        let users = [factors::CLIENTS.name(), factors::UES.name()];
        if !users.iter().any(|name| study.defaults.contains_key(*name)) {
            return Err("[defaults] has no level for \"clients\" or \"ues\"".to_owned());
        }
        match study.defaults.contains_key(factors::LOOP.name()) {
            true => Ok(()),
            false => Err("[defaults] has no level for \"loop\"".to_owned()),
        }
    }

    fn needs<'a>(&self, study: &'a Study, _: &'a Servers) -> Needs<'a> {
        ability::needs(study)
    }

    fn window(&self, study: &Study, cell: &Cell, mode: Mode, path: &Profile) -> Option<Duration> {
        let (warm_up, duration) = levels::lengths(&study.load_of(&cell.block)?, mode, path);
        Some(warm_up + duration)
    }

    fn prepare(&self, preparation: &Preparation<'_>) -> Result<Prepared, PrepareError> {
        let (sites, notes) = Sites::write(preparation)?;
        Ok(Prepared {
            replicates: Box::new(Trials { sites }),
            notes,
        })
    }
}

/// The replicates of a load study, and the workloads of all its cells.
struct Trials {
    sites: Sites,
}

impl Replicates for Trials {
    fn run(&self, shared: &Shared<'_>, setup: &Setup<'_>) -> Result<Finished, ReplicateError> {
        let replicate = Replicate::start(shared, setup, &self.sites)?;
        let levels = &replicate.levels;
        let trial = Trial {
            beside: levels.beside(setup, shared.study, replicate.seed)?,
            ..replicate.trial()?
        };
        let mut measured = trial.run(&shared.building, shared.interrupted)?;
        write_files(setup.folder, &measured)?;
        let metrics = metrics::of(&mut measured, levels);
        for result in [Some(&measured.result), measured.beside.as_ref()] {
            let Some(result) = result else { continue };
            metrics::judge(result, &levels.load, &mut measured.validity);
        }
        Ok(Finished {
            figures: replicate.figures(metrics, measured.certificate, measured.validity),
            applied: measured.applied,
        })
    }
}

/// The histogram of congestion windows.
#[derive(Serialize)]
struct WindowsFile<'a> {
    /// The number of readings in the measured window. Each reading covers all connections that exist at that time.
    readings: u64,
    /// The number of observed connections, indexed by the congestion window in segments.
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

/// Returns the congestion windows of the server's connections over the measured window.
fn windows_of(measured: &Measured) -> Option<Windows> {
    let step = measured.samples.between(measured.from, measured.to)?;
    let network = step.change.networks.into_iter().next()??;
    network.windows
}
