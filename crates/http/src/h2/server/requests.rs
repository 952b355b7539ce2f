//! Processes requests: the answer, earlier interim responses, and pushes.

use fathometer_model::Instant;

use super::Connection;
use super::memory::{Key, Known};
use super::streams::{Past, Progress, Slot};
use crate::exchange;
use crate::exchange::request_head::{self, Rejection, RequestHead};
use crate::field_block::FieldBlock;
use crate::h2::StreamId;
use crate::h2::error::{Error, ErrorCode, Fault, StreamError};
use crate::message::Priority;
use crate::message::section::Recipient;
use crate::origin::conditions::{Lines, Preconditions, Single};
use crate::origin::target::Target;
use crate::origin::{Answer, Method, NEXT_TURN, Request, Status};
use crate::pace::Paid;

/// The maximum number of pushed targets that one connection remembers.
const MOST_REMEMBERED: usize = 4096;

impl Connection {
    /// Starts the request whose fields were decoded last.
    pub(super) fn begin(
        &mut self,
        slot: Slot,
        early: Option<Priority>,
        is_too_large: bool,
        now: Instant,
    ) -> Result<(), Error> {
        let fields = std::mem::take(&mut self.fields);
        let head = match is_too_large {
            true => Err(Rejection::Refused(Status::HEADER_TOO_LARGE)),
            false => {
                let limits = &self.config.limits;
                let recipient = Recipient::Http2Server;
                request_head::read(&fields, recipient, limits.fields, limits.target.0)
            }
        };
        let result = match head {
            Ok(head) => self.begin_with(slot, &head, early, now),
            Err(Rejection::Malformed) => {
                let id = self.streams[slot].id;
                Err(StreamError::new(id, Fault::Malformed).into())
            }
            Err(Rejection::Refused(status)) => {
                self.describe_refused(slot, &fields);
                self.answer_early(slot, status, now);
                Ok(())
            }
        };
        self.fields = fields;
        result
    }

    fn begin_with(
        &mut self,
        slot: Slot,
        head: &RequestHead<'_>,
        early: Option<Priority>,
        now: Instant,
    ) -> Result<(), Error> {
        let answer = self.origin.decide(&head.request, now, &mut self.scratch);
        // A PRIORITY_UPDATE overrides the `priority` field of the request (RFC 9218 section 7).
        let priority = early.or(head.priority);
        if priority.is_some() {
            self.responses.schedule().note_rfc9218();
        }
        let (events, keeps_text) = (self.config.events, self.config.request_text);
        let stream = &mut self.streams[slot];
        stream.priority = priority.unwrap_or_default();
        stream.signalled = head.priority;
        stream.request.announce(head.content_length);
        let exchange = &mut stream.served.exchange;
        exchange.method = head.request.method;
        exchange.file = answer.file();
        if events {
            exchange.target_hash = exchange::Served::target_hash(head.target);
        }
        if keeps_text {
            stream.keep_text([head.method, head.target, head.referer, head.user_agent]);
        }
        if !stream.receiving && stream.request.differs() {
            return Err(StreamError::new(stream.id, Fault::ContentLength).into());
        }
        if head
            .content_length
            .is_some_and(|length| length > self.config.limits.body.0)
        {
            self.answer_early(slot, Status::CONTENT_TOO_LARGE, now);
            return Ok(());
        }
        let receiving = stream.receiving;
        let takes_content = answer.takes_content();
        self.hint_early(slot, &answer);
        let before = self.streams.last_promised();
        self.promise(slot, head, &answer, now);
        let limits = &self.config.limits;
        let stream = &mut self.streams[slot];
        if receiving {
            let paid = Paid::new(&limits.content, takes_content, limits.idle, now);
            stream.request.limit(paid);
        }
        stream.answer = Some(answer);
        if !receiving {
            self.take_up(slot, now);
        } else if head.expects_continue && takes_content {
            self.responses
                .write_interim(&mut self.streams, slot, b"100", &[]);
        } else if head.expects_continue || head.request.method == Method::Connect {
            // The client waits for the answer before it sends content: it expects 100 (Continue) or opens a tunnel.
            self.streams[slot].answered_early = true;
            self.make_ready(slot, now);
        }
        self.take_promises_up(before, now);
        Ok(())
    }

    /// Starts a cached request.
    pub(super) fn begin_remembered(
        &mut self,
        slot: Slot,
        key: Key,
        early: Option<Priority>,
        now: Instant,
    ) {
        let Some(known) = self.responses.memory().known(key) else {
            debug_assert!(false, "the entry of a cached request is missing");
            return;
        };
        let priority = early.or(known.signalled);
        let stream = &mut self.streams[slot];
        stream.priority = priority.unwrap_or_default();
        stream.served.request_fields = known.request_fields;
        let exchange = &mut stream.served.exchange;
        exchange.method = known.method;
        exchange.file = known.file;
        exchange.target_hash = known.target_hash;
        stream.answer = Some(known.answer.clone());
        stream.remembered = Some(key);
        if priority.is_some() {
            self.responses.schedule().note_rfc9218();
        }
        self.take_up(slot, now);
    }

    /// Caches a request and its answer. The header block must have left the HPACK table unchanged, and the answer must
    /// be the same for each repetition.
    pub(super) fn remember(&mut self, slot: Slot, id: StreamId, block: &[u8]) {
        let stream = &self.streams[slot];
        let Some(answer) = &stream.answer else {
            return;
        };
        let is_repeatable = stream.id == id
            && answer.file().is_some()
            && !stream.receiving
            && stream.begun.is_none()
            && !self.config.request_text
            && self.origin.pushed_with(answer).is_empty()
            && self.origin.early_hints(answer).is_none();
        if !is_repeatable || !self.responses.memory().was_seen_before(block) {
            return;
        }
        let exchange = &stream.served.exchange;
        let known = Known {
            method: exchange.method,
            file: exchange.file,
            target_hash: exchange.target_hash,
            request_fields: stream.served.request_fields,
            signalled: stream.signalled,
            answer: answer.clone(),
        };
        let key = self
            .responses
            .memory()
            .learn(block, self.decoder.generation(), known);
        self.streams[slot].remembered = Some(key);
    }

    /// Records the readable parts of a refused request, for logs.
    fn describe_refused(&mut self, slot: Slot, fields: &FieldBlock) {
        let stream = &mut self.streams[slot];
        let value = |name| fields.get(name).unwrap_or_default();
        stream.served.exchange.method = Method::from_token(value(":method"));
        if self.config.events {
            stream.served.exchange.target_hash = exchange::Served::target_hash(value(":path"));
        }
        if self.config.request_text {
            stream.keep_text([
                value(":method"),
                value(":path"),
                value("referer"),
                value("user-agent"),
            ]);
        }
    }

    /// Answers a request before the request is complete.
    pub(super) fn answer_early(&mut self, slot: Slot, status: Status, now: Instant) {
        let stream = &mut self.streams[slot];
        if stream.progress == Progress::Reading {
            stream.answered_early = true;
            let method = stream.served.exchange.method.known();
            stream.answer = Some(Answer::refusal_of(method, status));
            self.make_ready(slot, now);
        }
    }

    /// Handles request content that is too slow or stops. A request whose answer does not depend on the content is
    /// answered.
    pub(super) fn give_up_content(&mut self, slot: Slot, now: Instant) {
        let stream = &mut self.streams[slot];
        let answer = stream.answer.as_ref();
        if answer.is_some_and(|answer| !answer.takes_content()) {
            stream.answered_early = true;
            self.make_ready(slot, now);
        } else {
            self.answer_early(slot, Status::REQUEST_TIMEOUT, now);
        }
    }

    /// Starts the work on a complete request, or answers it at once.
    pub(super) fn take_up(&mut self, slot: Slot, now: Instant) {
        let config = &self.config;
        let mut time = config.service_time;
        if !std::mem::replace(&mut self.has_worked, true) {
            time += config.connection_time;
        }
        let stream = &mut self.streams[slot];
        if stream.answer.as_ref().is_some_and(Answer::is_undecided) {
            time = time.max(NEXT_TURN);
        }
        if time.is_zero() && self.work.is_empty() {
            self.make_ready(slot, now);
            return;
        }
        stream.progress = Progress::Working;
        self.work.add(slot, time, now);
    }

    /// Answers the requests whose processing time has passed.
    pub(super) fn finish_work(&mut self, now: Instant) {
        while let Some(slot) = self.work.take_done(now) {
            if self.decides(slot, now) {
                self.make_ready(slot, now);
            } else {
                self.work.repeat(slot, now + NEXT_TURN);
            }
        }
    }

    /// Continues the decision on an undecided answer; returns whether the answer is decided.
    fn decides(&mut self, slot: Slot, now: Instant) -> bool {
        let stream = &mut self.streams[slot];
        let Some(answer) = stream
            .answer
            .as_mut()
            .filter(|answer| answer.is_undecided())
        else {
            return true;
        };
        if !self.origin.go_on(answer, now) {
            return false;
        }
        stream.served.exchange.file = answer.file();
        true
    }

    /// Sends 103 (Early Hints) for the answer, if it has hints (RFC 8297).
    fn hint_early(&mut self, slot: Slot, answer: &Answer) {
        if self.config.early_hints && self.origin.hints_early() {
            let origin = std::sync::Arc::clone(&self.origin);
            if let Some(link) = origin.early_hints(answer) {
                self.responses
                    .write_interim(&mut self.streams, slot, b"103", &[(b"link", link)]);
            }
        }
    }

    /// Promises the pushes of an answer, if any (RFC 9113 section 8.4). Each file is pushed once per connection.
    fn promise(&mut self, slot: Slot, head: &RequestHead<'_>, answer: &Answer, now: Instant) {
        let may_push = self.config.push
            && self.responses.peer().enable_push
            && self.ending.is_staying()
            && !self.origin.pushed_with(answer).is_empty();
        if !may_push {
            return;
        }
        let origin = std::sync::Arc::clone(&self.origin);
        let most = self
            .responses
            .peer()
            .max_concurrent_streams
            .unwrap_or(u32::MAX)
            .min(self.config.limits.pushes) as usize;
        for companion in origin.pushed_with(answer) {
            let target = companion.target().as_bytes();
            let hash = exchange::Served::target_hash(target);
            if self.streams.promised_count() >= most
                || self.streams.last_promised().number() >= StreamId::MAX.number() - 1
                || self.pushed.len() >= MOST_REMEMBERED
                || self.pushed.contains(&hash)
            {
                continue;
            }
            let Ok(parsed) = Target::parse(Method::Get, target) else {
                continue;
            };
            let request = Request {
                method: Method::Get,
                target: parsed,
                preconditions: Preconditions::default(),
                range: Single::Absent,
                accept: Lines::default(),
                accept_encoding: head.request.accept_encoding,
                available_dictionary: Single::Absent,
                package_have: Single::Absent,
                no_transform: false,
            };
            let answer = origin.decide(&request, now, &mut self.scratch);
            if answer.status() != Status::OK {
                continue;
            }
            self.pushed.insert(hash);
            let base = slot;
            let slot = self
                .responses
                .write_promise(&mut self.streams, base, head, target, now);
            let urgency = self.streams[base].priority.urgency;
            let stream = &mut self.streams[slot];
            // A push is unrequested, so its urgency is the less urgent of the default and the page's urgency.
            stream.priority.urgency = urgency.max(Priority::default().urgency);
            stream.served.exchange.method = Method::Get;
            stream.served.exchange.file = answer.file();
            if self.config.events {
                stream.served.exchange.target_hash = hash;
            }
            if self.config.request_text {
                stream.keep_text([b"GET", target, b"", head.user_agent]);
            }
            stream.answer = Some(answer);
        }
    }

    /// Starts to answer the promises above stream `before`. The request that caused them has already started.
    fn take_promises_up(&mut self, before: StreamId, now: Instant) {
        let (first, last) = (before.number() + 2, self.streams.last_promised().number());
        for number in (first..=last).step_by(2) {
            if let Some(slot) = self.streams.find(StreamId::new(number)) {
                self.take_up(slot, now);
            }
        }
    }

    /// Notes that a response is ready.
    fn make_ready(&mut self, slot: Slot, now: Instant) {
        self.responses
            .make_ready(&mut self.streams, &mut self.budget, slot, now);
    }

    /// Closes a stream, even if a part of its response is in frames.
    pub(super) fn abandon(&mut self, slot: Slot, code: ErrorCode, past: Past) {
        self.work.remove(slot);
        self.responses.abandon(&mut self.streams, slot, code, past);
    }

    /// Drops the requests that will never be complete. Returns whether any were dropped.
    pub(super) fn drop_unfinished_requests(&mut self) -> bool {
        let mut dropped = false;
        let mut place = 0;
        while let Some(slot) = self.streams.at(place) {
            if self.streams[slot].progress == Progress::Reading {
                self.abandon(slot, ErrorCode::CANCEL, Past::ResetByClient);
                dropped = true;
            } else {
                place += 1;
            }
        }
        dropped
    }
}

impl super::streams::Stream {
    /// Stores the parts of the request that logs need: method, target, `Referer`, `User-Agent`.
    fn keep_text(&mut self, [method, target, referer, user_agent]: [&[u8]; 4]) {
        self.text.clear();
        for part in [method, b" ", target, b" HTTP/2.0"] {
            self.text.extend_from_slice(part);
        }
        let line = self.text.len() as u32;
        self.text.extend_from_slice(referer);
        self.text.extend_from_slice(user_agent);
        self.text_lengths = [line, referer.len() as u32, user_agent.len() as u32];
    }
}
