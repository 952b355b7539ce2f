//! Capacity studies: a replicate searches for the highest load at which the SLOs hold, inside the cell's own laboratory.
//!
//! The search is the same as in `fathometer capacity` ([`crate::capacity_search`]). All its trials are applied to one
//! server on one host behind one path. Each trial starts when the server's queues are empty. The module `answer`
//! converts the outcome into metrics, or into the reasons why there is no capacity.

mod answer;
mod exhausted;

use std::cell::Cell;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use fathometer_analysis::load::LoadResult;
use fathometer_capacity::{Search, TrialRecord};
use fathometer_load::{Live, Options};
use fathometer_sys::Clock;
use fathometer_sys::probe::Samples;

use self::answer::Answered;
use self::exhausted::{Host, TrialWindow};
use super::replicate::Replicate;
use super::site::Sites;
use super::{ability, factors, memory, metrics, write};
use crate::capacity_search::{self, Ended, Step, Subject, Trials};
use crate::experiment::{
    Experiment, Finished, Needs, Preparation, PrepareError, Prepared, ReplicateError, Replicates,
    Servers, Setup, Shared,
};
use crate::factor::AnyFactor;
use crate::run_folder::{WriteError, write_lines};
use crate::spec::{Capacity, Key, LoadUnit, Study};
use fathometer_lab::trial::ServerAccess;

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

    fn factors(&self) -> Vec<&'static dyn AnyFactor> {
        factors::of_searches()
    }

    fn files(&self) -> &'static [(&'static str, &'static str)] {
        &[
            (
                "capacity.json",
                "the goal of the search, its answer for each SLO, and the first exhausted resource",
            ),
            (TRIALS, "every trial of the search, one per line, in order"),
            ("probes.ndjson", "every reading of the probes, one per line"),
        ]
    }

    fn keys(&self) -> &'static [Key] {
        &[Key::Load, Key::Capacity]
    }

    fn check(&self, study: &Study) -> Result<(), String> {
        let (Some(_), Some(capacity)) = (&study.load, &study.capacity) else {
            return Err(
                "a study with kind = \"capacity\" needs a table [capacity], which defines the search, and a table [load], \
                 which defines its trials"
                    .to_owned(),
            );
        };
        capacity.check()?;
        match capacity.of == LoadUnit::Rate && study.defaults.contains_key(factors::LOOP.name()) {
            true => Err(
                "[defaults] has a level for \"loop\", but with of = \"rate\" each arrival requests one page: use of = \"users\""
                    .to_owned(),
            ),
            false => Ok(()),
        }
    }

    fn needs<'a>(&self, study: &'a Study, _: &'a Servers) -> Needs<'a> {
        ability::needs(study)
    }

    fn prepare(&self, preparation: &Preparation<'_>) -> Result<Prepared, PrepareError> {
        let (sites, notes) = Sites::write(preparation)?;
        Ok(Prepared {
            replicates: Box::new(Searches { sites }),
            notes,
        })
    }
}

/// The replicates of a capacity study, and the workloads of all its cells.
struct Searches {
    sites: Sites,
}

impl Replicates for Searches {
    fn run(&self, shared: &Shared<'_>, setup: &Setup<'_>) -> Result<Finished, ReplicateError> {
        let capacity = shared.study.capacity.as_ref();
        let replicate = Replicate::start(shared, setup, &self.sites)?;
        let levels = &replicate.levels;
        let log = TrialLog::create(setup.folder)?;
        let job = Job {
            replicate: &replicate,
            capacity: capacity.expect("a capacity study has a table [capacity]"),
        };
        let trial = replicate.trial()?;
        let mut series = trial.run_series(&shared.building, shared.interrupted, |access| {
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
        let probes = setup.folder.join("probes.ndjson");
        write_lines(&probes, &series.samples.readings)?;
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
            figures: replicate.figures(metrics, series.certificate, series.validity),
            applied: series.applied,
        })
    }
}

/// Returns the CPU time of the host in the trial at the lower end, in percent of its quota.
fn cpu_at_works(answered: &Answered, samples: &Samples, quota: f64) -> Option<f64> {
    let window = answered.window_at_works()?;
    let step = samples.between(window.from, window.to)?;
    let cpu = step.change.groups.first()?.as_ref()?.cpu.as_ref()?;
    let share = step.share(cpu.total)?;
    Some(100.0 * share / quota)
}

/// The search of a replicate.
struct Job<'a> {
    replicate: &'a Replicate<'a>,
    capacity: &'a Capacity,
}

impl Job<'_> {
    /// Runs the search from the client's host.
    fn search(&self, access: &ServerAccess, mut log: TrialLog) -> Result<Answered, ReplicateError> {
        let Replicate { shared, levels, .. } = self.replicate;
        let slos = self.capacity.slos();
        let goal = self.capacity.goal(
            shared.mode,
            levels.warm_up,
            levels.duration,
            levels.load.timeout_s.into(),
        );
        let window = Cell::new(None);
        let server = ServerOfCell {
            replicate: self.replicate,
            access,
            window: &window,
        };
        let mut trials = Trials::new(
            server,
            self.capacity.demand(),
            &slos,
            self.replicate.seed,
            self.replicate.clock,
            shared.interrupted,
        );
        let mut search = Search::new(goal, slos).jointly();
        trials.limit_to_open_files(&mut search)?;
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

/// The server of a cell, as the subject of a search.
struct ServerOfCell<'a> {
    replicate: &'a Replicate<'a>,
    access: &'a ServerAccess,
    /// The measured window of the last trial.
    window: &'a Cell<Option<TrialWindow>>,
}

impl Subject for ServerOfCell<'_> {
    type Error = ReplicateError;

    fn options(&self) -> Result<Options, ReplicateError> {
        let mut options = self.replicate.options()?;
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
        metrics::judge(&result, &self.replicate.levels.load, &mut validity);
        result.validity = validity;
        self.window.set(Some(TrialWindow::of(&result, clock)));
        Ok(result)
    }
}

/// The file of a replicate's trials. Each trial is written when it is complete.
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
