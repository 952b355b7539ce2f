//! The connection machine: sending, and the end of the connection.

use std::collections::{BTreeSet, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;

use fathometer_model::{Bytes, Instant};

use super::RequestText;
use super::config::ServerConfig;
use super::schedule::Schedule;
use super::stream::{Expect, Stream};
use crate::exchange::{self, Pending, RequestId};
use crate::field_block::FieldBlock;
use crate::h3::critical::{Critical, Role};
use crate::h3::is_request;
use crate::h3::{Action, Direction, ErrorCode, Fault, Priority, Transmit};
use crate::origin::{Dates, Origin};
use crate::qpack::{Decoder, Encoder};

/// An exchange whose response was handed to the transport, completely or in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// The figures that HTTP/1 records too. Heads are counted as the HEADERS frames that carry them, including
    /// their types and lengths; interim heads are included. Content is counted without framing.
    pub exchange: exchange::Served,
    /// The stream.
    pub stream: u64,
    /// Names and values of the request's fields, before compression.
    pub request_fields: Bytes,
    /// Names and values of the response's fields, before compression, interim heads included.
    pub head_fields: Bytes,
    /// Bytes of the response's DATA frames, their types and lengths included.
    pub body_frames: Bytes,
    /// The code with which either side reset the stream before its response was complete.
    pub reset: Option<ErrorCode>,
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The client closed it.
    ClientClosed,
    /// The server shut down.
    ServerEnds,
    /// The limit on requests of one connection was reached.
    RequestLimit,
    /// No data came for too long.
    IdleTimeout,
    /// The client broke the protocol.
    Fault(Fault),
    /// The transport failed, as its host reported.
    TransportFailed,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    pub(super) origin: Arc<Origin>,
    pub(super) config: Arc<ServerConfig>,
    pub(super) critical: Critical,
    /// Streams by request number, which is a quarter of the stream ID.
    pub(super) streams: Pending<Box<Stream>>,
    #[allow(clippy::vec_box, reason = "they go in and out of a table of boxes")]
    pub(super) spare: Vec<Box<Stream>>,
    /// The lowest ID of a request stream from which on no stream has been seen.
    pub(super) next_stream: u64,
    /// Request streams below `next_stream` that have not been seen: QUIC may deliver them in any order.
    pub(super) unseen: BTreeSet<u64>,
    /// Priorities of streams that have not been seen.
    pub(super) early_priorities: VecDeque<(u64, Priority)>,
    pub(super) schedule: Schedule,
    /// Requests that wait for their turn or are being processed, each with the time when it is done.
    pub(super) working: VecDeque<(RequestId, Instant)>,
    pub(super) work_until: Instant,
    /// Bytes of text that wait in all streams together.
    pub(super) backlog: u64,
    pub(super) phase: Phase,
    /// Whether it closed without a fault: queued data is still sent.
    pub(super) is_graceful: bool,
    pub(super) leaving: Leaving,
    /// Why it closes once no request is in flight any more.
    pub(super) leave_reason: CloseReason,
    pub(super) actions: VecDeque<Action>,
    events: VecDeque<(Served, [u32; 3], Vec<u8>)>,
    /// The text of the event that was taken last.
    text: Vec<u8>,
    pub(super) requests: u64,
    pub(super) last: Instant,
    /// When a request was last in flight.
    pub(super) last_busy: Instant,
    /// When the transport last took content of any response.
    pub(super) last_taken: Instant,
    pub(super) fields: FieldBlock,
    pub(super) section: Vec<u8>,
    pub(super) scratch: Vec<u8>,
    pub(super) dates: Dates,
    /// Texts of requests in flight, by stream.
    pub(super) texts: Pending<Vec<u8>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    Closed(CloseReason),
}

/// How far this side's graceful shutdown is (RFC 9114 section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leaving {
    No,
    /// GOAWAY with the largest identifier was sent.
    Announced,
    /// Streams from this one on are rejected.
    From(u64),
}

/// How many closed streams are kept at most, so that others reuse their memory.
const MOST_SPARE: usize = 32;

impl Connection {
    /// A connection that was made at `now`.
    pub fn new(origin: Arc<Origin>, config: Arc<ServerConfig>, now: Instant) -> Connection {
        let qpack = &config.qpack;
        let section = config.limits.section.0;
        let critical = Critical::new(
            Role::Server,
            &config.settings(),
            config.reserved.then_some(1),
            Encoder::new(qpack.encoder),
            Decoder::new(qpack.table, qpack.blocked_streams, section),
            now,
        );
        Connection {
            origin,
            config,
            critical,
            streams: Pending::default(),
            spare: Vec::new(),
            next_stream: 0,
            unseen: BTreeSet::new(),
            early_priorities: VecDeque::new(),
            schedule: Schedule::default(),
            working: VecDeque::new(),
            work_until: now,
            backlog: 0,
            phase: Phase::Open,
            is_graceful: false,
            leaving: Leaving::No,
            leave_reason: CloseReason::ServerEnds,
            actions: VecDeque::new(),
            events: VecDeque::new(),
            text: Vec::new(),
            requests: 0,
            last: now,
            last_busy: now,
            last_taken: now,
            fields: FieldBlock::default(),
            section: Vec::new(),
            scratch: Vec::new(),
            dates: Dates::default(),
            texts: Pending::default(),
        }
    }

    /// The kind of stream to open next, as soon as the transport can.
    pub fn wants_stream(&self) -> Option<Direction> {
        (self.phase == Phase::Open && self.critical.wants_stream())
            .then_some(Direction::Unidirectional)
    }

    /// The transport has opened a stream of the requested kind.
    pub fn handle_opened(&mut self, stream: u64, _now: Instant) {
        self.critical.opened(stream);
    }

    /// The bytes to send next: at most `most`, all of one stream. Critical streams come first, then responses
    /// by their priority.
    pub fn transmit<'a>(&'a self, slices: &mut [IoSlice<'a>], most: usize) -> Option<Transmit<'a>> {
        if self.phase != Phase::Open && !self.is_graceful {
            return None;
        }
        if let Some((stream, octets)) = self.critical.transmit(slices, most) {
            return Some(Transmit {
                stream,
                slices: 1,
                octets,
                file: None,
                end: false,
            });
        }
        self.schedule.iter().find_map(|stream| {
            let open = self.streams.get(number(stream)?)?;
            if !open.has_something() {
                return None;
            }
            let turn = usize::try_from(self.config.turn.0).unwrap_or(usize::MAX);
            let most = match self.is_incremental(open) {
                true => most.min(turn.max(1)),
                false => most,
            };
            let offered = open.output.offer(&self.origin, slices, most);
            let left = open.output.waiting();
            Some(Transmit {
                stream,
                slices: offered.slices,
                octets: offered.octets,
                file: offered.file,
                end: open.ends && offered.octets as u64 == left,
            })
        })
    }

    /// The transport took the first `octets` bytes that [`transmit`](Self::transmit) offered of a stream. If
    /// these were all and the stream ends there, the transport also finished the stream.
    pub fn transmitted(&mut self, stream: u64, octets: usize, now: Instant) {
        self.last = now;
        if self.critical.is_own(stream) {
            self.critical.transmitted(stream, octets);
            return;
        }
        let Some(request) = number(stream) else {
            return;
        };
        let Some(open) = self.streams.get_mut(request) else {
            return;
        };
        open.active = now;
        self.last_taken = now;
        let before = open.output.text_waiting();
        open.output.transmitted(octets as u64);
        self.backlog -= before - open.output.text_waiting();
        let priority = open.priority;
        if !open.output.is_empty() {
            if open.priority.incremental || !self.config.priorities {
                self.schedule.rotate(stream, priority);
            }
            return;
        }
        open.scheduled = false;
        let ends = open.ends;
        self.schedule.remove(stream, priority);
        if ends {
            self.end_response(request, stream, None, now);
        }
    }

    /// The transport accepts no more bytes of a stream for now.
    pub fn handle_blocked(&mut self, stream: u64) {
        self.set_blocked(stream, true);
    }

    /// The transport accepts bytes of a stream again.
    pub fn handle_writable(&mut self, stream: u64) {
        self.set_blocked(stream, false);
    }

    fn set_blocked(&mut self, stream: u64, blocked: bool) {
        self.critical.set_blocked(stream, blocked);
        if is_request(stream)
            && let Some(open) = number(stream).and_then(|request| self.streams.get_mut(request))
        {
            open.blocked = blocked;
        }
    }

    /// The send priority of a stream. Critical streams have the highest one.
    pub fn priority(&self, stream: u64) -> Priority {
        let open = number(stream).filter(|_| is_request(stream));
        match open.and_then(|request| self.streams.get(request)) {
            Some(open) => open.priority,
            None => Priority {
                urgency: 0,
                incremental: false,
            },
        }
    }

    fn is_incremental(&self, stream: &Stream) -> bool {
        stream.priority.incremental || !self.config.priorities
    }

    /// Whether the host should read more bytes of a stream. It should not while the stream waits for QPACK's
    /// table, nor start requests while response heads pile up. Bytes that are passed in anyway are kept.
    pub fn wants_data(&self, stream: u64) -> bool {
        if self.phase != Phase::Open {
            return false;
        }
        if !is_request(stream) {
            return true;
        }
        match number(stream).and_then(|request| self.streams.get(request)) {
            // Its trailers may wait too, and what is kept meanwhile has no bound of its own.
            Some(open) if open.waiting => false,
            Some(open) if open.expect != Expect::Head => true,
            _ => self.backlog <= self.config.limits.backlog.0,
        }
    }

    /// A file ended before the bytes that were offered of it: the response cannot be completed.
    pub fn handle_truncated_file(&mut self, stream: u64, now: Instant) {
        if let Some(request) = number(stream) {
            self.break_off(request, stream, ErrorCode::INTERNAL_ERROR, now);
        }
    }

    /// The client sent STOP_SENDING for a stream.
    pub fn handle_stop_sending(&mut self, stream: u64, _code: u64, now: Instant) {
        self.last = now;
        if self.phase != Phase::Open {
            return;
        }
        if self.critical.is_own(stream) {
            return self.fail(Fault::ClosedCriticalStream);
        }
        if !is_request(stream) {
            return;
        }
        if let Err(fault) = self.critical.count_idle(now) {
            return self.fail(fault);
        }
        // STOP_SENDING may arrive before anything else of its stream.
        if let Some(request) = self.open(stream, now) {
            self.break_off(request, stream, ErrorCode::REQUEST_CANCELLED, now);
        }
        self.settle();
    }

    /// Ends both directions of a stream whose response will not be completed.
    pub(super) fn break_off(
        &mut self,
        request: RequestId,
        stream: u64,
        code: ErrorCode,
        now: Instant,
    ) {
        let Some(open) = self.streams.get_mut(request) else {
            return;
        };
        if open.expect == Expect::Nothing && open.ends && open.output.is_empty() {
            return;
        }
        self.actions.push_back(Action::Reset { stream, code });
        let reads = !open.fin && open.expect != Expect::Nothing;
        if reads {
            self.actions.push_back(Action::StopSending { stream, code });
        }
        if reads || open.waiting {
            self.critical.decoder.cancel(stream);
        }
        open.fin = true;
        self.end_response(request, stream, Some(code), now);
    }

    /// Stops reading a request that is answered nevertheless.
    pub(super) fn stop_reading(&mut self, request: RequestId, stream: u64) {
        if let Some(open) = self.streams.get_mut(request)
            && !open.fin
            && open.expect != Expect::Nothing
        {
            open.expect = Expect::Nothing;
            open.held.clear();
            open.waiting = false;
            let code = ErrorCode::NO_ERROR;
            self.actions.push_back(Action::StopSending { stream, code });
            self.critical.decoder.cancel(stream);
        }
    }

    /// Ends a response that was handed over, or that is given up.
    fn end_response(
        &mut self,
        request: RequestId,
        stream: u64,
        reset: Option<ErrorCode>,
        now: Instant,
    ) {
        let Some(mut open) = self.streams.remove(request) else {
            return;
        };
        self.last_busy = now;
        self.schedule.remove(stream, open.priority);
        self.backlog -= open.output.text_waiting();
        let text = self.texts.remove(request).unwrap_or_default();
        let sent = open.output.sent();
        if self.config.events && (reset.is_none() || sent > 0) {
            let mut served = match reset {
                None => open.served,
                Some(_) => open.served.cut(sent),
            };
            served.reset = reset;
            served.exchange.at = now;
            self.events.push_back((served, open.text, text));
        }
        if !open.fin && open.expect != Expect::Nothing {
            // The client still sends its request although it has the complete response.
            let code = ErrorCode::NO_ERROR;
            self.actions.push_back(Action::StopSending { stream, code });
            self.critical.decoder.cancel(stream);
        }
        if self.spare.len() < MOST_SPARE {
            open.output.clear();
            open.flowing = None;
            self.spare.push(open);
        }
        self.leave();
    }

    /// Whether no request is in flight.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Open && self.streams.is_empty()
    }

    /// Releases unused memory of a connection that is likely to stay idle.
    pub fn rest(&mut self) {
        if self.is_idle() {
            self.spare = Vec::new();
            self.streams.shrink();
            self.texts.shrink();
            self.fields = FieldBlock::default();
            self.section = Vec::new();
            self.scratch = Vec::new();
        }
    }

    /// The next action for the host to carry out on the transport; each is returned once. [`Action::Close`]
    /// with `H3_NO_ERROR` must wait until everything that [`transmit`](Self::transmit) still returns has been
    /// delivered.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The next exchange that was handed over, if events are [enabled](ServerConfig::events). Events are kept
    /// until they are taken.
    pub fn poll_event(&mut self) -> Option<Served> {
        self.events.pop_front().map(|(served, ..)| served)
    }

    /// Like [`poll_event`](Self::poll_event), with the texts of the request if they are
    /// [kept](ServerConfig::request_text).
    pub fn poll_event_with_text(&mut self) -> Option<(Served, RequestText<'_>)> {
        let (served, lengths, text) = self.events.pop_front()?;
        self.text = text;
        Some((served, RequestText::split(&self.text, lengths)))
    }

    /// For a connection that is not served any further: like
    /// [`poll_event_with_text`](Self::poll_event_with_text), with an additional event for each exchange whose
    /// response was handed over in part. Call it until it returns `None`.
    pub fn cut_short(&mut self, now: Instant) -> Option<(Served, RequestText<'_>)> {
        self.schedule.clear();
        self.backlog = 0;
        for (request, open) in self.streams.drain() {
            let text = self.texts.remove(request).unwrap_or_default();
            let sent = open.output.sent();
            if self.config.events && sent > 0 {
                let mut served = open.served.cut(sent);
                served.reset = Some(ErrorCode::REQUEST_CANCELLED);
                served.exchange.at = now;
                self.events.push_back((served, open.text, text));
            }
        }
        self.poll_event_with_text()
    }

    /// Whether the connection is closed and the last action was taken.
    pub fn is_finished(&self) -> bool {
        self.phase != Phase::Open && self.actions.is_empty()
    }

    /// Why the connection closed; `None` while it is open.
    pub fn close_reason(&self) -> Option<CloseReason> {
        match self.phase {
            Phase::Open => None,
            Phase::Closed(reason) => Some(reason),
        }
    }

    /// Requests answered, including refused ones.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Moves the instructions of QPACK to their streams.
    pub(super) fn settle(&mut self) {
        if self.phase == Phase::Open
            && let Err(fault) = self.critical.settle()
        {
            self.fail(fault);
        }
    }
}

impl Served {
    /// The record of a request of which nothing has been read yet.
    pub(super) fn unread(stream: u64, now: Instant) -> Served {
        Served {
            exchange: exchange::Served::unread(now),
            stream,
            request_fields: Bytes(0),
            head_fields: Bytes(0),
            body_frames: Bytes(0),
            reset: None,
        }
    }

    /// The record of what was handed over if only the first `sent` bytes of the stream were.
    fn cut(mut self, sent: u64) -> Served {
        let head = self.exchange.head.0.min(sent);
        let frames = self.body_frames.0.min(sent - head);
        let framing = self.body_frames.0 - self.exchange.body.0;
        self.exchange.head = Bytes(head);
        self.body_frames = Bytes(frames);
        self.exchange.body = Bytes(frames.saturating_sub(framing));
        self
    }
}

/// The key of a stream in the tables.
pub(super) fn number(stream: u64) -> Option<RequestId> {
    u32::try_from(stream / 4).ok().map(RequestId)
}
