//! One request and its response.

use fathometer_model::Instant;

use super::connection::Served;
use super::flowing::Flowing;
use super::output::Output;
use crate::h3::Priority;
use crate::h3::frame::Frames;
use crate::origin::Answer;
use crate::pace::Paid;

/// The stream of a request.
#[derive(Debug)]
pub(super) struct Stream {
    pub frames: Frames,
    pub expect: Expect,
    pub reading: Reading,
    /// The field section that is being read, or waits for QPACK's table.
    pub section: Vec<u8>,
    pub waiting: bool,
    /// What came behind a section that waits.
    pub held: Vec<u8>,
    /// The client has ended it.
    pub fin: bool,
    pub content_length: Option<u64>,
    /// How long the rest of its content may take.
    pub paid: Option<Paid>,
    /// When its first octet came.
    pub started: Instant,
    /// When something last came, or was taken.
    pub active: Instant,

    /// The request is whole, and waits for its turn or is worked on.
    pub working: bool,
    /// What the request is answered when it is whole.
    pub answer: Option<Answer>,
    pub served: Served,
    /// Lengths of the texts kept of its request.
    pub text: [u32; 3],
    pub output: Output,
    /// The response is being made.
    pub flowing: Option<Box<Flowing>>,
    /// The response is queued whole.
    pub ends: bool,
    pub priority: Priority,
    /// A PRIORITY_UPDATE frame has said so, which counts for more than a field.
    pub has_priority: bool,
    /// The transport takes no more for now.
    pub blocked: bool,
    /// It is in the schedule.
    pub scheduled: bool,
}

/// What may come next of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    Head,
    /// Content or trailers.
    Body,
    /// Nothing but frames of no meaning.
    End,
    /// Nothing that is looked at.
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
            served: Served::unread(stream, now),
            text: [0; 3],
            output: Output::default(),
            flowing: None,
            ends: false,
            priority: Priority::default(),
            has_priority: false,
            blocked: false,
            scheduled: false,
        }
    }

    /// Makes ready for another request, keeping the memory.
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

    /// Whether the transport may be offered something.
    pub fn has_something(&self) -> bool {
        !self.blocked && (self.ends || !self.output.is_empty())
    }
}
