//! Temporary folders that are removed even if the program is killed.
//!
//! A folder belongs to the process that has locked it ([`Lock`]). A process ID would not be enough: programs in several
//! PID namespaces may share one `TMPDIR`, and the same ID may exist in each namespace. After SIGKILL the lock of a
//! folder is free. The next command that creates a temporary folder or control groups then removes the folder, and so
//! does `fathometer doctor --clean`.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use fathometer_sys::cgroup::Removal;
use fathometer_sys::lock::{Lock, Taken};

const PREFIX: &str = "fathometer-scratch-";

/// A temporary folder. When it is dropped, the folder and its contents are removed.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// `None` if the file system does not support locks. Other programs then cannot determine whether the
    /// folder is in use, and do not remove it.
    _lock: Option<Lock>,
}

/// The reason why a temporary folder could not be created.
#[derive(Debug, thiserror::Error)]
#[error("failed to create a temporary folder in {folder}: {error}: set TMPDIR to another folder", folder = folder.display())]
pub struct ScratchError {
    folder: PathBuf,
    error: io::Error,
}

impl From<ScratchError> for io::Error {
    fn from(error: ScratchError) -> io::Error {
        io::Error::new(error.error.kind(), error)
    }
}

/// Returns advice for a write to a temporary folder that failed because the disk is full; empty for other errors.
pub fn no_room(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ": free some space, or set TMPDIR to a folder with more room"
        }
        _ => "",
    }
}

impl Scratch {
    /// Creates a folder that other users may read and only this user may write.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn new() -> Result<Scratch, ScratchError> {
        Scratch::below(&std::env::temp_dir())
    }

    fn below(parent: &Path) -> Result<Scratch, ScratchError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        remove_stale_below(parent);
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
                // The folder belongs to a process with the same ID in another PID namespace.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(refused(error)),
            }
            let lock = match Lock::directory(&path) {
                Ok(Taken::Ours(lock)) => Some(lock),
                // The clean-up of another program found the folder before it was locked, and removes it.
                Ok(Taken::Held | Taken::Gone) => continue,
                Err(_) => None,
            };
            // The umask may have removed permissions that a server under another user needs.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(refused)?;
            return Ok(Scratch { path, _lock: lock });
        }
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Lets every user read a folder and all regular files and folders below it.
pub fn open_to_all(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            open_to_all(&entry.path())?;
        } else if kind.is_file() {
            permit(&entry.path(), 0o444)?;
        }
    }
    permit(folder, 0o555)
}

/// Adds permissions that are missing.
fn permit(path: &Path, permissions: u32) -> io::Result<()> {
    let mode = fs::metadata(path)?.permissions().mode();
    match mode & permissions == permissions {
        true => Ok(()),
        false => fs::set_permissions(path, fs::Permissions::from_mode(mode | permissions)),
    }
}

/// Removes the temporary folders of killed programs.
pub fn remove_stale() -> Removal {
    remove_stale_below(&std::env::temp_dir())
}

fn remove_stale_below(parent: &Path) -> Removal {
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
        // The lock is held until the folder is removed. If the creator has not locked the folder yet, the creator then
        // makes another folder.
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
        // Process 1 always exists, so only the free lock shows that this folder is stale.
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
        // No process can have this ID here, because it exceeds the kernel's limit of 2^22. The owner may run in
        // another PID namespace.
        let path = parent.path().join(format!("{PREFIX}4294967295-0"));
        fs::create_dir(&path).unwrap();
        let Taken::Ours(lock) = Lock::directory(&path).unwrap() else {
            panic!("its lock is held");
        };
        let removal = remove_stale_below(parent.path());
        assert!(path.exists());
        assert_eq!(removal.in_use, std::slice::from_ref(&path));
        drop(lock);
        assert_eq!(remove_stale_below(parent.path()).removed, [path]);
    }

    #[test]
    fn a_scratch_folder_that_cannot_be_created_names_tmpdir() {
        let parent = tempfile::tempdir().unwrap();
        let error = Scratch::below(&parent.path().join("absent")).unwrap_err();
        assert!(error.to_string().contains("TMPDIR"), "{error}");
    }

    #[test]
    fn what_the_umask_hides_is_opened_to_all() {
        let folder = tempfile::tempdir().unwrap();
        let below = folder.path().join("below");
        fs::create_dir(&below).unwrap();
        for (path, mode) in [
            (below.join("program"), 0o700),
            (below.join("file"), 0o600),
            (folder.path().join("open"), 0o644),
        ] {
            fs::write(&path, "x").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(&below, fs::Permissions::from_mode(0o700)).unwrap();
        open_to_all(folder.path()).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&below), 0o755);
        assert_eq!(mode(&below.join("program")), 0o744);
        assert_eq!(mode(&below.join("file")), 0o644);
        assert_eq!(mode(&folder.path().join("open")), 0o644);
        assert_eq!(mode(folder.path()) & 0o555, 0o555);
    }
}
