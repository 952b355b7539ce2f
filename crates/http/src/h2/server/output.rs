//! The unsent output: frames in a separate buffer, content by reference, and the ends of writes.

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::h1::server::FilePart;
use crate::origin::ranges::ByteRange;
use crate::origin::{Octets, Origin, Selected};

/// Sent text is dropped from the buffer when it reaches this size.
const COMPACT_AT: usize = 16 * 1024;

/// The output of one connection. Positions count bytes from the start of the connection.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// Text of all pieces, in order; the bytes before `text_start` were sent.
    text: Vec<u8>,
    text_start: usize,
    pieces: VecDeque<Piece>,
    /// End of everything queued.
    queued: u64,
    /// End of everything sent.
    sent: u64,
    /// Where writes end, except at the end of the output.
    ends: VecDeque<u64>,
}

#[derive(Debug)]
enum Piece {
    /// The next bytes of the text.
    Text(usize),
    Body(Selected, ByteRange),
}

impl Output {
    /// The position of the next byte to be queued.
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// End of the bytes sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Bytes not sent yet.
    pub fn waiting(&self) -> u64 {
        self.queued - self.sent
    }

    /// Whether all output was sent.
    pub fn is_empty(&self) -> bool {
        self.sent == self.queued
    }

    /// Bytes of text not sent yet.
    pub fn text_waiting(&self) -> u64 {
        (self.text.len() - self.text_start) as u64
    }

    /// Queues what `write` appends to the buffer; `write` must not change the existing bytes.
    pub fn write<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        if self.text_start == self.text.len() {
            self.text.clear();
            self.text_start = 0;
        } else if self.text_start >= COMPACT_AT {
            self.text.drain(..self.text_start);
            self.text_start = 0;
        }
        let before = self.text.len();
        let result = write(&mut self.text);
        let length = self.text.len() - before;
        if length > 0 {
            self.queued += length as u64;
            match self.pieces.back_mut() {
                Some(Piece::Text(last)) => *last += length,
                _ => self.pieces.push_back(Piece::Text(length)),
            }
        }
        result
    }

    /// Queues a part of a body, by reference.
    pub fn push_body(&mut self, body: &Selected, range: ByteRange) {
        if range.length() > 0 {
            self.queued += range.length();
            self.pieces.push_back(Piece::Body(body.clone(), range));
        }
    }

    /// Ends the current write: later output goes into another one.
    pub fn end_write(&mut self) {
        if self.ends.back() != Some(&self.queued) && self.queued > self.sent {
            self.ends.push_back(self.queued);
        }
    }

    /// Fills `slices` with the next output: up to the end of a write, and up to the first byte of a file.
    /// Returns how many were filled.
    pub fn transmit<'a>(&'a self, origin: &'a Origin, slices: &mut [IoSlice<'a>]) -> usize {
        let mut left = self.released();
        let mut text = &self.text[self.text_start..];
        let mut slices = slices.iter_mut();
        let mut filled = 0;
        let mut offer = |octets: &'a [u8], left: &mut u64| {
            let octets = &octets[..octets
                .len()
                .min(usize::try_from(*left).unwrap_or(usize::MAX))];
            match slices.next() {
                Some(slice) if !octets.is_empty() => {
                    *left -= octets.len() as u64;
                    *slice = IoSlice::new(octets);
                    filled += 1;
                    true
                }
                _ => false,
            }
        };
        for piece in &self.pieces {
            let goes_on = match piece {
                Piece::Text(length) => {
                    let (octets, rest) = text.split_at(*length);
                    text = rest;
                    offer(octets, &mut left)
                }
                Piece::Body(body, range) => match origin.octets(body) {
                    Octets::Memory(body) => body
                        .pieces_of(range.first..range.end)
                        .all(|octets| offer(octets, &mut left)),
                    Octets::File(_) => false,
                },
            };
            if !goes_on {
                break;
            }
        }
        filled
    }

    /// Whether the next output is text, followed by bytes of a file that may be sent too.
    pub fn file_follows(&self, origin: &Origin) -> bool {
        let (Some(Piece::Text(frames)), Some(Piece::Body(body, _))) =
            (self.pieces.front(), self.pieces.get(1))
        else {
            return false;
        };
        matches!(origin.octets(body), Octets::File(_)) && self.released() > *frames as u64
    }

    /// The bytes of a file to be sent next, when a file is next.
    pub fn transmit_file<'a>(&'a self, origin: &'a Origin) -> Option<FilePart<'a>> {
        let Some(Piece::Body(body, range)) = self.pieces.front() else {
            return None;
        };
        let Octets::File(file) = origin.octets(body) else {
            return None;
        };
        Some(FilePart {
            file,
            offset: range.first,
            length: range.length(),
        })
    }

    /// Bytes up to the end of the next write.
    fn released(&self) -> u64 {
        self.ends.front().unwrap_or(&self.queued) - self.sent
    }

    /// Whether the next write is the last output.
    pub fn offers_the_rest(&self) -> bool {
        self.ends.is_empty() && !self.is_empty()
    }

    /// Drops the first `count` bytes of what was offered.
    pub fn transmitted(&mut self, count: usize) {
        let mut left = count as u64;
        debug_assert!(left <= self.waiting(), "more octets sent than offered");
        self.sent += left;
        while left > 0 {
            let Some(piece) = self.pieces.front_mut() else {
                break;
            };
            let length = match piece {
                Piece::Text(length) => *length as u64,
                Piece::Body(_, range) => range.length(),
            };
            let gone = length.min(left);
            match piece {
                Piece::Text(length) => {
                    *length -= gone as usize;
                    self.text_start += gone as usize;
                }
                Piece::Body(_, range) => range.first += gone,
            }
            if gone == length {
                self.pieces.pop_front();
            }
            left -= gone;
        }
        while self.ends.front().is_some_and(|&end| end <= self.sent) {
            self.ends.pop_front();
        }
    }

    /// Frees unused memory.
    pub fn rest(&mut self) {
        if self.is_empty() {
            *self = Output {
                queued: self.queued,
                sent: self.sent,
                ..Output::default()
            };
        }
    }
}
