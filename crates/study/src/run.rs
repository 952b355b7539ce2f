//! One execution of a study: runs all replicates of all cells, and records each when it ends.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use fathometer_analysis::run::{
    Build, EraInfo, LeftOut, Mode, PathInfo, Run, RunInfo, ServerInfo, Setting, SettingState,
};
use fathometer_load::Share;
use fathometer_model::{Instant, PathCertificate, ReplicateRecord, Seed, Validity};
use fathometer_sys::era::{AppliedSettings, SettingOutcome};
use fathometer_sys::{Clock, Machine};

use super::experiment::{
    Figures, Finished, Preparation, PrepareError, ReplicateError, Replicates, Setup, Shared,
};
use super::files::{FilesError, StudyFiles};
use super::kinds;
use super::materials::{Materials, MaterialsError, Selection, requested_cells};
use super::past::{self, Mismatch, Past};
use super::plots;
use super::schedule::{self, Job, Queue};
use super::share::{self, OfMachine, ShareError};
use super::spec::{Cell, SpecError, Study, folder_of};
use super::stopping::{Look, Rounds, Rule, total};
use crate::progress::Progress;
use crate::run_folder::{OpenError, RunFolder, WriteError};
use fathometer_files::scratch::{Scratch, ScratchError};
use fathometer_lab::era::Era;
use fathometer_lab::hosts::Side;
use fathometer_lab::leftovers;
use fathometer_sys::stderr::say;

/// Note of a run that the user has interrupted.
const INTERRUPTED: &str = "interrupted by the user: the remaining cells are not measured";

/// A request to run a study.
pub struct Request {
    /// The study.
    pub study: Study,
    /// The files that it was read from.
    pub files: StudyFiles,
    /// Quick or full.
    pub mode: Mode,
    /// Levels that cells must have (`path=wan`). Several levels of one factor are alternatives.
    pub only: Vec<(String, String)>,
    /// Replicates of every cell, instead of the study's number.
    pub replicates: Option<u32>,
    /// When the run ends, if it adds replicates where something is undecided; then `replicates` counts for nothing.
    pub stopping: Option<Rule>,
    /// The seed of all random choices.
    pub seed: Seed,
    /// The run's folder, to be created.
    pub folder: PathBuf,
    /// The command line, for the record.
    pub command: Vec<String>,
    /// The build of the program, for the record.
    pub build: Build,
    /// Show no progress.
    pub quiet: bool,
    /// The rank and the number of ranks, if several machines share the study.
    pub share: Option<Share>,
    /// Whether the folder has an interrupted run of this study that is to be resumed.
    pub resume: bool,
}

/// The result of a run.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// Replicates recorded, including every attempt.
    pub replicates: u32,
    /// The number of these that are invalid.
    pub invalid: u32,
    /// Cells without any valid replicate.
    pub cells_without_figures: u32,
    /// Whether the user interrupted the run.
    pub interrupted: bool,
}

/// Why a run could not start or continue. Earlier measurements are in its folder.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The study is invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Cells cannot be selected, or something that they name is not available.
    #[error(transparent)]
    Materials(#[from] MaterialsError),
    /// The replicates could not be prepared.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The claims and tables cannot be read, on which the end of the run depends.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// There are none.
    #[error(
        "the study has no tables and no claims, so that nothing says when it has enough replicates: use --replicates \
         instead of --precision and --budget"
    )]
    NothingToDecide,
    /// Several machines cannot share the study.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// The run's folder could not be created or opened: nothing was measured.
    #[error(transparent)]
    Folder(#[from] OpenError),
    /// A file of the run could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A temporary folder could not be created.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// A replicate panicked, which is a defect of the program.
    #[error(
        "{cell} replicate {replicate} failed because of a defect of this program: {message}: please report it"
    )]
    Panicked {
        /// The cell.
        cell: String,
        /// The number of the repetition.
        replicate: u32,
        /// The message of the panic.
        message: String,
    },
    /// A replicate failed.
    #[error(transparent)]
    Replicate(#[from] ReplicateError),
    /// The earlier part of the run cannot be read.
    #[error("cannot resume the run: {0}")]
    Earlier(#[from] fathometer_analysis::Error),
    /// The folder has a different run.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
}

impl RunError {
    /// Whether the command line is wrong, and not the study's files or the machine.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            RunError::Materials(MaterialsError::Empty(_))
                | RunError::NothingToDecide
                | RunError::Share(_)
        )
    }
}

/// Note of a run in a virtual machine.
const AWAKE: &str = "this machine is a guest: its processors are kept awake during the measurement, because the \
 hypervisor wakes a sleeping processor late";

/// Runs the study.
pub fn execute(
    request: &Request,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Outcome, RunError> {
    let study = &request.study;
    let experiment = kinds::of(study)?;
    let catalog = request.files.catalog();
    let mut notes: Vec<String> = study.scale.iter().map(|s| format!("scale: {s}")).collect();
    let cells = requested_cells(study, request.mode, &request.only, request.replicates)?;
    let share = match request.share {
        None => None,
        Some(_) if request.stopping.is_some() => return Err(ShareError::Stopping.into()),
        Some(place) => Some(share::share_of(place, &cells, share::boot_id())?),
    };
    notes.extend(share.as_ref().map(share::note));
    // Left by killed runs of any kind.
    leftovers::remove();
    let Selection {
        materials,
        mut cells,
        left_out,
    } = Selection::of(study, experiment, &catalog, cells)?;
    if cells.is_empty() {
        let reasons: BTreeSet<&str> = left_out.iter().map(|cell| cell.reason.as_str()).collect();
        let reasons: Vec<&str> = reasons.into_iter().collect();
        return Err(MaterialsError::Impossible(reasons.join("; ")).into());
    }
    let mut rounds = match request.stopping {
        None => None,
        Some(rule) => {
            let data = request.files.data()?.ok_or(RunError::NothingToDecide)?;
            Some(Rounds::new(rule, data, &cells))
        }
    };
    let scratch = Scratch::new()?;
    let prepared = experiment.prepare(&Preparation {
        cells: &cells,
        servers: &materials.servers,
        catalog: &catalog,
        seed: request.seed,
        scratch: scratch.path(),
    })?;
    notes.extend(prepared.notes);
    let awake = fathometer_sys::awake::in_a_guest(&fathometer_sys::Machine::read());
    notes.extend(awake.as_ref().map(|_| AWAKE.to_owned()));
    let clock = Clock::start();
    if let Some(rounds) = &rounds {
        rounds.apply(&mut cells);
    }
    let planned = share::planned(share.as_ref(), &cells);
    let mut info = info(request, &materials, &cells, notes, planned, clock);
    info.left_out = left_out;
    info.share.clone_from(&share);
    info.stopping = rounds.as_ref().map(|rounds| rounds.stopping.clone());
    let (folder, past) = match request.resume {
        false => {
            let folder = RunFolder::create(request.folder.clone())?;
            (folder, Past::default())
        }
        true => {
            // Check first: no file may be created in a folder without a run, or with a different one.
            let earlier = Run::load(&request.folder)?;
            past::check(&earlier, &info)?;
            let folder = RunFolder::reopen(request.folder.clone())?;
            // Read again, now that no other program can write to it.
            let earlier = Run::load(&request.folder)?;
            if let (Some(rounds), Some(stopping)) = (&mut rounds, &earlier.info.stopping) {
                rounds.resume(stopping);
                rounds.apply(&mut cells);
                info.stopping = Some(rounds.stopping.clone());
                info.replicates_planned = Some(u64::from(total(&rounds.stopping.replicates)));
            }
            info = resumed(info, earlier.info, &cells);
            (folder, Past::of(&Run::records(&request.folder)?))
        }
    };
    folder.write_json("run.json", &info)?;
    request.files.keep(&folder)?;
    let to_make = planned - past.done(&cells);
    let (made, were_invalid) = past.made();

    let failed = AtomicBool::new(false);
    let ending = || interrupted() || failed.load(Ordering::Relaxed);
    let mut execution = Execution {
        shared: Shared {
            study,
            mode: request.mode,
            seed: request.seed,
            interrupted: &ending,
            building: Mutex::new(()),
        },
        replicates: prepared.replicates.as_ref(),
        materials: &materials,
        folder: &folder,
        machine: share.as_ref().map(|share| share.rank),
        failed: &failed,
        progress: Progress::new(u64::from(to_make), "replicates", clock, request.quiet),
        applied: Mutex::new(BTreeMap::new()),
        valid_cells: Mutex::new(past.valid_cells().map(str::to_owned).collect()),
        unable: Mutex::new(Vec::new()),
        recorded: AtomicU32::new(made),
        invalid: AtomicU32::new(were_invalid),
    };
    let place = AtomicU32::new(past.next_place());
    let mut past = past;
    let mut result;
    loop {
        let mut lanes = past.left(schedule::lanes(&cells, request.seed, |cell| {
            study.lane(cell)
        }));
        share::keep(share.as_ref(), lanes.values_mut());
        let turns = schedule::turns(lanes, &study.alone);
        result = turns.into_iter().try_for_each(|lanes| {
            schedule::execute(lanes, &study.side_by_side, &ending, &|job, _| {
                execution.run(job, place.fetch_add(1, Ordering::Relaxed))
            })
        });
        execution.progress.finish();
        let Some(rounds) = &mut rounds else { break };
        if result.is_err() || interrupted() {
            break;
        }
        let made = execution.recorded.load(Ordering::Relaxed) - made;
        let elapsed = clock.now().since(Instant::ZERO);
        let unable = lock(&execution.unable)
            .iter()
            .map(folder_of_left_out)
            .collect();
        let run = Run::load(folder.path())?;
        let look = rounds.look(&run, elapsed, elapsed / made.max(1), &unable);
        info.stopping = Some(rounds.stopping.clone());
        let text = match look {
            Look::End(reason) => {
                say(format_args!("no more replicates: {reason}"));
                break;
            }
            Look::GoOn(text) => text,
        };
        say(format_args!("{text}"));
        rounds.apply(&mut cells);
        past = Past::of(&Run::records(folder.path())?);
        let left = total(&rounds.stopping.replicates) - past.done(&cells);
        info.replicates_planned = Some(u64::from(total(&rounds.stopping.replicates)));
        // So that the run can be resumed in this round.
        folder.write_json("run.json", &info)?;
        execution.progress = Progress::new(u64::from(left), "replicates", clock, request.quiet);
    }

    info.left_out.append(&mut lock(&execution.unable));
    let applied = lock(&execution.applied);
    // The remaining cells of a resumed run may not use every era.
    for era in materials.eras.values() {
        if let Some(applied) = applied.get(&era.name) {
            let info_of_era = era_info(era, Some(applied));
            info.eras.retain(|other| other.name != info_of_era.name);
            info.eras.push(info_of_era);
        }
    }
    info.eras.sort_by(|a, b| a.name.cmp(&b.name));
    drop(applied);
    let was_interrupted = interrupted();
    if was_interrupted {
        info.notes.push(INTERRUPTED.to_owned());
    } else if result.is_ok() {
        info.finished = Some(clock.realtime_of(clock.now()).as_secs_f64());
    }
    let written = folder.write_json("run.json", &info);
    // The error that ended the run is more informative than a later write error.
    result?;
    written?;
    let plots = plots::draw(study, &folder, &Run::records(folder.path())?)?;
    folder.write_json("plots.json", &plots)?;
    let valid_cells = lock(&execution.valid_cells);
    // A cell that its server cannot run is left out, as those found before the run are.
    let is_left_out = |cell: &Cell| {
        let mut left_out = info.left_out.iter();
        left_out.any(|out| out.block == cell.block && out.cell == cell.key)
    };
    let without = cells
        .iter()
        .filter(|cell| !valid_cells.contains(&cell.folder()) && !is_left_out(cell));
    Ok(Outcome {
        replicates: execution.recorded.load(Ordering::Relaxed),
        invalid: execution.invalid.load(Ordering::Relaxed),
        cells_without_figures: without.count() as u32,
        interrupted: was_interrupted,
    })
}

/// The folder of a cell that is not measured.
fn folder_of_left_out(cell: &LeftOut) -> String {
    folder_of(&cell.block, &cell.cell)
}

/// The description of a resumed run: its original start and command, and notes about the resumption.
fn resumed(now: RunInfo, earlier: RunInfo, cells: &[Cell]) -> RunInfo {
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
    // A changed machine is noted but not refused: a kernel update or a change of the guest may have caused the
    // interruption.
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
    // Inputs that only an earlier invocation used are part of the run too.
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
        // An invocation that runs fewer cells (`--only`) does not make the run complete.
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

/// The entries of two invocations; where both have one, that of the later.
fn united<T>(mut now: Vec<T>, earlier: Vec<T>, is_same: impl Fn(&T, &T) -> bool) -> Vec<T> {
    for entry in earlier {
        if !now.iter().any(|other| is_same(other, &entry)) {
            now.push(entry);
        }
    }
    now
}

fn info(
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

fn era_info(era: &Era, applied: Option<&[AppliedSettings; 2]>) -> EraInfo {
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

/// The state that the workers of a run share.
struct Execution<'a> {
    shared: Shared<'a>,
    replicates: &'a dyn Replicates,
    materials: &'a Materials,
    folder: &'a RunFolder,
    /// The rank of this machine, for the records of a share.
    machine: Option<u32>,
    failed: &'a AtomicBool,
    progress: Progress,
    applied: Mutex<BTreeMap<String, [AppliedSettings; 2]>>,
    valid_cells: Mutex<BTreeSet<String>>,
    /// Cells that their server reported as unsupported.
    unable: Mutex<Vec<LeftOut>>,
    recorded: AtomicU32,
    invalid: AtomicU32,
}

impl Execution<'_> {
    /// Runs one replicate and returns whether it is valid. A failure also stops the replicates in flight: over
    /// a modem path they would otherwise continue for minutes.
    fn run(&self, job: &Job, order: u32) -> Result<bool, RunError> {
        let made = catch_unwind(AssertUnwindSafe(|| self.make(job, order)));
        match made.unwrap_or_else(|panic| Err(panicked(job, panic.as_ref()))) {
            // Interrupted by the user, or by the failure of another replicate.
            Err(RunError::Replicate(ReplicateError::Interrupted)) => Ok(true),
            // A repetition would fail for the same reason.
            Err(RunError::Replicate(ReplicateError::Server(error))) if error.is_inability() => {
                let cell = job.cell.left_out(error.to_string());
                let mut unable = lock(&self.unable);
                if !unable.contains(&cell) {
                    unable.push(cell);
                }
                drop(unable);
                self.progress.step("one that its server does not support");
                Ok(true)
            }
            Err(error) => {
                self.failed.store(true, Ordering::Relaxed);
                Err(error)
            }
            made => made,
        }
    }

    /// Runs one replicate and records it.
    fn make(&self, job: &Job, order: u32) -> Result<bool, RunError> {
        let record = self.attempt(job, order)?;
        let valid = record.validity.is_valid();
        match self.machine {
            None => self.folder.append_replicate(&record)?,
            Some(machine) => self.folder.append_replicate(&OfMachine {
                record: &record,
                machine,
            })?,
        }
        self.recorded.fetch_add(1, Ordering::Relaxed);
        if valid {
            lock(&self.valid_cells).insert(job.cell.folder());
        } else {
            self.invalid.fetch_add(1, Ordering::Relaxed);
        }
        let invalid = self.invalid.load(Ordering::Relaxed);
        // A replicate that will be repeated does not count as progress.
        if valid || !Queue::has_another_chance(job) {
            self.progress.step(&format!("{invalid} invalid"));
        }
        Ok(valid)
    }

    fn attempt(&self, job: &Job, order: u32) -> Result<ReplicateRecord, RunError> {
        let cell = &job.cell;
        let folder_name = past::attempt_folder(cell, job.replicate, job.attempt);
        let folder = self.folder.attempt_folder(&folder_name)?;
        let (profile, _) = &self.materials.profiles[cell.level("path")];
        let era = &self.materials.eras[cell.level("era")];
        let (definition, installed) = &self.materials.servers[cell.level("server")];
        let setup = Setup {
            cell,
            replicate: job.replicate,
            profile,
            era,
            definition,
            installed: installed.as_ref(),
            beside: cell.beside().map(|(_, server)| {
                let (definition, installed) = &self.materials.servers[server];
                (definition, installed.as_ref())
            }),
            folder: &folder,
        };
        let figures = match self.replicates.run(&self.shared, &setup) {
            Ok(Finished { figures, applied }) => {
                lock(&self.applied)
                    .entry(era.name.clone())
                    .or_insert(applied);
                figures
            }
            Err(ReplicateError::Server(error)) if error.is_inability() => {
                return Err(ReplicateError::Server(error).into());
            }
            // If a server does not start, its cell is invalid; the run continues.
            Err(error @ (ReplicateError::Server(_) | ReplicateError::Beforehand { .. })) => {
                Figures {
                    seed: self.shared.seed,
                    started: Clock::start().realtime_of(Instant::ZERO).as_secs_f64(),
                    metrics: BTreeMap::new(),
                    path: PathCertificate::default(),
                    validity: Validity {
                        reasons: vec![error.to_string()],
                    },
                }
            }
            Err(error) => return Err(error.into()),
        };
        Ok(ReplicateRecord {
            block: cell.block.clone(),
            cell: cell.key.clone(),
            replicate: job.replicate,
            seed: figures.seed.0,
            order,
            started: figures.started,
            metrics: figures.metrics,
            path: figures.path,
            validity: figures.validity,
            folder: folder_name,
        })
    }
}

fn panicked(job: &Job, panic: &(dyn Any + Send)) -> RunError {
    let message = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    RunError::Panicked {
        cell: job.cell.folder(),
        replicate: job.replicate,
        message: message.unwrap_or_else(|| "a panic without a message".to_owned()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
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
