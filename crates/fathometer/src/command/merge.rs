//! `fathometer merge`: one result from the spools of a load test on several machines.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use fathometer_analysis::load::Slo;
use fathometer_ranks::spool::{Spool, whole};

use super::load::exit_code;
use super::load::output::Format;
use super::{Failure, usage};

const EXAMPLES: &str = "Examples:
  fathometer merge spool/                    the spools of all ranks, copied to one folder
  fathometer merge node1/ node2/ --json

The result is that of rank 0, bit for bit, if every rank ended in order. Exit codes: as of
`fathometer load`.";

/// Arguments of `merge`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct MergeArguments {
    /// Folders with spools (`load --spool DIR`), or spools
    #[arg(required = true, value_name = "DIR|FILE")]
    places: Vec<PathBuf>,
    /// SLOs to check, as in 'p98<100ms,errors<0.1%'; exit code 4 if one is violated
    #[arg(long, value_name = "LIST")]
    slo: Option<Slo>,
    /// Output format
    #[arg(long, value_enum, default_value = "screen")]
    format: Format,
    /// Show all figures, and a row for each rank
    #[arg(long)]
    details: bool,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

/// Reads the spools and prints the result.
pub fn run(arguments: &MergeArguments) -> Result<ExitCode, Failure> {
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
    let promises = arguments
        .slo
        .as_ref()
        .map(|slo| slo.judge(&result))
        .unwrap_or_default();
    let format = match arguments.json {
        true => Format::Json,
        false => arguments.format,
    };
    print!("{}", format.render(&result, &promises, arguments.details)?);
    Ok(exit_code(&result, &promises))
}

/// The spools in these places; at least one.
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
