//! Content synthesis: generates bytes and text from a seed, with a stated compressibility.
//!
//! The compressibility of a body determines its number of packets. A synthetic site must therefore match the sizes of
//! the real site, both uncompressed and compressed. [`noise`] cannot be compressed, [`mixture`] compresses to a
//! fraction that the caller sets, and [`English`] compresses like prose.

mod draws;
mod english;
// With one word per line, the file would have a thousand lines.
#[rustfmt::skip]
mod words;

pub use draws::Draws;
pub use english::English;

use fathometer_model::Seed;

/// The length in bytes of the repeating run in [`mixture`].
const RUN: usize = 256;

/// Generates `length` bytes that no coding can compress.
pub fn noise(seed: Seed, length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 8);
    let mut counter = 0;
    while bytes.len() < length {
        bytes.extend_from_slice(&seed.draw(counter).to_le_bytes());
        counter += 1;
    }
    bytes.truncate(length);
    bytes
}

/// Generates `length` bytes that DEFLATE reduces to about `ratio` of their size.
///
/// Every run of 256 bytes begins with noise and ends with one repeated byte, in proportions that depend on `ratio`. The
/// result is within 0.03 of `ratio` for bodies of 4 KiB and more and ratios from 0.05 to 1. In shorter bodies the
/// header of the coding takes a larger share.
pub fn mixture(seed: Seed, length: usize, ratio: f64) -> Vec<u8> {
    // DEFLATE encodes a repeated run in about three bytes.
    let random = (RUN as f64 * ratio.clamp(0.0, 1.0) - 3.0).max(0.0) as usize;
    let mut bytes = noise(seed, length);
    if ratio < 1.0 {
        for run in bytes.chunks_mut(RUN) {
            if run.len() > random {
                run[random..].fill(b' ');
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use fathometer_model::ContentCoding;

    use super::*;
    use crate::coding::encode;

    fn ratio_of(body: &[u8]) -> f64 {
        encode(ContentCoding::Deflate, body).len() as f64 / body.len() as f64
    }

    #[test]
    fn noise_does_not_compress_and_has_the_requested_length() {
        for length in [0, 1, 7, 8, 9, 4096] {
            assert_eq!(noise(Seed(3), length).len(), length);
        }
        assert!(ratio_of(&noise(Seed(3), 65_536)) > 1.0);
        assert_ne!(noise(Seed(3), 64), noise(Seed(4), 64));
    }

    #[test]
    fn a_mixture_compresses_to_the_requested_ratio() {
        for percent in (5..=100).step_by(5) {
            let asked = f64::from(percent) / 100.0;
            for length in [4096, 100_000] {
                let body = mixture(Seed(9), length, asked);
                assert_eq!(body.len(), length);
                let got = ratio_of(&body);
                assert!(
                    (got - asked).abs() < 0.03,
                    "wanted ratio {asked}, got {got}, for {length} B"
                );
            }
        }
    }
}
