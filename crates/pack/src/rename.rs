//! Renames a complete file to its final name.

use std::ffi::OsStr;
use std::os::fd::BorrowedFd;

use rustix::fs::{AtFlags, RenameFlags, linkat, renameat, renameat_with, unlinkat};
use rustix::io::{Errno, Result};

/// Renames a file within a folder. If `overwrite` is set, an existing file with the new name is replaced.
///
/// Otherwise fails with [`Errno::EXIST`] if the new name exists. The file system itself checks for it, so there is no
/// race.
pub(crate) fn rename(
    folder: BorrowedFd<'_>,
    from: &OsStr,
    to: &OsStr,
    overwrite: bool,
) -> Result<()> {
    if overwrite {
        return renameat(folder, from, folder, to);
    }
    match renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        // The file system does not support the flag.
        Err(Errno::INVAL | Errno::NOSYS) => link(folder, from, to),
        result => result,
    }
}

/// Creates a second name for a file, which must not exist yet, and removes the first name.
fn link(folder: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> Result<()> {
    linkat(folder, from, folder, to, AtFlags::empty())?;
    // The file is complete under its new name. If the temporary name remains, its suffix shows that it is temporary.
    let _ = unlinkat(folder, from, AtFlags::empty());
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn a_file_that_appeared_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let opened = File::open(folder.path()).unwrap();
        let (from, to) = (OsStr::new("partial"), OsStr::new("name"));
        for by_link in [false, true] {
            let way = |from: &OsStr, to: &OsStr| match by_link {
                false => rename(opened.as_fd(), from, to, false),
                true => link(opened.as_fd(), from, to),
            };
            fs::write(path("partial"), "new").unwrap();
            fs::write(path("name"), "old").unwrap();
            assert_eq!(way(from, to), Err(Errno::EXIST));
            assert_eq!(fs::read(path("name")).unwrap(), b"old");
            fs::remove_file(path("name")).unwrap();
            assert_eq!(way(from, to), Ok(()));
            assert_eq!(fs::read(path("name")).unwrap(), b"new");
            assert!(!path("partial").exists());
        }
        fs::write(path("partial"), "newer").unwrap();
        assert_eq!(rename(opened.as_fd(), from, to, true), Ok(()));
        assert_eq!(fs::read(path("name")).unwrap(), b"newer");
    }
}
