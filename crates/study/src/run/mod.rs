//! Executes a study: runs all replicates of all cells, and records each replicate when it ends.

mod execution;
mod info;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use fathometer_analysis::run::{Build, LeftOut, Mode, Run, RunInfo, StudyShare};
use fathometer_analysis::study::StudyData;
use fathometer_files::scratch::{Scratch, ScratchError};
use fathometer_lab::leftovers;
use fathometer_load::Share;
use fathometer_model::{Instant, Seed};
use fathometer_sys::era::AppliedSettings;
use fathometer_sys::stderr::say;
use fathometer_sys::{Clock, Machine, awake};

use crate::experiment::{Preparation, PrepareError, ReplicateError, Shared};
use crate::files::{FilesError, StudyFiles};
use crate::kinds;
use crate::materials::{Materials, MaterialsError, Selection, requested_cells};
use crate::past::{self, Mismatch, Past};
use crate::plots;
use crate::progress::Progress;
use crate::run_folder::{OpenError, RunFolder, WriteError};
use crate::schedule;
use crate::share::{self, ShareError};
use crate::spec::{Cell, SpecError, Study, folder_of};
use crate::stopping::{Look, Rounds, Rule, total};
use execution::{Execution, lock};
use info::{INTERRUPTED, era_info, info, resumed};

/// A request to run a study.
pub struct Request {
    /// The study.
    pub study: Study,
    /// The files from which the study was read.
    pub files: StudyFiles,
    /// The mode: quick, full or published.
    pub mode: Mode,
    /// The levels that cells must have (`path=wan`). Several levels of one factor are alternatives.
    pub only: Vec<(String, String)>,
    /// The number of replicates of every cell. It overrides the number in the study.
    pub replicates: Option<u32>,
    /// The rule that ends the run, if the number of replicates depends on the verdicts. `replicates` then has no
    /// effect.
    pub stopping: Option<Rule>,
    /// The seed of all random choices.
    pub seed: Seed,
    /// The run's folder.
    pub folder: PathBuf,
    /// The command line, recorded in the run.
    pub command: Vec<String>,
    /// The build of the program, recorded in the run.
    pub build: Build,
    /// Whether progress is hidden.
    pub quiet: bool,
    /// The rank and the number of ranks, if several machines share the study.
    pub share: Option<Share>,
    /// Whether the interrupted run in `folder` is resumed. Otherwise the folder is created.
    pub resume: bool,
}

/// The result of a run.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    /// The number of recorded replicates. Every attempt counts.
    pub replicates: u32,
    /// The number of invalid replicates among the recorded replicates.
    pub invalid: u32,
    /// The number of cells without a valid replicate.
    pub cells_without_figures: u32,
    /// Whether the user interrupted the run.
    pub interrupted: bool,
}

/// The reason why a run could not start or continue. Earlier measurements remain in the run's folder.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The study is invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Cells cannot be selected, or a path, era, server or workload that they name is not available.
    #[error(transparent)]
    Materials(#[from] MaterialsError),
    /// The replicates could not be prepared.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The rule that ends the run depends on claims and tables that cannot be read.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The rule that ends the run depends on claims and tables, but the study has none.
    #[error(
        "the study has no tables and no claims, which would determine the number of replicates: use --replicates \
         instead of --precision and --budget"
    )]
    NothingToDecide,
    /// Several machines cannot share the study.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// The run's folder could not be created or opened. Nothing was measured.
    #[error(transparent)]
    Folder(#[from] OpenError),
    /// A file of the run could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A temporary folder could not be created.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// A replicate panicked because of a bug in this program.
    #[error(
        "{cell} replicate {replicate} failed because of a bug in this program: {message}: please report it"
    )]
    Panicked {
        /// The cell.
        cell: String,
        /// The number of the replicate.
        replicate: u32,
        /// The message of the panic.
        message: String,
    },
    /// A replicate failed.
    #[error(transparent)]
    Replicate(#[from] ReplicateError),
    /// The records of the run to resume cannot be read.
    #[error("cannot resume the run: {0}")]
    Earlier(#[from] fathometer_analysis::Error),
    /// The folder contains a different run.
    #[error(transparent)]
    Mismatch(#[from] Mismatch),
}

impl RunError {
    /// Whether this is a usage error: the command line is wrong, but not the study's files or the machine.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            RunError::Materials(MaterialsError::Empty(_))
                | RunError::NothingToDecide
                | RunError::Share(_)
        )
    }
}

/// The part of a run's design that is independent of this machine.
pub(crate) struct Design {
    /// The requested cells, including those that this machine cannot run.
    pub(crate) cells: Vec<Cell>,
    /// The share of this machine, if several machines share the study.
    pub(crate) share: Option<StudyShare>,
    /// The rule that ends the run, and the claims and tables on which it depends.
    stopping: Option<(Rule, StudyData)>,
}

impl Design {
    /// Returns the design of a request.
    ///
    /// # Errors
    /// When the command line and the study's files contradict each other.
    pub(crate) fn of(request: &Request) -> Result<Design, RunError> {
        let study = &request.study;
        let cells = requested_cells(study, request.mode, &request.only, request.replicates)?;
        let share = match request.share {
            None => None,
            Some(_) if request.stopping.is_some() => return Err(ShareError::Stopping.into()),
            Some(place) => Some(share::share_of(place, &cells, share::boot_id())?),
        };
        let stopping = match request.stopping {
            None => None,
            Some(rule) => {
                let data = request.files.data()?.ok_or(RunError::NothingToDecide)?;
                Some((rule, data))
            }
        };
        Ok(Design {
            cells,
            share,
            stopping,
        })
    }
}

/// Checks a request without using this machine, so that a wrong command line is reported even on a machine that cannot
/// run studies.
///
/// # Errors
/// When the command line and the study's files contradict each other.
pub fn check(request: &Request) -> Result<(), RunError> {
    Design::of(request).map(drop)
}

/// The note in the record of a run in a virtual machine.
const AWAKE: &str = "this machine is a virtual machine: its processors do not halt during the measurement, because the \
 hypervisor resumes a halted processor late; they are kept busy";

/// The mechanisms that prevent the processors from halting.
const POLLING: &str = "by the kernel's polling idle loop";
const THREADS: &str = "by threads of this program";

/// Runs the study.
pub fn execute(
    request: &Request,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Outcome, RunError> {
    let study = &request.study;
    let experiment = kinds::of(study)?;
    let catalog = request.files.catalog();
    let mut notes: Vec<String> = study.scale.iter().map(|s| format!("scale: {s}")).collect();
    let Design {
        cells,
        share,
        stopping,
    } = Design::of(request)?;
    notes.extend(share.as_ref().map(share::note));
    // Removes the leftovers of killed programs of any kind.
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
    let mut rounds = stopping.map(|(rule, data)| Rounds::new(rule, data, &cells));
    let scratch = Scratch::new()?;
    let prepared = experiment.prepare(&Preparation {
        cells: &cells,
        servers: &materials.servers,
        catalog: &catalog,
        seed: request.seed,
        scratch: scratch.path(),
    })?;
    notes.extend(prepared.notes);
    // Only the hosts of studies with loads have a CPU quota.
    let has_quotas = study.load.is_some();
    let awake = awake::in_a_guest(&Machine::read(), !has_quotas);
    notes.extend(awake.as_ref().map(|awake| match awake.is_polling() {
        true => format!("{AWAKE} {POLLING}"),
        false => format!("{AWAKE} {THREADS}"),
    }));
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
        true => reopened(request, &mut info, rounds.as_mut(), &mut cells)?,
    };
    folder.write_json("run.json", &info)?;
    request.files.keep(&folder)?;
    // A resumed run with looks may have planned more replicates than a new run does.
    let to_make = past.left_of(&cells, share.as_ref());
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
        let left = past.left_of(&cells, share.as_ref());
        info.replicates_planned = Some(u64::from(total(&rounds.stopping.replicates)));
        // The file is written before the round, so that the run can be resumed during the round.
        folder.write_json("run.json", &info)?;
        execution.progress = Progress::new(u64::from(left), "replicates", clock, request.quiet);
    }

    info.left_out.append(&mut lock(&execution.unable));
    record_eras(&mut info, &materials, &lock(&execution.applied));
    let was_interrupted = interrupted();
    if was_interrupted {
        info.notes.push(INTERRUPTED.to_owned());
    } else if result.is_ok() {
        info.finished = Some(clock.realtime_of(clock.now()).as_secs_f64());
    }
    let written = folder.write_json("run.json", &info);
    // The error that ended the run is more informative than a later write error, so it is returned first.
    result?;
    written?;
    let plots = plots::draw(study, &folder, &Run::records(folder.path())?)?;
    folder.write_json("plots.json", &plots)?;
    let valid_cells = lock(&execution.valid_cells);
    // Cells that their servers refused during the run are also in `info.left_out`.
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

/// Opens the folder of an interrupted run, and reads its replicates. Updates `info`, `rounds` and `cells` for the
/// resumed run.
fn reopened(
    request: &Request,
    info: &mut RunInfo,
    rounds: Option<&mut Rounds>,
    cells: &mut [Cell],
) -> Result<(RunFolder, Past), RunError> {
    // The run is checked first, so that no file is created in a folder without a run or with a different run.
    let earlier = Run::load(&request.folder)?;
    past::check(&earlier, info)?;
    let folder = RunFolder::reopen(request.folder.clone())?;
    // The run is read again under the lock: no other process can now write to it.
    let earlier = Run::load(&request.folder)?;
    if let (Some(rounds), Some(stopping)) = (rounds, &earlier.info.stopping) {
        rounds.resume(stopping);
        rounds.apply(cells);
        info.stopping = Some(rounds.stopping.clone());
        info.replicates_planned = Some(u64::from(total(&rounds.stopping.replicates)));
    }
    *info = resumed(info.clone(), earlier.info, cells);
    let past = Past::of(&Run::records(&request.folder)?);
    Ok((folder, past))
}

/// Records the settings of each applied era. The earlier record of a resumed run may contain eras that its remaining
/// cells do not use.
fn record_eras(
    info: &mut RunInfo,
    materials: &Materials,
    applied: &BTreeMap<String, [AppliedSettings; 2]>,
) {
    for era in materials.eras.values() {
        if let Some(applied) = applied.get(&era.name) {
            let info_of_era = era_info(era, Some(applied));
            info.eras.retain(|other| other.name != info_of_era.name);
            info.eras.push(info_of_era);
        }
    }
    info.eras.sort_by(|a, b| a.name.cmp(&b.name));
}

/// Returns the folder of a cell that is not measured.
fn folder_of_left_out(cell: &LeftOut) -> String {
    folder_of(&cell.block, &cell.cell)
}
