//! Collects bytes of a head that arrive in pieces.

/// Collects a head. It never holds more than was requested.
#[derive(Debug, Default)]
pub(super) struct Gather {
    octets: Vec<u8>,
}

impl Gather {
    /// Takes bytes from `input` until there are `length`; returns whether there are.
    pub(super) fn fill(&mut self, input: &mut &[u8], length: usize) -> bool {
        let missing = length - self.octets.len();
        let (taken, rest) = input.split_at(missing.min(input.len()));
        self.octets.extend_from_slice(taken);
        *input = rest;
        self.octets.len() == length
    }

    /// What was collected.
    pub(super) fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// Starts again with no bytes.
    pub(super) fn clear(&mut self) {
        self.octets.clear();
    }
}
