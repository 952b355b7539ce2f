//! GIF89a images. The padding is a comment extension: sub-blocks of at most 255 bytes, each preceded by its length.

use std::sync::Arc;

use fathometer_model::{Body, Seed, SharedSlice};

use super::super::pool::{Framed, append_cyclic};
use crate::content::noise;

/// Bytes of a file without pixel data.
const SHELL: u64 = 35;
/// Bytes of a file with one pixel.
pub(super) const SMALLEST: u64 = SHELL + 1;
/// The length of the longest row in pixels. Code words have 8 bits only if fewer than 126 code words follow a clear
/// code.
const LONGEST_ROW: u64 = 120;
/// Width and height of the picture in larger files.
const SIDE: u16 = 10;
/// Bytes of a full sub-block: one byte of length, and 255 bytes.
const FULL: u64 = 256;

/// Generates GIFs.
pub(in super::super) struct Gifs {
    seed: Seed,
    /// The file up to the sub-blocks of the comment.
    head: Arc<[u8]>,
    blocks: Framed,
}

impl Gifs {
    /// Generates the pictures and comments from `seed`.
    pub fn new(seed: Seed) -> Gifs {
        let pixels = noise(seed.stream("pixels"), usize::from(SIDE * SIDE));
        let mut head = picture(SIDE, SIDE, &pixels, seed.draw(0));
        head.extend([0x21, 0xfe]);
        let blocks = Framed::new(seed.stream("comment"), 4096, 255, |bytes, block| {
            bytes.push(255);
            bytes.extend_from_slice(block);
        });
        Gifs {
            seed,
            head: head.into(),
            blocks,
        }
    }

    /// Generates file number `index`, with `size` bytes.
    pub fn make(&self, index: u64, size: u64) -> Body {
        let own = self.seed.child(index);
        let width = size - SHELL;
        if width <= LONGEST_ROW {
            let pixels = noise(own, width as usize);
            let mut file = picture(width as u16, 1, &pixels, own.draw(0));
            file.push(0x3b);
            return file.into();
        }
        let comment = size - self.head.len() as u64 - 2;
        // Only the last sub-blocks differ between files. A length of zero would end the comment. So a remainder of one
        // byte is merged with a full sub-block, and the sum is divided differently.
        let (full, rest) = match (comment / FULL, comment % FULL) {
            (full, rest @ 0..9) if full > 0 => (full - 1, FULL + rest),
            other => other,
        };
        let mut tail = Vec::with_capacity(rest as usize + 2);
        let mut left = rest;
        while left > 0 {
            let block = if left > FULL { left / 2 } else { left };
            tail.push((block - 1) as u8);
            tail.extend(noise(own.child(left), block as usize - 1));
            left -= block;
        }
        tail.extend([0, 0x3b]);
        let tail: Arc<[u8]> = tail.into();
        let mut stretches = vec![SharedSlice::new(self.head.clone(), 0..self.head.len())];
        let start = self.blocks.start(self.blocks.choose(own.draw(1)));
        append_cyclic(&mut stretches, &self.blocks.bytes, start, full * FULL);
        stretches.push(SharedSlice::new(tail.clone(), 0..tail.len()));
        Body::composed(stretches)
    }
}

/// Generates a picture of two colours, without the trailer that ends a file. Only the lowest bit of each byte of
/// `pixels` is used.
fn picture(width: u16, height: u16, pixels: &[u8], colours: u64) -> Vec<u8> {
    let mut file = b"GIF89a".to_vec();
    let [width_low, width_high] = width.to_le_bytes();
    let [height_low, height_high] = height.to_le_bytes();
    let size = [width_low, width_high, height_low, height_high];
    file.extend(size);
    // A global palette of two colours, background 0, square pixels.
    file.extend([0x80, 0, 0]);
    file.extend(&colours.to_le_bytes()[..6]);
    file.extend([0x2c, 0, 0, 0, 0]);
    file.extend(size);
    file.push(0);
    // Code words of 8 bits, uncompressed: a clear code, the pixels, and the end code.
    file.extend([7, pixels.len() as u8 + 2, 0x80]);
    file.extend(pixels.iter().map(|pixel| pixel & 1));
    file.extend([0x81, 0]);
    file
}
