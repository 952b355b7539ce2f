//! Collects the bytes of a record head that arrive in pieces.

/// Collects the bytes of a record head. It never stores more bytes than requested.
#[derive(Debug, Default)]
pub(super) struct HeaderBuffer {
    bytes: Vec<u8>,
}

impl HeaderBuffer {
    /// Takes bytes from `input` until `length` bytes are collected. Returns whether all are collected.
    pub(super) fn fill(&mut self, input: &mut &[u8], length: usize) -> bool {
        let missing = length - self.bytes.len();
        let (taken, rest) = input.split_at(missing.min(input.len()));
        self.bytes.extend_from_slice(taken);
        *input = rest;
        self.bytes.len() == length
    }

    /// Returns the collected bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes all bytes, for the next head.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }
}
