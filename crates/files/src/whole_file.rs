//! Files that are written completely or not at all: a reader never sees a partial file, even after a crash or
//! when the disk is full.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Writes a file beside `path`, and renames it to `path` when it is complete.
///
/// # Errors
/// If the file cannot be written; then `path` is unchanged.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with(path, |file| file.write_all(bytes))
}

/// Like [`write()`], for content that is written in parts.
///
/// # Errors
/// If the file cannot be written, or `content` fails; then `path` is unchanged.
pub fn write_with(
    path: &Path,
    content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let partial = beside(path);
    let written = File::create(&partial).and_then(|file| {
        let mut file = BufWriter::new(file);
        content(&mut file)?;
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        // Some file systems (NFS, those with quotas) report a full disk only here.
        file.sync_all()
    });
    written
        .and_then(|()| fs::rename(&partial, path))
        .inspect_err(|_| {
            let _ = fs::remove_file(&partial);
        })
}

/// Returns a path beside `path` that is unique among concurrent writers of the same file.
fn beside(path: &Path) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}-{n}.partial", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_fails_leaves_the_file_as_it_was_and_nothing_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("verdict.json");
        write(&path, b"old").unwrap();
        let refused = write_with(&path, |file| {
            file.write_all(b"{\"half")?;
            file.flush()?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
