//! A study as data: factors and levels, replicates, limits of validity (`papers/<key>/study.toml`).
//!
//! A study has blocks. A block is the full factorial design of its factors, without the excluded cells. A factor that a
//! block does not vary has the study's default level. The key of a cell consists of the factors that its block varies,
//! and of the [`KEY_FACTORS`].

mod capacity;
mod cells;
mod published;
mod sweep;

use std::collections::BTreeMap;

use fathometer_analysis::run::Mode;
use fathometer_model::quantity::{
    Cores, Microseconds, Percent, PositiveTimeSpan, Ratio, RoundTrips, TimeSpan,
};
use schemars::JsonSchema;
use serde::Deserialize;

pub use self::capacity::{Capacity, LoadUnit, SloList};
pub use self::cells::{Cell, folder_of};
pub use self::published::Published;
pub(crate) use self::sweep::SliceLoad;
pub use self::sweep::{Batches, Sweep};
use super::quantities;
use fathometer_lab::nearest::{suggestion, with_suggestion};

/// Factors that are part of every cell's key, even if its block does not vary them.
pub const KEY_FACTORS: [&str; 6] = ["policy", "coding", "visit", "path", "era", "server"];

/// The maximum time limit of a replicate, in seconds.
const LONGEST_DEADLINE_S: u64 = 30 * 86_400;

/// The maximum number of replicates per cell, as for the command-line option.
const MOST_REPLICATES: u32 = 1000;

/// The maximum number of cells of a path that run in parallel. Each cell has several threads and two namespaces.
const MOST_SIDE_BY_SIDE: usize = 256;

/// A study, as defined by its file.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// The study's key, as in `nielsen97`.
    pub name: String,
    /// The title for headings, as in the title of the paper that the study reruns.
    pub title: String,
    /// The kind of the study: `page` (the default), `load`, `sweep` or `capacity`.
    #[serde(default = "page")]
    pub kind: String,
    /// The workload whose site is served (`microscape`); the factor `workload` overrides it.
    pub workload: String,
    /// Which replicates keep their packet captures after the packets were counted; for page studies.
    #[serde(default)]
    #[schemars(with = "Captures")]
    pub captures: Option<Captures>,
    /// Maximum number of bytes that captures keep per packet; default: all. For large files the packet headers are
    /// enough. The bytes of whole packets are counted in any case.
    #[serde(default)]
    pub snap_length: Option<u32>,
    /// Whether the CPU time of both hosts is reported; for page studies. Each host then receives packets in
    /// its own process.
    #[serde(default)]
    pub accounts: bool,
    /// Paths whose cells run alone on the machine. These cells run before all others, one path after another.
    #[serde(default)]
    pub alone: Vec<String>,
    /// How a load is measured; required for a study of the kind `load`, `sweep` or `capacity`.
    #[serde(default)]
    pub load: Option<Load>,
    /// The capacity search of each cell; required for a study of the kind `capacity`.
    #[serde(default)]
    pub capacity: Option<Capacity>,
    /// The numbers of users that a replicate applies in turn; required for a study of the kind `sweep`.
    #[serde(default)]
    pub sweep: Option<Sweep>,
    /// The ratio of the paper's users to the users of this study, if they differ.
    #[serde(default)]
    pub scale: Option<Scale>,
    /// The level of every factor that a block does not name.
    pub defaults: BTreeMap<String, String>,
    /// The number of replicates of a cell, by mode (`quick`, `full`) and path.
    pub replicates: BTreeMap<String, BTreeMap<String, u32>>,
    /// Number of cells that run in parallel, by path; 1 for other paths.
    pub side_by_side: BTreeMap<String, usize>,
    /// Limits of validity, by path.
    pub limits: BTreeMap<String, Limits>,
    /// The header fields of the client's requests.
    pub client: Client,
    /// The run that `--published` repeats.
    #[serde(default)]
    pub published: Option<Published>,
    /// The blocks.
    #[serde(rename = "block")]
    pub blocks: Vec<Block>,
    /// Time-sequence plots: one cell each.
    #[serde(default, rename = "plot")]
    pub plots: Vec<Plot>,
}

fn page() -> String {
    "page".to_owned()
}

/// A key of a study's file that only some kinds of studies have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// `captures`.
    Captures,
    /// `snap_length`.
    SnapLength,
    /// `accounts = true`.
    Accounts,
    /// The table `[load]`, or the table `load` of a block.
    Load,
    /// The table `[sweep]`.
    Sweep,
    /// The table `[capacity]`.
    Capacity,
    /// The tables `[[plot]]`.
    Plots,
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Key::Captures => "the key captures",
            Key::SnapLength => "the key snap_length",
            Key::Accounts => "the key accounts",
            Key::Load => "a table [load]",
            Key::Sweep => "a table [sweep]",
            Key::Capacity => "a table [capacity]",
            Key::Plots => "a table [[plot]]",
        })
    }
}

/// Which replicates keep their packet captures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Captures {
    /// All replicates.
    #[default]
    All,
    /// The first replicate of each cell.
    First,
}

/// The ratio of the paper's numbers of users to those of this study.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// The number of the paper's users per user of this study. A level of `ues` times this ratio is the number of users
    /// in the paper.
    #[schemars(with = "quantities::RatioNumber")]
    pub paper_ues: Ratio,
    /// The reason for this ratio, as text.
    pub rule: String,
}

/// Formats the ratio as in `paper_ues = ues x 2: the paper's processor …`.
impl std::fmt::Display for Scale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "paper_ues = ues x {}: {}",
            self.paper_ues.value(),
            self.rule
        )
    }
}

/// How a load is measured: a replicate of a load study, a slice of a sweep study, or a trial of a capacity study.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The length of the measured window, in seconds. In a capacity study: the minimum length of a trial that shows that
    /// a load works (RFC 9971: final trial duration).
    #[schemars(with = "ByMode<quantities::PositiveTime>")]
    pub duration_s: ByMode<PositiveTimeSpan>,
    /// The length of the warm-up, in seconds.
    #[schemars(with = "ByMode<quantities::Time>")]
    pub warm_up_s: ByMode<TimeSpan>,
    /// The minimum length of the measured window in round trips of the path, so that a path with a long round-trip time is
    /// observed for as many round trips as a short path.
    #[serde(default)]
    #[schemars(with = "ByMode<quantities::RoundTripCount>")]
    pub round_trips: ByMode<RoundTrips>,
    /// The minimum length of the warm-up in round trips of the path.
    #[serde(default)]
    #[schemars(with = "ByMode<quantities::RoundTripCount>")]
    pub warm_up_round_trips: ByMode<RoundTrips>,
    /// Timeout of an exchange, in seconds.
    #[schemars(with = "quantities::PositiveTime")]
    pub timeout_s: PositiveTimeSpan,
    /// CPU quota of the server's host, in cores: the level 100 of the factor `cpu`.
    #[schemars(with = "quantities::CoreCount")]
    pub cpu_quota: Cores,
    /// Maximum number of concurrent connections of a server with shed = on.
    pub shed_at: u32,
    /// Limit of the CPU use of a generator thread, in percent; above it the generator is the bottleneck.
    #[schemars(with = "quantities::PercentNumber")]
    pub generator_busy_pct: Percent,
    /// Limit of the 99th percentile of the send lag, in microseconds; above it the generator sent requests too late.
    #[schemars(with = "quantities::TimeInMicroseconds")]
    pub send_lag_p99_us: Microseconds,
    /// Limit of the CPU time that other programs of this machine use, in percent of all processors; above it these
    /// programs disturb the measurement. Default: no limit.
    #[schemars(with = "Option<ByMode<quantities::PercentNumber>>")]
    pub others_busy_pct: Option<ByMode<Percent>>,
}

/// A value that may be smaller in quick mode.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ByMode<T> {
    /// The value in quick mode.
    quick: T,
    /// The value in full mode.
    full: T,
    /// The value in the published run; default: the value in the mode on which `[published]` is based.
    published: Option<T>,
}

impl<T: Copy> ByMode<T> {
    /// Returns the value in a mode. For the published run, this is the value in the file. In a parsed study without
    /// such a value, it is the value in the mode on which `[published]` is based.
    pub fn of(self, mode: Mode) -> T {
        match mode {
            Mode::Quick => self.quick,
            Mode::Full => self.full,
            Mode::Published => self.published.unwrap_or(self.full),
        }
    }

    /// Sets the value of the published run to the value of `base`, unless the file sets it.
    fn complete(&mut self, base: Mode) {
        self.published = Some(self.published.unwrap_or_else(|| self.of(base)));
    }
}

/// The values of a block that differ from the study's [`Load`].
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadOfBlock {
    /// The length of the measured window, in seconds.
    #[schemars(with = "Option<ByMode<quantities::PositiveTime>>")]
    duration_s: Option<ByMode<PositiveTimeSpan>>,
    /// The length of the warm-up, in seconds.
    #[schemars(with = "Option<ByMode<quantities::Time>>")]
    warm_up_s: Option<ByMode<TimeSpan>>,
    /// Timeout of an exchange, in seconds.
    #[schemars(with = "Option<quantities::PositiveTime>")]
    timeout_s: Option<PositiveTimeSpan>,
    /// CPU quota of the server's host, in cores.
    #[schemars(with = "Option<quantities::CoreCount>")]
    cpu_quota: Option<Cores>,
    /// Maximum number of concurrent connections of a server with shed = on.
    shed_at: Option<u32>,
}

/// The limits of a valid replicate.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Largest valid 99th percentile of the path's lateness, in microseconds.
    pub lateness_p99_us: u64,
    /// Largest valid lateness of any packet, in microseconds.
    pub lateness_max_us: u64,
    /// Time limit of a replicate, in seconds; a longer replicate is stopped and INVALID.
    pub deadline_s: u64,
}

/// The header fields of the client's requests.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Client {
    /// The `Host` field.
    pub host: String,
    /// Further fields of every request, in order.
    pub fields: Vec<[String; 2]>,
    /// Bytes of each image that `h1.1-pipeline-ranges` requests first.
    pub first_range: u64,
}

/// A full factorial design.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// The name of the block.
    pub name: String,
    /// The purpose of the block, in one sentence.
    pub purpose: String,
    /// Factors and their levels.
    pub factors: BTreeMap<String, Vec<String>>,
    /// The levels in quick mode, for factors that have fewer levels there.
    #[serde(default)]
    pub quick: BTreeMap<String, Vec<String>>,
    /// The levels in the published run, for factors whose levels differ there. If this table is not empty, `quick` and
    /// `exclude_quick` do not apply to that run.
    #[serde(default)]
    pub published: BTreeMap<String, Vec<String>>,
    /// How the block's load is measured: the values that differ from the study's `[load]`.
    pub load: Option<LoadOfBlock>,
    /// Excluded cells: each entry is a set of levels. A cell that has all levels of an entry is excluded. `|` separates
    /// alternative levels of a factor.
    #[serde(default)]
    pub exclude: Vec<BTreeMap<String, String>>,
    /// Further cells that are excluded in quick mode.
    #[serde(default)]
    pub exclude_quick: Vec<BTreeMap<String, String>>,
    /// The number of replicates by mode, if different from the study's `[replicates]`.
    #[serde(default)]
    pub replicates: BTreeMap<String, u32>,
}

/// A time-sequence plot of the first valid replicate of a cell.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// The heading of the plot.
    pub title: String,
    /// The caption of the plot.
    pub caption: String,
    /// The cell's levels, and its `block` if that is not `main`; other factors have their default level.
    pub cell: BTreeMap<String, String>,
}

/// The reason why a study's file is invalid.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The file is not valid TOML, or its structure is wrong.
    #[error("failed to read the study: {}", with_suggestion(.0))]
    Syntax(#[from] toml::de::Error),
    /// The file is well-formed but inconsistent.
    #[error("cannot run the study {study:?}: {reason}")]
    Nonsense {
        /// The study's name.
        study: String,
        /// The inconsistency, with its position in the file.
        reason: String,
    },
}

impl Study {
    /// Returns the error for a study that cannot be run.
    pub(crate) fn nonsense(&self, reason: String) -> SpecError {
        SpecError::Nonsense {
            study: self.name.clone(),
            reason,
        }
    }

    /// Parses a study, and checks that its parts are consistent. `kinds::check` checks the factors and levels.
    pub fn parse(text: &str) -> Result<Study, SpecError> {
        let mut study: Study = toml::from_str(text)?;
        let workload = study.workload.clone();
        study
            .defaults
            .entry("workload".to_owned())
            .or_insert(workload);
        let nonsense = |reason: String| SpecError::Nonsense {
            study: study.name.clone(),
            reason,
        };
        for factor in KEY_FACTORS {
            if !study.defaults.contains_key(factor) {
                return Err(nonsense(format!("[defaults] has no level for {factor:?}")));
            }
        }
        for block in &study.blocks {
            for (factor, levels) in &block.factors {
                if !study.defaults.contains_key(factor) {
                    return Err(nonsense(format!(
                        "block {:?} varies {factor:?}, which has no level in [defaults]{}",
                        block.name,
                        study.nearest_factor(factor)
                    )));
                }
                if levels.is_empty() {
                    return Err(nonsense(format!(
                        "factor {factor:?} of block {:?} has no levels",
                        block.name
                    )));
                }
            }
            let quick = block.quick.keys().map(|factor| (factor, "quick mode"));
            let published = block.published.keys();
            let published = published.map(|factor| (factor, "the published run"));
            for (factor, place) in quick.chain(published) {
                if !block.factors.contains_key(factor) {
                    return Err(nonsense(format!(
                        "block {:?} sets {factor:?} in {place}, but does not vary it",
                        block.name
                    )));
                }
            }
            let excluded = block.exclude.iter().chain(&block.exclude_quick);
            for factor in excluded.flat_map(BTreeMap::keys) {
                if !study.defaults.contains_key(factor) {
                    return Err(nonsense(format!(
                        "block {:?} excludes by {factor:?}, which has no level in [defaults]{}",
                        block.name,
                        study.nearest_factor(factor)
                    )));
                }
            }
        }
        if let Some((path, _)) = study
            .limits
            .iter()
            .find(|(_, limits)| limits.deadline_s == 0 || limits.deadline_s > LONGEST_DEADLINE_S)
        {
            return Err(nonsense(format!(
                "[limits.{path}] deadline_s must be from 1 to {LONGEST_DEADLINE_S} seconds (30 days)"
            )));
        }
        if let Some(published) = &study.published {
            published.check().map_err(nonsense)?;
        }
        let counts = study.replicates.values().flat_map(BTreeMap::values);
        let counts = counts.chain(
            study
                .blocks
                .iter()
                .flat_map(|block| block.replicates.values()),
        );
        if let Some(count) = counts.copied().find(|count| *count > MOST_REPLICATES) {
            return Err(nonsense(format!(
                "{count} replicates of a cell: the maximum is {MOST_REPLICATES}"
            )));
        }
        if let Some(width) = study
            .side_by_side
            .values()
            .find(|width| **width > MOST_SIDE_BY_SIDE)
        {
            return Err(nonsense(format!(
                "{width} cells side by side: the maximum is {MOST_SIDE_BY_SIDE}"
            )));
        }
        study.complete();
        Ok(study)
    }

    /// Returns the keys of the file that only some kinds of studies have.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let has_load = self.load.is_some() || self.blocks.iter().any(|block| block.load.is_some());
        let keys = [
            (Key::Captures, self.captures.is_some()),
            (Key::SnapLength, self.snap_length.is_some()),
            (Key::Accounts, self.accounts),
            (Key::Load, has_load),
            (Key::Sweep, self.sweep.is_some()),
            (Key::Capacity, self.capacity.is_some()),
            (Key::Plots, !self.plots.is_empty()),
        ];
        let there = keys.into_iter().filter(|(_, is_there)| *is_there);
        there.map(|(key, _)| key).collect()
    }

    /// Returns the lane of a cell. Replicates of different lanes may run at the same time. In a page study, each path
    /// has its own lane. In all other studies, loads use the processors, so all paths share a lane. The exceptions are
    /// the paths that `side_by_side` or `alone` names.
    pub(crate) fn lane<'c>(&self, cell: &'c Cell) -> &'c str {
        let path = cell.level("path");
        let is_named =
            self.side_by_side.contains_key(path) || self.alone.iter().any(|alone| alone == path);
        match self.load.is_some() && !is_named {
            true => "",
            false => path,
        }
    }

    /// Returns the mode whose levels, windows and replicates apply if the file has none for `mode`.
    pub(crate) fn base(&self, mode: Mode) -> Mode {
        match mode {
            Mode::Published => self.published.as_ref().map_or(Mode::Full, Published::base),
            Mode::Quick | Mode::Full => mode,
        }
    }

    /// Sets the missing values of the published run.
    fn complete(&mut self) {
        let base = self.base(Mode::Published);
        if let Some(load) = &mut self.load {
            load.duration_s.complete(base);
            load.warm_up_s.complete(base);
            load.round_trips.complete(base);
            load.warm_up_round_trips.complete(base);
            load.others_busy_pct
                .iter_mut()
                .for_each(|value| value.complete(base));
        }
        if let Some(capacity) = &mut self.capacity {
            capacity.width_pct.complete(base);
            capacity.budget_s.complete(base);
        }
        if let Some(sweep) = &mut self.sweep {
            sweep.rounds.complete(base);
        }
        for load in self
            .blocks
            .iter_mut()
            .filter_map(|block| block.load.as_mut())
        {
            load.duration_s
                .iter_mut()
                .for_each(|value| value.complete(base));
            load.warm_up_s
                .iter_mut()
                .for_each(|value| value.complete(base));
        }
    }

    /// Returns `; did you mean "policy"?` for a misspelt factor, or an empty text.
    fn nearest_factor(&self, factor: &str) -> String {
        suggestion(factor, self.defaults.keys().map(String::as_str))
    }

    /// Returns the number of replicates of a cell on this path, if its block does not set the number.
    fn replicates_on(&self, path: &str, mode: &str) -> Result<u32, SpecError> {
        let by_path = self.replicates.get(mode);
        if let Some(&n) = by_path.and_then(|by_path| by_path.get(path)) {
            return Ok(n);
        }
        let known = by_path.into_iter().flat_map(BTreeMap::keys);
        Err(self.nonsense(format!(
            "[replicates] has no number for path {path:?} in {mode}{}",
            suggestion(path, known.map(String::as_str))
        )))
    }

    /// Returns the load settings of a block's cells; `None` for a study of another kind.
    pub fn load_of(&self, block: &str) -> Option<Load> {
        let load = self.load?;
        let own = self
            .blocks
            .iter()
            .find(|other| other.name == block)
            .and_then(|block| block.load)
            .unwrap_or_default();
        Some(Load {
            duration_s: own.duration_s.unwrap_or(load.duration_s),
            warm_up_s: own.warm_up_s.unwrap_or(load.warm_up_s),
            timeout_s: own.timeout_s.unwrap_or(load.timeout_s),
            cpu_quota: own.cpu_quota.unwrap_or(load.cpu_quota),
            shed_at: own.shed_at.unwrap_or(load.shed_at),
            ..load
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const STUDY: &str = r#"
        name = "small"
        title = "A small study"
        workload = "microscape"
        defaults = { policy = "h1.1", coding = "identity", visit = "first", path = "lan", era = "today", server = "embedded", nodelay = "on" }
        replicates = { quick = { lan = 2, wan = 1 } }
        side_by_side = {}
        limits = {}
        client = { host = "www", fields = [], first_range = 256 }
        [[block]]
        name = "main"
        purpose = "all"
        factors = { policy = ["h1.1", "h1.0"], path = ["lan", "wan"], visit = ["first", "revalidate"] }
        exclude = [{ policy = "h1.0", path = "wan", visit = "first|revalidate" }]
        [[block]]
        name = "nagle"
        purpose = "one factor more"
        factors = { nodelay = ["on", "off"] }
        exclude_quick = [{ nodelay = "on" }]
        replicates = { quick = 3, full = 5 }
    "#;

    #[test]
    fn numbers_that_are_no_quantities_are_refused_with_their_place() {
        const LOAD: &str = r#"
            [load]
            duration_s = { quick = 1, full = 1.5 }
            warm_up_s = { quick = 0, full = 1 }
            timeout_s = 1
            cpu_quota = 0
            shed_at = 1
            generator_busy_pct = 85
            send_lag_p99_us = 1000
        "#;
        let text = STUDY.replace(
            "[[block]]\n        name = \"main\"",
            &format!("{LOAD}\n[[block]]\n name = \"main\""),
        );
        let text = text.replace(
            "workload = \"microscape\"",
            "workload = \"microscape\"\nkind = \"load\"",
        );
        Study::parse(&text).unwrap();
        for (good, name) in [
            ("{ quick = 1, full = 1.5 }", "duration_s"),
            ("{ quick = 0, full = 1 }", "warm_up_s"),
            ("timeout_s = 1", "timeout_s"),
            ("cpu_quota = 0", "cpu_quota"),
            ("generator_busy_pct = 85", "generator_busy_pct"),
            ("send_lag_p99_us = 1000", "send_lag_p99_us"),
        ] {
            for wrong in ["nan", "inf", "-inf", "-1", "1e300"] {
                let bad = match good.split_once(" = ").filter(|_| !good.contains('{')) {
                    Some((key, _)) => format!("{key} = {wrong}"),
                    None => format!("{{ quick = 1, full = {wrong} }}"),
                };
                assert!(text.contains(good), "{good}");
                let error = Study::parse(&text.replace(good, &bad)).expect_err(&bad);
                let error = error.to_string();
                assert!(
                    error.contains(name) && error.contains("from 0"),
                    "{bad}: {error}"
                );
            }
        }
        let none = text.replace("{ quick = 1, full = 1.5 }", "{ quick = 0, full = 1 }");
        assert!(Study::parse(&none).is_err(), "a window of length zero");
        for (good, bad) in [
            (
                "limits = {}",
                "limits = { lan = { lateness_p99_us = 1, lateness_max_us = 1, deadline_s = 18446744073709551 } }",
            ),
            ("side_by_side = {}", "side_by_side = { lan = 100000000 }"),
            ("lan = 2, wan = 1", "lan = 4000000000, wan = 1"),
        ] {
            assert!(STUDY.contains(good), "{good}");
            let error = Study::parse(&STUDY.replace(good, bad)).expect_err(bad);
            assert!(error.to_string().contains("small"), "{error}");
        }
    }

    #[test]
    fn a_factor_without_a_default_is_refused_by_name() {
        let text = STUDY.replace(", nodelay = \"on\"", "");
        let error = Study::parse(&text).unwrap_err().to_string();
        assert!(error.contains("nodelay"), "{error}");
    }
}
