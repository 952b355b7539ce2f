//! Lossless WebP images (RFC 9649). The padding is a chunk of the unknown type `fmPd`, which readers skip.
//!
//! The format pads chunks to an even length. A file of odd size ends with one byte that is not included in the length
//! in its header; RFC 9649 requires readers to ignore this byte.

use std::sync::Arc;

use fathometer_model::{Body, Seed, SharedSlice};

use super::super::pool::append_cyclic;
use crate::content::noise;

/// Bytes of a file without pixel data: the headers of the file and of the chunk, and the bitstream's header and its
/// five prefix codes.
const SHELL: u64 = 20 + HEADER;
/// Bytes of a bitstream before its pixels.
const HEADER: u64 = 13;
/// Bytes of a file with eight pixels.
pub(super) const SMALLEST: u64 = SHELL + 1;
/// The longest row, in bytes; a byte has eight pixels.
const LONGEST_ROW: u64 = 200;
/// Width and height of the picture in larger files.
const SIDE: u32 = 16;
/// Bytes of a chunk's type and length.
const FRAME: u64 = 8;
/// Bytes at the start of the padding that differ between files.
const OWN: u64 = 8;

/// Generates WebPs.
pub(in super::super) struct WebPs {
    seed: Seed,
    pixels: Vec<u8>,
    noise: Arc<[u8]>,
    zero: Arc<[u8]>,
}

impl WebPs {
    /// Generates the pictures and the padding from `seed`.
    pub fn new(seed: Seed, shared: Arc<[u8]>) -> WebPs {
        WebPs {
            pixels: noise(seed.stream("pixels"), (SIDE * SIDE / 8) as usize),
            seed,
            noise: shared,
            zero: [0][..].into(),
        }
    }

    /// Generates file number `index`, with `size` bytes.
    pub fn make(&self, index: u64, size: u64) -> Body {
        let own = self.seed.child(index);
        let even = size & !1;
        let mut stretches = Vec::new();
        let row = even - SHELL;
        if row <= LONGEST_ROW {
            let stream = bitstream(row as u32 * 8, 1, own.draw(0), &noise(own, row as usize));
            let mut file = riff(even);
            chunk(&mut file, *b"VP8L", stream.len() as u32);
            file.extend(stream);
            let file: Arc<[u8]> = file.into();
            stretches.push(SharedSlice::new(file.clone(), 0..file.len()));
        } else {
            let stream = bitstream(SIDE, SIDE, self.seed.draw(0), &self.pixels);
            let mut file = riff(even);
            chunk(&mut file, *b"VP8X", 10);
            // No optional features are set. The canvas has the picture's size; each side minus one is stored in 24
            // bits.
            file.extend([0, 0, 0, 0]);
            for side in [SIDE, SIDE] {
                file.extend(&(side - 1).to_le_bytes()[..3]);
            }
            chunk(&mut file, *b"VP8L", stream.len() as u32);
            file.extend(&stream);
            if stream.len() % 2 == 1 {
                file.push(0);
            }
            let padding = even - file.len() as u64 - FRAME;
            chunk(&mut file, *b"fmPd", padding as u32);
            file.extend(noise(own, OWN as usize));
            let file: Arc<[u8]> = file.into();
            stretches.push(SharedSlice::new(file.clone(), 0..file.len()));
            let start = own.draw(1) as usize % self.noise.len();
            append_cyclic(&mut stretches, &self.noise, start, padding - OWN);
        }
        if size > even {
            stretches.push(SharedSlice::new(self.zero.clone(), 0..1));
        }
        Body::composed(stretches)
    }
}

fn riff(size: u64) -> Vec<u8> {
    let mut file = b"RIFF".to_vec();
    file.extend((size as u32 - 8).to_le_bytes());
    file.extend(b"WEBP");
    file
}

fn chunk(file: &mut Vec<u8>, kind: [u8; 4], length: u32) {
    file.extend(kind);
    file.extend(length.to_le_bytes());
}

/// Generates a picture of two shades of green, one bit per pixel.
fn bitstream(width: u32, height: u32, shades: u64, pixels: &[u8]) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.put(0x2f, 8);
    bits.put(width - 1, 14);
    bits.put(height - 1, 14);
    // No alpha, version 0, no transform, no colour cache, one set of prefix codes.
    bits.put(0, 1 + 3 + 1 + 1 + 1);
    // Green: a simple code of two symbols of 8 bits.
    let low = shades as u32 & 0x7f;
    bits.put(0b111, 3);
    bits.put(low, 8);
    bits.put(low | 0x80, 8);
    // Red, blue, alpha and distance: one symbol each, so that pixels use no bits for them.
    for symbol in [shades as u32 >> 8 & 0xff, shades as u32 >> 16 & 0xff, 0xff] {
        bits.put(0b101, 3);
        bits.put(symbol, 8);
    }
    bits.put(0b001, 4);
    bits.pad_to(HEADER as usize);
    bits.bytes.extend_from_slice(pixels);
    bits.bytes
}

/// Bits packed from the least significant bit.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    count: u32,
}

impl Bits {
    fn put(&mut self, value: u32, width: u32) {
        for bit in 0..width {
            if self.count.is_multiple_of(8) {
                self.bytes.push(0);
            }
            let last = self.bytes.last_mut().expect("one was just added");
            *last |= ((value >> bit & 1) as u8) << (self.count % 8);
            self.count += 1;
        }
    }

    /// Pads the bitstream. The bits after the last code are pixels of the first shade.
    fn pad_to(&mut self, bytes: usize) {
        self.bytes.resize(bytes, 0);
    }
}
