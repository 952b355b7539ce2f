//! Baseline JPEG images (ITU-T T.81). The padding is comment segments of at most 65 533 bytes.

use std::sync::Arc;

use fathometer_model::{Body, Seed, SharedSlice};

use super::super::pool::{Framed, append_cyclic};
use crate::content::noise;

/// The size of a file with only a grey picture of 2 x 2 blocks.
pub(super) const SMALLEST: u64 = 146;
/// Bytes of a comment segment without its text: marker and length.
const FRAME: u64 = 4;
/// The longest text of a comment segment.
const PAYLOAD: usize = 65_533;
/// Bytes of the last comment that differ between files.
const OWN: u64 = 8;

/// Generates JPEGs.
pub(in super::super) struct Jpegs {
    seed: Seed,
    /// The picture after its first marker; comments are inserted before it.
    picture: Arc<[u8]>,
    comments: Framed,
}

impl Jpegs {
    /// Generates the pictures and comments from `seed`.
    pub fn new(seed: Seed) -> Jpegs {
        let comments = Framed::new(seed.stream("comment"), 16, PAYLOAD, |bytes, text| {
            bytes.extend([0xff, 0xfe, 0xff, 0xff]);
            bytes.extend_from_slice(text);
        });
        Jpegs {
            seed,
            picture: picture(seed.draw(0), 0).into(),
            comments,
        }
    }

    /// Generates file number `index`, with `size` bytes.
    pub fn make(&self, index: u64, size: u64) -> Body {
        let own = self.seed.child(index);
        let padding = size - SMALLEST;
        if padding < FRAME {
            let mut file = vec![0xff, 0xd8];
            file.extend(picture(own.draw(0), padding as u8));
            return file.into();
        }
        let block = self.comments.block as u64;
        let full = (padding - FRAME) / block;
        let mut text = padding - full * block - FRAME;
        let mut frame = vec![0xff, 0xd8];
        // The text is slightly too long for one comment, so an empty comment precedes it.
        if text > PAYLOAD as u64 {
            frame.extend([0xff, 0xfe, 0, 2]);
            text -= FRAME;
        }
        let shared = text.saturating_sub(OWN) as usize;
        let first = self.comments.choose(own.draw(0));
        let last = self.comments.start(first + full as usize) + FRAME as usize;

        frame.extend([0xff, 0xfe]);
        frame.extend((text as u16 + 2).to_be_bytes());
        frame.extend(noise(own, text as usize - shared));
        let frame: Arc<[u8]> = frame.into();

        let mut stretches = vec![SharedSlice::new(frame.clone(), 0..frame.len())];
        let pool = &self.comments.bytes;
        stretches.push(SharedSlice::new(pool.clone(), last..last + shared));
        append_cyclic(
            &mut stretches,
            pool,
            self.comments.start(first),
            full * block,
        );
        stretches.push(SharedSlice::new(
            self.picture.clone(),
            0..self.picture.len(),
        ));
        Body::composed(stretches)
    }
}

/// Generates a grey picture of 16 by 16 pixels, in four blocks of one shade each, without the marker that starts a
/// file. The second code table also has `spare` unused symbols of one byte each.
fn picture(shades: u64, spare: u8) -> Vec<u8> {
    let mut file = vec![0xff, 0xdb, 0, 67, 0];
    file.extend([8; 64]);
    // 8 bits per sample, 16 by 16, one component without subsampling.
    file.extend([0xff, 0xc0, 0, 11, 8, 0, 16, 0, 16, 1, 1, 0x11, 0]);
    // Differences of zero bits have the code 0, differences of six bits have the code 10.
    file.extend([0xff, 0xc4, 0, 21, 0x00, 1, 1]);
    file.extend([0; 14]);
    file.extend([0, 6]);
    // The end-of-block symbol has the code 0; spare symbols have codes of 8 bits.
    file.extend([0xff, 0xc4, 0, 20 + spare, 0x10, 1, 0, 0, 0, 0, 0, 0, spare]);
    file.extend([0; 8]);
    file.push(0);
    file.extend(1..=spare);
    file.extend([0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0]);
    // Four blocks of 9 bits: code, difference, end of block. The sign of the differences alternates, so the shades stay
    // in range.
    let mut bits = 0u64;
    for block in 0..4 {
        let magnitude = (shades >> (6 * block)) & 31;
        let difference = if block % 2 == 0 {
            32 | magnitude
        } else {
            magnitude
        };
        bits = (bits << 9) | (0b10 << 7) | (difference << 1);
    }
    let bits = (bits << 4) | 0b1111;
    let data = &bits.to_be_bytes()[3..];
    debug_assert!(!data.contains(&0xff), "a marker in the data");
    file.extend_from_slice(data);
    file.extend([0xff, 0xd9]);
    file
}
