use std::sync::Arc;

use fathometer_model::{ContentCoding, File, FileId, Page, Site};
use proptest::prelude::*;

use super::*;
use crate::origin::tests::{Response, ask};
use crate::origin::{Origin, OriginConfig};
use fathometer_package::archive::{tar, zip};
use fathometer_package::have::{Keys, key};
use fathometer_package::{Checksum, Decoder, Entry, Event, Limits};

pub(super) const PACKAGE: &str =
    "application/vnd.fathometer.object-package;version=2, text/html;q=0.5";
const VERSION_ONE: &str = "application/vnd.fathometer.object-package;version=1";
const PICTURE: &[u8] = &[7; 3000];

/// Creates a site: two pages that share an image and a script, and the folder `list`.
fn site(style: &[u8]) -> Arc<Site> {
    let file = |path: &str, content_type: &'static str, body: &[u8]| File {
        path: path.to_owned(),
        content_type: content_type.into(),
        body: body.into(),
        encoded: Vec::new(),
        last_modified: 784_111_777,
    };
    let mut files = vec![
        file("/home.html", "text/html", b"<p>home"),
        file("/next.html", "text/html; charset=utf-8", b"<p>next"),
        file("/shared.png", "image/png", PICTURE),
        file("/s%20.css", "text/css", style),
        file("/j.js", "text/javascript", b"let x;"),
        file("/own.gif", "image/gif", b"GIF89a"),
        file("/list/2.bin", "application/octet-stream", &[2; 70_000]),
        file("/list/1.bin", "application/octet-stream", b""),
    ];
    files[0].encoded = vec![(ContentCoding::Gzip, b"gz"[..].into())];
    let page = |base, embedded: &[u32]| Page {
        base: FileId(base),
        embedded: embedded.iter().copied().map(FileId).collect(),
        named_by: Vec::new(),
    };
    Arc::new(Site {
        name: "test".to_owned(),
        files,
        pages: vec![page(0, &[2, 3, 4]), page(1, &[2, 5, 4])],
    })
}

fn with(packages: Packages) -> Origin {
    let config = OriginConfig {
        packages,
        ..OriginConfig::default()
    };
    Origin::new(site(b"p {}"), config).unwrap()
}

fn origin(making: Making) -> Origin {
    with(Packages {
        making,
        ..Packages::default()
    })
}

/// Unpacks a package; returns the entry and the content of each file.
pub(super) fn unpacked(package: &[u8]) -> Vec<(Entry, Vec<u8>)> {
    let mut decoder = Decoder::new(Limits::default());
    let mut files = Vec::new();
    let mut content = Vec::new();
    let mut rest = package;
    while let Some(event) = decoder.poll(&mut rest).unwrap() {
        match event {
            Event::Data { content: part, .. } => content.extend_from_slice(part),
            Event::End { .. } => {
                files.push((decoder.entry().clone(), std::mem::take(&mut content)));
            }
            _ => {}
        }
    }
    decoder.end_of_input().unwrap();
    files
}

fn names(response: &Response) -> Vec<String> {
    assert_eq!(response.status, 200);
    let files = unpacked(&response.content);
    files.into_iter().map(|(entry, _)| entry.name).collect()
}

fn get(origin: &Origin, path: &str, accept: &str) -> Response {
    ask(origin, &format!("GET {path}"), &[("Accept", accept)])
}

#[test]
fn a_page_is_sent_as_a_package_if_accepted() {
    for making in [Making::Made, Making::OnTheFly] {
        let origin = origin(making);
        let response = get(&origin, "/home.html", PACKAGE);
        assert_eq!(
            response.field("Content-Type"),
            Some("application/vnd.fathometer.object-package;version=2")
        );
        // A package that is composed on the fly can contain the page in a content coding.
        let vary = match making {
            Making::OnTheFly => "Accept, Accept-Encoding, Package-Have",
            _ => "Accept, Package-Have",
        };
        assert_eq!(response.field("Vary"), Some(vary));
        assert_eq!(response.field("Content-Location"), None);
        assert_eq!(response.field("Last-Modified"), None);
        let files = unpacked(&response.content);
        let names: Vec<&str> = files.iter().map(|(entry, _)| &entry.name[..]).collect();
        assert_eq!(names, ["home.html", "s%20.css", "j.js", "shared.png"]);
        let critical: Vec<bool> = files.iter().map(|(entry, _)| entry.critical).collect();
        assert_eq!(critical, [true, true, true, false]);
        // The entry of a file has the same values as the response with only that file.
        for (entry, content) in &files {
            let alone = ask(&origin, &format!("GET /{}", entry.name), &[]);
            assert_eq!(*content, alone.content);
            assert_eq!(entry.etag.as_deref(), alone.field("ETag"));
            assert_eq!(entry.media_type.as_deref(), alone.field("Content-Type"));
            assert_eq!(entry.last_modified, Some(784_111_777));
            assert_eq!(entry.checksum, Some(Checksum::of(content)));
        }
        let one = get(&origin, "/home.html", VERSION_ONE);
        assert_eq!(self::names(&one), names);
        assert_ne!(one.field("ETag"), response.field("ETag"));
        assert_eq!(origin.take_packages(), 2);
        assert_eq!(origin.take_packages(), 0);
    }
}

#[test]
fn without_acceptance_the_page_is_sent_with_vary() {
    let made = origin(Making::Made);
    let plain = origin(Making::None);
    for accept in [
        "*/*",
        "text/html",
        "application/*",
        "application/zip;q=0, */*",
    ] {
        let response = get(&made, "/home.html", accept);
        assert_eq!(response.content, b"<p>home");
        assert_eq!(response.field("Vary"), Some("Accept, Accept-Encoding"));
        let next = get(&made, "/next.html", accept);
        assert_eq!(next.field("Vary"), Some("Accept"));
        // Only responses with a page vary, and only if packages are offered.
        let response = get(&made, "/own.gif", PACKAGE);
        assert_eq!(response.content, b"GIF89a");
        assert_eq!(response.field("Vary"), None);
        assert_eq!(get(&plain, "/next.html", accept).field("Vary"), None);
    }
    assert_eq!(get(&plain, "/home.html", PACKAGE).content, b"<p>home");
    assert_eq!(made.take_packages() + plain.take_packages(), 0);
}

#[test]
fn the_package_of_the_root_page_has_a_content_location() {
    let origin = origin(Making::OnTheFly);
    let response = get(&origin, "/", PACKAGE);
    assert_eq!(response.field("Content-Location"), Some("/home.html"));
    assert_eq!(names(&response)[0], "home.html");
    let beyond = [("Accept", PACKAGE), ("Range", "bytes=99999-")];
    let beyond = ask(&origin, "GET /", &beyond);
    assert_eq!(
        (beyond.status, beyond.field("Content-Location")),
        (416, None)
    );
    let page = get(&origin, "/", "text/html");
    assert_eq!(page.field("Content-Location"), None);
    assert_eq!(page.field("Vary"), Some("Accept, Accept-Encoding"));
}

#[test]
fn a_folder_of_files_is_a_package_in_their_order_and_nothing_else() {
    for making in [Making::Made, Making::OnTheFly] {
        let origin = origin(making);
        let response = get(&origin, "/list/", PACKAGE);
        assert_eq!(names(&response), ["list/2.bin", "list/1.bin"]);
        assert_eq!(response.field("Content-Location"), None);
        assert_eq!(get(&origin, "/list/", "*/*").status, 404);
        assert_eq!(get(&origin, "/list", PACKAGE).status, 404);
        assert_eq!(get(&origin, "/nothing/", PACKAGE).status, 404);
    }
}

#[test]
fn shared_files_go_into_the_first_package_alone() {
    let origin = with(Packages {
        making: Making::Made,
        shared: Shared::Once,
        ..Packages::default()
    });
    assert_eq!(names(&get(&origin, "/home.html", PACKAGE)).len(), 4);
    let next = get(&origin, "/next.html", PACKAGE);
    assert_eq!(names(&next), ["next.html", "own.gif"]);
}

#[test]
fn made_and_composed_packages_are_the_same_bytes() {
    let (made, composed) = (origin(Making::Made), origin(Making::OnTheFly));
    for accept in [PACKAGE, VERSION_ONE, "application/x-tar", "application/zip"] {
        for path in ["/next.html", "/list/"] {
            let (made, composed) = (get(&made, path, accept), get(&composed, path, accept));
            assert_eq!(made.content, composed.content, "{path} {accept}");
            assert_eq!(made.fields, composed.fields);
        }
    }
}

#[test]
fn archives_have_the_same_files() {
    let origin = origin(Making::OnTheFly);
    let expected: Vec<(String, Vec<u8>)> = unpacked(&get(&origin, "/next.html", PACKAGE).content)
        .into_iter()
        .map(|(entry, content)| (entry.name, content))
        .collect();
    let response = get(&origin, "/next.html", "application/zip, text/html;q=0.5");
    assert_eq!(response.field("Content-Type"), Some("application/zip"));
    assert_eq!(response.field("Vary"), Some("Accept"));
    let files = zip::read_whole(&response.content).unwrap();
    let files: Vec<_> = files.into_iter().map(|f| (f.name, f.content)).collect();
    assert_eq!(files, expected);

    let response = get(&origin, "/next.html", "application/x-tar");
    assert_eq!(response.field("Content-Type"), Some("application/x-tar"));
    let mut reader = tar::Reader::new();
    let mut rest = &response.content[..];
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    while let Some(event) = reader.poll(&mut rest).unwrap() {
        match event {
            fathometer_package::archive::Event::Start { .. } => {
                files.push((reader.entry().name.clone(), Vec::new()));
            }
            fathometer_package::archive::Event::Data { entry, content } => {
                files[entry].1.extend_from_slice(content);
            }
            _ => {}
        }
    }
    assert_eq!(files, expected);
}

#[test]
fn only_formats_that_are_offered_are_sent() {
    let origin = with(Packages {
        making: Making::Made,
        formats: "tar".parse().unwrap(),
        ..Packages::default()
    });
    assert_eq!(get(&origin, "/home.html", PACKAGE).content, b"<p>home");
    let archive = get(&origin, "/home.html", "application/x-tar");
    assert_eq!(archive.field("Content-Type"), Some("application/x-tar"));
    assert_eq!("2, zip".parse::<Formats>().unwrap().to_string(), "2,zip");
    assert!("3".parse::<Formats>().is_err());
    assert_eq!(Formats::only(Format::Tar), "tar".parse().unwrap());
}

#[test]
fn preconditions_head_and_ranges_work_on_a_package_as_on_a_file() {
    for making in [Making::Made, Making::OnTheFly] {
        let origin = origin(making);
        let whole = get(&origin, "/home.html", PACKAGE);
        let etag = whole.field("ETag").unwrap();
        let with = |fields: &[(&str, &str)]| {
            let fields: Vec<_> = [("Accept", PACKAGE)]
                .iter()
                .chain(fields)
                .copied()
                .collect();
            ask(&origin, "GET /home.html", &fields)
        };
        let current = with(&[("If-None-Match", etag)]);
        assert_eq!(current.status, 304);
        assert_eq!(current.field("ETag"), Some(etag));
        assert_eq!(current.field("Vary"), whole.field("Vary"));
        let page = ask(&origin, "GET /home.html", &[("If-None-Match", etag)]);
        assert_eq!(page.status, 200);
        // A package has no modification date, so a date condition has no effect.
        let later = "Sun, 06 Nov 2044 08:49:37 GMT";
        assert_eq!(with(&[("If-Modified-Since", later)]).status, 200);
        assert_eq!(with(&[("If-Match", "\"x\"")]).status, 412);

        let head = ask(&origin, "HEAD /home.html", &[("Accept", PACKAGE)]);
        assert!(head.content.is_empty());
        assert_eq!(head.fields, whole.fields);

        let length = whole.content.len();
        for (first, end) in [
            (0, 1),
            (0, length),
            (3, 40),
            (100, length - 100),
            (length - 7, length),
        ] {
            let range = format!("bytes={first}-{}", end - 1);
            let part = with(&[("Range", &range), ("If-Range", etag)]);
            assert_eq!(part.status, 206);
            assert_eq!(part.content, &whole.content[first..end], "{range}");
            let said = format!("bytes {first}-{}/{length}", end - 1);
            assert_eq!(part.field("Content-Range"), Some(&said[..]));
        }
        let parts = with(&[("Range", "bytes=0-9,1000-1009")]);
        assert_eq!(parts.status, 206);
        let second = whole.content[1000..1010].to_vec();
        assert!(parts.content.windows(10).any(|window| window == second));
        let beyond = with(&[("Range", "bytes=99999999-")]);
        assert_eq!(beyond.status, 416);
    }
}

proptest! {
    #[test]
    fn any_part_of_a_package_is_that_part_of_it(
        ranges in prop::collection::vec((0usize..75_000, 0usize..20_000), 1..4),
        path in prop::sample::select(&["/home.html", "/list/"][..]),
        accept in prop::sample::select(&[PACKAGE, VERSION_ONE, "application/x-tar"][..]),
    ) {
        thread_local! {
            static ORIGIN: Origin = origin(Making::OnTheFly);
        }
        ORIGIN.with(|origin| {
            let whole = get(origin, path, accept).content;
            for (first, more) in ranges {
                let range = format!("bytes={first}-{}", first + more);
                let fields = [("Accept", accept), ("Range", &range[..])];
                let part = ask(origin, &format!("GET {path}"), &fields);
                let end = (first + more + 1).min(whole.len());
                match whole.get(first..end) {
                    Some(expected) if first < whole.len() => {
                        prop_assert_eq!(part.status, 206);
                        prop_assert!(part.content == expected, "{}", range);
                    }
                    _ => prop_assert_eq!(part.status, 416),
                }
            }
            Ok(())
        })?;
    }
}

/// Returns the `Package-Have` value of a client that has the current versions of these files.
fn have(origin: &Origin, names: &[&str]) -> String {
    let keys: Keys = names
        .iter()
        .map(|name| {
            let alone = ask(origin, &format!("GET /{name}"), &[]);
            key(name, alone.field("ETag").unwrap())
        })
        .collect();
    keys.to_string()
}

#[test]
fn a_delta_has_the_files_the_client_lacks_and_names_the_rest() {
    for making in [Making::Made, Making::OnTheFly] {
        let before = origin(making);
        let config = OriginConfig {
            packages: Packages {
                making,
                ..Packages::default()
            },
            ..OriginConfig::default()
        };
        let after = Origin::new(site(b"p { color: red }"), config).unwrap();
        let all = ["home.html", "s%20.css", "j.js", "shared.png"];
        let fields = [
            ("Accept", PACKAGE),
            ("Package-Have", &have(&before, &all)[..]),
        ];
        let delta = ask(&after, "GET /home.html", &fields);
        let files = unpacked(&delta.content);
        let kept: Vec<(&str, bool)> = files
            .iter()
            .map(|(entry, _)| (&entry.name[..], entry.kept))
            .collect();
        let expected = [
            ("home.html", true),
            ("s%20.css", false),
            ("j.js", true),
            ("shared.png", true),
        ];
        assert_eq!(kept, expected);
        assert_eq!(files[1].1, b"p { color: red }");
        assert!(delta.content.len() < PICTURE.len());
        let whole = get(&after, "/home.html", PACKAGE);
        assert_ne!(delta.field("ETag"), whole.field("ETag"));

        // A client gets all files if it has no files, if its field is malformed, or if its package version does not
        // support deltas.
        let gzipped = ask(&after, "GET /home.html", &[("Accept-Encoding", "gzip")]);
        let others = have(&after, &["own.gif"]);
        for (accept, field) in [
            (PACKAGE, &others[..]),
            (PACKAGE, "::"),
            (PACKAGE, ":AAAA:"),
            (PACKAGE, "nonsense"),
            (VERSION_ONE, &have(&after, &all)),
        ] {
            let fields = [("Accept", accept), ("Package-Have", field)];
            let response = ask(&after, "GET /home.html", &fields);
            let files = unpacked(&response.content);
            assert!(files.iter().all(|(entry, _)| !entry.kept), "{field}");
        }
        // A file that the client has in a content coding.
        let keys: Keys = [key("home.html", gzipped.field("ETag").unwrap())]
            .into_iter()
            .collect();
        let field = keys.to_string();
        let fields = [("Accept", PACKAGE), ("Package-Have", &field[..])];
        let files = unpacked(&ask(&after, "GET /home.html", &fields).content);
        assert!(files[0].0.kept && files[1..].iter().all(|(entry, _)| !entry.kept));
        assert_eq!(files[0].0.etag.as_deref(), gzipped.field("ETag"));
    }
}

#[test]
fn files_are_coded_in_what_is_composed_for_the_request() {
    let fields = [("Accept", PACKAGE), ("Accept-Encoding", "gzip")];
    let composed = ask(&origin(Making::OnTheFly), "GET /home.html", &fields);
    let files = unpacked(&composed.content);
    assert_eq!(files[0].0.coding, Some(ContentCoding::Gzip));
    assert_eq!(files[0].1, b"gz");
    assert_eq!(files[1].0.coding, None);
    assert_eq!(
        composed.field("Vary"),
        Some("Accept, Accept-Encoding, Package-Have")
    );
    assert_eq!(composed.field("Content-Encoding"), None);
    let made = ask(&origin(Making::Made), "GET /home.html", &fields);
    assert_eq!(unpacked(&made.content)[0].1, b"<p>home");
}

#[test]
fn other_methods_are_not_negotiated() {
    let origin = origin(Making::Made);
    for (request, status) in [
        ("OPTIONS /home.html", 200),
        ("POST /home.html", 405),
        ("DELETE /list/", 404),
    ] {
        let response = ask(&origin, request, &[("Accept", PACKAGE)]);
        assert_eq!(response.status, status, "{request}");
        assert_eq!(response.field("Vary"), None);
    }
}
