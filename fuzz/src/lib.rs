//! Shared code of the fuzz targets: an input that determines both the data and how it is cut.

pub mod figures;
pub mod package;
pub mod replacement;
pub mod v42bis;

use fathometer_model::Seed;

/// A fuzzer's input: a seed for the cuts, and the bytes to cut.
///
/// The seed comes first, so that a mutation of the bytes does not change the cuts.
pub struct Pieces<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    cuts: Seed,
}

impl<'a> Pieces<'a> {
    /// Splits an input; its first two bytes are the seed of the cuts.
    pub fn new(input: &'a [u8]) -> Pieces<'a> {
        let (head, bytes) = input.split_at(input.len().min(2));
        let seed = head
            .iter()
            .fold(0, |seed, &byte| seed << 8 | u64::from(byte));
        Pieces {
            bytes,
            cuts: Seed(seed),
        }
    }

    /// The bytes in pieces of 1 to `longest` bytes.
    pub fn cut(&self, longest: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (cuts, mut rest, mut counter) = (self.cuts, self.bytes, 0);
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            // Short pieces as often as long ones: most faults appear with pieces of one byte.
            let length = match cuts.draw(2 * counter) % 4 {
                0 => 1,
                _ => 1 + (cuts.draw(2 * counter + 1) % longest as u64) as usize,
            };
            counter += 1;
            let (piece, after) = rest.split_at(length.min(rest.len()));
            rest = after;
            Some(piece)
        })
    }
}
