//! PNG images. The padding is a private ancillary chunk, `fmPd`, marked as safe to copy.

use std::sync::Arc;

use crc32fast::Hasher;
use fathometer_model::{Body, Seed, SharedSlice};

use super::super::pool::{Framed, append_cyclic};
use crate::content::noise;

/// Bytes of a file without pixel data.
const SHELL: u64 = 69;
/// Bytes of a file with one pixel.
pub(super) const SMALLEST: u64 = SHELL + 1;
/// The longest row, in bytes, of a picture with one row.
const LONGEST_ROW: u64 = 200;
/// Width and height of the picture in larger files.
const SIDE: u32 = 10;
/// Bytes around a chunk's data: length, type, CRC.
const FRAME: u64 = 12;
/// Bytes of data in a chunk of the pool.
const PAYLOAD: usize = 65_536;
/// The distance in bytes between the stored CRCs of a chunk's data.
const MARK: usize = 1024;
/// The minimum number of bytes at the end of the last chunk that differ between files.
const OWN: u64 = 8;
const PADDING: [u8; 4] = *b"fmPd";

/// Generates PNGs.
pub(crate) struct Pngs {
    seed: Seed,
    head: Arc<[u8]>,
    chunks: Framed,
    /// For each chunk of the pool, the CRC after each multiple of [`MARK`] bytes of its data. Without these values, a
    /// CRC over up to 64 KiB would be computed for every file.
    marks: Vec<Vec<u32>>,
}

impl Pngs {
    /// Generates the pictures and the padding from `seed`.
    pub fn new(seed: Seed) -> Pngs {
        let pixels = noise(seed.stream("pixels"), (SIDE * SIDE) as usize);
        let chunks = Framed::new(seed.stream("padding"), 16, PAYLOAD, |bytes, data| {
            chunk(bytes, PADDING, data);
        });
        let marks = (0..16)
            .map(|n| {
                let start = chunks.start(n) + 8;
                let data = &chunks.bytes[start..start + PAYLOAD];
                let mut crc = Hasher::new();
                crc.update(&PADDING);
                let mut marks = vec![crc.clone().finalize()];
                for part in data.chunks(MARK) {
                    crc.update(part);
                    marks.push(crc.clone().finalize());
                }
                marks
            })
            .collect();
        Pngs {
            seed,
            head: picture(SIDE, SIDE, &pixels).into(),
            chunks,
            marks,
        }
    }

    /// Generates file number `index`, with `size` bytes.
    pub fn make(&self, index: u64, size: u64) -> Body {
        let own = self.seed.child(index);
        let width = size - SHELL;
        if width <= LONGEST_ROW {
            let mut file = picture(width as u32, 1, &noise(own, width as usize));
            chunk(&mut file, *b"IEND", &[]);
            return file.into();
        }
        let padding = size - self.head.len() as u64 - FRAME;
        let block = self.chunks.block as u64;
        // The last chunk differs between files, and is at least as long as its frame and its [`OWN`] bytes.
        let full = (padding - FRAME - OWN) / block;
        let data = padding - full * block - FRAME;
        let first = self.chunks.choose(own.draw(0));
        let last = self.chunks.choose(first as u64 + full);
        let shared = ((data - OWN) as usize).min(PAYLOAD);

        let start = self.chunks.start(last) + 8;
        let known = shared / MARK;
        let mut crc = Hasher::new_with_initial(self.marks[last][known]);
        crc.update(&self.chunks.bytes[start + known * MARK..start + shared]);
        let unique = noise(own, data as usize - shared);
        crc.update(&unique);

        let mut frame = (data as u32).to_be_bytes().to_vec();
        frame.extend(PADDING);
        frame.extend(unique);
        frame.extend(crc.finalize().to_be_bytes());
        chunk(&mut frame, *b"IEND", &[]);
        let frame: Arc<[u8]> = frame.into();

        let mut stretches = vec![SharedSlice::new(self.head.clone(), 0..self.head.len())];
        let pool = &self.chunks.bytes;
        append_cyclic(&mut stretches, pool, self.chunks.start(first), full * block);
        stretches.push(SharedSlice::new(frame.clone(), 0..8));
        stretches.push(SharedSlice::new(pool.clone(), start..start + shared));
        stretches.push(SharedSlice::new(frame.clone(), 8..frame.len()));
        Body::composed(stretches)
    }
}

/// Generates an MNG (a PNG animation) of exactly `size` bytes: a header, the PNG of each frame without its signature,
/// and an end. `frame` generates the PNG of a frame from its number and its size.
pub(crate) fn mng(frames: usize, size: usize, frame: impl Fn(usize, usize) -> Vec<u8>) -> Vec<u8> {
    const SIGNATURE: usize = 8;
    let mut file = b"\x8aMNG\r\n\x1a\n".to_vec();
    let mut header = Vec::new();
    // Width, height, ticks per second, layers, frames, play time, profile: simple, no transparency.
    for field in [
        SIDE,
        SIDE,
        2,
        frames as u32,
        frames as u32,
        frames as u32,
        1,
    ] {
        header.extend(field.to_be_bytes());
    }
    chunk(&mut file, *b"MHDR", &header);
    let room = size - file.len() - FRAME as usize;
    for number in 0..frames {
        let bytes = room * (number + 1) / frames - room * number / frames;
        file.extend(&frame(number, bytes + SIGNATURE)[SIGNATURE..]);
    }
    chunk(&mut file, *b"MEND", &[]);
    file
}

/// Generates a greyscale picture, one byte per pixel, without the chunk that ends a file.
fn picture(width: u32, height: u32, pixels: &[u8]) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut header = width.to_be_bytes().to_vec();
    header.extend(height.to_be_bytes());
    header.extend([8, 0, 0, 0, 0]);
    chunk(&mut file, *b"IHDR", &header);
    let mut rows = Vec::new();
    for row in pixels.chunks(width as usize) {
        // Filter type 0: no filter.
        rows.push(0);
        rows.extend_from_slice(row);
    }
    // The zlib format (RFC 1950) with one stored block.
    let length = rows.len() as u16;
    let mut data = vec![0x78, 0x01, 0x01];
    data.extend(length.to_le_bytes());
    data.extend((!length).to_le_bytes());
    data.extend_from_slice(&rows);
    data.extend(adler32(&rows).to_be_bytes());
    chunk(&mut file, *b"IDAT", &data);
    file
}

fn chunk(file: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) {
    file.extend((data.len() as u32).to_be_bytes());
    file.extend(kind);
    file.extend_from_slice(data);
    let mut crc = Hasher::new();
    crc.update(&kind);
    crc.update(data);
    file.extend(crc.finalize().to_be_bytes());
}

/// Computes the Adler-32 checksum (RFC 1950) of a few bytes.
fn adler32(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1, 0), |(a, b), &byte| {
        let a = (a + u32::from(byte)) % 65_521;
        (a, (a + b) % 65_521)
    });
    (b << 16) | a
}
