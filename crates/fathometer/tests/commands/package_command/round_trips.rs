//! Files that are packed must come out unchanged.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use fathometer_http::origin::store::EntityTag;
use fathometer_model::{Body, ContentCoding};
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

use super::place::{Place, independent_reader, noise, os, package_of_coded};

/// Writes files with unusual names.
fn oddities(place: &Place) {
    let names: [&[u8]; 14] = [
        b"index.html",
        b"empty",
        b"a b/c:d",
        b"c:d/e",
        b"100%/%20",
        b"%2e%2e",
        b"gr\xc3\xbcn/\xf0\x9f\x98\x80.png",
        b"\xff\xfe not UTF-8",
        b"line\nfeed\ttab",
        b"back\\slash",
        b"?query=1&x#fragment",
        b".hidden/...",
        b"-o",
        b"deep/er/and/deep/er/still/file.css",
    ];
    for (n, name) in names.iter().enumerate() {
        let length = if *name == b"empty" { 0 } else { n * n * 7919 };
        let path = place.write(Path::new("in").join(os(name)), noise(length, n as u64));
        let file = fs::File::options().append(true).open(&path).unwrap();
        let modified = UNIX_EPOCH + Duration::from_secs(867_801_600 + n as u64);
        file.set_modified(modified).unwrap();
    }
    place.write("in/large.bin", noise(3_000_000, 99));
    let permissions = |name: &str, mode| {
        let path = place.write(Path::new("in").join(name), name);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    permissions("program", 0o755);
    permissions("fixed", 0o444);
}

#[test]
fn any_folder_is_restored_byte_by_byte() {
    for format in ["1", "2"] {
        let place = Place::new();
        oddities(&place);
        let packed = ["pack", "in", "--format", format, "-o", "x.objp"];
        let message = place.run(&packed).done().text();
        assert!(message.contains("x.objp: 17 files"), "{message}");
        assert!(
            place
                .run(&["unpack", "x.objp", "out"])
                .done()
                .text()
                .contains("17 files")
        );
        let (inside, outside) = (place.tree("in"), place.tree("out"));
        assert_eq!(inside, outside, "version {format}");
        if format == "2" {
            for path in inside.keys() {
                let modified =
                    |folder| fs::metadata(place.path(folder).join(path)).unwrap().mtime();
                assert_eq!(modified("in"), modified("out"), "{path:?}");
            }
        }
        // Packing and unpacking through pipes gives the same bytes.
        let piped = place.run(&["pack", "in", "--format", format]).done();
        assert_eq!(piped.out, fs::read(place.path("x.objp")).unwrap());
        place.run_with(&["unpack", "-", "piped"], &piped.out).done();
        assert_eq!(place.tree("piped"), inside);
    }
}

#[test]
fn a_folder_with_more_files_than_the_reader_remembers_is_extracted_whole() {
    let place = Place::new();
    for n in 0..16_500 {
        let path = place.path(&format!("in/{}", n % 50));
        if n < 50 {
            fs::create_dir_all(&path).unwrap();
        }
        fs::write(path.join(n.to_string()), n.to_string()).unwrap();
    }
    place.run(&["pack", "in", "-o", "x.objp"]).done();
    place.run(&["unpack", "x.objp", "out"]).done();
    assert_eq!(place.tree("in"), place.tree("out"));
    place
        .run(&["pack", "in", "--format", "1", "-o", "one.objp"])
        .failed(&["more files than"]);
    assert!(!place.path("one.objp").exists());
}

#[test]
fn an_independent_reader_reads_the_same() {
    for format in ["1", "2"] {
        let place = Place::new();
        oddities(&place);
        let packed = ["pack", "in", "--format", format, "-o", "x.objp"];
        place.run(&packed).done();
        let read = independent_reader(&place.path("x.objp"));
        assert_eq!(read.outcome, "complete");
        let listed = place.run(&["unpack", "--list", "--json", "x.objp"]);
        let listed = listed.done().json();
        let listed = listed["files"].as_array().unwrap();
        assert_eq!((read.files.len(), listed.len()), (17, 17));
        for (read, listed) in read.files.iter().zip(listed) {
            assert_eq!(listed["name"], read.name);
            assert_eq!(listed["bytes"], read.size);
            if format == "2" {
                assert_eq!(listed["crc32"], read.checksum);
                assert_eq!(listed["type"], read.media_type);
            }
        }
    }
}

#[test]
fn the_list_tells_what_is_in_it() {
    let place = Place::new();
    oddities(&place);
    place.run(&["pack", "in", "-o", "x.objp"]).done();
    let list = place.run(&["unpack", "--list", "x.objp"]).done().text();
    assert!(list.contains("an object package of version 2"), "{list}");
    assert!(
        list.contains("text/html") && list.contains("executable"),
        "{list}"
    );
    assert!(
        list.ends_with('\n') && list.contains("\n17 files, "),
        "{list}"
    );
    let json = place
        .run(&["unpack", "--list", "--json", "x.objp"])
        .done()
        .json();
    assert_eq!(json["version"], 2);
    assert_eq!(json["complete"], true);
    let files = json["files"].as_array().unwrap();
    assert_eq!(files.len(), 17);
    let large = files
        .iter()
        .find(|file| file["name"] == "large.bin")
        .unwrap();
    assert_eq!(large["bytes"], 3_000_000);
    assert_eq!(large["type"], "application/octet-stream");
    assert_eq!(large["binary"], true);
    let small = files.iter().find(|file| file["name"] == "fixed").unwrap();
    let served = EntityTag::of_content(None, &Body::from(&b"fixed"[..])).to_string();
    assert_eq!(
        (&small["etag"], &small["read_only"]),
        (&served.into(), &true.into())
    );
    let summary = place
        .run(&["unpack", "--json", "x.objp", "out"])
        .done()
        .json();
    assert_eq!(
        (&summary["files"], &summary["error"]),
        (&17.into(), &().into())
    );
}

#[test]
fn coded_files_come_out_beside_or_decoded() {
    let text = "all work and no play makes a dull file\n".repeat(40_000);
    let gzip = {
        let mut coder = GzEncoder::new(Vec::new(), Compression::default());
        coder.write_all(text.as_bytes()).unwrap();
        coder.finish().unwrap()
    };
    let deflate = {
        let mut coder = ZlibEncoder::new(Vec::new(), Compression::default());
        coder.write_all(text.as_bytes()).unwrap();
        coder.finish().unwrap()
    };
    for (coding, ending, coded) in [
        (ContentCoding::Gzip, "gz", gzip),
        (ContentCoding::Deflate, "deflate", deflate),
    ] {
        let place = Place::new();
        place.write("x.objp", package_of_coded(coding, &coded));
        let read = independent_reader(&place.path("x.objp"));
        assert_eq!(read.outcome, "complete");
        assert_eq!(read.files[0].coding, coding.token());
        place.run(&["unpack", "x.objp", "out", "--decode"]).done();
        assert_eq!(place.tree("out")[Path::new("a.css")].0, text.as_bytes());
        place.run(&["unpack", "x.objp", "beside"]).done();
        let beside = place.tree("beside");
        let name = format!("a.css.{ending}");
        assert_eq!(beside[Path::new(&name)].0, coded);
        assert_eq!((place.tree("out").len(), beside.len()), (1, 1));
    }
}
