//! Reports of Slurm's programs on a job.

use std::fmt;

/// A job ID, as `sbatch` printed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobId(String);

/// A job state, in Slurm's words: `PENDING`, `RUNNING`, `COMPLETED` and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobState(String);

/// Slurm's report on a job at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobReport {
    /// The state.
    pub state: JobState,
    /// Slurm's reason for this state, if the report contains a reason.
    pub reason: Option<String>,
    /// The nodes of the job, in Slurm's short form, if any are assigned.
    pub nodes: Option<String>,
}

/// The answer to one query about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryResult {
    /// Slurm has a record of the job.
    Job(JobReport),
    /// Slurm has no record of the job: the job ended, and its record was removed.
    Unknown,
    /// Slurm did not answer. Contains the message of its program.
    Unreachable(String),
}

impl JobId {
    /// Reads the job ID from the output of `sbatch --parsable`, which is `12` or `12;cluster`.
    pub fn from_sbatch(output: &str) -> Option<JobId> {
        let line = output.lines().last()?;
        let number = line.split(';').next()?.trim();
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| JobId(number.to_owned()))
    }
}

impl JobState {
    /// Whether this state is final: the job never runs again.
    ///
    /// These are the final states in `squeue(1)`, JOB STATE CODES, for a job without `--requeue`.
    pub fn is_final(&self) -> bool {
        matches!(
            self.0.as_str(),
            "BOOT_FAIL"
                | "CANCELLED"
                | "COMPLETED"
                | "DEADLINE"
                | "FAILED"
                | "NODE_FAIL"
                | "OUT_OF_MEMORY"
                | "PREEMPTED"
                | "REVOKED"
                | "TIMEOUT"
        )
    }

    /// The state in Slurm's words.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl JobReport {
    /// Reads the output of `scontrol --oneliner show job ID`.
    pub fn from_scontrol(output: &str) -> Option<JobReport> {
        JobReport::of_tasks(output.lines().filter_map(JobReport::from_line))
    }

    /// Combines the reports of a job array, which has a line for each task: returns the report of a task that has not
    /// ended, if any.
    fn of_tasks(tasks: impl Iterator<Item = JobReport>) -> Option<JobReport> {
        tasks.reduce(|one, other| match one.state.is_final() {
            true => other,
            false => one,
        })
    }

    fn from_line(line: &str) -> Option<JobReport> {
        let field = |name: &str| {
            let mut words = line.split_ascii_whitespace();
            let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
            (!matches!(value, "" | "None" | "(null)")).then(|| value.to_owned())
        };
        Some(JobReport {
            state: JobState(field("JobState")?),
            reason: field("Reason"),
            nodes: field("NodeList"),
        })
    }

    /// Reads the output of `sacct --noheader --parsable2 --allocations --format=State,NodeList`.
    pub fn from_sacct(output: &str) -> Option<JobReport> {
        JobReport::of_tasks(output.lines().filter_map(JobReport::from_sacct_line))
    }

    fn from_sacct_line(line: &str) -> Option<JobReport> {
        let (state, nodes) = line.split_once('|')?;
        // The state may have a suffix, as in "CANCELLED by 1000".
        let state = state.split_ascii_whitespace().next()?;
        let nodes = nodes.trim();
        Some(JobReport {
            state: JobState(state.to_owned()),
            reason: None,
            nodes: (!matches!(nodes, "" | "None assigned")).then(|| nodes.to_owned()),
        })
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Formats the report as in `PENDING (Resources)` or `RUNNING on n[0-1]`.
impl fmt::Display for JobReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.state)?;
        if let Some(reason) = &self.reason {
            write!(f, " ({reason})")?;
        }
        if let Some(nodes) = &self.nodes {
            write!(f, " on {nodes}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_job_is_read_from_sbatch() {
        let number = |output| JobId::from_sbatch(output).map(|id| id.to_string());
        assert_eq!(number("12\n").as_deref(), Some("12"));
        assert_eq!(number("12;two\n").as_deref(), Some("12"));
        assert_eq!(number("a notice of the site\n7\n").as_deref(), Some("7"));
        assert_eq!(number(""), None);
        assert_eq!(number("Submitted batch job 12\n"), None);
    }

    /// The output lines are from Slurm 22.05, shortened at their end.
    #[test]
    fn reports_are_read_from_scontrol_and_sacct() {
        let pending = "JobId=8 JobName=fathometer UserId=nobody(65534) GroupId=nogroup(65534) MCS_label=N/A \
                       Priority=4294901752 Nice=0 Account=(null) QOS=(null) JobState=PENDING Reason=Resources \
                       Dependency=(null) Requeue=0 ReqNodeList=(null) ExcNodeList=(null) NodeList= NumNodes=2-2";
        let report = JobReport::from_scontrol(pending).unwrap();
        assert_eq!(report.to_string(), "PENDING (Resources)");
        assert!(!report.state.is_final());

        let done = "JobId=1 JobName=fathometer JobState=FAILED Reason=NonZeroExitCode ExitCode=3:0 \
                    ReqNodeList=(null) NodeList=n[0-1] BatchHost=n0 Command=/a b JobState=RUNNING";
        let report = JobReport::from_scontrol(done).unwrap();
        assert_eq!(report.to_string(), "FAILED (NonZeroExitCode) on n[0-1]");
        assert!(report.state.is_final());

        assert_eq!(JobReport::from_scontrol(""), None);
        let cancelled = JobReport::from_sacct("CANCELLED by 1000|n[0-1]\n").unwrap();
        assert_eq!(cancelled.to_string(), "CANCELLED on n[0-1]");
        assert!(cancelled.state.is_final());
        let waits = JobReport::from_sacct("PENDING|None assigned\n").unwrap();
        assert_eq!(waits.to_string(), "PENDING");
        assert_eq!(JobReport::from_sacct(""), None);
        // The report of a job array has a line for each task.
        let tasks =
            "JobId=9 JobState=RUNNING NodeList=n1\nJobId=8 JobState=COMPLETED NodeList=n0\n";
        let report = JobReport::from_scontrol(tasks).unwrap();
        assert_eq!(report.to_string(), "RUNNING on n1");
        let tasks = "COMPLETED|n0\nPENDING|None assigned\nCOMPLETED|n1\n";
        assert!(!JobReport::from_sacct(tasks).unwrap().state.is_final());
    }
}
