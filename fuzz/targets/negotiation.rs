//! The origin's content negotiation: a coding is sent only to a client that named it, a coding with a dictionary only
//! to one that named the dictionary too, and the content is that of the file. `Vary` depends on the file alone, and
//! the memory has a bound.
//!
//! The first byte of an input selects the method and the file. The rest is lines, each of a letter for a field and its
//! value.

#![no_main]

use std::sync::{Arc, OnceLock};

use fathometer_http::origin::conditions::{Lines, Preconditions, Single};
use fathometer_http::origin::encoding::Coding;
use fathometer_http::origin::negotiation::{
    Announcement, CompressionOptions, Compressor, DictionaryResource, Encoder, Encoders,
    Negotiation,
};
use fathometer_http::origin::target::Target;
use fathometer_http::origin::{
    Answer, Dates, FieldSink, HopField, Located, Method, Origin, OriginConfig, Request, Segment,
};
use fathometer_model::{Body, Bytes, ContentCoding, File, Instant, Site};
use libfuzzer_sys::fuzz_target;

/// The memory of the compressor, in bytes: less than all variants need.
const MEMORY: u64 = 6000;

/// More turns than any answer takes.
const MOST_TURNS: usize = 100;

/// The dictionary of all scripts, and its SHA-256 (FIPS 180-2 appendix B.1) in base64. The 43rd and last character is
/// left out: two of its bits are padding, which a parser should not check (RFC 9651 section 4.2.7).
const DICTIONARY: &[u8] = b"abc";
const HASH: &str = "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa";

fuzz_target!(|input: &[u8]| {
    let Some((&setup, lines)) = input.split_first() else {
        return;
    };
    let path = PATHS[usize::from(setup >> 1) % PATHS.len()];
    let mut request = Request {
        method: if setup & 1 == 0 {
            Method::Get
        } else {
            Method::Head
        },
        target: Target::Path(path.as_bytes()),
        preconditions: Preconditions::default(),
        range: Single::Absent,
        accept: Lines::default(),
        accept_encoding: Lines::default(),
        available_dictionary: Single::Absent,
        package_have: Single::Absent,
        no_transform: false,
    };
    let mut sent = Sent::default();
    for line in lines.split(|&byte| byte == b'\n') {
        let Some((&letter, value)) = line.split_first() else {
            continue;
        };
        match letter {
            b'a' => drop(request.accept.push(value)),
            b'e' if request.accept_encoding.push(value) => sent.codings.push(value),
            b'd' => {
                request.available_dictionary.push(value);
                sent.dictionaries.push(value);
            }
            b'n' => drop(request.preconditions.if_none_match.push(value)),
            b'm' => drop(request.preconditions.if_match.push(value)),
            b'r' => request.range.push(value),
            b'c' => request.no_transform = true,
            _ => {}
        }
    }
    let (origin, compressor) = served();
    let mut answer = origin.decide(&request, Instant::ZERO, &mut Vec::new());
    let mut turns = 0;
    while !origin.go_on(&mut answer, Instant::ZERO) {
        turns += 1;
        assert!(turns < MOST_TURNS, "it is never decided");
    }
    assert!(compressor.memory_in_use() <= MEMORY, "too much memory");
    judge(origin, &answer, path, &sent);
});

/// What the client sent.
#[derive(Default)]
struct Sent<'a> {
    codings: Vec<&'a [u8]>,
    dictionaries: Vec<&'a [u8]>,
}

const PATHS: [&str; 5] = ["/a.js", "/b.js", "/page.html", "/x.png", "/x.webp"];

/// The fields of a response.
#[derive(Default)]
struct Fields(Vec<(String, Vec<u8>)>);

impl Fields {
    fn get(&self, name: &str) -> Option<&[u8]> {
        let mut all = self.0.iter().filter(|(other, _)| other == name);
        let value = all.next().map(|(_, value)| value.as_slice());
        assert!(all.next().is_none(), "{name} twice");
        value
    }
}

impl FieldSink for Fields {
    fn field(&mut self, name: &str, value: &[u8]) {
        self.0.push((name.to_owned(), value.to_vec()));
    }

    fn hop(&mut self, _: HopField, _: &str) {}
}

fn judge(origin: &Origin, answer: &Answer, path: &str, sent: &Sent<'_>) {
    let mut fields = Fields::default();
    origin.write_fields(answer, 0, &mut Dates::default(), &mut fields);
    let status = answer.status().code();
    let vary: Option<&[u8]> = match path {
        "/a.js" | "/b.js" => Some(b"Accept-Encoding, Available-Dictionary"),
        "/page.html" => Some(b"Accept-Encoding"),
        "/x.png" => Some(b"Accept"),
        _ => None,
    };
    assert_eq!(fields.get("Vary"), vary, "{path}, {status}");
    let is_announced = fields.get("Use-As-Dictionary").is_some();
    assert_eq!(is_announced, path == "/a.js" && status == 200);
    assert!(
        matches!(status, 200 | 206 | 304 | 406 | 412 | 416 | 503),
        "{status}"
    );
    let Some(coding) = fields.get("Content-Encoding") else {
        return;
    };
    let coding = std::str::from_utf8(coding).expect("a coding is a token");
    let is_named = |name: &str| {
        sent.codings.iter().any(|line| {
            let line = String::from_utf8_lossy(line).to_ascii_lowercase();
            line.split(',').any(|element| {
                element
                    .split(';')
                    .next()
                    .is_some_and(|first| first.trim_matches([' ', '\t', '\r', '\n']) == name)
            })
        })
    };
    let has_dictionary = matches!(coding, "dcb" | "dcz");
    let is_permitted =
        is_named(coding) || !has_dictionary && (is_named("*") || is_named(&format!("x-{coding}")));
    assert!(is_permitted, "{coding} was not named");
    if has_dictionary {
        let [line] = sent.dictionaries[..] else {
            panic!("{} dictionaries were named", sent.dictionaries.len());
        };
        let line = String::from_utf8_lossy(line);
        assert!(line.contains(HASH), "another dictionary was named: {line}");
        assert!(path.ends_with(".js"), "the dictionary is for other files");
    }
    if status == 200 && answer.sent_length() > 0 {
        judge_content(&content(origin, answer), coding, path);
    }
}

fn content(origin: &Origin, answer: &Answer) -> Vec<u8> {
    let mut content = Vec::new();
    origin.write_content(answer, |segment| match segment {
        Segment::Text(text) => content.extend_from_slice(text),
        Segment::Body(selected, range) => match origin.content_of(selected) {
            Located::Memory(body) => {
                let bytes = body.bytes();
                content.extend_from_slice(&bytes[range.first as usize..range.end as usize]);
            }
            Located::File(_) => panic!("a descriptor where there is none"),
        },
    });
    assert_eq!(content.len() as u64, answer.sent_length());
    content
}

/// The encoder copies, so what follows the header is the file.
fn judge_content(content: &[u8], coding: &str, path: &str) {
    let header = match coding {
        "dcb" => 36,
        "dcz" => 40,
        // Stored in advance.
        "deflate" if path == "/page.html" => return,
        _ => 0,
    };
    let expected = if header == 0 { &[][..] } else { DICTIONARY };
    let rest = content[header..].strip_prefix(expected);
    assert!(rest == Some(&text(path)[..]), "other content");
}

fn text(path: &str) -> Vec<u8> {
    path.bytes().cycle().take(1000 + 300 * path.len()).collect()
}

/// Copies what it gets, the dictionary first.
#[derive(Debug)]
struct Copies;

struct Copy(Vec<u8>);

impl Encoders for Copies {
    fn start(
        &self,
        _: Coding,
        _: u32,
        _: u64,
        dictionary: Option<&[u8]>,
    ) -> Option<Box<dyn Encoder>> {
        Some(Box::new(Copy(dictionary.unwrap_or_default().to_vec())))
    }
}

impl Encoder for Copy {
    fn write(&mut self, bytes: &[u8]) -> bool {
        self.0.extend_from_slice(bytes);
        true
    }

    fn finish(self: Box<Self>) -> Option<Vec<u8>> {
        Some(self.0)
    }
}

fn served() -> (&'static Origin, &'static Compressor) {
    static SERVED: OnceLock<(Origin, Arc<Compressor>)> = OnceLock::new();
    let (origin, compressor) = SERVED.get_or_init(|| {
        let types = [
            "text/javascript",
            "text/javascript",
            "text/html",
            "image/png",
            "image/webp",
        ];
        let files = PATHS.iter().zip(types).map(|(path, content_type)| File {
            path: (*path).to_owned(),
            content_type: content_type.to_owned().into(),
            body: Body::from(text(path)),
            encoded: match *path {
                "/page.html" => vec![(ContentCoding::Deflate, Body::from(&b"stored"[..]))],
                _ => Vec::new(),
            },
            last_modified: 867_153_600,
        });
        let site = Site {
            name: "fuzz".to_owned(),
            files: files.collect(),
            pages: Vec::new(),
        };
        let options = CompressionOptions {
            memory: Bytes(MEMORY),
            ..CompressionOptions::new("br,zstd,gzip,deflate".parse().expect("codings"))
        };
        let compressor = Arc::new(Compressor::new(options, Box::new(Copies)));
        let announcement = Announcement {
            path: "/a.js".to_owned(),
            pattern: Some("/*.js".to_owned()),
            id: None,
            max_age: None,
        };
        let dictionary = DictionaryResource::new(announcement, vec![DICTIONARY.to_vec()]);
        let config = OriginConfig {
            negotiation: Negotiation {
                images: true,
                compressor: Some(Arc::clone(&compressor)),
                dictionaries: vec![dictionary.expect("a dictionary")].into(),
            },
            ..OriginConfig::default()
        };
        let origin = Origin::new(Arc::new(site), config).expect("a site that can be served");
        (origin, compressor)
    });
    (origin, compressor)
}
