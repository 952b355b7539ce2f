//! Temporary folders that do not outlast the program, nor its killing.
//!
//! A folder belongs to the process that holds the lock on it ([`Lock`]), and not to a process number: programs
//! in several PID namespaces may share one `TMPDIR`, where the same number means several processes. What
//! SIGKILL leaves has a free lock, and is removed by the next command that makes such a folder or control
//! groups, and by `fathometer doctor --clean`.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use fathometer_sys::cgroup::Removal;
use fathometer_sys::lock::{Lock, Taken};

const PREFIX: &str = "fathometer-scratch-";

/// A temporary folder, removed with everything in it when dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// `None` where the file system has no locks: then no other program can tell whether it is in use, and
    /// none removes it.
    _lock: Option<Lock>,
}

/// Why there is no temporary folder.
#[derive(Debug, thiserror::Error)]
#[error("failed to make a temporary folder in {folder}: {error}: set TMPDIR to another folder", folder = folder.display())]
pub struct ScratchError {
    folder: PathBuf,
    error: io::Error,
}

impl From<ScratchError> for io::Error {
    fn from(error: ScratchError) -> io::Error {
        io::Error::new(error.error.kind(), error)
    }
}

/// What to do where a file in a temporary folder was refused because its disk is full; nothing else is known
/// to help for other reasons.
pub fn no_room(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ": free some space, or set TMPDIR to a folder with more room"
        }
        _ => "",
    }
}

impl Scratch {
    /// Makes a folder that other users may read and only this one may write.
    ///
    /// # Errors
    /// When the system refuses it.
    pub fn new() -> Result<Scratch, ScratchError> {
        Scratch::below(&std::env::temp_dir())
    }

    fn below(parent: &Path) -> Result<Scratch, ScratchError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        remove_stale(parent);
        let refused = |error| ScratchError {
            folder: parent.to_owned(),
            error,
        };
        let pid = std::process::id();
        loop {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("{PREFIX}{pid}-{n}"));
            match fs::DirBuilder::new().mode(0o755).create(&path) {
                Ok(()) => {}
                // A process of the same number in another PID namespace has it.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(refused(error)),
            }
            let lock = match Lock::directory(&path) {
                Ok(Taken::Ours(lock)) => Some(lock),
                // Another program that cleans up saw it before it was locked, and removes it.
                Ok(Taken::Held | Taken::Gone) => continue,
                Err(_) => None,
            };
            // The mask may have taken bits away that a server's own user needs.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(refused)?;
            return Ok(Scratch { path, _lock: lock });
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Removes the temporary folders of programs that were killed.
pub fn remove_stale_folders() -> Removal {
    remove_stale(&std::env::temp_dir())
}

fn remove_stale(parent: &Path) -> Removal {
    let mut removal = Removal::default();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(PREFIX));
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        // The lock is held until the folder is removed: its maker, if it has not locked it yet, makes another.
        match Lock::directory(&path) {
            Ok(Taken::Ours(_lock)) => match fs::remove_dir_all(&path) {
                Ok(()) => removal.removed.push(path),
                Err(error) => removal.refused.push((path, error)),
            },
            Ok(Taken::Held) => removal.in_use.push(path),
            Ok(Taken::Gone) => {}
            Err(error) => removal.refused.push((path, error)),
        }
    }
    removal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_with_its_owner_and_so_is_one_whose_lock_is_free() {
        let parent = tempfile::tempdir().unwrap();
        // As the first process of a container leaves it, whose number always exists.
        let stale = parent.path().join(format!("{PREFIX}1-0"));
        fs::create_dir_all(stale.join("inside")).unwrap();
        let scratch = Scratch::below(parent.path()).unwrap();
        assert!(!stale.exists());
        let path = scratch.path().to_owned();
        fs::write(path.join("file"), "x").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_in_use_is_kept_whatever_number_is_in_its_name() {
        let parent = tempfile::tempdir().unwrap();
        // No process has this number here: it is beyond the kernel's limit of 2^22. Its owner may run in
        // another PID namespace.
        let path = parent.path().join(format!("{PREFIX}4294967295-0"));
        fs::create_dir(&path).unwrap();
        let Taken::Ours(lock) = Lock::directory(&path).unwrap() else {
            panic!("its lock is held");
        };
        let removal = remove_stale(parent.path());
        assert!(path.exists());
        assert_eq!(removal.in_use, std::slice::from_ref(&path));
        drop(lock);
        assert_eq!(remove_stale(parent.path()).removed, [path]);
    }

    #[test]
    fn what_cannot_be_made_says_what_to_set() {
        let parent = tempfile::tempdir().unwrap();
        let error = Scratch::below(&parent.path().join("absent")).unwrap_err();
        assert!(error.to_string().contains("TMPDIR"), "{error}");
    }
}
