//! The unsent output of a connection, and its outstanding requests.

use fathometer_model::Instant;

use crate::exchange::{RequestId, Version};

/// A request without a complete response.
#[derive(Debug)]
pub(super) struct Outstanding {
    /// The position of the request's first byte in the stream of all bytes written.
    pub(super) begin: u64,
    /// The position after the request's last byte; `None` while its content is being sent.
    pub(super) end: Option<u64>,
    pub(super) version: Version,
    pub(super) head_method: bool,
    pub(super) idempotent: bool,
    pub(super) asks_close: bool,
}

/// The unfinished content of the last request.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) request: RequestId,
    /// Remaining bytes; `None` when chunked.
    pub(super) remaining: Option<u64>,
    pub(super) awaits_continue: bool,
    /// The time at which the wait for 100 (Continue) ends.
    pub(super) continue_by: Option<Instant>,
    /// Whether the wait for 100 (Continue) is over and `poll` has not reported this yet.
    pub(super) continue_timed_out: bool,
}

/// Written bytes in three parts: passed to the transport, released, and held.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) bytes: Vec<u8>,
    /// `bytes[..taken]` were passed to the transport.
    pub(super) taken: usize,
    /// `bytes[taken..released]` may be passed to the transport.
    pub(super) released: usize,
    /// The number of bytes of the stream before `bytes[0]`.
    before: u64,
}

impl Output {
    pub(super) fn offset_of(&self, place: usize) -> u64 {
        self.before + place as u64
    }

    pub(super) fn end_offset(&self) -> u64 {
        self.offset_of(self.bytes.len())
    }

    /// Drops everything but keeps the allocated memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.taken = 0;
        self.released = 0;
        self.before = 0;
    }

    /// Drops the bytes that the transport has taken, if no other bytes are left or at least 64 KiB were taken.
    pub(super) fn compact(&mut self) {
        if self.taken == self.bytes.len() {
            self.bytes.clear();
        } else if self.taken >= 64 * 1024 {
            self.bytes.drain(..self.taken);
        } else {
            return;
        }
        self.before += self.taken as u64;
        self.released -= self.taken;
        self.taken = 0;
    }
}
