//! The state machine of a client connection.

use std::collections::VecDeque;

use fathometer_model::{Bytes, CloseReason, Failure, Instant};

use super::head::{Framing, ResponseHead, STATUS_LINE_START};
use super::limits::Config;
use super::output::{Output, Outstanding, Upload};
use crate::exchange::{Event, Received, RequestId, SendError, Version};
use crate::h1::chunked::{CHUNK_END, ChunkHead, ChunkedDecoder, ChunkedLimits, LAST_CHUNK};
use crate::h1::syntax::{HeadEnd, Strictness};

/// The client side of one HTTP/1.x connection. See the [module](super) for how to drive it.
#[derive(Debug)]
pub struct Connection {
    config: Config,
    pub(super) output: Output,
    /// Requests without a complete response, oldest first.
    pub(super) outstanding: VecDeque<Outstanding>,
    pub(super) next_request: RequestId,
    /// The oldest request in `outstanding`, or the next request when `outstanding` is empty.
    oldest: RequestId,
    /// The number of requests in `outstanding` of which the transport has taken at least one byte.
    begun: usize,
    /// Whether further requests can be queued after the requests in the queue.
    pub(super) accepts: bool,
    pub(super) upload: Option<Upload>,
    phase: Phase,
    /// Whether `Begin` was reported for the oldest request.
    answering: bool,
    head: ResponseHead,
    head_end: HeadEnd,
    /// Whether `head` contains a part of the head that is being read, and not the previous head.
    in_head: bool,
    received: Received,
    interims: u16,
    /// Empty lines skipped before this head, in bytes.
    skipped: u8,
    /// The time at which the oldest request's turn started; see [`super::Timeouts`].
    turn: Option<Instant>,
    /// The time at which bytes were last read or written.
    active: Instant,
}

/// The part of the message to which the next byte belongs, or the next event of `poll`.
#[derive(Debug)]
enum Phase {
    Head,
    Length(u64),
    Chunked(ChunkedDecoder),
    UntilClose,
    /// The content is complete.
    End,
    /// `poll` reports next that the response has failed.
    Fail(Failure),
    /// `poll` reports the remaining requests, then the close.
    Closing {
        reason: CloseReason,
        failure: Failure,
    },
    Closed(CloseReason),
}

impl Connection {
    /// Creates a machine for a transport connection on which no byte has been sent or received.
    pub fn new(config: Config) -> Connection {
        Connection {
            outstanding: VecDeque::with_capacity(usize::from(config.depth.clamp(1, 64))),
            config,
            output: Output::default(),
            next_request: RequestId(0),
            oldest: RequestId(0),
            begun: 0,
            accepts: true,
            upload: None,
            phase: Phase::Head,
            answering: false,
            head: ResponseHead::default(),
            head_end: HeadEnd::new(),
            in_head: false,
            received: Received::default(),
            interims: 0,
            skipped: 0,
            turn: None,
            active: Instant::ZERO,
        }
    }

    /// Checks that a further request can be queued.
    pub(super) fn check_room(&self) -> Result<(), SendError> {
        if !self.accepts_requests() {
            return Err(SendError::Closed);
        }
        if self.upload.is_some() {
            return Err(SendError::ContentUnfinished);
        }
        if self.outstanding.len() >= usize::from(self.config.depth.max(1)) {
            return Err(SendError::PipelineFull);
        }
        Ok(())
    }

    /// Resets the machine for another transport connection; keeps its allocated memory.
    pub fn renew(&mut self) {
        self.output.clear();
        self.outstanding.clear();
        self.next_request = RequestId(0);
        self.oldest = RequestId(0);
        self.begun = 0;
        self.accepts = true;
        self.upload = None;
        self.phase = Phase::Head;
        self.answering = false;
        self.in_head = false;
        self.received = Received::default();
        self.interims = 0;
        self.skipped = 0;
        self.turn = None;
        self.active = Instant::ZERO;
    }

    /// Frees unused memory, for a connection that will be idle for a long time.
    pub fn shrink(&mut self) {
        if self.outstanding.is_empty() && !self.in_head {
            self.head = ResponseHead::default();
            self.outstanding.shrink_to_fit();
        }
        if self.output.bytes.is_empty() {
            self.output.bytes = Vec::new();
        }
    }

    /// Whether the connection accepts further requests. The depth of the pipeline is not considered.
    #[inline]
    pub fn accepts_requests(&self) -> bool {
        self.accepts && !matches!(self.phase, Phase::Closing { .. } | Phase::Closed(_))
    }

    /// Whether a request can be queued now.
    #[inline]
    pub fn can_request(&self) -> bool {
        self.accepts_requests()
            && self.upload.is_none()
            && self.outstanding.len() < usize::from(self.config.depth.max(1))
    }

    /// The number of requests queued or sent whose responses are not complete.
    pub fn outstanding(&self) -> usize {
        self.outstanding.len()
    }

    /// The number of outstanding requests of which the transport has taken at least one byte; they are the oldest.
    pub fn begun(&self) -> usize {
        self.begun
    }

    /// The first request of which the transport has taken no byte; if there is none, the next request to be queued.
    #[inline]
    pub fn first_unsent(&self) -> RequestId {
        RequestId(self.oldest.0.wrapping_add(self.begun as u32))
    }

    /// The head announced by the last [`Event::Head`] or [`Event::Interim`]. Valid until the next head is read.
    #[inline]
    pub fn head(&self) -> &ResponseHead {
        &self.head
    }

    /// The reason why the connection closed; `None` while it is active.
    pub fn close_reason(&self) -> Option<CloseReason> {
        match self.phase {
            Phase::Closed(reason) => Some(reason),
            _ => None,
        }
    }

    /// Adds content to the last request. Like heads, content is held until it is released.
    pub fn send_content(&mut self, content: &[u8]) -> Result<(), SendError> {
        if !self.accepts_content() {
            return Err(SendError::Closed);
        }
        let upload = self.upload.as_mut().ok_or(SendError::BadContent)?;
        if upload.awaits_continue {
            return Err(SendError::BadContent);
        }
        match &mut upload.remaining {
            Some(remaining) => {
                let left = remaining.checked_sub(content.len() as u64);
                *remaining = left.ok_or(SendError::BadContent)?;
                self.output.bytes.extend_from_slice(content);
                if *remaining == 0 {
                    self.end_upload();
                }
            }
            None => {
                if let Some(head) = ChunkHead::new(content.len() as u64) {
                    let output = &mut self.output.bytes;
                    output.extend_from_slice(head.as_bytes());
                    output.extend_from_slice(content);
                    output.extend_from_slice(CHUNK_END);
                }
            }
        }
        Ok(())
    }

    /// Ends chunked content. Content of known size ends with its last byte.
    pub fn finish_content(&mut self) -> Result<(), SendError> {
        if !self.accepts_content() {
            return Err(SendError::Closed);
        }
        match &self.upload {
            Some(upload) if upload.remaining.is_none() && !upload.awaits_continue => {
                self.output.bytes.extend_from_slice(LAST_CHUNK);
                self.end_upload();
                Ok(())
            }
            _ => Err(SendError::BadContent),
        }
    }

    /// Whether content may be added; false once the connection is closing.
    fn accepts_content(&self) -> bool {
        !matches!(self.phase, Phase::Closing { .. } | Phase::Closed(_))
    }

    fn end_upload(&mut self) {
        self.upload = None;
        let end = self.output.end_offset();
        if let Some(youngest) = self.outstanding.back_mut() {
            youngest.end = Some(end);
        }
    }

    /// The number of bytes that are written and not yet released.
    pub fn held(&self) -> Bytes {
        Bytes((self.output.bytes.len() - self.output.released) as u64)
    }

    /// Releases the oldest `bytes` held bytes, or all held bytes if there are fewer.
    pub fn release(&mut self, bytes: Bytes) {
        let bytes = bytes.0.min(self.held().0);
        self.output.released += bytes as usize;
    }

    /// Releases everything written so far.
    #[inline]
    pub fn flush(&mut self) {
        self.output.released = self.output.bytes.len();
    }

    /// The bytes that may be passed to the transport now.
    #[inline]
    pub fn transmit(&self) -> &[u8] {
        match self.phase {
            Phase::Fail(_) | Phase::Closing { .. } | Phase::Closed(_) => &[],
            _ => &self.output.bytes[self.output.taken..self.output.released],
        }
    }

    /// Notes that the transport took the first `bytes` bytes that [`transmit`](Self::transmit) returned.
    ///
    /// # Panics
    /// If `bytes` is larger than the slice that `transmit` returned.
    pub fn transmitted(&mut self, bytes: usize, now: Instant) {
        assert!(
            bytes <= self.transmit().len(),
            "more bytes were sent than offered"
        );
        if bytes == 0 {
            return;
        }
        self.active = now;
        self.output.taken += bytes;
        let taken = self.output.offset_of(self.output.taken);
        while let Some(request) = self.outstanding.get(self.begun)
            && request.begin < taken
        {
            self.begun += 1;
            self.turn.get_or_insert(now);
        }
        let wait = self.config.timeouts.expect_continue;
        if let Some(upload) = &mut self.upload
            && upload.awaits_continue
            && taken == self.output.end_offset()
        {
            upload.continue_by.get_or_insert(now + wait);
        }
        self.output.compact();
    }

    /// Reads bytes from the front of `input` and reports the next event. Call `poll` until it returns `None`: then
    /// `input` is used up. After any other `handle_` method, call `poll` with an empty input to get the events that
    /// the method caused.
    pub fn poll<'i>(&mut self, input: &mut &'i [u8], now: Instant) -> Option<Event<'i>> {
        if !input.is_empty() {
            self.active = now;
        }
        if let Some(upload) = &mut self.upload
            && upload.awaits_continue
            && upload.continue_timed_out
        {
            upload.awaits_continue = false;
            let request = upload.request;
            return Some(Event::SendContent { request });
        }
        loop {
            match &mut self.phase {
                Phase::Head => {
                    let before = input.len();
                    let event = self.read_head(input);
                    self.received.head.0 += (before - input.len()) as u64;
                    match event {
                        Ok(Some(event)) => return Some(event),
                        Ok(None) if input.is_empty() => return None,
                        Ok(None) => {}
                        Err(failure) => self.fail(failure),
                    }
                }
                Phase::Length(0) => self.phase = Phase::End,
                Phase::Length(remaining) => {
                    let length = usize::try_from(*remaining).unwrap_or(usize::MAX);
                    let bytes = take(input, length)?;
                    *remaining -= bytes.len() as u64;
                    return Some(self.content(bytes, bytes.len()));
                }
                Phase::Chunked(decoder) if decoder.is_done() => self.phase = Phase::End,
                Phase::Chunked(decoder) => {
                    if input.is_empty() {
                        return None;
                    }
                    let Ok(decoded) = decoder.decode(input) else {
                        *input = &[];
                        self.fail(Failure::BadResponse);
                        continue;
                    };
                    let room = self.config.limits.body.0 - self.received.content.0;
                    let over = (decoded.data.len() as u64).saturating_sub(room) as usize;
                    let consumed = decoded.consumed - over;
                    let data = &decoded.data[..decoded.data.len() - over];
                    *input = &input[consumed..];
                    if over > 0 {
                        self.fail(Failure::TooLarge);
                    }
                    if !data.is_empty() {
                        return Some(self.content(data, consumed));
                    }
                    self.received.body.0 += consumed as u64;
                }
                Phase::UntilClose => {
                    let room = self.config.limits.body.0 - self.received.content.0;
                    if room == 0 && !input.is_empty() {
                        self.fail(Failure::TooLarge);
                        continue;
                    }
                    let bytes = take(input, usize::try_from(room).unwrap_or(usize::MAX))?;
                    return Some(self.content(bytes, bytes.len()));
                }
                Phase::End => return Some(self.end(now)),
                Phase::Fail(failure) => {
                    let failure = *failure;
                    self.fail(failure);
                    let request = self.oldest;
                    let received = self.take_received();
                    if self.answering && self.pop_oldest().is_some() {
                        return Some(Event::Failed {
                            request,
                            failure,
                            received,
                            persists: false,
                        });
                    }
                }
                Phase::Closing { reason, failure } => {
                    *input = &[];
                    let (reason, failure) = (*reason, *failure);
                    let (request, sent) = (self.oldest, self.begun > 0);
                    let Some(unanswered) = self.pop_oldest() else {
                        self.phase = Phase::Closed(reason);
                        return Some(Event::Closed { reason });
                    };
                    return Some(Event::Unanswered {
                        request,
                        failure,
                        sent,
                        idempotent: unanswered.idempotent,
                        persists: false,
                    });
                }
                Phase::Closed(_) => {
                    *input = &[];
                    return None;
                }
            }
        }
    }

    /// Reads a complete response from the front of `input` in one step. The head must equal the previous head byte
    /// for byte and give the length of the response. Returns its [`Event::End`]; `Begin`, `Head` and `Content` are
    /// not reported; the head is at [`head`](Self::head). `None` means that nothing was read: call
    /// [`poll`](Self::poll).
    pub fn poll_whole<'i>(&mut self, input: &mut &'i [u8], now: Instant) -> Option<Event<'i>> {
        let begins = matches!(self.phase, Phase::Head) && !self.answering && self.begun > 0;
        if !begins || self.upload.is_some() {
            return None;
        }
        let head = self.head.repeats(input)?;
        let content = match self.head.framing(self.outstanding.front()?.head_method) {
            Ok(Framing::Nothing) if self.head.status() >= 200 => 0,
            Ok(Framing::Length(length)) if length <= self.config.limits.body.0 => length,
            _ => return None,
        };
        *input = input[head..].get(usize::try_from(content).ok()?..)?;
        self.active = now;
        self.received.head.0 += head as u64;
        self.received.body.0 += content;
        self.received.content.0 += content;
        Some(self.end(now))
    }

    /// Notes that the server has closed its side of the connection. All bytes that arrived before must have been
    /// passed to [`poll`](Self::poll).
    pub fn handle_eof(&mut self, _now: Instant) {
        self.phase = match self.phase {
            Phase::UntilClose => Phase::End,
            Phase::Head if !self.answering => {
                let reason = match self.begun {
                    0 => CloseReason::ServerIdle,
                    _ => CloseReason::ServerEarly,
                };
                Phase::Closing {
                    reason,
                    failure: Failure::ClosedEarly,
                }
            }
            Phase::Head | Phase::Length(_) | Phase::Chunked(_) => Phase::Fail(Failure::Truncated),
            _ => return,
        };
    }

    /// Notes that the transport failed, or that the caller aborts the connection; `failure` is the reason. Responses
    /// that were polled completely stay complete.
    pub fn handle_failure(&mut self, failure: Failure, _now: Instant) {
        if !matches!(self.phase, Phase::Closing { .. } | Phase::Closed(_)) {
            self.phase = Phase::Fail(failure);
        }
    }

    /// Notes that the client has no more requests and is closing. Requests without a response are aborted with
    /// [`Failure::LocalAbort`], and the reason is [`CloseReason::Finished`].
    pub fn finish(&mut self) {
        self.phase = match self.phase {
            Phase::Closing { .. } | Phase::Closed(_) => return,
            _ if self.answering => Phase::Fail(Failure::LocalAbort),
            _ => Phase::Closing {
                reason: CloseReason::Finished,
                failure: Failure::LocalAbort,
            },
        };
    }

    /// Returns the time at which to call [`handle_timeout`](Self::handle_timeout), unless another event happens first.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let waiting = self
            .upload
            .as_ref()
            .filter(|upload| upload.awaits_continue && !upload.continue_timed_out);
        let continue_by = waiting.and_then(|upload| upload.continue_by);
        [self.give_up_at(), continue_by].into_iter().flatten().min()
    }

    /// Handles every time limit that has passed. Spurious calls do nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.give_up_at().is_some_and(|by| by <= now) {
            self.handle_failure(Failure::TimedOut, now);
        } else if let Some(upload) = &mut self.upload {
            upload.continue_timed_out |= upload.continue_by.is_some_and(|by| by <= now);
        }
    }

    fn give_up_at(&self) -> Option<Instant> {
        let turn = self.turn?;
        let head = match self.phase {
            Phase::Head => self.config.timeouts.head,
            Phase::Length(_) | Phase::Chunked(_) | Phase::UntilClose => None,
            _ => return None,
        };
        let timeouts = &self.config.timeouts;
        let limits = [
            head.map(|limit| turn + limit),
            timeouts.total.map(|limit| turn + limit),
            timeouts.idle.map(|limit| self.active.max(turn) + limit),
        ];
        limits.into_iter().flatten().min()
    }

    /// Reads a head or a part of it.
    fn read_head<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Event<'i>>, Failure> {
        // Some servers of the 1990s sent a line end after the body that Content-Length did not count.
        while !self.answering && self.skipped < 4 && matches!(input.first(), Some(b'\r' | b'\n')) {
            *input = &input[1..];
            self.skipped += 1;
        }
        if input.is_empty() {
            return Ok(None);
        }
        if !self.answering {
            if self.begun == 0 {
                return Err(Failure::BadResponse);
            }
            self.answering = true;
            return Ok(Some(Event::Begin {
                request: self.oldest,
            }));
        }
        if !self.find_head(input)? {
            return Ok(None);
        }
        self.head_is_whole()
    }

    /// Whether a head is complete and parsed.
    fn find_head(&mut self, input: &mut &[u8]) -> Result<bool, Failure> {
        let limits = &self.config.limits;
        let limit = usize::try_from(limits.head.0.min(u64::from(u32::MAX))).unwrap_or(usize::MAX);
        if !self.in_head {
            if let Some(length) = self.head.repeats(input) {
                *input = &input[length..];
                return Ok(true);
            }
            check_start(input)?;
            let mut finder = HeadEnd::new();
            if let Some(end) = finder.find(&input[..input.len().min(limit)]) {
                // Most heads arrive complete and are copied once.
                let (head, rest) = input.split_at(end);
                self.head.parse(head, limits)?;
                *input = rest;
                return Ok(true);
            }
            self.in_head = true;
            self.head_end = HeadEnd::new();
            self.head.buffer().clear();
        }
        let buffer = self.head.buffer();
        while !input.is_empty() {
            let before = buffer.len();
            let piece = &input[..input.len().min(1024)];
            buffer.extend_from_slice(piece);
            check_start(buffer)?;
            match self.head_end.find(buffer) {
                Some(end) if end <= limit => {
                    buffer.truncate(end);
                    *input = &input[end - before..];
                    self.in_head = false;
                    self.head.parse_buffer(limits)?;
                    return Ok(true);
                }
                None if buffer.len() < limit => *input = &input[piece.len()..],
                _ => return Err(Failure::TooLarge),
            }
        }
        Ok(false)
    }

    fn head_is_whole<'i>(&mut self) -> Result<Option<Event<'i>>, Failure> {
        let request = self.oldest;
        let status = self.head.status();
        let oldest = self.outstanding.front().ok_or(Failure::BadResponse)?;
        let framing = self.head.framing(oldest.head_method)?;
        if status < 200 {
            // This client never requests a protocol switch (101).
            if self.interims == self.config.limits.interim || status == 101 {
                return Err(Failure::BadResponse);
            }
            self.interims += 1;
            return Ok(Some(self.interim(request, status)));
        }
        self.phase = match framing {
            Framing::Nothing => Phase::Length(0),
            Framing::Length(length) if length > self.config.limits.body.0 => {
                return Err(Failure::TooLarge);
            }
            Framing::Length(length) => Phase::Length(length),
            Framing::Chunked => Phase::Chunked(ChunkedDecoder::new(
                Strictness::Lenient,
                ChunkedLimits::default(),
            )),
            Framing::UntilClose => Phase::UntilClose,
        };
        Ok(Some(Event::Head { request }))
    }

    fn interim<'i>(&mut self, request: RequestId, status: u16) -> Event<'i> {
        match &mut self.upload {
            Some(upload)
                if upload.request == request && upload.awaits_continue && status == 100 =>
            {
                upload.awaits_continue = false;
                Event::SendContent { request }
            }
            _ => Event::Interim { request, status },
        }
    }

    fn content<'i>(&mut self, bytes: &'i [u8], transferred: usize) -> Event<'i> {
        self.received.body.0 += transferred as u64;
        self.received.content.0 += bytes.len() as u64;
        Event::Content {
            request: self.oldest,
            bytes,
        }
    }

    /// Returns the byte counts of the response that ends now. HTTP/1.x does not compress fields.
    #[inline]
    fn take_received(&mut self) -> Received {
        let received = std::mem::take(&mut self.received);
        Received {
            fields: received.head,
            ..received
        }
    }

    /// Handles the end of a response: decides whether the connection persists.
    fn end<'i>(&mut self, now: Instant) -> Event<'i> {
        let request = self.oldest;
        let received = self.take_received();
        let persists = self.outstanding.front().is_some_and(|answered| {
            let sent = self.output.offset_of(self.output.taken);
            answered.end.is_some_and(|end| end <= sent) && self.persists_after(answered)
        });
        self.pop_oldest();
        self.turn = (self.begun > 0).then_some(now);
        self.phase = if persists {
            Phase::Head
        } else {
            // The server must answer the requests in flight before it closes.
            let reason = match self.begun {
                0 => CloseReason::ServerAsked,
                _ => CloseReason::ServerEarly,
            };
            Phase::Closing {
                reason,
                failure: Failure::ClosedEarly,
            }
        };
        Event::End {
            request,
            received,
            persists,
        }
    }

    /// Whether the connection persists: RFC 9112 section 9.3, and the Keep-Alive extension of HTTP/1.0 for requests
    /// that use it.
    fn persists_after(&self, answered: &Outstanding) -> bool {
        let head = &self.head;
        let keeps = match answered.version {
            Version::Http10 => false,
            Version::Http10KeepAlive => head.says_keep_alive,
            Version::Http11 => head.is_http11() || head.says_keep_alive,
        };
        let framed = !matches!(
            head.framing(answered.head_method),
            Ok(Framing::UntilClose) | Err(_)
        );
        keeps && framed && !head.says_close && !answered.asks_close
    }

    fn fail(&mut self, failure: Failure) {
        self.phase = match self.phase {
            // The failure of the current response is reported first.
            _ if self.answering && !matches!(self.phase, Phase::Fail(_)) => Phase::Fail(failure),
            _ => {
                let (reason, failure) = match failure {
                    // The server closed the connection without an error, but too early.
                    Failure::Truncated => (CloseReason::ServerEarly, Failure::ClosedEarly),
                    _ => (CloseReason::Failed(failure), failure),
                };
                Phase::Closing { reason, failure }
            }
        };
    }

    /// Removes the oldest request, answered or not, and prepares for the next.
    fn pop_oldest(&mut self) -> Option<Outstanding> {
        let oldest = self.outstanding.pop_front()?;
        if self
            .upload
            .as_ref()
            .is_some_and(|upload| upload.request == self.oldest)
        {
            self.upload = None;
        }
        self.oldest.0 = self.oldest.0.wrapping_add(1);
        self.begun = self.begun.saturating_sub(1);
        self.answering = false;
        self.interims = 0;
        self.skipped = 0;
        Some(oldest)
    }
}

/// Takes up to `length` bytes from the front; `None` when `input` is empty.
fn take<'i>(input: &mut &'i [u8], length: usize) -> Option<&'i [u8]> {
    let (bytes, rest) = input.split_at(length.min(input.len()));
    *input = rest;
    (!bytes.is_empty()).then_some(bytes)
}

/// Checks that the bytes received so far match the start of a status line. Input that is not HTTP/1.x is
/// refused at its first bytes, without waiting for more.
fn check_start(head: &[u8]) -> Result<(), Failure> {
    let length = head.len().min(STATUS_LINE_START.len());
    match head[..length] == STATUS_LINE_START[..length] {
        true => Ok(()),
        false => Err(Failure::BadResponse),
    }
}
