//! Ownership of files and folders by a lock that the kernel holds for a process (`flock(2)`).
//!
//! A process number does not identify an owner: each PID namespace has its own numbers, and numbers are reused. A lock
//! belongs to an open file. The kernel releases the lock when the last process that has this file open exits, for any
//! reason. The lock is visible to every process that can open the file, in any namespace.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};

/// An exclusive lock on a file or a directory. Dropping this value releases the lock.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: File,
}

/// The result of an attempt to take a lock.
#[derive(Debug)]
pub enum Taken {
    /// This process holds the lock.
    Ours(Lock),
    /// Another process holds the lock.
    Held,
    /// The path does not exist any more, or another file has replaced the locked file.
    Gone,
}

impl Lock {
    /// Takes the lock of an existing directory. Symbolic links are not followed.
    ///
    /// # Errors
    /// If the directory cannot be opened; [`io::ErrorKind::Unsupported`] if the file system does not support locks.
    pub fn directory(path: &Path) -> io::Result<Taken> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(file) => Lock::take(path, File::from(file)),
            Err(rustix::io::Errno::NOENT) => Ok(Taken::Gone),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the lock of a file, creating it if it does not exist. Its content is not changed. Symbolic links
    /// are not followed.
    ///
    /// # Errors
    /// If the file cannot be opened; [`io::ErrorKind::Unsupported`] if the file system does not support locks.
    pub fn file(path: &Path) -> io::Result<Taken> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(libc::O_NOFOLLOW)
            .open(path)?;
        Lock::take(path, file)
    }

    fn take(path: &Path, file: File) -> io::Result<Taken> {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Taken::Held),
            // The errors of file systems without locks.
            Err(rustix::io::Errno::NOLCK | rustix::io::Errno::NOSYS) => {
                return Err(io::ErrorKind::Unsupported.into());
            }
            Err(error) => return Err(error.into()),
        }
        // The previous holder may have removed the file after it was opened here and before it was locked.
        let ours = file.metadata()?;
        let same = std::fs::symlink_metadata(path)
            .is_ok_and(|there| (there.dev(), there.ino()) == (ours.dev(), ours.ino()));
        Ok(match same {
            true => Taken::Ours(Lock {
                path: path.to_owned(),
                file,
            }),
            false => Taken::Gone,
        })
    }

    /// Returns the path of the locked file or directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the open file.
    pub fn as_file(&self) -> &File {
        &self.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::process::Command;

    fn ours(taken: Taken) -> Lock {
        match taken {
            Taken::Ours(lock) => lock,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_second_lock_fails_until_the_first_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let lock = ours(Lock::directory(folder.path()).unwrap());
        assert!(matches!(Lock::directory(folder.path()), Ok(Taken::Held)));
        drop(lock);
        ours(Lock::directory(folder.path()).unwrap());
        let file = folder.path().join("lock");
        let lock = ours(Lock::file(&file).unwrap());
        assert!(matches!(Lock::file(&file), Ok(Taken::Held)));
        drop(lock);
        ours(Lock::file(&file).unwrap());
    }

    #[test]
    fn removed_or_replaced_files_are_not_locked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        assert!(matches!(Lock::directory(&path), Ok(Taken::Gone)));
        fs::create_dir(&path).unwrap();
        let opened = File::open(&path).unwrap();
        fs::remove_dir(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(matches!(Lock::take(&path, opened), Ok(Taken::Gone)));
        std::os::unix::fs::symlink(folder.path(), folder.path().join("link")).unwrap();
        assert!(Lock::directory(&folder.path().join("link")).is_err());
    }

    #[test]
    fn a_process_that_is_killed_holds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut holder = match Command::new("flock")
            .arg(folder.path())
            .args(["sleep", "600"])
            .spawn()
        {
            Ok(child) => child,
            Err(_) => return eprintln!("SKIPPED: flock(1) is not installed"),
        };
        let is_held = || matches!(Lock::directory(folder.path()), Ok(Taken::Held));
        while !is_held() {
            assert!(holder.try_wait().unwrap().is_none(), "flock(1) exited");
            std::thread::yield_now();
        }
        // flock(1) runs the command as a child, which inherits the lock.
        let children = format!("/proc/{0}/task/{0}/children", holder.id());
        let children = fs::read_to_string(children).unwrap_or_default();
        holder.kill().unwrap();
        holder.wait().unwrap();
        for child in children.split_whitespace() {
            let _ = Command::new("kill").args(["-KILL", child]).status();
        }
        while is_held() {
            std::thread::yield_now();
        }
    }
}
