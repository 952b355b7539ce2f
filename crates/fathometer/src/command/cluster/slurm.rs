//! `fathometer cluster slurm`: runs a load test as a Slurm job.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use fathometer_cluster::shell::quote;
use fathometer_cluster::slurm::{BatchOption, BatchScript, Partition, TimeLimit, files};
use fathometer_slurm::{folder, follow, programs};
use fathometer_sys::Interrupt;

use super::{OwnStreams, check_command};
use crate::command::arguments::{some_time, whole_seconds};
use crate::command::{Failure, usage};

/// Arguments of `cluster slurm`.
#[derive(Debug, Args)]
#[command(after_help = "\
The test runs as one job with one task for each rank. The output of rank 0 is printed here. The exit code is that of \
rank 0; it is 1 if rank 0 was killed or left no exit code, or if the job was cancelled. Ctrl-C cancels the job.

The job's folder must be on a file system that all nodes share. It receives the batch script, the output of each rank, \
the ranks' shared secret (mode 0600), and the records of each rank of `load` (--spool). If rank 0 is lost, \
`fathometer merge` makes a result from these records.

A study runs as a job array: each task measures a share of the replicates, and the runs are merged after all tasks \
have exited. The exit code is that of the merged study.

Examples:
  fathometer cluster slurm --ranks 4 --sbatch=--exclusive -- study nielsen97 --full
  fathometer cluster slurm --ranks 4 -- load http://10.0.0.1:8080/ --rate 40000 -d 60s
  fathometer cluster slurm --nodes 2 --ranks 8 --cpus 4 --time 10m -- load http://10.0.0.1/ -c 1000
  fathometer cluster slurm --ranks 2 --print -- load http://10.0.0.1:8080/ >job.sh")]
pub(super) struct SlurmArguments {
    /// Number of ranks that share the load or the study [default: one for each node]
    #[arg(long, value_name = "N", required_unless_present = "nodes")]
    pub(super) ranks: Option<NonZeroU32>,
    /// Number of nodes, at most one for each rank; a study needs one for each [default: one for each rank]
    #[arg(long, value_name = "N")]
    pub(super) nodes: Option<NonZeroU32>,
    /// Number of processors for each rank [default: Slurm's, usually 1]
    #[arg(long, value_name = "N")]
    pub(super) cpus: Option<NonZeroU32>,
    /// Partition of the job [default: the cluster's]
    #[arg(long, value_name = "NAME")]
    pub(super) partition: Option<Partition>,
    /// Time limit of the job: 90s, 10m, 2h, or in Slurm's form, 1:30:00 [default: the partition's]
    #[arg(long, value_name = "TIME", value_parser = time_limit)]
    pub(super) time: Option<TimeLimit>,
    /// Any other long option of sbatch, as in --sbatch=--exclusive; may be given several times
    #[arg(long = "sbatch", value_name = "OPTION", allow_hyphen_values = true)]
    pub(super) options: Vec<BatchOption>,
    /// Path of fathometer on the nodes [default: the path of this program]
    #[arg(long, value_name = "PATH")]
    pub(super) program: Option<OsString>,
    /// File with the shared secret of the ranks of `load` in its first line [default: a new secret in the job's folder]
    #[arg(long, value_name = "FILE")]
    pub(super) secret_file: Option<PathBuf>,
    /// New folder for the job's files [default: fathometer-job-1, -2 …]
    #[arg(long, value_name = "FOLDER")]
    pub(super) folder: Option<PathBuf>,
    /// Seconds for which other ranks may run after rank 0 has exited, before they are stopped
    #[arg(long, value_name = "SECONDS", value_parser = whole_seconds, default_value = "30")]
    grace: Duration,
    /// Print the batch script; create and submit nothing
    #[arg(long)]
    pub(super) print: bool,
    /// The fathometer command that each rank runs, with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(super) command: Vec<OsString>,
}

fn time_limit(text: &str) -> Result<TimeLimit, String> {
    let has_unit = text.ends_with(|last: char| last.is_ascii_alphabetic());
    match has_unit.then(|| some_time(text)) {
        Some(Ok(time)) => Ok(TimeLimit::from(time)),
        _ => text.parse().map_err(|error| format!("{error}")),
    }
}

/// Prints the script, or submits it and follows the job.
pub(super) fn run(arguments: &SlurmArguments) -> Result<ExitCode, Failure> {
    check_command(&arguments.command)?;
    let ranks = arguments
        .ranks
        .or(arguments.nodes)
        .unwrap_or(NonZeroU32::MIN);
    let nodes = arguments.nodes.unwrap_or(ranks);
    if nodes > ranks {
        return Err(usage(format!(
            "{nodes} nodes for {ranks} ranks: give at least one rank for each node"
        )));
    }
    if arguments.secret_file.is_some()
        && arguments.command.first().is_none_or(|name| name != "load")
    {
        return Err(usage(
            "--secret-file has an effect only on load, whose ranks communicate; omit it",
        ));
    }
    let secret_file = arguments.secret_file.as_deref().map(readable).transpose()?;
    let mut command = vec![match &arguments.program {
        Some(program) => program.clone(),
        None => std::env::current_exe()?.into_os_string(),
    }];
    command.extend(arguments.command.iter().cloned());
    let folder = folder::choose(arguments.folder.as_deref())?;
    let spool = spool(&folder, ranks, &arguments.command);
    if let Some(spool) = &spool {
        // The option follows the command's name directly: after a `--`, it would not be parsed as an option.
        let option = ["--spool".into(), spool.clone().into_os_string()];
        command.splice(2..2, option);
    }
    let script = BatchScript {
        folder: &folder,
        ranks,
        nodes,
        cpus: arguments.cpus,
        partition: arguments.partition.as_ref(),
        time_limit: arguments.time.as_ref(),
        options: &arguments.options,
        secret_file: secret_file.as_deref(),
        grace_s: u32::try_from(arguments.grace.as_secs()).unwrap_or(u32::MAX),
        command: &command,
    }
    .to_bytes();
    if arguments.print {
        crate::print::bytes_to_stdout(&script);
        return Ok(ExitCode::SUCCESS);
    }

    let interrupt = Interrupt::install()?;
    folder::make(&folder, &script, files::FOLLOWED)?;
    let job = programs::submit(&folder.join(files::SCRIPT)).inspect_err(|_| {
        // The folder contains only the files created above.
        let _ = std::fs::remove_dir_all(&folder);
    })?;
    eprintln!(
        "fathometer: job {job} submitted: {ranks} ranks; its files are in {}",
        folder.display()
    );
    if let Some(spool) = &spool {
        let spool = spool.display();
        eprintln!("fathometer: each rank writes its records to {spool}");
    }
    let (ending, cancelled) = follow::follow(&job, &folder, interrupt, &mut OwnStreams)?;
    eprintln!(
        "fathometer: job {job} {ending}; its files are in {}",
        folder.display()
    );
    let code = ending.exit_code(cancelled);
    if let Some(spool) = spool.filter(|spool| code == 1 && has_files(spool)) {
        eprintln!(
            "fathometer: to show the records of the ranks: fathometer merge {}",
            String::from_utf8_lossy(&quote(spool.as_os_str().as_bytes()))
        );
    }
    Ok(ExitCode::from(code))
}

/// Returns the folder for the spools of a load test, which survive the loss of rank 0. `None` for a single rank, for
/// other commands, and if the command sets `--spool` itself.
fn spool(folder: &Path, ranks: NonZeroU32, command: &[OsString]) -> Option<PathBuf> {
    let (name, options) = command.split_first()?;
    let has_its_own = options.iter().any(|word| {
        let word = word.as_bytes();
        word == b"--spool" || word.starts_with(b"--spool=")
    });
    (name == "load" && ranks.get() > 1 && !has_its_own).then(|| folder.join(files::SPOOL))
}

fn has_files(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some())
}

/// Returns the absolute path of a readable file.
fn readable(file: &Path) -> Result<PathBuf, Failure> {
    let opened = std::fs::File::open(file);
    opened.map_err(|error| format!("cannot read the secret in {}: {error}", file.display()))?;
    Ok(std::path::absolute(file)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ranks_of_a_load_have_a_folder_for_their_records_unless_the_command_names_one() {
        let folder = Path::new("/shared/job");
        let of = |ranks, words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            spool(folder, NonZeroU32::new(ranks).unwrap(), &words)
        };
        let expected = Some(PathBuf::from("/shared/job/spool"));
        assert_eq!(of(2, &["load", "http://a/"]), expected);
        assert_eq!(of(2, &["load", "http://a/--spool"]), expected);
        for (ranks, other) in [
            (1, &["load", "http://a/"][..]),
            (2, &["study", "nielsen97"]),
            (2, &["load", "http://a/", "--spool", "mine"]),
            (2, &["load", "http://a/", "--spool=mine"]),
        ] {
            assert_eq!(of(ranks, other), None, "{other:?}");
        }
    }

    #[test]
    fn a_time_limit_has_a_unit_or_is_in_slurms_form() {
        let limit = |text| time_limit(text).map(|limit| limit.to_string());
        assert_eq!(limit("10m"), Ok("0:10:00".to_owned()));
        assert_eq!(limit("1:30:00"), Ok("1:30:00".to_owned()));
        for bad in ["10", "0s", "10x", ""] {
            assert!(limit(bad).is_err(), "{bad}");
        }
    }
}
