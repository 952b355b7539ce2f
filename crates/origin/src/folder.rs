//! A folder as a store: files are looked up when they are requested, and are cached for a while.
//!
//! Files of up to [`SMALL`] bytes are cached in memory, larger files as open descriptors from which the kernel
//! sends. Both are bounded ([`Bounds`]); entries that were not used recently are evicted first. An entry that
//! was last checked more than [`FRESH`] ago is checked again before it is served, so a change takes effect
//! within that time. A small file that changed less than [`SETTLED`] before it was read is read again at each
//! check, because its times do not show a second change within one tick. A file that is cached as a descriptor
//! is checked for every request, because the kernel sends its current bytes. Missing files are not cached.
//!
//! No path leads out of the folder, because the kernel resolves every path beneath the folder, including symbolic
//! links. A precompressed representation is stored beside its file
//! ([`CODINGS`](fathometer_files::site_folder::CODINGS)) and is not served if it is older than the file.
//! Representations in `br` and `zstd` are served only if [enabled](FolderStore::with_later_codings).
//!
//! Entity tags of small files are digests of the content. Entity tags of larger files are derived from the
//! file's inode number, size and times. They are weak until the file has been unchanged for [`SETTLED`],
//! because file times have a limited resolution, and two changes within one tick look the same. File times do
//! not show writes through a memory map that the kernel has not yet detected.
//!
//! Packages of the origin's files are stored in a separate folder ([`PackageFolder`]), where they are looked up like
//! files.

mod cache;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fathometer_http::origin::store::{FileHandle, Lookup, Store, Work, WriteAll};
use fathometer_model::Instant;
use fathometer_sys::clock;
use rustix::io::Errno;

use self::cache::{Cache, Entry};
use super::kept::PackageFolder;
use super::listing;
use super::root::{Refused, Root};

pub use super::root::SETTLED;

/// Files of up to this many bytes are cached in memory.
pub const SMALL: u64 = 64 * 1024;

/// An entry that was checked within this time is served without another check.
pub const FRESH: Duration = Duration::from_secs(1);

/// The limits of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum memory, in bytes, approximately.
    pub bytes: u64,
    /// Maximum number of open descriptors.
    pub descriptors: usize,
}

/// A folder that is served.
#[derive(Debug)]
pub struct FolderStore {
    root: Root,
    bounds: Bounds,
    cache: Mutex<Cache>,
    /// Packages of the folder's files.
    packages: Option<Box<Packages>>,
    reads: AtomicU64,
}

/// The packages of a folder's files. Stores of the same files may share the folder of packages, because packages of the
/// same name have the same bytes.
#[derive(Debug)]
struct Packages {
    folder: PackageFolder,
    /// The store that serves the packages from `folder`.
    files: FolderStore,
}

impl FolderStore {
    /// Opens the folder that is at this path now. If another folder is moved to the path later, the first folder is
    /// still served.
    pub fn open(folder: &Path, bounds: Bounds) -> io::Result<FolderStore> {
        Ok(FolderStore {
            root: Root::open(folder)?,
            bounds,
            cache: Mutex::default(),
            packages: None,
            reads: AtomicU64::new(0),
        })
    }

    /// Also serves representations in the codings `br` and `zstd` that lie beside a file, as `x.br` and `x.zst`.
    #[must_use]
    pub fn with_later_codings(mut self) -> FolderStore {
        self.root.later_codings = true;
        self
    }

    /// Also stores packages of the files, in another folder. Packages get a quarter of the limits of the cache.
    pub fn with_packages(mut self, packages: &PackageFolder) -> io::Result<FolderStore> {
        let share = Bounds {
            bytes: self.bounds.bytes / 4,
            descriptors: self.bounds.descriptors / 4,
        };
        self.bounds.bytes -= share.bytes;
        self.bounds.descriptors -= share.descriptors;
        let files = FolderStore::open(packages.path(), share)?;
        self.packages = Some(Box::new(Packages {
            folder: packages.clone(),
            files,
        }));
        Ok(self)
    }

    /// Looks up the file on disk, and updates the cache entry of the path.
    fn look_up(&self, cache: &mut Cache, path: &[u8], now: Instant) -> Lookup {
        let mut looked = self.root.look(path);
        if matches!(looked, Err(Refused::Overloaded)) && cache.descriptors > 0 {
            cache.keep_within(Bounds {
                descriptors: 0,
                ..self.bounds
            });
            looked = self.root.look(path);
        }
        let found = match looked {
            Ok(found) => found,
            Err(refused) => {
                cache.remove(path);
                return match refused {
                    Refused::Missing => Lookup::Missing,
                    Refused::Folder => Lookup::Folder,
                    Refused::Forbidden => Lookup::Forbidden,
                    Refused::Overloaded => Lookup::Overloaded,
                };
            }
        };
        let wall_clock = clock::file_time();
        let mut earlier = None;
        if let Some(entry) = cache.entry(path)
            && entry.is_still(&found, wall_clock)
        {
            if !entry.may_differ {
                entry.looked_at = now;
                return Lookup::Found(Arc::clone(&entry.resource));
            }
            earlier = Some(Arc::clone(&entry.resource));
        }
        cache.remove(path);
        match Entry::read(path, found, wall_clock, now, &self.reads) {
            Err(_) => Lookup::Overloaded,
            Ok(mut entry) => {
                if let Some(earlier) = earlier {
                    entry.keep_if_same(earlier);
                }
                let resource = Arc::clone(&entry.resource);
                cache.insert(entry);
                cache.keep_within(self.bounds);
                Lookup::Found(resource)
            }
        }
    }
}

impl Store for FolderStore {
    fn find(&self, path: &[u8], now: Instant) -> Lookup {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = cache.entry(path)
            && now.since(entry.looked_at) < FRESH
            && (entry.descriptors == 0 || entry.descriptors_are_still())
        {
            return Lookup::Found(Arc::clone(&entry.resource));
        }
        self.look_up(&mut cache, path, now)
    }

    fn look(&self, path: &[u8], now: Instant) -> Lookup {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        self.look_up(&mut cache, path, now)
    }

    fn state(&self, path: &[u8]) -> Option<u64> {
        self.root.state(path)
    }

    fn list(&self, folder: &[u8], most: usize) -> Option<Vec<String>> {
        let relative = folder.strip_prefix(b"/")?;
        let opened = self.root.open_folder(relative).ok()?;
        listing::targets(&opened, folder, most)
    }

    fn read(&self, file: &FileHandle, offset: u64, room: &mut [u8]) -> Option<usize> {
        let file = file.descriptor::<OwnedFd>()?;
        loop {
            self.reads.fetch_add(1, Ordering::Relaxed);
            match rustix::io::pread(file, &mut *room, offset) {
                Ok(read) => return Some(read),
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
    }

    fn keep(&self, name: &str, length: u64, write: &mut WriteAll<'_>) -> bool {
        match &self.packages {
            Some(packages) => packages.folder.keep(name, length, write).is_ok(),
            None => false,
        }
    }

    fn kept(&self, name: &str, now: Instant) -> Lookup {
        match &self.packages {
            Some(packages) => packages.files.find(format!("/{name}").as_bytes(), now),
            None => Lookup::Missing,
        }
    }

    fn forget(&self, name: &str) {
        if let Some(packages) = &self.packages {
            packages.folder.forget(name);
        }
    }

    fn take_work(&self) -> Work {
        let of_packages = match &self.packages {
            Some(packages) => packages.files.take_work(),
            None => Work::default(),
        };
        Work {
            opens: self.root.opens.swap(0, Ordering::Relaxed) + of_packages.opens,
            reads: self.reads.swap(0, Ordering::Relaxed) + of_packages.reads,
        }
    }
}

#[cfg(test)]
mod tests;
