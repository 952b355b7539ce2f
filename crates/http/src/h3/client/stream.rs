//! One request and its response.

use fathometer_model::Instant;

use super::Received;
use crate::h3::frame::Frames;

/// The stream of a request.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Bytes to send. The transport has taken `out[..taken]`.
    pub out: Vec<u8>,
    pub taken: usize,
    /// Whether `out` is complete.
    pub ends: bool,
    /// Whether the transport has finished the stream.
    pub finished: bool,
    /// Whether the server sent STOP_SENDING, or the stream was reset.
    pub stopped: bool,
    /// Whether the transport has opened the stream.
    pub is_open: bool,
    /// Whether the transport currently accepts no more bytes.
    pub blocked: bool,
    /// Whether the stream is in the queue of streams with bytes to send.
    pub queued: bool,
    pub upload: Option<Upload>,
    /// The time at which the transport took the first byte of the request.
    pub handed: Option<Instant>,

    pub frames: Frames,
    pub expect: Expect,
    pub reading: Reading,
    /// The field section that is being read, or that waits for the QPACK table.
    pub section: Vec<u8>,
    pub waiting: bool,
    /// Whether the stream ended while its field section waited for the QPACK table.
    pub fin: bool,
    pub head_method: bool,
    pub idempotent: bool,
    /// The content length that the head announced, in bytes.
    pub content_length: Option<u64>,
    /// Whether the response has no content, regardless of the announced length.
    pub bodiless: bool,
    pub interims: u16,
    /// Whether the event `Begin` was reported.
    pub begun: bool,
    pub received: Received,
}

/// The state of request content that the caller has not passed completely.
#[derive(Debug, Clone, Copy)]
pub(super) struct Upload {
    /// The number of remaining bytes; `None` if the length is unknown.
    pub remaining: Option<u64>,
    pub awaits_continue: bool,
}

/// The next permitted part of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Expect {
    /// The head of an interim or final response.
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
    /// Resets the stream for another request. Buffers retain their memory.
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

    /// Whether there is something for the transport: bytes to send, or the end of the stream.
    pub fn has_something(&self) -> bool {
        self.is_open
            && !self.blocked
            && !self.stopped
            && !self.finished
            && (self.taken < self.out.len() || self.ends)
    }
}
