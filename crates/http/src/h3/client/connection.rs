//! The state machine of a client connection: state, sending and transport events.

use std::collections::VecDeque;
use std::io::IoSlice;

use fathometer_model::{CloseReason, Failure, Instant};

use super::config::Config;
use super::stream::{Stream, Upload};
use super::{Event, Head, RequestId, SendError};
use crate::exchange::{Pending, RequestFields};
use crate::field_block::FieldBlock;
use crate::h3::critical::{Critical, Role};
use crate::h3::frame::{self, FrameType};
use crate::h3::{Action, Direction, ErrorCode, Fault, Priority, Transmit, is_bidirectional};
use crate::h3::{request_of, stream_of, varint};
use crate::qpack::{Decoder, Encoder};

/// The client side of one HTTP/3 connection. The [module documentation](super) explains its use.
#[derive(Debug)]
pub struct Connection {
    pub(super) config: Config,
    pub(super) critical: Critical,
    /// The requests whose responses are not complete.
    pub(super) streams: Pending<Box<Stream>>,
    /// Streams of completed requests, stored for reuse.
    #[allow(clippy::vec_box, reason = "moved to and from a table of boxes")]
    pub(super) spare: Vec<Box<Stream>>,
    pub(super) next_request: RequestId,
    /// The number of request streams that the transport has opened.
    pub(super) opened: u32,
    /// The first request of which the transport has taken no byte.
    pub(super) first_unsent: RequestId,
    /// Streams with bytes to send, in sending order.
    pub(super) sendable: VecDeque<RequestId>,
    pub(super) phase: Phase,
    /// Whether the server sent GOAWAY, which prevents further requests.
    pub(super) leaving: bool,
    pub(super) events: VecDeque<Event<'static>>,
    pub(super) actions: VecDeque<Action>,
    pub(super) fault: Option<Fault>,
    /// The fields and the status of the head that was read last.
    pub(super) head: FieldBlock,
    pub(super) status: u16,
    pub(super) trailers: FieldBlock,
    /// The request that is being written.
    pub(super) request: RequestFields,
    pub(super) section: Vec<u8>,
    /// The time of the last read or write.
    pub(super) active: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    Closed(CloseReason),
}

impl Connection {
    /// Creates a state machine for a QUIC connection that is opened at `now`.
    pub fn new(config: Config, now: Instant) -> Connection {
        Connection {
            critical: critical(&config, now),
            config,
            streams: Pending::default(),
            spare: Vec::new(),
            next_request: RequestId(0),
            opened: 0,
            first_unsent: RequestId(0),
            sendable: VecDeque::new(),
            phase: Phase::Open,
            leaving: false,
            events: VecDeque::new(),
            actions: VecDeque::new(),
            fault: None,
            head: FieldBlock::default(),
            status: 0,
            trailers: FieldBlock::default(),
            request: RequestFields::default(),
            section: Vec::new(),
            active: now,
        }
    }

    /// Resets the state machine for another QUIC connection. Buffers retain most of their memory.
    pub fn renew(&mut self, now: Instant) {
        self.critical = critical(&self.config, now);
        for (_, mut stream) in self.streams.drain() {
            stream.renew();
            self.spare.push(stream);
        }
        self.next_request = RequestId(0);
        self.opened = 0;
        self.first_unsent = RequestId(0);
        self.sendable.clear();
        self.phase = Phase::Open;
        self.leaving = false;
        self.events.clear();
        self.actions.clear();
        self.fault = None;
        self.active = now;
    }

    /// Whether the connection accepts further requests. The limit on concurrent requests is ignored.
    pub fn accepts_requests(&self) -> bool {
        self.phase == Phase::Open && !self.leaving
    }

    /// Whether a request can be queued now.
    pub fn can_request(&self) -> bool {
        self.accepts_requests() && self.outstanding() < self.config.streams.max(1) as usize
    }

    /// The number of requests, queued or in flight, whose responses are not complete.
    pub fn outstanding(&self) -> usize {
        self.streams.len()
    }

    /// The first request of which no byte has been passed to the transport. If there is none, the next request to be
    /// queued.
    pub fn first_unsent(&self) -> RequestId {
        self.first_unsent
    }

    /// The stream ID of a request; `None` if the request is not in flight.
    pub fn stream_of(&self, request: RequestId) -> Option<u64> {
        (request < self.next_request).then(|| stream_of(request))
    }

    /// The head that the last [`Event::Head`] or [`Event::Interim`] announced. Valid until the next head is
    /// read.
    pub fn head(&self) -> Head<'_> {
        Head::new(self.status, &self.head)
    }

    /// The fields that the last [`Event::Trailers`] announced.
    pub fn trailers(&self) -> &FieldBlock {
        &self.trailers
    }

    /// The settings of the server; `None` until they arrive.
    pub fn peer_settings(&self) -> Option<crate::h3::Settings> {
        self.critical.peer_settings
    }

    /// The reason for the close of the connection; `None` while it is open.
    pub fn close_reason(&self) -> Option<CloseReason> {
        match self.phase {
            Phase::Open => None,
            Phase::Closed(reason) => Some(reason),
        }
    }

    /// The protocol violation by the server that ended the connection; `None` if there was none.
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Adds content to a request that announced content.
    pub fn send_content(&mut self, request: RequestId, content: &[u8]) -> Result<(), SendError> {
        let (stream, mut upload) = self.upload(request)?;
        if upload.awaits_continue {
            return Err(SendError::BadContent);
        }
        let whole = match upload.remaining {
            Some(remaining) => {
                let left = remaining.checked_sub(content.len() as u64);
                let left = left.ok_or(SendError::BadContent)?;
                upload.remaining = Some(left);
                left == 0
            }
            None => false,
        };
        stream.upload = (!whole).then_some(upload);
        stream.ends = whole;
        if !content.is_empty() && !stream.stopped {
            frame::write_header(FrameType::DATA, content.len() as u64, &mut stream.out);
            stream.out.extend_from_slice(content);
        }
        self.queue(request);
        Ok(())
    }

    /// Ends content that was announced without a length.
    pub fn finish_content(&mut self, request: RequestId) -> Result<(), SendError> {
        let (stream, upload) = self.upload(request)?;
        if upload.remaining.is_some() || upload.awaits_continue {
            return Err(SendError::BadContent);
        }
        stream.upload = None;
        stream.ends = true;
        self.queue(request);
        Ok(())
    }

    fn upload(&mut self, request: RequestId) -> Result<(&mut Stream, Upload), SendError> {
        let stream: &mut Stream = self.streams.get_mut(request).ok_or(SendError::Closed)?;
        let upload = stream.upload.ok_or(SendError::BadContent)?;
        Ok((stream, upload))
    }

    /// Cancels one request, and reports it with the given failure.
    pub fn cancel(&mut self, request: RequestId, failure: Failure, _now: Instant) {
        if self.phase == Phase::Open {
            self.give_up(request, failure, ErrorCode::REQUEST_CANCELLED);
            self.settle();
        }
    }

    /// Changes the priority of a response (RFC 9218 section 7.2). The initial priority is in the `priority`
    /// field of the request.
    pub fn reprioritize(&mut self, request: RequestId, priority: Priority) {
        if self.phase != Phase::Open || self.streams.get(request).is_none() {
            return;
        }
        let (stream, text) = (stream_of(request), priority.text());
        let length = (varint::length(stream) + text.len()) as u64;
        let out = self.critical.control();
        frame::write_header(FrameType::PRIORITY_UPDATE, length, out);
        varint::write(stream, out);
        out.extend_from_slice(text.as_bytes());
    }

    /// The number of request streams that the transport has opened.
    pub fn opened(&self) -> u32 {
        self.opened
    }

    /// The kind of stream that the host must open as soon as the transport permits it; `None` if none is needed.
    pub fn wants_stream(&self) -> Option<Direction> {
        if self.phase != Phase::Open {
            None
        } else if self.critical.wants_stream() {
            Some(Direction::Unidirectional)
        } else if self.opened < self.next_request.0 {
            Some(Direction::Bidirectional)
        } else {
            None
        }
    }

    /// Handles a stream that the transport has opened on request.
    ///
    /// # Panics
    /// If request streams are opened out of order, which QUIC never does.
    pub fn handle_opened(&mut self, stream: u64, now: Instant) {
        if !is_bidirectional(stream) {
            self.critical.opened(stream);
            return;
        }
        let request = RequestId(self.opened);
        assert_eq!(stream, stream_of(request), "request streams open in order");
        self.opened += 1;
        self.active = now;
        match self.streams.get_mut(request) {
            Some(open) => {
                open.is_open = true;
                self.queue(request);
            }
            None => {
                // The request was cancelled before its stream opened.
                let code = ErrorCode::REQUEST_CANCELLED;
                self.actions.push_back(Action::Reset { stream, code });
                self.actions.push_back(Action::StopSending { stream, code });
            }
        }
    }

    /// Returns the bytes to send next: at most `most` bytes of one stream. Critical streams come first, followed by
    /// requests in order. Fills only the first of `slices`, which must not be empty.
    pub fn transmit<'a>(&'a self, slices: &mut [IoSlice<'a>], most: usize) -> Option<Transmit<'a>> {
        if self.phase != Phase::Open {
            return None;
        }
        let (stream, bytes, end) = match self.critical.transmit(slices, most) {
            Some((stream, bytes)) => (stream, bytes, false),
            None => {
                let (request, stream) = self.sendable.iter().find_map(|&request| {
                    let stream = self.streams.get(request)?;
                    stream.has_something().then_some((request, stream))
                })?;
                let left = &stream.out[stream.taken..];
                let bytes = &left[..left.len().min(most)];
                *slices.first_mut()? = IoSlice::new(bytes);
                let end = stream.ends && bytes.len() == left.len();
                (stream_of(request), bytes.len(), end)
            }
        };
        Some(Transmit {
            stream,
            slices: usize::from(bytes > 0),
            bytes,
            file: None,
            end,
        })
    }

    /// Notes that the transport took the first `bytes` bytes that [`transmit`](Self::transmit) offered. If these were
    /// all bytes and `end` was set, the transport has also finished the stream.
    pub fn transmitted(&mut self, stream: u64, bytes: usize, now: Instant) {
        self.active = now;
        if self.critical.is_own(stream) {
            self.critical.transmitted(stream, bytes);
            return;
        }
        let Some(request) = request_of(stream) else {
            return;
        };
        let Some(open) = self.streams.get_mut(request) else {
            return;
        };
        open.taken = (open.taken + bytes).min(open.out.len());
        if bytes > 0 {
            open.handed.get_or_insert(now);
        }
        if open.taken == open.out.len() {
            open.out.clear();
            open.taken = 0;
            open.finished = open.ends;
            open.queued = false;
            self.sendable.retain(|&other| other != request);
        }
        self.note_sent();
    }

    /// Notes that the transport currently accepts no more bytes of a stream.
    pub fn handle_blocked(&mut self, stream: u64) {
        self.set_blocked(stream, true);
    }

    /// Notes that the transport accepts bytes of a stream again.
    pub fn handle_writable(&mut self, stream: u64) {
        self.set_blocked(stream, false);
    }

    fn set_blocked(&mut self, stream: u64, blocked: bool) {
        self.critical.set_blocked(stream, blocked);
        if let Some(open) = request_of(stream).and_then(|request| self.streams.get_mut(request)) {
            open.blocked = blocked;
        }
    }

    /// The send priority of a stream. Critical streams have the highest priority.
    pub fn priority(&self, stream: u64) -> Priority {
        Priority {
            urgency: if is_bidirectional(stream) { 3 } else { 0 },
            incremental: false,
        }
    }

    /// Handles STOP_SENDING for a stream.
    pub fn handle_stop_sending(&mut self, stream: u64, code: u64, now: Instant) {
        self.active = now;
        if self.critical.is_own(stream) {
            return self.fail(Fault::ClosedCriticalStream);
        }
        let request = request_of(stream);
        if let Some(open) = request.and_then(|request| self.streams.get_mut(request))
            && !open.finished
            && !open.stopped
        {
            // The server may still send the response.
            open.stopped = true;
            open.upload = None;
            self.actions.push_back(Action::Reset {
                stream,
                code: ErrorCode(code),
            });
        }
    }

    /// The next action that the host must perform on the transport. Each action is returned once.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The next event that does not result directly from stream input. `Closed` is the last event of a connection.
    pub fn poll_event(&mut self, _now: Instant) -> Option<Event<'static>> {
        self.events.pop_front()
    }

    /// Stores a completed stream so that its memory can be reused.
    pub(super) fn recycle(&mut self, mut stream: Box<Stream>) {
        if self.spare.len() < self.config.streams as usize {
            stream.renew();
            self.spare.push(stream);
        }
    }

    /// Adds a stream to the queue of streams with bytes to send.
    fn queue(&mut self, request: RequestId) {
        if let Some(stream) = self.streams.get_mut(request)
            && stream.is_open
            && !stream.queued
            && !stream.finished
        {
            stream.queued = true;
            self.sendable.push_back(request);
        }
    }

    /// Updates the first request of which the transport has taken no byte.
    pub(super) fn note_sent(&mut self) {
        let streams = &self.streams;
        self.sendable
            .retain(|&request| streams.get(request).is_some());
        while self.first_unsent < self.next_request
            && streams
                .get(self.first_unsent)
                .is_none_or(|stream| stream.handed.is_some())
        {
            self.first_unsent.0 += 1;
        }
    }

    /// Moves the QPACK instructions to their streams, and closes a connection that has finished.
    pub(super) fn settle(&mut self) {
        if self.phase == Phase::Open
            && let Err(fault) = self.critical.settle()
        {
            self.fail(fault);
        }
        self.close_if_idle();
    }
}

fn critical(config: &Config, now: Instant) -> Critical {
    let limits = &config.limits;
    Critical::new(
        Role::Client,
        &config.settings(),
        config.reserved.then_some(1),
        Encoder::new(config.qpack.encoder),
        Decoder::new(
            config.qpack.table,
            config.qpack.blocked_streams,
            limits.head.0,
        ),
        now,
    )
}
