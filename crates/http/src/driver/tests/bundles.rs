//! Tests of packages and archives against hand-written responses.

use std::sync::Arc;

use fathometer_model::{Body, Bytes, Delivery, FileArrival};

use super::*;
use fathometer_package::archive::{Member, tar, zip};
use fathometer_package::{self as package, Encoder, Entry, Piece, have};

/// Every bundle by the name of its policy.
const BUNDLES: [&str; 6] = [
    "h1.1-package",
    "h1.1-package-v1",
    "h1.1-package-delta",
    "h1.1-tar",
    "h1.1-tar-whole",
    "h1.1-zip",
];

/// Returns the page, a style sheet, an image of 20 by 10 pixels, and a file that no file of the page names.
fn files() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let html = "<link rel=stylesheet href=/a.css><img src=/b.gif><img src=/c.gif><p>text</p>";
    let image = b"GIF89a\x14\x00\x0a\x00 and what else there is of it".to_vec();
    vec![
        ("index", "text/html", html.into()),
        ("a.css", "text/css", vec![b'a'; 300]),
        ("b.gif", "image/gif", image),
        ("extra", "text/plain", b"extra".to_vec()),
    ]
}

fn etag(name: &str) -> String {
    format!("\"{name}\"")
}

fn entries(kept: &[&str]) -> Vec<Entry> {
    let entry = |(name, media_type, content): (&str, &str, Vec<u8>)| {
        let kept = kept.contains(&name);
        Entry {
            name: name.to_owned(),
            size: Some(if kept { 0 } else { content.len() as u64 }),
            media_type: Some(media_type.to_owned()),
            etag: Some(etag(name)),
            last_modified: Some(784_111_777),
            kept,
            ..Entry::default()
        }
    };
    files().into_iter().map(entry).collect()
}

fn package(version: package::Version, kept: &[&str]) -> Vec<u8> {
    let limits = package::Limits::default();
    let mut encoder = Encoder::new(version, entries(kept), &limits).unwrap();
    let files = files();
    let mut bytes = Vec::new();
    loop {
        let place = match encoder.next() {
            None => return bytes,
            Some(Piece::Bytes(piece)) => {
                bytes.extend_from_slice(piece);
                continue;
            }
            Some(Piece::Content { entry, .. }) => entry,
        };
        let content = &files[place].2;
        bytes.extend_from_slice(&encoder.content(content).unwrap());
        bytes.extend_from_slice(content);
    }
}

fn archive(write: impl FnOnce(&mut dyn Iterator<Item = Member<'_>>) -> Vec<u8>) -> Vec<u8> {
    let files = files();
    let contents: Vec<Body> = files.iter().map(|file| Body::from(&file.2[..])).collect();
    let mut members = files.iter().zip(&contents).map(|(file, content)| Member {
        name: file.0,
        last_modified: 784_111_777,
        content,
    });
    write(&mut members)
}

fn tar_archive() -> Vec<u8> {
    archive(|members| {
        let mut bytes = Vec::new();
        tar::write(members, &mut bytes);
        bytes
    })
}

/// Returns the response of a server for a policy, with its media type.
fn bundle(policy: &str) -> (&'static str, Vec<u8>) {
    let two = package::Version::Two;
    let one = package::Version::One;
    match policy.split_once('-').unwrap().1 {
        "package" | "package-delta" => (two.content_type(), package(two, &[])),
        "package-v1" => (one.content_type(), package(one, &[])),
        "zip" => {
            let bytes = archive(|members| zip::write(members).unwrap());
            ("application/zip", bytes)
        }
        _ => ("application/x-tar", tar_archive()),
    }
}

fn response(content_type: &str, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nETag: \"p\"\r\nContent-Type: {content_type}\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), content].concat()
}

/// Returns responses with bundles for the fuzz function.
pub(super) fn some_responses() -> Vec<Vec<u8>> {
    let mut responses: Vec<Vec<u8>> = BUNDLES
        .iter()
        .map(|policy| {
            let (content_type, bytes) = bundle(policy);
            response(content_type, &bytes)
        })
        .collect();
    let two = package::Version::Two;
    let delta = package(two, &["index", "a.css"]);
    responses.push(response(two.content_type(), &delta));
    let cut = &delta[..delta.len() - 9];
    responses.push(response(two.content_type(), cut));
    let mut damaged = package(two, &[]);
    damaged[200] ^= 1;
    responses.push(response(two.content_type(), &damaged));
    responses.push(b"HTTP/1.1 304 Not Modified\r\nETag: \"p\"\r\n\r\n".to_vec());
    responses.push(b"HTTP/1.1 406 No\r\nContent-Length: 0\r\n\r\n".to_vec());
    responses
}

/// Creates a driver for `/index`.
fn script(policy: &str, visit: Visit, cache: ValidatorCache) -> Script {
    with_options(policy, Options::default(), visit, cache)
}

fn with_options(policy: &str, options: Options, visit: Visit, cache: ValidatorCache) -> Script {
    let now = Instant::ZERO;
    let policy = policy.parse().unwrap();
    let driver = PageDriver::new(policy, options, visit, "/index".to_owned(), cache, now);
    Script { driver, now }
}

impl Script {
    /// Passes bytes to the driver in pieces. Each byte takes one millisecond; all bytes of a piece arrive with its last
    /// byte.
    fn read(&mut self, bytes: &[u8], piece: usize) {
        for piece in bytes.chunks(piece) {
            self.now += Duration::from_millis(piece.len() as u64);
            self.driver.handle_data(ConnectionId(0), piece, self.now);
        }
    }

    /// Answers every separate request. Returns the request lines. Connections that end are replaced.
    fn serve_singly(&mut self, conn: u32) -> String {
        let mut asked = Vec::new();
        loop {
            let written = self.written(conn);
            if written.is_empty() {
                return asked.join(" ");
            }
            for target in written.split(' ').filter(|word| *word != "GET") {
                asked.push(target.to_owned());
                self.answer(conn, &ok("<p>"));
            }
        }
    }
}

fn usable(retrieval: &Retrieval) -> Vec<(&str, Delivery)> {
    let files = retrieval.files.iter();
    files.map(|file| (file.target.as_str(), file.by)).collect()
}

/// Returns the same files without their times.
fn timeless(files: &[FileArrival]) -> Vec<FileArrival> {
    let without = |file: &FileArrival| FileArrival {
        started: Instant::ZERO,
        usable: Instant::ZERO,
        read: Bytes(0),
        ..file.clone()
    };
    files.iter().map(without).collect()
}

#[test]
fn each_file_is_used_when_its_own_bytes_are_there() {
    for policy in BUNDLES {
        let (content_type, bytes) = bundle(policy);
        let mut script = script(policy, Visit::First, ValidatorCache::new());
        assert_eq!(script.connect(0), "GET /index", "{policy}");
        let response = response(content_type, &bytes);
        script.read(&response, 1);
        assert_eq!(script.serve_singly(0), "/c.gif", "{policy}");
        script.eof(0);
        let whole = BundleAnswer::Whole { files: 4 };
        let retrieval = script.end();
        assert_eq!(retrieval.bundle, Some(whole), "{policy}");
        assert_eq!(
            usable(&retrieval),
            [
                ("/index", Delivery::Bundled),
                ("/a.css", Delivery::Bundled),
                ("/b.gif", Delivery::Bundled),
                ("/c.gif", Delivery::Singly)
            ],
            "{policy}"
        );
        let head = response.len() - bytes.len();
        let at =
            |place: usize| (retrieval.files[place].usable - Instant::ZERO).as_millis() as usize;
        if policy.ends_with("whole") || policy.ends_with("zip") {
            assert!((0..3).all(|place| at(place) == response.len()), "{policy}");
            continue;
        }
        // The last byte of a content and, in version 2, the checksum after it.
        let files = files();
        for (place, (_, _, content)) in files.iter().enumerate().take(3) {
            let found = bytes
                .windows(content.len())
                .position(|here| here == content);
            let end = head + found.unwrap() + content.len();
            let behind = match content_type.ends_with("version=2") {
                true => 4,
                false => 0,
            };
            assert_eq!(at(place), end + behind, "{policy} {place}");
            assert_eq!(retrieval.files[place].read, Bytes((end + behind) as u64));
        }
        let milestones = retrieval.milestones;
        assert_eq!(milestones.base_complete, Some(retrieval.files[0].usable));
        assert_eq!(
            milestones.critical_complete,
            Some(retrieval.files[1].usable)
        );
        assert!(milestones.sizes_known.is_some());
    }
}

#[test]
fn chunks_of_any_size_give_the_same_retrieval() {
    for policy in BUNDLES {
        let (content_type, bytes) = bundle(policy);
        let response = response(content_type, &bytes);
        let retrieve = |piece: usize| {
            let mut script = script(policy, Visit::First, ValidatorCache::new());
            script.connect(0);
            script.read(&response, piece);
            script.serve_singly(0);
            script.eof(0);
            script.end()
        };
        let whole = retrieve(usize::MAX);
        assert_eq!(whole.counters.bundled_unused, 1, "{policy}");
        assert_eq!(whole.counters.bundle_missed, 1, "{policy}");
        for piece in [1, 2, 3, 7, 64, 500, 511, 513] {
            let retrieval = retrieve(piece);
            assert_eq!(
                timeless(&retrieval.files),
                timeless(&whole.files),
                "{policy} {piece}"
            );
            assert_eq!(retrieval.cache, whole.cache, "{policy} {piece}");
            assert_eq!(retrieval.counters, whole.counters);
            assert_eq!(outcomes(&retrieval), outcomes(&whole));
        }
    }
}

#[test]
fn the_cache_stores_the_validators_of_the_package() {
    let (content_type, bytes) = bundle("h1.1-package");
    let mut script = script("package", Visit::First, ValidatorCache::new());
    let asked = {
        script.driver.handle_connected(ConnectionId(0), script.now);
        script.bytes(0)
    };
    let accept = "Accept: application/vnd.fathometer.object-package;version=2, text/html;q=0.5, ";
    assert!(asked.contains(accept), "{asked}");
    assert!(
        !asked.contains("If-None-Match") && !asked.contains("Package-Have"),
        "{asked}"
    );
    script.read(&response(content_type, &bytes), 100);
    script.serve_singly(0);
    script.eof(0);
    let cache = script.end().cache;
    let page = cache.get("/index").unwrap();
    assert_eq!(page.html, files()[0].2);
    assert_eq!(page.etag, Some(etag("index")));
    assert_eq!(
        page.last_modified.as_deref(),
        Some("Sun, 06 Nov 1994 08:49:37 GMT")
    );
    let dimensions = Dimensions {
        width: 20,
        height: 10,
    };
    assert_eq!(cache.get("/b.gif").unwrap().dimensions, Some(dimensions));
    assert_eq!(cache.get("/extra").unwrap().etag, Some(etag("extra")));
    let known = cache.bundle("/index").unwrap();
    assert_eq!(known.etag.as_deref(), Some("\"p\""));
    assert_eq!(known.members, ["/index", "/a.css", "/b.gif", "/extra"]);
}

#[test]
fn a_server_without_packages_gets_ordinary_requests() {
    let mut script = script("h1.1-pipeline-package", Visit::First, ValidatorCache::new());
    script.connect(0);
    script.answer(0, &ok("<img src=/b.gif><img src=/c.gif>"));
    assert_eq!(script.written(0), "GET /b.gif GET /c.gif");
    script.answer(0, &ok("b"));
    script.answer(0, &ok("c"));
    script.eof(0);
    let retrieval = script.end();
    assert_eq!(retrieval.bundle, Some(BundleAnswer::Refused));
    assert_eq!(retrieval.counters.bundle_missed, 0);
    let by: Vec<Delivery> = retrieval.files.iter().map(|file| file.by).collect();
    assert_eq!(by, [Delivery::Singly; 3]);

    for status in ["406 No", "415 No"] {
        let mut script = super::bundles::script("h1.1-zip", Visit::First, ValidatorCache::new());
        script.connect(0);
        script.answer(
            0,
            &format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"),
        );
        assert_eq!(script.serve_singly(0), "/index");
        script.eof(0);
        assert_eq!(script.end().bundle, Some(BundleAnswer::Refused));
    }
    let mut script = super::bundles::script("package", Visit::First, ValidatorCache::new());
    script.connect(0);
    script.answer(0, "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n");
    script.eof(0);
    let retrieval = script.end();
    assert_eq!(outcomes(&retrieval), [("/index", COMPLETE)]);
    assert!(retrieval.files.is_empty());
}

/// Returns the cache after a first visit.
fn filled(policy: &str) -> ValidatorCache {
    let (content_type, bytes) = bundle(policy);
    let mut script = script(policy, Visit::First, ValidatorCache::new());
    script.connect(0);
    script.read(&response(content_type, &bytes), 100);
    script.serve_singly(0);
    script.eof(0);
    script.end().cache
}

#[test]
fn a_package_is_validated_as_a_whole() {
    for policy in ["h1.1-package", "h1.1-package-v1", "h1.1-tar", "h1.1-zip"] {
        let mut script = script(policy, Visit::Revalidate, filled(policy));
        script.driver.handle_connected(ConnectionId(0), script.now);
        let asked = script.bytes(0);
        let tags = match policy {
            "h1.1-package" => "If-None-Match: \"p\", \"index\"\r\n",
            _ => "If-None-Match: \"p\"\r\n",
        };
        assert!(asked.contains(tags), "{policy}: {asked}");
        script.answer(0, "HTTP/1.1 304 Not Modified\r\nETag: \"p\"\r\n\r\n");
        assert_eq!(script.serve_singly(0), "/c.gif", "it was in no package");
        script.eof(0);
        let retrieval = script.end();
        assert_eq!(retrieval.bundle, Some(BundleAnswer::Current));
        let files = &retrieval.files;
        assert_eq!(files.len(), 4);
        let current = files.iter().filter(|file| file.by == Delivery::Current);
        assert!(current.clone().all(|file| file.bytes == Bytes(0)));
        assert_eq!(current.count(), 3, "{policy}");
        assert!(retrieval.milestones.sizes_known.is_some());
    }
}

#[test]
fn a_page_cached_without_packages_is_validated_without_packages() {
    let mut first = script("package", Visit::First, ValidatorCache::new());
    first.connect(0);
    first.answer(0, &ok("<img src=/b.gif>"));
    first.serve_singly(0);
    first.eof(0);
    let cache = first.end().cache;
    let mut script = script("package", Visit::Revalidate, cache);
    script.driver.handle_connected(ConnectionId(0), script.now);
    assert!(script.bytes(0).contains("If-None-Match: \"e\"\r\n"));
    script.answer(0, "HTTP/1.1 304 Not Modified\r\nETag: \"e\"\r\n\r\n");
    let asked = script.bytes(0);
    assert!(asked.starts_with("GET /b.gif ") && asked.contains("If-None-Match: \"e\"\r\n"));
    script.answer(0, "HTTP/1.1 304 Not Modified\r\n\r\n");
    script.eof(0);
    let retrieval = script.end();
    assert_eq!(retrieval.bundle, Some(BundleAnswer::Refused));
    assert_eq!(
        usable(&retrieval),
        [("/index", Delivery::Current), ("/b.gif", Delivery::Current)]
    );
}

#[test]
fn a_delta_contains_the_files_that_the_client_lacks() {
    let policy = "h1.1-package-delta";
    let mut script = script(policy, Visit::Revalidate, filled(policy));
    script.driver.handle_connected(ConnectionId(0), script.now);
    let asked = script.bytes(0);
    let mut names = vec!["index", "a.css", "b.gif", "extra"];
    let keys = |names: &[&str]| -> have::Keys {
        let keys = names.iter().map(|name| have::key(name, &etag(name)));
        keys.chain([have::key("c.gif", "\"e\"")]).collect()
    };
    let value = keys(&names).to_string();
    assert!(
        asked.contains(&format!("Package-Have: {value}\r\n")),
        "{asked}"
    );
    let read = have::Keys::parse(value.as_bytes()).unwrap();
    names.retain(|name| read.contains(name, &etag(name)));
    assert_eq!(names.len(), 4);
    let two = package::Version::Two;
    let delta = package(two, &["index", "b.gif"]);
    script.read(&response(two.content_type(), &delta), 50);
    assert_eq!(script.written(0), "GET /c.gif");
    script.answer(0, "HTTP/1.1 304 Not Modified\r\n\r\n");
    script.eof(0);
    let retrieval = script.end();
    assert_eq!(
        usable(&retrieval),
        [
            ("/index", Delivery::Current),
            ("/a.css", Delivery::Bundled),
            ("/b.gif", Delivery::Current),
            ("/c.gif", Delivery::Current)
        ]
    );
    assert_eq!(retrieval.bundle, Some(BundleAnswer::Whole { files: 2 }));
}

#[test]
fn files_listed_as_kept_but_missing_are_requested() {
    let two = package::Version::Two;
    let delta = package(two, &["index", "b.gif"]);
    let mut script = script("package-delta", Visit::First, ValidatorCache::new());
    script.connect(0);
    script.read(&response(two.content_type(), &delta), 50);
    // Its HTML has changed.
    assert_eq!(script.written(0), "GET /index");
    script.answer(0, &ok("<img src=/b.gif>"));
    assert_eq!(script.written(0), "GET /b.gif");
    script.answer(0, &ok("b"));
    script.eof(0);
    assert_eq!(script.end().counters.bundle_missed, 1);
}

#[test]
fn complete_files_of_a_damaged_package_are_used() {
    let (content_type, mut bytes) = bundle("h1.1-package");
    let style = bytes.windows(300).position(|here| here == [b'a'; 300]);
    bytes[style.unwrap() + 100] = b'b';
    let mut script = script("package", Visit::First, ValidatorCache::new());
    // After such a long handshake the connection is not aborted.
    script.now += Duration::from_secs(10);
    script.connect(0);
    script.read(&response(content_type, &bytes), 70);
    assert_eq!(script.serve_singly(0), "/a.css /b.gif /c.gif");
    script.eof(0);
    let retrieval = script.end();
    let bad = Failure::BadResponse;
    assert_eq!(outcomes(&retrieval)[0], ("/index", Outcome::Failed(bad)));
    let Some(BundleAnswer::Broken { failure, reason }) = &retrieval.bundle else {
        panic!("{:?}", retrieval.bundle);
    };
    assert_eq!(*failure, bad);
    assert!(reason.contains("damaged"), "{reason}");
    assert_eq!(usable(&retrieval)[0], ("/index", Delivery::Bundled));
    assert!(retrieval.milestones.page_complete.is_some());
    assert!(retrieval.cache.bundle("/index").is_none());
}

#[test]
fn the_rest_of_a_broken_bundle_is_read_only_if_a_new_connection_is_slower() {
    let (content_type, mut bytes) = bundle("h1.1-package");
    let style = bytes.windows(300).position(|here| here == [b'a'; 300]);
    bytes[style.unwrap() + 100] = b'b';
    let response = response(content_type, &bytes);
    // The remaining bytes of the package take seconds; the handshake of another connection takes 0.01 s or 3600 s.
    for (handshake, is_given_up) in [(0.01, true), (3600.0, false)] {
        let mut script = script("package", Visit::First, ValidatorCache::new());
        script.now += Duration::from_secs_f64(handshake);
        script.connect(0);
        for part in response.chunks(40) {
            script.now += Duration::from_millis(200);
            let conn = ConnectionId(0);
            script.driver.handle_data(conn, part, script.now);
        }
        let actions = script.actions();
        let conn = match is_given_up {
            true => {
                assert_eq!(actions, "connect 0, abort 0, connect 1");
                script.driver.handle_connected(ConnectionId(1), script.now);
                1
            }
            false => {
                assert_eq!(actions, "connect 0");
                0
            }
        };
        assert_eq!(script.serve_singly(conn), "/a.css /b.gif /c.gif");
        script.eof(conn);
        let retrieval = script.end();
        assert_eq!(retrieval.failures, []);
        let bad = Outcome::Failed(Failure::BadResponse);
        assert_eq!(outcomes(&retrieval)[0], ("/index", bad));
        assert_eq!(usable(&retrieval)[0], ("/index", Delivery::Bundled));
        let read = retrieval.exchanges[0].response_body.0;
        assert_eq!(read < bytes.len() as u64, is_given_up, "{read}");
    }
}

#[test]
fn the_page_completes_wherever_a_bundle_is_truncated() {
    for policy in BUNDLES {
        let (content_type, bytes) = bundle(policy);
        let response = response(content_type, &bytes);
        let head = response.len() - bytes.len();
        for cut in (head..response.len()).step_by(7) {
            let mut script = script(policy, Visit::First, ValidatorCache::new());
            script.connect(0);
            script.read(&response[..cut], 97);
            script.eof(0);
            script.driver.handle_connected(ConnectionId(1), script.now);
            let singly = script.serve_singly(1);
            script.eof(1);
            let retrieval = script.end();
            assert_eq!(retrieval.failures, [], "{policy} {cut}");
            // No file is requested twice, and no file is left out.
            let bundled = |file: &&FileArrival| file.by == Delivery::Bundled;
            for file in retrieval.files.iter().filter(bundled) {
                let asked = singly.split(' ').any(|target| target == file.target);
                assert!(!asked, "{policy} {cut}: {}", file.target);
            }
            let failed = Outcome::Failed(Failure::Truncated);
            assert_eq!(outcomes(&retrieval)[0], ("/index", failed));
            assert!(matches!(
                retrieval.bundle,
                Some(BundleAnswer::Broken {
                    failure: Failure::Truncated,
                    ..
                })
            ));
        }
    }
}

#[test]
fn a_truncated_bundle_in_a_complete_response_is_broken() {
    for policy in BUNDLES {
        let (content_type, bytes) = bundle(policy);
        let mut script = script(policy, Visit::First, ValidatorCache::new());
        script.connect(0);
        script.read(&response(content_type, &bytes[..bytes.len() / 2]), 97);
        let singly = script.serve_singly(0);
        assert!(!singly.is_empty(), "{policy}");
        script.eof(0);
        let retrieval = script.end();
        let Some(BundleAnswer::Broken { reason, .. }) = &retrieval.bundle else {
            panic!("{policy}: {:?}", retrieval.bundle);
        };
        assert!(!reason.is_empty());
        assert_eq!(retrieval.failures, []);
    }
}

#[test]
fn a_refused_connection_fails_each_file_of_a_list() {
    for (policy, connections) in [("h1.1-package", 3), ("h1.1", 2)] {
        let options = list(&["/a", "/b"]);
        let mut script = with_options(policy, options, Visit::First, ValidatorCache::new());
        for conn in 0..connections {
            script.fail(conn, Failure::Refused);
        }
        let retrieval = script.end();
        let refused = |target: &str| (target.to_owned(), Failure::Refused);
        assert_eq!(
            retrieval.failures,
            [refused("/a"), refused("/b")],
            "{policy}"
        );
    }
}

fn list(files: &[&str]) -> Options {
    let list = PageList {
        folder: "/set/".to_owned(),
        files: files.iter().map(|&file| file.to_owned()).collect(),
    };
    Options {
        list: Some(Arc::new(list)),
        ..Options::default()
    }
}

#[test]
fn all_files_of_a_list_are_requested_at_once() {
    for (policy, first) in [
        ("h1.0", "GET /a"),
        ("h1.1", "GET /a"),
        ("h1.1-pipeline", "GET /a GET /b GET /c"),
    ] {
        let options = list(&["/a", "/b", "/c", "/a"]);
        let mut script = with_options(policy, options, Visit::First, ValidatorCache::new());
        assert_eq!(script.connect(0), first, "{policy}");
    }
    let mut parallel = with_options(
        "h1.1x2",
        list(&["/a", "/b", "/c"]),
        Visit::First,
        ValidatorCache::new(),
    );
    assert_eq!(parallel.actions(), "connect 0, connect 1");
    let written = [parallel.connect(0), parallel.connect(1)];
    assert_eq!(written, ["GET /a", "GET /b"]);
    parallel.answer(1, &ok("<img src=/no>"));
    assert_eq!(parallel.written(1), "GET /c", "no HTML is read");
    parallel.answer(1, &ok("c"));
    parallel.answer(0, &ok("a"));
    parallel.eof(0);
    parallel.eof(1);
    let retrieval = parallel.end();
    let targets: Vec<&str> = usable(&retrieval)
        .iter()
        .map(|(target, _)| *target)
        .collect();
    assert_eq!(targets, ["/b", "/c", "/a"]);
    assert_eq!(retrieval.milestones.base_complete, None);
    assert!(retrieval.milestones.page_complete.is_some());
}

#[test]
fn files_of_a_list_that_the_bundle_lacks_are_requested_singly() {
    for policy in BUNDLES {
        let (content_type, bytes) = bundle(policy);
        let options = list(&["/index", "/extra", "/more", "/a.css"]);
        let mut script = with_options(policy, options, Visit::First, ValidatorCache::new());
        assert_eq!(script.connect(0), "GET /set/", "{policy}");
        script.read(&response(content_type, &bytes), 64);
        assert_eq!(script.serve_singly(0), "/more", "{policy}");
        script.eof(0);
        let retrieval = script.end();
        let expected = [
            ("/index", Delivery::Bundled),
            ("/a.css", Delivery::Bundled),
            ("/extra", Delivery::Bundled),
            ("/more", Delivery::Singly),
        ];
        assert_eq!(usable(&retrieval), expected, "{policy}");
        assert_eq!(retrieval.counters.bundled_unused, 1);
        assert!(retrieval.cache.bundle("/set/").is_some());
    }
}

#[test]
fn files_of_a_list_without_a_bundle_are_requested_singly() {
    for answer in [
        ok("<html>a listing</html>"),
        "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n".to_owned(),
        "HTTP/1.1 406 No\r\nContent-Length: 0\r\n\r\n".to_owned(),
        "HTTP/1.1 304 No\r\n\r\n".to_owned(),
    ] {
        let options = list(&["/a", "/b"]);
        let mut script = with_options("h1.1-tar", options, Visit::First, ValidatorCache::new());
        script.connect(0);
        script.answer(0, &answer);
        assert_eq!(script.serve_singly(0), "/a /b", "{answer}");
        script.eof(0);
        let retrieval = script.end();
        assert_eq!(retrieval.bundle, Some(BundleAnswer::Refused));
        assert_eq!(retrieval.files.len(), 2);
    }
}

#[test]
fn a_later_page_of_a_session_uses_the_files_of_the_first() {
    let cache = filled("h1.1-package");
    let options = Options::default();
    let driver = PageDriver::new(
        "h1.1".parse().unwrap(),
        options,
        Visit::Session,
        "/second".to_owned(),
        cache,
        Instant::ZERO,
    );
    let now = Instant::ZERO;
    let mut script = Script { driver, now };
    assert_eq!(script.connect(0), "GET /second");
    script.answer(
        0,
        &ok("<link rel=stylesheet href=/a.css><img src=/b.gif><img src=/new>"),
    );
    assert_eq!(script.serve_singly(0), "/new");
    script.eof(0);
    let retrieval = script.end();
    assert_eq!(
        usable(&retrieval),
        [
            ("/a.css", Delivery::Cached),
            ("/b.gif", Delivery::Cached),
            ("/second", Delivery::Singly),
            ("/new", Delivery::Singly)
        ]
    );
    assert_eq!(retrieval.exchanges.len(), 2);
    assert!(retrieval.milestones.sizes_known.is_some());
}

#[test]
fn a_folders_page_goes_by_its_own_name() {
    let (content_type, bytes) = bundle("h1.1-package");
    let now = Instant::ZERO;
    let policy = "package-delta".parse().unwrap();
    let page = |visit, cache| {
        let target = "/".to_owned();
        let driver = PageDriver::new(policy, Options::default(), visit, target, cache, now);
        Script { driver, now }
    };
    let mut first = page(Visit::First, ValidatorCache::new());
    first.connect(0);
    first.read(&response(content_type, &bytes), 64);
    assert_eq!(first.serve_singly(0), "/c.gif");
    first.eof(0);
    let retrieval = first.end();
    assert_eq!(usable(&retrieval)[0], ("/", Delivery::Bundled));
    let mut second = page(Visit::Revalidate, retrieval.cache);
    second.driver.handle_connected(ConnectionId(0), now);
    let asked = second.bytes(0);
    let value = asked.split("Package-Have: ").nth(1).unwrap();
    let keys = have::Keys::parse(value.split("\r\n").next().unwrap().as_bytes()).unwrap();
    assert!(keys.contains("index", &etag("index")) && keys.contains("b.gif", &etag("b.gif")));
}

#[test]
fn a_content_coding_around_the_whole_is_refused() {
    let (content_type, bytes) = bundle("h1.1-package");
    let mut script = script("package", Visit::First, ValidatorCache::new());
    script.connect(0);
    let response = response(content_type, &bytes);
    let coded = [
        &b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"[..],
        &response[17..],
    ]
    .concat();
    script.read(&coded, 64);
    assert_eq!(script.serve_singly(0), "/index");
    script.eof(0);
    let retrieval = script.end();
    let bad = Outcome::Failed(Failure::BadResponse);
    assert_eq!(
        outcomes(&retrieval),
        [("/index", bad), ("/index", COMPLETE)]
    );
}
