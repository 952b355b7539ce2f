//! Reads a package: to extract it to a folder, or to list its files.

use std::path::Path;

use fathometer_package::{Decoder, Entry, Event, Limits, Version};

use super::PackageError;
use super::extract::{Growing, Target};
use super::flow::{CHUNK, Flow};
use super::progress::Progress;

/// A summary of the package, as far as it was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// The version of the format, once known.
    pub version: Option<Version>,
    /// Number of complete files.
    pub files: u64,
    /// Number of these that have no content.
    pub kept: u64,
    /// Bytes of the files.
    pub content: u64,
    /// Bytes of the package.
    pub octets: u64,
}

/// Receives the files of a package.
pub trait Sink {
    /// The header was read. `files` is the number of files, if stated.
    fn header(&mut self, version: Version, files: Option<u64>) -> Result<(), PackageError>;
    /// A file starts.
    fn start(&mut self, entry: &Entry) -> Result<(), PackageError>;
    /// A part of its content.
    fn data(&mut self, content: &[u8]) -> Result<(), PackageError>;
    /// The file is complete and verified.
    fn end(&mut self, entry: &Entry) -> Result<(), PackageError>;
}

/// Reads a package to its end. On an error, also returns the summary of the files that were complete before it.
pub fn read(
    package: &mut Flow,
    sink: &mut dyn Sink,
    progress: &mut Progress,
) -> Result<Held, (Held, PackageError)> {
    let mut held = Held::default();
    match read_all(package, sink, progress, &mut held) {
        Ok(()) => Ok(held),
        Err(error) => Err((held, error)),
    }
}

fn read_all(
    package: &mut Flow,
    sink: &mut dyn Sink,
    progress: &mut Progress,
    held: &mut Held,
) -> Result<(), PackageError> {
    let mut decoder = Decoder::new(Limits::default());
    let mut buffer = vec![0; CHUNK];
    loop {
        let read = package.read(&mut buffer)?;
        let mut input = &buffer[..read];
        loop {
            let before = input.len();
            let event = decoder.poll(&mut input);
            held.octets += (before - input.len()) as u64;
            match event {
                Ok(None) => break,
                Ok(Some(Event::Header)) => {
                    held.version = decoder.version();
                    sink.header(decoder.version().unwrap_or_default(), decoder.files())?;
                }
                Ok(Some(Event::Start { .. })) => sink.start(decoder.entry())?,
                Ok(Some(Event::Data { content, .. })) => {
                    held.content += content.len() as u64;
                    sink.data(content)?;
                }
                Ok(Some(Event::End { .. })) => {
                    sink.end(decoder.entry())?;
                    held.files += 1;
                    held.kept += u64::from(decoder.entry().kept);
                }
                Ok(Some(Event::Finished)) => {}
                Err(error) => return Err(broken(package.path(), held.octets, error)),
            }
        }
        progress.tell(held.files, held.content);
        if read == 0 {
            let end = decoder.end_of_input();
            return end.map_err(|error| broken(package.path(), held.octets, error));
        }
    }
}

fn broken(package: &Path, octets: u64, error: fathometer_package::DecodeError) -> PackageError {
    let place = match octets {
        0 => String::new(),
        octets => format!(" behind octet {octets}"),
    };
    PackageError::Broken {
        package: package.display().to_string(),
        place,
        error,
    }
}

/// Extracts the files to a folder.
#[derive(Debug)]
pub struct Extractor {
    target: Target,
    growing: Option<Growing>,
}

impl Extractor {
    /// Extracts to this folder.
    pub fn new(target: Target) -> Extractor {
        Extractor {
            target,
            growing: None,
        }
    }
}

impl Sink for Extractor {
    fn header(&mut self, _version: Version, _files: Option<u64>) -> Result<(), PackageError> {
        Ok(())
    }

    fn start(&mut self, entry: &Entry) -> Result<(), PackageError> {
        if !entry.kept {
            self.growing = Some(self.target.begin(entry)?);
        }
        Ok(())
    }

    fn data(&mut self, content: &[u8]) -> Result<(), PackageError> {
        match &mut self.growing {
            Some(file) => file.write(content),
            None => Ok(()),
        }
    }

    fn end(&mut self, _entry: &Entry) -> Result<(), PackageError> {
        match self.growing.take() {
            Some(file) => self.target.finish(file),
            None => Ok(()),
        }
    }
}
