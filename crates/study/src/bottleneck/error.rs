//! The errors of a bottleneck search.

use std::io;
use std::path::PathBuf;

use fathometer_http::driver::ParsePolicyError;
use fathometer_path::ProfileError;
use fathometer_workload::fault::Fault;

use fathometer_files::scratch::ScratchError;
use fathometer_files::site_folder::SiteFolderError;
use fathometer_lab::era::EraError;
use fathometer_lab::server::ServerError;
use fathometer_lab::server::definition::DefinitionError;
use fathometer_lab::trial::TrialError;
use fathometer_load::workload;

/// Implements conversions of large errors, which are boxed.
macro_rules! boxed {
    ($($variant:ident: $error:ty),*) => {
        $(impl From<$error> for SearchError {
            fn from(error: $error) -> SearchError {
                SearchError::$variant(Box::new(error))
            }
        })*
    };
}

boxed! {
    Definition: DefinitionError,
    CommandLine: toml::de::Error,
    Server: ServerError,
    Profile: ProfileError,
    Era: EraError
}

/// The reason why a search, its set-up, its record or the self-test failed.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The server's definition is not available or invalid.
    #[error(transparent)]
    Definition(Box<DefinitionError>),
    /// The server's command line does not yield a valid definition.
    #[error(transparent)]
    CommandLine(Box<toml::de::Error>),
    /// The server's program is not installed.
    #[error("{title} is not installed: install the package {package}")]
    NotInstalled {
        /// The server.
        title: String,
        /// The Debian packages.
        package: String,
    },
    /// The program env(1), which starts a command line, is missing.
    #[error("env(1) is not installed, but is needed to start a command")]
    NoEnv,
    /// The origin of the server with the planted fault cannot be set up.
    #[error(transparent)]
    Server(Box<ServerError>),
    /// The definition named `embedded` describes a program instead of the embedded origin.
    #[error("the definition of the embedded origin has a table [program]; remove it")]
    NotEmbedded,
    /// The site's folder cannot be written or read.
    #[error(transparent)]
    SiteFolder(#[from] SiteFolderError),
    /// The workload could not be loaded.
    #[error(transparent)]
    Workload(#[from] workload::LoadError),
    /// The file list of a planted bottleneck is malformed.
    #[error(transparent)]
    FileList(#[from] Fault),
    /// The site has no file that can be requested.
    #[error("the site has no file to request")]
    NoFile,
    /// A temporary folder could not be created.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// The path's profile is invalid.
    #[error(transparent)]
    Profile(Box<ProfileError>),
    /// The connection policy is invalid.
    #[error(transparent)]
    Policy(#[from] ParsePolicyError),
    /// The era is not available or invalid.
    #[error(transparent)]
    Era(Box<EraError>),
    /// An error of `fathometer-sys`.
    #[error(transparent)]
    Sys(#[from] fathometer_sys::Error),
    /// A trial could not run.
    #[error("{variant}: {error}")]
    Trial {
        /// The varied set-up.
        variant: String,
        /// The cause.
        error: Box<TrialError>,
    },
    /// There is no planted bottleneck of this name.
    #[error("there is no planted bottleneck {name}: there are {known}")]
    UnknownPlanted {
        /// The given name.
        name: String,
        /// The known names.
        known: String,
    },
    /// The folder of a record could not be created.
    #[error("failed to create the folder {folder}: {error}: choose another with --output", folder = folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// An observation could not be written.
    #[error("failed to write to {folder}: {error}", folder = folder.display())]
    Observation {
        /// The folder of the record.
        folder: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// A file of a record could not be written.
    #[error("failed to write {path}: {error}", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// A file of a record could not be read.
    #[error("failed to read {path}: {error}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// A file of a record is malformed.
    #[error("{file} has an unknown format: {error}")]
    Form {
        /// The file's name.
        file: &'static str,
        /// The cause.
        error: serde_json::Error,
    },
    /// A line of a record is malformed.
    #[error("line {line} of {file}: {error}")]
    Line {
        /// The line, counted from 1.
        line: usize,
        /// The file's name.
        file: &'static str,
        /// The cause.
        error: serde_json::Error,
    },
    /// A result cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl SearchError {
    /// Whether this is a usage error: the command line is invalid.
    pub fn is_usage(&self) -> bool {
        match self {
            SearchError::Workload(error) => error.is_usage(),
            SearchError::Definition(error) => error.is_usage(),
            SearchError::Era(error) => error.is_usage(),
            SearchError::UnknownPlanted { .. } => true,
            _ => false,
        }
    }
}
