//! Reassembly: puts received bytes in order and stores them until they are read.

use std::collections::BTreeMap;

/// The receiver's classification of a segment's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The bytes arrived in order.
    InOrder {
        /// Whether the bytes filled a gap, wholly or in part.
        fills: bool,
    },
    /// The bytes were after a gap.
    Ahead,
    /// All bytes were duplicates.
    Duplicate,
}

/// A receiver of one direction.
#[derive(Debug, Clone, Default)]
pub(crate) struct Receiver {
    /// The next sequence number expected.
    pub(crate) next: u64,
    /// The sequence number of the peer's FIN, once a segment with FIN has arrived.
    pub(crate) fin: Option<u64>,
    bytes: Vec<u8>,
    read: usize,
    ahead: BTreeMap<u64, Vec<u8>>,
    /// The start of the latest segment that arrived after a gap.
    latest: u64,
}

impl Receiver {
    /// Adds a segment's bytes; `sequence` is the sequence number of the first byte.
    pub(crate) fn take(&mut self, sequence: u64, payload: &[u8], fin: bool) -> Taken {
        let end = sequence + payload.len() as u64;
        if fin {
            self.fin = Some(end);
        }
        if end + u64::from(fin) <= self.next {
            return Taken::Duplicate;
        }
        if sequence > self.next {
            let known = self.ahead.get(&sequence).map_or(0, Vec::len);
            if known >= payload.len() && known > 0 {
                return Taken::Duplicate;
            }
            self.ahead.insert(sequence, payload.to_vec());
            self.latest = sequence;
            return Taken::Ahead;
        }
        let fills = !self.ahead.is_empty();
        let known = (self.next - sequence).min(payload.len() as u64) as usize;
        self.bytes.extend_from_slice(&payload[known..]);
        self.next = self.next.max(end);
        while let Some((&start, _)) = self.ahead.first_key_value() {
            if start > self.next {
                break;
            }
            let Some((start, bytes)) = self.ahead.pop_first() else {
                break;
            };
            let known = ((self.next - start) as usize).min(bytes.len());
            self.bytes.extend_from_slice(&bytes[known..]);
            self.next += (bytes.len() - known) as u64;
        }
        if self.fin == Some(self.next) {
            self.next += 1;
        }
        Taken::InOrder { fills }
    }

    /// Whether bytes are missing before bytes that have arrived.
    pub(crate) fn has_gap(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Returns the received ranges after the gap; the range with the latest segment is first (RFC 2018 section 4).
    pub(crate) fn ranges(&self, most: usize) -> Vec<(u64, u64)> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (&start, bytes) in &self.ahead {
            let end = start + bytes.len() as u64;
            let end = end + u64::from(self.fin == Some(end));
            match ranges.last_mut() {
                Some(last) if last.1 >= start => last.1 = last.1.max(end),
                _ => ranges.push((start, end)),
            }
        }
        let has_latest = |range: &(u64, u64)| range.0 <= self.latest && self.latest < range.1;
        if let Some(place) = ranges.iter().position(has_latest) {
            ranges[..=place].rotate_right(1);
        }
        ranges.truncate(most);
        ranges
    }

    /// Returns the number of bytes that can be read.
    pub(crate) fn unread(&self) -> usize {
        self.bytes.len() - self.read
    }

    /// Whether the peer has sent FIN and all bytes were read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.unread() == 0 && self.fin.is_some_and(|fin| self.next > fin)
    }

    /// Reads up to `most` bytes.
    pub(crate) fn read(&mut self, most: usize) -> Vec<u8> {
        let length = self.unread().min(most);
        let bytes = self.bytes[self.read..self.read + length].to_vec();
        self.read += length;
        if self.unread() == 0 {
            self.bytes.clear();
            self.read = 0;
        }
        bytes
    }
}
