//! The folder of one execution of a study.
//!
//! ```text
//! runs/20261121-194500-nielsen97-quick/
//!   run.json            the study, the machine, the options and the seed
//!   replicates.ndjson   one line per replicate, written when it ends
//!   cells/<block>/<levels>/r<n>/
//!     capture.pcapng (the client's tap) taps.pcapng (all taps) exchanges.ndjson connections.ndjson
//!   plots/*.svg plots.json summary.json report.html
//! ```
//!
//! Each line is written completely and flushed, so that a killed run has the records of all finished replicates.
//!
//! Only one process at a time writes to a run. This process locks the file `lock` and writes its process ID to it. The
//! kernel releases the lock when the process exits.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use fathometer_sys::lock::{Lock, Taken};
use serde::Serialize;

use fathometer_files::whole_file;

/// The number of attempts to take the lock. The processes of a killed run need some time to exit.
const LOOKS: u32 = 20;

/// The time between two attempts.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// A run's folder that is open for writing.
#[derive(Debug)]
pub struct RunFolder {
    root: PathBuf,
    replicates: Mutex<File>,
    /// The lock of the folder; `None` if the file system does not support locks.
    lock: Option<Lock>,
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if let Some(lock) = &self.lock {
            // The lock file is removed while it is locked. A process that waits for the lock then creates a new file.
            let _ = fs::remove_file(lock.path());
        }
    }
}

/// The reason why a run's folder cannot be opened for writing.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A system call failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Another process writes to the run.
    #[error(
        "cannot use {folder}: another run writes to it ({holder}): wait until it ends, or give another folder with \
         --output",
        folder = folder.display()
    )]
    InUse {
        /// The folder.
        folder: PathBuf,
        /// The description of the other process, from the lock file.
        holder: String,
    },
}

/// A failed write to a file or folder.
#[derive(Debug, thiserror::Error)]
#[error("failed to write {path}: {error}{advice}", path = path.display(), advice = advice(error))]
pub struct WriteError {
    /// The file or folder.
    pub path: PathBuf,
    /// The error of the operating system.
    pub error: io::Error,
}

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ": free some space, or give another folder with --output; earlier measurements remain in the folder"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            ": use --output with a folder that you may write to"
        }
        io::ErrorKind::AlreadyExists => {
            ": every run has its own folder: use --output with a folder that does not exist"
        }
        io::ErrorKind::NotADirectory => {
            ": a part of the path is a file: give another folder with --output"
        }
        _ => "",
    }
}

impl RunFolder {
    /// Creates the folder of a new run. Two runs never share a folder.
    ///
    /// # Errors
    /// When the folder exists or cannot be created.
    pub fn create(root: PathBuf) -> Result<RunFolder, OpenError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |error| WriteError { path, error }
        };
        if let Some(parent) = root.parent() {
            // Without this check, the error would be the misleading "exists already".
            if parent.is_file() {
                return Err(at(parent)(io::ErrorKind::NotADirectory.into()).into());
            }
            fs::create_dir_all(parent).map_err(at(parent))?;
        }
        fs::create_dir(&root).map_err(at(&root))?;
        let lock = lock(&root)?;
        let path = root.join("replicates.ndjson");
        let replicates = OpenOptions::new()
            .create_new(true)
            .append(true)
            .open(&path)
            .map_err(at(&path))?;
        Ok(RunFolder {
            root,
            replicates: Mutex::new(replicates),
            lock,
        })
    }

    /// Opens the folder of an interrupted run, and removes an incomplete last line of `replicates.ndjson`.
    ///
    /// # Errors
    /// When another process writes to the run, or the folder cannot be opened.
    pub fn reopen(root: PathBuf) -> Result<RunFolder, OpenError> {
        let lock = lock(&root)?;
        let path = root.join("replicates.ndjson");
        let at = |error| WriteError {
            path: path.clone(),
            error,
        };
        // A run that was killed at its start does not have this file.
        let replicates = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(at)?;
        let text = fs::read(&path).map_err(at)?;
        let whole = text.iter().rposition(|&b| b == b'\n').map_or(0, |n| n + 1);
        replicates.set_len(whole as u64).map_err(at)?;
        Ok(RunFolder {
            root,
            replicates: Mutex::new(replicates),
            lock,
        })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Appends a line to `replicates.ndjson`, and passes it to the kernel immediately. If the disk has no space for the
    /// line, no part of the line remains.
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
                // The first error is returned.
                let _ = file.set_len(before);
            })
        };
        append().map_err(|error| WriteError {
            path: self.root.join("replicates.ndjson"),
            error,
        })
    }

    /// Creates an empty folder for an attempt at a replicate, and returns its full path. If an attempt with the same
    /// name was killed before its record was written, its files are removed.
    ///
    /// # Errors
    /// When the folder cannot be created.
    pub fn attempt_folder(&self, name: &str) -> Result<PathBuf, WriteError> {
        let path = self.root.join(name);
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(WriteError { path, error })
            }
            _ => self.subfolder(name),
        }
    }

    /// Creates a folder in the run's folder and returns its full path.
    pub fn subfolder(&self, name: &str) -> Result<PathBuf, WriteError> {
        let path = self.root.join(name);
        fs::create_dir_all(&path).map_err(|error| WriteError {
            path: path.clone(),
            error,
        })?;
        Ok(path)
    }

    /// Writes a complete file. After an error, the file does not exist or is unchanged.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), WriteError> {
        let path = self.root.join(name);
        whole_file::write(&path, bytes).map_err(|error| WriteError { path, error })
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

/// Takes the lock of a run's folder, and writes the holder's description to it.
fn lock(root: &Path) -> Result<Option<Lock>, OpenError> {
    let path = root.join("lock");
    for _ in 0..LOOKS {
        match Lock::file(&path) {
            Ok(Taken::Ours(lock)) => {
                let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
                let owner = format!("process {} on {}", std::process::id(), host.trim());
                let mut file = lock.as_file();
                // The description is only for error messages. The lock works without it.
                let _ = file
                    .set_len(0)
                    .and_then(|()| file.write_all(owner.as_bytes()));
                return Ok(Some(lock));
            }
            Ok(Taken::Held) => thread::sleep(BETWEEN_LOOKS),
            Ok(Taken::Gone) => {}
            // Some network file systems do not support locks.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => return Ok(None),
            Err(error) => return Err(WriteError { path, error }.into()),
        }
    }
    let holder = fs::read_to_string(&path).unwrap_or_default();
    let holder = match holder.is_empty() {
        true => "unknown process".to_owned(),
        false => holder,
    };
    Err(OpenError::InUse {
        folder: root.to_owned(),
        holder,
    })
}

/// Writes a file with one record per line. After an error, the file does not exist or is unchanged.
///
/// # Errors
/// When the file cannot be written.
pub fn write_lines<T: Serialize>(path: &Path, records: &[T]) -> Result<(), WriteError> {
    let content = |file: &mut io::BufWriter<File>| {
        for record in records {
            serde_json::to_writer(&mut *file, record)?;
            file.write_all(b"\n")?;
        }
        Ok(())
    };
    whole_file::write_with(path, content).map_err(|error| WriteError {
        path: path.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_in_one_folder_names_the_program_that_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("run");
        let first = RunFolder::create(root.clone()).unwrap();
        let error = RunFolder::reopen(root.clone()).unwrap_err().to_string();
        let pid = format!("process {} on ", std::process::id());
        assert!(error.contains(&pid), "{error}");
        assert!(error.contains("--output"), "{error}");
        drop(first);
        assert!(!root.join("lock").exists());
        RunFolder::reopen(root).unwrap();
    }

    #[test]
    fn an_attempt_begins_with_an_empty_folder() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunFolder::create(folder.path().join("run")).unwrap();
        let path = run.attempt_folder("cells/a/r0").unwrap();
        fs::write(path.join("capture.pcapng"), "half").unwrap();
        assert_eq!(run.attempt_folder("cells/a/r0").unwrap(), path);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 0);
    }
}
