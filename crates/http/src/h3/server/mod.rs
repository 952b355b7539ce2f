//! The server side of one HTTP/3 connection; performs no I/O and contains no QUIC (RFC 9114).
//!
//! [`Connection`] turns bytes of request streams into bytes of response streams. It parses requests as they arrive, and
//! gets each answer from the [`Origin`]. Responses are sent by the client's priorities (RFC 9218), the most urgent
//! first. Within one urgency, responses are sent one after another; incremental responses are interleaved. Content is
//! not copied: `transmit` offers slices of it. Each call offers bytes of one stream, at most as many as the transport
//! requests. [`crate::h3`] describes the interface to the host. On the server side:
//!
//! - [`handle_data`](Connection::handle_data) accepts all bytes that are passed to it.
//!   [`wants_data`](Connection::wants_data) returns whether the host should read more of a stream. If the host stops
//!   reading, QUIC's flow control stops the client.
//! - If content is in a file, [`Transmit::file`](super::Transmit::file) is set and no slices are filled.
//! - A request is answered when it is complete. If an invalid request can be parsed, it is answered with an error
//!   status. Otherwise, its stream is reset.
//!
//! The output does not depend on the split of a stream's input. An exchange allocates no memory after the buffers have
//! reached their final sizes. Not implemented: pushes, CONNECT, datagrams.

mod arrivals;
mod config;
mod ending;
mod flowing;
mod fuzz;
mod lifetime;
mod reading;
mod records;
mod respond;
mod schedule;
mod sending;
mod stream;
mod streams;
#[cfg(test)]
mod tests;
mod timing;

use std::io::IoSlice;
use std::sync::Arc;

use fathometer_model::Instant;

use self::arrivals::Arrivals;
use self::ending::Ending;
use self::records::Records;
use self::sending::Sending;
use self::stream::{Expect, Stream};
use self::streams::Streams;
use self::timing::Activity;
use super::critical::{Critical, Role};
use super::{Action, Direction, ErrorCode, Fault, Priority, Transmit, is_request, request_of};
use crate::exchange::{RequestId, WorkQueue};
use crate::field_block::FieldBlock;
use crate::origin::{Dates, Origin};
use crate::qpack::{Decoder, Encoder};

pub use self::config::{Limits, ServerConfig};
pub use self::ending::CloseReason;
pub use self::fuzz::fuzz;
pub use self::records::Served;
pub use crate::exchange::{FilePart, RequestText};

/// One connection. It turns bytes of request streams into answers, and sends the answers in the order of priorities.
#[derive(Debug)]
pub struct Connection {
    origin: Arc<Origin>,
    config: Arc<ServerConfig>,
    /// The control streams and the QPACK streams.
    critical: Critical,
    arrivals: Arrivals,
    streams: Streams,
    sending: Sending,
    work: WorkQueue<RequestId>,
    ending: Ending,
    records: Records,
    activity: Activity,
    requests: u64,
    /// Whether the work on the first request has begun.
    has_worked: bool,
    /// The last decoded fields.
    fields: FieldBlock,
    section: Vec<u8>,
    scratch: Vec<u8>,
    dates: Dates,
}

impl Connection {
    /// Creates a connection that was opened at `now`.
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
            critical,
            arrivals: Arrivals::default(),
            streams: Streams::default(),
            sending: Sending::default(),
            work: WorkQueue::new(now),
            ending: Ending::new(),
            records: Records::new(config.events, config.request_text),
            activity: Activity::new(now),
            requests: 0,
            has_worked: false,
            fields: FieldBlock::default(),
            section: Vec::new(),
            scratch: Vec::new(),
            dates: Dates::default(),
            origin,
            config,
        }
    }

    /// The kind of stream that the host must open as soon as the transport permits it; `None` if none is needed.
    pub fn wants_stream(&self) -> Option<Direction> {
        (self.ending.is_open() && self.critical.wants_stream()).then_some(Direction::Unidirectional)
    }

    /// Handles a stream that the transport has opened on request.
    pub fn handle_opened(&mut self, stream: u64, _now: Instant) {
        self.critical.opened(stream);
    }

    /// Returns the bytes to send next: at most `most` bytes of one stream. Critical streams come first, followed by
    /// responses by priority.
    pub fn transmit<'a>(&'a self, slices: &mut [IoSlice<'a>], most: usize) -> Option<Transmit<'a>> {
        if !self.ending.is_sending() {
            return None;
        }
        if let Some((stream, bytes)) = self.critical.transmit(slices, most) {
            return Some(Transmit {
                stream,
                slices: 1,
                bytes,
                file: None,
                end: false,
            });
        }
        self.sending.order().find_map(|stream| {
            let open = self.streams.get(request_of(stream)?)?;
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
                bytes: offered.bytes,
                file: offered.file,
                end: open.ends && offered.bytes as u64 == left,
            })
        })
    }

    /// Notes that the transport took the first `bytes` bytes that [`transmit`](Self::transmit) offered. If these were
    /// all bytes and `end` was set, the transport has also finished the stream.
    pub fn transmitted(&mut self, stream: u64, bytes: usize, now: Instant) {
        self.activity.note_use(now);
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
        open.active = now;
        self.activity.note_taken(now);
        let takes_turns = open.priority.incremental || !self.config.priorities;
        let sending = &mut self.sending;
        let is_empty = sending.transmitted(stream, open, bytes as u64, takes_turns);
        if is_empty && open.ends {
            self.end_response(request, stream, None, now);
        }
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
        match request_of(stream).and_then(|request| self.streams.get(request)) {
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

    /// Whether the host should read more bytes of a stream. False while the stream waits for the QPACK table. Also
    /// false for a new request while too many response heads wait. Bytes that the host passes in spite of this are
    /// buffered.
    pub fn wants_data(&self, stream: u64) -> bool {
        if !self.ending.is_open() {
            return false;
        }
        if !is_request(stream) {
            return true;
        }
        match request_of(stream).and_then(|request| self.streams.get(request)) {
            // Trailers may also wait for the QPACK table, and the bytes buffered in the meantime have no other limit.
            Some(open) if open.waiting => false,
            Some(open) if open.expect != Expect::Head => true,
            _ => self.sending.backlog() <= self.config.limits.backlog.0,
        }
    }

    /// Handles a file that is shorter than the offered bytes. The response cannot be completed.
    pub fn handle_truncated_file(&mut self, stream: u64, now: Instant) {
        if let Some(request) = request_of(stream) {
            self.break_off(request, stream, ErrorCode::INTERNAL_ERROR, now);
        }
    }

    /// Handles STOP_SENDING for a stream.
    pub fn handle_stop_sending(&mut self, stream: u64, _code: u64, now: Instant) {
        self.activity.note_use(now);
        if !self.ending.is_open() {
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
        // STOP_SENDING may arrive before all other frames of its stream.
        if let Some(request) = self.open(stream, now) {
            self.break_off(request, stream, ErrorCode::REQUEST_CANCELLED, now);
        }
        self.settle();
    }

    /// Ends both directions of a stream whose response cannot be completed.
    fn break_off(&mut self, request: RequestId, stream: u64, code: ErrorCode, now: Instant) {
        let Some(open) = self.streams.get_mut(request) else {
            return;
        };
        if open.expect == Expect::Nothing && open.ends && open.output.is_empty() {
            return;
        }
        self.ending.act(Action::Reset { stream, code });
        let reads = open.reads();
        if reads {
            self.ending.act(Action::StopSending { stream, code });
        }
        if reads || open.waiting {
            self.critical.decoder.cancel(stream);
        }
        open.fin = true;
        self.end_response(request, stream, Some(code), now);
    }

    /// Stops reading a request whose response is still being sent.
    fn stop_reading(&mut self, request: RequestId, stream: u64) {
        if let Some(open) = self.streams.get_mut(request)
            && open.reads()
        {
            open.expect = Expect::Nothing;
            open.held.clear();
            open.waiting = false;
            let code = ErrorCode::NO_ERROR;
            self.ending.act(Action::StopSending { stream, code });
            self.critical.decoder.cancel(stream);
        }
    }

    /// Ends a response that was handed to the transport completely, or that was aborted.
    fn end_response(
        &mut self,
        request: RequestId,
        stream: u64,
        reset: Option<ErrorCode>,
        now: Instant,
    ) {
        let Some(mut open) = self.streams.close(request) else {
            return;
        };
        self.activity.note_busy(now);
        self.sending.remove(stream, &mut open);
        let record = (&open.served, open.text);
        let sent = open.output.sent();
        self.records.note_end(request, record, sent, reset, now);
        if open.reads() {
            // The client still sends request content, but the complete response has been sent.
            let code = ErrorCode::NO_ERROR;
            self.ending.act(Action::StopSending { stream, code });
            self.critical.decoder.cancel(stream);
        }
        self.streams.recycle(open);
        self.leave();
    }

    /// Whether no request is in flight.
    pub fn is_idle(&self) -> bool {
        self.ending.is_open() && self.streams.is_empty()
    }

    /// Frees unused memory of a connection that is likely to stay idle.
    pub fn rest(&mut self) {
        if self.is_idle() {
            self.streams.rest();
            self.records.rest();
            self.fields = FieldBlock::default();
            self.section = Vec::new();
            self.scratch = Vec::new();
        }
    }

    /// The next action that the host must perform on the transport. Each action is returned once. Before it performs
    /// [`Action::Close`] with `H3_NO_ERROR`, the host must deliver all bytes that [`transmit`](Self::transmit) returns.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.ending.take_action()
    }

    /// The next exchange whose response was passed to the transport, if events are [enabled](ServerConfig::events).
    /// Events wait until the caller takes them.
    pub fn poll_event(&mut self) -> Option<Served> {
        self.records.take().map(|(served, _)| served)
    }

    /// Like [`poll_event`](Self::poll_event), with the texts of the request if texts are
    /// [recorded](ServerConfig::request_text).
    pub fn poll_event_with_text(&mut self) -> Option<(Served, RequestText<'_>)> {
        self.records.take()
    }

    /// The next exchange of a connection that is no longer served. Returns the events of
    /// [`poll_event_with_text`](Self::poll_event_with_text) first, and then the exchanges whose response was passed on
    /// only in part. Call it until it returns `None`.
    pub fn cut_short(&mut self, now: Instant) -> Option<(Served, RequestText<'_>)> {
        self.sending.clear();
        let reset = Some(ErrorCode::REQUEST_CANCELLED);
        for (request, open) in self.streams.drain() {
            let record = (&open.served, open.text);
            let sent = open.output.sent();
            self.records.note_end(request, record, sent, reset, now);
        }
        self.poll_event_with_text()
    }

    /// Whether the connection is closed and the last action was taken.
    pub fn is_finished(&self) -> bool {
        self.ending.is_finished()
    }

    /// The reason for the close of the connection; `None` while it is open.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.ending.reason()
    }

    /// The number of answered requests, including refused ones.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Moves the QPACK instructions to their streams.
    fn settle(&mut self) {
        if self.ending.is_open()
            && let Err(fault) = self.critical.settle()
        {
            self.fail(fault);
        }
    }
}
