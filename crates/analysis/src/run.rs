//! A run as stored in its folder: what was run, and every replicate.
//!
//! | file | what |
//! |---|---|
//! | `run.json` | [`RunInfo`] |
//! | `replicates.ndjson` | one [`ReplicateRecord`] per line, in the order in which they ended; where several machines share a study, with the member `machine`: the rank. A merged run has the records of rank 0 first |
//! | `plots.json` | optional: a list of [`Plot`]s, SVG files of the same folder |
//! | each record's `folder` | `capture.pcapng` (the client's tap; in runs of older versions all taps), `taps.pcapng` (all taps), `exchanges.ndjson`, `connections.ndjson` of that replicate |
//!
//! A run that was killed is read like any other: a truncated last line is left out, with a warning.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use fathometer_model::{CellKey, ReplicateRecord, Seed};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::statistics::{Intervals, LEVEL, Looks};
pub use crate::study_share::{MeasuringMachine, StudyShare};

/// The content of `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunInfo {
    /// The format version of the run's files; [`RunInfo::FORMAT`].
    pub format: u32,
    /// The study's short name, as in `nielsen97`.
    pub study: String,
    /// The study's title.
    pub title: String,
    /// How much of the study the run measures.
    pub mode: Mode,
    /// The command line, program first.
    pub command: Vec<String>,
    /// The program's version.
    pub version: String,
    /// The program's build; absent in runs of versions that did not record it.
    #[serde(default)]
    pub build: Option<Build>,
    /// The SHA-256 of each of the study's files, by name: `study.toml` and the files of its claims.
    #[serde(default)]
    pub study_files: BTreeMap<String, String>,
    /// Other inputs that the cells name, each with the SHA-256 of its file or, for a program, its version:
    /// `path lan`, `server nginx/server.toml`, `program nginx`, `workload log:access.log`.
    #[serde(default)]
    pub data: BTreeMap<String, String>,
    /// Facts about the machine: `cpu`, `cores`, `memory`, `kernel`, `os`, and others if available.
    pub machine: BTreeMap<String, String>,
    /// The seed of all random choices.
    pub seed: Seed,
    /// Start, in seconds since the Unix epoch.
    pub started: f64,
    /// End, in seconds since the Unix epoch; absent while the run goes on and when it was killed.
    #[serde(default)]
    pub finished: Option<f64>,
    /// Number of planned replicates.
    #[serde(default)]
    pub replicates_planned: Option<u64>,
    /// The TCP profiles, and how far the kernel applied them.
    #[serde(default)]
    pub eras: Vec<EraInfo>,
    /// The path profiles.
    #[serde(default)]
    pub paths: Vec<PathInfo>,
    /// The servers under test.
    #[serde(default)]
    pub servers: Vec<ServerInfo>,
    /// Notes for a reader, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Cells of the study that are not measured.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// How the number of replicates depends on the verdicts; absent when it is fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopping: Option<Stopping>,
    /// The share that this machine measured, if several share the study; absent in a merged run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<StudyShare>,
    /// The machines that measured a merged run, by rank; `machine` then has the facts that all of them have in common.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MeasuringMachine>,
}

/// The design of a run that adds replicates where something is still undecided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stopping {
    /// How far the intervals of figures in tables may reach to each side, as a share of the figure; absent when only
    /// verdicts count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precision_share: Option<f64>,
    /// After how many replicates of a cell the verdicts are looked at, in ascending order; there is at least one.
    pub looks: Vec<u32>,
    /// The look that the run has reached, from 0.
    pub look: usize,
    /// The replicates of each cell up to that look, by the cell's folder.
    pub replicates: BTreeMap<String, u32>,
    /// Why the run ended; absent while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
}

impl Stopping {
    /// How many replicates there are and why, and how the intervals take it into account.
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

    /// The level of the intervals at the look that the run has reached: all looks together have [`LEVEL`].
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
    /// The SHA-256 of the program's file; empty when it could not be read.
    pub sha256: String,
}

/// `0.1.0 (0123456789ab, modified), program 0123456789ab`
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

/// A cell that is not measured.
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
    /// The intervals that the run's design allows: at the stated level, whenever it ended.
    pub fn intervals(&self) -> Intervals {
        Intervals {
            level: self.stopping.as_ref().map_or(LEVEL, Stopping::level),
        }
    }

    /// The format that this version writes, and the newest that it reads.
    pub const FORMAT: u32 = 1;
}

/// How much of a study a run measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Every cell once or twice.
    Quick,
    /// The study's own repetitions.
    Full,
    /// The run that the study's file says is published.
    Published,
}

impl Mode {
    /// Its name: `quick`, `full` or `published`, as in records and in a study's file.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Quick => "quick",
            Mode::Full => "full",
            Mode::Published => "published",
        }
    }
}

/// A TCP profile as it was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EraInfo {
    /// The level of the factor `era`, as in `1997`.
    pub name: String,
    /// What it represents, one sentence.
    #[serde(default)]
    pub description: String,
    /// The parts of it that the kernel cannot apply, one sentence each.
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
    /// Why it was not applied, or what the kernel did instead.
    #[serde(default)]
    pub detail: Option<String>,
}

/// Whether the kernel applied a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SettingState {
    /// It was set, and read back.
    Applied,
    /// This kernel cannot apply it.
    Impossible,
}

/// A path profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathInfo {
    /// The level of the factor `path`, as in `ppp`.
    pub name: String,
    /// The profile's own text.
    pub profile: String,
}

/// A server under test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// The level of the factor `server`, as in `httpd`.
    pub name: String,
    /// Its version, as it reports it.
    pub version: String,
    /// What it represents, one sentence.
    #[serde(default)]
    pub description: String,
}

/// A drawing that belongs to the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plot {
    /// Its heading.
    pub title: String,
    /// What the plot shows.
    pub caption: String,
    /// The SVG file, relative to the run's folder and inside it.
    pub file: String,
}

/// One combination of a block's factors, with all its replicates.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The study's block: `main`, `nagle` …
    pub block: String,
    /// The levels.
    pub key: CellKey,
    /// Its replicates by number.
    pub replicates: Vec<ReplicateRecord>,
}

/// The validity of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellState {
    /// Every replicate is valid.
    Valid,
    /// Some replicates are valid, and the cell's figures come from these alone.
    PartlyValid,
    /// No replicate is valid, so the cell has no figures.
    Invalid,
}

impl Cell {
    /// The validity of the cell.
    pub fn state(&self) -> CellState {
        match self.valid().count() {
            0 => CellState::Invalid,
            n if n < self.replicates.len() => CellState::PartlyValid,
            _ => CellState::Valid,
        }
    }

    /// Its valid replicates.
    pub fn valid(&self) -> impl Iterator<Item = &ReplicateRecord> {
        self.replicates.iter().filter(|r| r.validity.is_valid())
    }

    /// The values of a metric over its valid replicates, with the replicates' numbers.
    pub fn values(&self, metric: &str) -> Vec<(u32, f64)> {
        self.valid()
            .filter_map(|r| Some((r.replicate, *r.metrics.get(metric)?)))
            .collect()
    }

    /// The reasons for invalid replicates of the cell, each distinct reason once.
    pub fn reasons(&self) -> Vec<&str> {
        let mut reasons: Vec<&str> = Vec::new();
        for reason in self.replicates.iter().flat_map(|r| &r.validity.reasons) {
            if !reasons.contains(&reason.as_str()) {
                reasons.push(reason);
            }
        }
        reasons
    }
}

/// A whole run.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Where it is.
    pub folder: PathBuf,
    /// What was run.
    pub info: RunInfo,
    /// Its cells in the order of block and key.
    pub cells: Vec<Cell>,
    /// Its drawings.
    pub plots: Vec<Plot>,
    /// Problems of the files, one sentence each.
    pub warnings: Vec<String>,
    /// Number of replicates with an earlier invalid attempt.
    pub repeated: usize,
}

impl Run {
    /// Reads a run's folder.
    ///
    /// # Errors
    /// When `run.json` is missing or not readable, or when a line other than a truncated last one is not a
    /// record.
    pub fn load(folder: &Path) -> Result<Run, Error> {
        let path = folder.join("run.json");
        let text = read(&path)?;
        let info = run_info(&path, &text)?;
        let mut warnings = Vec::new();
        let path = folder.join("replicates.ndjson");
        let records = if path.exists() {
            replicates(&path, &read(&path)?, &mut warnings)?
        } else {
            warnings.push("there is no replicates.ndjson: nothing was measured".to_owned());
            Vec::new()
        };
        let path = folder.join("plots.json");
        let plots: Vec<Plot> = if path.exists() {
            serde_json::from_str(&read(&path)?).map_err(|e| malformed(&path, e.line(), &e))?
        } else {
            Vec::new()
        };
        for plot in &plots {
            if !stays_inside(Path::new(&plot.file)) {
                let message = format!("the plot {:?} is not inside the run's folder", plot.file);
                return Err(malformed(&path, 1, &message));
            }
        }
        Ok(Run {
            folder: folder.to_owned(),
            repeated: repeated(&records),
            info,
            cells: cells(records, &mut warnings),
            plots,
            warnings,
        })
    }

    /// Reads every record of a run's folder in the order of the file, earlier attempts at a replicate included.
    ///
    /// # Errors
    /// When a line other than a truncated last one is not a record.
    pub fn records(folder: &Path) -> Result<Vec<ReplicateRecord>, Error> {
        let path = folder.join("replicates.ndjson");
        match path.exists() {
            true => replicates(&path, &read(&path)?, &mut Vec::new()),
            false => Ok(Vec::new()),
        }
    }

    /// All replicates, each with its last attempt.
    pub fn replicates(&self) -> impl Iterator<Item = &ReplicateRecord> {
        self.cells.iter().flat_map(|cell| &cell.replicates)
    }

    /// The name of a cell: the levels of those factors that vary in its block, the best known first.
    pub fn name(&self, cell: &Cell) -> String {
        let others = self.cells.iter().map(|cell| (&cell.block, &cell.key));
        name_among(&others, &cell.block, &cell.key)
    }

    /// The name of a cell as if its run did not vary one of the factors.
    pub(crate) fn name_without(&self, cell: &Cell, factor: &str) -> String {
        let of_block = self.cells.iter().filter(|other| other.block == cell.block);
        let keys: Vec<CellKey> = of_block.map(|other| without(&other.key, factor)).collect();
        let others = keys.iter().map(|key| (&cell.block, key));
        name_among(&others, &cell.block, &without(&cell.key, factor))
    }

    /// Cells that are not measured, grouped by reason, each with its block and name.
    pub fn left_out(&self) -> Vec<(&str, Vec<String>)> {
        let measured = self.cells.iter().map(|cell| (&cell.block, &cell.key));
        let others = measured.chain(
            self.info
                .left_out
                .iter()
                .map(|cell| (&cell.block, &cell.cell)),
        );
        let mut by_reason: Vec<(&str, Vec<String>)> = Vec::new();
        for cell in &self.info.left_out {
            let levels = name_among(&others, &cell.block, &cell.cell);
            let name = match levels == cell.block {
                true => levels,
                false => format!("{}, {levels}", cell.block),
            };
            match by_reason
                .iter_mut()
                .find(|(reason, _)| *reason == cell.reason)
            {
                Some((_, names)) => names.push(name),
                None => by_reason.push((&cell.reason, vec![name])),
            }
        }
        by_reason
    }

    /// The levels of a factor among the cells. Those that `run.json` lists come first, in its order.
    pub fn levels(&self, factor: &str) -> Vec<String> {
        let listed: Vec<&str> = match factor {
            "era" => self.info.eras.iter().map(|e| e.name.as_str()).collect(),
            "path" => self.info.paths.iter().map(|p| p.name.as_str()).collect(),
            "server" => self.info.servers.iter().map(|s| s.name.as_str()).collect(),
            _ => Vec::new(),
        };
        let found = self.cells.iter().filter_map(|cell| cell.key.level(factor));
        let is_found = |level: &&str| found.clone().any(|l| l == *level);
        let mut levels: Vec<String> = Vec::new();
        let in_order = listed.iter().copied().filter(is_found).chain(found.clone());
        for level in in_order {
            if !levels.iter().any(|known| known == level) {
                levels.push(level.to_owned());
            }
        }
        levels
    }
}

/// A key without one of its factors.
pub(crate) fn without(key: &CellKey, factor: &str) -> CellKey {
    let mut shared = key.clone();
    shared.0.remove(factor);
    shared
}

/// The name of a cell among others: the levels of those factors that vary in its block.
fn name_among<'a>(
    others: &(impl Iterator<Item = (&'a String, &'a CellKey)> + Clone),
    block: &str,
    key: &CellKey,
) -> String {
    const BARE: [&str; 6] = ["policy", "visit", "workload", "path", "server", "era"];
    let varies = |factor: &str| {
        others
            .clone()
            .filter(|(other, _)| *other == block)
            .any(|(_, other)| other.level(factor) != key.level(factor))
    };
    let bare = BARE.into_iter().filter_map(|factor| {
        let level = key.level(factor).filter(|_| varies(factor))?;
        Some(level.to_owned())
    });
    let rest = key
        .0
        .iter()
        .filter(|(factor, _)| !BARE.contains(&factor.as_str()) && varies(factor))
        .map(|(factor, level)| format!("{factor}={level}"));
    let words: Vec<String> = bare.chain(rest).collect();
    if words.is_empty() {
        block.to_owned()
    } else {
        words.join(" ")
    }
}

/// Whether a relative path can be joined to a folder without leaving it.
pub(crate) fn stays_inside(path: &Path) -> bool {
    path.components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// Reads a text. A file that is cut inside a character is read up to there.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(source) => Err(Error::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

pub(crate) fn malformed(path: &Path, line: usize, message: &impl ToString) -> Error {
    Error::Malformed {
        path: path.to_owned(),
        line,
        message: message.to_string(),
    }
}

fn run_info(path: &Path, text: &str) -> Result<RunInfo, Error> {
    /// The only member that every format of the file has.
    #[derive(Deserialize)]
    struct Form {
        format: u32,
    }
    let form: Form = serde_json::from_str(text).map_err(|e| malformed(path, e.line(), &e))?;
    if form.format > RunInfo::FORMAT {
        return Err(Error::Format {
            path: path.to_owned(),
            found: form.format,
            known: RunInfo::FORMAT,
        });
    }
    serde_json::from_str(text).map_err(|e| malformed(path, e.line(), &e))
}

fn replicates(
    path: &Path,
    text: &str,
    warnings: &mut Vec<String>,
) -> Result<Vec<ReplicateRecord>, Error> {
    let mut records = Vec::new();
    let is_whole = text.ends_with('\n');
    let count = text.lines().count();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(line) {
            Ok(record) => records.push(record),
            Err(_) if index + 1 == count && !is_whole => warnings.push(format!(
                "line {count} of replicates.ndjson is cut short, as when a run is killed: left out"
            )),
            Err(error) => return Err(malformed(path, index + 1, &error)),
        }
    }
    Ok(records)
}

/// Number of replicates that have an earlier, invalid record.
fn repeated(records: &[ReplicateRecord]) -> usize {
    let mut last: BTreeMap<(&str, &CellKey, u32), bool> = BTreeMap::new();
    let mut repeated = BTreeSet::new();
    for record in records {
        let id = (record.block.as_str(), &record.cell, record.replicate);
        if last.insert(id, record.validity.is_valid()) == Some(false) {
            repeated.insert(id);
        }
    }
    repeated.len()
}

fn cells(records: Vec<ReplicateRecord>, warnings: &mut Vec<String>) -> Vec<Cell> {
    let mut cells: BTreeMap<(String, CellKey), BTreeMap<u32, ReplicateRecord>> = BTreeMap::new();
    let mut repeated = 0;
    for record in records {
        let id = (record.block.clone(), record.cell.clone());
        let replicate = record.replicate;
        match cells.entry(id).or_default().insert(replicate, record) {
            None => {}
            Some(earlier) if !earlier.validity.is_valid() => repeated += 1,
            Some(earlier) => warnings.push(format!(
                "replicate {replicate} of {} {} is recorded twice: the later record counts",
                earlier.block, earlier.cell
            )),
        }
    }
    if repeated > 0 {
        warnings.push(format!(
            "{repeated} times an INVALID replicate was repeated; the last attempt counts"
        ));
    }
    cells
        .into_iter()
        .map(|((block, key), replicates)| Cell {
            block,
            key,
            replicates: replicates.into_values().collect(),
        })
        .collect()
}
