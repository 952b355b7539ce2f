use super::*;
use crate::synthetic::CaptureWriter;

const PACKET: &[u8] = b"a packet of 24 bytes....";

/// The compared parts of a record: interface, time, original length, bytes, comments.
type Seen = (usize, Option<u64>, u32, Vec<u8>, Vec<String>);

fn read(bytes: &[u8]) -> (Vec<Seen>, Integrity, Vec<Interface>) {
    try_read(bytes).unwrap()
}

fn try_read(bytes: &[u8]) -> Result<(Vec<Seen>, Integrity, Vec<Interface>), CaptureError> {
    let mut capture = Capture::open(bytes)?;
    let mut seen = Vec::new();
    while let Some(record) = capture.next_record()? {
        assert_eq!(record.number, seen.len() as u64);
        seen.push((
            record.interface_index,
            record.time,
            record.original_length,
            record.data.to_vec(),
            record.comments().map(str::to_owned).collect(),
        ));
    }
    // After the first `None`, every call returns `None`.
    assert!(capture.next_record().unwrap().is_none());
    let interfaces = capture.interfaces().to_vec();
    Ok((seen, capture.integrity().clone(), interfaces))
}

#[test]
fn classic_captures_of_both_orders_and_resolutions_say_the_same() {
    for big_endian in [false, true] {
        for (nanoseconds, stamp) in [
            (false, 1_500_000_000_000_001_000),
            (true, 1_500_000_000_000_001_234),
        ] {
            let mut writer = CaptureWriter::pcap(101, nanoseconds, big_endian);
            writer.packet(0, 1_500_000_000_000_001_234, PACKET, None);
            writer.cut_packet(0, 1_500_000_000_000_001_234, PACKET, 10, None);
            let (seen, integrity, interfaces) = read(writer.bytes());
            assert_eq!(integrity, Integrity::Whole);
            assert_eq!(interfaces[0].link, LinkType(101));
            assert_eq!(seen[0], (0, Some(stamp), 24, PACKET.to_vec(), vec![]));
            assert_eq!(seen[1], (0, Some(stamp), 24, PACKET[..10].to_vec(), vec![]));
        }
    }
}

/// Builds a classic capture of any version. Each record has the first 20 bytes of a packet of 40 bytes. `swapped` lists
/// the records whose two lengths are in the old order.
fn classic(
    magic: u32,
    version: (u16, u16),
    big_endian: bool,
    packets: usize,
    swapped: impl Fn(usize) -> bool,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let put = |bytes: &mut Vec<u8>, value: u32, length: usize| {
        let four = value.to_be_bytes();
        match big_endian {
            true => bytes.extend(&four[4 - length..]),
            false => bytes.extend(four[4 - length..].iter().rev()),
        }
    };
    put(&mut bytes, magic, 4);
    put(&mut bytes, u32::from(version.0), 2);
    put(&mut bytes, u32::from(version.1), 2);
    for value in [0, 0, 96, 101] {
        put(&mut bytes, value, 4);
    }
    for packet in 0..packets {
        let (first, second) = if swapped(packet) { (40, 20) } else { (20, 40) };
        for value in [packet as u32, 7, first, second] {
            put(&mut bytes, value, 4);
        }
        if magic == 0xa1b2_cd34 {
            bytes.extend([0xee; 8]);
        }
        bytes.extend([packet as u8; 20]);
    }
    bytes
}

#[test]
fn old_classic_captures_have_their_lengths_in_the_other_order() {
    type Order = fn(usize) -> bool;
    let cases: [((u16, u16), Order); 7] = [
        ((2, 1), |_| true),
        ((2, 2), |_| true),
        ((2, 3), |_| false),
        ((2, 3), |_| true),
        ((2, 3), |packet| packet % 2 == 0),
        ((2, 4), |_| false),
        ((543, 0), |_| true),
    ];
    for (version, order) in cases {
        for big_endian in [false, true] {
            let bytes = classic(0xa1b2_c3d4, version, big_endian, 40, order);
            let mut capture = Capture::open(&bytes[..]).unwrap();
            let mut packets = 0;
            while let Some(record) = capture.next_record().unwrap() {
                assert_eq!((record.original_length, record.data.len()), (40, 20));
                assert_eq!(record.data[0], packets);
                packets += 1;
            }
            assert_eq!((packets, capture.integrity().is_whole()), (40, true));
        }
    }
    for version in [(1, 2), (3, 0), (543, 1)] {
        let bytes = classic(0xa1b2_c3d4, version, false, 1, |_| false);
        assert!(Capture::open(&bytes[..]).is_err(), "{version:?}");
    }
}

#[test]
fn kuznetsovs_variant_has_more_before_each_packet() {
    let bytes = classic(0xa1b2_cd34, (2, 4), false, 40, |_| false);
    let mut capture = Capture::open(&bytes[..]).unwrap();
    let mut packets = 0;
    while let Some(record) = capture.next_record().unwrap() {
        assert_eq!(
            (record.original_length, record.data),
            (40, &[packets; 20][..])
        );
        packets += 1;
    }
    assert_eq!((packets, capture.integrity().is_whole()), (40, true));
}

#[test]
fn pcapng_of_both_orders_with_sections_and_comments() {
    for big_endian in [false, true] {
        let taps = [("client.tx", 101), ("client.rx", 1)];
        let mut writer = CaptureWriter::pcapng_in_order(&taps, big_endian);
        writer.packet(1, 77, PACKET, Some("drop=loss"));
        // Name resolution blocks and unknown blocks contain no packet.
        writer.block(4, &[0; 12]);
        writer.block(0x0bad, b"another vendor's");
        writer.section();
        writer.interface("eth0", 1, 6, 10);
        writer.cut_packet(0, 1_000_001, PACKET, 7, None);
        let (seen, integrity, interfaces) = read(writer.bytes());
        assert_eq!(integrity, Integrity::Whole);
        let names: Vec<_> = interfaces.iter().map(|i| i.name.as_deref()).collect();
        assert_eq!(names, [Some("client.tx"), Some("client.rx"), Some("eth0")]);
        let comments = vec!["drop=loss".to_owned()];
        assert_eq!(seen[0], (1, Some(77), 24, PACKET.to_vec(), comments));
        let stamp = Some(11_000_001_000);
        assert_eq!(seen[1], (2, stamp, 24, PACKET[..7].to_vec(), vec![]));
    }
}

#[test]
fn sections_may_differ_in_byte_order() {
    let mut writer = CaptureWriter::pcapng_in_order(&[("one", 101)], true);
    writer.packet(0, 1, PACKET, None);
    let mut bytes = writer.into_bytes();
    let mut writer = CaptureWriter::pcapng_in_order(&[("other", 101)], false);
    writer.packet(0, 2, PACKET, None);
    bytes.extend(writer.bytes());
    let (seen, integrity, interfaces) = read(&bytes);
    assert_eq!(integrity, Integrity::Whole);
    assert_eq!(
        seen.iter().map(|s| s.1).collect::<Vec<_>>(),
        [Some(1), Some(2)]
    );
    assert_eq!(interfaces[1].name.as_deref(), Some("other"));
}

#[test]
fn simple_and_obsolete_packet_blocks_are_packets() {
    let mut writer = CaptureWriter::pcapng(&[("eth0", 1)]);
    let simple = [&24u32.to_le_bytes()[..], PACKET].concat();
    writer.block(3, &simple);
    let obsolete = [
        &[0, 0, 0, 0][..],
        &0u32.to_le_bytes(),
        &9u32.to_le_bytes(),
        &24u32.to_le_bytes(),
        &30u32.to_le_bytes(),
        PACKET,
    ];
    writer.block(2, &obsolete.concat());
    let (seen, integrity, _) = read(writer.bytes());
    assert_eq!(integrity, Integrity::Whole);
    assert_eq!(seen[0], (0, None, 24, PACKET.to_vec(), vec![]));
    assert_eq!(seen[1], (0, Some(9), 30, PACKET.to_vec(), vec![]));
}

#[test]
fn a_simple_packet_is_no_longer_than_the_snap_length() {
    let mut writer = CaptureWriter::pcapng(&[]);
    let interface = [&[101, 0, 0, 0][..], &8u32.to_le_bytes()].concat();
    writer.block(1, &interface);
    writer.block(3, &[&24u32.to_le_bytes()[..], &PACKET[..8]].concat());
    let (seen, _, _) = read(writer.bytes());
    assert_eq!(seen[0], (0, None, 24, PACKET[..8].to_vec(), vec![]));
}

#[test]
fn interface_statistics_tell_what_the_capture_lost() {
    let mut writer = CaptureWriter::pcapng(&[("eth0", 1)]);
    let mut statistics = [0u8; 24].to_vec();
    statistics[12..16].copy_from_slice(&[5, 0, 8, 0]);
    statistics[16] = 42;
    writer.block(5, &statistics);
    let (_, integrity, interfaces) = read(writer.bytes());
    assert_eq!((integrity, interfaces[0].lost), (Integrity::Whole, 42));
}

#[test]
fn every_resolution_comes_to_nanoseconds() {
    let nanoseconds = |exponent, offset, ticks| Resolution { exponent, offset }.nanoseconds(ticks);
    assert_eq!(nanoseconds(0, 0, 3), 3_000_000_000);
    assert_eq!(nanoseconds(3, 1, 5), 1_005_000_000);
    assert_eq!(nanoseconds(6, 0, 5), 5_000);
    assert_eq!(nanoseconds(6, -1, 2_000_000), 1_000_000_000);
    assert_eq!(nanoseconds(9, 0, 5), 5);
    assert_eq!(nanoseconds(12, 0, 5_999), 5);
    assert_eq!(nanoseconds(0x80 | 10, 0, 512), 500_000_000);
    assert_eq!(nanoseconds(0x80, 0, 2), 2_000_000_000);
    // Times outside the range of 64-bit nanoseconds are clamped.
    assert_eq!(nanoseconds(0, 0, u64::MAX), u64::MAX);
    assert_eq!(nanoseconds(6, i64::MIN, 5), 0);
    assert_eq!(nanoseconds(127, 0, u64::MAX), 0);
    assert_eq!(nanoseconds(255, i64::MAX, u64::MAX), u64::MAX);
}

#[test]
fn a_file_cut_anywhere_gives_what_was_whole() {
    let mut pcapng = CaptureWriter::pcapng(&[("eth0", 1)]);
    let mut pcap = CaptureWriter::pcap(1, true, false);
    let mut ends = [vec![pcapng.bytes().len()], vec![pcap.bytes().len()]];
    for n in 0..3 {
        pcapng.packet(0, n, PACKET, Some("a comment"));
        pcap.packet(0, n, PACKET, None);
        ends[0].push(pcapng.bytes().len());
        ends[1].push(pcap.bytes().len());
    }
    for (bytes, ends) in [pcapng.bytes(), pcap.bytes()].into_iter().zip(ends) {
        for cut in ends[0]..bytes.len() {
            let (seen, integrity, _) = read(&bytes[..cut]);
            let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
            assert_eq!(seen.len(), whole, "cut at {cut}");
            let expected = match ends.contains(&cut) {
                true => Integrity::Whole,
                false => Integrity::Truncated {
                    offset: ends[whole] as u64,
                },
            };
            assert_eq!(integrity, expected);
        }
    }
}

#[test]
fn damage_says_where_it_is() {
    let mut writer = CaptureWriter::pcapng(&[("eth0", 1)]);
    writer.packet(0, 1, PACKET, None);
    let good = writer.bytes().len();
    writer.packet(7, 1, PACKET, None);
    let (seen, integrity, _) = read(writer.bytes());
    assert_eq!(seen.len(), 1);
    assert_eq!(
        integrity.to_string(),
        format!(
            "the file is damaged at byte {good}: a packet refers to interface 7, which is not declared"
        )
    );
    let mut bytes = writer.bytes()[..good].to_vec();
    bytes[good - 4] ^= 4;
    let (seen, integrity, _) = read(&bytes);
    assert!(seen.is_empty());
    assert!(
        matches!(integrity, Integrity::Damaged { what, .. } if what.contains("trailing length"))
    );
}

#[test]
fn a_file_that_is_not_a_capture_is_refused_with_its_first_bytes() {
    let error = |bytes: &[u8]| Capture::open(bytes).err().unwrap().to_string();
    assert_eq!(error(b""), "the file is empty");
    assert!(error(b"GET / HTTP/1.0").contains("47 45 54 20"));
    assert!(error(&[0x1f, 0x8b, 8, 0]).contains("compressed file is truncated"));
    assert!(error(b"\xfd7zXZ\0").contains("xz"));
    assert!(error(&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0]).contains("byte 6"));
    assert!(
        error(&[[0xd4, 0xc3, 0xb2, 0xa1, 9, 0].as_slice(), &[0; 18]].concat())
            .contains("version 9")
    );
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstandard(bytes: &[u8]) -> Vec<u8> {
    let level = ruzstd::encoding::CompressionLevel::Fastest;
    ruzstd::encoding::compress_to_vec(bytes, level)
}

/// Builds a capture that compresses poorly.
fn many() -> Vec<u8> {
    let mut writer = CaptureWriter::pcapng(&[("eth0", 101)]);
    let mut state = 1u32;
    for n in 0..3_000 {
        let packet: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .take(100)
        .collect();
        writer.packet(0, n, &packet, None);
    }
    writer.into_bytes()
}

#[test]
fn a_flipped_bit_of_a_zstd_capture_is_noticed() {
    let bytes = many();
    let plain = read(&bytes);
    let whole = zstandard(&bytes);
    let mut damaged = whole.clone();
    let mut wrong = 0u32;
    for place in (20..whole.len()).step_by(9_973) {
        damaged[place] ^= 4;
        // Reading fails, or stops at the damage, or the changed bit has no effect.
        match try_read(&damaged) {
            Ok(seen) if seen.1 == Integrity::Whole => assert!(seen == plain, "{place}"),
            _ => wrong += 1,
        }
        damaged[place] ^= 4;
    }
    assert!(wrong > 10, "{wrong}");
}

#[test]
fn a_long_name_of_an_interface_is_cut() {
    let name = "n".repeat(60_000);
    let mut writer = CaptureWriter::pcapng(&[(&name, 101)]);
    writer.packet(0, 0, &[0x45; 20], None);
    let (_, _, interfaces) = read(&writer.into_bytes());
    assert_eq!(interfaces[0].name.as_deref().map(str::len), Some(256));
}

#[test]
fn compressed_captures_are_read_as_they_were() {
    let bytes = many();
    let plain = read(&bytes);
    let half = bytes.len() / 2;
    let skippable = [
        &[0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 9, 9, 9][..],
        &zstandard(&bytes),
    ];
    let captures = [
        gzipped(&bytes),
        // Several gzip members, or several Zstandard frames.
        [gzipped(&bytes[..half]), gzipped(&bytes[half..])].concat(),
        zstandard(&bytes),
        [zstandard(&bytes[..half]), zstandard(&bytes[half..])].concat(),
        skippable.concat(),
    ];
    for capture in captures {
        let compressed = read(&capture);
        assert_eq!(compressed.1, Integrity::Whole);
        assert!(compressed == plain);
        // A truncated file returns all packets before the cut, and the offset of the cut.
        let (seen, integrity, _) = read(&capture[..capture.len() * 2 / 3]);
        assert!(
            matches!(integrity, Integrity::Truncated { .. }),
            "{integrity:?}"
        );
        assert!((700..2_900).contains(&seen.len()), "{}", seen.len());
        assert_eq!(seen[..], plain.0[..seen.len()]);
    }
    let mut damaged = gzipped(&bytes);
    let middle = damaged.len() / 2;
    damaged[middle..middle + 64].fill(0x55);
    let (seen, integrity, _) = read(&damaged);
    assert!(
        matches!(integrity, Integrity::Damaged { .. }),
        "{integrity:?}"
    );
    assert!(seen.len() > 500, "{}", seen.len());
}

#[test]
fn an_announced_length_allocates_no_memory() {
    let mut bytes = CaptureWriter::pcap(1, false, false).into_bytes();
    bytes.extend([
        0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0,
    ]);
    let mut capture = Capture::open(&bytes[..]).unwrap();
    assert!(capture.next_record().unwrap().is_none());
    assert_eq!(capture.integrity(), &Integrity::Truncated { offset: 24 });
    assert!(capture.window.memory() <= 256 << 10);

    let mut bytes = CaptureWriter::pcapng(&[]).into_bytes();
    let offset = bytes.len() as u64;
    bytes.extend([0xad, 0x0b, 0, 0, 0xfc, 0xff, 0xff, 0xff, 1, 2, 3, 4]);
    let mut capture = Capture::open(&bytes[..]).unwrap();
    assert!(capture.next_record().unwrap().is_none());
    assert_eq!(capture.integrity(), &Integrity::Truncated { offset });
}

/// A reader that returns one byte per call, with an `Interrupted` error before each byte.
struct Dribble<'a>(&'a [u8], bool);

impl Read for Dribble<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        if self.1 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let (first, rest) = self.0.split_at(self.0.len().min(1));
        self.0 = rest;
        buffer[..first.len()].copy_from_slice(first);
        Ok(first.len())
    }
}

#[test]
fn a_slow_reader_gives_the_same() {
    let mut writer = CaptureWriter::pcapng(&[("eth0", 1)]);
    // This packet is larger than the window, so the window must grow and move.
    let large = vec![7; 300_000];
    writer.packet(0, 1, &large, None);
    writer.packet(0, 2, PACKET, None);
    let mut capture = Capture::open(Dribble(writer.bytes(), false)).unwrap();
    assert_eq!(capture.next_record().unwrap().unwrap().data, large);
    assert_eq!(capture.next_record().unwrap().unwrap().data, PACKET);
    assert!(capture.next_record().unwrap().is_none());
    assert_eq!(capture.integrity(), &Integrity::Whole);
}

#[test]
fn a_failing_reader_is_an_error_with_its_place() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let head = CaptureWriter::pcap(1, false, false).into_bytes();
    let mut capture = Capture::open(head.chain(Broken)).unwrap();
    let error = capture.next_record().unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed to read at byte 24: the disk is gone"
    );
}
