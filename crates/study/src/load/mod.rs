//! Load studies: a cell's levels define a trial, and the trial's measurements become the record of the
//! replicate.
//!
//! `factors` declares what a load study can vary, `levels` is the meaning of a cell's levels, `site` has the files
//! that are requested, and `metrics` extracts the metrics of a trial. `ability` finds which limits of a host
//! this machine cannot set, and which cells are left out for that reason. `capacity` is the other kind of study whose
//! cells are loads on servers with limits: its replicates are searches.

mod ability;
mod capacity;
mod factors;
mod levels;
mod memory;
mod metrics;
mod site;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fathometer_model::{Instant, ReplicateRecord};
use fathometer_sys::Clock;
use fathometer_sys::probe::Windows;
use serde::Serialize;

pub use self::capacity::CAPACITY;

use self::levels::Levels;
use self::site::LoadSite;
use crate::experiment::{
    Experiment, Finished, Needs, Preparation, PrepareError, Prepared, ReplicateError, Replicates,
    Servers, Setup, Shared, wire_limits,
};
use crate::factor::AnyFactor;
use crate::run_folder::{WriteError, write_lines};
use crate::spec::{Cell, Study};
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

    fn factors(&self) -> &'static [&'static dyn AnyFactor] {
        factors::FACTORS
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("load.json", "the figures of the clients"),
            (
                "load-beside.json",
                "those of the second load, if the cell has one",
            ),
            ("probes.ndjson", "every reading of the probes, one per line"),
            (
                "windows.json",
                "a histogram of the congestion windows of the server's connections in the measured window",
            ),
        ]
    }

    fn check(&self, study: &Study) -> Result<(), String> {
        if study.load.is_none() {
            return Err(
                "a study with kind = \"load\" has a table [load], which says how its load is measured"
                    .to_owned(),
            );
        }
        if study.capacity.is_some() {
            return Err(
                "it has a table [capacity], which only a study with kind = \"capacity\" has"
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
        let lacking = ability::lacking();
        Box::new(move |cell| {
            unsupported_policy(cell).or_else(|| ability::obstacle(study, cell, &lacking))
        })
    }

    fn prepare(&self, preparation: &Preparation<'_>) -> Result<Prepared, PrepareError> {
        let mut notes = Vec::new();
        let sites = site::load(preparation, &mut notes)?;
        Ok(Prepared {
            replicates: Box::new(Trials { sites }),
            notes,
        })
    }
}

/// Why the load engine does not support a policy of the cell; `None`: it does.
fn unsupported_policy(cell: &Cell) -> Option<String> {
    let policies = [
        Some(cell.level("policy")),
        cell.beside().map(|(policy, _)| policy),
    ];
    policies.into_iter().flatten().find_map(|policy| {
        let why = policy.parse().ok().and_then(fathometer_load::cannot)?;
        Some(format!("policy {policy}: {why}"))
    })
}

/// The replicates of a load study, with the workloads of all its cells.
struct Trials {
    sites: BTreeMap<String, LoadSite>,
}

impl Replicates for Trials {
    fn run(&self, shared: &Shared<'_>, setup: &Setup<'_>) -> Result<Finished, ReplicateError> {
        let site = self
            .sites
            .get(setup.cell.level("workload"))
            .expect("the workloads of all cells were made");
        run(shared, setup, site)
    }
}

fn run(
    shared: &Shared<'_>,
    setup: &Setup<'_>,
    site: &LoadSite,
) -> Result<Finished, ReplicateError> {
    let levels = Levels::of(shared, setup, site)?;
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
