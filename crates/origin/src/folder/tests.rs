use fathometer_http::origin::encoding::Coding;
use fathometer_http::origin::store::{Resource, Stored, Variant};
use rustix::fs::{self, FileType, Mode};

use super::super::root::Identity;
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
fn a_change_that_leaves_the_times_as_they_were_is_seen() {
    let (folder, store) = folder();
    let file = folder.path().join("a.txt");
    std::fs::write(&file, "one").unwrap();
    let first = found(&store, "/a.txt", at(0));
    assert!(Arc::ptr_eq(&first, &found(&store, "/a.txt", at(1000))));
    std::fs::write(&file, "two").unwrap();
    // Simulates two changes within one tick of the file times.
    let identity = Identity::of(&fs::stat(&file).unwrap());
    store
        .cache
        .lock()
        .unwrap()
        .entry(b"/a.txt")
        .unwrap()
        .identities[0] = identity;
    assert_eq!(content(&found(&store, "/a.txt", at(2000))), b"two");
    // A file that was unchanged for `SETTLED` when it was read is not read again.
    store.take_work();
    store
        .cache
        .lock()
        .unwrap()
        .entry(b"/a.txt")
        .unwrap()
        .may_differ = false;
    found(&store, "/a.txt", at(3000));
    assert_eq!(store.take_work().reads, 0);
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
    let changed =
        Duration::from_secs(identity.changed.0 as u64) + Duration::from_nanos(identity.changed.1);
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
    // Absolute and relative links to targets inside the folder are followed.
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
        // An entry that is requested repeatedly is not evicted.
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
