//! One execution of a study: all replicates of all cells, written down as they end.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fathometer_analysis::run::{
    EraInfo, LeftOut, Mode, PathInfo, Run, RunInfo, ServerInfo, Setting, SettingState,
};
use fathometer_model::{Instant, PathCertificate, ReplicateRecord, Seed, Validity};
use fathometer_sys::era::{AppliedSettings, SettingOutcome};
use fathometer_sys::{Clock, Machine};

use super::files::StudyFiles;
use super::load::{LoadSite, ability};
use super::materials::{Materials, askable, limitable, wanted_cells};
use super::page;
use super::past::{self, Mismatch, Past};
use super::plots;
use super::replicate::{self, Finished, ReplicateError, Setup, Shared};
use super::schedule::{self, Job, Queue};
use super::spec::{Cell, Kind, SpecError, Study};
use crate::build_facts;
use crate::data::DataError;
use crate::era::{Era, EraError};
use crate::lab::Side;
use crate::leftovers;
use crate::progress::Progress;
use crate::run_folder::{OpenError, RunFolder, WriteError};
use crate::server::definition::DefinitionError;
use crate::server::{Installed, Scratch, ScratchError};
use crate::site_folder::{self, SiteFolderError};
use crate::workload;

/// What a run says that the user has ended.
const INTERRUPTED: &str = "interrupted by the user: cells that had not been run are not measured";

/// What is to be run.
pub struct Request {
    /// The study.
    pub study: Study,
    /// The files that it was read from.
    pub files: StudyFiles,
    /// How much of it.
    pub mode: Mode,
    /// Levels that cells must have (`path=wan`), several of one factor being alternatives.
    pub only: Vec<(String, String)>,
    /// Repetitions of every cell, instead of the study's.
    pub replicates: Option<u32>,
    /// The seed that everything random comes from.
    pub seed: Seed,
    /// The run's folder, to be made.
    pub folder: PathBuf,
    /// The command line, for the record.
    pub command: Vec<String>,
    /// No progress.
    pub quiet: bool,
    /// Whether the folder holds a run of this study that was interrupted and is to be resumed.
    pub resume: bool,
}

/// What came of it.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// Replicates written down, every attempt included.
    pub replicates: u32,
    /// Of these, invalid ones.
    pub invalid: u32,
    /// Cells without any valid replicate.
    pub cells_without_figures: u32,
    /// Whether the user ended it early.
    pub interrupted: bool,
}

/// Why a run could not be made or went no further. What was measured before is in its folder.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The study.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Something named in it.
    #[error(transparent)]
    Data(#[from] DataError),
    /// An era.
    #[error(transparent)]
    Era(#[from] EraError),
    /// A server.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A path profile.
    #[error(transparent)]
    Profile(#[from] fathometer_path::ProfileError),
    /// The site's folder.
    #[error(transparent)]
    Site(#[from] SiteFolderError),
    /// The run's folder could not be made or opened: nothing was measured.
    #[error(transparent)]
    Folder(#[from] OpenError),
    /// A file of the run.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A temporary folder.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// A replicate panicked, which is a defect of the program.
    #[error(
        "{cell} replicate {replicate} ended by a defect of this program: {message}: please report it"
    )]
    Panicked {
        /// The cell.
        cell: String,
        /// Which repetition.
        replicate: u32,
        /// What the panic says.
        message: String,
    },
    /// A replicate.
    #[error(transparent)]
    Replicate(#[from] ReplicateError),
    /// The workload is one of files alone.
    #[error("the workload {0:?} has no page that could be retrieved")]
    Workload(String),
    /// A workload that is not known, or cannot be made.
    #[error(transparent)]
    LoadWorkload(#[from] workload::LoadError),
    /// An earlier sitting of the run cannot be read.
    #[error("cannot resume the run: {0}")]
    Earlier(#[from] fathometer_analysis::Error),
    /// It is another run's.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
    /// Nothing is left to run.
    #[error("no cell of the study is left to run: {0}")]
    Empty(String),
}

/// Said of a run in a virtual machine.
const AWAKE: &str = "this machine is a guest: its processors are kept awake while it measures, since \
                     a processor that the hypervisor has to wake is late";

/// Runs it.
pub fn execute(
    request: &Request,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Outcome, RunError> {
    let study = &request.study;
    let mode = match request.mode {
        Mode::Quick => "quick",
        Mode::Full => "full",
    };
    let mut notes: Vec<String> = study.scale.iter().map(|s| format!("scale: {s}")).collect();
    let mut cells = wanted_cells(study, mode, &request.only)?;
    if let Some(replicates) = request.replicates {
        for cell in &mut cells {
            cell.replicates = replicates;
        }
    }
    // Of runs that were killed, whatever they were of.
    leftovers::remove();
    let materials = Materials::load(&cells)?;
    let mut left_out = Vec::new();
    let cells = materials.possible(cells, &mut left_out);
    let cells = match study.kind {
        Kind::Page => page::possible(cells, &materials.servers, &mut left_out),
        Kind::Load => {
            let cells = askable(cells, &mut left_out);
            limitable(study, cells, &ability::lacking(), &mut left_out)
        }
    };
    if cells.is_empty() {
        let reasons: BTreeSet<&str> = left_out.iter().map(|cell| cell.reason.as_str()).collect();
        let reasons: Vec<&str> = reasons.into_iter().collect();
        return Err(RunError::Empty(reasons.join("; ")));
    }
    let scratch = Scratch::new()?;
    let (pages, sites) = match study.kind {
        Kind::Page => {
            let programs = |(_, installed): &(_, Option<Installed>)| installed.is_some();
            let on_disk = materials.servers.values().any(programs);
            let pages = page::site::load(&cells, request.seed, on_disk, scratch.path())?;
            (pages, BTreeMap::new())
        }
        Kind::Load => {
            let sites = load_sites(&cells, request.seed, scratch.path(), &mut notes)?;
            (BTreeMap::new(), sites)
        }
    };
    let awake = fathometer_sys::awake::in_a_guest(&fathometer_sys::Machine::read());
    notes.extend(awake.as_ref().map(|_| AWAKE.to_owned()));
    let clock = Clock::start();
    let planned: u32 = cells.iter().map(|cell| cell.replicates).sum();
    let mut info = info(request, &materials, &cells, notes, planned, clock);
    info.left_out = left_out;
    let (folder, past) = match request.resume {
        false => {
            let folder = RunFolder::create(request.folder.clone())?;
            (folder, Past::default())
        }
        true => {
            // Not a file is made in a folder that is no run, or another's.
            let earlier = Run::load(&request.folder)?;
            past::check(&earlier, &info)?;
            let folder = RunFolder::reopen(request.folder.clone())?;
            // Read when no other program writes to it any more.
            let earlier = Run::load(&request.folder)?;
            info = resumed(info, earlier.info);
            (folder, Past::of(&Run::records(&request.folder)?))
        }
    };
    folder.write_json("run.json", &info)?;
    request.files.keep(&folder)?;
    let to_make = planned - past.done(&cells);
    let (made, were_invalid) = past.made();

    let failed = AtomicBool::new(false);
    let ending = || interrupted() || failed.load(Ordering::Relaxed);
    let execution = Execution {
        shared: Shared {
            study,
            pages: &pages,
            sites: &sites,
            mode,
            seed: request.seed,
            interrupted: &ending,
            building: Mutex::new(()),
        },
        materials: &materials,
        folder: &folder,
        failed: &failed,
        progress: Progress::new(u64::from(to_make), "replicates", clock, request.quiet),
        applied: Mutex::new(BTreeMap::new()),
        valid_cells: Mutex::new(past.valid_cells().map(str::to_owned).collect()),
        unable: Mutex::new(Vec::new()),
        replicates: AtomicU32::new(made),
        invalid: AtomicU32::new(were_invalid),
    };
    let lanes = past.left(schedule::lanes(&cells, request.seed));
    let place = AtomicU32::new(past.next_place());
    let turns = schedule::turns(lanes, &study.alone);
    let result = turns.into_iter().try_for_each(|lanes| {
        schedule::execute(lanes, &study.side_by_side, &ending, &|job, _| {
            execution.run(job, place.fetch_add(1, Ordering::Relaxed))
        })
    });
    execution.progress.finish();

    info.left_out.append(&mut lock(&execution.unable));
    let applied = lock(&execution.applied);
    // In what is left of a run an era may not occur any more.
    for era in materials.eras.values() {
        if let Some(applied) = applied.get(&era.name) {
            let told = era_info(era, Some(applied));
            info.eras.retain(|other| other.name != told.name);
            info.eras.push(told);
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
    // What ended the run says more than what could not be written after it.
    result?;
    written?;
    let plots = plots::draw(study, &folder, &lock(&execution.valid_cells))?;
    folder.write_json("plots.json", &plots)?;
    let valid_cells = lock(&execution.valid_cells);
    let without = cells
        .iter()
        .filter(|cell| !valid_cells.contains(&cell.folder()));
    Ok(Outcome {
        replicates: execution.replicates.load(Ordering::Relaxed),
        invalid: execution.invalid.load(Ordering::Relaxed),
        cells_without_figures: without.count() as u32,
        interrupted: was_interrupted,
    })
}

/// The workloads that cells name, each with its files in a folder below `scratch`.
fn load_sites(
    cells: &[Cell],
    seed: Seed,
    scratch: &Path,
    notes: &mut Vec<String>,
) -> Result<BTreeMap<String, LoadSite>, RunError> {
    let names: BTreeSet<&str> = cells.iter().map(|cell| cell.level("workload")).collect();
    let mut sites = BTreeMap::new();
    for name in names {
        let loaded = workload::load(name, seed, &mut |_, _| {})?;
        let folder = scratch.join(name.replace(['/', ':'], "-"));
        site_folder::write(&loaded.site(seed), &folder)?;
        let told = loaded.notes();
        notes.extend(told.iter().map(|note| format!("{name}: {note}")));
        let site = LoadSite {
            plan: Arc::new(loaded.into_plan()),
            folder,
        };
        sites.insert(name.to_owned(), site);
    }
    Ok(sites)
}

/// What a run that is resumed says of itself: where it began, and how it was begun.
fn resumed(now: RunInfo, earlier: RunInfo) -> RunInfo {
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
    // Not refused, as a kernel update or a changed guest may be what interrupted it; but to be known.
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
    // What only an earlier sitting named is part of the run.
    let mut data = earlier.data;
    data.extend(now.data);
    RunInfo {
        started: earlier.started,
        command: earlier.command,
        eras: match earlier.eras.is_empty() {
            true => now.eras,
            false => earlier.eras,
        },
        notes,
        data,
        ..now
    }
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
        build: Some(build_facts::facts()),
        study_files: request.files.hashes(),
        data: materials.data.clone(),
        machine: machine_facts(&Machine::read()),
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
    }
}

/// The machine in words, for the record.
pub fn machine_facts(machine: &Machine) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut put = |name: &str, value: String| {
        facts.insert(name.to_owned(), value);
    };
    put("cpu", machine.processor.clone());
    put("cores", machine.processors.to_string());
    put("memory", machine.memory.to_string());
    put("kernel", machine.kernel.clone());
    put("architecture", machine.architecture.clone());
    put("os", machine.distribution.clone());
    put("clock_source", machine.clock_source.clone());
    put("steal_pct", format!("{:.2}", 100.0 * machine.steal));
    if let Some(hypervisor) = &machine.hypervisor {
        put("hypervisor", hypervisor.clone());
    }
    facts
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
                SettingOutcome::AlreadySo => (SettingState::Applied, None),
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

/// What the workers of a run share.
struct Execution<'a> {
    shared: Shared<'a>,
    materials: &'a Materials,
    folder: &'a RunFolder,
    failed: &'a AtomicBool,
    progress: Progress,
    applied: Mutex<BTreeMap<String, [AppliedSettings; 2]>>,
    valid_cells: Mutex<BTreeSet<String>>,
    /// Cells that a server said it cannot do.
    unable: Mutex<Vec<LeftOut>>,
    replicates: AtomicU32,
    invalid: AtomicU32,
}

impl Execution<'_> {
    /// Makes one replicate and says whether it is valid. When it fails, those under way beside it are
    /// ended too: on a modem line they would otherwise go on for minutes.
    fn run(&self, job: &Job, order: u32) -> Result<bool, RunError> {
        let made = catch_unwind(AssertUnwindSafe(|| self.make(job, order)));
        match made.unwrap_or_else(|panic| Err(panicked(job, panic.as_ref()))) {
            // By the user, or by the failure of another.
            Err(RunError::Replicate(ReplicateError::Interrupted)) => Ok(true),
            // It would not be able a second time either.
            Err(RunError::Replicate(ReplicateError::Server(error))) if error.is_inability() => {
                let cell = job.cell.left_out(error.to_string());
                let mut unable = lock(&self.unable);
                if !unable.contains(&cell) {
                    unable.push(cell);
                }
                drop(unable);
                self.progress.step("one that its server cannot do");
                Ok(true)
            }
            Err(error) => {
                self.failed.store(true, Ordering::Relaxed);
                Err(error)
            }
            made => made,
        }
    }

    /// Makes one replicate and writes it down.
    fn make(&self, job: &Job, order: u32) -> Result<bool, RunError> {
        let record = self.attempt(job, order)?;
        let valid = record.validity.is_valid();
        self.folder.append_replicate(&record)?;
        self.replicates.fetch_add(1, Ordering::Relaxed);
        if valid {
            lock(&self.valid_cells).insert(job.cell.folder());
        } else {
            self.invalid.fetch_add(1, Ordering::Relaxed);
        }
        let invalid = self.invalid.load(Ordering::Relaxed);
        // What will be made again later is not done.
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
            order,
            profile,
            era,
            definition,
            installed: installed.as_ref(),
            beside: cell.beside().map(|(_, server)| {
                let (definition, installed) = &self.materials.servers[server];
                (definition, installed.as_ref())
            }),
            folder: &folder,
            folder_name: folder_name.clone(),
        };
        match replicate::run(&self.shared, &setup) {
            Ok(Finished { record, applied }) => {
                lock(&self.applied)
                    .entry(era.name.clone())
                    .or_insert(applied);
                Ok(record)
            }
            Err(ReplicateError::Server(error)) if error.is_inability() => {
                Err(ReplicateError::Server(error).into())
            }
            // A server that does not start spoils its cell, not the run.
            Err(error @ (ReplicateError::Server(_) | ReplicateError::Beforehand { .. })) => {
                Ok(ReplicateRecord {
                    block: cell.block.clone(),
                    cell: cell.key.clone(),
                    replicate: job.replicate,
                    seed: self.shared.seed.0,
                    order,
                    started: Clock::start().realtime_of(Instant::ZERO).as_secs_f64(),
                    metrics: BTreeMap::new(),
                    path: PathCertificate::default(),
                    validity: Validity {
                        reasons: vec![error.to_string()],
                    },
                    folder: folder_name,
                })
            }
            Err(error) => Err(error.into()),
        }
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
