//! Packages made of the files of a folder. They are files in a folder of their own, and their names are derived
//! from what they were made of.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fathometer_http::origin::store::{Lookup, Store as _, Work, WriteAll};
use fathometer_model::Instant;

use super::folder::FolderStore;
use fathometer_files::scratch::Scratch;

/// The folder of packages. Clones are the same folder.
#[derive(Debug, Clone)]
pub struct PackageFolder(Arc<Place>);

#[derive(Debug)]
enum Place {
    Given(PathBuf),
    Temporary(Scratch),
}

impl PackageFolder {
    /// An existing folder, which is not removed.
    pub fn at(path: &Path) -> PackageFolder {
        PackageFolder(Arc::new(Place::Given(path.to_owned())))
    }

    /// A temporary folder, removed when the last clone is dropped.
    pub fn temporary() -> io::Result<PackageFolder> {
        Ok(PackageFolder(Arc::new(Place::Temporary(Scratch::new()?))))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        match &*self.0 {
            Place::Given(path) => path,
            Place::Temporary(scratch) => scratch.path(),
        }
    }
}

/// The packages of one store. Stores of the same files may share the folder: files of the same name have the
/// same bytes.
#[derive(Debug)]
pub(super) struct KeptPackages {
    folder: PackageFolder,
    files: FolderStore,
}

impl KeptPackages {
    /// Packages in `folder`; `files` is a store of that folder.
    pub fn new(folder: PackageFolder, files: FolderStore) -> KeptPackages {
        KeptPackages { folder, files }
    }

    /// Writes a file, and renames it to `name` when it is complete.
    pub fn keep(&self, name: &str, length: u64, write: &mut WriteAll<'_>) -> io::Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = self.folder.path().join(name);
        if fs::metadata(&path).is_ok_and(|metadata| metadata.len() == length) {
            return Ok(());
        }
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let begun = self.folder.path().join(format!(".{n}.{name}"));
        let written = write_file(&begun, length, write).and_then(|()| fs::rename(&begun, &path));
        if written.is_err() {
            let _ = fs::remove_file(&begun);
        }
        written
    }

    pub fn find(&self, name: &str, now: Instant) -> Lookup {
        self.files.find(format!("/{name}").as_bytes(), now)
    }

    pub fn forget(&self, name: &str) {
        // Another store of the same folder may have removed it.
        let _ = fs::remove_file(self.folder.path().join(name));
    }

    pub fn take_work(&self) -> Work {
        self.files.take_work()
    }
}

fn write_file(path: &Path, length: u64, write: &mut WriteAll<'_>) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut written = 0;
    let mut failure = None;
    let is_whole = write(&mut |octets| match file.write_all(octets) {
        Ok(()) => {
            written += octets.len() as u64;
            true
        }
        Err(error) => {
            failure = Some(error);
            false
        }
    });
    match failure {
        Some(error) => return Err(error),
        // A file of the package was cut short meanwhile.
        None if !is_whole || written != length => return Err(io::ErrorKind::UnexpectedEof.into()),
        None => {}
    }
    file.flush()
}

#[cfg(test)]
mod tests {
    use fathometer_http::origin::store::Stored;

    use super::*;
    use crate::folder::Bounds;

    fn kept() -> (PackageFolder, KeptPackages) {
        let folder = PackageFolder::temporary().unwrap();
        let bounds = Bounds {
            octets: 1 << 20,
            descriptors: 4,
        };
        let files = FolderStore::open(folder.path(), bounds).unwrap();
        (folder.clone(), KeptPackages::new(folder, files))
    }

    fn content(kept: &KeptPackages, name: &str) -> Option<Vec<u8>> {
        let Lookup::Found(resource) = kept.find(name, Instant::ZERO) else {
            return None;
        };
        let Stored::Memory(body) = resource.variants()[0].octets() else {
            panic!("a small file is in memory");
        };
        Some(body.bytes().into_owned())
    }

    #[test]
    fn what_is_kept_is_found_until_it_is_forgotten() {
        let (folder, kept) = kept();
        let mut write = |sink: &mut dyn FnMut(&[u8]) -> bool| sink(b"octets");
        kept.keep("1.objp", 6, &mut write).unwrap();
        assert_eq!(content(&kept, "1.objp").unwrap(), b"octets");
        let work = kept.take_work();
        assert_eq!((work.opens, work.reads), (1, 1));
        assert_eq!(kept.take_work(), Work::default());
        kept.forget("1.objp");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_not_whole_is_not_kept() {
        let (folder, kept) = kept();
        let mut cut = |sink: &mut dyn FnMut(&[u8]) -> bool| {
            sink(b"oct");
            false
        };
        assert!(kept.keep("1.objp", 6, &mut cut).is_err());
        let mut short = |sink: &mut dyn FnMut(&[u8]) -> bool| sink(b"oct");
        assert!(kept.keep("1.objp", 6, &mut short).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_eq!(content(&kept, "1.objp"), None);
        let path = folder.path().to_owned();
        drop((folder, kept));
        assert!(!path.exists());
    }
}
