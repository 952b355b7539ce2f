//! Feeding a decoder anything at all.

use super::{Decoder, Encoder, Error, Indexing};
use crate::field_block::FieldBlock;

/// Octets of a section that the decoder under test takes.
const SECTION: u64 = 2000;
/// Octets of its table.
const TABLE: u32 = 4096;

/// An entry point for fuzzing: blocks, each an octet for its length and as many octets. Panics when
/// more fields are kept than may be, when the decoder's memory grows without bound, or when what was
/// decoded is not decoded again from what an encoder makes of it.
pub fn fuzz(data: &[u8]) {
    let mut decoder = Decoder::new(TABLE, SECTION);
    let mut encoder = Encoder::new(TABLE);
    let mut mirror = Decoder::new(TABLE, SECTION);
    let (mut fields, mut again, mut coded) = Default::default();
    let mut rest = data;
    while let Some((&length, after)) = rest.split_first() {
        // Long blocks too: an octet at the top of its range stands for all that is left.
        let length = match length {
            255 => after.len(),
            length => usize::from(length).min(after.len()),
        };
        let (block, after) = after.split_at(length);
        rest = after;
        FieldBlock::clear(&mut fields);
        let decoded = decoder.decode(block, &mut fields);
        let size = fields.octets().0 + 32 * fields.len() as u64;
        assert!(size <= SECTION, "a section of {size} octets");
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
