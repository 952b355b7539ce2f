//! Which replicate runs when: interleaved in a seeded random order, slow paths side by side.
//!
//! Every path has a lane of its own, and a lane runs as many replicates at once as the study
//! allows on that path: cells on a modem are idle nearly all the time and disturb nobody, cells on
//! a LAN run one after another. The lanes run beside each other.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use fathometer_model::Seed;

use super::spec::Cell;

/// One replicate of one cell, waiting to be run.
#[derive(Debug, Clone)]
pub struct Job {
    /// The cell.
    pub cell: Cell,
    /// Which repetition, from 0.
    pub replicate: u32,
}

/// All replicates of the cells, each lane in a random order of its own.
///
/// Repetition 0 of every cell comes before repetition 1 of any, so that a run that is ended early
/// has some of everything.
pub fn lanes(cells: &[Cell], seed: Seed) -> BTreeMap<String, VecDeque<Job>> {
    let mut lanes: BTreeMap<String, Vec<(u32, u64, Job)>> = BTreeMap::new();
    let order = seed.stream("study.order");
    let mut counter = 0;
    for cell in cells {
        for replicate in 0..cell.replicates {
            let key = order.draw(counter);
            counter += 1;
            lanes
                .entry(cell.level("path").to_owned())
                .or_default()
                .push((
                    replicate,
                    key,
                    Job {
                        cell: cell.clone(),
                        replicate,
                    },
                ));
        }
    }
    lanes
        .into_iter()
        .map(|(lane, mut jobs)| {
            jobs.sort_by_key(|(replicate, key, _)| (*replicate, *key));
            (lane, jobs.into_iter().map(|(_, _, job)| job).collect())
        })
        .collect()
}

/// Runs every job, `side_by_side[lane]` at a time in each lane, until all are done or `run` gives
/// an error or `stop` says so. `run` is handed the job and its place in the order of execution.
pub fn execute<E: Send>(
    lanes: BTreeMap<String, VecDeque<Job>>,
    side_by_side: &BTreeMap<String, usize>,
    stop: &(dyn Fn() -> bool + Sync),
    run: &(dyn Fn(&Job, u32) -> Result<(), E> + Sync),
) -> Result<(), E> {
    let order = AtomicU32::new(0);
    let failure = Mutex::new(None);
    let lanes: Vec<(usize, Mutex<VecDeque<Job>>)> = lanes
        .into_iter()
        .map(|(lane, jobs)| {
            let width = side_by_side.get(&lane).copied().unwrap_or(1).max(1);
            (width.min(jobs.len()), Mutex::new(jobs))
        })
        .collect();
    thread::scope(|scope| {
        for (width, jobs) in &lanes {
            for _ in 0..*width {
                scope.spawn(|| {
                    while !stop() && lock(&failure).is_none() {
                        let Some(job) = lock(jobs).pop_front() else {
                            break;
                        };
                        let place = order.fetch_add(1, Ordering::Relaxed);
                        if let Err(error) = run(&job, place) {
                            lock(&failure).get_or_insert(error);
                        }
                    }
                });
            }
        }
    });
    match failure
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
    {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn cells() -> Vec<Cell> {
        ["lan", "ppp"]
            .iter()
            .flat_map(|path| {
                ["h1.0", "h1.1", "h1.1-pipeline"].iter().map(|policy| {
                    let levels: BTreeMap<String, String> = [
                        ("path".to_owned(), (*path).to_owned()),
                        ("policy".to_owned(), (*policy).to_owned()),
                    ]
                    .into();
                    Cell {
                        block: "main".to_owned(),
                        key: fathometer_model::CellKey(levels.clone()),
                        levels,
                        replicates: 3,
                    }
                })
            })
            .collect()
    }

    #[test]
    fn the_order_is_the_seeds_and_repetitions_come_in_rounds() {
        let order = |seed| -> Vec<String> {
            lanes(&cells(), Seed(seed))["lan"]
                .iter()
                .map(|job| format!("{} {}", job.replicate, job.cell.level("policy")))
                .collect()
        };
        assert_eq!(order(1), order(1));
        assert!((2..20).any(|seed| order(seed) != order(1)));
        let rounds: Vec<char> = order(1)
            .iter()
            .filter_map(|job| job.chars().next())
            .collect();
        assert_eq!(rounds, ['0', '0', '0', '1', '1', '1', '2', '2', '2']);
    }

    #[test]
    fn every_job_runs_once_and_a_failure_ends_the_rest() {
        let done = Mutex::new(BTreeSet::new());
        let widths = [("ppp".to_owned(), 4)].into();
        execute::<()>(
            lanes(&cells(), Seed(1)),
            &widths,
            &|| false,
            &|job, place| {
                lock(&done).insert((job.cell.folder(), job.replicate, place));
                Ok(())
            },
        )
        .unwrap();
        assert_eq!(lock(&done).len(), 18);
        let ran = AtomicU32::new(0);
        let result = execute(
            lanes(&cells(), Seed(1)),
            &BTreeMap::new(),
            &|| false,
            &|_, _| {
                ran.fetch_add(1, Ordering::Relaxed);
                Err("disk full")
            },
        );
        assert_eq!(result, Err("disk full"));
        assert!(ran.into_inner() <= 2);
    }
}
