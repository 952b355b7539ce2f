//! Splitting responses into frames: which response is next, and how much of it is sent.

use fathometer_model::{Bytes, Instant};

use super::config::{FieldIndexing, Heads, Writes};
use super::streams::{Past, Progress, Slot};
use super::{Connection, Outstanding, QueuedFrame};
use crate::h2::error::ErrorCode;
use crate::h2::frame::HEADER_LENGTH;
use crate::h2::frame::write::{self, Carrier};
use crate::hpack::{Encoder, Indexing};
use crate::message::Priority;
use crate::origin::{FieldSink, HopField, Octets, Segment};

/// Idle frames that a sent DATA frame gives back: WINDOW_UPDATE for its stream and for the connection.
const IDLE_PER_DATA: u32 = 2;

impl Connection {
    /// The response is ready.
    pub(super) fn make_ready(&mut self, slot: Slot, now: Instant) {
        let stream = &mut self.streams[slot];
        let Some(answer) = &mut stream.answer else {
            debug_assert!(false, "a response without an answer");
            return;
        };
        self.origin.complete(answer, now);
        stream.progress = Progress::Ready;
        stream.served.exchange.status = answer.status().code();
        let content = &mut stream.content;
        self.origin
            .write_content(answer, |segment| content.push(segment));
        stream.flow = self.origin.flow(answer, now).map(Box::new);
        if stream.flow.is_some() && !self.begin_flow(slot, now) {
            return;
        }
        self.heads_due += 1;
        if self.config.framing.heads == Heads::AtOnce {
            self.write_head(slot, now);
            let stream = &self.streams[slot];
            match (stream.content.waiting(), &stream.flow) {
                (0, None) => return self.finish_stream(slot, 0),
                (0, Some(_)) => return,
                _ => {}
            }
        }
        let stream = &mut self.streams[slot];
        stream.scheduled = true;
        self.schedule.add(stream.id, slot, stream.priority);
    }

    /// Makes frames of the ready responses in the order of priorities, as far as windows and
    /// [`Framing::ahead`](super::Framing::ahead) allow.
    pub(super) fn fill(&mut self, now: Instant) {
        let ahead = self.config.framing.ahead.0;
        while self.output.waiting() < ahead.max(1) {
            if self.send.available() == 0 {
                if self.heads_due > 0 {
                    self.write_due_heads(now);
                }
                break;
            }
            let Some(slot) = self.schedule.next() else {
                break;
            };
            self.turn(slot, now);
        }
    }

    /// One turn of a response: its HEADERS, if they were not sent, and a DATA frame.
    fn turn(&mut self, slot: Slot, now: Instant) {
        let has_head = self.streams[slot].progress != Progress::Ready;
        if !has_head {
            self.write_head(slot, now);
        }
        let stream = &self.streams[slot];
        let left = stream.content.waiting();
        let most = self
            .config
            .framing
            .data
            .max(1)
            .min(self.peer.max_frame_size)
            .min(self.send.available())
            .min(stream.send.available());
        let octets = u64::from(most).min(left) as u32;
        let is_last = left == u64::from(octets);
        let is_done = is_last && stream.flow.is_none();
        // If content has ended after its last frame, an empty DATA frame ends the stream.
        if octets > 0 || is_done && has_head {
            self.write_data(slot, octets);
        }
        if self.config.framing.writes != Writes::Everything {
            self.output.end_write();
        }
        let stream = &mut self.streams[slot];
        self.schedule
            .turn_over(stream.id, stream.priority, octets.into());
        if is_done {
            self.unschedule(slot);
            self.finish_stream(slot, octets);
        } else if is_last {
            self.unschedule(slot);
        } else if stream.send.available() == 0 {
            stream.blocked = true;
            self.blocked += 1;
            self.unschedule(slot);
        }
    }

    /// Sends HEADERS of all responses whose content is blocked by the connection's window.
    fn write_due_heads(&mut self, now: Instant) {
        let mut place = 0;
        while let Some(slot) = self.streams.at(place) {
            let stream = &self.streams[slot];
            if stream.progress != Progress::Ready {
                place += 1;
                continue;
            }
            self.write_head(slot, now);
            let stream = &self.streams[slot];
            if stream.content.waiting() > 0 {
                place += 1;
            } else if stream.flow.is_some() {
                self.unschedule(slot);
                place += 1;
            } else {
                self.unschedule(slot);
                self.finish_stream(slot, 0);
            }
        }
    }

    /// Removes a stream from the schedule.
    pub(super) fn unschedule(&mut self, slot: Slot) {
        let stream = &mut self.streams[slot];
        if std::mem::take(&mut stream.scheduled) {
            self.schedule.remove(stream.id, stream.priority);
            if stream.progress == Progress::Ready {
                self.heads_due -= 1;
            }
        }
    }

    /// A stream's window has changed.
    pub(super) fn unblock(&mut self, slot: Slot) {
        let stream = &mut self.streams[slot];
        if stream.blocked && stream.send.available() > 0 {
            stream.blocked = false;
            self.blocked -= 1;
            stream.scheduled = true;
            self.schedule.add(stream.id, slot, stream.priority);
        }
    }

    pub(super) fn set_priority(&mut self, slot: Slot, priority: Priority) {
        let stream = &mut self.streams[slot];
        if stream.scheduled {
            self.schedule.remove(stream.id, stream.priority);
            self.schedule.add(stream.id, slot, priority);
        }
        stream.priority = priority;
    }

    /// Writes HEADERS; they end the stream if there is no content.
    fn write_head(&mut self, slot: Slot, now: Instant) {
        let stream = &mut self.streams[slot];
        let Some(answer) = &stream.answer else {
            return;
        };
        let carrier = Carrier::Headers {
            end_stream: stream.content.waiting() == 0 && stream.flow.is_none(),
            dependency: None,
        };
        let second = self.origin.wall_clock(now);
        stream.begun.get_or_insert(self.output.queued());
        let (origin, dates, encoder) = (&self.origin, &mut self.dates, &mut self.encoder);
        let most = self.peer.max_frame_size;
        let before = encoder.generation();
        let (memory, key) = (&mut self.memory, stream.remembered);
        let mut fields = FieldWriter::new(self.config.indexing);
        let wire = self.output.write(|out| {
            write::header_block(out, stream.id, carrier, most, |out| {
                if let Some(key) = key
                    && let Some((block, octets)) = memory.head(key, before, second)
                {
                    out.extend_from_slice(block);
                    fields.octets = octets;
                    return;
                }
                let start = out.len();
                encoder.begin(out);
                let status = &answer.status().line()[..3];
                fields.write(encoder, out, b":status", status.as_bytes());
                let mut head = Head {
                    encoder,
                    out,
                    fields: &mut fields,
                };
                origin.write_fields(answer, second, dates, &mut head);
                if let Some(key) = key
                    && encoder.generation() == before
                {
                    memory.learn_head(key, &out[start..], fields.octets, before, second);
                }
            })
        });
        stream.served.exchange.head += Bytes(wire.into());
        stream.served.head_fields += Bytes(fields.octets);
        stream.progress = Progress::Sending;
        self.heads_due -= 1;
        if self.config.framing.writes == Writes::EachFrame {
            self.output.end_write();
        }
    }

    /// Writes HEADERS of an interim response.
    pub(super) fn write_interim(&mut self, slot: Slot, status: &[u8], more: &[(&[u8], &[u8])]) {
        let carrier = Carrier::Headers {
            end_stream: false,
            dependency: None,
        };
        let stream = &mut self.streams[slot];
        stream.begun.get_or_insert(self.output.queued());
        let (encoder, most) = (&mut self.encoder, self.peer.max_frame_size);
        let mut fields = FieldWriter::new(self.config.indexing);
        let wire = self.output.write(|out| {
            write::header_block(out, stream.id, carrier, most, |out| {
                encoder.begin(out);
                fields.write(encoder, out, b":status", status);
                for (name, value) in more {
                    fields.write(encoder, out, name, value);
                }
            })
        });
        stream.served.exchange.head += Bytes(wire.into());
        stream.served.head_fields += Bytes(fields.octets);
    }

    /// Writes a DATA frame of `octets` bytes; it ends the stream if no content is left.
    fn write_data(&mut self, slot: Slot, octets: u32) {
        let copied = self.config.framing.copied;
        let (origin, output) = (&self.origin, &mut self.output);
        let stream = &mut self.streams[slot];
        let is_last = stream.content.waiting() == u64::from(octets) && stream.flow.is_none();
        output.write(|out| write::data_header(out, stream.id, octets, is_last));
        stream.content.take(octets.into(), |segment| match segment {
            Segment::Text(text) => output.write(|out| out.extend_from_slice(text)),
            Segment::Body(body, range) => match origin.octets(body) {
                Octets::Memory(memory) if range.length() <= u64::from(copied) => {
                    output.write(|out| {
                        for piece in memory.pieces_of(range.first..range.end) {
                            out.extend_from_slice(piece);
                        }
                    });
                }
                _ => output.push_body(body, range),
            },
        });
        self.send.take(octets);
        stream.send.take(octets);
        self.content_sent += u64::from(octets);
        stream.served.exchange.body += Bytes(octets.into());
        stream.served.body_frames += Bytes(u64::from(octets) + HEADER_LENGTH as u64);
        let allowance = self.config.limits.idle_frames;
        self.counters.idle_frames.give(allowance, IDLE_PER_DATA);
        if !is_last && self.config.events {
            self.frames.push_back(QueuedFrame {
                end: self.output.queued(),
                stream: stream.id,
                content: octets,
            });
        }
        if self.config.framing.writes == Writes::EachFrame {
            self.output.end_write();
        }
    }

    /// The response is completely in frames; the last one has `last_content` bytes of content.
    fn finish_stream(&mut self, slot: Slot, last_content: u32) {
        let stream = &self.streams[slot];
        let (id, receiving) = (stream.id, stream.receiving);
        self.note_served(slot, last_content);
        let allowance = self.config.limits.resets;
        self.counters.resets.give(allowance, 1);
        if receiving {
            // The rest of the request is not needed (section 8.1).
            self.output
                .write(|out| write::reset(out, id, ErrorCode::NO_ERROR));
            self.streams.close(slot, Past::ResetHere);
        } else {
            self.streams.close(slot, Past::Ended);
        }
    }

    /// Records that a response is completely queued.
    pub(super) fn note_served(&mut self, slot: Slot, last_content: u32) {
        if self.config.events {
            let stream = &self.streams[slot];
            self.texts.extend(&stream.text);
            self.outstanding.push_back(Outstanding {
                start: stream.begun.unwrap_or(self.output.queued()),
                end: self.output.queued(),
                last_content,
                served: stream.served,
                text: stream.text_lengths,
            });
        }
    }
}

/// Writes fields into a header block, and counts them.
pub(super) struct FieldWriter {
    indexing: FieldIndexing,
    /// Bytes of names and values so far.
    pub octets: u64,
}

impl FieldWriter {
    pub fn new(indexing: FieldIndexing) -> FieldWriter {
        FieldWriter {
            indexing,
            octets: 0,
        }
    }

    /// Writes a field whose name is in lower case.
    pub fn write(&mut self, encoder: &mut Encoder, out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        self.octets += (name.len() + value.len()) as u64;
        let indexing = match self.indexing {
            FieldIndexing::All => Indexing::Yes,
            FieldIndexing::Nothing => Indexing::No,
            FieldIndexing::Shared if is_shared(name) => Indexing::Yes,
            FieldIndexing::Shared => Indexing::No,
        };
        encoder.encode(name, value, indexing, out);
    }
}

/// Whether the same value is likely to be sent again with another file.
fn is_shared(name: &[u8]) -> bool {
    !matches!(
        name,
        b":path"
            | b"allow"
            | b"content-length"
            | b"content-range"
            | b"etag"
            | b"last-modified"
            | b"link"
            | b"location"
    )
}

/// Writes fields in the format of HTTP/2.
struct Head<'a> {
    encoder: &'a mut Encoder,
    out: &'a mut Vec<u8>,
    fields: &'a mut FieldWriter,
}

impl FieldSink for Head<'_> {
    fn field(&mut self, name: &str, value: &[u8]) {
        let mut lower = [0; 64];
        match lower.get_mut(..name.len()) {
            Some(lower) => {
                lower.copy_from_slice(name.as_bytes());
                lower.make_ascii_lowercase();
                self.fields.write(self.encoder, self.out, lower, value);
            }
            None => {
                let lower = name.to_ascii_lowercase();
                self.fields
                    .write(self.encoder, self.out, lower.as_bytes(), value);
            }
        }
    }

    fn hop(&mut self, _: HopField, _: &str) {}
}
