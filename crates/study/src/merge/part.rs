//! Reads the run of one of several machines. Defines the errors of a merge.

use std::io;
use std::path::{Component, Path, PathBuf};

use fathometer_analysis::run::{MeasuringMachine, Run, RunInfo, StudyShare};
use fathometer_model::ReplicateRecord;

use crate::files::FilesError;
use crate::run_folder::{OpenError, WriteError};
use crate::spec::{SpecError, folder_of};

/// The reason why runs cannot be merged. The new run's folder is then removed.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A run cannot be read.
    #[error(transparent)]
    Read(#[from] fathometer_analysis::Error),
    /// A run is not a share of a study.
    #[error(
        "{folder} is not a run of one of several machines: only runs of `fathometer study --ranks` can be merged",
        folder = folder.display()
    )]
    NotAShare {
        /// The run.
        folder: PathBuf,
    },
    /// Two runs are not parts of one run.
    #[error(
        "{other} is not a part of the same run as {first}: {differences}",
        other = other.display(), first = first.display(), differences = differences.join("; ")
    )]
    Mismatch {
        /// The run with the lowest rank.
        first: PathBuf,
        /// The other run.
        other: PathBuf,
        /// The differences of the two runs.
        differences: Vec<String>,
    },
    /// Two runs have the same rank.
    #[error(
        "{one} and {other} are both of rank {rank}: give only one of them",
        one = one.display(), other = other.display()
    )]
    Overlap {
        /// The rank.
        rank: u32,
        /// The first run.
        one: PathBuf,
        /// The second run.
        other: PathBuf,
    },
    /// A record contradicts its run.
    #[error("{folder}: the record of {record} {problem}", folder = folder.display())]
    Record {
        /// The run.
        folder: PathBuf,
        /// The cell and the replicate.
        record: String,
        /// The contradiction.
        problem: String,
    },
    /// The files of the study cannot be read.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The study is invalid.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The new run's folder cannot be created.
    #[error(transparent)]
    Folder(#[from] OpenError),
    /// A file of the new run cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A replicate's files cannot be copied.
    #[error("failed to copy {path}: {error}", path = path.display())]
    Copy {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
}

/// The run of one machine, which is a part of the merged run.
pub(super) struct Part {
    pub(super) folder: PathBuf,
    pub(super) info: RunInfo,
    pub(super) share: StudyShare,
    /// The complete records, in the order of the file.
    pub(super) records: Vec<ReplicateRecord>,
}

impl Part {
    /// Reads a run, and checks that it is a share of a study.
    pub(super) fn load(folder: &Path) -> Result<Part, MergeError> {
        let info = Run::load(folder)?.info;
        let share = info.share.clone().ok_or_else(|| MergeError::NotAShare {
            folder: folder.to_owned(),
        })?;
        let records = Run::records(folder)?;
        for record in &records {
            let problem = match () {
                () if !share.has(record.replicate) => {
                    format!(
                        "does not belong to rank {}, the rank of this run",
                        share.rank
                    )
                }
                () if !is_attempt_folder(&record.folder) => {
                    format!(
                        "has the folder {:?}, which is not inside cells/",
                        record.folder
                    )
                }
                () => continue,
            };
            return Err(MergeError::Record {
                folder: folder.to_owned(),
                record: format!(
                    "{} replicate {}",
                    folder_of(&record.block, &record.cell),
                    record.replicate
                ),
                problem,
            });
        }
        Ok(Part {
            folder: folder.to_owned(),
            info,
            share,
            records,
        })
    }

    /// Returns the description of the machine for the merged run.
    pub(super) fn machine(&self) -> MeasuringMachine {
        MeasuringMachine {
            share: self.share.clone(),
            facts: self.info.machine.clone(),
            command: self.info.command.clone(),
            started: self.info.started,
            finished: self.info.finished,
        }
    }
}

/// Whether a record's folder has the form `cells/BLOCK/LEVELS/rN`, which is always inside the run's folder.
fn is_attempt_folder(folder: &str) -> bool {
    let path = Path::new(folder);
    path.starts_with("cells")
        && path.components().count() > 1
        && path
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
}
