//! Tests of packages whose files must be read for their checksums. Each turn of each request reads a limited amount.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fathometer_model::{Body, Instant, Seed};

use super::tests::{PACKAGE, unpacked};
use super::*;
use crate::origin::conditions::{Lines, Preconditions, Single};
use crate::origin::dynamic::{Dynamic, Flowed};
use crate::origin::store::{EntityTag, FileHandle, Lookup, Resource, Store, Variant};
use crate::origin::target::Target;
use crate::origin::{Answer, Dates, FieldSink, HopField, Located, Method, Origin, OriginConfig};
use crate::origin::{Request, Segment};
use fathometer_package::Checksum;

/// The maximum number of bytes that one turn reads.
const A_TURN: u64 = 64 * 1024;

/// A store of files behind descriptors that counts the bytes read.
#[derive(Debug)]
struct TestStore {
    files: Vec<(String, Arc<Vec<u8>>, Arc<Resource>)>,
    read: Arc<AtomicU64>,
    /// The number of file look-ups.
    found: Arc<AtomicU64>,
    /// A file that is listed but does not exist.
    gone: Option<String>,
    /// The number of bytes that can be read from each file before a read error.
    readable: u64,
}

impl TestStore {
    /// Creates files of these sizes. Files of up to `in_memory` bytes are in memory.
    fn new(sizes: &[usize], in_memory: usize, read: &Arc<AtomicU64>) -> TestStore {
        let files = sizes.iter().enumerate().map(|(n, &size)| {
            let bytes = Arc::new(
                (0..size)
                    .map(|at| Seed(n as u64).draw(at as u64) as u8)
                    .collect::<Vec<u8>>(),
            );
            let tag = EntityTag::of_metadata(&[n as u64, size as u64], true);
            let file = FileHandle::new(Arc::clone(&bytes));
            let variant = match size <= in_memory {
                true => Variant::memory(None, Body::from(bytes.to_vec())),
                false => Variant::file(None, size as u64, tag, file),
            };
            let resource = Resource::new("application/octet-stream", 784_111_777, vec![variant]);
            (format!("/d/{n:04}"), bytes, Arc::new(resource))
        });
        TestStore {
            files: files.collect(),
            read: Arc::clone(read),
            found: Arc::default(),
            gone: None,
            readable: u64::MAX,
        }
    }
}

impl Store for TestStore {
    fn find(&self, path: &[u8], _: Instant) -> Lookup {
        let mut files = self.files.iter();
        let is_there = |name: &String| name.as_bytes() == path && self.gone.as_ref() != Some(name);
        let found = files.find(|(name, ..)| is_there(name));
        found.map_or(Lookup::Missing, |(_, _, resource)| {
            self.found.fetch_add(1, Ordering::Relaxed);
            Lookup::Found(Arc::clone(resource))
        })
    }

    fn list(&self, _: &[u8], _: usize) -> Option<Vec<String>> {
        Some(self.files.iter().map(|(name, ..)| name.clone()).collect())
    }

    fn read(&self, file: &FileHandle, offset: u64, room: &mut [u8]) -> Option<usize> {
        if offset >= self.readable {
            return None;
        }
        let bytes: &Vec<u8> = file.descriptor()?;
        let rest = bytes.get(offset as usize..)?;
        let length = rest.len().min(room.len());
        room[..length].copy_from_slice(&rest[..length]);
        self.read.fetch_add(length as u64, Ordering::Relaxed);
        Some(length)
    }
}

/// The sizes of the files in the package: long, short and empty files.
fn sizes() -> Vec<usize> {
    [300_000, 0, 65_536, 1, 200_001]
        .into_iter()
        .chain((0..100).map(|n| n * 50))
        .collect()
}

fn origin(read: &Arc<AtomicU64>, dynamic: Vec<Dynamic>) -> Origin {
    of_test_store(TestStore::new(&sizes(), 0, read), dynamic)
}

fn of_test_store(store: TestStore, dynamic: Vec<Dynamic>) -> Origin {
    let packages = Packages {
        making: Making::OnTheFly,
        folders: true,
        ..Packages::default()
    };
    let config = OriginConfig {
        packages,
        dynamic,
        ..OriginConfig::default()
    };
    Origin::of_store(Box::new(store), config).unwrap()
}

/// Creates an origin with a folder `/d/` of many files in memory, which form a package. Returns the origin and the file
/// contents.
pub(crate) fn short_files() -> (Arc<Origin>, Vec<Vec<u8>>) {
    let store = TestStore::new(&[3000; 200], 3000, &Arc::default());
    let files = store.files.iter().map(|(_, bytes, _)| bytes.to_vec());
    let files = files.collect();
    (Arc::new(of_test_store(store, Vec::new())), files)
}

/// Creates an origin with one file in the folder `/d/`. Only its first `readable` bytes can be read.
pub(crate) fn partly_readable_file(readable: u64) -> Arc<Origin> {
    let store = TestStore {
        readable,
        ..TestStore::new(&[300_000], 0, &Arc::default())
    };
    Arc::new(of_test_store(store, Vec::new()))
}

/// The `Accept` value that selects the package of `/d/`.
pub(crate) const ACCEPT: &str = PACKAGE;

/// Returns the contents of the files in a package.
pub(crate) fn contents(package: &[u8]) -> Vec<Vec<u8>> {
    let files = unpacked(package).into_iter();
    files.map(|(_, content)| content).collect()
}

fn decide(origin: &Origin, range: Option<&str>) -> Answer {
    let mut request = Request {
        method: Method::Get,
        target: Target::parse(Method::Get, b"/d/").unwrap(),
        preconditions: Preconditions::default(),
        range: Single::Absent,
        accept: Lines::default(),
        accept_encoding: Lines::default(),
        available_dictionary: Single::Absent,
        package_have: Single::Absent,
        no_transform: false,
    };
    assert!(request.accept.push(PACKAGE.as_bytes()));
    if let Some(range) = range {
        request.range.push(range.as_bytes());
    }
    origin.decide(&request, Instant::ZERO, &mut Vec::new())
}

fn decided(origin: &Origin, range: Option<&str>) -> Answer {
    let mut answer = decide(origin, range);
    origin.complete(&mut answer, Instant::ZERO);
    answer
}

/// Reads the content of an answer; returns it with the number of bytes read in each turn.
fn content(origin: &Origin, answer: &Answer, read: &AtomicU64) -> (Vec<u8>, Vec<u64>) {
    let mut content = Vec::new();
    let mut take = |segment: Segment<'_>| match segment {
        Segment::Text(text) => content.extend_from_slice(text),
        Segment::Body(selected, range) => {
            let Located::File(file) = origin.content_of(selected) else {
                panic!("all files are behind descriptors");
            };
            let bytes: &Vec<u8> = file.descriptor().unwrap();
            content.extend_from_slice(&bytes[range.first as usize..range.end as usize]);
        }
    };
    origin.write_content(answer, &mut take);
    let mut turns = Vec::new();
    if let Some(mut flow) = origin.flow(answer, Instant::ZERO) {
        let mut now = Instant::ZERO;
        loop {
            let before = read.load(Ordering::Relaxed);
            let flowed = flow.poll(origin, now, &mut take);
            turns.push(read.load(Ordering::Relaxed) - before);
            match flowed {
                Flowed::Until(next) => {
                    assert!(next > now, "the next turn is not after the current time");
                    now = next;
                }
                Flowed::Whole => break,
                Flowed::Broken => panic!("a file could not be read"),
            }
        }
    }
    (content, turns)
}

/// Returns the value of a field of an answer.
fn field(origin: &Origin, answer: &Answer, name: &'static str) -> Option<String> {
    struct One(&'static str, Option<String>);
    impl FieldSink for One {
        fn field(&mut self, name: &str, value: &[u8]) {
            if name == self.0 {
                self.1 = Some(String::from_utf8(value.to_vec()).unwrap());
            }
        }
        fn hop(&mut self, _: HopField, _: &str) {}
    }
    let mut one = One(name, None);
    origin.write_fields(answer, 0, &mut Dates::default(), &mut one);
    one.1
}

#[test]
fn files_are_looked_up_over_several_turns() {
    // 200 short files, 30 files of 64 KiB in memory, and one missing file.
    let sizes: Vec<usize> = [100; 200].into_iter().chain([65_536; 30]).collect();
    let mut store = TestStore::new(&sizes, 65_536, &Arc::default());
    store.gone = Some("/d/0003".to_owned());
    let found = Arc::clone(&store.found);
    let origin = of_test_store(store, Vec::new());
    let mut answer = decide(&origin, Some("bytes=0-0"));
    let mut turns = vec![found.load(Ordering::Relaxed)];
    while answer.is_undecided() {
        let before = found.load(Ordering::Relaxed);
        origin.go_on(&mut answer, Instant::ZERO);
        turns.push(found.load(Ordering::Relaxed) - before);
    }
    // A look-up costs 4 KiB plus the size in memory, so a turn covers at most 256 KiB plus one file.
    assert!(turns.len() > 8 && turns[0] <= 64, "{turns:?}");
    assert!(
        turns.iter().rev().skip(1).take(6).all(|&turn| turn <= 4),
        "{turns:?}"
    );
    assert_eq!(turns.iter().sum::<u64>(), sizes.len() as u64 - 1);
    // After the decision, the requested range still applies.
    assert_eq!((answer.status().code(), answer.sent_length()), (206, 1));
    assert!(
        origin.go_on(&mut answer, Instant::ZERO),
        "a decided answer stays decided"
    );
}

#[test]
fn a_package_that_cannot_be_composed_gets_the_response_without_packages() {
    let mut store = TestStore::new(&[1; 100], 0, &Arc::default());
    // A file name that is too long for a package is detected after all files are looked up.
    store.files[99].0 = format!("/d/{}", "x".repeat(9000));
    let origin = of_test_store(store, Vec::new());
    let mut answer = decide(&origin, None);
    assert!(answer.is_undecided());
    origin.complete(&mut answer, Instant::ZERO);
    assert_eq!(
        answer.status().code(),
        404,
        "a folder exists only as a package"
    );
    assert_eq!(origin.take_packages(), 0);
}

#[test]
fn each_file_is_read_once_one_slice_a_turn() {
    let read = Arc::default();
    let origin = origin(&read, Vec::new());
    let answer = decided(&origin, None);
    assert_eq!(read.load(Ordering::Relaxed), 0, "a decision reads no file");
    let total: usize = sizes().iter().sum();
    let length = field(&origin, &answer, "Content-Length").unwrap();
    let tag = field(&origin, &answer, "ETag");

    let (whole, turns) = content(&origin, &answer, &read);
    assert_eq!(whole.len().to_string(), length);
    assert!(turns.iter().all(|&turn| turn <= A_TURN), "{turns:?}");
    assert_eq!(turns.iter().sum::<u64>(), total as u64);
    // The fixed cost per file limits the number of short files in one turn.
    assert!(turns.len() > total / A_TURN as usize + 5, "{turns:?}");
    // The unpacking reader verifies every checksum.
    let files = unpacked(&whole);
    assert_eq!(files.len(), sizes().len());
    for ((entry, content), size) in files.iter().zip(sizes()) {
        assert_eq!(
            (content.len(), entry.checksum),
            (size, Some(Checksum::of(content)))
        );
    }

    let again = decided(&origin, None);
    assert_eq!(field(&origin, &again, "ETag"), tag);
    let (same, turns) = content(&origin, &again, &read);
    assert!(
        same == whole && turns.is_empty(),
        "files with a known checksum are not read again"
    );
}

#[test]
fn parts_of_a_package_are_those_of_the_whole() {
    let read = Arc::default();
    let (whole, _) = {
        let origin = origin(&read, Vec::new());
        content(&origin, &decided(&origin, None), &read)
    };
    let length = whole.len();
    for (first, end) in [
        (0, 1),
        (10, 70_000),
        (299_990, 300_400),
        (length - 12, length),
        (350_000, 350_001),
    ] {
        // All checksums are unknown.
        let origin = origin(&read, Vec::new());
        let answer = decided(&origin, Some(&format!("bytes={first}-{}", end - 1)));
        assert_eq!(answer.status().code(), 206);
        let (part, turns) = content(&origin, &answer, &read);
        assert!(part == whole[first..end], "{first} to {end}");
        assert!(turns.iter().all(|&turn| turn <= A_TURN), "{turns:?}");
        // Bytes after the range are not read.
        assert!(turns.iter().sum::<u64>() <= end as u64 + A_TURN);
    }
    let origin = origin(&read, Vec::new());
    let answer = decided(&origin, Some("bytes=300000-300099,5-9"));
    let (parts, turns) = content(&origin, &answer, &read);
    assert_eq!(parts.len() as u64, answer.sent_length());
    assert!(turns.iter().all(|&turn| turn <= A_TURN), "{turns:?}");
    for (range, bytes) in [
        ("300000-300099", &whole[300_000..300_100]),
        ("5-9", &whole[5..10]),
    ] {
        let head = format!("Content-Range: bytes {range}/{length}\r\n\r\n");
        let place = parts
            .windows(head.len())
            .position(|window| window == head.as_bytes())
            .unwrap();
        assert!(parts[place + head.len()..].starts_with(bytes), "{range}");
    }
}

#[test]
fn packages_with_dynamic_resources_take_turns() {
    let dynamic = |path: &str, parts| Dynamic {
        path: path.to_owned(),
        content_type: None,
        parts,
        part: None,
        first: Duration::ZERO,
        every: Duration::ZERO,
    };
    let read = Arc::default();
    let origin = origin(&read, vec![dynamic("/d/0000", 2), dynamic("/d/0001", 3)]);
    let answer = decided(&origin, None);
    assert!(answer.is_open());
    for known in [false, true] {
        let before = read.load(Ordering::Relaxed);
        let (whole, turns) = content(&origin, &answer, &read);
        assert!(turns.iter().all(|&turn| turn <= A_TURN), "{turns:?}");
        let files = unpacked(&whole);
        assert_eq!(files.len(), sizes().len());
        let last = &files[files.len() - 2];
        assert_eq!((last.0.name.as_str(), last.1.len()), ("d/0000", 300_000));
        assert_eq!(read.load(Ordering::Relaxed) == before, known);
    }
}
