//! Runs Slurm jobs: [`folder`] creates a job's folder, [`programs`] submits and cancels the job, and [`follow`]
//! passes on its output until it has ended. The files' contents, and the rules for a job's end, are in
//! `fathometer_cluster::slurm`.

pub mod folder;
pub mod follow;
pub mod programs;

use std::io;

use fathometer_cluster::slurm::files::NotAnExitCode;

/// Why a job was not submitted, or cannot be followed.
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
