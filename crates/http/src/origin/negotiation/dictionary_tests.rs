//! Tests of the responses to clients with dictionaries. The encoder in these tests writes the dictionary before the
//! content, so that the output depends on the dictionary. Real encoders are tested in the crates that provide them.

use std::collections::BTreeSet;

use super::dictionary::{Announcement, DictionaryResource};
use super::tests::{LONG, encoding_of, file, gunzipped, options, origin_with, text};
use super::*;
use crate::origin::tests::{Response, ask};

/// The digest of "abc" (FIPS 180-2 appendix B.1), and the digest of the empty text.
const ABC: &str = ":ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:";
const UNKNOWN: &str = ":47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:";

fn dictionary(path: &str, pattern: &str, contents: &[&[u8]]) -> DictionaryResource {
    let announcement = Announcement {
        path: path.to_owned(),
        pattern: Some(pattern.to_owned()),
        id: None,
        max_age: None,
    };
    let contents = contents.iter().map(|content| content.to_vec()).collect();
    DictionaryResource::new(announcement, contents).unwrap()
}

/// Creates an origin with a script that is a dictionary for scripts, two earlier versions of the script, and other
/// files.
fn origin_of(memory: u64) -> Origin {
    let files = vec![
        file("/a.js", "text/javascript", text(0, LONG)),
        file("/b.js", "text/javascript", text(1, 5000)),
        file("/page.html", "text/html", text(2, 5000)),
        file("/image.js", "image/png", vec![7; 5000]),
    ];
    let options = CompressionOptions {
        levels: "gzip:6,br:4,zstd:3".parse().unwrap(),
        memory: fathometer_model::Bytes(memory),
        ..options()
    };
    let current = text(0, LONG);
    let resource = dictionary("/a.js", "/*.js", &[&current, b"abc", b"other"]);
    origin_with(files, options, vec![resource])
}

fn origin() -> Origin {
    origin_of(64 << 20)
}

fn get(origin: &Origin, path: &str, accept: &str, available: &[&str]) -> Response {
    let mut fields = vec![("Accept-Encoding", accept)];
    fields.extend(
        available
            .iter()
            .map(|value| ("Available-Dictionary", *value)),
    );
    ask(origin, &format!("GET {path}"), &fields)
}

/// Returns the content of a response after the header of the `dcb` or `dcz` coding.
fn after_header<'a>(response: &'a Response, hash: &[u8; 32]) -> &'a [u8] {
    let start: &[u8] = match encoding_of(response) {
        Some("dcb") => b"\xffDCB",
        Some("dcz") => b"\x5e\x2a\x4d\x18\x20\0\0\0",
        other => panic!("{other:?}"),
    };
    let rest = response.content.strip_prefix(start).unwrap();
    rest.strip_prefix(&hash[..]).unwrap()
}

fn hash_of(content: &[u8]) -> [u8; 32] {
    let digest = ring::digest::digest(&ring::digest::SHA256, content);
    digest.as_ref().try_into().unwrap()
}

#[test]
fn a_client_that_has_a_dictionary_gets_content_that_refers_to_it() {
    let origin = origin();
    let all = "gzip, deflate, br, zstd, dcb, dcz";
    let table = [
        ("/b.js", all, &[ABC][..], Some("dcb")),
        ("/b.js", "dcz, gzip", &[ABC], Some("dcz")),
        ("/b.js", "dcb;q=0.5, gzip", &[ABC], Some("gzip")),
        ("/b.js", "gzip, *", &[ABC], Some("gzip")),
        ("/b.js", "dcb", &[ABC], Some("dcb")),
        ("/b.js", "dcb, gzip", &[], Some("gzip")),
        ("/b.js", "dcb, gzip", &[UNKNOWN], Some("gzip")),
        ("/b.js", "dcb, gzip", &[ABC, ABC], Some("gzip")),
        ("/b.js", "dcb, gzip", &["abc"], Some("gzip")),
        ("/b.js", "dcb", &[UNKNOWN], None),
        ("/page.html", "dcb, gzip", &[ABC], Some("gzip")),
        ("/image.js", "dcb, gzip", &[ABC], None),
    ];
    for (path, accept, available, coding) in table {
        let response = get(&origin, path, accept, available);
        assert_eq!(response.status, 200);
        assert_eq!(
            encoding_of(&response),
            coding,
            "{path} {accept} {available:?}"
        );
        let vary = match path {
            "/b.js" => Some("Accept-Encoding, Available-Dictionary"),
            "/page.html" => Some("Accept-Encoding"),
            _ => Some("Accept"),
        };
        assert_eq!(response.field("Vary"), vary, "{path} {accept}");
        if matches!(coding, Some("dcb" | "dcz")) {
            let plain = gunzipped(after_header(&response, &hash_of(b"abc")));
            assert_eq!(plain, [b"abc", &text(1, 5000)[..]].concat());
        }
    }
    let refused = ask(
        &origin,
        "GET /b.js",
        &[
            ("Accept-Encoding", "dcb"),
            ("Available-Dictionary", ABC),
            ("Cache-Control", "no-transform"),
        ],
    );
    assert_eq!(encoding_of(&refused), None);
}

#[test]
fn each_dictionary_has_variants_with_their_own_strong_tags() {
    let origin = origin();
    let mut tags = BTreeSet::new();
    for (accept, available, content) in [
        ("dcb", ABC, &b"abc"[..]),
        ("dcz", ABC, b"abc"),
        ("dcb", UNKNOWN, b""),
        ("gzip", ABC, b""),
        ("", ABC, b""),
    ] {
        let response = get(&origin, "/a.js", accept, &[available]);
        let tag = response.field("ETag").unwrap().to_owned();
        assert!(tag.starts_with('"'), "{tag}");
        if !content.is_empty() {
            let part = ask(
                &origin,
                "GET /a.js",
                &[
                    ("Accept-Encoding", accept),
                    ("Available-Dictionary", available),
                    ("Range", "bytes=0-49"),
                    ("If-Range", &tag),
                ],
            );
            assert_eq!((part.status, encoding_of(&part)), (206, Some(accept)));
            assert_eq!(part.content, response.content[..50]);
        }
        let again = ask(
            &origin,
            "GET /a.js",
            &[
                ("Accept-Encoding", accept),
                ("Available-Dictionary", available),
                ("If-None-Match", &tag),
            ],
        );
        assert_eq!(again.status, 304);
        let vary = again.field("Vary");
        assert_eq!(vary, Some("Accept-Encoding, Available-Dictionary"));
        tags.insert(tag);
    }
    // The representation with an unknown dictionary is the same as without a dictionary, so there are four tags.
    assert_eq!(tags.len(), 4, "{tags:?}");
}

#[test]
fn a_dictionary_is_announced_with_its_whole_content() {
    let files = vec![
        file("/a.js", "text/javascript", text(0, 5000)),
        file("/b.js", "text/javascript", text(1, 5000)),
    ];
    let announcement = Announcement {
        path: "/a.js".to_owned(),
        pattern: None,
        id: Some("v1".to_owned()),
        max_age: Some(std::time::Duration::from_secs(600)),
    };
    let resource = DictionaryResource::new(announcement, vec![text(0, 5000)]).unwrap();
    let origin = origin_with(files, options(), vec![resource]);
    for (request, fields, is_announced, has_age) in [
        ("GET /a.js", vec![], true, true),
        ("HEAD /a.js", vec![], true, true),
        ("GET /a.js", vec![("Accept-Encoding", "gzip")], true, true),
        ("GET /a.js", vec![("Range", "bytes=0-9")], false, true),
        ("GET /a.js", vec![("If-None-Match", "*")], false, true),
        ("GET /a.js", vec![("If-Match", "\"x\"")], false, false),
        ("GET /b.js", vec![], false, false),
    ] {
        let response = ask(&origin, request, &fields);
        let expected = is_announced.then_some("match=\"/a.js\", id=\"v1\"");
        assert_eq!(
            response.field("Use-As-Dictionary"),
            expected,
            "{request} {fields:?}"
        );
        let expected = has_age.then_some("max-age=600");
        assert_eq!(
            response.field("Cache-Control"),
            expected,
            "{request} {fields:?}"
        );
    }
}

#[test]
fn fields_that_name_no_dictionary_add_nothing_to_the_cache() {
    let origin = origin();
    let compressor = origin.negotiation.compressor.as_deref().unwrap();
    get(&origin, "/b.js", "dcb, gzip", &[]);
    let in_use = compressor.memory_in_use();
    let long = format!(":{}:", "A".repeat(64 << 10));
    let colons = ":".repeat(64 << 10);
    let parameters = format!(":{}=:{}", "A".repeat(43), ";a=1".repeat(16 << 10));
    let others: Vec<String> = (0..1000_u32)
        .map(|n| format!(":{n:A>43}=:"))
        .chain([long, colons, parameters, String::new()])
        .collect();
    for available in &others {
        let response = get(&origin, "/b.js", "dcb, gzip", &[available]);
        assert_eq!(encoding_of(&response), Some("gzip"));
    }
    assert_eq!(compressor.memory_in_use(), in_use);
    assert_eq!(compressor.take_counts(), (1, others.len() as u64));
    assert_eq!(compressor.take_with_dictionary(), 0);
}

#[test]
fn variants_of_all_dictionaries_stay_within_the_memory() {
    let memory = 60_000;
    let files = (0..50)
        .map(|n| file(&format!("/{n}"), "text/plain", text(n, 2000)))
        .collect();
    let dictionaries: Vec<Vec<u8>> = (0..20).map(|n| text(100 + n, 500)).collect();
    let contents: Vec<&[u8]> = dictionaries.iter().map(Vec::as_slice).collect();
    let options = CompressionOptions {
        levels: "br,zstd".parse().unwrap(),
        memory: fathometer_model::Bytes(memory),
        ..options()
    };
    let resource = dictionary("/0", "/*", &contents);
    let origin = origin_with(files, options, vec![resource]);
    let compressor = origin.negotiation.compressor.as_deref().unwrap();
    for content in &contents {
        let hash = field_of(&hash_of(content));
        for (n, accept) in (0..50).flat_map(|n| [(n, "dcb"), (n, "dcz")]) {
            let response = get(&origin, &format!("/{n}"), accept, &[&hash]);
            assert_eq!(encoding_of(&response), Some(accept));
            assert!(compressor.memory_in_use() <= memory);
        }
    }
    assert_eq!(compressor.take_counts(), (2000, 0));
    assert_eq!(compressor.take_with_dictionary(), 2000);
}

/// Formats a byte sequence as a structured field.
fn field_of(hash: &[u8; 32]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::from(":");
    for three in hash.chunks(3) {
        let bits = (0..3).fold(0, |bits, n| {
            bits << 8 | u32::from(*three.get(n).unwrap_or(&0))
        });
        for place in 0..=three.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * place) & 63) as usize]));
        }
    }
    text + "=:"
}

#[test]
fn a_byte_sequence_is_what_the_origin_reads() {
    assert_eq!(field_of(&hash_of(b"abc")), ABC);
    assert_eq!(field_of(&hash_of(b"")), UNKNOWN);
}
