//! Packages that are put together while they are sent.
//!
//! A file whose checksum is known goes as it is, without being looked at. The others are read for it as they
//! go, a slice a turn, so that whoever serves others too can serve them in between.

use std::collections::VecDeque;
use std::sync::Arc;

use fathometer_model::Instant;

use super::Live;
use super::flow::{Flowed, Part, Running};
use crate::origin::packages::{Composed, read};
use crate::origin::ranges::ByteRange;
use crate::origin::render::{PartOf, Segment};
use crate::origin::{
    Answer, COST_OF_A_FILE, Content, NEXT_TURN, Origin, READ_IN_A_TURN, Selected, Subject,
};
use crate::package::{Encoder, Limits, Piece, Version};

/// The content of a file in such a package.
#[derive(Debug, Clone)]
pub(in crate::origin) enum Packed {
    /// Of so many octets.
    File(Selected, u64),
    Live(Live),
}

/// The content of one answer about a package: the whole, or what is asked for of it.
#[derive(Debug)]
pub(super) struct Sending {
    composed: Arc<Composed>,
    /// What follows.
    steps: VecDeque<Step>,
    current: Option<(Packing, Window)>,
}

#[derive(Debug)]
enum Step {
    /// Octets in front of parts and behind them.
    Text(Vec<u8>),
    Content(ByteRange),
}

/// Octets of a package that are asked for; those around them are left out.
#[derive(Debug)]
struct Window {
    range: ByteRange,
    /// Octets that came by.
    passed: u64,
}

/// A package of which some was handed over.
#[derive(Debug)]
struct Packing {
    encoder: Encoder,
    composed: Arc<Composed>,
    /// Octets of the present file that were handed over.
    at: u64,
    /// The member whose parts are handed over at the moment.
    running: Option<Running>,
    /// What is left of the part of a file that was ready last.
    part: Option<(Selected, ByteRange)>,
}

/// What a turn may still do, and where its octets go.
struct Turn<'t, S> {
    origin: &'t Origin,
    start: Instant,
    now: Instant,
    window: &'t mut Window,
    sink: &'t mut S,
    left: u64,
}

impl Sending {
    /// Of an answer about a package that is put together while it is sent; `None` of others.
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
        // Other answers, and most are, are not to cost an allocation.
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

    /// Hands over what is ready, of which what has to be read is no more than a turn bears. `None` when the
    /// package cannot be completed.
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
                    Some(Step::Text(octets)) => sink(Segment::Text(&octets)),
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
            // Another response may have found it out since.
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

    /// `None` when the package cannot be completed.
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
                Some(Piece::Octets(octets)) => {
                    turn.pass(Segment::Text(octets));
                    turn.spend(octets.len() as u64);
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

    /// Hands octets of a file over: all of them where nobody has to look at them, and else as many as may
    /// be read in this turn. `left` becomes those that are left.
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
        let is_read = read(origin, file, slice, &mut |octets| {
            let Ok(framing) = encoder.content(octets) else {
                return false;
            };
            let passed = ByteRange {
                first: left.first,
                end: left.first + octets.len() as u64,
            };
            turn.pass(Segment::Text(&framing));
            turn.pass(Segment::Body(file, passed));
            left.first = passed.end;
            true
        });
        turn.spend(slice.length() + COST_OF_A_FILE);
        is_read.then_some(())
    }

    /// All octets of a file were handed over, and its checksum is known if it was not before.
    fn end_of_file(&mut self, origin: &Origin, file: &Selected) -> Option<()> {
        if self.encoder.needs_content() {
            origin.learn_checksum(file, self.encoder.checksum());
        }
        self.encoder.end_of_content().ok()
    }
}

impl Packed {
    /// The file that the content is taken from, if it is from one.
    fn file(&self) -> Option<&Selected> {
        match self {
            Packed::File(file, _) => Some(file),
            Packed::Live(live) => live.file(),
        }
    }
}

impl<S: FnMut(Segment<'_>)> Turn<'_, S> {
    /// Hands over what of a segment is asked for.
    fn pass(&mut self, segment: Segment<'_>) {
        let length = match segment {
            Segment::Text(octets) => octets.len() as u64,
            Segment::Body(_, range) => range.length(),
        };
        let ByteRange { first, end } = self.window.take(length);
        if first == end {
            return;
        }
        (self.sink)(match segment {
            // No more than the length of what is in memory.
            Segment::Text(octets) => Segment::Text(&octets[first as usize..end as usize]),
            Segment::Body(selected, range) => Segment::Body(
                selected,
                ByteRange {
                    first: range.first + first,
                    end: range.first + end,
                },
            ),
        });
    }

    fn spend(&mut self, octets: u64) {
        self.left = self.left.saturating_sub(octets);
    }
}

impl Window {
    /// So many octets come by. Which of them are asked for, counted from the first of them.
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

    /// Whether nothing more is asked for.
    fn is_past(&self) -> bool {
        self.passed >= self.range.end
    }
}
