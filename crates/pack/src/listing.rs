//! Lists the files of a package while it is read.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use fathometer_model::Bytes;
use fathometer_package::{Entry, Event, Version};
use serde_json::json;

use super::PackageError;
use super::flow::Flow;
use super::unpack::{self, Held};

/// Writes the list of a package's files to `out`, as text or as JSON. All checksums are verified. A damaged package is
/// listed up to the error.
///
/// # Errors
/// If the package is broken, or the list cannot be written; [`PackageError::ReaderClosed`] if the reader of the
/// list has closed the pipe.
pub fn list(package: &mut Flow, json: bool, out: impl Write) -> Result<(), PackageError> {
    let mut listing = Listing {
        out,
        json,
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
        Err(PackageError::ReaderClosed(path)) => Err(PackageError::ReaderClosed(path)),
        result => {
            listing
                .finish(held, result.as_ref().err())
                .map_err(written)?;
            result
        }
    }
}

/// Prints one row per file as it is read.
struct Listing<W> {
    out: W,
    json: bool,
    package: PathBuf,
    begun: bool,
    rows: u64,
}

impl<W: Write> Listing<W> {
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
        io::ErrorKind::BrokenPipe => PackageError::ReaderClosed(stdout.to_owned()),
        _ => PackageError::System {
            doing: "write to",
            path: stdout.to_owned(),
            error,
        },
    }
}

/// Formats a number of files as text.
pub fn files(count: u64) -> String {
    match count {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    }
}
