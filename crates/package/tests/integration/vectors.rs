//! Reads the packages in `tests/vectors/`, both valid and hostile. A second reader in Python, which was written only
//! from the specification (`docs/object-package.md`), reads them too. The second reader also reads this encoder's
//! output.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the test reads packages, and runs the second reader"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::{File, Read, encoder, read, told, write};
use fathometer_model::ContentCoding;
use fathometer_package::{Attributes, Class, DecodeError, Encoder, Entry, Limits, Version};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

/// For each package: its name, the classes of errors that readers may report, and the number of complete files before
/// the error.
fn outcomes() -> Vec<(String, Vec<String>, usize)> {
    let text = std::fs::read_to_string(folder().join("outcomes.txt")).unwrap();
    let row = |line: &str| {
        let [name, classes, whole] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("what is {line:?}?");
        };
        let classes = classes.split('|').map(str::to_owned).collect();
        (name.to_owned(), classes, whole.parse().unwrap())
    };
    text.lines().map(row).collect()
}

fn vector(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).unwrap()
}

fn outcome(outcome: Result<(), DecodeError>) -> &'static str {
    match outcome.map_err(DecodeError::class) {
        Ok(()) => "complete",
        Err(Class::Unknown) => "unknown",
        Err(Class::Truncated) => "truncated",
        Err(Class::Damaged) => "damaged",
        Err(Class::Malformed) => "malformed",
        Err(Class::TooLarge) => "too-large",
    }
}

fn whole(package: &[u8]) -> Read {
    read([package], Limits::default())
}

/// Formats the result in the output format of the second reader.
fn lines(read: &Read) -> String {
    let mut text = String::new();
    for (entry, content) in &read.files {
        let or_none = |text: Option<&str>| text.unwrap_or("-").to_owned();
        let mut flags = String::new();
        flags.push_str(if entry.critical { "c" } else { "" });
        flags.push_str(if entry.kept { "k" } else { "" });
        let attributes = u8::from(entry.attributes.binary)
            + 2 * u8::from(entry.attributes.executable)
            + 4 * u8::from(entry.attributes.read_only);
        let digest = ring::digest::digest(&ring::digest::SHA256, content);
        let digest = digest
            .as_ref()
            .iter()
            .fold(String::new(), |mut text, byte| {
                write!(text, "{byte:02x}").unwrap();
                text
            });
        let fields = [
            "file".to_owned(),
            entry.name.clone(),
            content.len().to_string(),
            or_none(entry.checksum.map(|it| it.to_string()).as_deref()),
            or_none((!flags.is_empty()).then_some(&*flags)),
            attributes.to_string(),
            or_none(entry.coding.map(ContentCoding::token)),
            or_none(entry.media_type.as_deref()),
            or_none(entry.etag.as_deref()),
            or_none(entry.last_modified.map(|it| it.to_string()).as_deref()),
            digest,
        ];
        assert_eq!(entry.size, Some(content.len() as u64));
        text.push_str(&fields.join("\t"));
        text.push('\n');
    }
    writeln!(text, "outcome\t{}", outcome(read.outcome)).unwrap();
    text
}

/// Returns the output of the second reader for each of these packages; `None` without Python.
fn other_reader(packages: &[PathBuf]) -> Option<Vec<String>> {
    let output = Command::new("python3")
        .arg(folder().join("reader.py"))
        .args(packages)
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) if std::env::var_os("FATHOMETER_REQUIRE_TOOLS").is_none() => {
            eprintln!("skipped: failed to run python3: {error}");
            return None;
        }
        Err(error) => panic!("python3: {error}"),
    };
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut told = vec![String::new()];
    for line in text.split_inclusive('\n') {
        told.last_mut().unwrap().push_str(line);
        if line.starts_with("outcome\t") {
            told.push(String::new());
        }
    }
    assert_eq!(told.pop().as_deref(), Some(""));
    assert_eq!(told.len(), packages.len());
    Some(told)
}

#[test]
fn every_vector_has_its_outcome_however_it_is_cut() {
    let outcomes = outcomes();
    assert!(outcomes.len() > 60, "{}", outcomes.len());
    let packages = std::fs::read_dir(folder()).unwrap();
    let packages = packages.filter(|entry| {
        let path = entry.as_ref().unwrap().path();
        path.extension()
            .is_some_and(|extension| extension == "objp")
    });
    assert_eq!(
        packages.count(),
        outcomes.len(),
        "each vector must have an expected outcome"
    );
    for (name, classes, files) in outcomes {
        let package = vector(&name);
        let read_whole = whole(&package);
        let class = outcome(read_whole.outcome);
        assert!(
            classes.iter().any(|it| it == class),
            "{name}: {read_whole:?}"
        );
        assert_eq!(read_whole.files.len(), files, "{name}: {read_whole:?}");
        for piece in [1, 2, 3, 7, 31] {
            let again = read(package.chunks(piece), Limits::default());
            assert_eq!(again, read_whole, "{name} in pieces of {piece}");
        }
    }
}

#[test]
fn an_independent_reader_agrees_about_every_vector() {
    let outcomes = outcomes();
    let paths: Vec<PathBuf> = outcomes
        .iter()
        .map(|(name, ..)| folder().join(name))
        .collect();
    let Some(told) = other_reader(&paths) else {
        return;
    };
    for ((name, classes, _), told) in outcomes.iter().zip(told) {
        let ours = lines(&whole(&vector(name)));
        // Readers may have different limits, but must report the same complete files.
        if classes.len() == 1 {
            assert_eq!(told, ours, "{name}");
        } else {
            let files = |text: &str| text[..text.find("outcome").unwrap()].to_owned();
            assert_eq!(files(&told), files(&ours), "{name}");
            let class = told.trim_end().rsplit('\t').next().unwrap().to_owned();
            assert!(classes.contains(&class), "{name}: {told}");
        }
    }
}

#[test]
fn an_independent_reader_reads_what_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    let mut expected = String::new();
    for version in [Version::One, Version::Two] {
        for (place, part) in [1, 100, 70_000].into_iter().enumerate() {
            let files = site(version);
            let package = write(encoder(version, &files), &files, part);
            let read = whole(&package);
            let told: Vec<File> = files.iter().map(|file| told(file, version)).collect();
            assert_eq!((&read.files, read.outcome), (&told, Ok(())));
            expected.push_str(&lines(&read));
            let path = folder
                .path()
                .join(format!("{}-{place}.objp", version.number()));
            std::fs::write(&path, package).unwrap();
            paths.push(path);
        }
    }
    if let Some(told) = other_reader(&paths) {
        assert_eq!(told.concat(), expected);
    }
}

/// Returns files with all metadata that a version can express.
fn site(version: Version) -> Vec<File> {
    let two = version == Version::Two;
    let sizes = [0, 1, 511, 16_384, 200_000, 7];
    let file = |(place, size): (usize, usize)| {
        let content = (0..size).map(|byte| (byte * (place + 1) % 251) as u8);
        let entry = Entry {
            name: format!("folder {place}/\u{e9}{size}"),
            size: (!two || place % 2 == 0).then_some(size as u64),
            media_type: two.then(|| format!("text/x-{place}; charset=utf-8")),
            etag: (two && place > 1).then(|| format!("W/\"{size}\"")),
            last_modified: (two && place != 3).then_some(784_111_777 + place as u64),
            coding: (two && place == 4).then_some(ContentCoding::Deflate),
            attributes: Attributes {
                binary: place % 2 == 0,
                executable: place % 3 == 0,
                read_only: place == 5,
            },
            critical: two && place < 2,
            ..Entry::default()
        };
        (entry, content.collect())
    };
    let mut files: Vec<File> = sizes.into_iter().enumerate().map(file).collect();
    if two {
        let kept = Entry {
            name: "kept".to_owned(),
            size: Some(1_000_000),
            etag: Some("\"kept\"".to_owned()),
            kept: true,
            ..Entry::default()
        };
        files.push((kept, Vec::new()));
    }
    files
}

#[test]
fn what_is_written_is_what_the_specification_says() {
    for (name, version) in [
        ("empty-1.objp", Version::One),
        ("three-1.objp", Version::One),
        ("empty-2.objp", Version::Two),
        ("all-2.objp", Version::Two),
        ("unordered-2.objp", Version::Two),
    ] {
        let package = vector(name);
        let read = whole(&package);
        assert_eq!(read.version, Some(version));
        let again = write(encoder(version, &read.files), &read.files, 1000);
        assert_eq!(again, package, "{name}");
    }

    // The list of files is not known in advance, and one file is chunked.
    let package = vector("rich-2.objp");
    let mut files = whole(&package).files;
    files[2].0.size = None;
    let mut encoder = Encoder::open(&Limits::default());
    for (entry, _) in &files {
        encoder.push(entry.clone()).unwrap();
    }
    encoder.finish();
    // The part size has an effect only in a chunked file.
    assert_eq!(write(encoder, &files, 2), package);
}

#[test]
fn the_specification_shows_the_vectors() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/object-package.md");
    let specification = std::fs::read_to_string(path).unwrap();
    for name in ["three-1.objp", "rich-2.objp"] {
        let listing = listing(&vector(name));
        assert!(specification.contains(&listing), "{name}:\n{listing}");
    }
}

/// Formats a hexadecimal listing with sixteen bytes per line.
fn listing(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, bytes) in bytes.chunks(16).enumerate() {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let shown = |&byte: &u8| match byte {
            b' '..=b'~' => char::from(byte),
            _ => '.',
        };
        let ascii: String = bytes.iter().map(shown).collect();
        writeln!(text, "{:04x}  {:<47}  {ascii}", 16 * line, hex.join(" ")).unwrap();
    }
    text
}
