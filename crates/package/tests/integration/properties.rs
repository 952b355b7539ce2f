//! Tests object packages of arbitrary files, which are split, truncated and damaged at any position.

use super::support::{File, encoder, read, told, write};
use fathometer_model::ContentCoding;
use fathometer_package::{
    Attributes, Checksum, Class, DecodeError, Decoder, EncodeError, Encoder, Entry, Limits, Piece,
    Version,
};
use proptest::prelude::*;

/// Generates files that `version` can express, critical files first.
fn files(version: Version, most: usize, longest: usize) -> impl Strategy<Value = Vec<File>> {
    let two = version == Version::Two;
    let name = prop_oneof![
        "[a-z]{1,12}(/[a-z.]{0,3}[a-z]){0,3}",
        "[A-Z0-9 %?=\u{e9}\u{1f600}]{1,9}",
    ];
    type Metadata = (
        Option<String>,
        Option<String>,
        Option<u64>,
        Option<ContentCoding>,
        [bool; 3],
    );
    let metadata = (
        proptest::option::of("[a-z]{1,9}/[a-z]{1,9}(; charset=utf-8)?"),
        proptest::option::of("(W/)?\"[!#-~]{0,20}\""),
        proptest::option::of(0..253_402_300_800_u64),
        proptest::option::of(prop_oneof![
            Just(ContentCoding::Gzip),
            Just(ContentCoding::Deflate)
        ]),
        any::<[bool; 3]>(),
    );
    let content = proptest::collection::vec(any::<u8>(), 0..longest);
    let file = (name, metadata, content, any::<[bool; 5]>());
    type Parts = (String, Metadata, Vec<u8>, [bool; 5]);
    let make = move |(name, metadata, mut content, flags): Parts| {
        let (media_type, etag, last_modified, coding, attributes) = metadata;
        let [sized, known, critical, keep, ascending] = flags;
        let [binary, executable, read_only] = attributes;
        let kept = two && keep && etag.is_some();
        if kept {
            content.clear();
        }
        let entry = Entry {
            name,
            size: (!two || kept || sized).then_some(content.len() as u64),
            checksum: known.then(|| Checksum::of(&content)),
            media_type: media_type.filter(|_| two),
            etag: etag.filter(|_| two),
            last_modified: last_modified.filter(|_| two),
            coding: coding.filter(|_| two && !kept),
            attributes: Attributes {
                binary,
                executable,
                read_only,
            },
            critical: two && critical,
            kept,
        };
        (ascending, (entry, content))
    };
    proptest::collection::vec(file.prop_map(make), 0..most).prop_map(|files| {
        let ascending = files.iter().all(|(ascending, _)| *ascending);
        let mut files: Vec<File> = files.into_iter().map(|(_, file)| file).collect();
        let mut names = std::collections::HashSet::new();
        files.retain(|(entry, _)| names.insert(entry.name.clone()));
        if ascending {
            files.sort_by(|one, other| one.0.name.cmp(&other.0.name));
        }
        files.sort_by_key(|(entry, _)| !entry.critical);
        files
    })
}

fn any_files(most: usize, longest: usize) -> impl Strategy<Value = (Version, Vec<File>)> {
    prop_oneof![
        files(Version::One, most, longest).prop_map(|files| (Version::One, files)),
        files(Version::Two, most, longest).prop_map(|files| (Version::Two, files)),
    ]
}

proptest! {
    #[test]
    fn files_come_out_as_they_went_in(
        (version, files) in any_files(8, 200),
        part in 1..100_usize,
        cuts in proptest::collection::vec(1..60_usize, 1..8),
    ) {
        let expected: Vec<File> = files.iter().map(|file| told(file, version)).collect();
        let package = write(encoder(version, &files), &files, part);
        let mut rest = &package[..];
        let pieces = cuts.iter().cycle().map_while(|&length| {
            let (piece, after) = rest.split_at(length.min(rest.len()));
            rest = after;
            (!piece.is_empty()).then_some(piece)
        });
        let read = read(pieces, Limits::default());
        prop_assert_eq!(read.outcome, Ok(()));
        prop_assert_eq!(read.version, Some(version));
        prop_assert_eq!(&read.files, &expected);

        if version == Version::Two {
            // The same files, pushed one by one.
            let mut encoder = Encoder::open(&Limits::default());
            for (entry, _) in &files {
                encoder.push(entry.clone()).unwrap();
            }
            encoder.finish();
            let package = write(encoder, &files, part);
            let read = self::read([&package[..]], Limits::default());
            prop_assert_eq!((&read.files, read.outcome), (&expected, Ok(())));
        }
    }

    #[test]
    fn what_was_whole_before_the_truncation_is_kept((version, files) in any_files(4, 30)) {
        let expected: Vec<File> = files.iter().map(|file| told(file, version)).collect();
        let package = write(encoder(version, &files), &files, 11);
        let ends = ends(version, &files);
        for length in 0..package.len() {
            let read = read([&package[..length]], Limits::default());
            prop_assert_eq!(read.outcome, Err(DecodeError::Truncated), "at {}", length);
            // The complete files are exactly the files whose last byte has arrived.
            let whole = ends.iter().filter(|&&end| end <= length).count();
            prop_assert_eq!(&read.files[..], &expected[..whole], "at {}", length);
            if let Some(part) = read.part {
                prop_assert!(files[whole].1.starts_with(&part));
            }
        }
    }

    #[test]
    fn a_changed_bit_is_noticed((version, files) in any_files(4, 30), bit in 0..8_u32) {
        let expected: Vec<File> = files.iter().map(|file| told(file, version)).collect();
        let mut package = write(encoder(version, &files), &files, 11);
        let contents: usize = files.iter().map(|(_, content)| content.len()).sum();
        let heads = match version {
            // In version 1, the contents have no checksum.
            Version::One => package.len() - contents,
            Version::Two => package.len(),
        };
        for place in 0..heads {
            package[place] ^= 1 << bit;
            let read = read([&package[..]], Limits::default());
            package[place] ^= 1 << bit;
            prop_assert!(read.outcome.is_err(), "bit {} of byte {}", bit, place);
            prop_assert!(read.files.len() <= expected.len());
            let whole = &expected[..read.files.len()];
            prop_assert_eq!(&read.files[..], whole, "bit {} of byte {}", bit, place);
        }
    }

    #[test]
    fn any_input_is_read_within_limits(
        version in 1..3_u8,
        mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let start = [b'O', b'B', b'J', b'P', version];
        let length = bytes.len().min(start.len());
        bytes[..length].copy_from_slice(&start[..length]);
        let read = read([&bytes[..]], Limits::default());
        prop_assert!(read.outcome.is_err());
        prop_assert_eq!(read.files, []);
    }
}

proptest! {
    #[test]
    fn what_is_wrong_with_a_table_does_not_hang_on_how_it_arrives(
        field in proptest::collection::vec(prop_oneof![3 => Just(b'n'), 1 => Just(0), 1 => 0..9_u8], 0..60),
        count in 0..6_u32,
        length in proptest::option::of(0..80_u32),
        contents in 0..20_u64,
        damaged in any::<bool>(),
        piece in 2..9_usize,
    ) {
        let field = [&count.to_be_bytes()[..], &field].concat();
        let length = length.unwrap_or(field.len() as u32);
        let mut package = b"OBJP\x01\0\0\0".to_vec();
        package.extend_from_slice(&length.to_be_bytes());
        let checked = &field[..field.len().min(length as usize)];
        let checksum = Checksum::of(checked).0 ^ u32::from(damaged);
        package.extend_from_slice(&checksum.to_be_bytes());
        package.extend_from_slice(&contents.to_be_bytes());
        let checksum = Checksum::of(&package).0;
        package.extend_from_slice(&checksum.to_be_bytes());
        package.extend_from_slice(&field);
        let limits = Limits {
            files: 5,
            remembered_files: 4,
            name_bytes: 9,
            table_bytes: 30,
            file_bytes: 1 << 20,
        };
        let whole = read([&package[..]], limits);
        prop_assert_eq!(&read(package.chunks(1), limits), &whole);
        prop_assert_eq!(&read(package.chunks(piece), limits), &whole);
    }
}

/// Computes the offset after each file's last byte, with an encoder.
fn ends(version: Version, files: &[File]) -> Vec<usize> {
    let mut ends = vec![0; files.len()];
    for last in 0..files.len() {
        // The length of the package up to the end of this file.
        let ended = match version {
            Version::One => {
                let package = write(encoder(version, files), files, 11).len();
                let behind = files[last + 1..].iter().map(|(_, content)| content.len());
                package - behind.sum::<usize>()
            }
            Version::Two => {
                let mut encoder = Encoder::open(&Limits::default());
                for (entry, _) in &files[..=last] {
                    encoder.push(entry.clone()).unwrap();
                }
                let mut length = 0;
                while let Some(piece) = encoder.next() {
                    match piece {
                        Piece::Bytes(bytes) => length += bytes.len(),
                        Piece::Content { entry, .. } => {
                            for part in files[entry].1.chunks(11) {
                                length += encoder.content(part).unwrap().len() + part.len();
                            }
                            encoder.end_of_content().unwrap();
                        }
                    }
                }
                assert!(!encoder.is_complete(), "the list is open");
                length
            }
        };
        ends[last] = ended;
    }
    ends
}

fn named(name: &str, size: u64) -> Entry {
    Entry {
        name: name.to_owned(),
        size: Some(size),
        ..Entry::default()
    }
}

#[test]
fn events_come_with_the_earliest_byte() {
    for version in [Version::One, Version::Two] {
        let contents: [&[u8]; 3] = [b"abc", b"", b"de"];
        let files: Vec<File> = contents
            .iter()
            .zip(["x", "y", "z"])
            .map(|(content, name)| (named(name, content.len() as u64), content.to_vec()))
            .collect();
        let package = write(encoder(version, &files), &files, 9);
        let mut decoder = Decoder::new(Limits::default());
        let mut log = Vec::new();
        for (place, byte) in package.iter().enumerate() {
            let mut input = std::slice::from_ref(byte);
            while let Some(event) = decoder.poll(&mut input).unwrap() {
                log.push((place + 1, format!("{event:?}")));
            }
        }
        decoder.end_of_input().unwrap();
        let (header, start, end) = match version {
            // A header of 28 bytes, then a table with three names, sizes and attributes; no checksums.
            Version::One => (28, [53, 56, 56], [56, 56, 58]),
            // A header of 16 bytes, record heads of 21 bytes, and checksums of 4 bytes.
            Version::Two => (16, [37, 65, 90], [44, 69, 96]),
        };
        let content = [start[0], start[2]];
        let data = |entry: usize, nth: usize, byte: u8| {
            let place = content[entry / 2] + nth + 1;
            (
                place,
                format!("Data {{ entry: {entry}, content: [{byte}] }}"),
            )
        };
        let at = |place: usize, what: &str, entry: usize| {
            (place, format!("{what} {{ entry: {entry} }}"))
        };
        let finished = match version {
            Version::One => 58,
            Version::Two => 96 + 12,
        };
        assert_eq!(
            log,
            [
                (header, "Header".to_owned()),
                at(start[0], "Start", 0),
                data(0, 0, b'a'),
                data(0, 1, b'b'),
                data(0, 2, b'c'),
                at(end[0], "End", 0),
                at(start[1], "Start", 1),
                at(end[1], "End", 1),
                at(start[2], "Start", 2),
                data(2, 0, b'd'),
                data(2, 1, b'e'),
                at(end[2], "End", 2),
                (finished, "Finished".to_owned()),
            ],
            "{version:?}"
        );
    }
}

#[test]
fn limits_hold_for_the_writer_and_for_the_reader() {
    let limits = Limits {
        files: 3,
        remembered_files: 2,
        name_bytes: 5,
        table_bytes: 9,
        file_bytes: 10,
    };
    let cases = [
        (vec![named("sixsix", 1)], "name"),
        (vec![named("a", 11)], "file"),
        (vec![named("c", 1), named("b", 1), named("a", 1)], "files"),
        (
            ["a", "b", "c", "d"].map(|name| named(name, 1)).to_vec(),
            "files",
        ),
    ];
    for version in [Version::One, Version::Two] {
        for (entries, what) in &cases {
            let refused = Encoder::new(version, entries.clone(), &limits).unwrap_err();
            let expected = match *what {
                "name" => (EncodeError::NameTooLong, DecodeError::NameTooLong),
                "file" => (EncodeError::FileTooLarge, DecodeError::FileTooLarge),
                _ => (EncodeError::TooManyFiles, DecodeError::TooManyFiles),
            };
            assert_eq!(refused, expected.0, "{version:?}");
            let files: Vec<File> = entries
                .iter()
                .map(|entry| (entry.clone(), vec![b'.'; entry.size.unwrap() as usize]))
                .collect();
            let package = write(encoder(version, &files), &files, 100);
            let read = read([&package[..]], limits);
            let error = read.outcome.unwrap_err();
            // The table for this number of files may exceed its limit first.
            let too_large = [expected.1, DecodeError::TableTooLarge];
            assert!(too_large.contains(&error), "{version:?} {what}: {error:?}");
            assert_eq!(error.class(), Class::TooLarge);
        }
    }
    let long = vec![named("abcde", 1), named("abcd", 1)];
    let refused = Encoder::new(Version::One, long.clone(), &limits).unwrap_err();
    assert_eq!(refused, EncodeError::TableTooLarge);
    assert!(Encoder::new(Version::Two, long, &limits).is_ok());

    // A content of unknown size exceeds the limit only when it arrives.
    let mut encoder = Encoder::open(&limits);
    let entry = Entry {
        size: None,
        ..named("a", 0)
    };
    encoder.push(entry.clone()).unwrap();
    while !matches!(encoder.next(), Some(Piece::Content { .. })) {}
    encoder.content(b"0123456789").unwrap();
    assert_eq!(encoder.content(b"0"), Err(EncodeError::FileTooLarge));
    let files = [(entry, vec![b'0'; 11])];
    let package = write(self::encoder(Version::Two, &files), &files, 6);
    let read = read([&package[..]], limits);
    assert_eq!(read.outcome, Err(DecodeError::FileTooLarge));
    assert_eq!(read.part.map(|part| part.len()), Some(6));
}

#[test]
fn a_writer_refuses_whatever_a_reader_refuses() {
    let limits = Limits::default();
    let new = |version, entries| Encoder::new(version, entries, &limits).map(|_| ());
    let two = |entry: Entry| new(Version::Two, vec![entry]);
    let one = |entry: Entry| new(Version::One, vec![entry]);
    let plain = named("a", 1);
    let tagged = |tag: &str| Entry {
        etag: Some(tag.to_owned()),
        kept: true,
        ..plain.clone()
    };
    assert_eq!(two(tagged("\"1\"")), Ok(()));
    assert_eq!(two(tagged("1")), Err(EncodeError::Metadata));
    assert_eq!(
        one(tagged("\"1\"")),
        Err(EncodeError::TakesVersion2("an entry without content"))
    );
    let untagged = Entry {
        kept: true,
        ..plain.clone()
    };
    assert_eq!(two(untagged), Err(EncodeError::KeptWithoutTag));
    let unsized_file = Entry {
        size: None,
        ..plain.clone()
    };
    assert!(matches!(
        one(unsized_file),
        Err(EncodeError::TakesVersion2(_))
    ));
    let coded = Entry {
        coding: Some(ContentCoding::Gzip),
        ..plain.clone()
    };
    assert!(matches!(one(coded), Err(EncodeError::TakesVersion2(_))));
    assert_eq!(one(named("a", 1 << 32)), Err(EncodeError::FileTooLarge));
    assert_eq!(two(named("a", 1 << 32)), Ok(()));
    assert!(matches!(two(named("../a", 1)), Err(EncodeError::Name(_))));
    for version in [Version::One, Version::Two] {
        let twice = vec![plain.clone(), named("b", 1), plain.clone()];
        assert_eq!(new(version, twice), Err(EncodeError::DuplicateName));
    }
    let critical = Entry {
        critical: true,
        ..named("b", 1)
    };
    let late = vec![plain.clone(), critical.clone()];
    assert_eq!(
        new(Version::Two, late.clone()),
        Err(EncodeError::CriticalLate)
    );
    assert_eq!(new(Version::One, late), Ok(()));

    let mut encoder = Encoder::open_ascending(&limits);
    encoder.push(critical).unwrap();
    encoder.push(named("m", 0)).unwrap();
    assert_eq!(encoder.push(named("b", 0)), Err(EncodeError::DuplicateName));
    assert_eq!(encoder.push(named("c", 0)), Err(EncodeError::OutOfOrder));
    encoder.push(named("n", 0)).unwrap();
    encoder.finish();
    assert_eq!(encoder.push(named("o", 0)), Err(EncodeError::Finished));
}

#[test]
fn content_is_counted() {
    let entries = vec![named("a", 3), named("b", 0), named("c", 2)];
    let mut encoder = Encoder::new(Version::Two, entries, &Limits::default()).unwrap();
    assert_eq!(encoder.content(b"a"), Err(EncodeError::NoContentDue));
    assert_eq!(encoder.end_of_content(), Err(EncodeError::NoContentDue));
    assert!(matches!(encoder.next(), Some(Piece::Bytes(_))));
    let due = |bytes| Some(Piece::Content { entry: 0, bytes });
    assert_eq!(encoder.next(), due(Some(3)));
    assert_eq!(encoder.content_passed(3), Err(EncodeError::ChecksumUnknown));
    assert_eq!(encoder.content(b"abcd"), Err(EncodeError::ContentTooLong));
    encoder.content(b"ab").unwrap();
    assert_eq!(encoder.next(), due(Some(1)));
    let short = EncodeError::ContentTooShort { left: 1 };
    assert_eq!(encoder.end_of_content(), Err(short));
    encoder.content(b"c").unwrap();
    encoder.end_of_content().unwrap();
    // One piece contains the checksum, the whole empty file and the head of the third file.
    let Some(Piece::Bytes(bytes)) = encoder.next() else {
        panic!("bytes are due");
    };
    assert_eq!(bytes.len(), 4 + 21 + 4 + 21);
    let third = Piece::Content {
        entry: 2,
        bytes: Some(2),
    };
    assert_eq!(encoder.next(), Some(third));
}
