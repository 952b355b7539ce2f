//! The output queue of one stream: heads in a buffer of their own, content in place.

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::h1::server::FilePart;
use crate::origin::ranges::ByteRange;
use crate::origin::{Octets, Origin, Selected};

/// Sent text is dropped from the buffer once it has this many bytes.
const COMPACT_AT: usize = 16 * 1024;

/// The output of one stream.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// Text of all pieces, in order; the part before `text_start` was sent.
    text: Vec<u8>,
    text_start: usize,
    pieces: VecDeque<Piece>,
    /// End of everything queued, counted in bytes from the start of the stream.
    queued: u64,
    /// End of everything sent, counted likewise.
    sent: u64,
}

#[derive(Debug)]
enum Piece {
    /// The next bytes of the text.
    Text(usize),
    Body(Selected, ByteRange),
}

/// What is sent next.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Offered<'a> {
    pub slices: usize,
    pub octets: usize,
    pub file: Option<FilePart<'a>>,
}

impl Output {
    /// Drops everything and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.text_start = 0;
        self.pieces.clear();
        self.queued = 0;
        self.sent = 0;
    }

    pub fn queued(&self) -> u64 {
        self.queued
    }

    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether everything was sent.
    pub fn is_empty(&self) -> bool {
        self.sent == self.queued
    }

    /// Bytes of text that were not sent.
    pub fn text_waiting(&self) -> usize {
        self.text.len() - self.text_start
    }

    /// Queues what `write` appends to the buffer.
    pub fn push_text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.text_start >= COMPACT_AT {
            self.text.drain(..self.text_start);
            self.text_start = 0;
        }
        let before = self.text.len();
        write(&mut self.text);
        let length = self.text.len() - before;
        if length == 0 {
            return;
        }
        self.queued += length as u64;
        match self.pieces.back_mut() {
            Some(Piece::Text(last)) => *last += length,
            _ => self.pieces.push_back(Piece::Text(length)),
        }
    }

    /// Queues a range of a body.
    pub fn push_body(&mut self, body: &Selected, range: ByteRange) {
        if range.length() > 0 {
            self.queued += range.length();
            self.pieces.push_back(Piece::Body(body.clone(), range));
        }
    }

    /// Fills slices with the next bytes, at most `most`, or offers a part of a file.
    pub fn transmit<'a>(
        &'a self,
        origin: &'a Origin,
        slices: &mut [IoSlice<'a>],
        most: usize,
    ) -> Offered<'a> {
        let mut offered = Offered::default();
        let mut text = &self.text[self.text_start..];
        let mut offer = |octets: &'a [u8], offered: &mut Offered<'a>| {
            let octets = &octets[..octets.len().min(most - offered.octets)];
            match slices.get_mut(offered.slices) {
                Some(slice) if !octets.is_empty() => {
                    *slice = IoSlice::new(octets);
                    offered.slices += 1;
                    offered.octets += octets.len();
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
                    offer(octets, &mut offered)
                }
                Piece::Body(body, range) => match origin.octets(body) {
                    Octets::Memory(body) => body
                        .pieces_of(range.first..range.end)
                        .all(|octets| offer(octets, &mut offered)),
                    Octets::File(file) => {
                        if offered.octets == 0 && most > 0 {
                            let length = range.length().min(most as u64);
                            offered.octets = length as usize;
                            offered.file = Some(FilePart {
                                file,
                                offset: range.first,
                                length,
                            });
                        }
                        false
                    }
                },
            };
            if !goes_on {
                break;
            }
        }
        offered
    }

    /// Drops the first `count` bytes of what [`transmit`](Self::transmit) offered.
    pub fn transmitted(&mut self, count: u64) {
        let mut left = count;
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
            self.sent += gone;
        }
        if self.text_start == self.text.len() {
            self.text.clear();
            self.text_start = 0;
        }
    }
}
