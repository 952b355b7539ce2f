//! The content of one response, generated as it becomes ready.

use std::io::Write;

use fathometer_model::Instant;

use super::Live;
use super::packing::Sending;
use crate::origin::ranges::ByteRange;
use crate::origin::render::Segment;
use crate::origin::{Answer, Content, Origin, Selected, Subject};

/// Content that is generated while it is sent.
#[derive(Debug)]
pub struct Flow {
    /// The time of the request; the schedule of all dynamic parts starts then.
    start: Instant,
    source: Source,
    /// The last generated part of text.
    text: Vec<u8>,
}

/// The state of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flowed {
    /// More content is ready at this time. The time may have passed already: a caller that buffers content
    /// polls again when the client has taken some. A time one nanosecond ahead means that the next step is
    /// expensive and other responses should have their turn first.
    Until(Instant),
    /// The content is complete.
    Whole,
    /// The rest cannot be generated.
    Broken,
}

/// The ready content of a flow, for protocols that send its length before it.
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

/// A dynamic resource of which some parts were handed over.
#[derive(Debug)]
pub(super) struct Running {
    live: Live,
    /// Number of parts handed over.
    done: u32,
}

/// A part that is ready.
pub(super) enum Part {
    /// Text, in the buffer that was passed.
    Text,
    File(Selected, ByteRange),
    /// It has no bytes.
    Empty,
}

impl Origin {
    /// The content of an answer to a request that arrived at `now`, if it is generated while it is sent;
    /// [`write_content`](Origin::write_content) then writes nothing. `None` for all other answers, and where no
    /// content is sent.
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
    /// Hands over the content that is ready at `now`: at most one part of text at a time, which the caller must
    /// keep until the client takes it. Content of files is handed over completely, except for files that must
    /// be read for their checksum. `origin` must be the one that decided the answer.
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
            Segment::Text(octets) => {
                self.text.extend_from_slice(octets);
                self.pieces.push(ReadyPiece::Text(octets.len()));
                self.length += octets.len() as u64;
            }
            Segment::Body(body, range) => {
                self.pieces.push(ReadyPiece::Body(body.clone(), range));
                self.length += range.length();
            }
        }
    }

    /// Number of its bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Writes the segments to `sink`.
    pub fn write(&self, mut sink: impl FnMut(Segment<'_>)) {
        let mut rest = &self.text[..];
        for piece in &self.pieces {
            match piece {
                ReadyPiece::Text(length) => {
                    let (octets, after) = rest.split_at(*length);
                    rest = after;
                    sink(Segment::Text(octets));
                }
                ReadyPiece::Body(body, range) => sink(Segment::Body(body, *range)),
            }
        }
    }
}

impl Running {
    pub fn new(live: &Live) -> Running {
        Running {
            live: live.clone(),
            done: 0,
        }
    }

    /// When the next part is ready; `None` when there is no next part.
    pub fn due(&self, start: Instant) -> Option<Instant> {
        let dynamic = &self.live.dynamic;
        (self.done < dynamic.parts).then(|| start + dynamic.ready(self.done))
    }

    /// The next part, which must be ready.
    pub fn next(&mut self, text: &mut Vec<u8>) -> Part {
        let (dynamic, part) = (&self.live.dynamic, self.done);
        self.done += 1;
        if let Some((file, length)) = &self.live.file {
            let place = |part: u32| {
                let place = u128::from(*length) * u128::from(part) / u128::from(dynamic.parts);
                // Not above the length.
                place as u64
            };
            let range = ByteRange {
                first: place(part),
                end: place(part + 1),
            };
            return match range.length() {
                0 => Part::Empty,
                _ => Part::File(file.clone(), range),
            };
        }
        write_text(part + 1, dynamic.parts, dynamic.part.unwrap_or(1), text);
        Part::Text
    }

    fn poll(
        &mut self,
        start: Instant,
        now: Instant,
        text: &mut Vec<u8>,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Flowed {
        while let Some(due) = self.due(start) {
            if due > now {
                return Flowed::Until(due);
            }
            match self.next(text) {
                Part::Empty => {}
                Part::File(file, range) => sink(Segment::Body(&file, range)),
                Part::Text => {
                    sink(Segment::Text(text));
                    return self.due(start).map_or(Flowed::Whole, Flowed::Until);
                }
            }
        }
        Flowed::Whole
    }
}

/// Writes a part of text of exactly `octets` bytes: its number, and lines of digits.
fn write_text(part: u32, parts: u32, octets: u32, text: &mut Vec<u8>) {
    const LINE: &[u8] = b"0123456789012345678901234567890123456789012345678901234567890123456789\n";
    let octets = octets as usize;
    text.clear();
    // Writing to a vector cannot fail.
    let _ = writeln!(text, "part {part} of {parts}");
    while text.len() < octets {
        text.extend_from_slice(LINE);
    }
    text.truncate(octets);
    if let Some(last) = text.last_mut() {
        *last = b'\n';
    }
}
