//! Fuzzing: feeds encoder and decoder arbitrary input.

use super::{Decoded, Decoder, Encoder, EncoderPolicy, Error, Indexing};
use crate::field_block::FieldBlock;

/// The largest field section of the tested decoder, in bytes.
const SECTION: u64 = 2000;
/// The largest dynamic table of the tested decoder, in bytes.
const TABLE: u32 = 1000;
/// The number of streams that may be blocked.
const BLOCKED: u16 = 3;

/// An entry point for fuzzing. The input consists of pieces: one byte for the kind and the length, and that
/// many bytes. A piece belongs to the encoder stream or to the decoder stream, or is a field section of one of
/// four streams. Panics in these cases:
/// - a limit is exceeded;
/// - an unblocked stream is not decoded;
/// - the result depends on how instructions are split;
/// - encoding and decoding the decoded fields does not return the same fields.
pub fn fuzz(data: &[u8]) {
    let mut decoder = Decoder::new(TABLE, BLOCKED, SECTION);
    let mut in_bytes = decoder.clone();
    let mut waiting: [Option<Vec<u8>>; 4] = Default::default();
    let mut pair = Pair::new();
    let mut rest = data;
    while let Some((&what, after)) = rest.split_first() {
        let length = usize::from(what >> 3).min(after.len());
        let (piece, after) = after.split_at(length);
        rest = after;
        let alive = match what & 7 {
            0..=2 => {
                let whole = decoder.handle_instructions(piece);
                let cut = piece
                    .iter()
                    .try_for_each(|byte| in_bytes.handle_instructions(&[*byte]));
                assert_eq!(whole, cut);
                whole.is_ok() && wake(&mut decoder, &mut in_bytes, &mut waiting, &mut pair)
            }
            3 => {
                // Arbitrary decoder instructions make the encoder's state useless, so the run stops here.
                let result = pair.encoder.handle_instructions(piece);
                assert!(result.is_ok() || result.is_err_and(Error::is_fatal));
                return;
            }
            stream => {
                let stream = usize::from(stream - 4);
                waiting[stream].is_some()
                    || read(
                        &mut decoder,
                        &mut in_bytes,
                        stream,
                        piece,
                        &mut waiting,
                        &mut pair,
                    )
            }
        };
        if !alive {
            return;
        }
        assert!(decoder.blocked() <= usize::from(BLOCKED));
    }
    let (mut one, mut other) = (Vec::new(), Vec::new());
    decoder.write_instructions(&mut one);
    in_bytes.write_instructions(&mut other);
    assert_eq!(one, other);
}

/// Decodes sections that are no longer blocked.
fn wake(
    decoder: &mut Decoder,
    in_bytes: &mut Decoder,
    waiting: &mut [Option<Vec<u8>>; 4],
    pair: &mut Pair,
) -> bool {
    while let Some(stream) = decoder.unblocked() {
        assert_eq!(in_bytes.unblocked(), Some(stream));
        let Some(section) = waiting[stream as usize].take() else {
            panic!("stream {stream} was not blocked");
        };
        if !read(decoder, in_bytes, stream as usize, &section, waiting, pair) {
            return false;
        }
        assert!(
            waiting[stream as usize].is_none(),
            "stream {stream} is blocked again"
        );
    }
    true
}

fn read(
    decoder: &mut Decoder,
    in_bytes: &mut Decoder,
    stream: usize,
    section: &[u8],
    waiting: &mut [Option<Vec<u8>>; 4],
    pair: &mut Pair,
) -> bool {
    let (mut fields, mut again) = (FieldBlock::default(), FieldBlock::default());
    let result = decoder.decode(stream as u64, section, &mut fields);
    let same = in_bytes.decode(stream as u64, section, &mut again);
    assert_eq!(result, same);
    match result {
        Ok(Decoded::Blocked) => {
            waiting[stream] = Some(section.to_vec());
            true
        }
        Ok(Decoded::Fields) | Err(Error::SectionTooLarge) => {
            let size = fields.bytes().0 + 32 * fields.len() as u64;
            assert!(size <= SECTION, "a section of {size} bytes");
            assert!(fields.iter().eq(again.iter()));
            pair.round_trip(&fields);
            true
        }
        Err(_) => false,
    }
}

/// An encoder and its peer, which receives all output at once.
struct Pair {
    encoder: Encoder,
    decoder: Decoder,
    stream: u64,
}

impl Pair {
    fn new() -> Pair {
        let mut encoder = Encoder::new(EncoderPolicy {
            table: TABLE,
            may_block: true,
            outstanding: 4,
        });
        encoder.handle_settings(u64::from(TABLE), u64::from(BLOCKED));
        Pair {
            encoder,
            decoder: Decoder::new(TABLE, BLOCKED, SECTION),
            stream: 0,
        }
    }

    fn round_trip(&mut self, fields: &FieldBlock) {
        let (mut section, mut before, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        self.encoder.begin(self.stream);
        for (place, (name, value)) in fields.iter().enumerate() {
            let indexing = match (name.len() + place) % 4 {
                0 => Indexing::No,
                1 => Indexing::Never,
                _ => Indexing::Yes,
            };
            self.encoder.encode(name, value, indexing);
        }
        self.encoder.finish(&mut section);
        self.encoder.write_instructions(&mut before);
        let mut again = FieldBlock::default();
        assert_eq!(self.decoder.handle_instructions(&before), Ok(()));
        let result = self.decoder.decode(self.stream, &section, &mut again);
        assert_eq!(result, Ok(Decoded::Fields));
        assert!(fields.iter().eq(again.iter()));
        self.decoder.write_instructions(&mut answers);
        assert_eq!(self.encoder.handle_instructions(&answers), Ok(()));
        assert_eq!(self.encoder.outstanding(), 0);
        self.stream += 4;
    }
}
