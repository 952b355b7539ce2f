//! Reads the results of `load --save FILE.json`.

use std::fs;
use std::path::{Path, PathBuf};

use fathometer_analysis::load::Summary;

use super::Failure;

/// Reads the result in a file.
pub fn summary(path: &Path) -> Result<Summary, Failure> {
    let name = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {name}: {error}"))?;
    serde_json::from_str(&text).map_err(|error| {
        format!("{name} is not a result of a load test: {error}; load --save FILE.json writes one")
            .into()
    })
}

/// Reads the results in a folder, each with its file name, in the order of the names; empty if there are none.
pub fn summaries(folder: &Path) -> Result<Vec<(String, Summary)>, Failure> {
    let name = folder.display();
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .map_err(|error| format!("cannot read {name}: {error}; name the folder of a run"))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| file.extension().is_some_and(|ending| ending == "json"))
        .collect();
    files.sort();
    let files = files.iter();
    files
        .map(|file| Ok((file.display().to_string(), summary(file)?)))
        .collect()
}
