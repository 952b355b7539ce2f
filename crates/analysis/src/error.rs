//! Errors of reading a run or a study, and of writing a report.

use std::io;
use std::path::PathBuf;

/// The reason why a run or a study could not be read, or a report could not be written.
///
/// Messages are fragments that fit "failed to …: {error}" and name the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read: the folder contains no run, or permission is denied.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file could not be written: permission is denied, or the disk is full.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file of a run does not have the expected form. A truncated last line is not an error.
    #[error("{}:{line}: {message}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem in this line.
        message: String,
    },
    /// The run was written by a later version, in a format that this version does not support.
    #[error(
        "{} has format {found}, and this version reads up to {known}: use the version that wrote it",
        path.display()
    )]
    Format {
        /// The `run.json`.
        path: PathBuf,
        /// The format of the file.
        found: u32,
        /// The newest format that this version reads.
        known: u32,
    },
    /// The data of a study contradict each other: an undeclared factor, an undefined table.
    #[error("{file}: {message}")]
    Study {
        /// The name of the study's file.
        file: &'static str,
        /// The problem, its place in the file, and the correction.
        message: String,
    },
}

impl Error {
    pub(crate) fn study(file: &'static str, message: impl Into<String>) -> Error {
        Error::Study {
            file,
            message: message.into(),
        }
    }
}
