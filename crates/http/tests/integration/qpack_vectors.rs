//! QPACK: decodes the output of six other encoders (`tests/qpack/README.md`), and of this crate's encoder for the same
//! field sections.

use std::collections::BTreeMap;

use fathometer_http::field_block::FieldBlock;
use fathometer_http::qpack::{Decoded, Decoder, Encoder, EncoderPolicy, Indexing};

const FILES: [(&str, &str, &str); 2] = [
    (
        "netbsd-hq",
        include_str!("../qpack/netbsd-hq.fields.txt"),
        include_str!("../qpack/netbsd-hq.blocks.txt"),
    ),
    (
        "fb-resp-hq",
        include_str!("../qpack/fb-resp-hq.fields.txt"),
        include_str!("../qpack/fb-resp-hq.blocks.txt"),
    ),
];

/// Returns the instruction that sets a table's capacity, which must be above 30. These encoders implement drafts of
/// QPACK, in which the table has its announced capacity from the start.
fn set_capacity(capacity: u64) -> Vec<u8> {
    let mut out = vec![0x3f];
    let mut rest = capacity - 31;
    while rest >= 0x80 {
        out.push(0x80 | rest as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
    out
}

type Section<'a> = Vec<(&'a str, &'a str)>;

fn sections(text: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for line in text.lines() {
        match line.split_once('\t') {
            Some(field) => sections.last_mut().unwrap().push(field),
            None => sections.push(Vec::new()),
        }
    }
    sections
}

fn bytes(hexadecimal: &str) -> Vec<u8> {
    (0..hexadecimal.len())
        .step_by(2)
        .map(|place| u8::from_str_radix(&hexadecimal[place..place + 2], 16).unwrap())
        .collect()
}

fn assert_fields(block: &FieldBlock, section: &Section<'_>, what: &str) {
    let expected = section.iter();
    let expected = expected.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    assert!(block.iter().eq(expected), "{what}: {block:?}");
}

/// Decodes all sections and instructions in the order of writing, instructions in pieces of `piece` bytes. Returns the
/// number of field sections.
fn decode_all(piece: usize) -> usize {
    let mut decoded = 0;
    for (file, fields, blocks) in FILES {
        let sections = sections(fields);
        for connection in blocks.split("connection ").skip(1) {
            let (head, lines) = connection.split_once('\n').unwrap();
            let words: Vec<&str> = head.split(' ').collect();
            let capacity = words[1].parse().unwrap();
            let mut decoder = Decoder::new(capacity, 1000, 1 << 20);
            let instruction = set_capacity(u64::from(capacity));
            decoder.handle_instructions(&instruction).unwrap();
            let mut waiting: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
            let mut read = |decoder: &mut Decoder, stream: u64, wire: &[u8]| {
                let what = format!("{file}, section {stream}, by {head}");
                let mut block = FieldBlock::default();
                match decoder.decode(stream, wire, &mut block) {
                    Ok(Decoded::Fields) => {
                        assert_fields(&block, &sections[stream as usize - 1], &what);
                        decoded += 1;
                        true
                    }
                    Ok(Decoded::Blocked) => false,
                    Err(error) => panic!("{what}: {error}"),
                }
            };
            for line in lines.lines() {
                let (stream, wire) = line.split_once(' ').unwrap();
                let (stream, wire) = (stream.parse().unwrap(), bytes(wire));
                if stream != 0 {
                    if !read(&mut decoder, stream, &wire) {
                        waiting.insert(stream, wire);
                    }
                    continue;
                }
                for piece in wire.chunks(piece) {
                    decoder.handle_instructions(piece).unwrap();
                    while let Some(stream) = decoder.unblocked() {
                        let wire = waiting.remove(&stream).unwrap();
                        assert!(read(&mut decoder, stream, &wire));
                    }
                }
            }
            assert!(waiting.is_empty() && decoder.blocked() == 0);
        }
    }
    decoded
}

#[test]
fn sections_of_other_encoders_are_decoded() {
    assert_eq!(decode_all(usize::MAX), SECTIONS);
    assert_eq!(decode_all(1), SECTIONS);
}

/// The number of field sections of all connections in the files.
const SECTIONS: usize = 484;

#[test]
fn sections_wait_for_their_entries() {
    // The instructions can arrive after all sections only if no entry is evicted between the sections.
    let (mut decoded, mut waited) = (0, 0);
    for (file, fields, blocks) in FILES {
        let sections = sections(fields);
        for connection in blocks.split("connection ").skip(1) {
            let (head, lines) = connection.split_once('\n').unwrap();
            if head.contains(" 4096 ") {
                let counts = last_first(file, head, lines, &sections);
                (decoded, waited) = (decoded + counts.0, waited + counts.1);
            }
        }
    }
    assert!(
        decoded > 100 && waited > 100,
        "{decoded} sections decoded, {waited} sections waited"
    );
}

/// Decodes the field sections first, then all instructions.
fn last_first(file: &str, head: &str, lines: &str, sections: &[Section<'_>]) -> (usize, usize) {
    let mut decoder = Decoder::new(4096, 1000, 1 << 20);
    let mut waiting: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut instructions = set_capacity(4096);
    let mut decoded = 0;
    for line in lines.lines() {
        let (stream, wire) = line.split_once(' ').unwrap();
        let (stream, wire) = (stream.parse().unwrap(), bytes(wire));
        if stream == 0 {
            instructions.extend(wire);
            continue;
        }
        let mut block = FieldBlock::default();
        match decoder.decode(stream, &wire, &mut block).unwrap() {
            Decoded::Fields => decoded += 1,
            Decoded::Blocked => {
                waiting.insert(stream, wire);
            }
        }
    }
    let waited = waiting.len();
    assert_eq!(decoder.blocked(), waited);
    decoder.handle_instructions(&instructions).unwrap();
    while let Some(stream) = decoder.unblocked() {
        let what = format!("{file}, section {stream}, by {head}");
        let mut block = FieldBlock::default();
        let wire = waiting.remove(&stream).unwrap();
        let result = decoder.decode(stream, &wire, &mut block);
        assert_eq!(result, Ok(Decoded::Fields), "{what}");
        assert_fields(&block, &sections[stream as usize - 1], &what);
        decoded += 1;
    }
    assert!(waiting.is_empty());
    (decoded, waited)
}

#[test]
fn sections_of_this_encoder_are_decoded() {
    for (table, may_block) in [(0, false), (300, true), (4096, false), (4096, true)] {
        for (file, fields, _) in FILES {
            let mut encoder = Encoder::new(EncoderPolicy {
                table,
                may_block,
                outstanding: 100,
            });
            let mut decoder = Decoder::new(4096, 100, 1 << 20);
            encoder.handle_settings(4096, 100);
            let (mut wire, mut instructions, mut answers) = (Vec::new(), Vec::new(), Vec::new());
            let (mut plain, mut coded) = (0, 0);
            // Two passes: the second uses entries that the first inserts.
            let all = sections(fields);
            for (place, section) in all.iter().chain(&all).enumerate() {
                let stream = 4 * place as u64;
                wire.clear();
                instructions.clear();
                encoder.begin(stream);
                for (name, value) in section {
                    encoder.encode(name.as_bytes(), value.as_bytes(), Indexing::Yes);
                    plain += name.len() + value.len();
                }
                encoder.finish(&mut wire);
                encoder.write_instructions(&mut instructions);
                coded += wire.len() + instructions.len();
                let mut block = FieldBlock::default();
                let what = format!("{file}, section {place}, {table}, {may_block}");
                let mut result = decoder.decode(stream, &wire, &mut block);
                if result == Ok(Decoded::Blocked) {
                    assert!(may_block, "{what}");
                    decoder.handle_instructions(&instructions).unwrap();
                    assert_eq!(decoder.unblocked(), Some(stream));
                    result = decoder.decode(stream, &wire, &mut block);
                } else {
                    decoder.handle_instructions(&instructions).unwrap();
                }
                assert_eq!(result, Ok(Decoded::Fields), "{what}");
                assert_fields(&block, section, &what);
                answers.clear();
                decoder.write_instructions(&mut answers);
                encoder.handle_instructions(&answers).unwrap();
                assert_eq!(encoder.outstanding(), 0, "{what}");
            }
            let most = match table {
                0 => plain,
                300 => plain * 4 / 5,
                _ => plain * 3 / 5,
            };
            assert!(
                coded < most,
                "{file}, table {table}: {coded} bytes encoded, {plain} bytes plain"
            );
        }
    }
}
