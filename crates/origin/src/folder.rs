//! A folder as a store: files are found when they are requested, and are cached for a while.
//!
//! Files of up to [`SMALL`] bytes are kept in memory, larger ones as open descriptors from which the kernel
//! sends. Both are bounded ([`Bounds`]); entries that were not used lately are evicted first. An entry that was
//! checked more than [`FRESH`] ago is checked again before it is served, so a change is seen within that time.
//! A file that is kept as a descriptor is checked for every request, because the kernel sends its current
//! bytes. Missing files are not cached.
//!
//! No path leads out of the folder: the kernel resolves it beneath the folder, whatever links there are. A
//! precompressed representation lies beside its file ([`CODINGS`](fathometer_files::site_folder::CODINGS)) and is not
//! served if it is older than the file. Those in `br` and `zstd` are served only if that is
//! [enabled](FolderStore::with_later_codings).
//!
//! Entity tags of small files are digests of their content. Those of larger files are made of the file's inode
//! number, size and times. They are weak until the file has been unchanged for [`SETTLED`]: the clock that
//! stamps files has ticks, and two changes within one tick look the same. Times do not show writes through a
//! memory map that the kernel has not noticed yet.
//!
//! Packages that the origin makes of its files lie in another folder ([`PackageFolder`]) and are found there
//! like files.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fathometer_http::origin::encoding::Coding;
use fathometer_http::origin::store::{
    FileHandle, Lookup, Resource, Store, Stored, Variant, Work, WriteAll,
};
use fathometer_model::{Body, Instant};
use fathometer_sys::clock;
use rustix::fs;
use rustix::io::Errno;

use super::kept::PackageFolder;
use super::listing;
use super::root::{Found, Identity, Opened, Refused, Root};
use fathometer_files::site_folder::media_type;

pub use super::root::SETTLED;

/// Files of up to this many bytes are kept in memory.
pub const SMALL: u64 = 64 * 1024;

/// An entry that was checked within this time is served without another check.
pub const FRESH: Duration = Duration::from_secs(1);

/// The approximate memory of an entry besides its content, in bytes.
const ENTRY: u64 = 512;

/// How often a small file that changes while it is read is read again.
const READS: usize = 3;

/// The limits of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of memory, approximately.
    pub bytes: u64,
    /// Open descriptors.
    pub descriptors: usize,
}

/// A folder that is served.
#[derive(Debug)]
pub struct FolderStore {
    root: Root,
    bounds: Bounds,
    cache: Mutex<Cache>,
    /// Packages made of its files.
    packages: Option<Box<Packages>>,
    reads: AtomicU64,
}

/// The packages made of the files of a folder. Stores of the same files may share the folder of packages: packages of the
/// same name have the same bytes.
#[derive(Debug)]
struct Packages {
    folder: PackageFolder,
    /// A store of that folder.
    files: FolderStore,
}

impl FolderStore {
    /// Opens the folder that is at this path now. If another one takes its place later, this one is still
    /// served.
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

    /// Also keeps packages of its files, in another folder. They get a quarter of the limits of the cache.
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

    /// Reads the state of the file from the disk and updates the entry of the path.
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
        if let Some(entry) = cache.entry(path)
            && entry.is_still(&found, wall_clock)
        {
            entry.looked_at = now;
            return Lookup::Found(Arc::clone(&entry.resource));
        }
        cache.remove(path);
        match Entry::read(path, found, wall_clock, now, &self.reads) {
            Err(_) => Lookup::Overloaded,
            Ok(entry) => {
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

/// A path and the files found there.
#[derive(Debug)]
struct Entry {
    path: Arc<[u8]>,
    resource: Arc<Resource>,
    /// The identity of each representation's file.
    identities: Vec<Identity>,
    /// Whether an entity tag is still weak and will become strong.
    unsettled: bool,
    looked_at: Instant,
    /// Whether it was requested since the eviction hand last passed it.
    used: bool,
    bytes: u64,
    descriptors: usize,
}

impl Entry {
    fn read(
        path: &[u8],
        found: Found,
        wall_clock: Duration,
        now: Instant,
        reads: &AtomicU64,
    ) -> io::Result<Entry> {
        let modified = u64::try_from(found.plain.identity.modified.0).unwrap_or(0);
        let content_type = media_type(&found.name);
        let mut entry = Entry {
            path: path.into(),
            resource: Arc::new(Resource::new(
                content_type,
                modified,
                vec![Variant::memory(None, Body::from(Vec::new()))],
            )),
            identities: Vec::with_capacity(1 + found.coded.len()),
            unsettled: false,
            looked_at: now,
            used: true,
            bytes: ENTRY + path.len() as u64,
            descriptors: 0,
        };
        let coded = found
            .coded
            .into_iter()
            .map(|(coding, opened)| (Some(coding), opened));
        let mut variants = Vec::with_capacity(1 + coded.len());
        for (coding, opened) in std::iter::once((None, found.plain)).chain(coded) {
            let (variant, identity) = read(coding, opened, wall_clock, reads)?;
            match variant.bytes() {
                Stored::Memory(body) => entry.bytes += body.len().0,
                Stored::File(_) => {
                    entry.descriptors += 1;
                    entry.unsettled |= !identity.is_settled(wall_clock);
                }
            }
            variants.push(variant);
            entry.identities.push(identity);
        }
        entry.resource = Arc::new(Resource::new(content_type, modified, variants));
        Ok(entry)
    }

    /// Whether nothing has changed since this entry was made.
    fn is_still(&self, found: &Found, wall_clock: Duration) -> bool {
        let files = std::iter::once((None, &found.plain)).chain(
            found
                .coded
                .iter()
                .map(|(coding, opened)| (Some(*coding), opened)),
        );
        let variants = self.resource.variants();
        variants.len() == 1 + found.coded.len()
            && files.zip(variants).zip(&self.identities).all(
                |(((coding, opened), variant), identity)| {
                    variant.coding() == coding && opened.identity == *identity
                },
            )
            && !(self.unsettled
                && self
                    .identities
                    .iter()
                    .all(|identity| identity.is_settled(wall_clock)))
    }

    /// Whether the open files are unchanged.
    fn descriptors_are_still(&self) -> bool {
        self.resource
            .variants()
            .iter()
            .zip(&self.identities)
            .all(|(variant, identity)| match variant.bytes() {
                Stored::Memory(_) => true,
                Stored::File(file) => file
                    .descriptor::<OwnedFd>()
                    .is_some_and(|file| Identity::now(file) == Some(*identity)),
            })
    }
}

/// Reads a small file; keeps the descriptor of a larger one.
fn read(
    coding: Option<Coding>,
    opened: Opened,
    wall_clock: Duration,
    reads: &AtomicU64,
) -> io::Result<(Variant, Identity)> {
    let Opened { file, mut identity } = opened;
    for _ in 0..READS {
        if identity.size > SMALL {
            break;
        }
        let mut bytes = vec![0; identity.size as usize];
        let mut length = 0;
        while length < bytes.len() {
            reads.fetch_add(1, Ordering::Relaxed);
            match rustix::io::pread(&file, &mut bytes[length..], length as u64) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let after = Identity::of(&fs::fstat(&file)?);
        if after == identity && length == bytes.len() {
            return Ok((Variant::memory(coding, Body::from(bytes)), identity));
        }
        identity = after;
    }
    let tag = identity.tag(coding, wall_clock);
    let file = FileHandle::new(Arc::new(file));
    Ok((Variant::file(coding, identity.size, tag, file), identity))
}

/// The cached entries. Eviction uses the clock algorithm: a hand goes round the entries and takes the first one
/// that was not requested since it last passed.
#[derive(Debug, Default)]
struct Cache {
    places: HashMap<Arc<[u8]>, usize>,
    entries: Vec<Entry>,
    hand: usize,
    bytes: u64,
    descriptors: usize,
}

impl Cache {
    fn entry(&mut self, path: &[u8]) -> Option<&mut Entry> {
        let place = *self.places.get(path)?;
        let entry = &mut self.entries[place];
        entry.used = true;
        Some(entry)
    }

    fn insert(&mut self, entry: Entry) {
        self.bytes += entry.bytes;
        self.descriptors += entry.descriptors;
        self.places
            .insert(Arc::clone(&entry.path), self.entries.len());
        self.entries.push(entry);
    }

    fn remove(&mut self, path: &[u8]) {
        if let Some(&place) = self.places.get(path) {
            self.remove_at(place);
        }
    }

    fn remove_at(&mut self, place: usize) {
        let entry = self.entries.swap_remove(place);
        self.bytes -= entry.bytes;
        self.descriptors -= entry.descriptors;
        self.places.remove(&entry.path);
        if let Some(moved) = self.entries.get(place)
            && let Some(at) = self.places.get_mut(&moved.path)
        {
            *at = place;
        }
    }

    fn keep_within(&mut self, bounds: Bounds) {
        while !self.entries.is_empty() {
            let too_many_bytes = self.bytes > bounds.bytes;
            if !too_many_bytes && self.descriptors <= bounds.descriptors {
                return;
            }
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            let entry = &mut self.entries[self.hand];
            let helps = too_many_bytes || entry.descriptors > 0;
            if helps && !entry.used {
                self.remove_at(self.hand);
            } else {
                entry.used &= !helps;
                self.hand += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{FileType, Mode};

    use super::*;

    const BOUNDS: Bounds = Bounds {
        bytes: 1 << 20,
        descriptors: 8,
    };

    fn at(milliseconds: u64) -> Instant {
        Instant::from_nanos(milliseconds * 1_000_000)
    }

    fn folder() -> (tempfile::TempDir, FolderStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = FolderStore::open(folder.path(), BOUNDS).unwrap();
        (folder, store)
    }

    fn found(store: &FolderStore, path: &str, now: Instant) -> Arc<Resource> {
        match store.find(path.as_bytes(), now) {
            Lookup::Found(resource) => resource,
            other => panic!("{path}: {other:?}"),
        }
    }

    fn content(resource: &Resource) -> Vec<u8> {
        match resource.variants()[0].bytes() {
            Stored::Memory(body) => body.bytes().into_owned(),
            Stored::File(_) => panic!("not in memory"),
        }
    }

    fn is_missing(store: &FolderStore, path: &str) -> bool {
        matches!(store.find(path.as_bytes(), at(0)), Lookup::Missing)
    }

    #[test]
    fn a_change_is_seen_when_the_cached_entry_is_no_longer_fresh() {
        let (folder, store) = folder();
        let file = folder.path().join("a.txt");
        assert!(is_missing(&store, "/a.txt"));
        std::fs::write(&file, "one").unwrap();
        let first = found(&store, "/a.txt", at(0));
        assert_eq!(content(&first), b"one");
        std::fs::write(&file, "other").unwrap();
        assert!(Arc::ptr_eq(&first, &found(&store, "/a.txt", at(999))));
        assert_eq!(content(&found(&store, "/a.txt", at(1000))), b"other");
        let kept = found(&store, "/a.txt", at(1500));
        assert!(Arc::ptr_eq(&kept, &found(&store, "/a.txt", at(9000))));
        std::fs::remove_file(&file).unwrap();
        assert!(matches!(store.find(b"/a.txt", at(9999)), Lookup::Found(_)));
        assert!(matches!(store.find(b"/a.txt", at(10_000)), Lookup::Missing));
    }

    #[test]
    fn a_large_file_that_changes_is_seen_at_once_and_its_tag_is_weak_at_first() {
        let (folder, store) = folder();
        let file = folder.path().join("big");
        std::fs::write(&file, vec![1; 100_000]).unwrap();
        let first = found(&store, "/big", at(0));
        assert!(matches!(first.variants()[0].bytes(), Stored::File(_)));
        assert!(Arc::ptr_eq(&first, &found(&store, "/big", at(1))));
        std::fs::write(&file, vec![2; 100_001]).unwrap();
        let second = found(&store, "/big", at(2));
        assert_eq!(second.variants()[0].length(), 100_001);
        let identity = Identity::of(&fs::stat(&file).unwrap());
        let changed = Duration::from_secs(identity.changed.0 as u64)
            + Duration::from_nanos(identity.changed.1);
        assert!(!identity.is_settled(changed + SETTLED - Duration::from_nanos(1)));
        assert!(identity.is_settled(changed + SETTLED));
    }

    #[test]
    fn nothing_outside_the_folder_is_served() {
        let (folder, store) = folder();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "x").unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("sub/in.txt"), "in").unwrap();
        let link = |to: &Path, name: &str| {
            std::os::unix::fs::symlink(to, folder.path().join(name)).unwrap();
        };
        link(&outside.path().join("secret"), "absolute");
        link(outside.path(), "folder");
        let up = Path::new("..").join(outside.path().file_name().unwrap());
        link(&up.join("secret"), "relative");
        link(Path::new("/proc/self/root/etc/passwd"), "magic");
        link(Path::new("loop"), "loop");
        for path in [
            "/absolute",
            "/folder/secret",
            "/relative",
            "/magic",
            "/loop",
            "//etc/passwd",
            "/sub//in.txt",
            "/../secret",
            "/sub",
            "/sub/",
            "/sub/in.txt/",
        ] {
            assert!(is_missing(&store, path), "{path}");
        }
        // Links that stay inside are followed, whichever way they are written.
        link(&folder.path().join("sub/in.txt"), "inside");
        link(Path::new("sub/../sub/in.txt"), "around");
        for path in ["/inside", "/around", "/sub/in.txt"] {
            assert_eq!(content(&found(&store, path, at(0))), b"in", "{path}");
        }
    }

    #[test]
    fn folders_are_their_index_and_pipes_are_nothing() {
        let (folder, store) = folder();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        std::fs::write(folder.path().join("sub/index.html"), "index").unwrap();
        assert!(matches!(store.find(b"/sub", at(0)), Lookup::Folder));
        assert_eq!(content(&found(&store, "/sub/", at(0))), b"index");
        assert!(is_missing(&store, "/"));
        let pipe = folder.path().join("pipe");
        fs::mknodat(fs::CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert!(is_missing(&store, "/pipe"));
    }

    #[test]
    fn a_precompressed_file_is_served_unless_it_is_older_than_its_file() {
        let (folder, store) = folder();
        for (name, text) in [("a.js", "plain"), ("a.js.gz", "gz"), ("a.js.zz", "zz")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let codings = |now| -> Vec<_> {
            let resource = found(&store, "/a.js", now);
            resource.variants().iter().map(Variant::coding).collect()
        };
        let both = [None, Some(Coding::Deflate), Some(Coding::Gzip)];
        assert_eq!(codings(at(0)), both);
        let later = std::time::UNIX_EPOCH + clock::file_time() + Duration::from_secs(60);
        let file = std::fs::File::options()
            .append(true)
            .open(folder.path().join("a.js"))
            .unwrap();
        file.set_modified(later).unwrap();
        assert_eq!(codings(at(1000)), [None]);
    }

    #[test]
    fn later_codings_are_served_if_enabled() {
        let (folder, store) = folder();
        for name in ["a.js", "a.js.br", "a.js.zst", "a.js.gz"] {
            std::fs::write(folder.path().join(name), name).unwrap();
        }
        let codings = |store: &FolderStore, now| -> Vec<_> {
            let resource = found(store, "/a.js", now);
            resource.variants().iter().map(Variant::coding).collect()
        };
        assert_eq!(codings(&store, at(0)), [None, Some(Coding::Gzip)]);
        let all = [
            None,
            Some(Coding::Gzip),
            Some(Coding::Brotli),
            Some(Coding::Zstd),
        ];
        assert_eq!(codings(&store.with_later_codings(), at(1000)), all);
    }

    #[test]
    fn opens_and_reads_are_counted_and_a_look_at_a_state_is_neither() {
        let folder = tempfile::tempdir().unwrap();
        let nothing_kept = Bounds {
            bytes: 0,
            descriptors: 0,
        };
        let store = FolderStore::open(folder.path(), nothing_kept).unwrap();
        let file = folder.path().join("a.txt");
        std::fs::write(&file, "one").unwrap();
        std::fs::write(folder.path().join("big"), vec![1; 100_000]).unwrap();
        let work = |opens, reads| Work { opens, reads };
        for _ in 0..2 {
            found(&store, "/a.txt", at(0));
            assert_eq!(store.take_work(), work(1, 1));
        }
        let big = found(&store, "/big", at(0));
        assert_eq!(store.take_work(), work(1, 0));
        let Stored::File(file_of_big) = big.variants()[0].bytes() else {
            panic!("in memory");
        };
        let mut room = [0; 10];
        assert_eq!(store.read(file_of_big, 99_995, &mut room), Some(5));
        assert_eq!(store.take_work(), work(0, 1));
        let before = store.state(b"/a.txt");
        assert!(before.is_some() && before == store.state(b"/a.txt"));
        std::fs::write(&file, "other").unwrap();
        assert_ne!(store.state(b"/a.txt"), before);
        for path in [&b"/none"[..], b"/", b"//a.txt"] {
            assert_eq!(store.state(path), None);
        }
        assert_eq!(store.list(b"/", 9).unwrap(), ["/a.txt", "/big"]);
        assert_eq!(store.list(b"/a.txt/", 9), None);
        assert_eq!(store.list(b"/../", 9), None);
        assert_eq!(store.take_work(), Work::default());
    }

    #[test]
    fn the_cache_stays_within_its_bounds() {
        let (folder, store) = folder();
        for n in 0..40 {
            std::fs::write(folder.path().join(format!("big{n}")), vec![0; 65_537]).unwrap();
            std::fs::write(folder.path().join(format!("small{n}")), vec![0; 60_000]).unwrap();
        }
        for n in 0..40 {
            found(&store, &format!("/big{n}"), at(0));
            found(&store, &format!("/small{n}"), at(0));
            // Requested all the time, it stays.
            found(&store, "/small0", at(0));
            let cache = store.cache.lock().unwrap();
            assert!(cache.descriptors <= BOUNDS.descriptors);
            assert!(cache.bytes <= BOUNDS.bytes);
            assert_eq!(cache.places.len(), cache.entries.len());
            assert!(cache.places.contains_key(&b"/small0"[..]));
            for (path, &place) in &cache.places {
                assert_eq!(cache.entries[place].path, *path);
            }
        }
        let cache = store.cache.lock().unwrap();
        assert!(cache.descriptors > 0);
        let sum: u64 = cache.entries.iter().map(|entry| entry.bytes).sum();
        assert_eq!(cache.bytes, sum);
    }

    #[test]
    fn packages_are_found_and_their_opens_counted() {
        let (folder, kept) = (
            tempfile::tempdir().unwrap(),
            PackageFolder::temporary().unwrap(),
        );
        let bounds = Bounds {
            bytes: 1 << 20,
            descriptors: 4,
        };
        let store = FolderStore::open(folder.path(), bounds)
            .unwrap()
            .with_packages(&kept)
            .unwrap();
        let mut write = |sink: &mut dyn FnMut(&[u8]) -> bool| sink(b"content");
        assert!(store.keep("1.objp", 7, &mut write));
        let Lookup::Found(resource) = store.kept("1.objp", Instant::ZERO) else {
            panic!("the package is not found");
        };
        let Stored::Memory(body) = resource.variants()[0].bytes() else {
            panic!("a small file is in memory");
        };
        assert_eq!(body.bytes().as_ref(), b"content");
        let work = store.take_work();
        assert_eq!((work.opens, work.reads), (1, 1));
        assert_eq!(store.take_work(), Work::default());
    }
}
