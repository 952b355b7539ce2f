//! One request and its response.

use fathometer_model::Instant;

use super::Received;
use crate::h3::frame::Frames;

/// The stream of a request.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Bytes to send. The transport took the part before `taken`.
    pub out: Vec<u8>,
    pub taken: usize,
    /// Whether `out` is complete.
    pub ends: bool,
    /// Whether the transport finished the stream.
    pub finished: bool,
    /// Whether the server sent STOP_SENDING, or the stream was reset.
    pub stopped: bool,
    /// Whether the transport has opened the stream.
    pub is_open: bool,
    /// Whether the transport accepts no more bytes for now.
    pub blocked: bool,
    /// Whether the stream is in the queue of streams with bytes to send.
    pub queued: bool,
    pub upload: Option<Upload>,
    /// The time at which its first byte was taken.
    pub handed: Option<Instant>,

    pub frames: Frames,
    pub expect: Expect,
    pub reading: Reading,
    /// The field section that is being read, or that waits for QPACK's table.
    pub section: Vec<u8>,
    pub waiting: bool,
    /// Whether the stream ended while its field section waited.
    pub fin: bool,
    pub head_method: bool,
    pub idempotent: bool,
    /// Bytes of content that the head announced.
    pub content_length: Option<u64>,
    /// Whether the response has no content, whatever its head announces.
    pub bodiless: bool,
    pub interims: u16,
    /// Whether `Begin` was reported.
    pub begun: bool,
    pub received: Received,
}

/// Request content that is still to be passed in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Upload {
    /// The remaining bytes; `None`: the length is unknown.
    pub remaining: Option<u64>,
    pub awaits_continue: bool,
}

/// The next permitted part of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Expect {
    /// The head of an interim response or of the final one.
    #[default]
    Head,
    /// Content or trailers.
    Body,
    /// Only frames of unknown types.
    End,
}

/// The frame that is being read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Reading {
    #[default]
    Skip,
    Section,
    Data,
}

impl Stream {
    /// Resets the stream for another request; buffers keep their memory.
    pub fn renew(&mut self) {
        let (mut out, mut section) = (
            std::mem::take(&mut self.out),
            std::mem::take(&mut self.section),
        );
        out.clear();
        section.clear();
        *self = Stream {
            out,
            section,
            ..Stream::default()
        };
    }

    /// Whether there are bytes to send, or an end of the stream to report to the transport.
    pub fn has_something(&self) -> bool {
        self.is_open
            && !self.blocked
            && !self.stopped
            && !self.finished
            && (self.taken < self.out.len() || self.ends)
    }
}
