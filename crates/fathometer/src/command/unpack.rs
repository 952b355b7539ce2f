//! `fathometer unpack`: extracts an object package to a folder, or lists its files.

use std::io::{self, BufWriter, Stdout, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use fathometer_model::Bytes;
use fathometer_package::{Entry, Event, Version};
use fathometer_sys::Interrupt;
use serde_json::json;

use super::Failure;
use fathometer_pack::extract::{Options, Target};
use fathometer_pack::unpack::{self, Held};
use fathometer_pack::{Flow, PackageError};

/// Arguments of `unpack`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fathometer unpack site.objp www          its files into the folder www
  fathometer unpack --list site.objp       what is in it; all checksums are compared
  curl -s -H 'Accept: application/vnd.fathometer.object-package' URL | fathometer unpack - www

A file appears when it is whole and was checked. When the package turns out to be broken, what came
before that place is kept. Nothing is ever written outside the folder, and symbolic links in it are not
followed.")]
pub struct UnpackArguments {
    /// The package; - reads it from stdin
    package: PathBuf,
    /// Folder to extract to, created if needed
    #[arg(default_value = ".", conflicts_with = "list")]
    folder: PathBuf,
    /// List the files of the package instead
    #[arg(short, long)]
    list: bool,
    /// Decode content codings: write index.html instead of index.html.gz for a file stored with gzip
    #[arg(short, long, conflicts_with = "list")]
    decode: bool,
    /// Overwrite existing files, except files extracted from this package
    #[arg(short, long, conflicts_with = "list")]
    force: bool,
    /// Stop before all files together exceed this size in bytes; K, M, G and T are powers of 1024
    #[arg(long, value_name = "SIZE", default_value = "64G", value_parser = size, conflicts_with = "list")]
    max_size: u64,
    /// Stop before the decoded files exceed this many times their size in the package
    #[arg(
        long,
        value_name = "FACTOR",
        default_value_t = 100,
        conflicts_with = "list"
    )]
    max_ratio: u64,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Parses a number of bytes, with or without a suffix.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        Some(b'T' | b't') => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let number: u64 = digits.parse().map_err(|_| {
        format!("{text:?} is not a size: write a number of bytes, or 500M, 64G, 1T")
    })?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("{text} is too large"))
}

/// Extracts or lists. Exit code 1 if the package is incomplete; its complete files are still extracted.
pub fn run(arguments: &UnpackArguments) -> Result<ExitCode, Failure> {
    let interrupt = Interrupt::install()?;
    let mut package = Flow::read_from(&arguments.package, interrupt)?;
    if package.is_terminal() {
        return Err(
            "stdin is a terminal: give the name of a package, or redirect one to stdin".into(),
        );
    }
    match arguments.list {
        true => list(arguments, &mut package),
        false => extract(arguments, &mut package),
    }
}

fn extract(arguments: &UnpackArguments, package: &mut Flow) -> Result<ExitCode, Failure> {
    let folder = &arguments.folder;
    let options = Options {
        overwrite: arguments.force,
        decode: arguments.decode,
        total: arguments.max_size,
        ratio: arguments.max_ratio,
    };
    let (held, result) = unpack::extract(package, Target::open(folder, options)?);
    let error = result.err();
    let written = files(held.files - held.kept);
    if arguments.json {
        let summary = json!({
            "package": package.path(),
            "folder": folder,
            "version": held.version.map(Version::number),
            "files": held.files - held.kept,
            "kept": held.kept,
            "content_bytes": held.content,
            "bytes": held.bytes,
            "error": error.as_ref().map(ToString::to_string),
        });
        println!("{summary:#}");
    } else if error.is_none() {
        println!(
            "{written}, {} written to {}",
            Bytes(held.content),
            folder.display()
        );
    }
    if held.kept > 0 {
        eprintln!(
            "{} of the package have no content: the client that requested it has them",
            files(held.kept)
        );
    }
    match error {
        None => Ok(ExitCode::SUCCESS),
        Some(error) => Err(format!(
            "{error}\nwhole before that: {written}, in {}",
            folder.display()
        )
        .into()),
    }
}

fn list(arguments: &UnpackArguments, package: &mut Flow) -> Result<ExitCode, Failure> {
    let mut listing = Listing {
        out: BufWriter::new(io::stdout()),
        json: arguments.json,
        package: package.path().to_owned(),
        begun: false,
        rows: 0,
    };
    let (held, result) = unpack::read(package, &mut |decoder, event| {
        match event {
            Event::Header => listing.begin(decoder.version()),
            Event::End { .. } => listing.row(decoder.entry()),
            Event::Start { .. } | Event::Data { .. } | Event::Finished => Ok(()),
        }
        .map_err(written)
    });
    match result {
        Ok(()) => {
            listing.finish(held, None)?;
            Ok(ExitCode::SUCCESS)
        }
        // The reader of the list has closed the pipe.
        Err(PackageError::ReaderGone(_)) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            listing.finish(held, Some(&error))?;
            Err(error.into())
        }
    }
}

/// Prints one row per file as it is read.
struct Listing {
    out: BufWriter<Stdout>,
    json: bool,
    package: PathBuf,
    begun: bool,
    rows: u64,
}

impl Listing {
    fn begin(&mut self, version: Option<Version>) -> io::Result<()> {
        self.begun = true;
        let number = version.map(Version::number);
        match (self.json, number) {
            (true, number) => {
                let package = json!(self.package.display().to_string());
                let number = json!(number);
                writeln!(
                    self.out,
                    "{{\n  \"package\": {package},\n  \"version\": {number},\n  \"files\": ["
                )
            }
            (false, Some(number)) => {
                writeln!(
                    self.out,
                    "{}, an object package of version {number}\n{:>14}  {:8}  {:25} {:11} name",
                    self.package.display(),
                    "bytes",
                    "CRC-32",
                    "type",
                    ""
                )
            }
            (false, None) => Ok(()),
        }
    }

    fn row(&mut self, entry: &Entry) -> io::Result<()> {
        let comma = if self.rows == 0 { "" } else { ",\n" };
        self.rows += 1;
        if self.json {
            let row = json!({
                "name": entry.name,
                "bytes": entry.size,
                "crc32": entry.checksum.map(|checksum| checksum.to_string()),
                "type": entry.media_type,
                "etag": entry.etag,
                "last_modified": entry.last_modified,
                "coding": entry.coding.map(|coding| coding.token()),
                "binary": entry.attributes.binary,
                "executable": entry.attributes.executable,
                "read_only": entry.attributes.read_only,
                "critical": entry.critical,
                "kept": entry.kept,
            });
            return write!(self.out, "{comma}    {row}");
        }
        let checksum = entry.checksum.map(|checksum| checksum.to_string());
        let mut marks: Vec<&str> = Vec::new();
        marks.extend(entry.critical.then_some("critical"));
        marks.extend(entry.kept.then_some("kept"));
        marks.extend(entry.coding.map(|coding| coding.token()));
        marks.extend(entry.attributes.executable.then_some("executable"));
        marks.extend(entry.attributes.read_only.then_some("read-only"));
        writeln!(
            self.out,
            "{:>14}  {:8}  {:25} {:11} {}",
            entry.size.unwrap_or(0),
            checksum.as_deref().unwrap_or("-"),
            entry.media_type.as_deref().unwrap_or("-"),
            marks.join(","),
            entry.name
        )
    }

    fn finish(&mut self, held: Held, error: Option<&PackageError>) -> io::Result<()> {
        let finished = self.finished(held, error);
        match finished {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            finished => finished,
        }
    }

    fn finished(&mut self, held: Held, error: Option<&PackageError>) -> io::Result<()> {
        if self.json {
            if !self.begun {
                self.begin(None)?;
            }
            let error = json!(error.map(ToString::to_string));
            writeln!(
                self.out,
                "\n  ],\n  \"complete\": {},\n  \"content_bytes\": {},\n  \"bytes\": {},\n  \"error\": {error}\n}}",
                error.is_null(),
                held.content,
                held.bytes
            )?;
        } else if self.begun {
            writeln!(
                self.out,
                "{}, {} in {}{}",
                files(held.files),
                Bytes(held.content),
                Bytes(held.bytes),
                if error.is_some() {
                    "; the rest is missing"
                } else {
                    ""
                }
            )?;
        }
        self.out.flush()
    }
}

fn written(error: io::Error) -> PackageError {
    let stdout = Path::new("stdout");
    match error.kind() {
        io::ErrorKind::BrokenPipe => PackageError::ReaderGone(stdout.to_owned()),
        _ => PackageError::System {
            doing: "write to",
            path: stdout.to_owned(),
            error,
        },
    }
}

/// A number of files as text.
pub(super) fn files(count: u64) -> String {
    match count {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    }
}
