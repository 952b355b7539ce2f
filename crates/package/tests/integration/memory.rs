//! Tests that a decoder's memory stays below 1 MB for any input: for 10 GB of a valid package, and for the largest
//! values that a hostile package can state. Contents are generated and never stored.

use fathometer_package::{
    Checksum, DecodeError, Decoder, Encoder, Entry, Event, Limits, Piece, Version,
};

use crate::heap;

/// The maximum memory of a decoder, in bytes.
const BAR: isize = 1_000_000;
/// The total size of the contents in the large packages, in bytes.
const TEN_GIGABYTES: u64 = 10_000_000_000;
/// The number of bytes passed in one piece.
const PIECE: usize = 1 << 20;

/// A decoder whose memory is counted.
struct Counted {
    decoder: Decoder,
    bytes: u64,
    ends: u64,
}

impl Counted {
    fn new() -> Counted {
        heap::reset_held();
        Counted {
            decoder: heap::counted(|| Decoder::new(Limits::default())),
            bytes: 0,
            ends: 0,
        }
    }

    fn take(&mut self, mut input: &[u8]) -> Result<(), DecodeError> {
        heap::counted(|| {
            loop {
                match self.decoder.poll(&mut input) {
                    Ok(None) => break Ok(()),
                    Ok(Some(Event::Data { content, .. })) => self.bytes += content.len() as u64,
                    Ok(Some(Event::End { .. })) => self.ends += 1,
                    Ok(Some(_)) => {}
                    Err(error) => break Err(error),
                }
            }
        })
    }

    /// Returns the memory peak of the decoder, checked against the limit.
    fn peak(self, what: &str) -> isize {
        let peak = heap::peak_held();
        println!(
            "{what}: {} files, {} bytes, peak {peak} bytes",
            self.ends, self.bytes
        );
        assert!(peak < BAR, "{what}: {peak} bytes");
        peak
    }
}

/// Passes the output of `encoder` to a decoder, with zeros as contents.
fn pass(encoder: &mut Encoder, decoder: &mut Counted, zeros: &[u8]) {
    while let Some(piece) = encoder.next() {
        match piece {
            Piece::Bytes(bytes) => decoder.take(bytes).unwrap(),
            Piece::Content { bytes, .. } => {
                let length = bytes.map_or(zeros.len() as u64, |bytes| bytes.min(PIECE as u64));
                let framing = encoder.content_passed(length).unwrap();
                decoder.take(&framing).unwrap();
                decoder.take(&zeros[..length as usize]).unwrap();
                if bytes.is_none_or(|bytes| bytes == length) {
                    encoder.end_of_content().unwrap();
                }
            }
        }
    }
}

/// Computes the checksum of `length` zeros, combined from checksums of shorter runs.
fn of_zeros(length: u64, zeros: &[u8]) -> Checksum {
    let mut whole = crc32fast::Hasher::new();
    let mut piece = crc32fast::Hasher::new();
    piece.update(zeros);
    for _ in 0..length / zeros.len() as u64 {
        whole.combine(&piece);
    }
    whole.update(&zeros[..(length % zeros.len() as u64) as usize]);
    Checksum(whole.finalize())
}

#[test]
fn ten_gigabytes_of_version_2_in_less_than_a_megabyte() {
    let zeros = vec![0; PIECE];
    let mut encoder = Encoder::open_ascending(&Limits::default());
    let mut decoder = Counted::new();
    let half = TEN_GIGABYTES / 2;
    let small = PIECE as u64;
    let checksum = of_zeros(small, &zeros);
    encoder
        .push(Entry {
            name: "a".to_owned(),
            size: Some(half),
            checksum: Some(of_zeros(half, &zeros)),
            ..Entry::default()
        })
        .unwrap();
    // The package has more files than the limit on stored names. Half of the files with content are chunked.
    let mut files = 1;
    let mut bytes = half;
    while bytes < TEN_GIGABYTES {
        let size = if files % 4 == 0 { small } else { 0 };
        encoder
            .push(Entry {
                name: format!("b{files:08}"),
                size: (files % 8 != 0).then_some(size),
                checksum: (size > 0).then_some(checksum),
                media_type: Some("application/octet-stream".to_owned()),
                etag: Some(format!("\"{files}\"")),
                ..Entry::default()
            })
            .unwrap();
        files += 1;
        bytes += size;
        if files % 100 == 0 {
            pass(&mut encoder, &mut decoder, &zeros);
        }
    }
    encoder.finish();
    pass(&mut encoder, &mut decoder, &zeros);
    assert!(encoder.is_complete());
    decoder.decoder.end_of_input().unwrap();
    assert_eq!((decoder.bytes, decoder.ends), (bytes, files));
    // The limit allows for one head and the allocator's rounding. Memory must not grow with the number of files or
    // bytes.
    assert!(decoder.peak("version 2") < 10_000);
}

#[test]
fn ten_gigabytes_of_version_1_in_less_than_a_megabyte() {
    let zeros = vec![0; PIECE];
    let files = TEN_GIGABYTES / PIECE as u64 + 1;
    let entry = |file| Entry {
        name: format!("folder-{file:08}.bin"),
        size: Some(PIECE as u64),
        ..Entry::default()
    };
    let entries = (0..files).map(entry).collect();
    let mut encoder = Encoder::new(Version::One, entries, &Limits::default()).unwrap();
    let mut decoder = Counted::new();
    pass(&mut encoder, &mut decoder, &zeros);
    decoder.decoder.end_of_input().unwrap();
    assert_eq!(decoder.ends, files);
    assert!(decoder.bytes >= TEN_GIGABYTES);
    decoder.peak("version 1");
}

/// Returns the maximum number of different names that a decoder may store, each as long as the limits permit for all of
/// them.
fn worst_names(limits: &Limits) -> Vec<Entry> {
    let bytes = limits.table_bytes / limits.remembered_files - 1;
    let name = |file| Entry {
        name: format!("{file:0bytes$}"),
        size: Some(0),
        ..Entry::default()
    };
    (0..limits.remembered_files).rev().map(name).collect()
}

#[test]
fn the_worst_within_limits_takes_less_than_a_megabyte() {
    let limits = Limits::default();
    for version in [Version::One, Version::Two] {
        let entries = worst_names(&limits);
        let mut encoder = Encoder::new(version, entries, &limits).unwrap();
        let mut decoder = Counted::new();
        // The input is in pieces of five bytes, so that buffers grow in small steps.
        while let Some(piece) = encoder.next() {
            let Piece::Bytes(bytes) = piece else {
                panic!("there are no contents");
            };
            for piece in bytes.chunks(5) {
                decoder.take(piece).unwrap();
            }
        }
        decoder.decoder.end_of_input().unwrap();
        let held = decoder.ends;
        assert_eq!(held, limits.remembered_files as u64);
        decoder.peak("the most names");
    }
}

#[test]
fn announced_sizes_allocate_no_memory() {
    let limits = Limits::default();
    let one = |count: u32, table: u32| {
        let mut header = b"OBJP\x01\0\0\0".to_vec();
        header.extend_from_slice(&table.to_be_bytes());
        header.extend_from_slice(&[0; 4]);
        header.extend_from_slice(&u64::MAX.to_be_bytes());
        header.extend_from_slice(&crc32fast::hash(&header).to_be_bytes());
        header.extend_from_slice(&count.to_be_bytes());
        header
    };
    let two = |size: u64, name: u16| {
        let mut package = b"OBJP\x02\x02\0\0".to_vec();
        package.extend_from_slice(&limits.files.to_be_bytes());
        package.extend_from_slice(&crc32fast::hash(&package).to_be_bytes());
        let start = package.len();
        package.extend_from_slice(&[1, 4, 0, 0]);
        package.extend_from_slice(&name.to_be_bytes());
        package.extend_from_slice(&[0, 0]);
        package.extend_from_slice(&size.to_be_bytes());
        package.extend(std::iter::repeat_n(b'n', usize::from(name)));
        let checksum = crc32fast::hash(&package[start..]);
        package.extend_from_slice(&checksum.to_be_bytes());
        package
    };
    let largest_table = (4 + limits.table_bytes + 5 * limits.remembered_files) as u32;
    for (what, package, refused) in [
        ("files", one(u32::MAX, largest_table), false),
        ("a table", one(1, u32::MAX), true),
        ("both within limits", one(16_384, largest_table), false),
        ("a content", two(u64::MAX, 1), true),
        (
            "a content within limits",
            two(limits.file_bytes, 4096),
            false,
        ),
        ("a name", two(1, u16::MAX), true),
    ] {
        let mut decoder = Counted::new();
        assert_eq!(decoder.take(&package).is_err(), refused, "{what}");
        assert!(decoder.peak(what) < 20_000);
    }

    // The count is refused only after the table's checksum was compared, because the checksum detects damage.
    let mut decoder = Counted::new();
    decoder.take(&one(u32::MAX, largest_table)).unwrap();
    let rest = vec![0; largest_table as usize];
    assert_eq!(decoder.take(&rest), Err(DecodeError::TableDamaged));
    decoder.peak("number of files, and the remaining table");

    // A single name takes the whole table, in ASCII and in two-byte characters; then there are more names than can be
    // stored.
    for byte in [b"n".as_slice(), b"\xc3\xa9"] {
        let mut table = 1u32.to_be_bytes().to_vec();
        table.extend(byte.repeat(limits.table_bytes / 2));
        table.resize(table.len() + 6, 0);
        let mut package = b"OBJP\x01\0\0\0".to_vec();
        package.extend_from_slice(&(table.len() as u32).to_be_bytes());
        package.extend_from_slice(&crc32fast::hash(&table).to_be_bytes());
        package.extend_from_slice(&[0; 8]);
        package.extend_from_slice(&crc32fast::hash(&package).to_be_bytes());
        let mut decoder = Counted::new();
        decoder.take(&package).unwrap();
        let error = table.chunks(5).find_map(|piece| decoder.take(piece).err());
        assert!(matches!(
            error,
            Some(DecodeError::NameTooLong | DecodeError::TableTooLarge)
        ));
        decoder.peak("an endless name");
    }
    let mut encoder = Encoder::open_ascending(&limits);
    let mut decoder = Counted::new();
    let mut outcome = Ok(());
    for file in 0..100_000 {
        let name = format!("{file:08}");
        encoder
            .push(Entry {
                name,
                size: Some(0),
                ..Entry::default()
            })
            .unwrap();
        while let Some(Piece::Bytes(bytes)) = encoder.next() {
            if file == 0 {
                // The flag for ascending names in the header is cleared.
                let mut header = bytes[..16].to_vec();
                header[5] = 0;
                let checksum = crc32fast::hash(&header[..12]);
                header[12..].copy_from_slice(&checksum.to_be_bytes());
                decoder.take(&header).unwrap();
                outcome = outcome.and(decoder.take(&bytes[16..]));
            } else {
                outcome = outcome.and(decoder.take(bytes));
            }
        }
    }
    assert_eq!(outcome, Err(DecodeError::TooManyFiles));
    decoder.peak("more names than can be stored");
}
