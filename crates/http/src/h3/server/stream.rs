//! One request and its response.

use fathometer_model::Instant;

use super::flowing::Flowing;
use super::records::Served;
use crate::exchange::Queue;
use crate::h3::Priority;
use crate::h3::frame::Frames;
use crate::origin::dynamic::Flowed;
use crate::origin::{Answer, Origin};
use crate::pace::Paid;

/// The stream of a request.
#[derive(Debug)]
pub(super) struct Stream {
    pub frames: Frames,
    pub expect: Expect,
    pub reading: Reading,
    /// The field section that is being read, or that waits for the QPACK table.
    pub section: Vec<u8>,
    pub waiting: bool,
    /// Bytes that arrived while the field section waited for the QPACK table.
    pub held: Vec<u8>,
    /// Whether the client has ended the stream.
    pub fin: bool,
    pub content_length: Option<u64>,
    /// The time allowance for the remaining request content.
    pub paid: Option<Paid>,
    /// The time at which the first byte of the request arrived.
    pub started: Instant,
    /// The last time at which bytes arrived or the transport took bytes.
    pub active: Instant,

    /// Whether the request is complete, and waits for its turn or is being processed.
    pub working: bool,
    /// The answer that is sent when the request is complete.
    pub answer: Option<Answer>,
    pub served: Served,
    /// The lengths of the stored texts of the request.
    pub text: [u32; 3],
    pub output: Queue,
    /// The generator of the remaining response content; `None` if the content is complete.
    pub flowing: Option<Box<Flowing>>,
    /// Whether the complete response is queued.
    pub ends: bool,
    pub priority: Priority,
    /// Whether a PRIORITY_UPDATE frame set the priority; it overrides the `priority` field.
    pub has_priority: bool,
    /// Whether the transport currently accepts no more bytes.
    pub blocked: bool,
    /// Whether the stream is in the schedule.
    pub scheduled: bool,
}

/// The next permitted part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    Head,
    /// Content or trailers.
    Body,
    /// Only frames of unknown types.
    End,
    /// No more input. All further input is ignored.
    Nothing,
}

/// The frame that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    Skip,
    Section,
    Data,
}

impl Stream {
    pub fn new(stream: u64, now: Instant) -> Stream {
        Stream {
            frames: Frames::default(),
            expect: Expect::Head,
            reading: Reading::Skip,
            section: Vec::new(),
            waiting: false,
            held: Vec::new(),
            fin: false,
            content_length: None,
            paid: None,
            started: now,
            active: now,
            working: false,
            answer: None,
            served: Served::unread(stream, false, now),
            text: [0; 3],
            output: Queue::default(),
            flowing: None,
            ends: false,
            priority: Priority::default(),
            has_priority: false,
            blocked: false,
            scheduled: false,
        }
    }

    /// Resets the stream for another request. Buffers retain their memory.
    pub fn renew(&mut self, stream: u64, now: Instant) {
        let (mut output, mut section, mut held) = (
            std::mem::take(&mut self.output),
            std::mem::take(&mut self.section),
            std::mem::take(&mut self.held),
        );
        output.clear();
        section.clear();
        held.clear();
        *self = Stream {
            output,
            section,
            held,
            ..Stream::new(stream, now)
        };
    }

    /// Whether there is something for the transport: bytes to send, or the end of the stream.
    pub fn has_something(&self) -> bool {
        !self.blocked && (self.ends || !self.output.is_empty())
    }

    /// Whether the response has been started.
    pub fn is_answered(&self) -> bool {
        self.ends || self.flowing.is_some()
    }

    /// Whether bytes of the request may still arrive that must be read.
    pub fn reads(&self) -> bool {
        !self.fin && self.expect != Expect::Nothing
    }

    /// The time at which the next content is ready and may be queued. `backlog` is the size of the text that waits in
    /// all streams of the connection, in bytes.
    pub fn flows_at(&self, backlog: u64) -> Option<Instant> {
        self.flowing.as_ref()?.due(self.output.waiting(), backlog)
    }

    /// Queues the content that is ready. `others` is the size of the text that waits in other streams, in bytes.
    /// Returns true if the content cannot be completed.
    pub fn produce(&mut self, origin: &Origin, others: u64, now: Instant) -> bool {
        while self
            .flows_at(others + self.output.text_waiting())
            .is_some_and(|at| at <= now)
            && let Some(flowing) = &mut self.flowing
        {
            match flowing.produce(origin, &mut self.output, &mut self.served, now) {
                Flowed::Until(_) => {}
                Flowed::Whole => {
                    self.flowing = None;
                    self.ends = true;
                }
                Flowed::Broken => {
                    self.flowing = None;
                    return true;
                }
            }
        }
        false
    }
}
