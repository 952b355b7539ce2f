//! Tests of responses with negotiated representations, and of the memory and the turns that compressions share. The
//! encoder is flate2; other encoders are tested in the crates that provide them.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use fathometer_model::{Body, Bytes, ContentCoding, File, Site};

use super::compressor::MOST_JOBS;
use super::*;
use crate::origin::OriginConfig;
use crate::origin::conditions::{Preconditions, Single};
use crate::origin::target::Target;
use crate::origin::tests::{Response, ask};

#[derive(Debug)]
struct Flate;

struct Gzip(flate2::write::GzEncoder<Vec<u8>>);
struct Zlib(flate2::write::ZlibEncoder<Vec<u8>>);

impl Encoders for Flate {
    fn start(
        &self,
        coding: Coding,
        level: u32,
        _: u64,
        dictionary: Option<&[u8]>,
    ) -> Option<Box<dyn Encoder>> {
        let level = flate2::Compression::new(level);
        match coding {
            Coding::DictionaryBrotli | Coding::DictionaryZstd => {
                let mut gzip = Gzip(flate2::write::GzEncoder::new(Vec::new(), level));
                gzip.write(dictionary?).then_some(Box::new(gzip))
            }
            Coding::Gzip => Some(Box::new(Gzip(flate2::write::GzEncoder::new(
                Vec::new(),
                level,
            )))),
            Coding::Deflate => Some(Box::new(Zlib(flate2::write::ZlibEncoder::new(
                Vec::new(),
                level,
            )))),
            _ => None,
        }
    }
}

impl Encoder for Gzip {
    fn write(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    fn finish(self: Box<Self>) -> Option<Vec<u8>> {
        self.0.finish().ok()
    }
}

impl Encoder for Zlib {
    fn write(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).is_ok()
    }

    fn finish(self: Box<Self>) -> Option<Vec<u8>> {
        self.0.finish().ok()
    }
}

pub(super) fn gunzipped(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(bytes);
    decoder.read_to_end(&mut plain).unwrap();
    plain
}

/// Generates text that compresses to about a third. Each seed gives a different text.
pub(super) fn text(seed: u32, length: usize) -> Vec<u8> {
    (0..)
        .flat_map(|n: u32| {
            let word = (n ^ seed << 20).wrapping_mul(0x9e37_79b9) >> 12;
            format!("<li>{word:x}</li>\n").into_bytes()
        })
        .take(length)
        .collect()
}

pub(super) fn file(path: &str, content_type: &'static str, body: Vec<u8>) -> File {
    File {
        path: path.to_owned(),
        content_type: content_type.into(),
        body: body.into(),
        encoded: Vec::new(),
        last_modified: 784_111_777,
    }
}

pub(super) const LONG: usize = 200_000;

fn origin_of(files: Vec<File>, options: CompressionOptions) -> Origin {
    origin_with(files, options, Vec::new())
}

pub(super) fn origin_with(
    files: Vec<File>,
    options: CompressionOptions,
    dictionaries: Vec<DictionaryResource>,
) -> Origin {
    let site = Site {
        name: "test".to_owned(),
        files,
        pages: Vec::new(),
    };
    let config = OriginConfig {
        wall_clock: Duration::from_secs(900_000_000),
        negotiation: Negotiation {
            images: true,
            compressor: Some(Arc::new(Compressor::new(options, Box::new(Flate)))),
            dictionaries: dictionaries.into(),
        },
        ..OriginConfig::default()
    };
    Origin::new(Arc::new(site), config).unwrap()
}

pub(super) fn options() -> CompressionOptions {
    CompressionOptions::new("gzip:6,deflate:6".parse().unwrap())
}

fn origin() -> Origin {
    let mut stored = file("/stored.css", "text/css", text(1, 5000));
    let body = Body::from(&b"stored in advance"[..]);
    stored.encoded.push((ContentCoding::Deflate, body));
    let files = vec![
        file("/page.html", "text/html", text(0, LONG)),
        stored,
        file("/short.txt", "text/plain", text(2, 255)),
        file("/x.png", "image/png", vec![1; 3000]),
        file("/x.webp", "image/webp", vec![2; 2000]),
        file("/x.avif", "image/avif", vec![3; 1000]),
        file("/y.png", "image/png", vec![1; 3000]),
        file("/y.avif", "image/avif", vec![3; 4000]),
    ];
    origin_of(files, options())
}

fn compressor(origin: &Origin) -> &Compressor {
    origin.negotiation.compressor.as_ref().unwrap()
}

pub(super) fn encoding_of(response: &Response) -> Option<&str> {
    response.field("Content-Encoding")
}

#[test]
fn the_best_coding_is_sent_and_each_response_varies() {
    let origin = origin();
    let page = text(0, LONG);
    let table = [
        (None, 200, None),
        (Some(""), 200, None),
        (Some("br"), 200, None),
        (Some("gzip"), 200, Some("gzip")),
        (Some("deflate, gzip"), 200, Some("gzip")),
        (Some("deflate, gzip;q=0.9"), 200, Some("deflate")),
        (Some("*"), 200, Some("gzip")),
        (Some("gzip;q=0.5, identity"), 200, None),
        (Some("identity;q=0, gzip;q=0.001"), 200, Some("gzip")),
        (Some("identity;q=0"), 406, None),
        (Some("identity;q=0, br"), 406, None),
        (Some("*;q=0"), 406, None),
    ];
    for (accept, status, coding) in table {
        let fields: Vec<_> = accept
            .map(|accept| ("Accept-Encoding", accept))
            .into_iter()
            .collect();
        for method in ["GET", "HEAD"] {
            let response = ask(&origin, &format!("{method} /page.html"), &fields);
            assert_eq!(response.status, status, "{accept:?}");
            assert_eq!(encoding_of(&response), coding, "{accept:?}");
            assert_eq!(
                response.field("Vary"),
                Some("Accept-Encoding"),
                "{accept:?}"
            );
            if status == 200 && method == "GET" {
                match coding {
                    None => assert_eq!(response.content, page),
                    Some("gzip") => assert_eq!(gunzipped(&response.content), page),
                    Some(_) => assert!(response.content.len() < LONG / 2),
                }
            }
        }
    }
    let no_transform = [
        ("Accept-Encoding", "gzip"),
        ("Cache-Control", "no-transform"),
    ];
    let response = ask(&origin, "GET /page.html", &no_transform);
    assert_eq!(encoding_of(&response), None);
    assert_eq!(response.field("Vary"), Some("Accept-Encoding"));
    for path in ["/short.txt", "/y.avif"] {
        let response = ask(
            &origin,
            &format!("GET {path}"),
            &[("Accept-Encoding", "gzip")],
        );
        assert_eq!(
            (encoding_of(&response), response.field("Vary")),
            (None, None)
        );
    }
    assert_eq!(
        compressor(&origin).take_counts().0,
        2,
        "the content is compressed once in each coding"
    );
}

#[test]
fn a_stored_coding_is_preferred_to_compression_of_the_same_quality() {
    let origin = origin();
    let stored = ask(
        &origin,
        "GET /stored.css",
        &[("Accept-Encoding", "gzip, deflate")],
    );
    assert_eq!(stored.content, b"stored in advance");
    let other = ask(
        &origin,
        "GET /stored.css",
        &[("Accept-Encoding", "gzip, deflate;q=0.5")],
    );
    assert_eq!(gunzipped(&other.content), text(1, 5000));
    assert_ne!(stored.field("ETag"), other.field("ETag"));
}

#[test]
fn validators_and_ranges_are_those_of_the_variant() {
    let origin = origin();
    let gzip = ("Accept-Encoding", "gzip");
    let coded = ask(&origin, "GET /page.html", &[gzip]);
    let plain = ask(&origin, "GET /page.html", &[]);
    let deflated = ask(&origin, "GET /page.html", &[("Accept-Encoding", "deflate")]);
    let tags = [&coded, &plain, &deflated].map(|response| response.field("ETag").unwrap());
    assert!(
        tags.iter().all(|tag| tag.starts_with('"')),
        "the entity tags are strong"
    );
    assert!(tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2]);
    compressor(&origin).take_counts();
    for (condition, fields, status) in [
        ("own", vec![gzip, ("If-None-Match", tags[0])], 304),
        ("plain", vec![gzip, ("If-None-Match", tags[1])], 200),
        ("plain of plain", vec![("If-None-Match", tags[1])], 304),
        ("coded of plain", vec![("If-None-Match", tags[0])], 200),
        ("other", vec![gzip, ("If-Match", tags[2])], 412),
        ("range", vec![gzip, ("Range", "bytes=0-9")], 206),
        (
            "range of own",
            vec![gzip, ("Range", "bytes=0-9"), ("If-Range", tags[0])],
            206,
        ),
        (
            "range of other",
            vec![gzip, ("Range", "bytes=0-9"), ("If-Range", tags[1])],
            200,
        ),
        ("range outside", vec![gzip, ("Range", "bytes=200000-")], 416),
    ] {
        let response = ask(&origin, "GET /page.html", &fields);
        assert_eq!(response.status, status, "{condition}");
        assert_eq!(
            response.field("Vary"),
            Some("Accept-Encoding"),
            "{condition}"
        );
        if status == 206 {
            assert_eq!(response.content, coded.content[..10], "{condition}");
            assert_eq!(encoding_of(&response), Some("gzip"));
        }
    }
    let new = super::tests::origin();
    let fields = [gzip, ("If-None-Match", tags[0])];
    assert_eq!(ask(&new, "GET /page.html", &fields).status, 304);
    assert_eq!(
        compressor(&new).take_counts(),
        (0, 0),
        "304 needs no compression"
    );
    let again = ask(&new, "GET /page.html", &[gzip]);
    assert_eq!(again.content, coded.content);
    assert_eq!(again.field("ETag"), Some(tags[0]));
}

#[test]
fn an_image_is_sent_in_the_best_type_that_the_client_names() {
    let origin = origin();
    let browser = "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8";
    let table = [
        ("/x.png", None, "image/png", None),
        ("/x.png", Some("*/*"), "image/png", None),
        ("/x.png", Some("image/*"), "image/png", None),
        ("/x.png", Some(browser), "image/avif", Some("/x.avif")),
        (
            "/x.png",
            Some("image/webp, */*"),
            "image/webp",
            Some("/x.webp"),
        ),
        (
            "/x.png",
            Some("image/webp;q=0.5, image/png"),
            "image/png",
            None,
        ),
        (
            "/x.png",
            Some("image/avif;q=0.5, image/webp"),
            "image/webp",
            Some("/x.webp"),
        ),
        ("/x.png", Some("text/html"), "image/png", None),
        // The alternative is larger than the image.
        ("/y.png", Some(browser), "image/png", None),
        ("/y.png", Some("image/avif"), "image/avif", Some("/y.avif")),
    ];
    for (path, accept, content_type, location) in table {
        let fields: Vec<_> = accept
            .map(|accept| ("Accept", accept))
            .into_iter()
            .collect();
        let response = ask(&origin, &format!("GET {path}"), &fields);
        assert_eq!(response.status, 200);
        assert_eq!(
            response.field("Content-Type"),
            Some(content_type),
            "{path} {accept:?}"
        );
        assert_eq!(
            response.field("Content-Location"),
            location,
            "{path} {accept:?}"
        );
        assert_eq!(response.field("Vary"), Some("Accept"));
        let tag = response.field("ETag").unwrap();
        let again = [fields, vec![("If-None-Match", tag)]].concat();
        let unmodified = ask(&origin, &format!("GET {path}"), &again);
        assert_eq!(unmodified.status, 304);
        assert_eq!(unmodified.field("Vary"), Some("Accept"));
    }
    let direct = ask(&origin, "GET /x.avif", &[("Accept", browser)]);
    assert_eq!((direct.field("Vary"), direct.content.len()), (None, 1000));
}

/// Returns an undecided answer with the coding gzip.
fn begun(origin: &Origin, path: &str) -> Answer {
    let mut accept_encoding = Lines::default();
    assert!(accept_encoding.push(b"gzip"));
    let request = Request {
        method: crate::origin::Method::Get,
        target: Target::Path(path.as_bytes()),
        preconditions: Preconditions::default(),
        range: Single::Absent,
        accept: Lines::default(),
        accept_encoding,
        available_dictionary: Single::Absent,
        package_have: Single::Absent,
        no_transform: false,
    };
    origin.decide(&request, Instant::ZERO, &mut Vec::new())
}

fn turns(origin: &Origin, answer: &mut Answer) -> usize {
    let mut turns = 1;
    while !origin.go_on(answer, Instant::ZERO) {
        turns += 1;
    }
    turns
}

fn is_coded(answer: &Answer) -> bool {
    matches!(
        &answer.content,
        Content::Whole(Subject::File(Selected(Place::Coded(_))))
    )
}

fn many(count: u32, length: usize) -> Vec<File> {
    (0..count)
        .map(|n| file(&format!("/{n}"), "text/plain", text(n, length)))
        .collect()
}

#[test]
fn responses_share_one_compression_and_it_survives_the_first_client() {
    let origin = origin();
    let mut answers: Vec<Answer> = (0..5).map(|_| begun(&origin, "/page.html")).collect();
    for answer in &mut answers {
        assert!(
            !origin.go_on(answer, Instant::ZERO),
            "a turn compresses only one slice"
        );
    }
    // Five slices are compressed. They are not discarded when a client disconnects.
    drop(answers.remove(0));
    let rest: usize = answers
        .iter_mut()
        .map(|answer| turns(&origin, answer))
        .sum();
    let slices = LONG.div_ceil(SLICE as usize);
    assert_eq!(rest, slices - 5 + answers.len() - 1);
    assert!(answers.iter().all(is_coded));
    assert_eq!(compressor(&origin).take_counts().0, 1);
}

#[test]
fn an_abandoned_compression_ends_and_its_memory_is_released() {
    let origin = origin();
    let mut answer = begun(&origin, "/page.html");
    assert!(!origin.go_on(&mut answer, Instant::ZERO));
    assert!(compressor(&origin).memory_in_use() > LONG as u64);
    drop(answer);
    assert_eq!(compressor(&origin).memory_in_use(), 0);
    let mut answer = begun(&origin, "/page.html");
    assert_eq!(turns(&origin, &mut answer), LONG.div_ceil(SLICE as usize));
}

#[test]
fn compressions_wait_for_each_other_and_none_is_forgotten() {
    let count = 4 * MOST_JOBS as u32;
    let origin = origin_of(many(count, 100_000), options());
    let mut answers: Vec<Answer> = (0..count)
        .map(|n| begun(&origin, &format!("/{n}")))
        .collect();
    let mut rounds = 0;
    while answers.iter().any(Answer::is_undecided) {
        rounds += 1;
        let mut working = 0;
        for answer in &mut answers {
            origin.go_on(answer, Instant::ZERO);
            if let Content::Undecided(pending) = &answer.content
                && let crate::origin::Pending::Compressing(compressing) = &**pending
            {
                working += usize::from(compressing.job.is_some());
            }
        }
        assert!(working <= MOST_JOBS);
        assert!(rounds < 100);
    }
    assert!(answers.iter().all(is_coded));
    // When all encoders are in use, a response that cannot wait is sent without a coding.
    let origin = origin_of(many(count, 100_000), options());
    let mut busy: Vec<Answer> = (0..MOST_JOBS)
        .map(|n| begun(&origin, &format!("/{n}")))
        .collect();
    for answer in &mut busy {
        assert!(!origin.go_on(answer, Instant::ZERO));
    }
    let mut last = begun(&origin, "/20");
    origin.complete(&mut last, Instant::ZERO);
    assert!(!is_coded(&last) && last.status() == Status::OK);
}

#[test]
fn clients_that_never_finish_hold_no_more_than_the_memory() {
    let memory = 200_000;
    let options = CompressionOptions {
        memory: Bytes(memory),
        ..options()
    };
    let origin = origin_of(many(60, 30_000), options);
    let compressor = compressor(&origin);
    // The response of each client stays open.
    let mut held = Vec::new();
    for n in 0..60 {
        let mut answer = begun(&origin, &format!("/{n}"));
        turns(&origin, &mut answer);
        assert_eq!(answer.status(), Status::OK);
        assert!(compressor.memory_in_use() <= memory);
        held.push(answer);
    }
    let coded = held.iter().filter(|answer| is_coded(answer)).count();
    assert!(
        (5..40).contains(&coded),
        "{coded} of 60 responses were compressed (expected: 5 to 39)"
    );
    let refuses = ask(
        &origin,
        "GET /59",
        &[("Accept-Encoding", "identity;q=0, gzip")],
    );
    assert_eq!(
        (refuses.status, refuses.field("Vary")),
        (503, Some("Accept-Encoding"))
    );
    // After the responses have ended, the least recently used bodies are evicted.
    drop(held);
    let mut last = begun(&origin, "/59");
    turns(&origin, &mut last);
    assert!(is_coded(&last) && compressor.memory_in_use() <= memory);
}

#[test]
fn thousands_of_variants_stay_within_the_memory() {
    let memory = 100_000;
    let options = CompressionOptions {
        memory: Bytes(memory),
        ..options()
    };
    let origin = origin_of(many(1000, 2000), options);
    for coding in ["gzip", "deflate"] {
        for n in 0..1000 {
            let response = ask(
                &origin,
                &format!("GET /{n}"),
                &[("Accept-Encoding", coding)],
            );
            assert_eq!(encoding_of(&response), Some(coding));
            assert!(compressor(&origin).memory_in_use() <= memory);
        }
    }
    let again = ask(&origin, "GET /999", &[("Accept-Encoding", "deflate")]);
    assert_eq!(encoding_of(&again), Some("deflate"));
    assert_eq!(compressor(&origin).take_counts(), (2000, 1));
}

#[test]
fn a_field_of_64_kilobytes_is_read_once() {
    let origin = origin();
    let mut long = "unknown;q=0.5, ".repeat(4370);
    long.push_str("gzip;q=0.1");
    let response = ask(&origin, "GET /page.html", &[("Accept-Encoding", &long)]);
    assert_eq!(encoding_of(&response), Some("gzip"));
}
