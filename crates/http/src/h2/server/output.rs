//! The unsent output, and the end positions of its writes.

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::exchange::{FilePart, Queue};
use crate::origin::ranges::ByteRange;
use crate::origin::{Origin, Selected};

/// The output of one connection. Positions count bytes from the start of the connection.
///
/// Invariant: the end positions of writes increase strictly and are greater than the position of the next byte to send.
#[derive(Debug, Default)]
pub(super) struct Output {
    queue: Queue,
    /// The end positions of all writes except the last.
    ends: VecDeque<u64>,
}

impl Output {
    /// The position of the next byte to be queued.
    pub fn queued(&self) -> u64 {
        self.queue.queued()
    }

    /// The number of bytes sent.
    pub fn sent(&self) -> u64 {
        self.queue.sent()
    }

    /// The number of queued bytes that are not sent yet.
    pub fn waiting(&self) -> u64 {
        self.queue.waiting()
    }

    /// Whether all output was sent.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The number of unsent bytes of text, which is all output except content that was queued without a copy.
    pub fn text_waiting(&self) -> u64 {
        self.queue.text_waiting()
    }

    /// Queues the bytes that `write` appends to the buffer. `write` must not change the existing bytes.
    pub fn write<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        self.queue.write(write)
    }

    /// Queues a part of a body, without a copy.
    pub fn push_body(&mut self, body: &Selected, range: ByteRange) {
        self.queue.push_body(body, range);
    }

    /// Ends the current write. Later output belongs to the next write.
    pub fn end_write(&mut self) {
        let queued = self.queue.queued();
        if self.ends.back() != Some(&queued) && !self.is_empty() {
            self.ends.push_back(queued);
        }
    }

    /// Fills `slices` with the next output, up to the end of the write or the first byte of a file. Returns the number
    /// of filled slices.
    pub fn transmit<'a>(&'a self, origin: &'a Origin, slices: &mut [IoSlice<'a>]) -> usize {
        self.queue.fill(origin, slices, self.released()).slices
    }

    /// Whether the next output is text that is followed, within the same write, by bytes of a file.
    pub fn file_follows(&self, origin: &Origin) -> bool {
        let text = self.queue.text_before_file(origin);
        text.is_some_and(|text| self.released() > text)
    }

    /// The part of a file to send next, if a file is next.
    pub fn transmit_file<'a>(&'a self, origin: &'a Origin) -> Option<FilePart<'a>> {
        self.queue.file(origin)
    }

    /// The number of unsent bytes up to the end of the next write.
    fn released(&self) -> u64 {
        match self.ends.front() {
            Some(end) => end - self.queue.sent(),
            None => self.queue.waiting(),
        }
    }

    /// Whether the next write contains all remaining output.
    pub fn offers_the_rest(&self) -> bool {
        self.ends.is_empty() && !self.is_empty()
    }

    /// Drops the first `count` of the offered bytes.
    pub fn transmitted(&mut self, count: usize) {
        self.queue.transmitted(count as u64);
        let sent = self.queue.sent();
        while self.ends.front().is_some_and(|&end| end <= sent) {
            self.ends.pop_front();
        }
    }

    /// Frees unused memory.
    pub fn rest(&mut self) {
        if self.is_empty() {
            self.queue.rest();
            self.ends = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_ends_once_and_not_before_it_has_bytes() {
        let mut output = Output::default();
        output.end_write();
        assert!(!output.offers_the_rest());
        output.write(|out| out.extend_from_slice(b"abc"));
        output.end_write();
        output.end_write();
        assert_eq!((output.released(), output.offers_the_rest()), (3, false));
        output.write(|out| out.extend_from_slice(b"de"));
        output.transmitted(2);
        assert_eq!((output.released(), output.waiting()), (1, 3));
        output.transmitted(1);
        assert_eq!((output.released(), output.offers_the_rest()), (2, true));
    }
}
