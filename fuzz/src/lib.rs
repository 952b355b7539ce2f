//! What the fuzz targets share: an input that decides both what arrives and how it is cut.

use fathometer_model::Seed;

/// A fuzzer's input, read as a seed for the cuts and the octets to be cut.
///
/// The seed comes first, so that a mutation of the octets leaves the cuts alone.
pub struct Pieces<'a> {
    /// The octets.
    pub octets: &'a [u8],
    cuts: Seed,
}

impl<'a> Pieces<'a> {
    /// Splits an input; its first two octets are the seed of the cuts.
    pub fn new(input: &'a [u8]) -> Pieces<'a> {
        let (head, octets) = input.split_at(input.len().min(2));
        let seed = head
            .iter()
            .fold(0, |seed, &octet| seed << 8 | u64::from(octet));
        Pieces {
            octets,
            cuts: Seed(seed),
        }
    }

    /// The octets in pieces of 1 to `longest` octets.
    pub fn cut(&self, longest: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (cuts, mut rest, mut counter) = (self.cuts, self.octets, 0);
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            // Short pieces as often as long ones: most mistakes are made at a single octet.
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
