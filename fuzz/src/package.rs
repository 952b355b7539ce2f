//! Object packages: a decoder with arbitrary input, and an encoder with arbitrary files.

use std::collections::HashSet;

use fathometer_model::ContentCoding;
use fathometer_package::{
    Attributes, Checksum, DecodeError, Decoder, Encoder, Entry, Event, Limits, Piece, Version, name,
};

/// Small limits, so that small inputs reach them.
const LIMITS: Limits = Limits {
    files: 20,
    remembered_files: 8,
    name_bytes: 40,
    table_bytes: 100,
    file_bytes: 500,
};

/// An entry point for fuzzing. The first byte selects where the rest is cut. Panics in these cases:
///
/// - whole, cut and byte-by-byte input do not give the same files;
/// - a limit is exceeded;
/// - a name occurs twice or leads out of a folder;
/// - encoding and decoding the files of a complete package does not return the same files.
///
/// The feature `fuzzing` of the crate makes the decoder accept every checksum, because a mutated input almost never
/// has valid ones.
pub fn decode(data: &[u8]) {
    let Some((&cut, input)) = data.split_first() else {
        return;
    };
    let read = |pieces: &mut dyn Iterator<Item = &[u8]>| read(Decoder::new(LIMITS), pieces);
    let whole = read(&mut [input].into_iter());
    let cut = usize::from(cut) * (input.len() + 1) / 256;
    let (before, after) = input.split_at(cut);
    assert_eq!(whole, read(&mut [before, after].into_iter()));
    assert_eq!(whole, read(&mut input.chunks(1)));
    if whole.outcome.is_ok() {
        let again = write(whole.version.unwrap_or_default(), &whole.files);
        let again = read(&mut [&again[..]].into_iter());
        assert_eq!(whole, again);
    }
}

/// An entry point for fuzzing: `data` defines the files. Panics if reading does not return what was written.
pub fn round_trip(data: &[u8]) {
    let mut rest = data;
    let mut byte = || {
        let (&first, after) = rest.split_first()?;
        rest = after;
        Some(first)
    };
    let Some(version) = byte().map(|byte| match byte % 2 {
        0 => Version::One,
        _ => Version::Two,
    }) else {
        return;
    };
    let two = version == Version::Two;
    let mut files: Vec<(Entry, Vec<u8>)> = Vec::new();
    let (mut table, mut others_began) = (0, false);
    while let (Some(kind), Some(length)) = (byte(), byte()) {
        let flag = |bit: u32| two && kind & 1 << bit != 0;
        let mut name: String = (0..length % 16)
            .map_while(|_| byte())
            .map(|byte| char::from(b"ab./%2e\xe9:"[usize::from(byte) % 9]))
            .collect();
        if name::check(name.as_bytes()).is_err() {
            name = format!("f{}", files.len());
        }
        table += name.len() + 1;
        if files.iter().any(|(entry, _)| entry.name == name)
            || table > LIMITS.table_bytes
            || files.len() == LIMITS.remembered_files
        {
            break;
        }
        others_began |= !flag(0);
        let kept = flag(1);
        let content: Vec<u8> = match kept {
            true => Vec::new(),
            false => (0..length / 2).map_while(|_| byte()).collect(),
        };
        let size = (kept || !flag(2)).then_some(content.len() as u64);
        let entry = Entry {
            name,
            size,
            checksum: flag(3).then(|| Checksum::of(&content)),
            media_type: flag(4).then(|| "text/html".to_owned()),
            etag: (kept || flag(5)).then(|| "W/\"1\"".to_owned()),
            last_modified: flag(6).then_some(u64::from(length)),
            coding: (flag(7) && !kept).then_some(ContentCoding::Gzip),
            attributes: Attributes {
                binary: length & 1 != 0,
                executable: length & 2 != 0,
                read_only: length & 4 != 0,
            },
            critical: two && !others_began,
            kept,
        };
        files.push((entry, content));
    }
    let package = write(version, &files);
    let read = read(Decoder::new(LIMITS), &mut package.chunks(7));
    assert_eq!(read.outcome, Ok(()));
    assert_eq!(read.version, Some(version));
    for (entry, content) in &mut files {
        entry.size = Some(content.len() as u64);
        entry.checksum = (two && !entry.kept).then(|| Checksum::of(content));
    }
    assert_eq!(read.files, files);
}

/// The result of reading a package.
#[derive(Debug, PartialEq)]
struct Transcript {
    version: Option<Version>,
    /// The complete files.
    files: Vec<(Entry, Vec<u8>)>,
    /// The incomplete file.
    part: Option<(Entry, Vec<u8>)>,
    outcome: Result<(), DecodeError>,
}

fn read(mut decoder: Decoder, pieces: &mut dyn Iterator<Item = &[u8]>) -> Transcript {
    let mut files = Vec::new();
    let mut part: Option<(Entry, Vec<u8>)> = None;
    let mut names = HashSet::new();
    let mut outcome = Ok(());
    let mut header = false;
    for mut input in pieces {
        loop {
            match decoder.poll(&mut input) {
                Ok(None) => {
                    assert!(input.is_empty(), "bytes are left over");
                    break;
                }
                Ok(Some(event)) => {
                    assert!(outcome.is_ok(), "an event after an error: {event:?}");
                    assert_eq!(header, event != Event::Header, "{event:?}");
                    header = true;
                    take(event, &decoder, &mut files, &mut part, &mut names);
                }
                Err(error) => {
                    assert!(outcome.is_ok() || outcome == Err(error));
                    outcome = Err(error);
                    break;
                }
            }
        }
    }
    let end = decoder.end_of_input();
    assert!(outcome.is_ok() || end == outcome);
    assert_eq!(end.is_ok(), decoder.is_finished());
    if end.is_ok() {
        assert_eq!(decoder.files(), Some(files.len() as u64));
        assert_eq!(part, None);
    }
    Transcript {
        version: decoder.version(),
        files,
        part,
        outcome: end,
    }
}

fn take(
    event: Event<'_>,
    decoder: &Decoder,
    files: &mut Vec<(Entry, Vec<u8>)>,
    part: &mut Option<(Entry, Vec<u8>)>,
    names: &mut HashSet<String>,
) {
    match event {
        Event::Header => assert!(decoder.version().is_some()),
        Event::Start { entry: place } => {
            let entry = decoder.entry().clone();
            assert_eq!(place, files.len());
            assert!(part.is_none(), "a file starts within another");
            assert!(names.insert(entry.name.clone()), "{:?} again", entry.name);
            assert!(entry.name.len() <= LIMITS.name_bytes);
            assert_eq!(name::check(entry.name.as_bytes()), Ok(&*entry.name));
            assert!(files.len() < LIMITS.files as usize);
            *part = Some((entry, Vec::new()));
        }
        Event::Data { entry, content } => {
            assert_eq!(entry, files.len());
            assert!(!content.is_empty());
            let (_, so_far) = part
                .as_mut()
                .expect("content of a file that has not started");
            so_far.extend_from_slice(content);
            assert!(so_far.len() as u64 <= LIMITS.file_bytes);
        }
        Event::End { entry: place } => {
            let (mut entry, content) = part.take().expect("an end of a file that has not started");
            assert_eq!(place, files.len());
            assert!(entry.size.is_none_or(|size| size == content.len() as u64));
            entry.size = Some(content.len() as u64);
            entry.checksum = decoder.entry().checksum;
            assert_eq!(decoder.entry(), &entry);
            // The reported checksum may be wrong if all checksums are accepted.
            if entry.checksum.is_some() {
                entry.checksum = Some(Checksum::of(&content));
            }
            files.push((entry, content));
        }
        Event::Finished => assert!(decoder.is_finished()),
    }
}

/// Packs files, each content in two parts.
fn write(version: Version, files: &[(Entry, Vec<u8>)]) -> Vec<u8> {
    let entries = files.iter().map(|(entry, _)| entry.clone()).collect();
    let mut encoder = Encoder::new(version, entries, &LIMITS).expect("files within limits");
    let length = encoder.length();
    let mut package = Vec::new();
    while let Some(piece) = encoder.next() {
        match piece {
            Piece::Bytes(bytes) => package.extend_from_slice(bytes),
            Piece::Content { entry, .. } => {
                let content = &files[entry].1;
                let (one, two) = content.split_at(content.len() / 3);
                for part in [one, two] {
                    let framing = encoder.content(part).expect("content is due");
                    package.extend_from_slice(&framing);
                    package.extend_from_slice(part);
                }
                encoder.end_of_content().expect("the content is complete");
            }
        }
    }
    assert!(encoder.is_complete());
    assert!(length.is_none_or(|length| length == package.len() as u64));
    package
}
