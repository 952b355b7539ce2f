//! Capacity studies: a replicate searches the highest load at which SLOs hold, inside the cell's own laboratory.
//!
//! The search is that of `fathometer capacity` ([`crate::capacity_search`]). All its trials are applied to one server in
//! one host behind one path, and each starts when the server has drained. `answer` turns the outcome into metrics, or
//! into the reasons why there is no capacity.

mod answer;
mod exhausted;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use fathometer_analysis::load::LoadResult;
use fathometer_capacity::{Search, TrialRecord};
use fathometer_load::{Live, Options};
use fathometer_model::{Instant, ReplicateRecord, Seed};
use fathometer_sys::Clock;
use fathometer_sys::probe::Samples;

use self::answer::Answered;
use self::exhausted::{Host, TrialWindow};
use super::levels::Levels;
use super::site::LoadSite;
use super::{ability, factors, memory, metrics, site, unsupported_policy, write};
use crate::capacity_search::{self, Ended, Step, Subject, Trials};
use crate::experiment::{
    Experiment, Finished, Needs, Preparation, PrepareError, Prepared, ReplicateError, Replicates,
    Servers, Setup, Shared, wire_limits,
};
use crate::factor::AnyFactor;
use crate::run_folder::{WriteError, write_lines};
use crate::spec::{Capacity, LoadUnit, Study};
use fathometer_lab::trial::{ServerAccess, Trial};

/// The experiment of capacity studies.
pub static CAPACITY: CapacityExperiment = CapacityExperiment;

/// The file of a replicate's trials.
const TRIALS: &str = "trials.ndjson";

/// A replicate is a search for the capacity of a server with limits.
pub struct CapacityExperiment;

impl Experiment for CapacityExperiment {
    fn name(&self) -> &'static str {
        "capacity"
    }

    fn meaning(&self) -> &'static str {
        "a replicate is a search for the highest load at which SLOs hold"
    }

    fn factors(&self) -> &'static [&'static dyn AnyFactor] {
        factors::OF_SEARCHES
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                "capacity.json",
                "the goal of the search, its answer for each SLO, and what gave out first",
            ),
            (TRIALS, "every trial of the search, one per line, in order"),
            ("probes.ndjson", "every reading of the probes, one per line"),
        ]
    }

    fn check(&self, study: &Study) -> Result<(), String> {
        let (Some(_), Some(capacity)) = (&study.load, &study.capacity) else {
            return Err(
                "a study with kind = \"capacity\" has a table [capacity], which says what is searched, and a table [load], \
                 which says how its trials are"
                    .to_owned(),
            );
        };
        capacity.check()?;
        match capacity.of == LoadUnit::Rate && study.defaults.contains_key(factors::LOOP.name()) {
            true => Err(
                "[defaults] has a level for \"loop\", which is of users: with of = \"rate\" each arrival requests one page"
                    .to_owned(),
            ),
            false => Ok(()),
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
            replicates: Box::new(Searches { sites }),
            notes,
        })
    }
}

/// The replicates of a capacity study, with the workloads of all its cells.
struct Searches {
    sites: BTreeMap<String, LoadSite>,
}

impl Replicates for Searches {
    fn run(&self, shared: &Shared<'_>, setup: &Setup<'_>) -> Result<Finished, ReplicateError> {
        let site = self
            .sites
            .get(setup.cell.level("workload"))
            .expect("the workloads of all cells were made");
        let capacity = shared.study.capacity.as_ref();
        run(
            shared,
            setup,
            site,
            capacity.expect("a capacity study says what is searched"),
        )
    }
}

fn run(
    shared: &Shared<'_>,
    setup: &Setup<'_>,
    site: &LoadSite,
    capacity: &Capacity,
) -> Result<Finished, ReplicateError> {
    let levels = Levels::of(shared, setup, site)?;
    let clock = Clock::start();
    let started = clock.realtime_of(Instant::ZERO).as_secs_f64();
    // Common random numbers: the requests of a trial depend only on the workload, the repetition and the trial.
    let seed = shared
        .seed
        .stream(setup.cell.level("workload"))
        .child(u64::from(setup.replicate));
    let log = TrialLog::create(setup.folder)?;
    let job = Job {
        shared,
        setup,
        capacity,
        levels: &levels,
        seed,
        clock,
    };
    let mut series = Trial {
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
        beside: None,
    }
    .run_series(&shared.building, shared.interrupted, |access| {
        job.search(access, log)
    })?;
    let mut answered = series.value?;
    answered.judge(&Host {
        limits: levels.known_limits(),
        profile: setup.profile,
        samples: &series.samples,
        packets: series.packets.as_ref(),
    });
    write(setup.folder.join("capacity.json"), &answered.to_json())?;
    write_lines(
        &setup.folder.join("probes.ndjson"),
        &series.samples.readings,
    )?;
    let mut metrics = answered.metrics();
    if let Some(percent) = cpu_at_works(&answered, &series.samples, levels.quota()) {
        metrics.insert("capacity_works_cpu_pct".to_owned(), percent);
    }
    for reason in answered.reasons() {
        series.validity.invalidate(reason.clone());
    }
    if levels.limits.memory.is_some()
        && let Some(whole) = series.samples.whole()
        && let Some(reason) = memory::taken_by_others(&series.samples, &whole)
    {
        series.validity.invalidate(reason);
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
            path: series.certificate,
            validity: series.validity,
            folder: setup.folder_name.clone(),
        },
        applied: series.applied,
    })
}

/// CPU time of the host in the trial of the lower end, in percent of its quota.
fn cpu_at_works(answered: &Answered, samples: &Samples, quota: f64) -> Option<f64> {
    let window = answered.window_at_works()?;
    let step = samples.between(window.from, window.to)?;
    let cpu = step.change.groups.first()?.as_ref()?.cpu.as_ref()?;
    let share = step.share(cpu.total)?;
    Some(100.0 * share / quota)
}

/// One replicate.
#[derive(Clone, Copy)]
struct Job<'a> {
    shared: &'a Shared<'a>,
    setup: &'a Setup<'a>,
    capacity: &'a Capacity,
    levels: &'a Levels<'a>,
    seed: Seed,
    clock: Clock,
}

impl Job<'_> {
    /// The search, on the client's host.
    fn search(&self, access: &ServerAccess, mut log: TrialLog) -> Result<Answered, ReplicateError> {
        let levels = self.levels;
        let promises = self.capacity.promises();
        let goal = self
            .capacity
            .goal(self.shared.mode, levels.warm_up, levels.duration);
        let window = Cell::new(None);
        let server = ServerOfCell {
            job: self,
            access,
            window: &window,
        };
        let mut trials = Trials::new(
            server,
            self.capacity.demand(),
            &promises,
            self.seed,
            self.clock,
            self.shared.interrupted,
        );
        let mut search = Search::new(goal, promises).jointly();
        if trials.first_test()?.is_none() {
            search.stop("no single request succeeded before the first trial".to_owned());
        }
        let mut windows = Vec::new();
        let Ended { outcome, .. } =
            capacity_search::run(&mut search, &mut trials, &mut |step| match step {
                Step::Begins { .. } => Ok(()),
                Step::Ended(record) => {
                    windows.extend(window.take());
                    Ok(log.append(record)?)
                }
            })?;
        Ok(Answered::new(self.capacity.of, goal, outcome, windows))
    }
}

/// The server of a cell, in its host.
struct ServerOfCell<'a> {
    job: &'a Job<'a>,
    access: &'a ServerAccess,
    /// The measured window of the last trial.
    window: &'a Cell<Option<TrialWindow>>,
}

impl Subject for ServerOfCell<'_> {
    type Error = ReplicateError;

    fn options(&self) -> Result<Options, ReplicateError> {
        let Job {
            shared,
            setup,
            levels,
            seed,
            ..
        } = *self.job;
        let mut options = levels.options(setup, shared.study, seed)?;
        self.access.apply_to(&mut options);
        Ok(options)
    }

    fn apply(
        &mut self,
        options: Options,
        clock: Clock,
        stop: &(dyn Fn() -> bool + Sync),
        live: &mut dyn FnMut(&Live),
    ) -> Result<LoadResult, ReplicateError> {
        let mut result = fathometer_load::run(options, clock, stop, live)?;
        let mut validity = result.validity.clone();
        metrics::judge(&result, &self.job.levels.load, &mut validity);
        result.validity = validity;
        self.window.set(Some(TrialWindow::of(&result, clock)));
        Ok(result)
    }
}

/// The trials of a replicate, each written when it is complete.
struct TrialLog {
    file: File,
    path: PathBuf,
}

impl TrialLog {
    fn create(folder: &Path) -> Result<TrialLog, WriteError> {
        let path = folder.join(TRIALS);
        match File::create(&path) {
            Ok(file) => Ok(TrialLog { file, path }),
            Err(error) => Err(WriteError { path, error }),
        }
    }

    fn append(&mut self, record: &TrialRecord) -> Result<(), WriteError> {
        let mut line = serde_json::to_vec(record).expect("a trial is JSON");
        line.push(b'\n');
        self.file.write_all(&line).map_err(|error| WriteError {
            path: self.path.clone(),
            error,
        })
    }
}
