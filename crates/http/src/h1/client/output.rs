//! What a connection has still to write, and what it waits for.

use fathometer_model::Instant;

use super::event::RequestId;
use super::request::Version;

/// A request without a whole answer.
#[derive(Debug)]
pub(super) struct Outstanding {
    /// Where it begins in the stream of all octets written.
    pub(super) begin: u64,
    /// Where it ends; unknown while its content is being sent.
    pub(super) end: Option<u64>,
    pub(super) version: Version,
    pub(super) head_method: bool,
    pub(super) idempotent: bool,
    pub(super) asks_close: bool,
}

/// The content of the youngest request, while it is not finished.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) request: RequestId,
    /// Octets to come; `None` when chunked.
    pub(super) remaining: Option<u64>,
    pub(super) awaits_continue: bool,
    /// When waiting for 100 (Continue) ends.
    pub(super) continue_by: Option<Instant>,
    /// That time has come and is to be reported.
    pub(super) patience_is_over: bool,
}

/// Octets to be written: some handed to the transport, some released to it, some held.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) bytes: Vec<u8>,
    /// `bytes[..taken]` were handed to the transport.
    pub(super) taken: usize,
    /// `bytes[taken..released]` may be.
    pub(super) released: usize,
    /// Octets of the stream before `bytes[0]`.
    before: u64,
}

impl Output {
    pub(super) fn offset_of(&self, place: usize) -> u64 {
        self.before + place as u64
    }

    pub(super) fn end_offset(&self) -> u64 {
        self.offset_of(self.bytes.len())
    }

    /// Forgets everything but the memory it was in.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.taken = 0;
        self.released = 0;
        self.before = 0;
    }

    /// Forgets what was handed over, once that is cheap.
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
