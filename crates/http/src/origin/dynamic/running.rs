//! The parts of one dynamic resource, each with the time at which it becomes ready.

use std::io::Write;

use fathometer_model::Instant;

use crate::origin::Selected;
use crate::origin::live::Live;
use crate::origin::ranges::ByteRange;
use crate::origin::render::Segment;

/// The state of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flowed {
    /// More content is ready at this time, which may be in the past. A caller that buffers content polls again after
    /// the client has taken some bytes. A time one nanosecond ahead means that the next step is expensive, so other
    /// responses should be served first.
    Until(Instant),
    /// The content is complete.
    Whole,
    /// The remaining content cannot be generated.
    Broken,
}

/// A dynamic resource that is being passed on.
#[derive(Debug)]
pub(super) struct Running {
    live: Live,
    /// The number of parts that were passed on.
    done: u32,
}

/// A part that is ready.
pub(super) enum Part {
    /// Text, written to the given buffer.
    Text,
    File(Selected, ByteRange),
    /// The part has no bytes.
    Empty,
}

impl Running {
    pub fn new(live: &Live) -> Running {
        Running {
            live: live.clone(),
            done: 0,
        }
    }

    /// The time at which the next part is ready; `None` if there is no next part.
    pub fn due(&self, start: Instant) -> Option<Instant> {
        let dynamic = &self.live.dynamic;
        (self.done < dynamic.parts).then(|| start + dynamic.ready(self.done))
    }

    /// Returns the next part, which must be ready.
    pub fn next(&mut self, text: &mut Vec<u8>) -> Part {
        let (dynamic, part) = (&self.live.dynamic, self.done);
        self.done += 1;
        if let Some((file, length)) = &self.live.file {
            let place = |part: u32| {
                let place = u128::from(*length) * u128::from(part) / u128::from(dynamic.parts);
                // At most the length of the file.
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

    /// Passes the ready parts to `sink`, at most one text part per call.
    pub fn poll(
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

/// Writes a text part of exactly `bytes` bytes: a line with the number of the part, and lines of digits.
fn write_text(part: u32, parts: u32, bytes: u32, text: &mut Vec<u8>) {
    const LINE: &[u8] = b"0123456789012345678901234567890123456789012345678901234567890123456789\n";
    let bytes = bytes as usize;
    text.clear();
    // Writing to a vector cannot fail.
    let _ = writeln!(text, "part {part} of {parts}");
    while text.len() < bytes {
        text.extend_from_slice(LINE);
    }
    text.truncate(bytes);
    if let Some(last) = text.last_mut() {
        *last = b'\n';
    }
}
