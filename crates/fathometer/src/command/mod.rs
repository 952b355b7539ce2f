//! The command line. Each command is a module with its arguments and a `run` function.
//!
//! Data go to stdout, progress and warnings to stderr. Exit codes: 0 done, 1 failed, 2 usage, 3 measured but
//! invalid, 4 an SLO or threshold was not met.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use fathometer_lab::data::DataError;
use fathometer_lab::era::EraError;
use fathometer_lab::server::definition::DefinitionError;
use fathometer_load::LoadError;
use fathometer_load::connection_check::CheckError;
use fathometer_load::url::UrlError;
use fathometer_load::workload;
use fathometer_study::bottleneck::error::SearchError;
use fathometer_study::evaluation::EvaluationError;
use fathometer_study::files::FilesError;
use fathometer_study::run::RunError;
use fathometer_study::starter::StarterError;

pub mod arguments;
pub mod bottleneck;
pub mod capacity;
pub mod cluster;
pub mod compare;
pub mod completions;
pub mod content;
pub mod doctor;
pub mod fetch;
pub mod ledger;
pub mod list;
pub mod load;
pub mod merge;
pub mod pack;
pub mod path;
pub mod predict;
pub mod report;
mod saved;
pub mod schemas;
pub mod serve;
pub mod site;
pub mod statistics;
pub mod study;
pub mod trace;
pub mod unpack;

/// The error of any command: a message that says what to do.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// An error in the command line that does not depend on the machine or the server.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// Creates a usage error with this message.
pub fn usage(message: impl Into<String>) -> Failure {
    Box::new(UsageError(message.into()))
}

/// Returns the exit code of a failure: 2 for a usage error, else 1.
///
/// A usage error depends only on the command line and on what is built into this program: a wrong option, or an
/// unknown study, path, era, server or workload. A missing or malformed file is not a usage error.
pub fn code_of(failure: &Failure) -> ExitCode {
    let is_usage = failure.is::<UsageError>()
        || failure.is::<fathometer_site_content::UsageError>()
        || is(failure, UrlError::is_usage)
        || is(failure, LoadError::is_usage)
        || is(failure, CheckError::is_usage)
        || is(failure, workload::LoadError::is_usage)
        || is(failure, DataError::is_usage)
        || is(failure, EraError::is_usage)
        || is(failure, DefinitionError::is_usage)
        || is(failure, FilesError::is_usage)
        || is(failure, EvaluationError::is_usage)
        || is(failure, RunError::is_usage)
        || is(failure, StarterError::is_usage)
        || is(failure, SearchError::is_usage);
    ExitCode::from(if is_usage { 2 } else { 1 })
}

/// Whether a failure is an error of this type for which `is_usage` holds.
fn is<E: std::error::Error + 'static>(failure: &Failure, is_usage: fn(&E) -> bool) -> bool {
    failure.downcast_ref().is_some_and(is_usage)
}

/// Measures HTTP servers, protocols and pages: latency, throughput, packets, CPU time and memory, and what limits
/// them
#[derive(Debug, Parser)]
#[command(version = crate::build_facts::VERSION, about, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 success, 1 failure, 2 usage error, 3 measured but INVALID, 4 an SLO, claim or gate \
     failed."
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Rerun a paper's experiments, or your own study, and compare with the published figures
    Study(study::StudyArguments),
    /// Run any command over an emulated network path
    Path(path::PathArguments),
    /// Account for the packets of any capture (pcap or pcapng)
    Trace(trace::TraceArguments),
    /// Retrieve a page from any HTTP server with a connection policy
    Fetch(Box<fetch::FetchArguments>),
    /// Load-test any HTTP server: throughput, latency, errors and the validity of the result
    Load(Box<load::LoadArguments>),
    /// Merge the results of several machines: the spools of a load test, or the runs of a study
    Merge(merge::MergeArguments),
    /// Find the highest rate or number of users at which a server meets its SLOs
    Capacity(Box<capacity::CapacityArguments>),
    /// Find the resource that limits a server, by varying each resource
    Bottleneck(Box<bottleneck::BottleneckArguments>),
    /// Run a load test or a study on the machines of a cluster (Slurm or Kubernetes)
    Cluster(Box<cluster::ClusterArguments>),
    /// Predict loads that were not measured, from a model fitted to a few measured loads
    Predict(predict::PredictArguments),
    /// Serve a folder or a synthetic site
    Serve(Box<serve::ServeArguments>),
    /// Write a workload's site to a folder
    Site(site::SiteArguments),
    /// Show the bytes that content codings, a shared dictionary, lower-case tags and other image formats would save on
    /// a site
    Content(content::ContentArguments),
    /// Build an object package: one file with all files of a folder, a page or an HTTP archive
    Pack(pack::PackArguments),
    /// Extract an object package, or list its files
    Unpack(unpack::UnpackArguments),
    /// Compare two results: which metrics are better, worse, equal or undecided; also as a gate for CI
    Compare(compare::CompareArguments),
    /// Show the results of a run again: tables, claims, and report.html
    Report(report::ReportArguments),
    /// Show which claims of the papers hold, over several runs
    Ledger(ledger::LedgerArguments),
    /// Show how often this program's intervals contain the true value, by simulation
    Statistics(statistics::StatisticsArguments),
    /// List studies, paths, eras, servers and workloads
    List(list::ListArguments),
    /// Test which experiments this machine can run
    Doctor(doctor::DoctorArguments),
    /// Print completions for a shell, or write manual pages
    Completions(completions::CompletionsArguments),
    /// Write the JSON Schemas of study, table, claim, server, path and era files
    Schemas(schemas::SchemasArguments),
    /// Receive a host's packets, in a separate process that this program starts
    #[command(name = fathometer_lab::wire::receiver::ARGUMENT, hide = true)]
    ReceivePackets,
}

/// Runs the requested command.
pub fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    fathometer_sys::signal::report_children()?;
    match arguments.command {
        Command::Study(arguments) => study::run(&arguments),
        Command::Path(arguments) => path::run(&arguments),
        Command::Trace(arguments) => trace::run(&arguments),
        Command::Fetch(arguments) => fetch::run(&arguments),
        Command::Load(arguments) => load::run(&arguments),
        Command::Merge(arguments) => merge::run(&arguments),
        Command::Capacity(arguments) => capacity::run(&arguments),
        Command::Bottleneck(arguments) => bottleneck::run(&arguments),
        Command::Cluster(arguments) => cluster::run(&arguments),
        Command::Predict(arguments) => predict::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Site(arguments) => site::run(&arguments),
        Command::Content(arguments) => content::run(&arguments),
        Command::Pack(arguments) => pack::run(&arguments),
        Command::Unpack(arguments) => unpack::run(&arguments),
        Command::Compare(arguments) => compare::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Ledger(arguments) => ledger::run(&arguments),
        Command::Statistics(arguments) => statistics::run(&arguments),
        Command::List(arguments) => list::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
        Command::Schemas(arguments) => schemas::run(&arguments),
        Command::ReceivePackets => receive_packets(),
    }
}

/// Receives packets until the peer closes the socket that is the standard input.
fn receive_packets() -> Result<ExitCode, Failure> {
    let control = std::io::stdin().as_fd().try_clone_to_owned()?;
    fathometer_lab::wire::receiver::serve(&UnixStream::from(control))?;
    Ok(ExitCode::SUCCESS)
}
