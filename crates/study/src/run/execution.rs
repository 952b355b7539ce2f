//! Executes single replicates, and records them.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fathometer_analysis::run::LeftOut;
use fathometer_model::{Instant, PathCertificate, ReplicateRecord, Validity};
use fathometer_sys::Clock;
use fathometer_sys::era::AppliedSettings;

use super::RunError;
use crate::experiment::{Figures, Finished, ReplicateError, Replicates, Setup, Shared};
use crate::materials::Materials;
use crate::past;
use crate::progress::Progress;
use crate::run_folder::RunFolder;
use crate::schedule::{Job, Queue};
use crate::share::OfMachine;

/// The state that the workers of a run share.
pub(super) struct Execution<'a> {
    pub(super) shared: Shared<'a>,
    pub(super) replicates: &'a dyn Replicates,
    pub(super) materials: &'a Materials,
    pub(super) folder: &'a RunFolder,
    /// The rank of this machine, for the records of a share of the study.
    pub(super) machine: Option<u32>,
    pub(super) failed: &'a AtomicBool,
    pub(super) progress: Progress,
    pub(super) applied: Mutex<BTreeMap<String, [AppliedSettings; 2]>>,
    pub(super) valid_cells: Mutex<BTreeSet<String>>,
    /// The cells that their servers do not support. This was found when the cells ran.
    pub(super) unable: Mutex<Vec<LeftOut>>,
    pub(super) recorded: AtomicU32,
    pub(super) invalid: AtomicU32,
}

impl Execution<'_> {
    /// Runs one replicate. Returns whether it is valid. A failure also stops the other running replicates, which could
    /// take minutes over a modem path.
    pub(super) fn run(&self, job: &Job, order: u32) -> Result<bool, RunError> {
        let made = catch_unwind(AssertUnwindSafe(|| self.make(job, order)));
        match made.unwrap_or_else(|panic| Err(panicked(job, panic.as_ref()))) {
            // The user or the failure of another replicate interrupted the replicate.
            Err(RunError::Replicate(ReplicateError::Interrupted)) => Ok(true),
            // A repeat would fail for the same reason.
            Err(RunError::Replicate(ReplicateError::Server(error))) if error.is_inability() => {
                let cell = job.cell.left_out(error.to_string());
                let mut unable = lock(&self.unable);
                if !unable.contains(&cell) {
                    unable.push(cell);
                }
                drop(unable);
                self.progress
                    .step("one skipped: not supported by its server");
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
        // A replicate that will be repeated is not counted as progress.
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
            // If a server does not start, its cell is invalid, but the run continues.
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

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
