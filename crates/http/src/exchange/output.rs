//! A queue of output: frames and heads in a buffer, content by reference.

use std::collections::VecDeque;
use std::io::IoSlice;

use super::FilePart;
use crate::origin::ranges::ByteRange;
use crate::origin::{Located, Origin, Segment, Selected};

/// Sent text is removed from the buffer when it reaches this size in bytes.
const COMPACT_AT: usize = 16 * 1024;

/// Bytes that wait to be sent, in order. Positions count bytes from the start of the queue.
///
/// Invariant: the pieces cover exactly the bytes from `sent` to `queued`, and their texts cover exactly the
/// buffer from `text_start` on.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Text of all pieces, in order; the bytes before `text_start` were taken.
    text: Vec<u8>,
    text_start: usize,
    pieces: VecDeque<Piece>,
    /// The position after the last queued byte.
    queued: u64,
    /// The position after the last sent byte.
    sent: u64,
}

#[derive(Debug)]
enum Piece {
    /// The next bytes of the text.
    Text(usize),
    Body(Selected, ByteRange),
}

/// The bytes to send next.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Offered<'a> {
    /// The number of slices that were filled.
    pub slices: usize,
    /// The number of bytes in the slices, or in the part of the file.
    pub bytes: usize,
    /// If set, the bytes are in a file, and no slice was filled.
    pub file: Option<FilePart<'a>>,
}

impl Queue {
    /// The position of the next byte to be queued.
    pub fn queued(&self) -> u64 {
        self.queued
    }

    /// The position after the last sent byte.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The number of bytes that are queued and not sent.
    pub fn waiting(&self) -> u64 {
        self.queued - self.sent
    }

    /// Whether all queued bytes were sent.
    pub fn is_empty(&self) -> bool {
        self.sent == self.queued
    }

    /// The number of bytes of text that are queued and not sent.
    pub fn text_waiting(&self) -> u64 {
        (self.text.len() - self.text_start) as u64
    }

    /// Queues the bytes that `write` appends to the buffer; `write` must not change the existing bytes.
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

    /// Queues a piece of content.
    pub fn push(&mut self, segment: Segment<'_>) {
        match segment {
            Segment::Text(text) => self.write(|out| out.extend_from_slice(text)),
            Segment::Body(body, range) => self.push_body(body, range),
        }
    }

    /// Fills `slices` with the next bytes, at most `most` bytes and only up to the first byte of a file. Files
    /// are not offered.
    pub fn fill<'a>(
        &'a self,
        origin: &'a Origin,
        slices: &mut [IoSlice<'a>],
        most: u64,
    ) -> Offered<'a> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut offered = Offered::default();
        let mut text = &self.text[self.text_start..];
        let mut offer = |bytes: &'a [u8]| {
            let bytes = &bytes[..bytes.len().min(most - offered.bytes)];
            match slices.get_mut(offered.slices) {
                Some(slice) if !bytes.is_empty() => {
                    *slice = IoSlice::new(bytes);
                    offered.slices += 1;
                    offered.bytes += bytes.len();
                    true
                }
                _ => false,
            }
        };
        for piece in &self.pieces {
            let goes_on = match piece {
                Piece::Text(length) => {
                    let (bytes, rest) = text.split_at(*length);
                    text = rest;
                    offer(bytes)
                }
                Piece::Body(body, range) => match origin.content_of(body) {
                    Located::Memory(body) => body.pieces_of(range.first..range.end).all(&mut offer),
                    Located::File(_) => false,
                },
            };
            if !goes_on {
                break;
            }
        }
        offered
    }

    /// Like [`fill`](Self::fill), but offers at most `most` bytes of the file if a file is next.
    pub fn offer<'a>(
        &'a self,
        origin: &'a Origin,
        slices: &mut [IoSlice<'a>],
        most: usize,
    ) -> Offered<'a> {
        match self.file(origin) {
            Some(file) if most > 0 => {
                let length = file.length.min(most as u64);
                Offered {
                    slices: 0,
                    bytes: length as usize,
                    file: Some(FilePart { length, ..file }),
                }
            }
            _ => self.fill(origin, slices, most as u64),
        }
    }

    /// Returns the bytes of a file that are next, if a file is next.
    pub fn file<'a>(&'a self, origin: &'a Origin) -> Option<FilePart<'a>> {
        let Some(Piece::Body(body, range)) = self.pieces.front() else {
            return None;
        };
        let Located::File(file) = origin.content_of(body) else {
            return None;
        };
        Some(FilePart {
            file,
            offset: range.first,
            length: range.length(),
        })
    }

    /// Returns the number of bytes of text before the next file, if a file follows the text.
    pub fn text_before_file(&self, origin: &Origin) -> Option<u64> {
        let (Some(Piece::Text(text)), Some(Piece::Body(body, _))) =
            (self.pieces.front(), self.pieces.get(1))
        else {
            return None;
        };
        matches!(origin.content_of(body), Located::File(_)).then_some(*text as u64)
    }

    /// Drops the first `count` bytes, which were sent.
    pub fn transmitted(&mut self, count: u64) {
        debug_assert!(count <= self.waiting(), "more bytes were sent than offered");
        self.take(count, |_| {});
    }

    /// Takes the first `count` bytes in pieces, or all bytes if there are fewer.
    #[inline]
    pub fn take(&mut self, count: u64, mut sink: impl FnMut(Segment<'_>)) {
        let mut left = count.min(self.waiting());
        self.sent += left;
        while left > 0 {
            let Some(piece) = self.pieces.front_mut() else {
                break;
            };
            let (taken, is_done) = match piece {
                Piece::Text(length) => {
                    let taken = (*length as u64).min(left);
                    let end = self.text_start + taken as usize;
                    sink(Segment::Text(&self.text[self.text_start..end]));
                    self.text_start = end;
                    *length -= taken as usize;
                    (taken, *length == 0)
                }
                Piece::Body(body, range) => {
                    let taken = range.length().min(left);
                    let part = ByteRange {
                        first: range.first,
                        end: range.first + taken,
                    };
                    sink(Segment::Body(body, part));
                    range.first += taken;
                    (taken, range.length() == 0)
                }
            };
            left -= taken;
            if is_done {
                self.pieces.pop_front();
            }
        }
    }

    /// Drops all bytes and keeps the memory. Positions start at 0 again.
    pub fn clear(&mut self) {
        self.text.clear();
        self.text_start = 0;
        self.pieces.clear();
        self.queued = 0;
        self.sent = 0;
    }

    /// Frees unused memory.
    pub fn rest(&mut self) {
        if self.is_empty() {
            *self = Queue {
                queued: self.queued,
                sent: self.sent,
                ..Queue::default()
            };
        }
    }
}
