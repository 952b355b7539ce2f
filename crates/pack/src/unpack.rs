//! Reads a package, either to extract it to a folder or for another purpose.

use fathometer_package::{Decoder, Event, Limits, Version};

use super::PackageError;
use super::extract::{Growing, Target};
use super::flow::{CHUNK, Flow};

/// A summary of the part of the package that was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// The version of the format, if it is known.
    pub version: Option<Version>,
    /// The number of complete files.
    pub files: u64,
    /// The number of these files that have no content.
    pub kept: u64,
    /// The bytes of the files' contents.
    pub content: u64,
    /// The bytes of the package.
    pub bytes: u64,
}

/// Reads a package to its end, and passes each event to `take`, together with the decoder. After an error, the summary
/// counts the files that were complete before the error.
pub fn read(
    package: &mut Flow,
    take: &mut dyn FnMut(&Decoder, Event<'_>) -> Result<(), PackageError>,
) -> (Held, Result<(), PackageError>) {
    let mut held = Held::default();
    let result = read_all(package, take, &mut held);
    (held, result)
}

fn read_all(
    package: &mut Flow,
    take: &mut dyn FnMut(&Decoder, Event<'_>) -> Result<(), PackageError>,
    held: &mut Held,
) -> Result<(), PackageError> {
    let mut decoder = Decoder::new(Limits::default());
    let mut buffer = vec![0; CHUNK];
    loop {
        let read = package.read(&mut buffer)?;
        let broken = |error, bytes| PackageError::Broken {
            package: package.path().display().to_string(),
            place: match bytes {
                0 => String::new(),
                bytes => format!(" after byte {bytes}"),
            },
            error,
        };
        let mut input = &buffer[..read];
        loop {
            let before = input.len();
            let event = decoder.poll(&mut input);
            held.bytes += (before - input.len()) as u64;
            let Some(event) = event.map_err(|error| broken(error, held.bytes))? else {
                break;
            };
            take(&decoder, event)?;
            match event {
                Event::Header => held.version = decoder.version(),
                Event::Data { content, .. } => held.content += content.len() as u64,
                Event::End { .. } => {
                    held.files += 1;
                    held.kept += u64::from(decoder.entry().kept);
                }
                Event::Start { .. } | Event::Finished => {}
            }
        }
        if read == 0 {
            let end = decoder.end_of_input();
            return end.map_err(|error| broken(error, held.bytes));
        }
    }
}

/// Extracts the files of a package. An incomplete file is removed.
pub fn extract(package: &mut Flow, mut target: Target) -> (Held, Result<(), PackageError>) {
    let mut growing: Option<Growing> = None;
    read(package, &mut |decoder, event| match event {
        Event::Start { .. } if !decoder.entry().kept => {
            growing = Some(target.begin(decoder.entry())?);
            Ok(())
        }
        Event::Data { content, .. } => match &mut growing {
            Some(file) => file.write(content),
            None => Ok(()),
        },
        Event::End { .. } => match growing.take() {
            Some(file) => target.finish(file),
            None => Ok(()),
        },
        Event::Header | Event::Start { .. } | Event::Finished => Ok(()),
    })
}
