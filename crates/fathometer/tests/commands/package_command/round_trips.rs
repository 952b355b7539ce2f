//! Files that are packed must come out unchanged.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use fathometer_http::origin::store::EntityTag;
use fathometer_model::Body;

use super::place::{Place, independent_reader, noise, os};

/// Files with unusual names.
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
fn any_folder_comes_back_octet_by_octet() {
    for format in ["1", "2"] {
        let place = Place::new();
        oddities(&place);
        let packed = ["pack", "in", "--format", format, "-o", "x.objp"];
        let told = place.run(&packed).done().text();
        assert!(told.contains("x.objp: 17 files"), "{told}");
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
        // The same through pipes gives the same bytes.
        let piped = place.run(&["pack", "in", "--format", format]).done();
        assert_eq!(piped.out, fs::read(place.path("x.objp")).unwrap());
        place.run_with(&["unpack", "-", "piped"], &piped.out).done();
        assert_eq!(place.tree("piped"), inside);
    }
}

#[test]
fn a_folder_of_more_files_than_are_remembered_comes_back() {
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
fn the_independent_reader_reads_the_same() {
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
            assert_eq!(listed["octets"], read.size);
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
    assert_eq!(large["octets"], 3_000_000);
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
fn text_goes_coded_and_comes_back() {
    let place = Place::new();
    let text = "all work and no play makes a dull file\n";
    place.write("in/small.html", text.repeat(30));
    place.write("in/large.css", text.repeat(40_000));
    place.write("in/tiny.txt", "x");
    place.write("in/empty.txt", "");
    place.write("in/noise.png", noise(50_000, 7));
    let plain = place.tree("in");
    for (coding, ending) in [("gzip", "gz"), ("deflate", "deflate")] {
        let packed = place
            .run(&[
                "pack", "in", "-o", "x.objp", "--coding", coding, "--json", "--force",
            ])
            .done()
            .json();
        assert_eq!(packed["files"], 5);
        let octets = packed["octets"].as_u64().unwrap();
        assert!((50_000..60_000).contains(&octets), "{octets}");
        // The size of a large coded file is known only at its end. Content that does not shrink is stored
        // without coding.
        let read = independent_reader(&place.path("x.objp"));
        assert_eq!(read.outcome, "complete");
        let coded: Vec<(&str, &str)> = read
            .files
            .iter()
            .map(|file| (&file.name[..], &file.coding[..]))
            .collect();
        let none = read.files[0].coding.as_str();
        assert_eq!(
            coded,
            [
                ("empty.txt", none),
                ("large.css", coding),
                ("noise.png", none),
                ("small.html", coding),
                ("tiny.txt", none)
            ]
        );
        let out = format!("out-{coding}");
        place.run(&["unpack", "x.objp", &out, "--decode"]).done();
        assert_eq!(place.tree(&out), plain);
        let beside = format!("beside-{coding}");
        place.run(&["unpack", "x.objp", &beside]).done();
        let beside = place.tree(&beside);
        let coded = beside.keys().filter(|path| {
            let ending_of = path.extension().and_then(|ending| ending.to_str());
            ending_of == Some(ending)
        });
        assert_eq!(coded.count(), 2, "{:?}", beside.keys());
        assert_eq!(beside.len(), 5);
    }
    let old = [
        "pack", "in", "-o", "y.objp", "--coding", "gzip", "--format", "1",
    ];
    place.run(&old).failed(&["--format 2"]);
}
