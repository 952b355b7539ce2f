//! A folder for one test, its files, and the program run in it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use fathometer_model::ContentCoding;
use fathometer_package::{Encoder, Entry, Limits, Piece};
use tempfile::TempDir;

/// A tree of files: content and permissions by path.
pub type Tree = BTreeMap<PathBuf, (Vec<u8>, u32)>;

pub struct Place(TempDir);

impl Place {
    pub fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a file, and creates its folders.
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// Returns the command of the program, for this folder.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fathometer"));
        command
            .args(words)
            .current_dir(self.0.path())
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, words: &[&str]) -> Ended {
        Ended::of(self.command(words).output().unwrap())
    }

    /// Runs the program with these bytes on stdin.
    pub fn run_with(&self, words: &[&str], stdin: &[u8]) -> Ended {
        let mut child = self.start(words);
        let mut pipe = child.stdin.take().unwrap();
        let stdin = stdin.to_vec();
        // The program may exit before it has read all of stdin.
        let writer = std::thread::spawn(move || drop(pipe.write_all(&stdin)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Ended::of(output)
    }

    /// Starts the program with pipes for stdin, stdout and stderr.
    pub fn start(&self, words: &[&str]) -> Child {
        self.command(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    pub fn tree(&self, folder: &str) -> Tree {
        tree(&self.path(folder))
    }
}

/// Reads all regular files below a folder.
pub fn tree(folder: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let data = fs::symlink_metadata(&path).unwrap();
            if data.is_dir() {
                folders.push(path);
            } else if data.is_file() {
                let relative = path.strip_prefix(folder).unwrap().to_owned();
                tree.insert(relative, (fs::read(&path).unwrap(), data.mode() & 0o777));
            }
        }
    }
    tree
}

pub fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

/// Returns random bytes, which do not compress.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let step = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(step).collect()
}

/// Builds a package with one file, `a.css`, in this coding. The package states the file's size only after the content.
pub fn package_of_coded(coding: ContentCoding, coded: &[u8]) -> Vec<u8> {
    let mut encoder = Encoder::open(&Limits::default());
    let entry = Entry {
        name: "a.css".to_owned(),
        coding: Some(coding),
        ..Entry::default()
    };
    encoder.push(entry).unwrap();
    encoder.finish();
    let mut package = Vec::new();
    while let Some(piece) = encoder.next() {
        match piece {
            Piece::Bytes(bytes) => package.extend_from_slice(bytes),
            Piece::Content { .. } => {
                package.extend_from_slice(&encoder.content(coded).unwrap());
                package.extend_from_slice(coded);
                encoder.end_of_content().unwrap();
            }
        }
    }
    package
}

/// The exit code and the output of the program.
pub struct Ended {
    pub code: Option<i32>,
    pub out: Vec<u8>,
    pub err: String,
}

impl Ended {
    fn of(output: Output) -> Ended {
        Ended {
            code: output.status.code(),
            out: output.stdout,
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub fn done(self) -> Ended {
        assert_eq!(self.code, Some(0), "{}", self.err);
        self
    }

    /// Asserts exit code 1, and a message that contains all of `expected`.
    pub fn failed(self, expected: &[&str]) -> Ended {
        assert_eq!(self.code, Some(1), "{}", self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        for expected in expected {
            assert!(
                self.err.contains(expected),
                "{expected:?} is not in: {}",
                self.err
            );
        }
        self
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.out.clone()).unwrap()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.out).unwrap_or_else(|_| panic!("{}", self.text()))
    }
}

/// The contents of a package, as reported by the reader that was written from the specification alone.
pub struct Read {
    pub files: Vec<ReadFile>,
    pub outcome: String,
}

pub struct ReadFile {
    pub name: String,
    pub size: u64,
    pub checksum: String,
    pub kept: bool,
    pub coding: String,
    pub media_type: String,
}

pub fn independent_reader(package: &Path) -> Read {
    let reader = Path::new(env!("CARGO_MANIFEST_DIR")).join("../package/tests/vectors/reader.py");
    let output = Command::new("python3").arg(reader).arg(package).output();
    let output = output.expect("python3 is needed");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut read = Read {
        files: Vec::new(),
        outcome: String::new(),
    };
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[..] {
            ["outcome", outcome] => outcome.clone_into(&mut read.outcome),
            [
                "file",
                name,
                size,
                checksum,
                flags,
                _,
                coding,
                media_type,
                ..,
            ] => {
                read.files.push(ReadFile {
                    name: name.to_owned(),
                    size: size.parse().unwrap(),
                    checksum: checksum.to_owned(),
                    kept: flags.contains('k'),
                    coding: coding.to_owned(),
                    media_type: media_type.to_owned(),
                });
            }
            _ => panic!("{line}"),
        }
    }
    read
}
