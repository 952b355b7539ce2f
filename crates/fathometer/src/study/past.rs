//! What earlier sittings of a run have made, so that a run that was interrupted goes on where it was.

use std::collections::{BTreeMap, VecDeque};

use fathometer_analysis::run::{Mode, Run, RunInfo};
use fathometer_model::{ReplicateRecord, Seed};

use super::schedule::{Job, MOST_ATTEMPTS};
use super::spec::{Cell, folder_of};

/// The attempts at one replicate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Attempts {
    made: u32,
    valid: bool,
}

/// What was made before.
#[derive(Debug, Default)]
pub struct Past {
    /// By the cell's folder and the repetition.
    attempts: BTreeMap<(String, u32), Attempts>,
    next_place: u32,
}

/// Why a run cannot go on in this folder.
#[derive(Debug, thiserror::Error)]
#[error("{folder} cannot be gone on with: its run is of {theirs}, and this is {ours}")]
pub struct Mismatch {
    folder: String,
    theirs: String,
    ours: String,
}

impl Past {
    /// What the records of a run say.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a ReplicateRecord>) -> Past {
        let mut past = Past::default();
        for record in records {
            let key = (folder_of(&record.block, &record.cell), record.replicate);
            let attempts = past.attempts.entry(key).or_default();
            attempts.made += 1;
            attempts.valid |= record.validity.is_valid();
            past.next_place = past.next_place.max(record.order + 1);
        }
        past
    }

    /// The place in the order of execution of what comes next.
    pub fn next_place(&self) -> u32 {
        self.next_place
    }

    /// The replicates made, every attempt counted, and how many of them were invalid.
    pub fn made(&self) -> (u32, u32) {
        let made = self.attempts.values().map(|attempts| attempts.made).sum();
        let valid = self.attempts.values().filter(|attempts| attempts.valid);
        (made, made - valid.count() as u32)
    }

    /// The folders of the cells that have a valid replicate.
    pub fn valid_cells(&self) -> impl Iterator<Item = &str> {
        let valid = self.attempts.iter().filter(|(_, attempts)| attempts.valid);
        valid.map(|((folder, _), _)| folder.as_str())
    }

    /// How many replicates of these cells need not be made again.
    pub fn done(&self, cells: &[Cell]) -> u32 {
        let replicates = cells.iter().flat_map(|cell| {
            let folder = cell.folder();
            (0..cell.replicates).map(move |replicate| (folder.clone(), replicate))
        });
        replicates.filter(|key| self.is_done(key)).count() as u32
    }

    fn is_done(&self, key: &(String, u32)) -> bool {
        self.attempts
            .get(key)
            .is_some_and(|attempts| attempts.valid || attempts.made >= MOST_ATTEMPTS)
    }

    /// What is left of each lane: what was never made in its order, then what is to be made again.
    pub fn left(&self, lanes: BTreeMap<String, VecDeque<Job>>) -> BTreeMap<String, VecDeque<Job>> {
        lanes
            .into_iter()
            .map(|(lane, jobs)| {
                let mut left: Vec<Job> = jobs
                    .into_iter()
                    .filter_map(|job| {
                        let key = (job.cell.folder(), job.replicate);
                        let attempt = self.attempts.get(&key).map_or(0, |before| before.made);
                        (!self.is_done(&key)).then_some(Job { attempt, ..job })
                    })
                    .collect();
                left.sort_by_key(|job| job.attempt > 0);
                (lane, left.into())
            })
            .collect()
    }
}

/// Whether a run can be gone on with as this study, mode and seed.
pub fn check(run: &Run, study: &str, mode: Mode, seed: Seed) -> Result<(), Mismatch> {
    let what = |study: &str, mode: Mode, seed: Seed| {
        let mode = match mode {
            Mode::Quick => "quick",
            Mode::Full => "full",
        };
        format!("{study}, {mode}, seed {seed}")
    };
    let RunInfo {
        study: their_study,
        mode: their_mode,
        seed: their_seed,
        ..
    } = &run.info;
    let theirs = what(their_study, *their_mode, *their_seed);
    let ours = what(study, mode, seed);
    match theirs == ours {
        true => Ok(()),
        false => Err(Mismatch {
            folder: run.folder.display().to_string(),
            theirs,
            ours,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule;
    use super::*;
    use fathometer_model::{CellKey, PathCertificate, Validity};

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
        assert_eq!(past.done(&cells), 3);
        assert_eq!(past.valid_cells().count(), 2);
        let left = past.left(schedule::lanes(&cells, Seed(1)));
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
        assert_eq!(left.pop().unwrap(), "b 0 1", "to be made again: last");
        left.sort();
        assert_eq!(left, ["a 1 0", "c 0 0"]);
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
            names(past.left(schedule::lanes(&cells, Seed(1)))),
            names(schedule::lanes(&cells, Seed(1)))
        );
        assert_eq!((past.next_place(), past.done(&cells)), (0, 0));
    }
}
