//! Writes responses.

use fathometer_model::{Bytes, Instant};

use super::flowing::Flowing;
use super::stream::Stream;
use super::{CloseReason, Connection};
use crate::exchange::RequestId;
use crate::h3::frame::{self, FrameType};
use crate::h3::{ErrorCode, stream_of};
use crate::origin::{Answer, FieldSink, HopField, NEXT_TURN, Status};
use crate::qpack::{Encoder, Indexing};

impl Connection {
    /// Answers a request with an error status, and stops reading the request.
    pub(super) fn refuse(&mut self, request: RequestId, status: Status, now: Instant) {
        if let Some(open) = self.streams.get_mut(request)
            && !open.is_answered()
        {
            let method = open.served.exchange.method.known();
            open.answer = Some(Answer::refusal_of(method, status));
            self.respond(request, now);
            self.stop_reading(request, stream_of(request));
        }
    }

    /// Queues an interim response, with a `Link` field if one is given.
    pub(super) fn write_interim(
        &mut self,
        request: RequestId,
        status: Status,
        link: Option<&[u8]>,
    ) {
        let stream = stream_of(request);
        let encoder = &mut self.critical.encoder;
        encoder.begin(stream);
        let mut sink = Sink::new(encoder, status);
        if let Some(link) = link {
            sink.field("link", link);
        }
        let fields = sink.bytes;
        self.queue_section(request, fields);
        self.schedule(request);
    }

    /// Starts the processing time of a completely read request, or answers the request.
    pub(super) fn take_up(&mut self, request: RequestId, now: Instant) {
        let mut time = self.config.service_time;
        if !std::mem::replace(&mut self.has_worked, true) {
            time += self.config.connection_time;
        }
        let open = self.streams.get_mut(request);
        let answer = open.and_then(|open| open.answer.as_ref());
        if answer.is_some_and(Answer::is_undecided) {
            time = time.max(NEXT_TURN);
        }
        if time.is_zero() && self.work.is_empty() {
            return self.respond(request, now);
        }
        if let Some(open) = self.streams.get_mut(request) {
            open.working = true;
            self.work.add(request, time, now);
        }
    }

    /// Answers the requests whose processing time has passed.
    pub(super) fn finish_work(&mut self, now: Instant) {
        while let Some(request) = self.work.take_done(now) {
            if let Some(open) = self.streams.get_mut(request) {
                if let Some(answer) = &mut open.answer
                    && answer.is_undecided()
                {
                    if !self.origin.go_on(answer, now) {
                        self.work.repeat(request, now + NEXT_TURN);
                        continue;
                    }
                    open.served.exchange.file = answer.file();
                }
                open.working = false;
            }
            self.respond(request, now);
        }
    }

    /// Queues the response to a request that was read completely or is not read further.
    pub(super) fn respond(&mut self, request: RequestId, now: Instant) {
        let stream = stream_of(request);
        let Some(open) = self.streams.get_mut(request) else {
            return;
        };
        let Some(mut answer) = open.answer.take() else {
            return;
        };
        let origin = self.origin.clone();
        origin.complete(&mut answer, now);
        if let Some(link) = origin.early_hints(&answer) {
            self.write_interim(request, Status::EARLY_HINTS, Some(link));
        }
        let encoder = &mut self.critical.encoder;
        encoder.begin(stream);
        let mut sink = Sink::new(encoder, answer.status());
        let second = origin.wall_clock(now);
        origin.write_fields(&answer, second, &mut self.dates, &mut sink);
        let fields = sink.bytes;
        self.queue_section(request, fields);
        let Some(open) = self.streams.get_mut(request) else {
            return;
        };
        open.served.exchange.status = answer.status().code();
        let flow = origin.flow(&answer, now);
        let is_whole = flow.is_none();
        open.flowing = flow.map(|flow| Box::new(Flowing::new(flow, now)));
        let length = answer.sent_length();
        if length > 0 && is_whole {
            self.sending.queue(open, |open| {
                let before = open.output.queued();
                open.output
                    .write(|text| frame::write_header(FrameType::DATA, length, text));
                let output = &mut open.output;
                origin.write_content(&answer, |segment| output.push(segment));
                open.served.exchange.body = Bytes(length);
                open.served.body_frames = Bytes(open.output.queued() - before);
            });
        }
        open.ends = is_whole;
        open.active = now;
        self.requests += 1;
        self.schedule(request);
        if !is_whole {
            self.pull(request, now);
        }
        if self.config.max_requests_per_connection == Some(self.requests) {
            self.ending.leave_for(CloseReason::RequestLimit);
            self.end(now);
        }
    }

    /// Continues all responses whose next content is ready.
    pub(super) fn flow_on(&mut self, now: Instant) {
        let backlog = self.sending.backlog();
        let is_due = |stream: &Stream| stream.flows_at(backlog).is_some_and(|at| at <= now);
        let streams = self.streams.iter();
        let mut due: Vec<RequestId> = streams
            .filter(|(_, stream)| is_due(stream))
            .map(|(request, _)| request)
            .collect();
        due.sort_unstable();
        for request in due {
            self.pull(request, now);
        }
    }

    /// Queues the ready content of a response.
    fn pull(&mut self, request: RequestId, now: Instant) {
        let Some(open) = self.streams.get_mut(request) else {
            return;
        };
        if open.output.is_empty() {
            // The client's time limit starts when bytes for the client are ready.
            open.active = now;
        }
        let others = self.sending.backlog_of_others(open);
        let origin = &self.origin;
        let is_broken = self
            .sending
            .queue(open, |open| open.produce(origin, others, now));
        if is_broken {
            let code = ErrorCode::INTERNAL_ERROR;
            self.break_off(request, stream_of(request), code, now);
        } else {
            self.schedule(request);
        }
    }

    /// Ends the field section that is being encoded, and queues it as a HEADERS frame.
    fn queue_section(&mut self, request: RequestId, fields: u64) {
        self.section.clear();
        self.critical.encoder.finish(&mut self.section);
        let Some(open) = self.streams.get_mut(request) else {
            return;
        };
        let section = &self.section;
        let bytes = self.sending.queue(open, |open| {
            let before = open.output.queued();
            open.output.write(|text| {
                frame::write_header(FrameType::HEADERS, section.len() as u64, text);
                text.extend_from_slice(section);
            });
            open.output.queued() - before
        });
        open.served.exchange.head += Bytes(bytes);
        open.served.head_fields += Bytes(fields);
    }

    /// Adds a stream to the schedule if it has bytes to send.
    pub(super) fn schedule(&mut self, request: RequestId) {
        if let Some(open) = self.streams.get_mut(request) {
            self.sending.add(stream_of(request), open);
        }
    }
}

/// Encodes fields for HTTP/3.
struct Sink<'a> {
    encoder: &'a mut Encoder,
    /// The size of the names and values in bytes.
    bytes: u64,
}

impl<'a> Sink<'a> {
    /// Starts a field section with `:status`.
    fn new(encoder: &'a mut Encoder, status: Status) -> Sink<'a> {
        let mut sink = Sink { encoder, bytes: 0 };
        // The status line starts with the three digits of the status code.
        sink.field(":status", &status.line().as_bytes()[..3]);
        sink
    }
}

/// The capacity for field names. All field names of server personas are shorter; longer names need an allocation.
const LONGEST_NAME: usize = 64;

impl FieldSink for Sink<'_> {
    fn field(&mut self, name: &str, value: &[u8]) {
        let mut lower = [0; LONGEST_NAME];
        let name = match lower.get_mut(..name.len()) {
            Some(lower) => {
                lower.copy_from_slice(name.as_bytes());
                lower.make_ascii_lowercase();
                &*lower
            }
            None => &*name.to_ascii_lowercase().into_bytes(),
        };
        // Values that differ in almost every response would only evict useful entries from the dynamic table.
        let indexing = match name {
            b"content-length" | b"content-range" | b"etag" | b"last-modified" | b"location" => {
                Indexing::No
            }
            _ => Indexing::Yes,
        };
        self.encoder.encode(name, value, indexing);
        self.bytes += (name.len() + value.len()) as u64;
    }

    fn hop(&mut self, _field: HopField, _name: &str) {}
}
