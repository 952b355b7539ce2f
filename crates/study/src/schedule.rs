//! Runs replicates in a seeded random order. Slow paths run in parallel, and invalid replicates are repeated later.
//!
//! In a page study, every path has its own lane. The study sets the number of replicates that a lane runs in parallel.
//! Cells on a modem path are idle nearly all the time, so they do not disturb other cells. Cells on a LAN run one after
//! another. The lanes run in parallel, except lanes that a study runs alone on the machine: these lanes run first, one
//! after another ([`turns`]). In all other studies, the loads use the processors, so all paths share one lane
//! (`Study::lane`).
//!
//! A job that panics is reported to its lane as finished, so that the lane does not wait for this job.
//!
//! The usual cause of invalid replicates is temporary noise. For example, a hypervisor may use CPU time for a minute.
//! Therefore an invalid replicate is moved to the end of its lane's queue and repeated later, with at most
//! [`MOST_ATTEMPTS`] attempts in total. If only repeats are left and the last replicate was also invalid, the lane
//! waits for a [`PAUSE`] before the next repeat.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use fathometer_model::Seed;

use super::spec::Cell;

/// The maximum number of attempts at a replicate. If all attempts are invalid, the cell has one replicate less.
pub const MOST_ATTEMPTS: u32 = 4;

/// The pause of a lane before a repeat, if only repeats are left and the last replicate was invalid.
pub const PAUSE: Duration = Duration::from_secs(5);

/// The interval at which a waiting thread checks whether it must stop.
const GLANCE: Duration = Duration::from_millis(50);

/// One replicate of one cell that is still to be run.
#[derive(Debug, Clone)]
pub struct Job {
    /// The cell.
    pub cell: Cell,
    /// The number of the replicate, counted from 0.
    pub replicate: u32,
    /// The number of earlier attempts, which were all invalid.
    pub attempt: u32,
}

/// The next step of a lane.
#[derive(Debug)]
pub enum Next {
    /// Run this job, after a pause.
    Run(Box<Job>, Duration),
    /// Wait until a running job ends, because it may have to be repeated.
    Wait,
    /// All jobs are done.
    Done,
}

/// The queue of one lane.
#[derive(Debug)]
pub struct Queue {
    waiting: VecDeque<Job>,
    under_way: u32,
    /// Whether the last finished replicate was invalid.
    noisy: bool,
}

impl Queue {
    /// Creates a queue of these jobs, in this order.
    pub fn new(waiting: VecDeque<Job>) -> Queue {
        Queue {
            waiting,
            under_way: 0,
            noisy: false,
        }
    }

    /// Returns the next step. After a job, the caller must call [`Queue::ended`].
    pub fn take(&mut self) -> Next {
        let Some(job) = self.waiting.pop_front() else {
            return match self.under_way {
                0 => Next::Done,
                _ => Next::Wait,
            };
        };
        self.under_way += 1;
        // Repeats are behind all other jobs in the queue. So if the first job is a repeat, only repeats are left.
        let pause = match job.attempt > 0 && self.noisy {
            true => PAUSE,
            false => Duration::ZERO,
        };
        Next::Run(Box::new(job), pause)
    }

    /// Whether the job will be repeated if this attempt is invalid.
    pub fn has_another_chance(job: &Job) -> bool {
        job.attempt + 1 < MOST_ATTEMPTS
    }

    /// Records the end of a job.
    pub fn ended(&mut self, job: Job, valid: bool) {
        self.under_way -= 1;
        self.noisy = !valid;
        if !valid && Queue::has_another_chance(&job) {
            self.waiting.push_back(Job {
                attempt: job.attempt + 1,
                ..job
            });
        }
    }
}

/// Returns all replicates of the cells by lane. Each lane has its own random order.
///
/// Replicate 0 of every cell precedes replicate 1 of any cell, so that an interrupted run has data of all cells.
pub fn lanes<'c>(
    cells: &'c [Cell],
    seed: Seed,
    lane_of: impl Fn(&'c Cell) -> &'c str,
) -> BTreeMap<String, VecDeque<Job>> {
    let mut lanes: BTreeMap<String, Vec<(u32, u64, Job)>> = BTreeMap::new();
    let order = seed.stream("study.order");
    let mut counter = 0;
    for cell in cells {
        for replicate in 0..cell.replicates {
            let key = order.draw(counter);
            counter += 1;
            lanes.entry(lane_of(cell).to_owned()).or_default().push((
                replicate,
                key,
                Job {
                    cell: cell.clone(),
                    replicate,
                    attempt: 0,
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

/// Returns the groups of lanes that run at the same time. First, each of the `alone` lanes is a separate group, in this
/// order. All other lanes are the last group.
pub fn turns(
    mut lanes: BTreeMap<String, VecDeque<Job>>,
    alone: &[String],
) -> Vec<BTreeMap<String, VecDeque<Job>>> {
    let mut turns: Vec<BTreeMap<String, VecDeque<Job>>> = alone
        .iter()
        .filter_map(|lane| lanes.remove_entry(lane))
        .map(|lane| BTreeMap::from([lane]))
        .collect();
    turns.push(lanes);
    turns
}

/// Runs the jobs until all jobs are done, `run` returns an error, or `stop` returns true. Each lane runs up to
/// `side_by_side[lane]` jobs in parallel. `run` receives the job and its position in the order of execution, and
/// returns whether the replicate is valid.
///
/// # Panics
/// When `run` panics, after the running jobs are finished.
pub fn execute<E: Send>(
    lanes: BTreeMap<String, VecDeque<Job>>,
    side_by_side: &BTreeMap<String, usize>,
    stop: &(dyn Fn() -> bool + Sync),
    run: &(dyn Fn(&Job, u32) -> Result<bool, E> + Sync),
) -> Result<(), E> {
    let order = AtomicU32::new(0);
    let failure = Mutex::new(None);
    let panicked = AtomicBool::new(false);
    let ending = || stop() || panicked.load(Ordering::Relaxed) || lock(&failure).is_some();
    let lanes: Vec<(usize, Mutex<Queue>, Condvar)> = lanes
        .into_iter()
        .map(|(lane, jobs)| {
            let width = side_by_side.get(&lane).copied().unwrap_or(1).max(1);
            let width = width.min(jobs.len());
            (width, Mutex::new(Queue::new(jobs)), Condvar::new())
        })
        .collect();
    thread::scope(|scope| {
        for (width, queue, changed) in &lanes {
            for _ in 0..*width {
                scope.spawn(|| {
                    while let Some((job, pause)) = take(queue, changed, &ending) {
                        rest(pause, &ending);
                        if ending() {
                            break;
                        }
                        let place = order.fetch_add(1, Ordering::Relaxed);
                        let ended = catch_unwind(AssertUnwindSafe(|| run(&job, place)));
                        let valid = !matches!(ended, Ok(Ok(false)));
                        lock(queue).ended(*job, valid);
                        changed.notify_all();
                        match ended {
                            Ok(Ok(_)) => {}
                            Ok(Err(error)) => {
                                lock(&failure).get_or_insert(error);
                            }
                            Err(panic) => {
                                panicked.store(true, Ordering::Relaxed);
                                resume_unwind(panic);
                            }
                        }
                    }
                });
            }
        }
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Returns the next job of a lane. Waits if the lane is empty but a running job may have to be repeated.
fn take(
    queue: &Mutex<Queue>,
    changed: &Condvar,
    ending: &dyn Fn() -> bool,
) -> Option<(Box<Job>, Duration)> {
    let mut queue = lock(queue);
    while !ending() {
        match queue.take() {
            Next::Run(job, pause) => return Some((job, pause)),
            Next::Done => return None,
            Next::Wait => {
                queue = changed
                    .wait_timeout(queue, GLANCE)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
        }
    }
    None
}

/// Waits for `pause`, but stops waiting soon after `ending` returns true.
pub(crate) fn rest(mut pause: Duration, ending: &dyn Fn() -> bool) {
    while !pause.is_zero() && !ending() {
        let nap = pause.min(GLANCE);
        thread::sleep(nap);
        pause -= nap;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Returns the jobs with a separate lane for each path.
    fn lanes_of(cells: &[Cell], seed: Seed) -> BTreeMap<String, VecDeque<Job>> {
        lanes(cells, seed, |cell| cell.level("path"))
    }

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
            lanes_of(&cells(), Seed(seed))["lan"]
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

    /// Runs a single lane. Returns the name of each job in order, with a `*` after a pause. `valid` receives the number
    /// of the replicate and the number of the attempt.
    fn course(jobs: u32, valid: impl Fn(u32, u32) -> bool) -> Vec<String> {
        let cell = &cells()[0];
        let jobs = (0..jobs).map(|replicate| Job {
            cell: cell.clone(),
            replicate,
            attempt: 0,
        });
        let mut queue = Queue::new(jobs.collect());
        let mut course = Vec::new();
        loop {
            match queue.take() {
                Next::Run(job, pause) => {
                    let mark = if pause.is_zero() { "" } else { "*" };
                    course.push(format!("{}.{}{mark}", job.replicate, job.attempt));
                    let valid = valid(job.replicate, job.attempt);
                    queue.ended(*job, valid);
                }
                Next::Done => return course,
                Next::Wait => unreachable!("nothing is in flight"),
            }
        }
    }

    #[test]
    fn what_was_invalid_is_made_again_after_all_others() {
        assert_eq!(course(3, |_, _| true), ["0.0", "1.0", "2.0"]);
        // The noise ends before the other jobs are done, so there is no pause.
        assert_eq!(
            course(3, |replicate, attempt| replicate > 0 || attempt > 0),
            ["0.0", "1.0", "2.0", "0.1"]
        );
        // Only jobs that were invalid at their last attempt are left, so there is a pause.
        assert_eq!(
            course(3, |replicate, attempt| replicate == 0 || attempt > 0),
            ["0.0", "1.0", "2.0", "1.1*", "2.1"]
        );
    }

    #[test]
    fn attempts_are_bounded() {
        assert_eq!(
            course(2, |replicate, _| replicate == 1),
            ["0.0", "1.0", "0.1", "0.2*", "0.3*"]
        );
        let never = course(5, |_, _| false);
        assert_eq!(never.len() as u32, 5 * MOST_ATTEMPTS);
        assert_eq!(never.last().unwrap(), "4.3*");
    }

    #[test]
    fn a_lane_waits_for_replicates_that_may_be_repeated() {
        let mut queue = Queue::new(lanes_of(&cells()[..1], Seed(1)).remove("lan").unwrap());
        let mut handed_out = Vec::new();
        for _ in 0..3 {
            match queue.take() {
                Next::Run(job, _) => handed_out.push(job),
                other => panic!("{other:?}"),
            }
        }
        assert!(matches!(queue.take(), Next::Wait));
        let first = handed_out.remove(0);
        queue.ended(*first, false);
        assert!(matches!(queue.take(), Next::Run(job, _) if job.attempt == 1));
        assert!(matches!(queue.take(), Next::Wait));
    }

    #[test]
    fn who_is_to_be_alone_comes_first() {
        let names = |alone: &[&str]| -> Vec<Vec<String>> {
            let alone: Vec<String> = alone.iter().map(|lane| (*lane).to_owned()).collect();
            let turns = turns(lanes_of(&cells(), Seed(1)), &alone);
            let names = turns.iter().map(|lanes| lanes.keys().cloned().collect());
            names.collect()
        };
        assert_eq!(names(&[]), [vec!["lan", "ppp"]]);
        assert_eq!(names(&["ppp", "wan"]), [vec!["ppp"], vec!["lan"]]);
    }

    #[test]
    fn every_job_runs_once_and_a_failure_ends_the_rest() {
        let done = Mutex::new(BTreeSet::new());
        let widths = [("ppp".to_owned(), 4)].into();
        execute::<()>(
            lanes_of(&cells(), Seed(1)),
            &widths,
            &|| false,
            &|job, place| {
                lock(&done).insert((job.cell.folder(), job.replicate, place));
                Ok(true)
            },
        )
        .unwrap();
        assert_eq!(lock(&done).len(), 18);
        let ran = AtomicU32::new(0);
        let result = execute(
            lanes_of(&cells(), Seed(1)),
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

    #[test]
    fn a_job_that_panics_does_not_block_its_lane() {
        let widths = [("lan".to_owned(), 2), ("ppp".to_owned(), 2)].into();
        let ran = AtomicU32::new(0);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            execute::<()>(
                lanes_of(&cells(), Seed(1)),
                &widths,
                &|| false,
                &|_, place| {
                    ran.fetch_add(1, Ordering::Relaxed);
                    match place {
                        0 => panic!("a job panics"),
                        // The job is always invalid: the lane waits for jobs that may have to be repeated.
                        _ => Ok(false),
                    }
                },
            )
        }));
        assert!(ended.is_err());
        assert!(ran.into_inner() < 18 * MOST_ATTEMPTS);
    }
}
