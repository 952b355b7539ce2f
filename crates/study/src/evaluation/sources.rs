//! The files that a report was made from, with their hashes, so that a reader can check that they belong together.
//!
//! The list is a comment at the end of `report.html`: it does not depend on the page's markup, and the page needs no
//! script. The list also has the hash of the page before it, so that a changed page is detected. The list detects mistakes
//! and repeated measurements. It does not protect against a person who also changes the list.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use fathometer_files::sha256;
use serde::{Deserialize, Serialize};

const START: &str = "<!-- fathometer sources: ";
const END: &str = " -->\n";

/// Files of a run's folder that a report is computed from, if they exist.
const FILES: [&str; 3] = ["run.json", "replicates.ndjson", "plots.json"];
/// Folders of which a report uses every file.
const FOLDERS: [&str; 2] = ["plots", "study"];

/// Why the check of a report against its sources failed.
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

/// The list.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sources {
    /// The SHA-256 of the page before the list, in hexadecimal.
    page: String,
    /// The SHA-256 of each file, by its path relative to the run's folder.
    files: BTreeMap<String, String>,
}

/// Returns the page with the list of its sources appended.
///
/// # Errors
/// When a source cannot be read.
pub(super) fn with_sources(folder: &Path, page: &str) -> io::Result<String> {
    let sources = Sources {
        page: sha256::of(page.as_bytes()),
        files: files(folder)?,
    };
    // Two hyphens would end the comment.
    let list = serde_json::to_string(&sources)?.replace("--", "\\u002d\\u002d");
    Ok(format!("{page}{START}{list}{END}"))
}

/// Compares the report of a run with its sources, and returns the number of source files.
///
/// # Errors
/// When the report or a source cannot be read, when the report has no list, or when anything differs; the message
/// names each difference.
pub fn verify(folder: &Path) -> Result<usize, SourcesError> {
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
    let now = files(folder).map_err(|error| unreadable(folder, error))?;

    let mut differences = String::new();
    if recorded.page != sha256::of(page.as_bytes()) {
        differences.push_str("\n  report.html: changed after it was made");
    }
    for (file, hash) in &recorded.files {
        let difference = match now.get(file) {
            None => "is missing",
            Some(found) if found != hash => "changed after the report was made",
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
        true => Ok(recorded.files.len()),
        false => Err(SourcesError::Differs {
            folder: folder.to_owned(),
            differences,
        }),
    }
}

/// The hashes of the sources of a report.
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

    /// A run's folder with two sources and a report.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("run.json"), "{}").unwrap();
        fs::write(folder.path().join("replicates.ndjson"), "{\"n\":1}\n").unwrap();
        fs::create_dir(folder.path().join("plots")).unwrap();
        fs::write(folder.path().join("plots/a--b.svg"), "<svg/>").unwrap();
        let page = with_sources(folder.path(), "<!DOCTYPE html>\n<p>2.5</p>\n").unwrap();
        fs::write(folder.path().join("report.html"), page).unwrap();
        folder
    }

    fn difference(folder: &tempfile::TempDir) -> String {
        verify(folder.path()).unwrap_err().to_string()
    }

    #[test]
    fn a_report_and_its_records_belong_together() {
        assert_eq!(verify(folder().path()).unwrap(), 3);
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
