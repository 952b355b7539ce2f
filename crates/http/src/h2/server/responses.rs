//! Turns responses into frames. Selects the next response and the amount to send, and continues content that is
//! generated during sending.

use std::sync::Arc;

use fathometer_model::{Bytes, Instant};

use super::budget::Budget;
use super::config::{Heads, ServerConfig, Writes};
use super::memory::Memory;
use super::output::Output;
use super::records::{Records, Served};
use super::response_fields::{FieldWriter, Head};
use super::schedule::Schedule;
use super::sending::Sending;
use super::streams::{Past, Progress, Slot, Streams};
use crate::exchange::RequestText;
use crate::exchange::request_head::RequestHead;
use crate::h2::error::{ConnectionError, ErrorCode, Fault};
use crate::h2::frame::write::{self, Carrier};
use crate::h2::frame::{HEADER_LENGTH, SettingsList};
use crate::h2::settings::{self, Settings};
use crate::hpack::Encoder;
use crate::message::Priority;
use crate::origin::conditions::Lines;
use crate::origin::dynamic::Flowed;
use crate::origin::{Dates, Located, Origin, Segment};
use crate::waiting::{MAX_UNSENT_PER_CONNECTION, MAX_UNSENT_PER_RESPONSE};

/// The sending side of the connection: the queued responses and their conversion to frames.
///
/// The caller owns the streams and passes them in.
///
/// Invariants: a stream is in the schedule if and only if its `scheduled` is set, and is counted as blocked if and only
/// if its `blocked` is set. The two are never set at the same time. `heads_due` is the number of scheduled responses
/// whose HEADERS are not in frames. A stream is in `flowing` if and only if its flow is unfinished.
#[derive(Debug)]
pub(super) struct Responses {
    origin: Arc<Origin>,
    config: Arc<ServerConfig>,
    /// The client's settings.
    peer: Settings,
    encoder: Encoder,
    memory: Memory,
    dates: Dates,
    schedule: Schedule,
    /// The number of scheduled responses whose HEADERS are not sent yet.
    heads_due: u32,
    sending: Sending,
    /// Responses that are not completely generated, each with the time at which its next part is ready.
    flowing: Vec<(Slot, Instant)>,
    output: Output,
    records: Records,
}

impl Responses {
    /// Creates a state without responses and without output.
    pub fn new(origin: Arc<Origin>, config: Arc<ServerConfig>) -> Responses {
        Responses {
            peer: Settings::default(),
            encoder: Encoder::new(config.encoder_table),
            memory: Memory::new(config.remembered),
            dates: Dates::default(),
            schedule: Schedule::new(config.scheduling, 2 * config.limits.streams as usize),
            heads_due: 0,
            sending: Sending::new(),
            flowing: Vec::new(),
            output: Output::default(),
            records: Records::default(),
            origin,
            config,
        }
    }

    /// The unsent output.
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// Queues frames of the connection itself.
    pub fn write<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        self.output.write(write)
    }

    /// Notes that the transport took the first `count` bytes of the output.
    pub fn transmitted(&mut self, count: usize, now: Instant) {
        self.output.transmitted(count);
        self.records.note_sent(self.output.sent(), now);
    }

    /// The cache of requests and heads.
    pub fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// The order of responses.
    pub fn schedule(&mut self) -> &mut Schedule {
        &mut self.schedule
    }

    /// The client's settings.
    pub fn peer(&self) -> &Settings {
        &self.peer
    }

    /// Applies the client's settings (section 6.5).
    pub fn apply_settings(
        &mut self,
        streams: &mut Streams,
        list: &SettingsList<'_>,
    ) -> Result<(), ConnectionError> {
        let from = self.peer.initial_window_size;
        for (id, value) in list.iter() {
            self.peer.apply(id, value)?;
            if id == settings::id::HEADER_TABLE_SIZE {
                self.encoder.set_table_limit(value);
            }
        }
        if self.peer.no_rfc7540_priorities {
            self.schedule.note_rfc9218();
        }
        let to = self.peer.initial_window_size;
        let mut place = 0;
        // A changed initial window also changes the windows of all open streams (section 6.9.2).
        while from != to
            && let Some(slot) = streams.at(place)
        {
            streams[slot].send.change_initial(from, to)?;
            self.unblock(streams, slot);
            place += 1;
        }
        Ok(())
    }

    /// Applies the settings of an upgrade request, before any stream is open.
    pub fn apply_first_settings(&mut self, list: &SettingsList<'_>) -> Result<(), ConnectionError> {
        for (id, value) in list.iter() {
            self.peer.apply(id, value)?;
        }
        self.encoder.set_table_limit(self.peer.header_table_size);
        Ok(())
    }

    /// Enlarges the connection's send window by the client's increment.
    pub fn give(&mut self, increment: u32) -> Result<(), Fault> {
        self.sending.give(increment)
    }

    /// Enlarges a stream's send window by the client's increment.
    pub fn give_stream(
        &mut self,
        streams: &mut Streams,
        slot: Slot,
        increment: u32,
    ) -> Result<(), Fault> {
        streams[slot].send.give(increment)?;
        self.unblock(streams, slot);
        Ok(())
    }

    /// Starts or ends the stall time-out.
    pub fn watch_windows(&mut self, now: Instant) {
        self.sending.watch(!self.schedule.is_empty(), now);
    }

    /// The time since which the client's windows have blocked responses.
    pub fn stalled_since(&self) -> Option<Instant> {
        self.sending.stalled_since()
    }

    /// Handles the stall time-out. Returns whether enough content was sent in that time.
    pub fn outlasts_stall(&mut self, now: Instant) -> bool {
        let least = self.config.limits.stall_bytes.0;
        self.sending.has_moved(least, now)
    }

    /// Stops generating and sending content.
    pub fn stop(&mut self) {
        self.flowing.clear();
        self.sending.stop();
    }

    /// Whether all responses are completely generated.
    pub fn is_generated(&self) -> bool {
        self.flowing.is_empty()
    }

    /// Removes and returns the next event for a complete exchange.
    pub fn take_record(&mut self) -> Option<(Served, RequestText<'_>)> {
        self.records.take()
    }

    /// Removes and returns the next exchange whose response the transport took in part. The connection must no longer
    /// be served.
    pub fn take_cut_record(
        &mut self,
        streams: &mut Streams,
        now: Instant,
    ) -> Option<(Served, RequestText<'_>)> {
        let sent = self.output.sent();
        if self.records.drop_unsent(sent) {
            return self.records.take_cut(sent, now);
        }
        loop {
            let slot = streams.at(0)?;
            let stream = &mut streams[slot];
            let has_begun = stream.begun.is_some_and(|begun| begun < sent);
            let (served, lengths) = (stream.served, stream.text_lengths);
            let text = std::mem::take(&mut stream.text);
            streams.close(slot, Past::Ended);
            if has_begun {
                return Some(
                    self.records
                        .cut_unfinished(served, (&text, lengths), sent, now),
                );
            }
        }
    }

    /// Frees unused memory. No exchange may be in flight.
    pub fn rest(&mut self) {
        self.memory.rest();
        self.schedule.rest();
        self.output.rest();
        self.flowing = Vec::new();
        self.records.rest();
    }

    /// Notes that a response is ready.
    pub fn make_ready(
        &mut self,
        streams: &mut Streams,
        budget: &mut Budget,
        slot: Slot,
        now: Instant,
    ) {
        let stream = &mut streams[slot];
        let Some(answer) = &mut stream.answer else {
            debug_assert!(false, "the stream of a response has no answer");
            return;
        };
        self.origin.complete(answer, now);
        stream.progress = Progress::Ready;
        stream.served.exchange.status = answer.status().code();
        let content = &mut stream.content;
        self.origin
            .write_content(answer, |segment| content.push(segment));
        stream.flow = self.origin.flow(answer, now).map(Box::new);
        if stream.flow.is_some() && !self.start_generation(streams, slot, now) {
            return;
        }
        self.heads_due += 1;
        if self.config.framing.heads == Heads::AtOnce {
            self.write_head(streams, slot, now);
            let stream = &streams[slot];
            match (stream.content.waiting(), &stream.flow) {
                (0, None) => return self.finish_stream(streams, budget, slot, 0),
                (0, Some(_)) => return,
                _ => {}
            }
        }
        let stream = &mut streams[slot];
        stream.scheduled = true;
        self.schedule.add(stream.id, slot, stream.priority);
    }

    /// Puts the ready responses into frames in the scheduled order, within the windows and
    /// [`Framing::ahead`](super::Framing::ahead).
    pub fn fill(&mut self, streams: &mut Streams, budget: &mut Budget, now: Instant) {
        let ahead = self.config.framing.ahead.0;
        while self.output.waiting() < ahead.max(1) {
            if self.sending.available() == 0 {
                if self.heads_due > 0 {
                    self.write_due_heads(streams, budget, now);
                }
                break;
            }
            let Some(slot) = self.schedule.next() else {
                break;
            };
            self.turn(streams, budget, slot, now);
        }
    }

    /// Performs one turn of a response: writes HEADERS, if not yet sent, and one DATA frame.
    fn turn(&mut self, streams: &mut Streams, budget: &mut Budget, slot: Slot, now: Instant) {
        if streams[slot].progress == Progress::Ready {
            self.write_head(streams, slot, now);
        }
        let stream = &streams[slot];
        let left = stream.content.waiting();
        let most = self
            .config
            .framing
            .data
            .max(1)
            .min(self.peer.max_frame_size)
            .min(self.sending.available())
            .min(stream.send.available());
        let bytes = u64::from(most).min(left) as u32;
        let is_last = left == u64::from(bytes);
        let is_done = is_last && stream.flow.is_none();
        if bytes > 0 {
            self.write_data(streams, budget, slot, bytes);
        }
        if self.config.framing.writes != Writes::Everything {
            self.output.end_write();
        }
        let stream = &mut streams[slot];
        self.schedule
            .turn_over(stream.id, stream.priority, bytes.into());
        if is_done {
            self.unschedule(streams, slot);
            self.finish_stream(streams, budget, slot, bytes);
        } else if is_last {
            self.unschedule(streams, slot);
        } else if stream.send.available() == 0 {
            stream.blocked = true;
            self.sending.block_stream();
            self.unschedule(streams, slot);
        }
    }

    /// Sends HEADERS of all responses whose content the connection's window blocks.
    fn write_due_heads(&mut self, streams: &mut Streams, budget: &mut Budget, now: Instant) {
        let mut place = 0;
        while let Some(slot) = streams.at(place) {
            let stream = &streams[slot];
            if stream.progress != Progress::Ready {
                place += 1;
                continue;
            }
            self.write_head(streams, slot, now);
            let stream = &streams[slot];
            if stream.content.waiting() > 0 {
                place += 1;
            } else if stream.flow.is_some() {
                self.unschedule(streams, slot);
                place += 1;
            } else {
                self.unschedule(streams, slot);
                self.finish_stream(streams, budget, slot, 0);
            }
        }
    }

    /// Removes a stream from the schedule.
    fn unschedule(&mut self, streams: &mut Streams, slot: Slot) {
        let stream = &mut streams[slot];
        if std::mem::take(&mut stream.scheduled) {
            self.schedule.remove(stream.id, stream.priority);
            if stream.progress == Progress::Ready {
                self.heads_due -= 1;
            }
        }
    }

    /// Reschedules a response after its stream's window has been enlarged.
    fn unblock(&mut self, streams: &mut Streams, slot: Slot) {
        let stream = &mut streams[slot];
        if stream.blocked && stream.send.available() > 0 {
            stream.blocked = false;
            self.sending.unblock_stream();
            stream.scheduled = true;
            self.schedule.add(stream.id, slot, stream.priority);
        }
    }

    /// Changes the priority of a response.
    pub fn set_priority(&mut self, streams: &mut Streams, slot: Slot, priority: Priority) {
        let stream = &mut streams[slot];
        if stream.scheduled {
            self.schedule.remove(stream.id, stream.priority);
            self.schedule.add(stream.id, slot, priority);
        }
        stream.priority = priority;
    }

    /// Writes HEADERS, with END_STREAM if the response has no content.
    fn write_head(&mut self, streams: &mut Streams, slot: Slot, now: Instant) {
        let stream = &mut streams[slot];
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
                    && let Some((block, bytes)) = memory.head(key, before, second)
                {
                    out.extend_from_slice(block);
                    fields.bytes = bytes;
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
                    memory.learn_head(key, &out[start..], fields.bytes, before, second);
                }
            })
        });
        stream.served.exchange.head += Bytes(wire.into());
        stream.served.head_fields += Bytes(fields.bytes);
        stream.progress = Progress::Sending;
        self.heads_due -= 1;
        if self.config.framing.writes == Writes::EachFrame {
            self.output.end_write();
        }
    }

    /// Writes HEADERS of an interim response.
    pub fn write_interim(
        &mut self,
        streams: &mut Streams,
        slot: Slot,
        status: &[u8],
        more: &[(&[u8], &[u8])],
    ) {
        let carrier = Carrier::Headers {
            end_stream: false,
            dependency: None,
        };
        let stream = &mut streams[slot];
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
        stream.served.head_fields += Bytes(fields.bytes);
    }

    /// Writes a DATA frame of `bytes` bytes, with END_STREAM if no content remains.
    fn write_data(&mut self, streams: &mut Streams, budget: &mut Budget, slot: Slot, bytes: u32) {
        let copied = self.config.framing.copied;
        let (origin, output) = (&self.origin, &mut self.output);
        let stream = &mut streams[slot];
        let is_last = stream.content.waiting() == u64::from(bytes) && stream.flow.is_none();
        output.write(|out| write::data_header(out, stream.id, bytes, is_last));
        stream.content.take(bytes.into(), |segment| match segment {
            Segment::Text(text) => output.write(|out| out.extend_from_slice(text)),
            Segment::Body(body, range) => match origin.content_of(body) {
                Located::Memory(memory) if range.length() <= u64::from(copied) => {
                    output.write(|out| {
                        for piece in memory.pieces_of(range.first..range.end) {
                            out.extend_from_slice(piece);
                        }
                    });
                }
                _ => output.push_body(body, range),
            },
        });
        self.sending.take(bytes);
        stream.send.take(bytes);
        stream.served.exchange.body += Bytes(bytes.into());
        stream.served.body_frames += Bytes(u64::from(bytes) + HEADER_LENGTH as u64);
        budget.note_data();
        if !is_last && self.config.events {
            self.records
                .note_frame(stream.id, bytes, self.output.queued());
        }
        if self.config.framing.writes == Writes::EachFrame {
            self.output.end_write();
        }
    }

    /// Finishes a response that is completely in frames. The last frame has `last_content` bytes of content.
    fn finish_stream(
        &mut self,
        streams: &mut Streams,
        budget: &mut Budget,
        slot: Slot,
        last_content: u32,
    ) {
        let stream = &streams[slot];
        let (id, receiving) = (stream.id, stream.receiving);
        self.note_served(streams, slot, last_content);
        budget.note_response();
        if receiving {
            // The server does not need the remaining request content (section 8.1).
            self.output
                .write(|out| write::reset(out, id, ErrorCode::NO_ERROR));
            streams.close(slot, Past::ResetHere);
        } else {
            streams.close(slot, Past::Ended);
        }
    }

    /// Records that a response is completely queued.
    fn note_served(&mut self, streams: &Streams, slot: Slot, last_content: u32) {
        if self.config.events {
            let stream = &streams[slot];
            let end = self.output.queued();
            let place = stream.begun.unwrap_or(end)..end;
            let text = (&stream.text[..], stream.text_lengths);
            self.records
                .note_response(stream.served, text, place, last_content);
        }
    }

    /// Starts to generate the content of a response whose flow was just set. Returns false if the generation fails.
    fn start_generation(&mut self, streams: &mut Streams, slot: Slot, now: Instant) -> bool {
        match self.pull(streams, slot, now) {
            Flowed::Until(next) => self.flowing.push((slot, next)),
            Flowed::Whole => {}
            Flowed::Broken => {
                self.abort_generation(streams, slot);
                return false;
            }
        }
        true
    }

    /// Continues all responses whose next part is ready.
    pub fn flow_on(&mut self, streams: &mut Streams, budget: &mut Budget, now: Instant) {
        let mut place = 0;
        while let Some(&(slot, next)) = self.flowing.get(place) {
            if next > now || !takes_more(streams, slot) {
                place += 1;
                continue;
            }
            match self.pull(streams, slot, now) {
                Flowed::Until(next) => {
                    self.flowing[place].1 = next;
                    self.resume(streams, budget, slot);
                    place += 1;
                }
                Flowed::Whole => {
                    self.flowing.remove(place);
                    self.resume(streams, budget, slot);
                }
                // The reset removes the stream from the list.
                Flowed::Broken => self.abort_generation(streams, slot),
            }
        }
    }

    /// The earliest time at which the next part of a response is ready. Responses whose queue is full are not
    /// considered.
    pub fn flows_at(&self, streams: &Streams) -> Option<Instant> {
        let flowing = self.flowing.iter();
        let taken = flowing.filter(|&&(slot, _)| takes_more(streams, slot));
        taken.map(|&(_, next)| next).min()
    }

    /// Takes the ready part of a generated response.
    fn pull(&self, streams: &mut Streams, slot: Slot, now: Instant) -> Flowed {
        let stream = &mut streams[slot];
        let (flow, content) = (&mut stream.flow, &mut stream.content);
        let Some(making) = flow else {
            return Flowed::Whole;
        };
        loop {
            match making.poll(&self.origin, now, |segment| content.push(segment)) {
                Flowed::Until(next)
                    if next <= now && content.waiting() < MAX_UNSENT_PER_RESPONSE.0 => {}
                Flowed::Whole => {
                    *flow = None;
                    return Flowed::Whole;
                }
                flowed => return flowed,
            }
        }
    }

    /// Reschedules a response that has content again. Ends the response if it is complete.
    fn resume(&mut self, streams: &mut Streams, budget: &mut Budget, slot: Slot) {
        let stream = &mut streams[slot];
        let waits = stream.progress == Progress::Sending && !stream.scheduled && !stream.blocked;
        if !waits {
            return;
        }
        if stream.content.waiting() == 0 {
            if stream.flow.is_none() {
                // A DATA frame without content needs no window (RFC 9113 section 6.9.1).
                self.write_data(streams, budget, slot, 0);
                if self.config.framing.writes != Writes::Everything {
                    self.output.end_write();
                }
                self.finish_stream(streams, budget, slot, 0);
            }
        } else if stream.send.available() == 0 {
            stream.blocked = true;
            self.sending.block_stream();
        } else {
            stream.scheduled = true;
            self.schedule.add(stream.id, slot, stream.priority);
        }
    }

    /// Resets the stream of a response whose remaining content cannot be generated.
    fn abort_generation(&mut self, streams: &mut Streams, slot: Slot) {
        let (id, code) = (streams[slot].id, ErrorCode::INTERNAL_ERROR);
        self.output.write(|out| write::reset(out, id, code));
        self.abandon(streams, slot, code, Past::ResetHere);
    }

    /// Promises the file `target` on the stream of `base`, and opens the promised stream.
    pub fn write_promise(
        &mut self,
        streams: &mut Streams,
        base: Slot,
        head: &RequestHead<'_>,
        target: &[u8],
        now: Instant,
    ) -> Slot {
        let id = streams[base].id;
        let slot = streams.promise(self.peer.initial_window_size, now);
        let promised = streams[slot].id;
        self.schedule.promise(promised, id);
        let mut fields = FieldWriter::new(self.config.indexing);
        let (encoder, accept) = (&mut self.encoder, &head.request.accept_encoding);
        let most = self.peer.max_frame_size;
        let wire = self.output.write(|out| {
            write::header_block(out, id, Carrier::Push { promised }, most, |out| {
                encoder.begin(out);
                fields.write(encoder, out, b":method", b"GET");
                fields.write(encoder, out, b":scheme", head.scheme);
                fields.write(encoder, out, b":authority", head.authority);
                fields.write(encoder, out, b":path", target);
                if let Some(value) = single(accept) {
                    fields.write(encoder, out, b"accept-encoding", value);
                }
            })
        });
        let stream = &mut streams[slot];
        stream.served.exchange.request_head = Bytes(wire.into());
        stream.served.request_fields = Bytes(fields.bytes);
        slot
    }

    /// Closes a stream, even if a part of its response is in frames.
    pub fn abandon(&mut self, streams: &mut Streams, slot: Slot, code: ErrorCode, past: Past) {
        self.unschedule(streams, slot);
        self.flowing.retain(|&(other, _)| other != slot);
        let stream = &mut streams[slot];
        if std::mem::take(&mut stream.blocked) {
            self.sending.unblock_stream();
        }
        if stream.served.exchange.head.0 > 0 {
            stream.served.reset = Some(code);
            self.note_served(streams, slot, 0);
        }
        streams.close(slot, past);
    }
}

/// Whether more content of a response can be queued. Other responses never block a response without waiting content.
fn takes_more(streams: &Streams, slot: Slot) -> bool {
    match streams[slot].content.waiting() {
        0 => true,
        waiting => {
            let all = streams
                .iter()
                .map(|(_, stream)| stream.content.text_waiting());
            waiting < MAX_UNSENT_PER_RESPONSE.0 && all.sum::<u64>() < MAX_UNSENT_PER_CONNECTION.0
        }
    }
}

/// Returns the value of a field that has exactly one line.
fn single<'a>(lines: &Lines<'a>) -> Option<&'a [u8]> {
    let mut values = lines.iter();
    values.next().filter(|_| values.next().is_none())
}
