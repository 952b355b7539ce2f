//! Fuzzing: feeds a decoder arbitrary input.

use super::{Decoder, Encoder, Error, Indexing};
use crate::field_block::FieldBlock;

/// The largest field section of the tested decoder, in bytes.
const SECTION: u64 = 2000;
/// The largest dynamic table of the tested decoder, in bytes.
const TABLE: u32 = 4096;

/// An entry point for fuzzing. The input consists of blocks: one byte for the length, and that many bytes.
/// Panics in these cases:
/// - the decoded section exceeds its limit;
/// - the decoder's memory exceeds its bound;
/// - encoding and decoding the decoded fields does not return the same fields.
pub fn fuzz(data: &[u8]) {
    let mut decoder = Decoder::new(TABLE, SECTION);
    let mut encoder = Encoder::new(TABLE);
    let mut mirror = Decoder::new(TABLE, SECTION);
    let (mut fields, mut again, mut coded) = Default::default();
    let mut rest = data;
    while let Some((&length, after)) = rest.split_first() {
        // The length 255 means all remaining bytes, so that a block can be longer than 254 bytes.
        let length = match length {
            255 => after.len(),
            length => usize::from(length).min(after.len()),
        };
        let (block, after) = after.split_at(length);
        rest = after;
        FieldBlock::clear(&mut fields);
        let decoded = decoder.decode(block, &mut fields);
        let size = fields.bytes().0 + 32 * fields.len() as u64;
        assert!(size <= SECTION, "a section of {size} bytes");
        match decoded {
            Ok(()) | Err(Error::SectionTooLarge) => {
                round_trip(&fields, &mut encoder, &mut mirror, &mut coded, &mut again);
            }
            Err(_) => return,
        }
    }
}

fn round_trip(
    fields: &FieldBlock,
    encoder: &mut Encoder,
    decoder: &mut Decoder,
    coded: &mut Vec<u8>,
    again: &mut FieldBlock,
) {
    coded.clear();
    again.clear();
    encoder.begin(coded);
    for (place, (name, value)) in fields.iter().enumerate() {
        let indexing = match (name.len() + place) % 4 {
            0 => Indexing::No,
            1 => Indexing::Never,
            _ => Indexing::Yes,
        };
        encoder.encode(name, value, indexing, coded);
    }
    assert_eq!(decoder.decode(coded, again), Ok(()));
    assert!(fields.iter().eq(again.iter()));
}
