//! Events for exchanges: complete ones as the transport takes them, and those that were cut short.

use fathometer_model::{Bytes, Instant};

use super::Connection;
use super::streams::Past;
use crate::exchange::{self, RequestText};
use crate::h2::StreamId;
use crate::h2::error::ErrorCode;
use crate::origin::Method;

/// An exchange whose response was handed to the transport, completely or in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// The values that HTTP/1 has too. Heads are counted as the frames that carry them, HEADERS and
    /// CONTINUATION with their headers, including interim heads. The request head of a push is its
    /// PUSH_PROMISE. Content is counted without framing.
    pub exchange: exchange::Served,
    /// The stream.
    pub stream: StreamId,
    /// Names and values of the request's fields, before compression.
    pub request_fields: Bytes,
    /// Names and values of the response's fields, before compression, interim heads included.
    pub head_fields: Bytes,
    /// Bytes of the response's DATA frames, their headers included.
    pub body_frames: Bytes,
    /// Whether the server pushed it.
    pub pushed: bool,
    /// The error code if either side reset the stream before its response was complete.
    pub reset: Option<ErrorCode>,
}

/// A queued response.
#[derive(Debug)]
pub(super) struct Outstanding {
    /// Its start position in the output.
    pub start: u64,
    /// Its end position in the output.
    pub end: u64,
    /// Bytes of content in its last frame.
    pub last_content: u32,
    pub served: Served,
    pub text: [u32; 3],
}

/// A queued DATA frame.
#[derive(Debug)]
pub(super) struct QueuedFrame {
    pub end: u64,
    pub stream: StreamId,
    pub content: u32,
}

impl Connection {
    /// The next exchange whose response was handed over, when events are
    /// [enabled](super::ServerConfig::events). Events are kept until they are taken.
    pub fn poll_event(&mut self) -> Option<Served> {
        self.poll_event_with_text().map(|(served, _)| served)
    }

    /// The same, with the request's text for logs, where that is [kept](super::ServerConfig::request_text).
    pub fn poll_event_with_text(&mut self) -> Option<(Served, RequestText<'_>)> {
        let (served, lengths) = self.events.pop_front()?;
        let total: usize = lengths.iter().map(|&length| length as usize).sum();
        self.text.clear();
        self.text.extend(self.texts.drain(..total));
        Some((served, request_text(&self.text, lengths)))
    }

    /// An exchange whose response was handed to the transport only in part, on a connection that is no longer
    /// served. Its content counts the bytes handed over. Call it until it returns `None`, after all events were
    /// taken.
    pub fn cut_short(&mut self, now: Instant) -> Option<(Served, RequestText<'_>)> {
        let sent = self.output.sent();
        let (mut served, lengths) = loop {
            if let Some(Outstanding {
                start,
                end,
                last_content,
                mut served,
                text,
            }) = self.outstanding.pop_front()
            {
                let total: usize = text.iter().map(|&length| length as usize).sum();
                self.text.clear();
                self.text.extend(self.texts.drain(..total));
                let unsent = u64::from(last_content).min(end.saturating_sub(sent));
                served.exchange.body.0 -= unsent;
                if start < sent {
                    break (served, text);
                }
                continue;
            }
            let slot = self.streams.at(0)?;
            let stream = &mut self.streams[slot];
            let (served, lengths) = (stream.served, stream.text_lengths);
            let has_begun = stream.begun.is_some_and(|begun| begun < sent);
            self.text.clear();
            self.text.extend_from_slice(&stream.text);
            self.streams.close(slot, Past::Ended);
            if has_begun {
                break (served, lengths);
            }
        };
        let unsent = self
            .frames
            .iter()
            .filter(|frame| frame.stream == served.stream);
        let unsent: u64 = unsent
            .map(|frame| u64::from(frame.content).min(frame.end.saturating_sub(sent)))
            .sum();
        served.exchange.body.0 = served.exchange.body.0.saturating_sub(unsent);
        served.exchange.at = now;
        Some((served, request_text(&self.text, lengths)))
    }

    /// Generates events for the responses that the transport has taken.
    pub(super) fn note_handed_over(&mut self, now: Instant) {
        let sent = self.output.sent();
        while let Some(first) = self.outstanding.front()
            && first.end <= sent
        {
            let mut served = first.served;
            served.exchange.at = now;
            self.events.push_back((served, first.text));
            self.outstanding.pop_front();
        }
        while self.frames.front().is_some_and(|first| first.end <= sent) {
            self.frames.pop_front();
        }
    }
}

/// Splits the text of a request.
fn request_text(text: &[u8], lengths: [u32; 3]) -> RequestText<'_> {
    let (line, rest) = text.split_at(lengths[0] as usize);
    let (referer, user_agent) = rest.split_at(lengths[1] as usize);
    RequestText {
        line,
        referer,
        user_agent,
    }
}

impl Served {
    /// A record for a request that has not been read yet.
    pub(super) fn unread(stream: StreamId, now: Instant) -> Served {
        Served {
            exchange: exchange::Served {
                method: Method::Unknown,
                file: None,
                target_hash: 0,
                status: 0,
                request_head: Bytes(0),
                request_body: Bytes(0),
                head: Bytes(0),
                body: Bytes(0),
                received: now,
                at: now,
            },
            stream,
            request_fields: Bytes(0),
            head_fields: Bytes(0),
            body_frames: Bytes(0),
            pushed: stream.is_server(),
            reset: None,
        }
    }
}
