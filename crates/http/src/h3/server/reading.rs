//! Reads requests.

use fathometer_model::{Bytes, Instant};

use super::Connection;
use super::stream::{Expect, Reading};
use crate::exchange::RequestId;
use crate::exchange::request_head::{self, Rejection};
use crate::field_block::FieldBlock;
use crate::h3::critical::ControlEvent;
use crate::h3::frame::{FrameType, Piece};
use crate::h3::{Action, ErrorCode, Fault, is_bidirectional, is_request, request_of, stream_of};
use crate::message::section::{self, Malformed, Recipient};
use crate::origin::{Method, Status};
use crate::pace::Paid;
use crate::qpack::{self, Decoded};

/// The reason why a request cannot be read further.
#[derive(Clone, Copy)]
enum Trouble {
    /// The request is malformed. Its stream is reset with this code.
    Stream(ErrorCode),
    /// The request is answered with this status, and its remaining bytes are not read.
    Refused(Status),
    Connection(Fault),
}

impl From<Malformed> for Trouble {
    fn from(_: Malformed) -> Trouble {
        Trouble::Stream(ErrorCode::MESSAGE_ERROR)
    }
}

impl From<Rejection> for Trouble {
    fn from(rejection: Rejection) -> Trouble {
        match rejection {
            Rejection::Malformed => Malformed.into(),
            Rejection::Refused(status) => Trouble::Refused(status),
        }
    }
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Trouble {
        Trouble::Connection(fault)
    }
}

impl Connection {
    /// Handles bytes of a stream.
    pub fn handle_data(&mut self, stream: u64, bytes: &[u8], now: Instant) {
        self.activity.note_use(now);
        if !self.ending.is_open() {
            return;
        }
        if !is_bidirectional(stream) {
            self.read_critical(stream, bytes, now);
            self.follow(now);
        } else if let Some(request) = self.open(stream, now) {
            self.read(request, bytes, now);
        }
        self.settle();
    }

    /// Handles the end of a stream. All bytes of the stream must already be passed.
    pub fn handle_fin(&mut self, stream: u64, now: Instant) {
        self.activity.note_use(now);
        if !self.ending.is_open() {
            return;
        }
        if !is_bidirectional(stream) {
            if let Err(fault) = self.critical.ended(stream) {
                self.fail(fault);
            }
        } else if let Some(request) = self.open(stream, now)
            && let Some(open) = self.streams.get_mut(request)
            && open.expect != Expect::Nothing
        {
            open.fin = true;
            open.active = now;
            if !open.waiting {
                self.finish_request(request, now);
            }
        }
        self.settle();
    }

    /// Handles the reset of a stream by the client.
    pub fn handle_reset(&mut self, stream: u64, _code: u64, now: Instant) {
        self.activity.note_use(now);
        if !self.ending.is_open() {
            return;
        }
        if !is_bidirectional(stream) {
            if let Err(fault) = self.critical.ended(stream) {
                self.fail(fault);
            }
            return;
        }
        if !is_request(stream) {
            return;
        }
        if let Err(fault) = self.critical.count_idle(now) {
            return self.fail(fault);
        }
        if let Some(request) = self.open(stream, now)
            && let Some(open) = self.streams.get_mut(request)
            && !open.fin
        {
            self.critical.decoder.cancel(stream);
            open.fin = true;
            if !open.ends {
                self.break_off(request, stream, ErrorCode::REQUEST_CANCELLED, now);
            }
        }
        self.settle();
    }

    fn read_critical(&mut self, stream: u64, mut bytes: &[u8], now: Instant) {
        loop {
            let ending = &mut self.ending;
            let mut act = |action: Action| ending.act(action);
            match self.critical.read(stream, &mut bytes, &mut act, now) {
                Ok(Some(ControlEvent::Priority(stream, priority))) => {
                    self.reprioritize(stream, priority);
                }
                // A client's GOAWAY only refuses pushes, which this server never sends.
                Ok(Some(ControlEvent::Settings(_) | ControlEvent::GoAway(_))) => {}
                Ok(None) => return,
                Err(fault) => return self.fail(fault),
            }
        }
    }

    /// Executes the instructions of the client's encoder. Resumes blocked streams when their entries are in the table.
    fn follow(&mut self, now: Instant) {
        while self.ending.is_open() {
            match self.critical.decoder.follow_on() {
                Ok(true) => self.wake(now),
                Ok(false) => return,
                Err(error) => return self.fail(error.into()),
            }
        }
    }

    /// Resumes the streams whose entries have arrived.
    fn wake(&mut self, now: Instant) {
        while self.ending.is_open()
            && let Some(stream) = self.critical.decoder.unblocked()
        {
            let Some(request) = request_of(stream) else {
                continue;
            };
            let Some(open) = self.streams.get_mut(request) else {
                continue;
            };
            let mut held = std::mem::take(&mut open.held);
            if let Err(trouble) = self.decode(request, now) {
                self.trouble(request, trouble, now);
            }
            self.read(request, &held, now);
            if let Some(open) = self.streams.get_mut(request) {
                if open.held.is_empty() {
                    held.clear();
                    open.held = held;
                }
                if open.fin && !open.waiting && !open.ends {
                    self.finish_request(request, now);
                }
            }
        }
    }

    /// Reads bytes of a request.
    fn read(&mut self, request: RequestId, mut bytes: &[u8], now: Instant) {
        while self.ending.is_open() {
            match self.read_some(request, &mut bytes, now) {
                Ok(true) => {}
                Ok(false) => return,
                Err(trouble) => return self.trouble(request, trouble, now),
            }
        }
    }

    fn trouble(&mut self, request: RequestId, trouble: Trouble, now: Instant) {
        let stream = stream_of(request);
        match trouble {
            Trouble::Connection(fault) => self.fail(fault),
            Trouble::Refused(status) => self.refuse(request, status, now),
            Trouble::Stream(code) => self.break_off(request, stream, code, now),
        }
    }

    /// Reads until a field section is complete or the input is consumed. Returns whether more may be read.
    fn read_some(
        &mut self,
        request: RequestId,
        bytes: &mut &[u8],
        now: Instant,
    ) -> Result<bool, Trouble> {
        let Some(open) = self.streams.get_mut(request) else {
            return Ok(false);
        };
        open.active = now;
        if open.expect == Expect::Nothing {
            return Ok(false);
        }
        if open.waiting {
            open.held.extend_from_slice(bytes);
            return Ok(false);
        }
        let limits = &self.config.limits;
        if let Some(paid) = &mut open.paid {
            paid.note(bytes.len() as u64, &limits.content, now);
        }
        while let Some(piece) = open.frames.read(bytes) {
            match piece {
                Piece::Begin {
                    kind,
                    length,
                    header,
                } => {
                    open.reading = reading(kind, open.expect)?;
                    if open.reading == Reading::Skip || length == 0 {
                        self.critical.count_idle(now)?;
                    }
                    match open.reading {
                        Reading::Skip => {}
                        Reading::Section => {
                            open.served.exchange.request_head += Bytes(header + length);
                            if length > limits.section.0 {
                                return Err(Trouble::Refused(Status::HEADER_TOO_LARGE));
                            }
                            open.section.clear();
                        }
                        Reading::Data => {
                            let body = open.served.exchange.request_body.0.saturating_add(length);
                            if open
                                .content_length
                                .is_some_and(|announced| body > announced)
                            {
                                return Err(Malformed.into());
                            }
                            if body > limits.body.0 {
                                return Err(Trouble::Refused(Status::CONTENT_TOO_LARGE));
                            }
                            open.served.exchange.request_body = Bytes(body);
                        }
                    }
                }
                Piece::Payload(bytes) => {
                    if open.reading == Reading::Section {
                        open.section.extend_from_slice(bytes);
                    }
                }
                Piece::End if open.reading == Reading::Section => {
                    self.decode(request, now)?;
                    return Ok(true);
                }
                Piece::End => {}
            }
        }
        Ok(false)
    }

    /// Decodes the complete field section of a stream, as the head or as trailers.
    fn decode(&mut self, request: RequestId, now: Instant) -> Result<(), Trouble> {
        let Some(open) = self.streams.get_mut(request) else {
            return Ok(());
        };
        let stream = stream_of(request);
        self.fields.clear();
        let decoder = &mut self.critical.decoder;
        match decoder.decode(stream, &open.section, &mut self.fields) {
            Ok(Decoded::Blocked) => {
                open.waiting = true;
                return Ok(());
            }
            Ok(Decoded::Fields) => {}
            Err(qpack::Error::SectionTooLarge) => {
                open.waiting = false;
                if open.expect == Expect::Head {
                    let fields = std::mem::take(&mut self.fields);
                    self.describe_refused(request, &fields);
                    self.fields = fields;
                }
                return Err(Trouble::Refused(Status::HEADER_TOO_LARGE));
            }
            Err(error) => return Err(Fault::from(error).into()),
        }
        open.waiting = false;
        open.section.clear();
        open.served.request_fields += self.fields.bytes();
        if open.expect == Expect::Head {
            open.expect = Expect::Body;
            let fields = std::mem::take(&mut self.fields);
            let begun = self.begin(request, &fields, now);
            self.fields = fields;
            return begun;
        }
        section::trailers(&self.fields, Recipient::Http3)?;
        open.expect = Expect::End;
        Ok(())
    }

    /// Determines the answer to a request.
    fn begin(
        &mut self,
        request: RequestId,
        fields: &FieldBlock,
        now: Instant,
    ) -> Result<(), Trouble> {
        let limits = &self.config.limits;
        let (most_fields, most_body) = (limits.fields, limits.body.0);
        let head = match request_head::read(fields, Recipient::Http3, most_fields, limits.target.0)
        {
            Ok(head) => head,
            Err(rejection) => {
                self.describe_refused(request, fields);
                return Err(rejection.into());
            }
        };
        let texts = [head.method, head.target, head.referer, head.user_agent];
        let lengths = self.records.keep_text(request, texts);
        let answer = self.origin.decide(&head.request, now, &mut self.scratch);
        let Some(open) = self.streams.get_mut(request) else {
            return Ok(());
        };
        open.text = lengths;
        let exchange = &mut open.served.exchange;
        exchange.method = head.request.method;
        exchange.file = answer.file();
        exchange.received = now;
        exchange.target_hash = self.records.target_hash(head.target);
        open.content_length = head.content_length;
        if let Some(priority) = head.priority
            && !open.has_priority
            && self.config.priorities
        {
            open.priority = priority;
        }
        let takes_content = answer.takes_content();
        let limits = &self.config.limits;
        open.paid = Some(Paid::new(
            &limits.content,
            takes_content,
            limits.request,
            now,
        ));
        open.answer = Some(answer);
        if head.content_length.is_some_and(|length| length > most_body) {
            return Err(Trouble::Refused(Status::CONTENT_TOO_LARGE));
        }
        if head.expects_continue {
            if takes_content {
                self.write_interim(request, Status::CONTINUE, None);
            } else {
                self.respond(request, now);
                self.stop_reading(request, stream_of(request));
            }
        }
        Ok(())
    }

    /// Handles a request that is complete, or that cannot be completed.
    fn finish_request(&mut self, request: RequestId, now: Instant) {
        let Some(open) = self.streams.get_mut(request) else {
            return;
        };
        let body = open.served.exchange.request_body.0;
        let trouble = if !open.frames.is_between() {
            Trouble::Connection(Fault::MalformedFrame)
        } else if open.expect == Expect::Head {
            Trouble::Stream(ErrorCode::REQUEST_INCOMPLETE)
        } else if open
            .content_length
            .is_some_and(|announced| body != announced)
        {
            Malformed.into()
        } else {
            return self.take_up(request, now);
        };
        self.trouble(request, trouble, now);
    }

    /// Records the readable fields of a refused request, for logs.
    fn describe_refused(&mut self, request: RequestId, fields: &FieldBlock) {
        let value = |name| fields.get(name).unwrap_or_default();
        let (method, target) = (value(":method"), value(":path"));
        let texts = [method, target, value("referer"), value("user-agent")];
        let lengths = self.records.keep_text(request, texts);
        if let Some(open) = self.streams.get_mut(request) {
            open.text = lengths;
            let exchange = &mut open.served.exchange;
            exchange.method = Method::from_token(method);
            exchange.target_hash = self.records.target_hash(target);
        }
    }
}

/// Selects the treatment of a frame on a request stream.
fn reading(kind: FrameType, expect: Expect) -> Result<Reading, Fault> {
    match (kind, expect) {
        (FrameType::HEADERS, Expect::Head | Expect::Body) => Ok(Reading::Section),
        (FrameType::DATA, Expect::Body) => Ok(Reading::Data),
        (
            FrameType::HEADERS
            | FrameType::DATA
            | FrameType::PUSH_PROMISE
            | FrameType::CANCEL_PUSH
            | FrameType::SETTINGS
            | FrameType::GOAWAY
            | FrameType::MAX_PUSH_ID
            | FrameType::PRIORITY_UPDATE
            | FrameType::PUSH_PRIORITY_UPDATE,
            _,
        ) => Err(Fault::UnexpectedFrame),
        (kind, _) if kind.is_of_http2() => Err(Fault::UnexpectedFrame),
        _ => Ok(Reading::Skip),
    }
}
