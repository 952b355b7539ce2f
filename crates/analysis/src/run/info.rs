//! The facts about a run: the content of `run.json`.

use std::collections::BTreeMap;

use fathometer_model::{CellKey, Seed};
use serde::{Deserialize, Serialize};

use crate::statistics::{Intervals, LEVEL, Looks};
use crate::study_share::{MeasuringMachine, StudyShare};

/// The content of `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// The format version of the run's files; [`RunInfo::FORMAT`].
    pub format: u32,
    /// The study's short name, as in `nielsen97`.
    pub study: String,
    /// The study's title.
    pub title: String,
    /// The part of the study that the run measures.
    pub mode: Mode,
    /// The command line, program first.
    pub command: Vec<String>,
    /// The version of the program.
    pub version: String,
    /// The build of the program; absent in runs of versions that do not record it.
    #[serde(default)]
    pub build: Option<Build>,
    /// The SHA-256 of each of the study's files, by name: `study.toml` and the files of its claims.
    #[serde(default)]
    pub study_files: BTreeMap<String, String>,
    /// Other inputs that the cells name, each with the SHA-256 of its file. For a program it is the version: `path
    /// lan`, `server nginx/server.toml`, `program nginx`, `workload log:access.log`.
    #[serde(default)]
    pub data: BTreeMap<String, String>,
    /// Facts about the machine: `cpu`, `cores`, `memory`, `kernel`, `os`, and others if available.
    pub machine: BTreeMap<String, String>,
    /// The seed of all random choices.
    pub seed: Seed,
    /// Start, in seconds since the Unix epoch.
    pub started: f64,
    /// End, in seconds since the Unix epoch; absent while the run is in progress, and if it was killed.
    #[serde(default)]
    pub finished: Option<f64>,
    /// The planned number of replicates of all cells; absent in runs that did not record it.
    #[serde(default)]
    pub replicates_planned: Option<u64>,
    /// The TCP profiles, with the settings that the kernel applied and those that it cannot apply.
    #[serde(default)]
    pub eras: Vec<EraInfo>,
    /// The path profiles.
    #[serde(default)]
    pub paths: Vec<PathInfo>,
    /// The servers under test.
    #[serde(default)]
    pub servers: Vec<ServerInfo>,
    /// Notes for readers, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Cells of the study that the run does not measure.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// The rule that adds replicates while verdicts are undecided; absent if the number of replicates is fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopping: Option<Stopping>,
    /// This machine's share of a study that several machines measure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<StudyShare>,
    /// The machines that measured a merged run, by rank. `machine` then contains the facts on which they agree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MeasuringMachine>,
}

/// The design of a run that adds replicates to cells while verdicts or figures are undecided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stopping {
    /// The required precision of figures in tables: the longest allowed half length of an interval, as a share of the
    /// figure. Absent if only verdicts count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision_share: Option<f64>,
    /// The planned looks: numbers of replicates of a cell after which the verdicts are evaluated, in ascending order;
    /// at least one.
    pub looks: Vec<u32>,
    /// The look that the run has reached, from 0.
    pub look: usize,
    /// The number of replicates of each cell up to the current look, by the cell's folder.
    pub replicates: BTreeMap<String, u32>,
    /// The reason why the run ended; absent while the run is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

impl Stopping {
    /// States the number of replicates, the reason for it, and the correction of the intervals for several looks.
    pub fn sentence(&self) -> String {
        let why = match &self.ended {
            Some(reason) => format!("the run ended because {reason}"),
            None => "the run was interrupted".to_owned(),
        };
        format!(
            "Replicates were added where something was undecided; {why}. This is look {} of at most {}: its intervals have \
             level {:.1} %, so that all looks together err as often as one interval of level {:.0} %.",
            self.look + 1,
            self.looks.len(),
            100.0 * self.level(),
            100.0 * LEVEL
        )
    }

    /// The level of the intervals at the current look. [`LEVEL`] is the joint level of all looks.
    pub fn level(&self) -> f64 {
        let last = self.looks.len().saturating_sub(1);
        match self.looks.is_empty() {
            true => LEVEL,
            false => Looks::at(self.looks.clone()).level(self.look.min(last), LEVEL),
        }
    }
}

/// A build of the program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// The version.
    pub version: String,
    /// The commit of the sources, if known.
    #[serde(default)]
    pub commit: Option<String>,
    /// Whether the sources had uncommitted changes, if known.
    #[serde(default)]
    pub modified: Option<bool>,
    /// The SHA-256 of the program's file; empty if the file could not be read.
    pub sha256: String,
}

/// Writes a build as in `0.1.0 (0123456789ab, modified), program 0123456789ab`.
impl std::fmt::Display for Build {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.version)?;
        if let Some(commit) = &self.commit {
            let modified = match self.modified {
                Some(true) => ", modified",
                _ => "",
            };
            write!(f, " ({commit}{modified})")?;
        }
        match self.sha256.get(..12) {
            Some(start) => write!(f, ", program {start}"),
            None => Ok(()),
        }
    }
}

/// A cell that the run does not measure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The study's block.
    pub block: String,
    /// The levels.
    pub cell: CellKey,
    /// The reason, a fragment of a sentence.
    pub reason: String,
}

impl RunInfo {
    /// The method of the intervals. The stated level is the joint level of all looks, wherever the run ends.
    pub fn intervals(&self) -> Intervals {
        Intervals {
            level: self.stopping.as_ref().map_or(LEVEL, Stopping::level),
        }
    }

    /// The newest format that this version reads, and the format that it writes.
    pub const FORMAT: u32 = 1;
}

/// The part of a study that a run measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Every cell, with one or two replicates.
    Quick,
    /// Every cell, with the replicates that the study states.
    Full,
    /// The run that the study's file defines for publication.
    Published,
}

impl Mode {
    /// The name of the mode, as in records and in a study's file: `quick`, `full` or `published`.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Quick => "quick",
            Mode::Full => "full",
            Mode::Published => "published",
        }
    }
}

/// A TCP profile, and the result of applying it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EraInfo {
    /// The level of the factor `era`, as in `1997`.
    pub name: String,
    /// What the profile represents, one sentence.
    #[serde(default)]
    pub description: String,
    /// The parts of the profile that the kernel cannot apply, one sentence each.
    #[serde(default)]
    pub limits: Vec<String>,
    /// Every requested setting.
    pub settings: Vec<Setting>,
}

/// One setting of a TCP profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The name of the setting, as in `net.ipv4.tcp_sack` or `initial window`.
    pub name: String,
    /// The requested value.
    pub wanted: String,
    /// Whether the kernel applied it.
    pub state: SettingState,
    /// The reason why the setting was not applied, or the kernel's behaviour instead.
    #[serde(default)]
    pub detail: Option<String>,
}

/// Whether the kernel applied a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SettingState {
    /// The setting was written and read back.
    Applied,
    /// This kernel cannot apply the setting.
    Impossible,
}

/// A path profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathInfo {
    /// The level of the factor `path`, as in `ppp`.
    pub name: String,
    /// The text of the profile.
    pub profile: String,
}

/// A server under test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// The level of the factor `server`, as in `httpd`.
    pub name: String,
    /// The version that the server reports.
    pub version: String,
    /// What the server represents, one sentence.
    #[serde(default)]
    pub description: String,
}
