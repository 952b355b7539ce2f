//! The unsent output, and the ends of writes in it.

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::exchange::{FilePart, Queue};
use crate::origin::ranges::ByteRange;
use crate::origin::{Origin, Selected};

/// The output of one connection. Positions count bytes from the start of the connection.
///
/// Invariant: the ends of writes are in strictly increasing order, and above the bytes sent.
#[derive(Debug, Default)]
pub(super) struct Output {
    queue: Queue,
    /// The end positions of writes, except the end of the output.
    ends: VecDeque<u64>,
}

impl Output {
    /// The position of the next byte to be queued.
    pub fn queued(&self) -> u64 {
        self.queue.queued()
    }

    /// End of the bytes sent.
    pub fn sent(&self) -> u64 {
        self.queue.sent()
    }

    /// Bytes not sent yet.
    pub fn waiting(&self) -> u64 {
        self.queue.waiting()
    }

    /// Whether all output was sent.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes of text not sent yet.
    pub fn text_waiting(&self) -> u64 {
        self.queue.text_waiting()
    }

    /// Queues the bytes that `write` appends to the buffer; `write` must not change the existing bytes.
    pub fn write<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        self.queue.write(write)
    }

    /// Queues a part of a body, by reference.
    pub fn push_body(&mut self, body: &Selected, range: ByteRange) {
        self.queue.push_body(body, range);
    }

    /// Ends the current write: later output goes into another write.
    pub fn end_write(&mut self) {
        let queued = self.queue.queued();
        if self.ends.back() != Some(&queued) && !self.is_empty() {
            self.ends.push_back(queued);
        }
    }

    /// Fills `slices` with the next output: up to the end of a write, and up to the first byte of a file. Returns
    /// the number of filled slices.
    pub fn transmit<'a>(&'a self, origin: &'a Origin, slices: &mut [IoSlice<'a>]) -> usize {
        self.queue.fill(origin, slices, self.released()).slices
    }

    /// Whether the next output is text, followed by bytes of a file that may be sent too.
    pub fn file_follows(&self, origin: &Origin) -> bool {
        let text = self.queue.text_before_file(origin);
        text.is_some_and(|text| self.released() > text)
    }

    /// The bytes of a file to be sent next, when a file is next.
    pub fn transmit_file<'a>(&'a self, origin: &'a Origin) -> Option<FilePart<'a>> {
        self.queue.file(origin)
    }

    /// Bytes up to the end of the next write.
    fn released(&self) -> u64 {
        match self.ends.front() {
            Some(end) => end - self.queue.sent(),
            None => self.queue.waiting(),
        }
    }

    /// Whether the next write is the last output.
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
