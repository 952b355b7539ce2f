//! Collects bytes of a head that arrive in pieces.

/// Collects a head. It never holds more than was requested.
#[derive(Debug, Default)]
pub(super) struct Gather {
    bytes: Vec<u8>,
}

impl Gather {
    /// Takes bytes from `input` until there are `length`; returns whether there are.
    pub(super) fn fill(&mut self, input: &mut &[u8], length: usize) -> bool {
        let missing = length - self.bytes.len();
        let (taken, rest) = input.split_at(missing.min(input.len()));
        self.bytes.extend_from_slice(taken);
        *input = rest;
        self.bytes.len() == length
    }

    /// What was collected.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Starts again with no bytes.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }
}
