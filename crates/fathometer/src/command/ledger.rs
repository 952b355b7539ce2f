//! `fathometer ledger`: all claims of the papers over several runs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use fathometer_analysis::ledger::{JudgedRun, Ledger};
use fathometer_analysis::real_cells::run_folders;
use fathometer_analysis::run::Run;
use fathometer_analysis::study::StudyData;
use fathometer_lab::data;
use fathometer_study::files::StudyFiles;

use super::{Failure, usage};

/// The folder of the runs that are kept with the sources.
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
                "{error}: run this in the folder of the sources, or give the folders of runs"
            ))
        })?,
        false => arguments.runs.clone(),
    };
    let ledger = ledger(&folders)?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&ledger)?);
    } else if arguments.markdown {
        print!("{}", ledger.markdown("../runs/published"));
    } else {
        print!("{}", ledger.terminal());
    }
    Ok(ExitCode::SUCCESS)
}

/// The ledger of these runs, of all built-in papers.
fn ledger(folders: &[PathBuf]) -> Result<Ledger, Failure> {
    let mut papers: Vec<(String, StudyData)> = Vec::new();
    for name in data::names("papers") {
        if let Some(study) = StudyFiles::of(name)?.data()? {
            papers.push((name.to_owned(), study));
        }
    }
    let mut runs = Vec::new();
    for folder in folders {
        let run = Run::load(folder)?;
        let name = folder.file_name().unwrap_or(folder.as_os_str());
        let of_run = papers.iter().find(|(paper, _)| *paper == run.info.study);
        if let Some((_, study)) = of_run {
            runs.push(JudgedRun::of(&name.to_string_lossy(), &run, study));
        }
    }
    let papers: Vec<(String, &StudyData)> = papers
        .iter()
        .filter(|(_, study)| !study.published_claims.rows.is_empty())
        .map(|(name, study)| (name.clone(), study))
        .collect();
    Ok(Ledger::of(&papers, &runs))
}
