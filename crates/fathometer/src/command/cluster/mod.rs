//! `fathometer cluster`: runs a load test or a study on the machines of a cluster, through the cluster's scheduler.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use fathometer_slurm::follow::Streams;

use super::{Failure, usage};

mod array;
mod kubernetes;
mod slurm;

/// Arguments of `cluster`.
#[derive(Debug, Args)]
pub struct ClusterArguments {
    #[command(subcommand)]
    scheduler: Scheduler,
}

#[derive(Debug, Subcommand)]
enum Scheduler {
    /// Submit a load test or a study to Slurm, follow it, and exit with its exit code
    Slurm(Box<slurm::SlurmArguments>),
    /// Print a load test or a study as an Indexed Job for kubectl apply
    Kubernetes(Box<kubernetes::KubernetesArguments>),
}

/// Runs the requested scheduler's command.
pub fn run(arguments: &ClusterArguments) -> Result<ExitCode, Failure> {
    match &arguments.scheduler {
        Scheduler::Slurm(arguments) if array::is_study(&arguments.command) => array::run(arguments),
        Scheduler::Slurm(arguments) => slurm::run(arguments),
        Scheduler::Kubernetes(arguments) => kubernetes::run(arguments),
    }
}

/// Fails if the command for the ranks is not a command of this program.
fn check_command(words: &[OsString]) -> Result<(), Failure> {
    let known = words
        .first()
        .and_then(|word| word.to_str())
        .is_some_and(|word| {
            <super::Arguments as clap::CommandFactory>::command()
                .get_subcommands()
                .any(|command| command.get_name() == word && word != "cluster")
        });
    if known {
        return Ok(());
    }
    Err(usage(format!(
        "after -- write a command of fathometer, as in -- load http://10.0.0.1:8080/, not {:?}",
        words.first().map(OsString::as_os_str).unwrap_or_default()
    )))
}

/// The standard output and standard error of this program.
struct OwnStreams;

impl Streams for OwnStreams {
    fn result(&mut self, bytes: &[u8]) {
        crate::print::bytes_to_stdout(bytes);
    }

    fn messages(&mut self, bytes: &[u8]) {
        crate::print::bytes_to_stderr(bytes);
    }

    fn say(&mut self, line: &str) {
        eprintln!("fathometer: {line}");
    }
}
