//! A part of a file in memory, which moves forward as the file is read.

use std::io::{self, ErrorKind, Read};

/// Number of bytes requested by one read, and the minimum size of a window.
const READ_LENGTH: usize = 256 << 10;

/// The part of a file that has been read but not yet consumed.
///
/// The window grows only when it is full of bytes that were actually read, and then to at most twice its size. A large
/// length field alone therefore does not enlarge the window.
#[derive(Debug)]
pub(super) struct Window<R> {
    reader: R,
    memory: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset of `start` from the beginning of the file.
    offset: u64,
    at_end: bool,
}

impl<R: Read> Window<R> {
    pub(super) fn new(reader: R) -> Window<R> {
        Window {
            reader,
            memory: vec![0; READ_LENGTH],
            start: 0,
            end: 0,
            offset: 0,
            at_end: false,
        }
    }

    /// Returns the buffered bytes from the current offset on.
    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.end]
    }

    /// Returns `N` bytes at distance `at` from the current offset; these bytes must be buffered.
    #[inline]
    pub(super) fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut array = [0; N];
        array.copy_from_slice(&self.bytes()[at..at + N]);
        array
    }

    /// Returns the current offset, in bytes from the beginning of the file.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads until `wanted` bytes are buffered; returns false if the file has fewer bytes.
    #[inline]
    pub(super) fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        if self.end - self.start >= wanted {
            return Ok(true);
        }
        self.read_until(wanted)
    }

    /// Consumes `length` buffered bytes.
    #[inline]
    pub(super) fn consume(&mut self, length: usize) {
        debug_assert!(length <= self.end - self.start);
        self.start += length;
        self.offset += length as u64;
    }

    /// Skips bytes, buffered or not; returns false if the file has fewer bytes. The offset then does not change, so
    /// that the caller can report the beginning of the skipped block.
    pub(super) fn skip(&mut self, length: u64) -> io::Result<bool> {
        let mut left = length;
        loop {
            let at_hand = self.end - self.start;
            if left <= at_hand as u64 {
                self.start += left as usize;
                self.offset += length;
                return Ok(true);
            }
            left -= at_hand as u64;
            self.start = 0;
            self.end = 0;
            if !self.fill(1)? {
                return Ok(false);
            }
        }
    }

    #[cold]
    fn read_until(&mut self, wanted: usize) -> io::Result<bool> {
        if self.start > 0 {
            self.memory.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        while self.end < wanted {
            if self.at_end {
                return Ok(false);
            }
            if self.end == self.memory.len() {
                self.memory.resize(self.memory.len() * 2, 0);
            }
            match self.reader.read(&mut self.memory[self.end..]) {
                Ok(0) => self.at_end = true,
                Ok(length) => self.end += length,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.memory.len()
    }
}
