//! The folder that one execution of a study leaves behind.
//!
//! ```text
//! runs/20261121-194500-nielsen97-quick/
//!   run.json            what was run, where, how, with which seed
//!   replicates.ndjson   one line a replicate, written as each ends
//!   cells/<block>/<levels>/r<n>/
//!     capture.pcapng (the client's tap) taps.pcapng (all taps) exchanges.ndjson connections.ndjson
//!   plots/*.svg plots.json summary.json report.html
//! ```
//!
//! Lines are written whole and flushed one by one: a run that is killed keeps all that had ended.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::Serialize;

/// A run's folder, open for writing.
#[derive(Debug)]
pub struct RunFolder {
    root: PathBuf,
    replicates: Mutex<File>,
}

/// What the system refused, and where.
#[derive(Debug, thiserror::Error)]
#[error("failed to write {path}: {error}{advice}", path = path.display(), advice = advice(error))]
pub struct WriteError {
    /// The file or folder.
    pub path: PathBuf,
    /// What the system said.
    pub error: io::Error,
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ": free some space, or give another folder with --output; what was measured so far is kept"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            ": give a folder you may write to with --output"
        }
        io::ErrorKind::AlreadyExists => {
            ": every run has a folder of its own: give one that does not exist yet with --output"
        }
        io::ErrorKind::NotADirectory => ": a file is in the way: give another folder with --output",
        _ => "",
    }
}

impl RunFolder {
    /// Makes the folder. It must not exist yet: two runs never share one.
    pub fn create(root: PathBuf) -> Result<RunFolder, WriteError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error| WriteError { path, error }
        };
        if let Some(parent) = root.parent() {
            // Told as "exists already" otherwise, which is not what is wrong with it.
            if parent.is_file() {
                return Err(at(parent)(io::ErrorKind::NotADirectory.into()));
            }
            fs::create_dir_all(parent).map_err(at(parent))?;
        }
        fs::create_dir(&root).map_err(at(&root))?;
        let path = root.join("replicates.ndjson");
        let replicates = OpenOptions::new()
            .create_new(true)
            .append(true)
            .open(&path)
            .map_err(at(&path))?;
        Ok(RunFolder {
            root,
            replicates: Mutex::new(replicates),
        })
    }

    /// Opens the folder of a run that was interrupted. Half a line that it may have left in
    /// `replicates.ndjson` is cut off.
    pub fn reopen(root: PathBuf) -> Result<RunFolder, WriteError> {
        let path = root.join("replicates.ndjson");
        let at = |error| WriteError {
            path: path.clone(),
            error,
        };
        let text = fs::read(&path).map_err(at)?;
        let whole = text.iter().rposition(|&b| b == b'\n').map_or(0, |n| n + 1);
        let replicates = OpenOptions::new().append(true).open(&path).map_err(at)?;
        replicates.set_len(whole as u64).map_err(at)?;
        Ok(RunFolder {
            root,
            replicates: Mutex::new(replicates),
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Appends a line to `replicates.ndjson` and hands it to the system at once. A line that there
    /// was no room for leaves nothing behind.
    pub fn append_replicate(&self, record: &impl Serialize) -> Result<(), WriteError> {
        let mut line = serde_json::to_vec(record).map_err(|error| WriteError {
            path: self.root.join("replicates.ndjson"),
            error: error.into(),
        })?;
        line.push(b'\n');
        let file = self
            .replicates
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let append = || {
            let before = file.metadata()?.len();
            (&*file).write_all(&line).inspect_err(|_| {
                // The failure to be told is the first one.
                let _ = file.set_len(before);
            })
        };
        append().map_err(|error| WriteError {
            path: self.root.join("replicates.ndjson"),
            error,
        })
    }

    /// Makes a folder below the run's and gives its full path.
    pub fn subfolder(&self, name: &str) -> Result<PathBuf, WriteError> {
        let path = self.root.join(name);
        fs::create_dir_all(&path).map_err(|error| WriteError {
            path: path.clone(),
            error,
        })?;
        Ok(path)
    }

    /// Writes a file whole: to a neighbour first, then renamed, so that a reader never sees half.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), WriteError> {
        let path = self.root.join(name);
        let partial = path.with_extension("partial");
        fs::write(&partial, bytes)
            .and_then(|()| fs::rename(&partial, &path))
            .map_err(|error| {
                let _ = fs::remove_file(&partial);
                WriteError { path, error }
            })
    }

    /// Writes a value as indented JSON.
    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), WriteError> {
        let mut text = serde_json::to_vec_pretty(value).map_err(|error| WriteError {
            path: self.root.join(name),
            error: error.into(),
        })?;
        text.push(b'\n');
        self.write(name, &text)
    }
}

/// Writes records one a line.
pub fn write_lines<T: Serialize>(path: &Path, records: &[T]) -> Result<(), WriteError> {
    let at = |error| WriteError {
        path: path.to_owned(),
        error,
    };
    let mut file = BufWriter::new(File::create(path).map_err(at)?);
    for record in records {
        serde_json::to_writer(&mut file, record).map_err(|error| at(error.into()))?;
        file.write_all(b"\n").map_err(at)?;
    }
    file.flush().map_err(at)
}
