//! Reads responses.

use fathometer_model::{Bytes, Failure, Instant};

use super::connection::{Connection, Phase};
use super::stream::{Expect, Reading, Stream};
use super::{Event, RequestId};
use crate::h3::frame::{FrameType, Piece};
use crate::h3::{ErrorCode, Fault, is_bidirectional, request_of, stream_of};
use crate::message::section::{self, Malformed, Recipient};
use crate::qpack::{self, Decoded};

/// The reason why a stream cannot be read further.
enum Trouble {
    /// The response is unusable, but the connection continues.
    Stream(Failure, ErrorCode),
    Connection(Fault),
}

impl From<Malformed> for Trouble {
    fn from(_: Malformed) -> Trouble {
        Trouble::Stream(Failure::BadResponse, ErrorCode::MESSAGE_ERROR)
    }
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Trouble {
        Trouble::Connection(fault)
    }
}

const TOO_LARGE: Trouble = Trouble::Stream(Failure::TooLarge, ErrorCode::REQUEST_CANCELLED);

impl Connection {
    /// Reads bytes from the front of `input` and returns the next event. Call it until it returns `None`. If `input`
    /// then still has bytes, the stream waits for the QPACK table. Pass these bytes again when
    /// [`poll_unblocked`](Self::poll_unblocked) returns the stream.
    pub fn poll<'i>(
        &mut self,
        stream: u64,
        input: &mut &'i [u8],
        now: Instant,
    ) -> Option<Event<'i>> {
        if !input.is_empty() {
            self.active = now;
        }
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if self.phase != Phase::Open {
                *input = &[];
                return None;
            }
            if !is_bidirectional(stream) {
                self.read_critical(stream, input, now);
                self.settle();
                if self.events.is_empty() {
                    return None;
                }
                continue;
            }
            let Some(request) = request_of(stream) else {
                self.fail(Fault::ForbiddenStream);
                continue;
            };
            if self.streams.get(request).is_none() {
                // The request was cancelled.
                *input = &[];
                return None;
            }
            match self.read_response(request, input, now) {
                Ok(Some(bytes)) => return Some(Event::Content { request, bytes }),
                Ok(None) => {}
                Err(Trouble::Connection(fault)) => self.fail(fault),
                Err(Trouble::Stream(failure, code)) => self.give_up(request, failure, code),
            }
            self.settle();
            if self.events.is_empty() {
                return None;
            }
        }
    }

    /// The next stream that waited for the QPACK table and can now be read. Pass its remaining bytes to
    /// [`poll`](Self::poll), even if there are none.
    pub fn poll_unblocked(&mut self) -> Option<u64> {
        self.critical.decoder.unblocked()
    }

    /// The request whose stream the server ends. `None` if the connection is closed or the stream carries no request.
    fn ended_request(&mut self, stream: u64, now: Instant) -> Option<RequestId> {
        self.active = now;
        if self.phase != Phase::Open {
            return None;
        }
        if !is_bidirectional(stream) {
            if let Err(fault) = self.critical.ended(stream) {
                self.fail(fault);
            }
            return None;
        }
        let request = request_of(stream);
        if request.is_none() {
            self.fail(Fault::ForbiddenStream);
        }
        request
    }

    /// Handles the end of a stream. All bytes of the stream must already be passed.
    pub fn handle_fin(&mut self, stream: u64, now: Instant) {
        let Some(request) = self.ended_request(stream, now) else {
            return;
        };
        let Some(open) = self.streams.get_mut(request) else {
            return;
        };
        if open.waiting {
            open.fin = true;
            return;
        }
        match self.end(request) {
            Ok(()) => {}
            Err(Trouble::Connection(fault)) => self.fail(fault),
            Err(Trouble::Stream(failure, code)) => self.give_up(request, failure, code),
        }
        self.settle();
    }

    /// Handles the reset of a stream by the server.
    pub fn handle_reset(&mut self, stream: u64, code: u64, now: Instant) {
        let Some(request) = self.ended_request(stream, now) else {
            return;
        };
        if ErrorCode(code) == ErrorCode::REQUEST_REJECTED {
            self.reject(request, Failure::StreamReset);
        } else {
            let code = ErrorCode::REQUEST_CANCELLED;
            self.give_up(request, Failure::StreamReset, code);
        }
        self.settle();
    }

    fn read_critical(&mut self, stream: u64, input: &mut &[u8], now: Instant) {
        while self.phase == Phase::Open {
            let actions = &mut self.actions;
            let mut act = |action| actions.push_back(action);
            match self.critical.read(stream, input, &mut act, now) {
                Ok(Some(event)) => self.handle_control(event),
                Ok(None) => return,
                Err(fault) => return self.fail(fault),
            }
        }
    }

    /// Reads one stream until there is an event or content to report, or until no more can be read.
    fn read_response<'i>(
        &mut self,
        request: RequestId,
        input: &mut &'i [u8],
        now: Instant,
    ) -> Result<Option<&'i [u8]>, Trouble> {
        let Some(stream) = self.streams.get_mut(request) else {
            return Ok(None);
        };
        if stream.waiting {
            self.decode(request)?;
            let Some(stream) = self.streams.get_mut(request) else {
                return Ok(None);
            };
            if stream.waiting {
                return Ok(None);
            }
            if stream.fin && input.is_empty() {
                self.end(request)?;
            }
            return Ok(None);
        }
        while let Some(piece) = stream.frames.read(input) {
            match piece {
                Piece::Begin {
                    kind,
                    length,
                    header,
                } => {
                    let limits = &self.config.limits;
                    stream.begin_frame(kind, length, header, limits.head, limits.body)?;
                    let idle = stream.reading == Reading::Skip || length == 0;
                    if idle {
                        self.critical.count_idle(now)?;
                    }
                }
                Piece::Payload(bytes) => match stream.reading {
                    Reading::Skip => {}
                    Reading::Section => {
                        stream.received.head.0 += bytes.len() as u64;
                        stream.section.extend_from_slice(bytes);
                    }
                    Reading::Data => {
                        stream.received.body.0 += bytes.len() as u64;
                        stream.received.content.0 += bytes.len() as u64;
                        return Ok(Some(bytes));
                    }
                },
                Piece::End if stream.reading == Reading::Section => {
                    self.decode(request)?;
                    return Ok(None);
                }
                Piece::End => {}
            }
        }
        Ok(None)
    }

    /// Decodes the complete field section of a stream.
    fn decode(&mut self, request: RequestId) -> Result<(), Trouble> {
        let Some(stream) = self.streams.get_mut(request) else {
            return Ok(());
        };
        let is_head = stream.expect == Expect::Head;
        let into = match is_head {
            true => &mut self.head,
            false => &mut self.trailers,
        };
        into.clear();
        let decoder = &mut self.critical.decoder;
        match decoder.decode(stream_of(request), &stream.section, into) {
            Ok(Decoded::Blocked) => {
                stream.waiting = true;
                return Ok(());
            }
            Ok(Decoded::Fields) => {}
            Err(qpack::Error::SectionTooLarge) => return Err(TOO_LARGE),
            Err(error) => return Err(Fault::from(error).into()),
        }
        stream.waiting = false;
        stream.section.clear();
        stream.received.fields += into.bytes();
        let most = usize::from(self.config.limits.fields);
        if !is_head {
            section::trailers(&self.trailers, Recipient::Http3)?;
            if self.trailers.len() > most {
                return Err(TOO_LARGE);
            }
            stream.expect = Expect::End;
            self.events.push_back(Event::Trailers { request });
            return Ok(());
        }
        let info = section::response(&self.head, Recipient::Http3)?;
        // The extra field is the pseudo-header field `:status`.
        if self.head.len() > most + 1 {
            return Err(TOO_LARGE);
        }
        self.status = info.status;
        if !stream.begun {
            stream.begun = true;
            self.events.push_back(Event::Begin { request });
        }
        if info.status >= 200 {
            stream.expect = Expect::Body;
            stream.content_length = info.content_length;
            stream.bodiless = stream.head_method || matches!(info.status, 204 | 304);
            self.events.push_back(Event::Head { request });
            return Ok(());
        }
        stream.interims += 1;
        if stream.interims > self.config.limits.interim {
            return Err(TOO_LARGE);
        }
        let status = info.status;
        self.events.push_back(Event::Interim { request, status });
        if let Some(upload) = &mut stream.upload
            && upload.awaits_continue
            && status == 100
        {
            upload.awaits_continue = false;
            self.events.push_back(Event::SendContent { request });
        }
        Ok(())
    }

    /// Handles the end of a stream.
    fn end(&mut self, request: RequestId) -> Result<(), Trouble> {
        let Some(stream) = self.streams.get_mut(request) else {
            return Ok(());
        };
        if !stream.frames.is_between() {
            return Err(Fault::MalformedFrame.into());
        }
        if stream.expect == Expect::Head {
            let failure = match stream.begun {
                true => Failure::Truncated,
                false => Failure::ClosedEarly,
            };
            return Err(Trouble::Stream(failure, ErrorCode::MESSAGE_ERROR));
        }
        let short = |length: u64| length != stream.received.content.0;
        if !stream.bodiless && stream.content_length.is_some_and(short) {
            return Err(Malformed.into());
        }
        let received = stream.received;
        if stream.is_open && !stream.finished && !stream.stopped {
            // The response is complete, so the remaining request content is not sent.
            self.actions.push_back(crate::h3::Action::Reset {
                stream: stream_of(request),
                code: ErrorCode::REQUEST_CANCELLED,
            });
        }
        if let Some(stream) = self.streams.remove(request) {
            self.recycle(stream);
        }
        self.note_sent();
        self.events.push_back(Event::End {
            request,
            received,
            persists: self.accepts_requests(),
        });
        Ok(())
    }
}

impl Stream {
    /// Selects the treatment of a frame of a response.
    fn begin_frame(
        &mut self,
        kind: FrameType,
        length: u64,
        header: u64,
        most_head: Bytes,
        most_body: Bytes,
    ) -> Result<(), Trouble> {
        self.reading = match (kind, self.expect) {
            (FrameType::HEADERS, Expect::Head | Expect::Body) => Reading::Section,
            (FrameType::DATA, Expect::Body) => Reading::Data,
            (FrameType::PUSH_PROMISE, _) => return Err(Fault::BadIdentifier.into()),
            (
                FrameType::HEADERS
                | FrameType::DATA
                | FrameType::CANCEL_PUSH
                | FrameType::SETTINGS
                | FrameType::GOAWAY
                | FrameType::MAX_PUSH_ID
                | FrameType::PRIORITY_UPDATE
                | FrameType::PUSH_PRIORITY_UPDATE,
                _,
            ) => return Err(Fault::UnexpectedFrame.into()),
            (kind, _) if kind.is_of_http2() => return Err(Fault::UnexpectedFrame.into()),
            _ => Reading::Skip,
        };
        match self.reading {
            Reading::Skip => {}
            Reading::Section => {
                self.received.head.0 += header;
                if length > most_head.0 {
                    return Err(TOO_LARGE);
                }
                self.section.clear();
            }
            Reading::Data => {
                let content = self.received.content.0.saturating_add(length);
                let announced = self.content_length.unwrap_or(u64::MAX);
                if length > 0 && (self.bodiless || content > announced) {
                    return Err(Malformed.into());
                }
                if content > most_body.0 {
                    return Err(TOO_LARGE);
                }
                self.received.body.0 += header;
            }
        }
        Ok(())
    }
}
