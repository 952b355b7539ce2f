//! The source files of a report with their hashes. A reader can check with them whether the report matches its sources.
//!
//! The list of sources is a comment at the end of `report.html`, so it is independent of the page's markup and needs no
//! script. The list also contains the hash of the part of the page that precedes it, so that a changed page is
//! detected. The list reveals mistakes and repeated measurements. It does not protect against intentional changes of
//! both the page and the list.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use fathometer_analysis::retrieval_trace;
use fathometer_analysis::run::Run;
use fathometer_files::sha256;
use serde::{Deserialize, Serialize};

const START: &str = "<!-- fathometer sources: ";
const END: &str = " -->\n";

/// The files in a run's folder from which a report is computed, if they exist.
const FILES: [&str; 3] = ["run.json", "replicates.ndjson", "plots.json"];
/// The folders whose files are all sources of a report.
const FOLDERS: [&str; 2] = ["plots", "study"];
/// The folder with the files of the replicates. A published run lacks this folder, so its waterfalls cannot be checked.
const CELLS: &str = "cells";

/// The reason why the check of a report against its sources failed.
#[derive(Debug, thiserror::Error)]
pub enum SourcesError {
    /// A file cannot be read.
    #[error("failed to read {}: {error}", path.display())]
    Unreadable {
        /// The file, or the folder of the files.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The page has no list of its sources.
    #[error(
        "{} is truncated, or older than version 0.2: it has no list of its sources; create a new report: fathometer report {}",
        path.display(),
        folder.display()
    )]
    NoList {
        /// The page.
        path: PathBuf,
        /// The run.
        folder: PathBuf,
    },
    /// The list is malformed.
    #[error("failed to read the list of sources in {}: {error}", path.display())]
    Malformed {
        /// The page.
        path: PathBuf,
        /// The cause.
        error: serde_json::Error,
    },
    /// The page or a source has changed.
    #[error(
        "the report of {folder} does not match its records:{differences}\ncreate a new report: fathometer report \
         {folder}",
        folder = folder.display()
    )]
    Differs {
        /// The run.
        folder: PathBuf,
        /// The changes, one line each.
        differences: String,
    },
}

/// The list of sources.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sources {
    /// The SHA-256, in hexadecimal, of the part of the page that precedes the list.
    page: String,
    /// The SHA-256 of each file, by its path relative to the run's folder.
    files: BTreeMap<String, String>,
}

/// The numbers of files in a check of a report's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// Files that are unchanged.
    pub unchanged: usize,
    /// The number of files of the folder `cells` that are no longer in the run. They are not checked.
    pub not_kept: usize,
}

/// Returns the page of a run with the list of its sources appended.
///
/// # Errors
/// When a source cannot be read.
pub(super) fn with_sources(run: &Run, page: &str) -> io::Result<String> {
    let mut files = files(&run.folder)?;
    for file in retrieval_trace::sources(run) {
        let hash = sha256::of_file(&run.folder.join(&file))?;
        files.insert(file, hash);
    }
    let sources = Sources {
        page: sha256::of(page.as_bytes()),
        files,
    };
    // Two hyphens would end the HTML comment.
    let list = serde_json::to_string(&sources)?.replace("--", "\\u002d\\u002d");
    Ok(format!("{page}{START}{list}{END}"))
}

/// Compares the report of a run with its sources. Returns the numbers of source files.
///
/// # Errors
/// When the report or a source cannot be read, when the report has no list, or when a file differs. The message names
/// each difference.
pub fn verify(folder: &Path) -> Result<Verified, SourcesError> {
    let path = folder.join("report.html");
    let unreadable = |path: &Path, error| SourcesError::Unreadable {
        path: path.to_owned(),
        error,
    };
    let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, error))?;
    let list = text
        .rsplit_once(START)
        .and_then(|(page, rest)| Some((page, rest.strip_suffix(END)?)));
    let Some((page, list)) = list else {
        return Err(SourcesError::NoList {
            path,
            folder: folder.to_owned(),
        });
    };
    let recorded: Sources =
        serde_json::from_str(list).map_err(|error| SourcesError::Malformed { path, error })?;
    let mut now = files(folder).map_err(|error| unreadable(folder, error))?;
    let of_cells = |file: &&String| Path::new(file.as_str()).starts_with(CELLS);
    let has_cells = folder.join(CELLS).is_dir();
    let mut not_kept = 0;
    for file in recorded.files.keys().filter(of_cells) {
        let path = folder.join(file);
        match sha256::of_file(&path) {
            Ok(hash) => {
                now.insert(file.clone(), hash);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                not_kept += usize::from(!has_cells);
            }
            Err(error) => return Err(unreadable(&path, error)),
        }
    }

    let mut differences = String::new();
    if recorded.page != sha256::of(page.as_bytes()) {
        differences.push_str("\n  report.html: changed after it was created");
    }
    for (file, hash) in &recorded.files {
        let difference = match now.get(file) {
            None if !has_cells && of_cells(&file) => continue,
            None => "is missing",
            Some(found) if found != hash => "changed after the report was created",
            Some(_) => continue,
        };
        let _ = write!(differences, "\n  {file}: {difference}");
    }
    for file in now
        .keys()
        .filter(|file| !recorded.files.contains_key(*file))
    {
        let _ = write!(differences, "\n  {file}: is newer than the report");
    }
    match differences.is_empty() {
        true => Ok(Verified {
            unchanged: recorded.files.len() - not_kept,
            not_kept,
        }),
        false => Err(SourcesError::Differs {
            folder: folder.to_owned(),
            differences,
        }),
    }
}

/// Returns the hashes of the sources of a report.
fn files(folder: &Path) -> io::Result<BTreeMap<String, String>> {
    let mut names: Vec<String> = FILES.map(str::to_owned).into();
    for inner in FOLDERS {
        let entries = match fs::read_dir(folder.join(inner)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.push(format!("{inner}/{}", entry.file_name().to_string_lossy()));
            }
        }
    }
    let mut files = BTreeMap::new();
    for name in names {
        match sha256::of_file(&folder.join(&name)) {
            Ok(hash) => {
                files.insert(name, hash);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLICATE: &str = "cells/main/path=lan/r0";

    /// Creates a run's folder with five sources and a report.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let info = serde_json::json!({
            "format": fathometer_analysis::run::RunInfo::FORMAT, "study": "small", "title": "",
            "mode": "quick", "command": [], "seed": 1, "version": "0.0.0", "started": 0.0,
            "finished": null, "replicates_planned": 1, "eras": [], "paths": [], "servers": [],
            "machine": {}
        });
        let record = serde_json::json!({
            "block": "main", "cell": {"path": "lan"}, "replicate": 0, "seed": 1, "order": 0,
            "started": 0.0, "metrics": {}, "path": fathometer_model::PathCertificate::default(),
            "validity": {"reasons": []}, "folder": REPLICATE
        });
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        fs::create_dir(folder.path().join("plots")).unwrap();
        fs::create_dir_all(folder.path().join(REPLICATE)).unwrap();
        write("run.json", &info.to_string());
        write("replicates.ndjson", &format!("{record}\n"));
        write("plots/a--b.svg", "<svg/>");
        write(&format!("{REPLICATE}/exchanges.ndjson"), "");
        write(&format!("{REPLICATE}/connections.ndjson"), "");
        let run = Run::load(folder.path()).unwrap();
        let page = with_sources(&run, "<!DOCTYPE html>\n<p>2.5</p>\n").unwrap();
        write("report.html", &page);
        folder
    }

    fn difference(folder: &tempfile::TempDir) -> String {
        verify(folder.path()).unwrap_err().to_string()
    }

    #[test]
    fn a_report_and_its_records_belong_together() {
        let expected = Verified {
            unchanged: 5,
            not_kept: 0,
        };
        assert_eq!(verify(folder().path()).unwrap(), expected);
    }

    #[test]
    fn a_changed_record_of_a_waterfall_is_found() {
        let run = folder();
        fs::write(run.path().join(REPLICATE).join("exchanges.ndjson"), "{}\n").unwrap();
        assert!(difference(&run).contains("/exchanges.ndjson: changed"));

        let run = folder();
        fs::remove_file(run.path().join(REPLICATE).join("connections.ndjson")).unwrap();
        assert!(difference(&run).contains("/connections.ndjson: is missing"));

        // A published run lacks the files of the replicates.
        let run = folder();
        fs::remove_dir_all(run.path().join(CELLS)).unwrap();
        let expected = Verified {
            unchanged: 3,
            not_kept: 2,
        };
        assert_eq!(verify(run.path()).unwrap(), expected);
    }

    #[test]
    fn a_changed_missing_or_new_source_is_named() {
        let run = folder();
        fs::write(run.path().join("replicates.ndjson"), "{\"n\":2}\n").unwrap();
        assert!(difference(&run).contains("\n  replicates.ndjson: changed"));

        let run = folder();
        fs::remove_file(run.path().join("plots/a--b.svg")).unwrap();
        assert!(difference(&run).contains("\n  plots/a--b.svg: is missing"));

        let run = folder();
        fs::write(run.path().join("plots.json"), "[]").unwrap();
        assert!(difference(&run).contains("\n  plots.json: is newer"));
    }

    #[test]
    fn a_changed_figure_of_the_page_is_found() {
        let run = folder();
        let path = run.path().join("report.html");
        let page = fs::read_to_string(&path).unwrap();
        fs::write(&path, page.replace("2.5", "1.5")).unwrap();
        assert!(difference(&run).contains("\n  report.html: changed"));
    }

    #[test]
    fn a_report_without_a_list_says_what_to_do() {
        let run = folder();
        fs::write(run.path().join("report.html"), "<!DOCTYPE html>\n").unwrap();
        assert!(difference(&run).contains("create a new report: fathometer report"));
    }
}
