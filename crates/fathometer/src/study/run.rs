//! One execution of a study: all replicates of all cells, written down as they end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fathometer_analysis::run::{
    EraInfo, Mode, PathInfo, Run, RunInfo, ServerInfo, Setting, SettingState,
};
use fathometer_model::{Instant, PathCertificate, ReplicateRecord, Seed, Validity};
use fathometer_sys::era::{AppliedSettings, SettingOutcome};
use fathometer_sys::{Clock, Machine};

use super::load::{LoadSite, ability};
use super::materials::{Materials, askable, limitable};
use super::page;
use super::past::{self, Mismatch, Past};
use super::plots;
use super::replicate::{self, Finished, ReplicateError, Setup, Shared};
use super::schedule::{self, Job, Queue};
use super::spec::{Cell, Kind, SpecError, Study};
use crate::data::DataError;
use crate::era::{Era, EraError};
use crate::lab::Side;
use crate::progress::Progress;
use crate::run_folder::{RunFolder, WriteError};
use crate::server::definition::DefinitionError;
use crate::server::{Installed, Scratch};
use crate::site_folder::{self, SiteFolderError};
use crate::workload;

/// What a run says that the user has ended.
const INTERRUPTED: &str = "interrupted by the user: cells that had not been run are not measured";

/// What is to be run.
pub struct Request {
    /// The study.
    pub study: Study,
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
    /// Whether the folder holds a run of this study that was interrupted and is to be gone on with.
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
    /// The run's folder could not be made: nothing was measured.
    #[error(transparent)]
    Folder(WriteError),
    /// A file of the run.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A temporary folder.
    #[error(
        "failed to make a temporary folder in {folder}: {0}: name another with TMPDIR",
        folder = std::env::temp_dir().display()
    )]
    Scratch(std::io::Error),
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
    #[error("failed to go on with a run: {0}")]
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
    let materials = Materials::load(&cells)?;
    let cells = materials.possible(cells, &mut notes);
    let cells = match study.kind {
        Kind::Page => page::possible(cells, &mut notes),
        Kind::Load => {
            let cells = askable(cells, &mut notes);
            limitable(study, cells, &ability::lacking(), &mut notes)
        }
    };
    if cells.is_empty() {
        return Err(RunError::Empty(notes.join("; ")));
    }
    let scratch = Scratch::new().map_err(RunError::Scratch)?;
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
    if study.kind == Kind::Load {
        // Of runs that were killed.
        fathometer_sys::cgroup::remove_stale();
    }
    let awake = fathometer_sys::awake::in_a_guest(&fathometer_sys::Machine::read());
    notes.extend(awake.as_ref().map(|_| AWAKE.to_owned()));
    let clock = Clock::start();
    let planned: u32 = cells.iter().map(|cell| cell.replicates).sum();
    let mut info = info(request, &materials, &cells, notes, planned, clock);
    let (folder, past) = match request.resume {
        false => {
            let folder = RunFolder::create(request.folder.clone()).map_err(RunError::Folder)?;
            (folder, Past::default())
        }
        true => {
            let earlier = Run::load(&request.folder)?;
            past::check(&earlier, &study.name, request.mode, request.seed)?;
            info = gone_on_with(info, earlier.info.clone());
            (
                RunFolder::reopen(request.folder.clone())?,
                Past::of(earlier.replicates()),
            )
        }
    };
    folder.write_json("run.json", &info)?;
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
        unable: Mutex::new(BTreeMap::new()),
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

    for (reason, cells) in lock(&execution.unable).iter() {
        let left_out = cells.len();
        info.notes
            .push(format!("{reason}: {left_out} cells left out"));
    }
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

fn wanted_cells(
    study: &Study,
    mode: &str,
    only: &[(String, String)],
) -> Result<Vec<Cell>, RunError> {
    let factors: BTreeSet<&str> = only.iter().map(|(factor, _)| factor.as_str()).collect();
    let cells = study.cells(mode)?;
    for (factor, wanted) in only {
        if factor != "block" && !study.defaults.contains_key(factor) {
            return Err(RunError::Empty(format!(
                "the study has no factor {factor:?}; it has block, {}",
                study
                    .defaults
                    .keys()
                    .cloned()
                    .collect::<Vec<_>>()
                    .join(", ")
            )));
        }
        let known: BTreeSet<&str> = cells.iter().map(|cell| level_of(cell, factor)).collect();
        if !known.contains(wanted.as_str()) {
            return Err(RunError::Empty(format!(
                "the study has no {factor}={wanted}; {factor} can be {}",
                known.into_iter().collect::<Vec<_>>().join(", ")
            )));
        }
    }
    let kept: Vec<Cell> = cells
        .into_iter()
        .filter(|cell| {
            factors.iter().all(|factor| {
                only.iter()
                    .any(|(f, level)| f == factor && level_of(cell, f) == level)
            })
        })
        .collect();
    if kept.is_empty() {
        let wanted: Vec<String> = only
            .iter()
            .map(|(f, level)| format!("{f}={level}"))
            .collect();
        return Err(RunError::Empty(format!(
            "none has {} together",
            wanted.join(", ")
        )));
    }
    Ok(kept)
}

/// The level of a factor, or the name of the block, which can be asked for like one.
fn level_of<'a>(cell: &'a Cell, factor: &str) -> &'a str {
    if factor == "block" {
        &cell.block
    } else {
        cell.level(factor)
    }
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

/// What a run that is gone on with says of itself: where it began, and how it was begun.
fn gone_on_with(now: RunInfo, earlier: RunInfo) -> RunInfo {
    let mut notes = now.notes;
    for note in earlier.notes {
        if !notes.contains(&note) && note != INTERRUPTED {
            notes.push(note);
        }
    }
    notes.push(format!(
        "gone on with after an interruption, by: {}",
        now.command.join(" ")
    ));
    RunInfo {
        started: earlier.started,
        command: earlier.command,
        eras: match earlier.eras.is_empty() {
            true => now.eras,
            false => earlier.eras,
        },
        notes,
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
    /// Cells that a server said it cannot do, by the reason.
    unable: Mutex<BTreeMap<String, BTreeSet<String>>>,
    replicates: AtomicU32,
    invalid: AtomicU32,
}

impl Execution<'_> {
    /// Makes one replicate and says whether it is valid. When it fails, those under way beside it are
    /// ended too: on a modem line they would otherwise go on for minutes.
    fn run(&self, job: &Job, order: u32) -> Result<bool, RunError> {
        match self.make(job, order) {
            // By the user, or by the failure of another.
            Err(RunError::Replicate(ReplicateError::Interrupted)) => Ok(true),
            // It would not be able a second time either.
            Err(RunError::Replicate(ReplicateError::Server(error))) if error.is_inability() => {
                lock(&self.unable)
                    .entry(error.to_string())
                    .or_default()
                    .insert(job.cell.folder());
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
        let again = match job.attempt {
            0 => String::new(),
            attempt => format!("-again{attempt}"),
        };
        let folder_name = format!("cells/{}/r{}{again}", cell.folder(), job.replicate);
        let folder = self.folder.subfolder(&folder_name)?;
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

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
