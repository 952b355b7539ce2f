//! `fathometer ledger`: the verdicts on all claims of the papers, over several runs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use fathometer_analysis::real_cells::run_folders;
use fathometer_study::evaluation;

use super::{Failure, usage};

/// The folder of the runs that belong to the sources.
const PUBLISHED: &str = "runs/published";

/// Arguments of `ledger`.
#[derive(Debug, Args)]
pub struct LedgerArguments {
    /// Folders of runs [default: every run in runs/published]
    runs: Vec<PathBuf>,
    /// Print as JSON
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print as the page docs/ledger.md
    #[arg(long)]
    markdown: bool,
}

/// Prints the verdict on every claim.
pub fn run(arguments: &LedgerArguments) -> Result<ExitCode, Failure> {
    let folders = match arguments.runs.is_empty() {
        true => run_folders(Path::new(PUBLISHED)).map_err(|error| {
            usage(format!(
                "{error}: run this command in the folder of the sources, or give the folders of runs"
            ))
        })?,
        false => arguments.runs.clone(),
    };
    let ledger = evaluation::ledger(&folders)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&ledger)?);
    } else if arguments.markdown {
        print!("{}", ledger.markdown("../runs/published"));
    } else {
        print!("{}", ledger.terminal());
    }
    Ok(ExitCode::SUCCESS)
}
