//! Packages that are composed during sending.
//!
//! A file with a known checksum is sent without a copy and without a read. Other files are read for their checksum
//! during sending, one slice per turn. The caller can serve other responses between turns.

use std::collections::VecDeque;
use std::sync::Arc;

use fathometer_model::Instant;

use super::running::{Flowed, Part, Running};
use crate::origin::live::Packed;
use crate::origin::packages::{Composed, read};
use crate::origin::ranges::ByteRange;
use crate::origin::render::{PartOf, Segment};
use crate::origin::{
    Answer, COST_OF_A_FILE, Content, NEXT_TURN, Origin, READ_IN_A_TURN, Selected, Subject,
};
use fathometer_package::{Encoder, Limits, Piece, Version};

/// The content of one answer with a package: the complete package, or the requested ranges.
#[derive(Debug)]
pub(super) struct Sending {
    composed: Arc<Composed>,
    /// The remaining steps.
    steps: VecDeque<Step>,
    current: Option<(Packing, Window)>,
}

#[derive(Debug)]
enum Step {
    /// Multipart text before and after parts.
    Text(Vec<u8>),
    Content(ByteRange),
}

/// The requested byte range of a package. Other bytes are skipped.
#[derive(Debug)]
struct Window {
    range: ByteRange,
    /// The number of package bytes processed so far, including skipped bytes.
    passed: u64,
}

/// A package that is being composed.
#[derive(Debug)]
struct Packing {
    encoder: Encoder,
    composed: Arc<Composed>,
    /// The number of processed bytes of the current file.
    at: u64,
    /// The dynamic member that is being passed on.
    running: Option<Running>,
    /// The remaining bytes of a ready part of a file.
    part: Option<(Selected, ByteRange)>,
}

/// The remaining read budget of a turn, and the sink for the content.
struct Turn<'t, S> {
    origin: &'t Origin,
    start: Instant,
    now: Instant,
    window: &'t mut Window,
    sink: &'t mut S,
    left: u64,
}

impl Sending {
    /// Returns the content of an answer with a package that is composed during sending; `None` for other answers.
    pub fn new(origin: &Origin, answer: &Answer) -> Option<Sending> {
        let of = |subject: &Subject| match subject {
            Subject::Composed(composed) if composed.recipe().is_some() => {
                Some(Arc::clone(composed))
            }
            _ => None,
        };
        let everything = ByteRange {
            first: 0,
            end: u64::MAX,
        };
        // Most answers have other content, and must not cause an allocation.
        let (composed, steps) = match &answer.content {
            Content::Whole(subject) | Content::Flowing(subject) => {
                (of(subject)?, VecDeque::from([Step::Content(everything)]))
            }
            Content::Part(subject, range) => {
                (of(subject)?, VecDeque::from([Step::Content(*range)]))
            }
            Content::Parts(subject, ranges) => {
                let composed = of(subject)?;
                let mut steps = VecDeque::new();
                origin.write_parts(subject, ranges.as_slice(), |part| match part {
                    PartOf::Text(text) => match steps.back_mut() {
                        Some(Step::Text(before)) => before.extend_from_slice(text),
                        _ => steps.push_back(Step::Text(text.to_vec())),
                    },
                    PartOf::Content(range) => steps.push_back(Step::Content(range)),
                });
                (composed, steps)
            }
            _ => return None,
        };
        Some(Sending {
            composed,
            steps,
            current: None,
        })
    }

    /// Passes the ready content to `sink`, and reads at most the budget of one turn. `None` if the package cannot be
    /// completed.
    pub fn poll(
        &mut self,
        origin: &Origin,
        (start, now): (Instant, Instant),
        text: &mut Vec<u8>,
        sink: &mut impl FnMut(Segment<'_>),
    ) -> Option<Flowed> {
        loop {
            let Some((packing, window)) = &mut self.current else {
                match self.steps.pop_front() {
                    None => return Some(Flowed::Whole),
                    Some(Step::Text(bytes)) => sink(Segment::Text(&bytes)),
                    Some(Step::Content(range)) => {
                        let packing = Packing::new(origin, &self.composed)?;
                        self.current = Some((packing, Window { range, passed: 0 }));
                    }
                }
                continue;
            };
            let mut turn = Turn {
                origin,
                start,
                now,
                window,
                sink,
                left: READ_IN_A_TURN,
            };
            let flowed = packing.poll(&mut turn, text)?;
            if flowed != Flowed::Whole {
                return Some(flowed);
            }
            self.current = None;
            if !self.steps.is_empty() {
                return Some(Flowed::Until(now + NEXT_TURN));
            }
        }
    }
}

impl Packing {
    fn new(origin: &Origin, composed: &Arc<Composed>) -> Option<Packing> {
        let recipe = composed.recipe()?;
        let mut entries = recipe.entries.clone();
        for (entry, content) in entries.iter_mut().zip(&recipe.contents) {
            // Another response may have computed the checksum after the package was decided.
            if entry.checksum.is_none() && !entry.kept {
                entry.checksum = content.file().and_then(|file| origin.known_checksum(file));
            }
        }
        Some(Packing {
            encoder: Encoder::new(Version::Two, entries, &Limits::default()).ok()?,
            composed: Arc::clone(composed),
            at: 0,
            running: None,
            part: None,
        })
    }

    /// Passes on all content that is ready and within the budget. `None` if the package cannot be completed.
    fn poll(
        &mut self,
        turn: &mut Turn<'_, impl FnMut(Segment<'_>)>,
        text: &mut Vec<u8>,
    ) -> Option<Flowed> {
        let composed = Arc::clone(&self.composed);
        loop {
            if turn.window.is_past() {
                return Some(Flowed::Whole);
            }
            if turn.left == 0 {
                return Some(Flowed::Until(turn.now + NEXT_TURN));
            }
            let entry = match self.encoder.next() {
                None => return Some(Flowed::Whole),
                Some(Piece::Bytes(bytes)) => {
                    turn.pass(Segment::Text(bytes));
                    turn.spend(bytes.len() as u64);
                    continue;
                }
                Some(Piece::Content { entry, .. }) => entry,
            };
            match composed.recipe()?.contents.get(entry)? {
                Packed::File(file, length) => {
                    let mut left = ByteRange {
                        first: self.at,
                        end: *length,
                    };
                    self.hand_over(turn, file, &mut left)?;
                    self.at = left.first;
                    if left.length() == 0 {
                        self.end_of_file(turn.origin, file)?;
                        self.at = 0;
                    }
                }
                Packed::Live(live) => {
                    if let Some((file, mut left)) = self.part.take() {
                        self.hand_over(turn, &file, &mut left)?;
                        self.part = (left.length() > 0).then_some((file, left));
                        continue;
                    }
                    let running = self.running.get_or_insert_with(|| Running::new(live));
                    let Some(due) = running.due(turn.start) else {
                        match live.file() {
                            Some(file) => self.end_of_file(turn.origin, file)?,
                            None => self.encoder.end_of_content().ok()?,
                        }
                        self.running = None;
                        continue;
                    };
                    if due > turn.now {
                        return Some(Flowed::Until(due));
                    }
                    match running.next(text) {
                        Part::Empty => {}
                        Part::File(file, range) => self.part = Some((file, range)),
                        Part::Text => {
                            let framing = self.encoder.content(text).ok()?;
                            turn.pass(Segment::Text(&framing));
                            turn.pass(Segment::Text(text));
                            return Some(Flowed::Until(
                                running.due(turn.start).unwrap_or(turn.now),
                            ));
                        }
                    }
                }
            }
        }
    }

    /// Passes on bytes of a file: all bytes if the file need not be read, otherwise as many as the remaining budget
    /// permits. Removes them from the range `left`.
    fn hand_over(
        &mut self,
        turn: &mut Turn<'_, impl FnMut(Segment<'_>)>,
        file: &Selected,
        left: &mut ByteRange,
    ) -> Option<()> {
        if !self.encoder.needs_content() {
            let framing = self.encoder.content_passed(left.length()).ok()?;
            turn.pass(Segment::Text(&framing));
            turn.pass(Segment::Body(file, *left));
            left.first = left.end;
            return Some(());
        }
        let slice = ByteRange {
            first: left.first,
            end: left.end.min(left.first + turn.left),
        };
        let (origin, encoder) = (turn.origin, &mut self.encoder);
        let is_read = read(origin, file, slice, &mut |bytes| {
            let Ok(framing) = encoder.content(bytes) else {
                return false;
            };
            let passed = ByteRange {
                first: left.first,
                end: left.first + bytes.len() as u64,
            };
            turn.pass(Segment::Text(&framing));
            turn.pass(Segment::Body(file, passed));
            left.first = passed.end;
            true
        });
        turn.spend(slice.length() + COST_OF_A_FILE);
        is_read.then_some(())
    }

    /// Ends a completely processed file. Stores its checksum if it was unknown.
    fn end_of_file(&mut self, origin: &Origin, file: &Selected) -> Option<()> {
        if self.encoder.needs_content() {
            origin.learn_checksum(file, self.encoder.checksum());
        }
        self.encoder.end_of_content().ok()
    }
}

impl<S: FnMut(Segment<'_>)> Turn<'_, S> {
    /// Passes the requested bytes of a segment to the sink.
    fn pass(&mut self, segment: Segment<'_>) {
        let length = match segment {
            Segment::Text(bytes) => bytes.len() as u64,
            Segment::Body(_, range) => range.length(),
        };
        let ByteRange { first, end } = self.window.take(length);
        if first == end {
            return;
        }
        (self.sink)(match segment {
            // Both positions are at most the length of the text in memory.
            Segment::Text(bytes) => Segment::Text(&bytes[first as usize..end as usize]),
            Segment::Body(selected, range) => Segment::Body(
                selected,
                ByteRange {
                    first: range.first + first,
                    end: range.first + end,
                },
            ),
        });
    }

    fn spend(&mut self, bytes: u64) {
        self.left = self.left.saturating_sub(bytes);
    }
}

impl Window {
    /// Counts `length` bytes as processed. Returns the requested range among them, relative to the first byte.
    fn take(&mut self, length: u64) -> ByteRange {
        let end = self.passed.saturating_add(length);
        let of = |place: u64| place.clamp(self.passed, end) - self.passed;
        let taken = ByteRange {
            first: of(self.range.first),
            end: of(self.range.end),
        };
        self.passed = end;
        taken
    }

    /// Whether all requested bytes have been processed.
    fn is_past(&self) -> bool {
        self.passed >= self.range.end
    }
}
