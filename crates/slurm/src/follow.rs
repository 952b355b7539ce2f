//! Follows a submitted job: copies its output, and returns how the job ended.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathometer_cluster::slurm::job::JobId;
use fathometer_cluster::slurm::{Ending, QueryResult, Watch, files};
use fathometer_sys::{Clock, Interest, Interrupt, Waiter};

use crate::folder::{self, Tail};
use crate::{JobError, programs};

/// The period at which the job's files are read.
const POLL: Duration = Duration::from_millis(200);

/// The receiver of a job's output.
pub trait Streams {
    /// Receives bytes of rank 0's stdout.
    fn result(&mut self, bytes: &[u8]);

    /// Receives bytes of stderr.
    fn messages(&mut self, bytes: &[u8]);

    /// Receives a line about the job.
    fn say(&mut self, line: &str);
}

/// The output files of a job.
pub struct Output {
    /// Rank 0's stdout, copied to stdout.
    result: Option<Tail>,
    /// Rank 0's stderr and the job's log, copied to stderr.
    messages: Vec<Tail>,
}

/// Follows the job until it has ended. Ctrl-C cancels the job. Returns the ending of the job, and whether it was
/// cancelled.
///
/// # Errors
/// If the system cannot wait, or the exit-code file contains no exit code.
pub fn follow(
    job: &JobId,
    folder: &Path,
    interrupt: Interrupt,
    streams: &mut dyn Streams,
) -> Result<(Ending, bool), JobError> {
    follow_by(
        job,
        Output::of(folder),
        interrupt,
        &|| folder::exit_code(folder),
        streams,
    )
}

/// Follows a job like [`follow`], with the output files and the source of the exit code as arguments.
///
/// # Errors
/// The errors of [`follow`].
pub fn follow_by(
    job: &JobId,
    mut output: Output,
    interrupt: Interrupt,
    exit_code: &dyn Fn() -> Result<Option<u8>, JobError>,
    streams: &mut dyn Streams,
) -> Result<(Ending, bool), JobError> {
    let clock = Clock::start();
    let mut waiter = Waiter::new(clock)?;
    let mut watch = Watch::new(clock.now());
    loop {
        let now = clock.now();
        if interrupt.is_raised() && !watch.is_cancelled() {
            watch.cancel(now);
            match programs::cancel(job) {
                Ok(()) => {
                    streams.say(&format!(
                        "job {job}: cancelled; waiting for its ranks to exit"
                    ));
                }
                Err(error) => streams.say(&format!("job {job}: cannot cancel: {error}")),
            }
        }
        // The exit code is read before the output, because the job writes its output first.
        let code = exit_code()?;
        output.pass(streams);
        if let Some(ending) = watch.ending(now, code) {
            return Ok((ending, watch.is_cancelled()));
        }
        if watch.asks(now) {
            let sighting = programs::look(job);
            let text = match &sighting {
                QueryResult::Job(report) => report.to_string(),
                QueryResult::Unknown => "Slurm has no record of it".to_owned(),
                QueryResult::Unreachable(message) => format!("Slurm does not answer: {message}"),
            };
            if watch.saw(clock.now(), sighting) {
                streams.say(&format!("job {job}: {text}"));
            }
        }
        let interrupt = [(interrupt.as_fd(), Interest::Read)];
        let sources = if watch.is_cancelled() {
            &[][..]
        } else {
            &interrupt[..]
        };
        waiter.wait(sources, Some(clock.now() + POLL))?;
    }
}

impl Output {
    fn of(folder: &Path) -> Output {
        let tail = |name| Tail::new(folder.join(name));
        Output {
            result: Some(tail(files::RANK_0_OUTPUT)),
            messages: vec![tail(files::RANK_0_ERRORS), tail(files::LOG)],
        }
    }

    /// Returns an output with only messages, without a result.
    pub fn messages(files: impl Iterator<Item = PathBuf>) -> Output {
        Output {
            result: None,
            messages: files.map(Tail::new).collect(),
        }
    }

    /// Copies new output. If a file cannot be read now, the next poll reads it again.
    fn pass(&mut self, streams: &mut dyn Streams) {
        for messages in &mut self.messages {
            let _ = messages.copy(|bytes| streams.messages(bytes));
        }
        if let Some(result) = &mut self.result {
            let _ = result.copy(|bytes| streams.result(bytes));
        }
    }
}
