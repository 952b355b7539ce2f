//! One replicate of any kind: its inputs, its result, and the reasons why it could not run. The retrieval of a
//! page is in [`page`](super::page), load tests are in [`load`](super::load).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use fathometer_model::{ReplicateRecord, Seed};
use fathometer_path::Profile;
use fathometer_sys::era::AppliedSettings;

use super::load::LoadSite;
use super::page::PageSite;
use super::spec::{Cell, Kind, Limits, Study};
use crate::run_folder::WriteError;
use fathometer_files::site_folder::SiteFolderError;
use fathometer_lab::era::Era;
use fathometer_lab::server::definition::Definition;
use fathometer_lab::server::{Installed, ServerError};
use fathometer_lab::trial::TrialError;
use fathometer_lab::wire;
use fathometer_load::LoadError;
use fathometer_load::client;

/// Everything that the replicates of a run share.
pub struct Shared<'a> {
    /// The study.
    pub study: &'a Study,
    /// The workloads of a page study by name.
    pub pages: &'a BTreeMap<String, PageSite>,
    /// The workloads of a load study by name.
    pub sites: &'a BTreeMap<String, LoadSite>,
    /// How much of the study is run: `quick` or `full`.
    pub mode: &'a str,
    /// The seed of the run.
    pub seed: Seed,
    /// Whether the user has interrupted the run.
    pub interrupted: &'a (dyn Fn() -> bool + Sync),
    /// Held while a laboratory is built, so that only one is built at a time: while the kernel creates
    /// namespaces and devices, no other thread runs on that processor.
    pub building: Mutex<()>,
}

/// The inputs of one replicate.
pub struct Setup<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// The number of the repetition.
    pub replicate: u32,
    /// Place in the order of execution.
    pub order: u32,
    /// The path.
    pub profile: &'a Profile,
    /// The TCP of both hosts.
    pub era: &'a Era,
    /// The server.
    pub definition: &'a Definition,
    /// The installed program of the server, if it is not built in.
    pub installed: Option<&'a Installed>,
    /// The server of the load beside, if the cell has one, and its program.
    pub beside: Option<(&'a Definition, Option<&'a Installed>)>,
    /// The replicate's folder, which exists.
    pub folder: &'a Path,
    /// The same folder, relative to the run's.
    pub folder_name: String,
}

/// The result of a replicate.
pub struct Finished {
    /// Its line in the run.
    pub record: ReplicateRecord,
    /// How the era's settings were applied at the client and at the server.
    pub applied: [AppliedSettings; 2],
}

/// Why a replicate could not run at all. A bad measurement is not an error: it is recorded with the reason why
/// it is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ReplicateError {
    /// The laboratory could not be built.
    #[error("failed to build the laboratory: {0}")]
    Lab(#[from] fathometer_sys::Error),
    /// The server failed.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The client failed.
    #[error(transparent)]
    Client(#[from] client::ClientError),
    /// The site's folder failed.
    #[error(transparent)]
    Site(#[from] SiteFolderError),
    /// The load engine failed.
    #[error("failed to make the load: {0}")]
    Load(#[from] LoadError),
    /// A file of the run could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The capture could not be read.
    #[error("failed to account for {path}: {error}")]
    Capture {
        /// The capture file.
        path: String,
        /// What is wrong with the capture.
        error: fathometer_packets::CaptureError,
    },
    /// The study has an unknown level.
    #[error("the study asks for {factor}={level}: {reason}")]
    Level {
        /// The factor.
        factor: &'static str,
        /// Its level.
        level: String,
        /// The accepted levels.
        reason: String,
    },
    /// TLS could not be set up.
    #[error("failed to set up TLS: {0}")]
    Tls(#[from] fathometer_tls::SettingsError),
    /// QUIC's settings are invalid.
    #[error(transparent)]
    Quic(#[from] fathometer_quic_sockets::SettingsError),
    /// HTTP/3 could not be served.
    #[error("failed to serve HTTP/3: {0}")]
    QuicService(#[from] fathometer_origin::http3::ServiceError),
    /// The first retrieval, which fills a cache or a session store, failed.
    #[error("failed to retrieve the page from {server} beforehand: {reason}")]
    Beforehand {
        /// The server.
        server: String,
        /// What went wrong.
        reason: String,
    },
    /// The user has interrupted the run.
    #[error("interrupted")]
    Interrupted,
}

impl From<TrialError> for ReplicateError {
    fn from(error: TrialError) -> ReplicateError {
        match error {
            TrialError::Lab(error) => error.into(),
            TrialError::Server(error) => error.into(),
            TrialError::Site(error) => error.into(),
            TrialError::Load(error) => error.into(),
            TrialError::Interrupted => ReplicateError::Interrupted,
        }
    }
}

/// Runs one replicate.
pub fn run(shared: &Shared<'_>, setup: &Setup<'_>) -> Result<Finished, ReplicateError> {
    match shared.study.kind {
        Kind::Page => super::page::run(shared, setup),
        Kind::Load => super::load::run(shared, setup),
    }
}

pub(super) fn parsed<T>(cell: &Cell, factor: &'static str) -> Result<T, ReplicateError>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    let level = cell.level(factor);
    level
        .parse()
        .map_err(|error: T::Err| ReplicateError::Level {
            factor,
            level: level.to_owned(),
            reason: error.to_string(),
        })
}

pub(super) fn one_of<T: Clone>(
    cell: &Cell,
    factor: &'static str,
    known: &[(&str, T)],
) -> Result<T, ReplicateError> {
    let level = cell.level(factor);
    known
        .iter()
        .find(|(name, _)| *name == level)
        .map(|(_, value)| value.clone())
        .ok_or_else(|| ReplicateError::Level {
            factor,
            level: level.to_owned(),
            reason: format!(
                "it can be {}",
                known
                    .iter()
                    .map(|(name, _)| *name)
                    .collect::<Vec<_>>()
                    .join(" or ")
            ),
        })
}

pub(super) fn wire_limits(limits: &Limits) -> wire::Limits {
    wire::Limits {
        p99: Duration::from_micros(limits.lateness_p99_us),
        maximum: Duration::from_micros(limits.lateness_max_us),
    }
}
