//! One request and its response.

use fathometer_model::Instant;

use super::{Received, RequestId};
use crate::h3::frame::Frames;

/// The stream of a request.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// What is to be sent and was not taken; what is before `taken` was.
    pub out: Vec<u8>,
    pub taken: usize,
    /// Nothing will be added to `out`.
    pub ends: bool,
    /// The transport was told the end.
    pub finished: bool,
    /// The server does not want to read more, or the stream was reset.
    pub stopped: bool,
    /// The transport has opened it.
    pub is_open: bool,
    /// The transport takes no more for now.
    pub blocked: bool,
    /// It is in the queue of streams that have something to send.
    pub queued: bool,
    pub upload: Option<Upload>,
    /// When its first octet was taken.
    pub handed: Option<Instant>,

    pub frames: Frames,
    pub expect: Expect,
    pub reading: Reading,
    /// The field section that is being read, or waits for QPACK's table.
    pub section: Vec<u8>,
    pub waiting: bool,
    /// The stream has ended, while the section waited.
    pub fin: bool,
    pub head_method: bool,
    pub idempotent: bool,
    /// Octets of content that the head announced.
    pub content_length: Option<u64>,
    /// A response that has no content, whatever its head says.
    pub bodiless: bool,
    pub interims: u16,
    /// `Begin` was reported.
    pub begun: bool,
    pub received: Received,
}

/// Content that is still to be given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Upload {
    /// `None`: nobody knows.
    pub remaining: Option<u64>,
    pub awaits_continue: bool,
}

/// What may come next of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Expect {
    /// The head of an interim response or of the final one.
    #[default]
    Head,
    /// Content or trailers.
    Body,
    /// Nothing but frames of no meaning.
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
    /// Makes ready for another request, keeping the memory.
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

    /// Whether the transport may be offered something.
    pub fn has_something(&self) -> bool {
        self.is_open
            && !self.blocked
            && !self.stopped
            && !self.finished
            && (self.taken < self.out.len() || self.ends)
    }
}

/// The stream of a request.
pub(super) fn stream_of(request: RequestId) -> u64 {
    u64::from(request.0) * 4
}

/// The request of a stream; its number may be beyond any request.
pub(super) fn request_of(stream: u64) -> Option<RequestId> {
    u32::try_from(stream / 4).ok().map(RequestId)
}
