//! Shared memory that bodies are woven from.

use std::sync::Arc;

use fathometer_model::{Seed, Stretch};

/// Adds `length` octets of `pool` from `start` on, from its beginning again at its end.
pub(super) fn weave(stretches: &mut Vec<Stretch>, pool: &Arc<[u8]>, start: usize, length: u64) {
    let mut start = start % pool.len();
    let mut left = length;
    while left > 0 {
        let piece = left.min((pool.len() - start) as u64);
        let end = start + piece as usize;
        stretches.push(Stretch::new(pool.clone(), start..end));
        left -= piece;
        start = 0;
    }
}

/// Noise in equal blocks, each behind a head that says how long it is, as the comment formats of
/// images want it. Any run of whole blocks is one stretch.
pub(super) struct Framed {
    /// The blocks, each with its frame.
    pub bytes: Arc<[u8]>,
    /// Octets of one block with its frame.
    pub block: usize,
    blocks: usize,
}

impl Framed {
    /// `blocks` blocks, each what `frame` makes of `payload` octets of noise.
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

    /// The block that a random number chooses.
    pub fn choose(&self, random: u64) -> usize {
        (random % self.blocks as u64) as usize
    }

    /// Where a block begins in `bytes`.
    pub fn start(&self, block: usize) -> usize {
        block % self.blocks * self.block
    }
}
