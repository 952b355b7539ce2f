//! Queueing responses: connection fields, heads, content, and the release of output.

use fathometer_model::{Bytes, Instant};

use super::flowing::Flowing;
use super::refusal::{CloseReason, Refusal};
use super::request::Version;
use super::text::TextLengths;
use super::{Coalesce, Connection, Exchange, Outstanding, Reading, Served};
use crate::origin::{Answer, FieldSink, HopField, Status};

impl Connection {
    /// Queues the response to a request. The answer must be decided. The request is completely read, or its unread part
    /// will not be read.
    pub(super) fn respond(
        &mut self,
        exchange: &Exchange,
        close: Option<CloseReason>,
        now: Instant,
    ) {
        let limit = self.config.max_requests_per_connection;
        let left = limit.map(|limit| limit.saturating_sub(self.requests + 1));
        let reason = if close.is_some() {
            close
        } else if !exchange.persistent {
            Some(CloseReason::ClientRequested)
        } else if exchange.answer.is_open() && exchange.version == Version::Http10 {
            Some(CloseReason::EndsContent)
        } else if !self.config.keep_alive {
            Some(CloseReason::KeepAliveOff)
        } else if left == Some(0) {
            Some(CloseReason::RequestLimit)
        } else if self.ending {
            Some(CloseReason::ServerEnds)
        } else {
            None
        };
        let connection = match (reason, exchange.version) {
            // An HTTP/1.0 client that did not request keep-alive expects the close.
            (Some(CloseReason::ClientRequested), Version::Http10) => None,
            (Some(_), _) => Some("close"),
            (None, Version::Http10) => Some("Keep-Alive"),
            // HTTP/1.1 connections persist by default. A client that requests keep-alive gets the `Keep-Alive`
            // field, if the server sends it.
            (None, Version::Http11)
                if exchange.asks_keep_alive && self.origin.announces_keep_alive() =>
            {
                Some("Keep-Alive")
            }
            (None, Version::Http11) => None,
        };
        let subject = (exchange.served, exchange.text);
        let framing = Framing {
            connection,
            requests_left: left,
            chunked: exchange.version == Version::Http11,
        };
        self.queue(&exchange.answer, subject, framing, now);
        if let Some(reason) = reason {
            self.stop(reason);
        }
    }

    /// Refuses a request whose content is being read, and reads no more.
    pub(super) fn refuse_content(&mut self, refusal: Refusal, now: Instant) {
        let reading = std::mem::replace(&mut self.reading, Reading::Nothing);
        if let Reading::Body { exchange, .. } = reading {
            self.refuse_as(refusal, exchange.served, exchange.text, now);
        }
    }

    /// Refuses, without a response, a request that may be a malformed HTTP/2 preface: the client would parse a
    /// response as frames. The close of the connection signals the error (RFC 9113 section 3.4). Logs record the
    /// request as refused.
    pub(super) fn refuse_silently(&mut self, refusal: Refusal, served: Served, text: TextLengths) {
        if self.config.events {
            let status = refusal.status().code();
            self.events.push_back((Served { status, ..served }, text));
        } else {
            self.texts.forget(text);
        }
        self.stop(CloseReason::Refused(refusal));
    }

    /// Answers a request with a refusal, and reads no more.
    pub(super) fn refuse_as(
        &mut self,
        refusal: Refusal,
        served: Served,
        text: TextLengths,
        now: Instant,
    ) {
        let status = refusal.status();
        let answer = Answer::refusal_of(Some(served.method), status);
        let served = Served {
            status: status.code(),
            ..served
        };
        let framing = Framing {
            connection: Some("close"),
            requests_left: None,
            chunked: false,
        };
        self.queue(&answer, (served, text), framing, now);
        self.stop(CloseReason::Refused(refusal));
    }

    /// Queues a response.
    fn queue(
        &mut self,
        answer: &Answer,
        (served, text): (Served, TextLengths),
        framing: Framing,
        now: Instant,
    ) {
        self.requests += 1;
        let flow = self.origin.flow(answer, now);
        let chunked = framing.chunked && flow.is_some() && answer.is_open();
        let (origin, dates) = (&self.origin, &mut self.dates);
        let idle = self.config.limits.keep_alive.as_secs();
        let before = self.output.queued();
        self.output.push_text(|text| {
            text.extend_from_slice(b"HTTP/1.1 ");
            text.extend_from_slice(answer.status().line().as_bytes());
            text.extend_from_slice(b"\r\n");
            let mut head = Head {
                text,
                connection: framing.connection,
                idle,
                requests_left: framing.requests_left,
            };
            origin.write_fields(answer, origin.wall_clock(now), dates, &mut head);
            if chunked {
                head.field("Transfer-Encoding", b"chunked");
            }
            text.extend_from_slice(b"\r\n");
        });
        let head = self.output.queued() - before;
        if let Some(flow) = flow {
            let served = Served {
                head: served.head + Bytes(head),
                ..served
            };
            let flowing = Flowing::new(flow, chunked, (served, text), now);
            self.flowing = Some(Box::new(flowing));
            return self.flow_on(now);
        }
        let output = &mut self.output;
        origin.write_content(answer, |segment| output.push(segment));
        let end = self.output.queued();
        if self.config.events {
            let served = Served {
                head: served.head + Bytes(head),
                body: Bytes(end - before - head),
                ..served
            };
            self.outstanding.push_back(Outstanding {
                end,
                is_broken: false,
                served,
                text,
            });
        }
        let buffer = self.config.output_buffer.0;
        if self.config.coalesce == Coalesce::EachResponse || buffer == 0 {
            self.release_all(now);
        } else {
            self.note_release(now);
            self.output.release_full(buffer);
        }
    }

    /// Queues a 103 (Early Hints) if the answer has hints; returns its size in bytes. HTTP/1.0 has no interim
    /// responses.
    pub(super) fn hint_early(&mut self, answer: &Answer, version: Version) -> Bytes {
        let hints = self.origin.early_hints(answer);
        let Some(link) = hints.filter(|_| version == Version::Http11) else {
            return Bytes(0);
        };
        let before = self.output.queued();
        self.output.push_text(|text| {
            text.extend_from_slice(b"HTTP/1.1 ");
            text.extend_from_slice(Status::EARLY_HINTS.line().as_bytes());
            text.extend_from_slice(b"\r\nLink: ");
            text.extend_from_slice(link);
            text.extend_from_slice(b"\r\n\r\n");
        });
        Bytes(self.output.queued() - before)
    }

    pub(super) fn release_all(&mut self, now: Instant) {
        self.note_release(now);
        self.output.release_all();
    }

    /// Restarts the send time-out when the first held output is about to be released.
    fn note_release(&mut self, now: Instant) {
        if !self.output.is_released() && self.output.held() > 0 {
            self.last_output = now;
        }
    }
}

/// The connection and framing fields of a response head.
#[derive(Debug, Clone, Copy)]
struct Framing {
    /// The value of `Connection`.
    connection: Option<&'static str>,
    /// The number of requests that the connection still accepts.
    requests_left: Option<u32>,
    /// Whether content of unknown length is chunked.
    chunked: bool,
}

/// Writes fields in HTTP/1.x format.
struct Head<'a> {
    text: &'a mut Vec<u8>,
    connection: Option<&'static str>,
    /// Seconds for which an idle connection is kept open.
    idle: u64,
    requests_left: Option<u32>,
}

impl FieldSink for Head<'_> {
    fn field(&mut self, name: &str, value: &[u8]) {
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(b": ");
        self.text.extend_from_slice(value);
        self.text.extend_from_slice(b"\r\n");
    }

    fn hop(&mut self, field: HopField, name: &str) {
        use std::io::Write;
        let Some(connection) = self.connection else {
            return;
        };
        match (field, self.requests_left) {
            (HopField::Connection, _) => self.field(name, connection.as_bytes()),
            (HopField::KeepAlive, _) if connection == "close" => {}
            // Writing to a vector cannot fail.
            (HopField::KeepAlive, Some(left)) => {
                let _ = write!(self.text, "{name}: timeout={}, max={left}\r\n", self.idle);
            }
            (HopField::KeepAlive, None) => {
                let _ = write!(self.text, "{name}: timeout={}\r\n", self.idle);
            }
        }
    }
}
