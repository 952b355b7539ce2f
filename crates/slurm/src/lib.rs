//! Jobs of Slurm: [`folder`] makes the folder of one, [`programs`] submits and cancels it, and [`follow`] passes on what
//! it prints until it has ended. What the files contain, and how a job ends, is in `fathometer_cluster::slurm`.

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
    /// The file of an exit code has something else in it.
    #[error(transparent)]
    ExitCode(#[from] NotAnExitCode),
    /// A program of Slurm failed, or the job's folder cannot be made.
    #[error("{0}")]
    Failed(String),
}
