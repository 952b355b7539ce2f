//! The content of one response that is generated during sending.

use fathometer_model::Instant;

use super::packing::Sending;
use super::running::{Flowed, Running};
use crate::origin::ranges::ByteRange;
use crate::origin::render::Segment;
use crate::origin::{Answer, Content, Origin, Selected, Subject};

/// Content that is generated during sending.
#[derive(Debug)]
pub struct Flow {
    /// The time of the request. The times of all dynamic parts are relative to it.
    start: Instant,
    source: Source,
    /// The text part that was generated last.
    text: Vec<u8>,
}

/// The ready content of a flow, for protocols that send the length before the content.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    text: Vec<u8>,
    pieces: Vec<ReadyPiece>,
    length: u64,
}

#[derive(Debug)]
enum ReadyPiece {
    /// The next bytes of the text.
    Text(usize),
    Body(Selected, ByteRange),
}

#[derive(Debug)]
enum Source {
    Live(Running),
    Package(Box<Sending>),
}

impl Origin {
    /// Returns the content of an answer to a request that arrived at `now`, if it is generated during sending.
    /// [`write_content`](Origin::write_content) then writes nothing. `None` for all other answers and for answers
    /// without content.
    pub fn flow(&self, answer: &Answer, now: Instant) -> Option<Flow> {
        if answer.head_only {
            return None;
        }
        let source = match &answer.content {
            Content::Flowing(Subject::Live(live)) => Source::Live(Running::new(live)),
            _ => Source::Package(Box::new(Sending::new(self, answer)?)),
        };
        Some(Flow {
            start: now,
            source,
            text: Vec::new(),
        })
    }
}

impl Flow {
    /// Passes the content that is ready at `now` to `sink`. Each call passes at most one text part, which the caller
    /// must store until the client takes it. Files are passed completely, except files that must be read for their
    /// checksum. `origin` must be the origin that decided the answer.
    pub fn poll(
        &mut self,
        origin: &Origin,
        now: Instant,
        mut sink: impl FnMut(Segment<'_>),
    ) -> Flowed {
        let (start, text) = (self.start, &mut self.text);
        match &mut self.source {
            Source::Live(running) => running.poll(start, now, text, &mut sink),
            Source::Package(package) => package
                .poll(origin, (start, now), text, &mut sink)
                .unwrap_or(Flowed::Broken),
        }
    }
}

impl Ready {
    /// Adds a segment of a flow.
    pub fn push(&mut self, segment: Segment<'_>) {
        match segment {
            Segment::Text(bytes) => {
                self.text.extend_from_slice(bytes);
                self.pieces.push(ReadyPiece::Text(bytes.len()));
                self.length += bytes.len() as u64;
            }
            Segment::Body(body, range) => {
                self.pieces.push(ReadyPiece::Body(body.clone(), range));
                self.length += range.length();
            }
        }
    }

    /// The length of all segments in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Writes the segments to `sink`.
    pub fn write(&self, mut sink: impl FnMut(Segment<'_>)) {
        let mut rest = &self.text[..];
        for piece in &self.pieces {
            match piece {
                ReadyPiece::Text(length) => {
                    let (bytes, after) = rest.split_at(*length);
                    rest = after;
                    sink(Segment::Text(bytes));
                }
                ReadyPiece::Body(body, range) => sink(Segment::Body(body, *range)),
            }
        }
    }
}
