//! Runs Slurm's programs, each with a time limit, because a program may wait minutes for the controller.

use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use fathometer_cluster::slurm::QueryResult;
use fathometer_cluster::slurm::job::{JobId, JobReport};
use fathometer_sys::Clock;

use crate::JobError;

/// The time limit of one program.
const LONGEST: Duration = Duration::from_secs(60);

/// Submits the script and returns the job ID.
///
/// # Errors
/// If `sbatch` cannot run, refuses the job or prints no number.
pub fn submit(script: &Path) -> Result<JobId, JobError> {
    let mut command = Command::new("sbatch");
    command.arg("--parsable").arg(script);
    let done = run(command, LONGEST)?;
    if !done.status.success() {
        return Err(JobError::Failed(format!(
            "sbatch refused the job: {}",
            done.message()
        )));
    }
    JobId::from_sbatch(&done.output).ok_or_else(|| {
        JobError::Failed(format!(
            "sbatch printed no job number: {:?}; see squeue --me",
            done.output
        ))
    })
}

/// Cancels a job.
///
/// # Errors
/// If `scancel` cannot run or fails.
pub fn cancel(job: &JobId) -> Result<(), JobError> {
    let mut command = Command::new("scancel");
    command.arg(job.to_string());
    let done = run(command, LONGEST)?;
    match done.status.success() {
        true => Ok(()),
        false => Err(JobError::Failed(format!(
            "scancel failed: {}",
            done.message()
        ))),
    }
}

/// Queries a job's state from the controller. If the controller has removed the job, queries the accounting data.
pub fn look(job: &JobId) -> QueryResult {
    let mut command = Command::new("scontrol");
    command.args(["--oneliner", "show", "job", &job.to_string()]);
    let done = match run(command, LONGEST) {
        Ok(done) => done,
        Err(error) => return QueryResult::Unreachable(error.to_string()),
    };
    if let Some(report) = JobReport::from_scontrol(&done.output) {
        return QueryResult::Job(report);
    }
    if !done.errors.contains("Invalid job id") {
        return QueryResult::Unreachable(done.message());
    }
    let mut command = Command::new("sacct");
    command.args([
        "--noheader",
        "--parsable2",
        "--allocations",
        "--format=State,NodeList",
    ]);
    command.arg(format!("--jobs={job}"));
    // Many clusters have no accounting data, so an error is ignored.
    let report = run(command, LONGEST)
        .ok()
        .and_then(|done| JobReport::from_sacct(&done.output));
    report.map_or(QueryResult::Unknown, QueryResult::Job)
}

/// A program that has exited.
struct Done {
    status: ExitStatus,
    output: String,
    errors: String,
}

impl Done {
    /// Returns the program's stderr, or its exit status if stderr is empty.
    fn message(&self) -> String {
        match self.errors.trim() {
            "" => self.status.to_string(),
            errors => errors.to_owned(),
        }
    }
}

/// Runs a program until it exits. The program has its own process group, so that Ctrl-C does not stop it. Otherwise the
/// user could not know whether the job was submitted.
fn run(mut command: Command, longest: Duration) -> Result<Done, JobError> {
    let name = command.get_program().to_string_lossy().into_owned();
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut child = command.spawn().map_err(|error| {
        JobError::Failed(match error.kind() {
            io::ErrorKind::NotFound => format!(
                "{name} is not on the PATH: run this command where Slurm's programs are, or write the script with \
                 --print"
            ),
            _ => format!("cannot start {name}: {error}"),
        })
    })?;
    let output = read_on_a_thread(child.stdout.take());
    let errors = read_on_a_thread(child.stderr.take());
    let clock = Clock::start();
    let begin = clock.now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if clock.now().since(begin) >= longest {
            child.kill()?;
            child.wait()?;
            return Err(JobError::Failed(format!(
                "{name} did not answer within {} s",
                longest.as_secs()
            )));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = |thread: std::thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&thread.join().unwrap_or_default()).into_owned()
    };
    Ok(Done {
        status,
        output: text(output),
        errors: text(errors),
    })
}

fn read_on_a_thread(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut content = Vec::new();
        if let Some(mut pipe) = pipe {
            // After a read error, the content that was already read is used as the message.
            let _ = pipe.read_to_end(&mut content);
        }
        content
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_read_to_its_end_or_killed_at_its_time_limit() {
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        };
        let done = run(shell("echo out; echo err >&2; exit 3"), LONGEST).unwrap();
        assert_eq!(
            (done.output.as_str(), done.message().as_str()),
            ("out\n", "err")
        );
        assert_eq!(done.status.code(), Some(3));
        let silent = run(shell("exit 3"), LONGEST).unwrap();
        assert_eq!(silent.message(), "exit status: 3");
        let error = run(shell("exec sleep 100"), Duration::from_millis(50))
            .err()
            .unwrap();
        assert_eq!(error.to_string(), "sh did not answer within 0 s");
        let error = run(Command::new("no-such-program"), LONGEST).err().unwrap();
        assert!(error.to_string().contains("is not on the PATH"), "{error}");
    }
}
