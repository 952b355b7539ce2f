//! Functions shared by the tests of packages: packing and unpacking in memory.

use fathometer_package::{DecodeError, Decoder, Encoder, Entry, Event, Limits, Piece, Version};

/// A file and its content.
pub type File = (Entry, Vec<u8>);

/// The result of reading a package.
#[derive(Debug, PartialEq)]
pub struct Read {
    pub version: Option<Version>,
    /// The complete files.
    pub files: Vec<File>,
    /// The bytes received of the incomplete file.
    pub part: Option<Vec<u8>>,
    pub outcome: Result<(), DecodeError>,
}

/// Reads a package that arrives in `pieces`.
pub fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: Limits) -> Read {
    let mut decoder = Decoder::new(limits);
    let mut files = Vec::new();
    let mut part = None;
    let mut pieces = pieces.into_iter();
    let outcome = loop {
        let Some(mut input) = pieces.next() else {
            break decoder.end_of_input();
        };
        if let Err(error) = take(&mut decoder, &mut input, &mut files, &mut part) {
            assert_eq!(decoder.poll(&mut input), Err(error), "an error stays");
            break Err(error);
        }
        assert!(input.is_empty(), "bytes are left over");
    };
    Read {
        version: decoder.version(),
        files,
        part,
        outcome,
    }
}

fn take(
    decoder: &mut Decoder,
    input: &mut &[u8],
    files: &mut Vec<File>,
    part: &mut Option<Vec<u8>>,
) -> Result<(), DecodeError> {
    while let Some(event) = decoder.poll(input)? {
        match event {
            Event::Header => assert!(decoder.version().is_some()),
            Event::Start { entry } => {
                assert_eq!((entry, &*part), (files.len(), &None));
                *part = Some(Vec::new());
            }
            Event::Data { entry, content } => {
                assert_eq!(entry, files.len());
                part.as_mut().unwrap().extend_from_slice(content);
            }
            Event::End { entry } => {
                assert_eq!(entry, files.len());
                files.push((decoder.entry().clone(), part.take().unwrap()));
            }
            Event::Finished => assert_eq!(decoder.files(), Some(files.len() as u64)),
        }
    }
    Ok(())
}

/// Packs files, each content in parts of `part` bytes.
pub fn write(mut encoder: Encoder, files: &[File], part: usize) -> Vec<u8> {
    let mut package = Vec::new();
    while let Some(piece) = encoder.next() {
        match piece {
            Piece::Bytes(bytes) => package.extend_from_slice(bytes),
            Piece::Content { entry, .. } => {
                for part in files[entry].1.chunks(part) {
                    let framing = encoder.content(part).unwrap();
                    package.extend_from_slice(&framing);
                    package.extend_from_slice(part);
                }
                encoder.end_of_content().unwrap();
            }
        }
    }
    assert!(encoder.is_complete());
    if let Some(length) = encoder.length() {
        assert_eq!(length, package.len() as u64);
    }
    package
}

/// Creates an encoder for these files.
pub fn encoder(version: Version, files: &[File]) -> Encoder {
    let entries = files.iter().map(|(entry, _)| entry.clone()).collect();
    Encoder::new(version, entries, &Limits::default()).unwrap()
}

/// Returns the expected result of reading a packed file.
pub fn told((entry, content): &File, version: Version) -> File {
    let mut entry = entry.clone();
    entry.size = Some(content.len() as u64);
    let checksum = fathometer_package::Checksum::of(content);
    entry.checksum = (version == Version::Two && !entry.kept).then_some(checksum);
    (entry, content.clone())
}
