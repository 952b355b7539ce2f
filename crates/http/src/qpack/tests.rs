//! Tests of the examples of RFC 9204, of its rules, and of properties.

use proptest::prelude::*;

use super::*;
use crate::field_block::FieldBlock;
use crate::hexadecimal::bytes;

fn decode(decoder: &mut Decoder, stream: u64, section: &str) -> Result<Vec<String>, Error> {
    let mut fields = FieldBlock::default();
    match decoder.decode(stream, &bytes(section), &mut fields)? {
        Decoded::Blocked => Ok(vec!["blocked".to_owned()]),
        Decoded::Fields => Ok(fields
            .iter()
            .map(|(name, value)| {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                format!("{}={}", text(name), text(value))
            })
            .collect()),
    }
}

fn instructions(decoder: &mut Decoder) -> Vec<u8> {
    let mut out = Vec::new();
    decoder.write_instructions(&mut out);
    assert!(!decoder.has_instructions());
    out
}

/// The examples of RFC 9204 appendix B, from B.1 to B.5, on one connection.
#[test]
fn the_examples_of_the_rfc() {
    let mut decoder = Decoder::new(220, 1, 1 << 16);
    let fields = decode(&mut decoder, 0, "0000 510b 2f69 6e64 6578 2e68 746d 6c").unwrap();
    assert_eq!(fields, [":path=/index.html"]);
    assert!(instructions(&mut decoder).is_empty());

    let section = "0381 10 11";
    assert_eq!(decode(&mut decoder, 4, section).unwrap(), ["blocked"]);
    assert_eq!(decoder.unblocked(), None);
    let inserts = "3fbd01 c00f 7777 772e 6578 616d 706c 652e 636f 6d c10c 2f73 616d 706c 652f 7061
                   7468";
    decoder.handle_instructions(&bytes(inserts)).unwrap();
    assert_eq!(decoder.unblocked(), Some(4));
    assert_eq!(decoder.unblocked(), None);
    let fields = decode(&mut decoder, 4, section).unwrap();
    assert_eq!(fields, [":authority=www.example.com", ":path=/sample/path"]);
    assert_eq!(instructions(&mut decoder), bytes("84"));

    let insert = "4a63 7573 746f 6d2d 6b65 790c 6375 7374 6f6d 2d76 616c 7565";
    for byte in bytes(insert) {
        decoder.handle_instructions(&[byte]).unwrap();
    }
    assert_eq!(instructions(&mut decoder), bytes("01"));

    let section = "0500 80 c1 81";
    assert_eq!(decode(&mut decoder, 8, section).unwrap(), ["blocked"]);
    decoder.cancel(8);
    assert_eq!(instructions(&mut decoder), bytes("48"));
    decoder.handle_instructions(&bytes("02")).unwrap();
    assert_eq!(decoder.unblocked(), None, "it was cancelled");
    let fields = decode(&mut decoder, 12, section).unwrap();
    let expected = [
        ":authority=www.example.com",
        ":path=/",
        "custom-key=custom-value",
    ];
    assert_eq!(fields, expected);

    let insert = "810d 6375 7374 6f6d 2d76 616c 7565 32";
    decoder.handle_instructions(&bytes(insert)).unwrap();
    assert_eq!(instructions(&mut decoder), bytes("8c 01"));
    // The first entry is evicted. Two sections refer to the newest entry: one has its base before that entry, the other
    // after it.
    let gone = decode(&mut decoder, 16, "0600 84");
    assert_eq!(gone, Err(Error::Section(Fault::UnknownIndex)));
    let fields = decode(&mut decoder, 16, "0600 80").unwrap();
    assert_eq!(fields, ["custom-key=custom-value2"]);
    let fields = decode(&mut decoder, 16, "0680 10").unwrap();
    assert_eq!(fields, ["custom-key=custom-value2"]);
}

#[test]
fn each_fault_of_a_section_has_its_error() {
    for (section, fault) in [
        ("", Fault::Truncated),
        ("00", Fault::Truncated),
        ("0000 51", Fault::Truncated),
        ("0000 51 05 61", Fault::Truncated),
        ("0000 51 81 00", Fault::BadHuffman),
        ("0000 ff24", Fault::UnknownIndex),
        ("0000 80", Fault::UnknownIndex),
        ("0000 10", Fault::UnknownIndex),
        (
            "0000 ff ffff ffff ffff ffff ffff 7f",
            Fault::IntegerTooLarge,
        ),
        // At most six entries: 13 is not a valid required insert count, and neither is a count that is too far
        // behind.
        ("0e00 80", Fault::BadPrefix),
        ("0900 80", Fault::BadPrefix),
        ("0080 d1", Fault::BadPrefix),
        // The required insert count covers one entry, and the section refers to another entry.
        ("0201 80", Fault::UnknownIndex),
        ("0200 10", Fault::UnknownIndex),
        ("0281 10", Fault::BadPrefix),
    ] {
        let mut decoder = Decoder::new(200, 1, 1 << 16);
        let setup = bytes("3fa901 41 61 01 62");
        decoder.handle_instructions(&setup).unwrap();
        let result = decode(&mut decoder, 0, section);
        assert_eq!(result, Err(Error::Section(fault)), "{section}");
    }
    let mut decoder = Decoder::new(200, 1, 1 << 16);
    assert_eq!(decode(&mut decoder, 0, "0200 80").unwrap(), ["blocked"]);
    assert_eq!(decode(&mut decoder, 0, "0300 80").unwrap(), ["blocked"]);
    let second = decode(&mut decoder, 4, "0200 80");
    assert_eq!(second, Err(Error::Section(Fault::TooManyBlocked)));
}

#[test]
fn each_fault_of_an_instruction_has_its_error() {
    for (input, fault) in [
        ("3faa01", Fault::TableTooLarge),
        ("c0 01 61", Fault::EntryTooLarge),
        ("3fa901 ff24 00", Fault::UnknownIndex),
        ("3fa901 80 00", Fault::UnknownIndex),
        ("3fa901 00", Fault::UnknownIndex),
        ("3fa901 61 00 00", Fault::BadHuffman),
        ("3fa901 41 61 7fff 7f", Fault::EntryTooLarge),
        ("3fa901 5fff 7f", Fault::EntryTooLarge),
        ("3fff ffff ffff ffff ffff 7f", Fault::IntegerTooLarge),
        ("3f 8080 8080 8080 8080 8080 00", Fault::IntegerTooLarge),
    ] {
        let mut decoder = Decoder::new(200, 1, 1 << 16);
        let result = decoder.handle_instructions(&bytes(input));
        assert_eq!(result, Err(Error::EncoderStream(fault)), "{input}");
    }
    for (input, fault) in [
        ("00", Fault::BadIncrement),
        ("02", Fault::BadIncrement),
        ("84", Fault::UnknownSection),
        ("3fff ffff ffff ffff ffff 7f", Fault::IntegerTooLarge),
    ] {
        let mut encoder = Encoder::new(EncoderPolicy::default());
        encoder.handle_settings(4096, 0);
        encoder.begin(0);
        encoder.encode(b"x-a", b"b", Indexing::Yes);
        encoder.finish(&mut Vec::new());
        let result = encoder.handle_instructions(&bytes(input));
        assert_eq!(result, Err(Error::DecoderStream(fault)), "{input}");
    }
}

/// Returns the encoded field section of a stream, and the instructions to send before it.
fn encode(encoder: &mut Encoder, stream: u64, fields: &[(&str, &str)]) -> (Vec<u8>, Vec<u8>) {
    let (mut section, mut before) = (Vec::new(), Vec::new());
    encoder.begin(stream);
    for (name, value) in fields {
        encoder.encode(name.as_bytes(), value.as_bytes(), Indexing::Yes);
    }
    encoder.finish(&mut section);
    encoder.write_instructions(&mut before);
    (section, before)
}

#[test]
fn without_blocking_entries_are_used_only_once_acknowledged() {
    let mut encoder = Encoder::new(EncoderPolicy::default());
    encoder.handle_settings(4096, 100);
    let fields = [("x-key", "value"), (":method", "GET")];
    let (first, before) = encode(&mut encoder, 0, &fields);
    assert_eq!(first[..2], [0, 0], "nothing is required");
    assert!(!before.is_empty());
    // Without an acknowledgement the entry is neither used nor inserted again.
    assert_eq!(encode(&mut encoder, 4, &fields), (first, Vec::new()));
    encoder.handle_instructions(&[1]).unwrap();
    let (second, before) = encode(&mut encoder, 8, &fields);
    assert_eq!(
        (&second[..], &before[..]),
        (&bytes("0200 80 d1")[..], &[][..])
    );
    assert_eq!(encoder.outstanding(), 1);
}

#[test]
fn with_blocking_at_most_the_permitted_streams_can_block() {
    let mut encoder = Encoder::new(EncoderPolicy {
        may_block: true,
        ..EncoderPolicy::default()
    });
    encoder.handle_settings(4096, 2);
    let fields = [("x-key", "value")];
    for stream in [0, 4] {
        let (section, _) = encode(&mut encoder, stream, &fields);
        assert_eq!(section[0], 2, "one entry is required");
    }
    let (third, _) = encode(&mut encoder, 8, &fields);
    assert_eq!(third[..2], [0, 0]);
    // Stream 4 is acknowledged, so no stream can be blocked any more.
    encoder.handle_instructions(&[0x84]).unwrap();
    assert_eq!(encode(&mut encoder, 8, &fields).0, bytes("0200 80"));
    // Stream 0 is cancelled, and cannot be acknowledged afterwards.
    encoder.handle_instructions(&[0x40]).unwrap();
    assert_eq!(encoder.outstanding(), 1);
    let late = encoder.handle_instructions(&[0x80]);
    assert_eq!(late, Err(Error::DecoderStream(Fault::UnknownSection)));
}

#[test]
fn entries_referenced_by_a_section_are_not_evicted() {
    let mut encoder = Encoder::new(EncoderPolicy {
        may_block: true,
        ..EncoderPolicy::default()
    });
    encoder.handle_settings(100, 100);
    let (_, before) = encode(&mut encoder, 0, &[("x-one", "0123456789")]);
    assert!(!before.is_empty());
    // There is room for two entries, not for three.
    let (_, before) = encode(&mut encoder, 4, &[("x-two", "0123456789")]);
    assert!(!before.is_empty());
    let (section, before) = encode(&mut encoder, 8, &[("x-six", "0123456789")]);
    assert!(before.is_empty() && section[..2] == [0, 0]);
    encoder.handle_instructions(&[0x80]).unwrap();
    let (section, before) = encode(&mut encoder, 8, &[("x-six", "0123456789")]);
    assert!(!before.is_empty() && section[0] == 4);
}

#[test]
fn never_indexed_fields_do_not_use_the_tables() {
    let mut encoder = Encoder::new(EncoderPolicy {
        may_block: true,
        ..EncoderPolicy::default()
    });
    encoder.handle_settings(4096, 100);
    encode(&mut encoder, 0, &[("x-key", "value")]);
    let mut section = Vec::new();
    encoder.begin(4);
    encoder.encode(b"x-key", b"value", Indexing::Never);
    encoder.encode(b":method", b"GET", Indexing::Never);
    encoder.encode(b"x-new", b"v", Indexing::Never);
    encoder.finish(&mut section);
    assert!(!encoder.has_instructions(), "nothing was inserted");
    // Literals with the never-indexed bit: names from both tables, and a literal name.
    assert_eq!(section[2], 0b0110_0000);
    let mut decoder = Decoder::new(4096, 100, 1 << 16);
    let mut fields = FieldBlock::default();
    let mut again = Encoder::new(EncoderPolicy {
        may_block: true,
        ..EncoderPolicy::default()
    });
    again.handle_settings(4096, 100);
    let (_, inserts) = encode(&mut again, 0, &[("x-key", "value")]);
    decoder.handle_instructions(&inserts).unwrap();
    let result = decoder.decode(4, &section, &mut fields);
    assert_eq!(result, Ok(Decoded::Fields));
    assert_eq!(fields.len(), 3);
}

proptest! {
    /// Field sections and instructions arrive in any order that QUIC permits.
    #[test]
    fn encoded_sections_are_decoded_back(
        sections in prop::collection::vec(prop::collection::vec((0u8..12, 0u8..6, 0u8..6), 0..10), 1..30),
        delays in prop::collection::vec(0usize..4, 30),
        capacity in 0u32..600,
        blocked in 0u16..5,
        may_block in any::<bool>(),
    ) {
        let mut encoder = Encoder::new(EncoderPolicy { table: 500, may_block, outstanding: 10 });
        encoder.handle_settings(u64::from(capacity), u64::from(blocked));
        let mut decoder = Decoder::new(capacity, blocked, 1 << 16);
        let mut flying: Vec<u8> = Vec::new();
        let mut waiting: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut decoded = 0;
        let mut check = |decoder: &mut Decoder, stream: u64, wire: &[u8]| {
            let mut fields = FieldBlock::default();
            let result = decoder.decode(stream, wire, &mut fields).unwrap();
            if result == Decoded::Fields {
                let expected: Vec<_> = sections[stream as usize / 4].iter().map(field).collect();
                assert!(fields.iter().eq(expected.iter().map(|(n, v)| (&n[..], &v[..]))));
                decoded += 1;
            }
            result == Decoded::Fields
        };
        for (place, section) in sections.iter().enumerate() {
            let stream = 4 * place as u64;
            let mut wire = Vec::new();
            encoder.begin(stream);
            for line in section {
                let (name, value) = field(line);
                let indexing = [Indexing::Yes, Indexing::Yes, Indexing::Yes, Indexing::Yes, Indexing::No, Indexing::Never];
                encoder.encode(&name, &value, indexing[usize::from(line.2)]);
            }
            encoder.finish(&mut wire);
            encoder.write_instructions(&mut flying);
            if !check(&mut decoder, stream, &wire) {
                waiting.push((stream, wire));
            }
            if delays[place] == 0 {
                decoder.handle_instructions(&std::mem::take(&mut flying)).unwrap();
            } else if delays[place] == 1 {
                let half = flying.len() / 2;
                decoder.handle_instructions(&flying[..half]).unwrap();
                flying.drain(..half);
            }
            while let Some(stream) = decoder.unblocked() {
                let at = waiting.iter().position(|(other, _)| *other == stream).unwrap();
                let (_, wire) = waiting.remove(at);
                prop_assert!(check(&mut decoder, stream, &wire));
            }
            if delays[place] != 3 {
                let mut answers = Vec::new();
                decoder.write_instructions(&mut answers);
                encoder.handle_instructions(&answers).unwrap();
            }
        }
        decoder.handle_instructions(&flying).unwrap();
        while let Some(stream) = decoder.unblocked() {
            let at = waiting.iter().position(|(other, _)| *other == stream).unwrap();
            let (_, wire) = waiting.remove(at);
            prop_assert!(check(&mut decoder, stream, &wire));
        }
        prop_assert_eq!(decoded, sections.len());
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(input in prop::collection::vec(any::<u8>(), 0..600)) {
        fuzz(&input);
    }
}

fn field(&(name, value, _): &(u8, u8, u8)) -> (Vec<u8>, Vec<u8>) {
    let name = match name {
        0 => ":status".to_owned(),
        1 => "content-type".to_owned(),
        _ => format!("x-name-{name}"),
    };
    let value = match value {
        0 => "200".to_owned(),
        _ => "v".repeat(usize::from(value) * 9),
    };
    (name.into_bytes(), value.into_bytes())
}
