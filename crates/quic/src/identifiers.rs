//! Connection IDs drawn from a seed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fathometer_model::Seed;
use quinn_proto::{ConnectionId, ConnectionIdGenerator};

/// The maximum length of a connection ID in bytes (RFC 9000 section 17.2).
pub(crate) const LONGEST: usize = 20;

/// Draws IDs of one length, one after the other. Clones draw from the same sequence.
#[derive(Debug, Clone)]
pub(crate) struct Identifiers {
    seed: Seed,
    length: usize,
    drawn: Arc<AtomicU64>,
}

impl Identifiers {
    pub(crate) fn new(seed: Seed, length: usize) -> Identifiers {
        Identifiers {
            seed,
            length: length.min(LONGEST),
            drawn: Arc::default(),
        }
    }

    /// Returns a generator that draws from the same sequence, with IDs of another length.
    pub(crate) fn with_length(&self, length: usize) -> Identifiers {
        Identifiers {
            length: length.min(LONGEST),
            ..self.clone()
        }
    }

    pub(crate) fn draw(&self) -> ConnectionId {
        let one = self.seed.child(self.drawn.fetch_add(1, Ordering::Relaxed));
        let mut bytes = [0; 24];
        for (n, word) in bytes.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&one.draw(n as u64).to_be_bytes());
        }
        ConnectionId::new(&bytes[..self.length])
    }
}

impl ConnectionIdGenerator for Identifiers {
    fn generate_cid(&mut self) -> ConnectionId {
        self.draw()
    }

    fn cid_len(&self) -> usize {
        self.length
    }

    fn cid_lifetime(&self) -> Option<std::time::Duration> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_draws_one_row_and_nothing_twice() {
        let (first, again) = (Identifiers::new(Seed(7), 8), Identifiers::new(Seed(7), 8));
        let row: Vec<ConnectionId> = (0..100).map(|_| first.draw()).collect();
        assert!(row.iter().all(|id| *id == again.draw() && id.len() == 8));
        assert_ne!(Identifiers::new(Seed(8), 8).draw(), row[0]);
        let mut sorted: Vec<&[u8]> = row.iter().map(|id| &id[..]).collect();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), row.len());
        assert_eq!(Identifiers::new(Seed(7), 0).draw().len(), 0);
    }
}
