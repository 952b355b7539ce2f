//! Decides when Slurm is queried about a job. Determines when and how the job has ended.

use std::fmt;
use std::time::Duration;

use fathometer_model::Instant;

use super::job::{JobReport, QueryResult};

/// The first interval between two queries. Each interval is 25 % longer than the previous interval, up to
/// [`LONGEST_INTERVAL`].
const SHORTEST_INTERVAL: Duration = Duration::from_millis(250);

/// The longest interval between two queries. It limits the load on the controller, which serves all users of a cluster.
const LONGEST_INTERVAL: Duration = Duration::from_secs(5);

/// The longest time without an answer of the controller, for example while it restarts.
const CONTROLLER_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// The longest delay until a file becomes visible after a job has ended: NFS clients cache attributes for this time.
const FILE_DELAY: Duration = Duration::from_secs(5);

/// The longest time from the cancellation of a job until its end. Slurm gives the processes `KillWait` (30 s by
/// default) to exit.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(60);

/// Follows one job: reads Slurm's reports and the exit code in the job's folder.
#[derive(Debug)]
pub struct Watch {
    next: Instant,
    interval: Duration,
    last: Option<JobReport>,
    unreachable: Option<(Instant, String)>,
    ended: Option<Instant>,
    cancelled: Option<Instant>,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The batch script wrote this exit code, which is the exit code of rank 0.
    Code(u8),
    /// The job ended without an exit code of rank 0. Contains Slurm's last report, if there was one.
    NoCode(Option<JobReport>),
    /// Slurm did not answer for `CONTROLLER_TIMEOUT`. Contains the last message.
    Unreachable(String),
    /// The job was cancelled and did not end within `CANCEL_TIMEOUT`.
    NotCancelled,
}

impl Watch {
    /// Follows a job that was submitted at `now`.
    pub fn new(now: Instant) -> Watch {
        Watch {
            next: now,
            interval: SHORTEST_INTERVAL,
            last: None,
            unreachable: None,
            ended: None,
            cancelled: None,
        }
    }

    /// Whether a query to Slurm is due.
    pub fn asks(&self, now: Instant) -> bool {
        self.ended.is_none() && now >= self.next
    }

    /// Processes Slurm's answer. Returns true if the answer must be shown to the user: the job's state or nodes
    /// changed, or Slurm stopped answering.
    pub fn saw(&mut self, now: Instant, sighting: QueryResult) -> bool {
        self.next = now + self.interval;
        self.interval = (self.interval * 5 / 4).min(LONGEST_INTERVAL);
        match sighting {
            QueryResult::Job(report) => {
                self.unreachable = None;
                if report.state.is_final() {
                    self.ended = Some(now);
                }
                let is_new = self.last.as_ref() != Some(&report);
                let starts = is_new
                    && self
                        .last
                        .as_ref()
                        .is_none_or(|last| last.nodes != report.nodes);
                if starts {
                    // The job has just started and may end soon.
                    self.interval = SHORTEST_INTERVAL;
                }
                self.last = Some(report);
                is_new
            }
            QueryResult::Unknown => {
                self.ended = Some(now);
                false
            }
            QueryResult::Unreachable(message) => {
                let since = self.unreachable.as_ref().map_or(now, |(since, _)| *since);
                self.unreachable.replace((since, message)).is_none()
            }
        }
    }

    /// Records that the cancellation of the job was requested.
    pub fn cancel(&mut self, now: Instant) {
        self.cancelled.get_or_insert(now);
        self.next = now;
        self.interval = SHORTEST_INTERVAL;
    }

    /// Whether the cancellation of the job was requested.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_some()
    }

    /// Returns the ending of the job; `None` if the job has not ended. `code` is the exit code in the job's folder.
    pub fn ending(&self, now: Instant, code: Option<u8>) -> Option<Ending> {
        let after = |since: Option<Instant>, time: Duration| {
            since.is_some_and(|since| now.since(since) >= time)
        };
        if let Some(code) = code {
            return Some(Ending::Code(code));
        }
        if after(self.ended, FILE_DELAY) {
            return Some(Ending::NoCode(self.last.clone()));
        }
        if after(self.cancelled, CANCEL_TIMEOUT) && self.ended.is_none() {
            return Some(Ending::NotCancelled);
        }
        match &self.unreachable {
            Some((since, message)) if after(Some(*since), CONTROLLER_TIMEOUT) => {
                Some(Ending::Unreachable(message.clone()))
            }
            _ => None,
        }
    }
}

impl Ending {
    /// The exit code of the program that submitted the job.
    ///
    /// This is the exit code of rank 0, except that it is 1 in these cases: rank 0 could not be started (126, 127), was
    /// killed by a signal (128 and above) or left no code, or the job was cancelled before rank 0 had succeeded.
    pub fn exit_code(&self, cancelled: bool) -> u8 {
        match self {
            Ending::Code(0) if cancelled => 1,
            Ending::Code(code @ 0..126) => *code,
            _ => 1,
        }
    }
}

/// Formats a predicate whose subject is the job, as in "ended with exit code 3".
impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Code(code @ 126..=127) => write!(
                f,
                "could not start fathometer on the node of rank 0 (exit code {code}); see rank-0.err, and give the \
                 path of the program on the nodes with --program"
            ),
            Ending::Code(code @ 129..) => {
                write!(f, "ended: rank 0 was killed by signal {}", code - 128)
            }
            Ending::Code(code) => write!(f, "ended with exit code {code}"),
            Ending::NoCode(report) => {
                f.write_str("ended without an exit code of rank 0")?;
                let Some(report) = report else {
                    return f.write_str(", and Slurm has no record of it");
                };
                write!(f, ", in state {report}")?;
                f.write_str(match report.state.as_str() {
                    "TIMEOUT" | "DEADLINE" => ": give it more time with --time",
                    "NODE_FAIL" | "BOOT_FAIL" => ": the node of rank 0 failed",
                    "OUT_OF_MEMORY" => ": give it more memory, as in --sbatch=--mem=4G",
                    "FAILED" => ": see job.log; the job's folder must be on a file system that all nodes share",
                    _ => "",
                })
            }
            Ending::Unreachable(message) => write!(
                f,
                "may still run: Slurm did not answer for {} min: {}",
                CONTROLLER_TIMEOUT.as_secs() / 60,
                message.trim()
            ),
            Ending::NotCancelled => write!(
                f,
                "was cancelled and did not end within {} s",
                CANCEL_TIMEOUT.as_secs()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn sighting(line: &str) -> QueryResult {
        QueryResult::Job(JobReport::from_scontrol(line).unwrap())
    }

    #[test]
    fn questions_become_rare_while_nothing_changes() {
        let mut watch = Watch::new(at(0));
        let mut questions = 0;
        for quarter in 0..4 * 600 {
            let now = Instant::ZERO + Duration::from_millis(quarter * 250);
            if watch.asks(now) {
                questions += 1;
                let is_new = watch.saw(now, sighting("JobState=PENDING Reason=Priority NodeList="));
                assert_eq!(is_new, questions == 1);
            }
            assert_eq!(watch.ending(now, None), None);
        }
        // About one query per 5 s, and some additional queries at the start.
        assert!((115..150).contains(&questions), "{questions}");
        // After a change, queries are frequent again.
        assert!(watch.saw(at(600), sighting("JobState=RUNNING NodeList=n0")));
        assert!(!watch.asks(at(600)) && watch.asks(at(606)));
        assert!(!watch.saw(at(606), sighting("JobState=RUNNING NodeList=n0")));
        assert!(watch.asks(at(607)));
    }

    #[test]
    fn an_exit_code_ends_the_watch_and_a_final_state_does_after_a_while() {
        let mut watch = Watch::new(at(0));
        assert!(watch.saw(at(1), sighting("JobState=RUNNING NodeList=n0")));
        assert_eq!(watch.ending(at(1), Some(3)), Some(Ending::Code(3)));
        watch.saw(at(2), sighting("JobState=TIMEOUT NodeList=n0"));
        assert_eq!(watch.ending(at(2), None), None);
        // An exit code that becomes visible after the job's end is accepted.
        assert_eq!(watch.ending(at(4), Some(1)), Some(Ending::Code(1)));
        assert!(!watch.asks(at(4)));
        let ending = watch.ending(at(7), None).unwrap();
        assert_eq!(ending.exit_code(false), 1);
        assert_eq!(
            ending.to_string(),
            "ended without an exit code of rank 0, in state TIMEOUT on n0: give it more time with --time"
        );
    }

    #[test]
    fn every_wait_has_an_end() {
        // The job's record was removed.
        let mut watch = Watch::new(at(0));
        watch.saw(at(1), QueryResult::Unknown);
        assert_eq!(watch.ending(at(5), None), None);
        assert_eq!(watch.ending(at(6), None), Some(Ending::NoCode(None)));

        // The controller stops answering, answers again, and then stops answering for longer than the timeout.
        let mut watch = Watch::new(at(0));
        let silent = || QueryResult::Unreachable("no contact".to_owned());
        assert!(watch.saw(at(0), silent()));
        assert!(!watch.saw(at(599), silent()));
        assert_eq!(watch.ending(at(599), None), None);
        watch.saw(at(599), sighting("JobState=RUNNING NodeList=n0"));
        assert!(watch.saw(at(700), silent()));
        assert_eq!(watch.ending(at(1299), None), None);
        let ending = watch.ending(at(1300), None).unwrap();
        assert_eq!(ending.exit_code(false), 1);
        assert!(ending.to_string().ends_with("for 10 min: no contact"));

        // A cancelled job that does not end.
        let mut watch = Watch::new(at(0));
        watch.saw(at(1), sighting("JobState=RUNNING NodeList=n0"));
        watch.cancel(at(100));
        watch.cancel(at(120));
        assert!(watch.is_cancelled() && watch.asks(at(120)));
        watch.saw(at(120), sighting("JobState=COMPLETING NodeList=n0"));
        assert_eq!(watch.ending(at(159), None), None);
        assert_eq!(watch.ending(at(160), None), Some(Ending::NotCancelled));
    }

    #[test]
    fn the_exit_code_is_the_tests_if_the_test_has_one() {
        for code in [0, 1, 2, 3, 4, 9] {
            assert_eq!(Ending::Code(code).exit_code(false), code);
        }
        for code in [126, 127, 128, 137, 255] {
            assert_eq!(Ending::Code(code).exit_code(false), 1, "{code}");
        }
        assert_eq!(Ending::Code(0).exit_code(true), 1);
        assert_eq!(Ending::Code(3).exit_code(true), 3);
        assert_eq!(
            Ending::Code(137).to_string(),
            "ended: rank 0 was killed by signal 9"
        );
    }
}
