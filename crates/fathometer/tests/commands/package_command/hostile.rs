//! Malicious packages and folders.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use fathometer_model::ContentCoding;
use fathometer_pack::name;
use fathometer_package::{Encoder, Entry, Limits, Piece, Version};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::place::{Place, independent_reader, package_of_coded};

/// Builds a package of these files.
fn package(version: Version, files: &[(&str, &[u8])]) -> Vec<u8> {
    let entry = |(name, content): &(&str, &[u8])| Entry {
        name: (*name).to_owned(),
        size: Some(content.len() as u64),
        ..Entry::default()
    };
    let entries = files.iter().map(entry).collect();
    let mut encoder = Encoder::new(version, entries, &Limits::default()).unwrap();
    let mut package = Vec::new();
    while let Some(piece) = encoder.next() {
        match piece {
            Piece::Bytes(bytes) => package.extend_from_slice(bytes),
            Piece::Content { entry, .. } => {
                let framing = encoder.content(files[entry].1).unwrap();
                package.extend_from_slice(&framing);
                package.extend_from_slice(files[entry].1);
            }
        }
    }
    package
}

#[test]
fn encoded_names_that_leave_the_folder_write_nothing() {
    for name in [
        "..%2foutside",
        "%2ftmp%2foutside",
        "a/..%2f..%2foutside",
        "a%00",
    ] {
        for version in [Version::One, Version::Two] {
            let place = Place::new();
            place.write(
                "x.objp",
                package(version, &[("first", b"1"), (name, b"2"), ("z", b"3")]),
            );
            let expected = place.run(&["unpack", "x.objp", "deep/er/out"]);
            expected.failed(&["not below the folder", "complete before the error: 1 file"]);
            let elsewhere = place.tree("").into_keys();
            let elsewhere = elsewhere.filter(|path| !path.starts_with("deep/er/out"));
            assert_eq!(elsewhere.collect::<Vec<_>>(), [Path::new("x.objp")]);
            assert_eq!(fs::read(place.path("deep/er/out/first")).unwrap(), b"1");
        }
    }
}

#[test]
fn extraction_stops_at_the_bound_on_expanded_bytes() {
    let place = Place::new();
    let mut coder = GzEncoder::new(Vec::new(), Compression::default());
    coder.write_all(&vec![0; 40 << 20]).unwrap();
    let coded = coder.finish().unwrap();
    place.write("x.objp", package_of_coded(ContentCoding::Gzip, &coded));
    let size = fs::metadata(place.path("x.objp")).unwrap().len();
    assert!(size < 100_000, "{size}");
    let bounds: [(&[&str], &str); 2] = [
        (
            &["--decode"],
            "100 times their bytes in the package (--max-ratio)",
        ),
        (
            &["--decode", "--max-ratio", "5000", "--max-size", "30M"],
            "(--max-size)",
        ),
    ];
    for (n, (options, expected)) in bounds.into_iter().enumerate() {
        let out = format!("out{n}");
        let unpacked = place.run(&[&["unpack", "x.objp", &out], options].concat());
        unpacked.failed(&[
            expected,
            "a.css and all later files are not extracted",
            "complete before the error: 0 files",
        ]);
        assert!(place.tree(&out).is_empty());
    }
    place
        .run(&["unpack", "x.objp", "out", "--decode", "--max-ratio", "5000"])
        .done();
    place.run(&["unpack", "x.objp", "coded"]).done();
    assert_eq!(
        fs::metadata(place.path("out/a.css")).unwrap().len(),
        40 << 20
    );
}

#[test]
fn a_truncated_package_keeps_its_complete_files() {
    let files: [(&str, &[u8]); 3] = [("a/one", &[1; 300]), ("b", b""), ("c", &[3; 200])];
    for version in [Version::One, Version::Two] {
        let whole = package(version, &files);
        let mut counts = Vec::new();
        for length in (0..whole.len()).step_by(23) {
            let place = Place::new();
            let ended = place.run_with(&["unpack", "-", "out"], &whole[..length]);
            ended.failed(&["stdin cannot be read", "truncated", "fetch it again"]);
            let tree = place.tree("out");
            for (path, (content, _)) in &tree {
                let file = files.iter().find(|(name, _)| path.to_str() == Some(name));
                assert_eq!(
                    content,
                    file.expect("only whole files").1,
                    "{length} {path:?}"
                );
            }
            counts.push(tree.len());
        }
        assert!(counts.is_sorted(), "{counts:?}");
        assert_eq!(counts[0], 0);
        assert!(counts.last() >= Some(&2), "{counts:?}");
    }
}

#[test]
fn of_every_vector_there_is_what_the_independent_reader_says_and_nothing_else() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../package/tests/vectors");
    let mut vectors = 0;
    for vector in fs::read_dir(&folder).unwrap() {
        let vector = vector.unwrap().path();
        if vector
            .extension()
            .is_none_or(|extension| extension != "objp")
        {
            continue;
        }
        vectors += 1;
        let read = independent_reader(&vector);
        let whole = read.files.iter().filter(|file| !file.kept).map(|file| {
            let coded = if file.coding == "gzip" { ".gz" } else { "" };
            PathBuf::from(file.name.clone() + coded)
        });
        let place = Place::new();
        let ended = place.run(&["unpack", vector.to_str().unwrap(), "deep/er/out"]);
        let expected = i32::from(read.outcome != "complete");
        assert_eq!(ended.code, Some(expected), "{vector:?}: {}", ended.err);
        assert!(!ended.err.contains("panicked"), "{vector:?}: {}", ended.err);
        let below = |path: PathBuf| path.strip_prefix("deep/er/out").unwrap().to_owned();
        let found: BTreeSet<PathBuf> = place.tree("").into_keys().map(below).collect();
        assert_eq!(found, whole.collect(), "{vector:?}");
        for file in &read.files {
            assert_eq!(name::to_path(&file.name), Some(PathBuf::from(&file.name)));
        }
    }
    assert!(vectors > 50, "{vectors}");
}

#[test]
fn damaged_files_are_not_written() {
    let place = Place::new();
    let mut damaged = package(
        Version::Two,
        &[("a", b"first"), ("b", b"second"), ("c", b"third")],
    );
    let at = damaged.windows(6).position(|w| w == b"second").unwrap();
    damaged[at] ^= 1;
    place.write("x.objp", &damaged);
    let expected = [
        "x.objp",
        "content of file 1 is damaged",
        "fetch it again",
        "complete before the error: 1 file",
    ];
    place.run(&["unpack", "x.objp", "out"]).failed(&expected);
    assert_eq!(place.tree("out").len(), 1);
    let list = place
        .run(&["unpack", "--list", "--json", "x.objp"])
        .failed(&["damaged"])
        .json();
    assert_eq!(list["files"].as_array().unwrap().len(), 1);
    assert_eq!(list["complete"], false);
    let list = place
        .run(&["unpack", "--list", "x.objp"])
        .failed(&["damaged"])
        .text();
    assert!(list.ends_with("the rest is missing\n"), "{list}");
    for (content, expected) in [
        (
            &b"PK\x03\x04 an archive of another kind"[..],
            "not an object package",
        ),
        (b"<!DOCTYPE html>", "not an object package"),
        (b"", "truncated"),
    ] {
        place.write("y.objp", content);
        place
            .run(&["unpack", "y.objp", "none"])
            .failed(&["y.objp", expected]);
    }
    assert!(place.tree("none").is_empty());
}

#[test]
fn links_in_the_way_are_not_followed() {
    let place = Place::new();
    place.write(
        "x.objp",
        package(Version::Two, &[("sub/a", b"new"), ("sub/b", b"new")]),
    );
    place.write("outside/a", "old");
    fs::create_dir(place.path("out")).unwrap();
    symlink(place.path("outside"), place.path("out/sub")).unwrap();
    for force in [&[][..], &["--force"]] {
        let words = [&["unpack", "x.objp", "out"], force].concat();
        place
            .run(&words)
            .failed(&["out/sub must be a folder", "symbolic link"]);
    }
    assert_eq!(place.tree("outside").len(), 1);
    assert_eq!(fs::read(place.path("outside/a")).unwrap(), b"old");

    // `--force` replaces a symbolic link at the path of a file; the target of the link is not changed.
    fs::remove_file(place.path("out/sub")).unwrap();
    fs::create_dir(place.path("out/sub")).unwrap();
    symlink(place.path("outside/a"), place.path("out/sub/a")).unwrap();
    place
        .run(&["unpack", "x.objp", "out"])
        .failed(&["out/sub/a exists", "--force"]);
    place.run(&["unpack", "x.objp", "out", "--force"]).done();
    assert_eq!(fs::read(place.path("outside/a")).unwrap(), b"old");
    assert_eq!(fs::read(place.path("out/sub/a")).unwrap(), b"new");
    assert!(!place.path("out/sub/a").is_symlink());
}

#[test]
fn nothing_is_overwritten_unless_asked_for() {
    let place = Place::new();
    let large = [5; 70_000];
    place.write(
        "x.objp",
        package(Version::Two, &[("a", b"new"), ("b", &large)]),
    );
    for (name, whole) in [("a", 0), ("b", 1)] {
        place.write(format!("out-{name}/{name}"), "old");
        let folder = format!("out-{name}");
        let expected = [
            &format!("{folder}/{name} exists")[..],
            "--force",
            &format!("{whole} file"),
        ];
        place.run(&["unpack", "x.objp", &folder]).failed(&expected);
        assert_eq!(fs::read(place.path(&folder).join(name)).unwrap(), b"old");
        assert_eq!(place.tree(&folder).len(), 1 + whole);
        place.run(&["unpack", "x.objp", &folder, "--force"]).done();
        assert_eq!(fs::read(place.path(&folder).join("b")).unwrap(), large);
    }
    fs::create_dir_all(place.path("folders/a")).unwrap();
    for force in [&[][..], &["--force"]] {
        let words = [&["unpack", "x.objp", "folders"], force].concat();
        place.run(&words).failed(&["folders/a is a folder"]);
    }
    place.write("files/sub", "a file");
    place.write("y.objp", package(Version::Two, &[("sub/a", b"new")]));
    place
        .run(&["unpack", "y.objp", "files"])
        .failed(&["files/sub must be a folder", "a file"]);

    place.write("in/f", "x");
    place
        .run(&["pack", "in", "-o", "x.objp"])
        .failed(&["x.objp exists", "--force"]);
    place
        .run(&["pack", "in", "-o", "in"])
        .failed(&["in is a folder"]);
    place.run(&["pack", "in", "-o", "x.objp", "--force"]).done();
    place.run(&["pack", "in", "-o", "in/self.objp"]).done();
    let again = ["pack", "in", "-o", "in/self.objp", "--force"];
    place
        .run(&again)
        .failed(&["in/self.objp", "outside of the packed folder"]);
    assert_eq!(place.tree("in").len(), 2);
}

#[test]
fn two_files_for_one_place_are_refused_with_force_as_without() {
    let place = Place::new();
    let coded = |name: &str, content: &[u8]| {
        let entries = vec![
            Entry {
                name: name.to_owned(),
                size: Some(content.len() as u64),
                coding: Some(ContentCoding::Gzip),
                ..Entry::default()
            },
            Entry {
                name: format!("{name}.gz"),
                size: Some(content.len() as u64),
                ..Entry::default()
            },
        ];
        let limits = Limits::default();
        let mut encoder = Encoder::new(Version::Two, entries, &limits).unwrap();
        let mut package = Vec::new();
        while let Some(piece) = encoder.next() {
            match piece {
                Piece::Bytes(bytes) => package.extend_from_slice(bytes),
                Piece::Content { .. } => {
                    package.extend_from_slice(&encoder.content(content).unwrap());
                    package.extend_from_slice(content);
                }
            }
        }
        package
    };
    for (package, path, expected) in [
        (
            package(
                Version::Two,
                &[("b", b"b"), ("a%41", b"one"), ("aA", b"two")],
            ),
            "aA",
            "\"aA\" and all later files are not extracted",
        ),
        (
            package(
                Version::One,
                &[("b", b"b"), ("x/y", b"one"), ("x/%79", b"two")],
            ),
            "x/y",
            "\"x/%79\" and all later files are not extracted",
        ),
        (
            coded("a", b"one"),
            "a.gz",
            "\"a.gz\" and all later files are not extracted",
        ),
    ] {
        place.write("x.objp", package);
        for force in [&[][..], &["--force"]] {
            let folder = format!("out-{}-{}", path.replace('/', "-"), force.len());
            let words = [&["unpack", "x.objp", &folder], force].concat();
            let expected = match force.is_empty() {
                true => "exists",
                false => expected,
            };
            place.run(&words).failed(&[expected]);
            let kept = fs::read(place.path(&folder).join(path)).unwrap();
            assert_eq!(kept, b"one", "{path} {force:?}");
            // A file of an earlier package is still overwritten.
            if !force.is_empty() {
                place.write(format!("{folder}/{path}"), "old");
                place.run(&words).failed(&[expected]);
                let kept = fs::read(place.path(&folder).join(path)).unwrap();
                assert_eq!(kept, b"one", "{path}");
            }
        }
    }
}
