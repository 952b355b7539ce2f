//! The ledger of several runs.

use std::path::PathBuf;

use fathometer_analysis::ledger::{JudgedRun, Ledger};
use fathometer_analysis::run::Run;
use fathometer_analysis::study::StudyData;
use fathometer_lab::data;

use super::EvaluationError;
use crate::files::StudyFiles;

/// Computes the ledger of all built-in papers from these runs.
///
/// # Errors
/// If a run, or the files of a paper, cannot be read.
pub fn ledger(folders: &[PathBuf]) -> Result<Ledger, EvaluationError> {
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
