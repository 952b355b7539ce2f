//! Stores packages of a folder's files in a separate folder. The name of a package is derived from the files in it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fathometer_http::origin::store::WriteAll;

use fathometer_files::scratch::Scratch;

/// The folder of packages. Clones refer to the same folder.
#[derive(Debug, Clone)]
pub struct PackageFolder(Arc<Place>);

#[derive(Debug)]
enum Place {
    Given(PathBuf),
    Temporary(Scratch),
}

impl PackageFolder {
    /// Uses an existing folder, which is not removed.
    pub fn at(path: &Path) -> PackageFolder {
        PackageFolder(Arc::new(Place::Given(path.to_owned())))
    }

    /// Creates a temporary folder, which is removed when the last clone is dropped.
    pub fn temporary() -> io::Result<PackageFolder> {
        Ok(PackageFolder(Arc::new(Place::Temporary(Scratch::new()?))))
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        match &*self.0 {
            Place::Given(path) => path,
            Place::Temporary(scratch) => scratch.path(),
        }
    }

    /// Writes a file, and renames it to `name` when it is complete.
    pub(super) fn keep(&self, name: &str, length: u64, write: &mut WriteAll<'_>) -> io::Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = self.path().join(name);
        if fs::metadata(&path).is_ok_and(|metadata| metadata.len() == length) {
            return Ok(());
        }
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let begun = self.path().join(format!(".{n}.{name}"));
        let written = write_file(&begun, length, write).and_then(|()| fs::rename(&begun, &path));
        if written.is_err() {
            let _ = fs::remove_file(&begun);
        }
        written
    }

    /// Removes a file.
    pub(super) fn forget(&self, name: &str) {
        // Another store of the same folder may have removed the file already.
        let _ = fs::remove_file(self.path().join(name));
    }
}

fn write_file(path: &Path, length: u64, write: &mut WriteAll<'_>) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut written = 0;
    let mut failure = None;
    let is_whole = write(&mut |bytes| match file.write_all(bytes) {
        Ok(()) => {
            written += bytes.len() as u64;
            true
        }
        Err(error) => {
            failure = Some(error);
            false
        }
    });
    match failure {
        Some(error) => return Err(error),
        // A file of the package was truncated while the package was written.
        None if !is_whole || written != length => return Err(io::ErrorKind::UnexpectedEof.into()),
        None => {}
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &PackageFolder) -> Vec<String> {
        let entries = fs::read_dir(folder.path()).unwrap();
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        entries
            .map(|entry| name(entry).into_string().unwrap())
            .collect()
    }

    #[test]
    fn a_package_is_kept_until_it_is_forgotten() {
        let folder = PackageFolder::temporary().unwrap();
        let mut write = |sink: &mut dyn FnMut(&[u8]) -> bool| sink(b"content");
        folder.keep("1.objp", 7, &mut write).unwrap();
        assert_eq!(names(&folder), ["1.objp"]);
        assert_eq!(fs::read(folder.path().join("1.objp")).unwrap(), b"content");
        folder.forget("1.objp");
        assert_eq!(names(&folder), [""; 0]);
    }

    #[test]
    fn a_package_that_is_cut_short_is_not_kept() {
        let folder = PackageFolder::temporary().unwrap();
        let mut cut = |sink: &mut dyn FnMut(&[u8]) -> bool| {
            sink(b"con");
            false
        };
        assert!(folder.keep("1.objp", 7, &mut cut).is_err());
        let mut short = |sink: &mut dyn FnMut(&[u8]) -> bool| sink(b"con");
        assert!(folder.keep("1.objp", 7, &mut short).is_err());
        assert_eq!(names(&folder), [""; 0]);
        let path = folder.path().to_owned();
        drop(folder);
        assert!(!path.exists());
    }
}
