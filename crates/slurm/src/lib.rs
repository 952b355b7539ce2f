//! Runs Slurm jobs: [`folder`] creates a job's folder, [`programs`] submits and cancels the job, and [`follow`] copies
//! its output until the job has ended. `fathometer_cluster::slurm` defines the contents of the files, and the rules for
//! the end of a job.

pub mod folder;
pub mod follow;
pub mod programs;

use std::io;

use fathometer_cluster::slurm::files::NotAnExitCode;

/// The reason why a job was not submitted, or cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum JobError {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] fathometer_sys::Error),
    /// A program or a file cannot be used.
    #[error(transparent)]
    File(#[from] io::Error),
    /// The exit-code file contains no exit code.
    #[error(transparent)]
    ExitCode(#[from] NotAnExitCode),
    /// A Slurm program failed, or the job's folder cannot be created.
    #[error("{0}")]
    Failed(String),
}
