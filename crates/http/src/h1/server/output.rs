//! The unsent output, and the amount that may be sent.

use std::collections::VecDeque;
use std::io::IoSlice;

use crate::exchange::{FilePart, Queue};
use crate::origin::{Origin, Segment};

/// The output of one connection. Positions count bytes from the start of the connection.
///
/// Invariant: the releases cover the queue from its first unsent byte on, without gaps and in order. Output after
/// the last release is held.
#[derive(Debug, Default)]
pub(super) struct Output {
    queue: Queue,
    releases: VecDeque<Release>,
}

/// Bytes that may be sent, in units.
#[derive(Debug)]
struct Release {
    /// End of the unit to be sent next.
    next: u64,
    /// Length in bytes of each later unit.
    unit: u64,
    /// End of the last unit.
    end: u64,
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

    /// Whether all output was sent.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether any output may be sent.
    pub fn is_released(&self) -> bool {
        !self.releases.is_empty()
    }

    /// Bytes that may not be sent yet.
    pub fn held(&self) -> u64 {
        self.queue.queued() - self.released()
    }

    /// Bytes of text not sent yet.
    pub fn text_waiting(&self) -> u64 {
        self.queue.text_waiting()
    }

    /// Queues the bytes that `write` appends to the buffer.
    pub fn push_text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.queue.write(write);
    }

    /// Queues a piece of content.
    pub fn push(&mut self, segment: Segment<'_>) {
        self.queue.push(segment);
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
        self.releases
            .back()
            .map_or(self.queue.sent(), |last| last.end)
    }

    /// Whether the unit to be sent next is the last output.
    pub fn offers_the_rest(&self) -> bool {
        self.releases
            .front()
            .is_some_and(|first| first.next == self.queue.queued())
    }

    /// Fills `slices` with the next output: at most the unsent bytes of one unit, and up to the first byte of a file.
    /// Returns the number of filled slices.
    pub fn transmit<'a>(&'a self, origin: &'a Origin, slices: &mut [IoSlice<'a>]) -> usize {
        let Some(release) = self.releases.front() else {
            return 0;
        };
        let most = release.next - self.queue.sent();
        self.queue.fill(origin, slices, most).slices
    }

    /// Whether the next output is text, followed by bytes of a file that may be sent too.
    pub fn file_follows(&self, origin: &Origin) -> bool {
        let text = self.queue.text_before_file(origin);
        text.is_some_and(|text| self.released() > self.queue.sent() + text)
    }

    /// The bytes of a file to be sent next, when a file is next. Units do not limit them, because bytes of files
    /// pass through no buffer.
    pub fn transmit_file<'a>(&'a self, origin: &'a Origin) -> Option<FilePart<'a>> {
        let file = self.queue.file(origin)?;
        let length = file.length.min(self.released() - self.queue.sent());
        (length > 0).then_some(FilePart { length, ..file })
    }

    /// Frees unused memory.
    pub fn rest(&mut self) {
        if self.is_empty() {
            self.queue.rest();
            self.releases = VecDeque::new();
        }
    }

    /// Drops the first `count` bytes that [`transmit`](Self::transmit) offered.
    pub fn transmitted(&mut self, count: usize) {
        let count = count as u64;
        debug_assert!(
            count <= self.released() - self.queue.sent(),
            "more bytes were sent than offered"
        );
        self.queue.transmitted(count);
        let sent = self.queue.sent();
        while let Some(first) = self.releases.front_mut()
            && first.next <= sent
        {
            if first.next >= first.end {
                self.releases.pop_front();
            } else {
                first.next = first.end.min(first.next + first.unit);
            }
        }
    }
}
