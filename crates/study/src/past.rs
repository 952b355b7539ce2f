//! Reads the replicates that earlier invocations of an interrupted run have measured, so that the run can be resumed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use fathometer_analysis::run::{Run, RunInfo, StudyShare};
use fathometer_model::ReplicateRecord;

use super::schedule::{Job, MOST_ATTEMPTS};
use super::share;
use super::spec::{Cell, folder_of};
use super::stopping;

/// The attempts at one replicate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Attempts {
    made: u32,
    valid: bool,
    /// The number of the next attempt. No record refers to the folder of the next attempt.
    next: u32,
}

/// The earlier replicates of a run.
#[derive(Debug, Default)]
pub struct Past {
    /// The attempts at each replicate, indexed by the cell's folder and the number of the replicate.
    attempts: BTreeMap<(String, u32), Attempts>,
    next_place: u32,
}

/// The reason why a run cannot be resumed.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot resume {folder}: {differences}; restore what has changed, or start a new run with another --output",
    folder = folder.display(), differences = differences.join("; ")
)]
pub struct Mismatch {
    folder: PathBuf,
    differences: Vec<String>,
}

impl Past {
    /// Reads the records of a run, including all attempts ([`Run::records`]).
    pub fn of<'a>(records: impl IntoIterator<Item = &'a ReplicateRecord>) -> Past {
        let mut past = Past::default();
        for record in records {
            let key = (folder_of(&record.block, &record.cell), record.replicate);
            let attempts = past.attempts.entry(key).or_default();
            attempts.made += 1;
            attempts.valid |= record.validity.is_valid();
            let after = attempt_of(&record.folder).map_or(0, |attempt| attempt + 1);
            attempts.next = attempts.next.max(after).max(attempts.made);
            past.next_place = past.next_place.max(record.order + 1);
        }
        past
    }

    /// The position of the next replicate in the order of execution.
    pub fn next_place(&self) -> u32 {
        self.next_place
    }

    /// Returns the number of measured attempts at replicates, and the number of invalid attempts among them.
    pub fn made(&self) -> (u32, u32) {
        let made = self.attempts.values().map(|attempts| attempts.made).sum();
        let valid = self.attempts.values().filter(|attempts| attempts.valid);
        (made, made - valid.count() as u32)
    }

    /// Returns the folders of the cells that have a valid replicate.
    pub fn valid_cells(&self) -> impl Iterator<Item = &str> {
        let valid = self.attempts.iter().filter(|(_, attempts)| attempts.valid);
        valid.map(|((folder, _), _)| folder.as_str())
    }

    /// Returns the number of replicates of these cells that this machine has not finished yet.
    pub fn left_of(&self, cells: &[Cell], share: Option<&StudyShare>) -> u32 {
        let replicates = cells.iter().flat_map(|cell| {
            let folder = cell.folder();
            let here = (0..cell.replicates).filter(|number| share::is_run_here(share, *number));
            here.map(move |replicate| (folder.clone(), replicate))
        });
        replicates.filter(|key| !self.is_done(key)).count() as u32
    }

    fn is_done(&self, key: &(String, u32)) -> bool {
        self.attempts
            .get(key)
            .is_some_and(|attempts| attempts.valid || attempts.made >= MOST_ATTEMPTS)
    }

    /// Returns the remaining jobs of each lane. Jobs that never ran are first, in their order; jobs to repeat follow.
    pub fn left(&self, lanes: BTreeMap<String, VecDeque<Job>>) -> BTreeMap<String, VecDeque<Job>> {
        lanes
            .into_iter()
            .map(|(lane, jobs)| {
                let mut left: Vec<Job> = jobs
                    .into_iter()
                    .filter_map(|job| {
                        let key = (job.cell.folder(), job.replicate);
                        let attempt = self.attempts.get(&key).map_or(0, |before| before.next);
                        (!self.is_done(&key)).then_some(Job { attempt, ..job })
                    })
                    .collect();
                left.sort_by_key(|job| job.attempt > 0);
                (lane, left.into())
            })
            .collect()
    }
}

/// The suffix in the folder's name of a repeated attempt. It follows the number of the replicate.
const AGAIN: &str = "-again";

/// Returns the folder of an attempt at a replicate, relative to the run's folder: `cells/BLOCK/LEVELS/r0`,
/// `…/r0-again1`.
pub fn attempt_folder(cell: &Cell, replicate: u32, attempt: u32) -> String {
    let folder = format!("cells/{}/r{replicate}", cell.folder());
    match attempt {
        0 => folder,
        attempt => format!("{folder}{AGAIN}{attempt}"),
    }
}

/// Returns the number of the attempt to which a record's folder belongs.
fn attempt_of(folder: &str) -> Option<u32> {
    let name = folder.rsplit('/').next()?.strip_prefix('r')?;
    match name.split_once(AGAIN) {
        Some((_, attempt)) => attempt.parse().ok(),
        None => name.parse::<u32>().ok().map(|_| 0),
    }
}

/// Checks that a run can be resumed with the inputs in `now`. A run must not mix results of different studies, seeds,
/// builds or data.
pub fn check(earlier: &Run, now: &RunInfo) -> Result<(), Mismatch> {
    let then = &earlier.info;
    let mut differences = Vec::new();
    let what = |info: &RunInfo| {
        let mode = info.mode.name();
        format!("{}, {mode}, seed {}", info.study, info.seed)
    };
    if what(then) != what(now) {
        differences.push(format!(
            "study, mode or seed differs (run: {}; this command: {})",
            what(then),
            what(now)
        ));
    }
    match (&then.build, &now.build) {
        (Some(then), Some(now)) if then.sha256 == now.sha256 && !now.sha256.is_empty() => {}
        (Some(then), Some(now)) => differences.push(format!(
            "the run was made by another build ({then}; this build: {now})"
        )),
        (None, _) => differences.push(format!(
            "the run was made by version {}, which did not record its build",
            then.version
        )),
        (Some(_), None) => differences.push("the build of this program is unknown".to_owned()),
    }
    let names: BTreeSet<&String> = then
        .study_files
        .keys()
        .chain(now.study_files.keys())
        .collect();
    for name in names {
        differences.push(
            match (then.study_files.get(name), now.study_files.get(name)) {
                (Some(then), Some(now)) if then == now => continue,
                (Some(_), Some(_)) => {
                    format!("{name} of the study was edited after the start of the run")
                }
                (Some(_), None) => {
                    format!("{name} of the study was removed after the start of the run")
                }
                _ => format!("{name} of the study was added after the start of the run"),
            },
        );
    }
    differences.extend(stopping::difference(
        then.stopping.as_ref(),
        now.stopping.as_ref(),
    ));
    differences.extend(other_share(then, now));
    // An invocation may use fewer inputs than an earlier invocation. An input that both use must be the same.
    for (name, found) in &now.data {
        if then.data.get(name).is_some_and(|then| then != found) {
            differences.push(format!("{name} has changed"));
        }
    }
    match differences.is_empty() {
        true => Ok(()),
        false => Err(Mismatch {
            folder: earlier.folder.clone(),
            differences,
        }),
    }
}

/// Describes the difference between the shares of a study in the run and in this command.
fn other_share(then: &RunInfo, now: &RunInfo) -> Option<String> {
    if !then.machines.is_empty() {
        return Some("the run was merged from the runs of several machines".to_owned());
    }
    let of = |info: &RunInfo| {
        let share = info.share.as_ref();
        share.map(|share| (share.rank, share.ranks, share.design.clone()))
    };
    let words = |info: &RunInfo| match &info.share {
        Some(share) => format!("rank {} of {}", share.rank, share.ranks),
        None => "the whole study".to_owned(),
    };
    match (words(then), words(now)) {
        (then, now) if then != now => {
            Some(format!("share differs (run: {then}; this command: {now})"))
        }
        _ if of(then) != of(now) => {
            Some("cells or replicates differ between the run and this command".to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule;
    use super::*;
    use fathometer_analysis::run::Build;
    use fathometer_model::{CellKey, PathCertificate, Seed, Validity};

    fn cell(policy: &str) -> Cell {
        let levels: BTreeMap<String, String> = [
            ("path".to_owned(), "lan".to_owned()),
            ("policy".to_owned(), policy.to_owned()),
        ]
        .into();
        Cell {
            block: "main".to_owned(),
            key: CellKey(levels.clone()),
            levels,
            replicates: 2,
        }
    }

    fn record(policy: &str, replicate: u32, order: u32, valid: bool) -> ReplicateRecord {
        let mut validity = Validity::default();
        if !valid {
            validity.invalidate("noise");
        }
        ReplicateRecord {
            block: "main".to_owned(),
            cell: cell(policy).key,
            replicate,
            seed: 1,
            order,
            started: 0.0,
            metrics: BTreeMap::new(),
            path: PathCertificate::default(),
            validity,
            folder: String::new(),
        }
    }

    #[test]
    fn what_is_done_is_not_made_again_and_attempts_are_counted_on() {
        let cells = ["a", "b", "c"].map(cell);
        let past = Past::of(&[
            record("a", 0, 0, true),
            record("b", 0, 1, false),
            record("c", 1, 2, false),
            record("c", 1, 3, true),
            record("b", 1, 4, false),
            record("b", 1, 5, false),
            record("b", 1, 6, false),
            record("b", 1, 7, false),
        ]);
        assert_eq!(past.next_place(), 8);
        assert_eq!(past.made(), (8, 6));
        assert_eq!(past.left_of(&cells, None), 3);
        assert_eq!(past.valid_cells().count(), 2);
        let left = past.left(schedule::lanes(&cells, Seed(1), |cell| cell.level("path")));
        let mut left: Vec<String> = left["lan"]
            .iter()
            .map(|job| {
                format!(
                    "{} {} {}",
                    job.cell.level("policy"),
                    job.replicate,
                    job.attempt
                )
            })
            .collect();
        assert_eq!(left.pop().unwrap(), "b 0 1", "repeated replicates are last");
        left.sort();
        assert_eq!(left, ["a 1 0", "c 0 0"]);
    }

    #[test]
    fn an_attempt_after_others_has_a_folder_that_no_record_names() {
        let cells = ["a", "b"].map(cell);
        let at = |policy: &str, attempt: u32| {
            let mut record = record(policy, 0, attempt, false);
            record.folder = attempt_folder(&cell(policy), 0, attempt);
            record
        };
        // The folder of `b` has a higher attempt number, because its earlier attempts were killed and have no records.
        let past = Past::of(&[at("a", 0), at("a", 1), at("b", 2)]);
        let left = past.left(schedule::lanes(&cells, Seed(1), |cell| cell.level("path")));
        let mut left: Vec<(String, u32)> = left["lan"]
            .iter()
            .filter(|job| job.replicate == 0)
            .map(|job| (job.cell.level("policy").to_owned(), job.attempt))
            .collect();
        left.sort();
        assert_eq!(left, [("a".to_owned(), 2), ("b".to_owned(), 3)]);
        assert!(attempt_folder(&cells[0], 0, 2).ends_with("/r0-again2"));
        assert_eq!(attempt_of("cells/main/a=b/r12"), Some(0));
        assert_eq!(attempt_of("cells/main/a=b/r12-again3"), Some(3));
        assert_eq!(attempt_of(""), None);
    }

    #[test]
    fn a_run_with_more_replicates_than_are_requested_has_none_left() {
        let past = Past::of(&[
            record("a", 0, 0, true),
            record("a", 1, 1, true),
            record("b", 0, 2, false),
        ]);
        let mut cells = ["a", "b"].map(cell);
        assert_eq!(past.left_of(&cells, None), 2);
        for cell in &mut cells {
            cell.replicates = 1;
        }
        assert_eq!(past.left_of(&cells, None), 1);
        assert_eq!(past.left_of(&cells[..1], None), 0);
    }

    #[test]
    fn nothing_before_changes_nothing() {
        let cells = ["a", "b"].map(cell);
        let past = Past::of(&[]);
        let names = |lanes: BTreeMap<String, VecDeque<Job>>| -> Vec<String> {
            lanes["lan"]
                .iter()
                .map(|job| format!("{} {} {}", job.cell.folder(), job.replicate, job.attempt))
                .collect()
        };
        assert_eq!(
            names(past.left(schedule::lanes(&cells, Seed(1), |cell| cell.level("path")))),
            names(schedule::lanes(&cells, Seed(1), |cell| cell.level("path")))
        );
        assert_eq!((past.next_place(), past.left_of(&cells, None)), (0, 4));
    }

    fn info() -> RunInfo {
        let hashes = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let pairs = pairs.iter();
            pairs
                .map(|(name, hash)| ((*name).to_owned(), (*hash).to_owned()))
                .collect()
        };
        let text = serde_json::json!({
            "format": RunInfo::FORMAT, "study": "small", "title": "", "mode": "quick", "command": [],
            "version": "0.1.0", "machine": {}, "seed": 1, "started": 0.0,
        });
        let mut info: RunInfo = serde_json::from_value(text).unwrap();
        info.build = Some(Build {
            version: "0.1.0".to_owned(),
            commit: Some("0123456789ab".to_owned()),
            modified: Some(false),
            sha256: "aa".repeat(32),
        });
        info.study_files = hashes(&[("study.toml", "1")]);
        info.data = hashes(&[("path lan", "2"), ("program nginx", "1.22")]);
        info
    }

    fn set(map: &mut BTreeMap<String, String>, name: &str, value: &str) {
        map.insert(name.to_owned(), value.to_owned());
    }

    fn refusal(then: impl FnOnce(&mut RunInfo)) -> Option<String> {
        let mut run = Run {
            folder: "runs/a".into(),
            info: info(),
            cells: Vec::new(),
            plots: Vec::new(),
            warnings: Vec::new(),
            repeated: 0,
            has_sweeps: false,
        };
        then(&mut run.info);
        check(&run, &info()).err().map(|error| error.to_string())
    }

    #[test]
    fn a_run_is_resumed_with_what_it_was_made_with_alone() {
        assert_eq!(refusal(|_| {}), None);
        // The earlier invocation measured on paths that this invocation leaves out.
        let other = refusal(|then| {
            then.data.insert("path wan".to_owned(), "9".to_owned());
        });
        assert_eq!(other, None);
        type Edit = fn(&mut RunInfo);
        let edits: [(Edit, &str); 8] = [
            (|then| then.seed = Seed(2), "seed 2"),
            (
                |then| then.build.as_mut().unwrap().sha256 = "bb".repeat(32),
                "another build (0.1.0 (0123456789ab), program bbbbbbbbbbbb; this build:",
            ),
            (|then| then.build = None, "did not record its build"),
            (
                |then| set(&mut then.study_files, "study.toml", "9"),
                "study.toml of the study was edited after",
            ),
            (
                |then| set(&mut then.study_files, "claims.toml", "1"),
                "claims.toml of the study was removed",
            ),
            (
                |then| then.study_files.clear(),
                "study.toml of the study was added",
            ),
            (
                |then| set(&mut then.data, "path lan", "9"),
                "path lan has changed",
            ),
            (
                |then| set(&mut then.data, "program nginx", "1.26"),
                "program nginx",
            ),
        ];
        for (edit, expected) in edits {
            let error = refusal(edit).expect(expected);
            assert!(error.contains(expected), "{expected:?} is not in {error}");
            assert!(
                error.contains("runs/a") && error.contains("--output"),
                "{error}"
            );
        }
    }
}
