//! The interface of a kind of study: its factors, its metrics, its requirements, and the code that runs a replicate.
//!
//! The modules `page` and `load` implement the interface. A new kind of study is one module with an [`Experiment`], and
//! one entry of `kinds::ALL`. All other parts of this crate are independent of the kind.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use fathometer_analysis::run::Mode;
use fathometer_model::{PathCertificate, Seed, Validity};
use fathometer_path::Profile;
use fathometer_sys::era::AppliedSettings;

use super::factor::{AnyFactor, LevelError};
use super::spec::{Cell, Key, Limits, Study};
use crate::run_folder::WriteError;
use fathometer_files::site_folder::SiteFolderError;
use fathometer_lab::catalog::Catalog;
use fathometer_lab::era::Era;
use fathometer_lab::nearest;
use fathometer_lab::server::definition::Definition;
use fathometer_lab::server::{Installed, ServerError};
use fathometer_lab::trial::TrialError;
use fathometer_lab::wire;
use fathometer_load::LoadError;
use fathometer_load::{client, workload};
use fathometer_workload::arrivals::RateError;

/// A kind of study.
pub trait Experiment: Sync {
    /// The name of the kind: the value of `kind` in a study's file.
    fn name(&self) -> &'static str;

    /// The description of a replicate in one sentence.
    fn meaning(&self) -> &'static str;

    /// The factors of this kind. The factors of all kinds are not included.
    fn factors(&self) -> Vec<&'static dyn AnyFactor>;

    /// The files that a replicate writes to its folder. Each name has a description of the content.
    fn files(&self) -> &'static [(&'static str, &'static str)];

    /// The keys of a study's file that this kind reads and some other kinds do not.
    fn keys(&self) -> &'static [Key];

    /// Checks the tables of this kind in a study's file.
    ///
    /// # Errors
    /// When the file lacks a table of this kind, or a table cannot be used.
    fn check(&self, _study: &Study) -> Result<(), String> {
        Ok(())
    }

    /// Returns a function that tests whether a cell can run here: whether the machine and the servers support the
    /// requirements of the cell. This call determines the abilities of the machine once.
    fn needs<'a>(&self, study: &'a Study, servers: &'a Servers) -> Needs<'a>;

    /// The lengths of a replicate's warm-up and measured window; `None` if they are not fixed.
    fn window(
        &self,
        _study: &Study,
        _cell: &Cell,
        _mode: Mode,
        _path: &Profile,
    ) -> Option<Duration> {
        None
    }

    /// Prepares the resources that the replicates of these cells share.
    ///
    /// # Errors
    /// When a workload is not available, or its files cannot be written.
    fn prepare(&self, preparation: &Preparation<'_>) -> Result<Prepared, PrepareError>;
}

/// A function that returns the reason why a cell cannot run here; `None` if it can.
pub type Needs<'a> = Box<dyn Fn(&Cell) -> Option<String> + 'a>;

/// The servers of a study by the level of the factor `server`. Each has its program, if the program is installed.
pub type Servers = BTreeMap<String, (Definition, Option<Installed>)>;

/// The inputs of [`Experiment::prepare`].
pub struct Preparation<'a> {
    /// The cells that run.
    pub cells: &'a [Cell],
    /// The servers of the cells.
    pub servers: &'a Servers,
    /// The catalog in which the workloads are looked up.
    pub catalog: &'a Catalog,
    /// The seed of the run.
    pub seed: Seed,
    /// A temporary folder, which exists until the run ends.
    pub scratch: &'a Path,
}

/// The result of [`Experiment::prepare`].
pub struct Prepared {
    /// Runs replicates.
    pub replicates: Box<dyn Replicates>,
    /// Notes for the run's record.
    pub notes: Vec<String>,
}

/// Runs replicates of prepared cells, several at a time.
pub trait Replicates: Sync {
    /// Runs one replicate: builds its laboratory, measures, writes its files, and removes the laboratory.
    ///
    /// # Errors
    /// When the replicate could not run. An invalid measurement is not an error: the record states why it is invalid.
    fn run(&self, shared: &Shared<'_>, setup: &Setup<'_>) -> Result<Finished, ReplicateError>;
}

/// The resources that the replicates of a run share.
pub struct Shared<'a> {
    /// The study.
    pub study: &'a Study,
    /// The mode of the run: the part of the study that is run.
    pub mode: Mode,
    /// The seed of the run.
    pub seed: Seed,
    /// Whether the user has interrupted the run.
    pub interrupted: &'a (dyn Fn() -> bool + Sync),
    /// The lock that is locked while a laboratory is built, so that only one laboratory is built at a time. While the
    /// kernel creates namespaces and devices, no other thread runs on that processor.
    pub building: Mutex<()>,
}

/// The inputs of one replicate.
pub struct Setup<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// The number of the repetition.
    pub replicate: u32,
    /// The path.
    pub profile: &'a Profile,
    /// The TCP settings of both hosts.
    pub era: &'a Era,
    /// The server.
    pub definition: &'a Definition,
    /// The installed program of the server; `None` for a built-in server.
    pub installed: Option<&'a Installed>,
    /// The server of the cell's second load (factor `beside`) and its installed program, if the cell has a second load.
    pub beside: Option<(&'a Definition, Option<&'a Installed>)>,
    /// The replicate's folder, which already exists.
    pub folder: &'a Path,
}

/// The result of a replicate.
pub struct Finished {
    /// The measured figures.
    pub figures: Figures,
    /// The settings of the era that were applied at the client and at the server.
    pub applied: [AppliedSettings; 2],
}

/// The figures of a replicate for its line in `replicates.ndjson`. The runner adds the cell and the number of the
/// replicate.
pub struct Figures {
    /// The seed of the replicate's random decisions.
    pub seed: Seed,
    /// The start of the replicate, in seconds since the Unix epoch.
    pub started: f64,
    /// The measured values by name. A metric that could not be measured is absent.
    pub metrics: BTreeMap<String, f64>,
    /// The certificate of the path.
    pub path: PathCertificate,
    /// Whether the figures are valid.
    pub validity: Validity,
}

/// The reason why the replicates of a study could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The workload has files, but no page.
    #[error("the workload {0:?} has no page to retrieve")]
    NoPage(String),
    /// A workload is unknown, or cannot be generated.
    #[error("{error}{hint}")]
    Workload {
        /// The cause.
        error: workload::LoadError,
        /// The nearest known workload as a question (`did you mean …?`), or an empty text.
        hint: String,
    },
    /// The site's folder could not be written.
    #[error(transparent)]
    Site(#[from] SiteFolderError),
}

/// The reason why a replicate could not run. An invalid measurement is not an error: it is recorded with the reason.
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
    /// The site's folder could not be written or read.
    #[error(transparent)]
    Site(#[from] SiteFolderError),
    /// The load engine failed.
    #[error("failed to apply the load: {0}")]
    Load(#[from] LoadError),
    /// A load of a capacity search cannot be applied.
    #[error("failed to apply the load: {0}")]
    Rate(#[from] RateError),
    /// A file of the run could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The capture could not be read.
    #[error("failed to count the packets in {path}: {error}")]
    Capture {
        /// The capture file.
        path: String,
        /// The cause.
        error: fathometer_packets::CaptureError,
    },
    /// A level cannot be used.
    #[error(transparent)]
    Level(#[from] LevelError),
    /// TLS could not be set up.
    #[error("failed to set up TLS: {0}")]
    Tls(#[from] fathometer_tls::SettingsError),
    /// QUIC's settings are invalid.
    #[error(transparent)]
    Quic(#[from] fathometer_quic_sockets::SettingsError),
    /// HTTP/3 could not be served.
    #[error("failed to serve HTTP/3: {0}")]
    QuicService(#[from] fathometer_origin::http3::ServiceError),
    /// The retrieval before the measured visit, which fills a cache or a session store, failed.
    #[error("failed to retrieve the page from {server} before the measured visit: {reason}")]
    Beforehand {
        /// The server.
        server: String,
        /// The cause.
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

impl Preparation<'_> {
    /// Loads the workload of this name. A file of the workload is first looked up in the study's folder.
    ///
    /// # Errors
    /// When there is no such workload, or it cannot be generated.
    pub(super) fn workload(&self, name: &str) -> Result<workload::Loaded, PrepareError> {
        let reference = self.catalog.workload(name);
        workload::load(&reference, self.seed, &mut |_, _| {}).map_err(|error| {
            let known = workload::names();
            let is_known = known.iter().any(|other| other == name);
            let hint = match error.is_usage() && !is_known && !name.contains(':') {
                true => nearest::suggestion(name, known.iter().map(String::as_str)),
                false => String::new(),
            };
            PrepareError::Workload { error, hint }
        })
    }
}

pub(super) fn wire_limits(limits: &Limits) -> wire::Limits {
    wire::Limits {
        p99: Duration::from_micros(limits.lateness_p99_us),
        maximum: Duration::from_micros(limits.lateness_max_us),
    }
}
