//! Shared memory from which bodies are composed.

use std::sync::Arc;

use fathometer_model::{Seed, SharedSlice};

/// Appends `length` bytes of `pool` from `start` on; after the end of the pool, continues at its beginning.
pub(super) fn append_cyclic(
    stretches: &mut Vec<SharedSlice>,
    pool: &Arc<[u8]>,
    start: usize,
    length: u64,
) {
    let mut start = start % pool.len();
    let mut left = length;
    while left > 0 {
        let piece = left.min((pool.len() - start) as u64);
        let end = start + piece as usize;
        stretches.push(SharedSlice::new(pool.clone(), start..end));
        left -= piece;
        start = 0;
    }
}

/// Noise in blocks of equal length, each preceded by a header with its length, as image formats require for comments.
/// Any number of consecutive blocks is one slice.
pub(super) struct Framed {
    /// The blocks, each with its header.
    pub bytes: Arc<[u8]>,
    /// Bytes of a block, including its header.
    pub block: usize,
    blocks: usize,
}

impl Framed {
    /// Creates `blocks` blocks, each the result of `frame` for `payload` bytes of noise.
    pub fn new(
        seed: Seed,
        blocks: usize,
        payload: usize,
        frame: impl Fn(&mut Vec<u8>, &[u8]),
    ) -> Framed {
        let noise = crate::content::noise(seed, blocks * payload);
        let mut bytes = Vec::new();
        for block in noise.chunks(payload) {
            frame(&mut bytes, block);
        }
        Framed {
            block: bytes.len() / blocks,
            bytes: bytes.into(),
            blocks,
        }
    }

    /// Returns the block selected by a random number.
    pub fn choose(&self, random: u64) -> usize {
        (random % self.blocks as u64) as usize
    }

    /// Returns the start of a block in `bytes`.
    pub fn start(&self, block: usize) -> usize {
        block % self.blocks * self.block
    }
}
