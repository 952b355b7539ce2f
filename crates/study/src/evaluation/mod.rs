//! Evaluates a run from its files: writes the report and the summary to the run's folder, and returns the results as
//! text.

mod captured;
mod cells;
mod ledger;
mod sources;
pub mod time_sequence_graph;

use std::path::{Path, PathBuf};
use std::{fs, io};

use fathometer_analysis::claims::Verdict;
use fathometer_analysis::digest::Digest;
use fathometer_analysis::report::write_digest_with;
use fathometer_analysis::run::{Run, RunInfo};
use fathometer_analysis::study::StudyData;
use fathometer_analysis::{summary, terminal};
use fathometer_files::whole_file;

use crate::files::{FilesError, StudyFiles};

pub use ledger::ledger;
pub use sources::{SourcesError, Verified, verify};

/// The evaluation of a run.
#[derive(Debug)]
pub struct Evaluation {
    /// The tables and claims for a terminal, or as JSON.
    pub text: String,
    /// Whether no tested claim is reversed, and every figure meets its threshold.
    pub all_met: bool,
    /// The path of `report.html`, or the reason why the report or the summary was not written.
    pub page: Result<PathBuf, fathometer_analysis::Error>,
}

/// The reason why a run cannot be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum EvaluationError {
    /// The folder is not the folder of a run.
    #[error(
        "failed to read {}: {error}: give the folder of a run, as in runs/20261121-194500-nielsen97-quick",
        path.display()
    )]
    NoRun {
        /// The file that is missing or unreadable.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The description of the run is malformed.
    #[error("failed to read {}: {error}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: serde_json::Error,
    },
    /// The files of the run's study cannot be used.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The records of the run cannot be used.
    #[error(transparent)]
    Records(#[from] fathometer_analysis::Error),
}

impl EvaluationError {
    /// Whether this is a usage error: the given folder is not the folder of a run.
    pub fn is_usage(&self) -> bool {
        matches!(self, EvaluationError::Files(error) if error.is_usage())
    }
}

/// Evaluates a run, and writes `report.html` and `summary.json` to its folder. The returned text is complete even if
/// these files cannot be written, for example on a full disk.
///
/// # Errors
/// If the run or its study cannot be read.
pub fn evaluate(folder: &Path, json: bool) -> Result<Evaluation, EvaluationError> {
    let info = info(folder)?;
    let files = StudyFiles::of_run(folder, &info)?;
    let judged = files.map(|files| files.data()).transpose()?.flatten();
    let has_paper = judged.is_some();
    let study = match judged {
        Some(study) => study,
        None => {
            let run = Run::load(folder)?;
            StudyData::without_paper(&run, cells::columns(&run))
        }
    };
    let digest = Digest::of(folder, &study)?;
    let page = write_digest_with(&digest, &captured::of_replicate, &|path, text| match path
        .file_name()
    {
        Some(name) if name == "report.html" => {
            let page = sources::with_sources(&digest.run, text)?;
            whole_file::write(path, page.as_bytes())
        }
        _ => whole_file::write(path, text.as_bytes()),
    });
    let text = match (has_paper, json) {
        (true, true) => format!("{:#}\n", summary::json(&digest)),
        (true, false) => terminal::render(&digest),
        (false, true) => cells::cells(&digest.run, json),
        (false, false) => {
            let machines = terminal::machines(&digest);
            cells::cells(&digest.run, json) + &machines + &terminal::equal_cells(&digest)
        }
    };
    let mut verdicts = digest.claims.iter().flat_map(|claim| &claim.eras);
    let mut closeness = digest.closeness.iter();
    Ok(Evaluation {
        text,
        all_met: verdicts.all(|era| era.verdict != Verdict::Reversed)
            && closeness.all(|line| line.within() == line.measured()),
        page,
    })
}

fn info(folder: &Path) -> Result<RunInfo, EvaluationError> {
    let path = folder.join("run.json");
    match fs::read_to_string(&path) {
        Ok(text) => {
            serde_json::from_str(&text).map_err(|error| EvaluationError::Malformed { path, error })
        }
        Err(error) => Err(EvaluationError::NoRun { path, error }),
    }
}
