//! Reading requests: finding the heads, deciding the answers, and reading the content that follows.

use std::time::Duration;

use fathometer_model::{Bytes, Instant};

use super::refusal::{CloseReason, Refusal};
use super::request::{self, BodyFraming, RequestHead};
use super::text::TextLengths;
use super::{Body, Connection, Exchange, Reading, Served, Work};
use crate::h1::chunked::{ChunkedDecoder, ChunkedLimits};
use crate::h1::syntax::{HeadEnd, Strictness, leading_line_end};
use crate::message::fields;
use crate::origin::{NEXT_TURN, Status};
use crate::pace::Paid;

/// The maximum number of empty lines that are skipped before a request (RFC 9112 section 2.2). Without a limit, a
/// client could keep a connection open with empty lines: no head has begun, and the connection is not idle.
const MOST_EMPTY_LINES: u8 = 4;

impl Connection {
    /// Processes the input in the buffer.
    pub(super) fn process_input(&mut self, now: Instant) {
        let mut input = std::mem::take(&mut self.input);
        let used = self.process(&input, now);
        input.drain(..used);
        self.input = input;
    }

    /// Processes as much of `bytes` as possible; returns the number of processed bytes.
    pub(super) fn process(&mut self, bytes: &[u8], now: Instant) -> usize {
        let mut used = 0;
        while used < bytes.len() {
            let rest = &bytes[used..];
            let step = match self.reading {
                Reading::Head if self.is_congested() || self.is_answering() => 0,
                Reading::Head => self.read_head(rest, now),
                Reading::Body { .. } => self.read_body(rest, now),
                Reading::Upgraded => 0,
                Reading::Nothing => {
                    self.discarded += rest.len() as u64;
                    rest.len()
                }
            };
            if step == 0 && !matches!(self.reading, Reading::Nothing) {
                break;
            }
            used += step;
        }
        used
    }

    /// Reads a head if it is complete; returns its length.
    fn read_head(&mut self, bytes: &[u8], now: Instant) -> usize {
        let empty_line = leading_line_end(bytes, Strictness::Strict);
        if empty_line > 0 && self.empty_lines < MOST_EMPTY_LINES {
            self.empty_lines += 1;
            return empty_line;
        }
        if bytes == b"\r" {
            return 0;
        }
        let found = match self.work {
            Some(work) if now < work.until => return 0,
            Some(work) => Ok((work.head, Some(work.interim))),
            None => {
                self.head_started.get_or_insert(now);
                match self.find_head(bytes) {
                    Ok(None) => return 0,
                    Ok(Some(head)) => {
                        let time = self.work_time();
                        if !time.is_zero() {
                            self.work = Some(Work {
                                head,
                                until: now + time,
                                interim: self.hint_before_work(&bytes[..head], now),
                            });
                            self.head_started = None;
                            return 0;
                        }
                        Ok((head, None))
                    }
                    Err(refusal) => Err(refusal),
                }
            }
        };
        self.work = None;
        self.head_end = HeadEnd::new();
        self.head_started = None;
        self.empty_lines = 0;
        let begun = found.and_then(|(length, interim)| {
            let head = &bytes[..length];
            let read = request::read(head, &self.config.limits)?;
            if self.upgrades(&read, head) {
                return Ok(length);
            }
            let text = self.keep_text(read.line, head);
            self.begin(&read, (length, interim), text, now)
                .inspect_err(|_| self.texts.forget(text))?;
            Ok(length)
        });
        match begun {
            Ok(length) => length,
            Err(refusal) => {
                self.refuse_head(refusal, bytes, now);
                0
            }
        }
    }

    /// Sends early hints, if there are any, before the work on a request starts; returns their size in bytes. An
    /// unreadable request is refused later, when its processing starts.
    fn hint_before_work(&mut self, head: &[u8], now: Instant) -> Bytes {
        if !self.origin.hints_early() {
            return Bytes(0);
        }
        let Ok(head) = request::read(head, &self.config.limits) else {
            return Bytes(0);
        };
        let answer = self.origin.decide(&head.request, now, &mut self.scratch);
        let interim = self.hint_early(&answer, head.version);
        if interim > Bytes(0) {
            self.release_all(now);
        }
        interim
    }

    /// Stores the parts of a request that logs need.
    fn keep_text(&mut self, line: &[u8], head: &[u8]) -> TextLengths {
        if !self.config.request_text {
            return TextLengths::default();
        }
        self.texts.keep([
            line,
            request::first_value(head, b"referer"),
            request::first_value(head, b"user-agent"),
        ])
    }

    /// Refuses a head that was not complete in time.
    pub(super) fn refuse_late_head(&mut self, now: Instant) {
        let input = std::mem::take(&mut self.input);
        self.discarded += input.len() as u64;
        self.refuse_head(Refusal::HeadTimeout, &input, now);
    }

    /// Refuses a head, which may be readable only up to its first line or its method.
    fn refuse_head(&mut self, refusal: Refusal, bytes: &[u8], now: Instant) {
        let text = if self.config.request_text {
            let end = memchr::memchr2(b'\r', b'\n', bytes).unwrap_or(bytes.len());
            self.texts.keep([&bytes[..end], &[], &[]])
        } else {
            TextLengths::default()
        };
        let served = Served {
            method: request::method(bytes),
            ..Served::unread(now)
        };
        if self.config.upgrade && self.requests == 0 && request::is_other_protocol(bytes) {
            return self.refuse_silently(refusal, served, text);
        }
        self.refuse_as(refusal, served, text, now);
    }

    /// Returns the processing time of the next request.
    fn work_time(&self) -> Duration {
        if self.requests == 0 {
            self.config.service_time + self.config.connection_time
        } else {
            self.config.service_time
        }
    }

    /// Returns the length of the head at the start of `bytes`; `None` if it is incomplete. Whether a head is too long
    /// depends only on its bytes, not on the number of bytes that arrive at once.
    fn find_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, Refusal> {
        if !fields::is_token_byte(bytes[0]) {
            return Err(Refusal::BadRequestLine);
        }
        let limits = &self.config.limits;
        // Adds room for the method, the version and the spaces between.
        let line_limit = limits.target.0.saturating_add(64).min(limits.head.0) as usize;
        let end = self.head_end.find(bytes);
        let whole = end.unwrap_or(bytes.len());
        if whole > line_limit && memchr::memchr(b'\n', &bytes[..line_limit]).is_none() {
            return Err(Refusal::TargetTooLong);
        }
        if whole as u64 > limits.head.0 {
            return Err(Refusal::HeadTooLong);
        }
        Ok(end)
    }

    /// Decides the answer to a request, and the content to read before the answer is sent. `interim` is the size of the
    /// interim response that was sent during the work, if any.
    fn begin(
        &mut self,
        head: &RequestHead<'_>,
        (length, interim): (usize, Option<Bytes>),
        text: TextLengths,
        now: Instant,
    ) -> Result<(), Refusal> {
        let answer = self.origin.decide(&head.request, now, &mut self.scratch);
        let interim = match interim {
            Some(interim) => interim,
            None => self.hint_early(&answer, head.version),
        };
        let mut exchange = Exchange {
            version: head.version,
            persistent: head.persistent,
            asks_keep_alive: head.asks_keep_alive,
            served: Served {
                method: head.request.method,
                file: answer.file(),
                target_hash: if self.config.events {
                    Served::target_hash(head.target)
                } else {
                    0
                },
                status: answer.status().code(),
                request_head: Bytes(length as u64),
                head: interim,
                ..Served::unread(now)
            },
            answer,
            text,
        };
        let body = match head.body {
            BodyFraming::Length(0) => {
                self.answer(exchange, now);
                return Ok(());
            }
            BodyFraming::Length(length) if length > self.config.limits.body.0 => {
                return Err(Refusal::BodyTooLong);
            }
            BodyFraming::Length(length) => Body::Length(length),
            BodyFraming::Chunked => Body::Chunked(ChunkedDecoder::new(
                Strictness::Strict,
                ChunkedLimits::default(),
            )),
        };
        if head.expects_continue {
            if !exchange.answer.takes_content() {
                self.respond(&exchange, Some(CloseReason::ContentUnwanted), now);
                return Ok(());
            }
            let before = self.output.queued();
            self.output.push_text(|text| {
                text.extend_from_slice(b"HTTP/1.1 ");
                text.extend_from_slice(Status::CONTINUE.line().as_bytes());
                text.extend_from_slice(b"\r\n\r\n");
            });
            exchange.served.head += Bytes(self.output.queued() - before);
            // The client withholds its content until it gets this response, so all held output is sent too.
            self.release_all(now);
        }
        let limits = &self.config.limits;
        let is_wanted = exchange.answer.takes_content();
        self.reading = Reading::Body {
            body,
            paid: Paid::new(&limits.content, is_wanted, limits.idle, now),
            exchange,
        };
        Ok(())
    }

    /// Reads content; returns the number of processed bytes.
    fn read_body(&mut self, bytes: &[u8], now: Instant) -> usize {
        let Reading::Body {
            body,
            exchange,
            paid,
        } = &mut self.reading
        else {
            return 0;
        };
        let received = &mut exchange.served.request_body.0;
        let (used, done) = match body {
            Body::Length(left) => {
                let used = bytes
                    .len()
                    .min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= used as u64;
                *received += used as u64;
                (used, *left == 0)
            }
            Body::Chunked(decoder) => match decoder.decode(bytes) {
                Ok(decoded) => {
                    *received += decoded.data.len() as u64;
                    (decoded.consumed, decoder.is_done())
                }
                Err(error) => {
                    self.refuse_content(error.into(), now);
                    return bytes.len();
                }
            },
        };
        paid.note(used as u64, &self.config.limits.content, now);
        if *received > self.config.limits.body.0 {
            self.refuse_content(Refusal::BodyTooLong, now);
        } else if done
            && let Reading::Body { exchange, .. } =
                std::mem::replace(&mut self.reading, Reading::Head)
        {
            self.answer(exchange, now);
        }
        used
    }

    /// Handles content that arrives too slowly or not at all. If the answer does not depend on the content, the
    /// request is answered; otherwise it is refused.
    pub(super) fn give_up_content(&mut self, now: Instant) {
        match std::mem::replace(&mut self.reading, Reading::Nothing) {
            Reading::Body { exchange, .. } if !exchange.answer.takes_content() => {
                self.respond(&exchange, Some(CloseReason::ContentUnwanted), now);
            }
            reading => {
                self.reading = reading;
                self.refuse_content(Refusal::BodyTimeout, now);
            }
        }
    }

    /// Answers a request once its answer is decided.
    fn answer(&mut self, exchange: Exchange, now: Instant) {
        if !exchange.answer.is_undecided() {
            return self.respond(&exchange, None, now);
        }
        self.undecided = Some(Box::new(exchange));
        self.work = Some(Work {
            head: 0,
            until: now + NEXT_TURN,
            interim: Bytes(0),
        });
    }

    /// Continues with an undecided answer, if there is one.
    pub(super) fn go_on(&mut self, now: Instant) {
        let Some(mut exchange) = self.undecided.take() else {
            return;
        };
        if !self.origin.go_on(&mut exchange.answer, now) {
            return self.answer(*exchange, now);
        }
        self.work = None;
        exchange.served.status = exchange.answer.status().code();
        exchange.served.file = exchange.answer.file();
        self.respond(&exchange, None, now);
    }

    /// Whether requests wait for the answer to an earlier request.
    fn is_answering(&self) -> bool {
        self.flowing.is_some() || self.undecided.is_some()
    }
}
