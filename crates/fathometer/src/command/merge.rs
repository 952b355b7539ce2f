//! `fathometer merge`: merges the results of several machines: the spools of a load test, or the runs of a study.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use fathometer_analysis::load::Slo;
use fathometer_ranks::spool::{Spool, whole};
use fathometer_study::merge::merge;
use fathometer_sys::stderr::say;

use super::load::exit_code;
use super::load::output::Format;
use super::{Failure, report, usage};

const EXAMPLES: &str = "Examples:
  fathometer merge spool/                    the spools of all ranks, copied to one folder
  fathometer merge node1/ node2/ --json
  fathometer merge rank-0/ rank-1/ --output runs/whole     the runs of a study

If every rank finished normally, the result of the spools equals the result of rank 0, bit for bit. The exit
codes are those of `fathometer load`. Runs of a study are merged to the same run in any order; exit code 3: a rank's run is
missing or not finished, or a cell has no valid replicate.";

/// Arguments of `merge`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct MergeArguments {
    /// Spools of a load test, or folders with them (`load --spool DIR`); or the run folders of all ranks of a study
    #[arg(required = true, value_name = "DIR|FILE")]
    places: Vec<PathBuf>,
    /// Folder of the merged run of a study, which must not exist yet; required for a study
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["slo", "format", "details"])]
    output: Option<PathBuf>,
    /// SLOs to check, as in 'p98<100ms,errors<0.1%'; exit code 4 if an SLO is violated
    #[arg(long, value_name = "LIST")]
    slo: Option<Slo>,
    /// Output format
    #[arg(long, value_enum, default_value = "screen")]
    format: Format,
    /// Show all figures, and a row for each rank
    #[arg(long)]
    details: bool,
    /// For a study: exit with 4 if a tested claim is reversed, or a figure misses its threshold
    #[arg(long, requires = "output")]
    strict: bool,
    /// The same as --format json; for a study: print the summary as JSON
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// Merges spools or runs, and prints the result.
pub fn run(arguments: &MergeArguments) -> Result<ExitCode, Failure> {
    let is_run = |place: &PathBuf| place.join("run.json").is_file();
    let runs = arguments
        .places
        .iter()
        .filter(|place| is_run(place))
        .count();
    match (&arguments.output, runs) {
        (None, 0) => spools(arguments),
        (None, _) => Err(usage(
            "these are runs of a study: name the folder of the new run with --output FOLDER",
        )),
        (Some(output), _) => match arguments.places.iter().find(|place| !is_run(place)) {
            Some(place) => Err(usage(format!(
                "{} is not the folder of a run: it has no run.json",
                place.display()
            ))),
            None => studies(&arguments.places, output, arguments.json, arguments.strict),
        },
    }
}

/// Merges the runs of a study, and prints the result.
pub fn studies(
    runs: &[PathBuf],
    output: &Path,
    json: bool,
    strict: bool,
) -> Result<ExitCode, Failure> {
    let merged = merge(runs, output)?;
    let judged = report::publish(output, json)?;
    // The folder is the result, so a failure to write the page is an error.
    say(format_args!("report: {}", judged.page?.display()));
    for line in merged.problems() {
        say(format_args!("INVALID: {line}"));
    }
    Ok(match merged.is_whole() {
        false => ExitCode::from(3),
        true if strict && !judged.all_met => ExitCode::from(4),
        true => ExitCode::SUCCESS,
    })
}

/// Reads the spools and prints the result.
fn spools(arguments: &MergeArguments) -> Result<ExitCode, Failure> {
    let mut spools = Vec::new();
    for file in files(&arguments.places)? {
        let name = file.display().to_string();
        let bytes = std::fs::read(&file)
            .map_err(|error| format!("failed to read the spool {name}: {error}"))?;
        let spool = Spool::read(&bytes).map_err(|error| format!("{name}: {error}"))?;
        spools.push((name, spool));
    }
    let whole = whole(spools).map_err(|(name, error)| format!("{name}: {error}"))?;
    let result = whole.finish()?;
    let slos = arguments
        .slo
        .as_ref()
        .map(|slo| slo.judge(&result))
        .unwrap_or_default();
    let format = match arguments.json {
        true => Format::Json,
        false => arguments.format,
    };
    print!("{}", format.render(&result, &slos, arguments.details)?);
    Ok(exit_code(&result, &slos))
}

/// Returns the spools at these paths; at least one.
fn files(places: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for place in places {
        if !place.is_dir() {
            files.push(place.clone());
            continue;
        }
        let unreadable = |error| format!("failed to read the folder {}: {error}", place.display());
        for entry in std::fs::read_dir(place).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_some_and(|ending| ending == "spool") {
                files.push(path);
            }
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(usage("there is no file *.spool in these folders")),
        false => Ok(files),
    }
}
