//! The unsent output: heads in a separate buffer, bodies by reference, and how much of it may be sent.

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::origin::ranges::ByteRange;
use crate::origin::store::FileHandle;
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
    releases: VecDeque<Release>,
}

#[derive(Debug)]
enum Piece {
    /// The next bytes of the text.
    Text(usize),
    Body(Selected, ByteRange),
}

/// Bytes of a file to be sent next, from its descriptor to the transport.
#[derive(Debug, Clone, Copy)]
pub struct FilePart<'a> {
    /// The file.
    pub file: &'a FileHandle,
    /// Their offset in the file.
    pub offset: u64,
    /// Their number; at least one.
    pub length: u64,
}

/// Bytes that may be sent, in units.
#[derive(Debug)]
struct Release {
    /// End of the unit to be sent next.
    next: u64,
    /// Bytes of each unit after that.
    unit: u64,
    /// End of the last unit.
    end: u64,
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

    /// Whether all output was sent.
    pub fn is_empty(&self) -> bool {
        self.sent == self.queued
    }

    /// Whether any output may be sent.
    pub fn is_released(&self) -> bool {
        !self.releases.is_empty()
    }

    /// Bytes that may not be sent yet.
    pub fn held(&self) -> u64 {
        self.queued - self.released()
    }

    /// Bytes of text not sent yet.
    pub fn text_waiting(&self) -> u64 {
        (self.text.len() - self.text_start) as u64
    }

    /// Queues what `write` appends to the buffer.
    pub fn push_text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.text_start == self.text.len() {
            self.text.clear();
            self.text_start = 0;
        } else if self.text_start >= COMPACT_AT {
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

    /// Queues a part of a body.
    pub fn push_body(&mut self, body: &Selected, range: ByteRange) {
        if range.length() > 0 {
            self.queued += range.length();
            self.pieces.push_back(Piece::Body(body.clone(), range));
        }
    }

    /// Releases all held output in one piece.
    pub fn release_all(&mut self) {
        let held = self.held();
        self.release(held, held);
    }

    /// Releases full buffers of the held output, each in one piece.
    pub fn release_full(&mut self, buffer: u64) {
        if let Some(full) = self.held().checked_div(buffer) {
            self.release(full * buffer, buffer);
        }
    }

    fn release(&mut self, length: u64, unit: u64) {
        if length == 0 {
            return;
        }
        let start = self.released();
        if let Some(last) = self.releases.back_mut()
            && last.unit == unit
            && last.next.abs_diff(start).is_multiple_of(unit)
        {
            last.end = start + length;
            return;
        }
        self.releases.push_back(Release {
            next: start + unit,
            unit,
            end: start + length,
        });
    }

    /// End of all output that may be sent.
    fn released(&self) -> u64 {
        self.releases.back().map_or(self.sent, |last| last.end)
    }

    /// Whether the unit to be sent next is the last output.
    pub fn offers_the_rest(&self) -> bool {
        self.releases
            .front()
            .is_some_and(|first| first.next == self.queued)
    }

    /// Fills `slices` with the next output: at most the rest of one unit, and up to the first byte of a file.
    /// Returns how many were filled.
    pub fn transmit<'a>(&'a self, origin: &'a Origin, slices: &mut [IoSlice<'a>]) -> usize {
        let Some(release) = self.releases.front() else {
            return 0;
        };
        let mut left = release.next - self.sent;
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
        let (Some(Piece::Text(head)), Some(Piece::Body(body, _))) =
            (self.pieces.front(), self.pieces.get(1))
        else {
            return false;
        };
        matches!(origin.octets(body), Octets::File(_)) && self.released() > self.sent + *head as u64
    }

    /// The bytes of a file to be sent next, when a file is next. Units do not limit them: they pass through no
    /// buffer.
    pub fn transmit_file<'a>(&'a self, origin: &'a Origin) -> Option<FilePart<'a>> {
        let Some(Piece::Body(body, range)) = self.pieces.front() else {
            return None;
        };
        let Octets::File(file) = origin.octets(body) else {
            return None;
        };
        let length = range.length().min(self.released() - self.sent);
        (length > 0).then_some(FilePart {
            file,
            offset: range.first,
            length,
        })
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

    /// Drops the first `count` bytes of what [`transmit`](Self::transmit) offered.
    pub fn transmitted(&mut self, count: usize) {
        let mut left = count as u64;
        debug_assert!(
            self.releases
                .back()
                .is_some_and(|last| self.sent + left <= last.end)
                || left == 0,
            "more octets sent than offered"
        );
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
        while let Some(first) = self.releases.front_mut()
            && first.next <= self.sent
        {
            if first.next >= first.end {
                self.releases.pop_front();
            } else {
                first.next = first.end.min(first.next + first.unit);
            }
        }
    }
}
