//! The state machine of a client connection: its state, its input, and the order of its events.

use std::collections::VecDeque;

use fathometer_model::{Bytes, CloseReason, Failure, Instant};

use super::alternatives::Announcement;
use super::calm::UselessFrames;
use super::config::{Config, Push, Start};
use super::output::{Output, deadline};
use super::promise::{self, Promise};
use super::stream::{Ending, Stream};
use super::traffic::{Counter, Traffic};
use crate::exchange::{Event, Head, Pending, RequestFields, RequestId, WindowWait, WindowWaits};
use crate::field_block::FieldBlock;
use crate::h2::error::{ConnectionError, ErrorCode, Fault};
use crate::h2::flow::{CONNECTION_WINDOW, ReceiveWindow, Window};
use crate::h2::frame::{self, Frame, Reader, write};
use crate::h2::settings::Settings;
use crate::h2::{PREFACE, StreamId};
use crate::hpack::{DEFAULT_TABLE_SIZE, Decoder, Encoder};
use crate::message::section::ResponseInfo;

/// The client side of one HTTP/2 connection. The [module documentation](super) explains its use.
#[derive(Debug)]
pub struct Connection {
    /// The frame reader. It is not part of `core`, because the returned frames borrow the reader.
    reader: Reader,
    core: Core,
}

/// All state except the frame reader.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) config: Config,
    pub(super) output: Output,
    pub(super) encoder: Encoder,
    pub(super) decoder: Decoder,
    /// The server's settings.
    pub(super) peer: Settings,
    pub(super) peer_is_known: bool,
    /// Whether the server has not yet acknowledged the client's settings.
    pub(super) settings_wait: bool,
    /// The time by which the server must acknowledge those settings.
    pub(super) settings_by: Option<Instant>,
    pub(super) streams: Pending<Stream>,
    /// The number of open requested streams. `pushed`: the number of open pushed streams.
    pub(super) asked: u32,
    pub(super) pushed: u32,
    pub(super) next_request: RequestId,
    /// The hosts of the requests so far; the server may push for these hosts.
    pub(super) authorities: Vec<Box<[u8]>>,
    /// The last stream promised by the server.
    pub(super) last_promised: StreamId,
    /// Streams that this side has reset and on which frames may still arrive; oldest first.
    pub(super) resets: VecDeque<RequestId>,
    /// Whether this side has reset more streams than `resets` can hold.
    pub(super) resets_overflowed: bool,
    /// The send window of the connection.
    pub(super) send: Window,
    /// The receive window of the connection.
    pub(super) receive: ReceiveWindow,
    /// The server's waits for receive windows, if [`Config::record_window_waits`] is set.
    pub(super) window_waits: Option<Box<WindowWaits>>,
    /// Requests whose content the windows block, in sending order.
    pub(super) blocked: VecDeque<RequestId>,
    /// Requests that wait for 100 (Continue), with their time limits.
    pub(super) continuing: Vec<(RequestId, Option<Instant>)>,
    /// The server's GOAWAY: the first request that the server will not process, and the error code.
    pub(super) end: Option<(RequestId, ErrorCode)>,
    /// The number of PINGs without an answer.
    pub(super) pings: u32,
    pub(super) calm: UselessFrames,
    /// Whether the current DATA frame has no content so far.
    pub(super) data_is_empty: bool,
    /// Pending events; reported before more input is read.
    pub(super) notes: VecDeque<Event<'static>>,
    pub(super) phase: Phase,
    pub(super) error: Option<ConnectionError>,
    pub(super) head: FieldBlock,
    pub(super) info: ResponseInfo,
    /// The header block that was decoded to `head`, and the generation of the decoder's table. In one generation, equal
    /// blocks decode to equal heads.
    pub(super) head_block: Vec<u8>,
    pub(super) head_generation: Option<u64>,
    pub(super) trailers: FieldBlock,
    pub(super) promise: FieldBlock,
    /// The last announcement of an alternative service.
    pub(super) announcement: Announcement,
    /// The request that is being written.
    pub(super) request: RequestFields,
    /// Buffers of finished uploads, for reuse.
    pub(super) spare: Vec<Vec<u8>>,
    incoming: Counter,
    /// The earliest time at which a request can exceed a time limit.
    pub(super) wake: Option<Instant>,
    /// The time at which bytes were last read or written.
    pub(super) active: Instant,
    pub(super) now: Instant,
}

#[derive(Debug)]
pub(super) enum Phase {
    Open,
    /// `poll` reports the remaining requests, then the close. The list starts with the youngest request.
    Closing {
        reason: CloseReason,
        ending: Ending,
        left: Vec<RequestId>,
    },
    Closed(CloseReason),
}

/// The maximum number of requests on one connection, which is the number of odd stream numbers.
pub(super) const MOST_REQUESTS: u32 = 1 << 30;

impl Connection {
    /// Creates a state machine for a new transport connection, and writes the preface and the settings.
    pub fn new(config: Config) -> Connection {
        let mut connection = Connection {
            reader: Reader::new(reader_limits(&config)),
            core: Core {
                output: Output::default(),
                encoder: Encoder::new(config.encoder_table),
                decoder: decoder(&config),
                peer: Settings::default(),
                peer_is_known: false,
                settings_wait: true,
                settings_by: None,
                streams: Pending::default(),
                asked: 0,
                pushed: 0,
                next_request: RequestId(0),
                authorities: Vec::new(),
                last_promised: StreamId::CONNECTION,
                resets: VecDeque::new(),
                resets_overflowed: false,
                send: Window::new(CONNECTION_WINDOW),
                receive: ReceiveWindow::new(config.connection_window.max(CONNECTION_WINDOW)),
                window_waits: None,
                blocked: VecDeque::new(),
                continuing: Vec::new(),
                end: None,
                pings: 0,
                calm: UselessFrames::default(),
                data_is_empty: true,
                notes: VecDeque::new(),
                phase: Phase::Open,
                error: None,
                head: FieldBlock::default(),
                info: ResponseInfo::default(),
                head_block: Vec::new(),
                head_generation: None,
                trailers: FieldBlock::default(),
                promise: FieldBlock::default(),
                announcement: Announcement::default(),
                request: RequestFields::default(),
                spare: Vec::new(),
                incoming: Counter::default(),
                wake: None,
                active: Instant::ZERO,
                now: Instant::ZERO,
                config,
            },
        };
        connection.core.greet();
        connection
    }

    /// Resets the state machine for another transport connection. Allocated memory is reused.
    pub fn renew(&mut self) {
        let core = &mut self.core;
        self.reader.renew(reader_limits(&core.config));
        core.output.clear();
        core.encoder = Encoder::new(core.config.encoder_table);
        core.decoder = decoder(&core.config);
        core.peer = Settings::default();
        core.peer_is_known = false;
        core.settings_wait = true;
        core.settings_by = None;
        core.streams.clear();
        core.asked = 0;
        core.pushed = 0;
        core.next_request = RequestId(0);
        core.authorities.clear();
        core.last_promised = StreamId::CONNECTION;
        core.resets.clear();
        core.resets_overflowed = false;
        core.send = Window::new(CONNECTION_WINDOW);
        core.receive = ReceiveWindow::new(core.config.connection_window.max(CONNECTION_WINDOW));
        core.window_waits = None;
        core.blocked.clear();
        core.continuing.clear();
        core.end = None;
        core.pings = 0;
        core.calm = UselessFrames::default();
        core.notes.clear();
        core.phase = Phase::Open;
        core.error = None;
        core.head.clear();
        core.info = ResponseInfo::default();
        core.head_generation = None;
        core.incoming = Counter::default();
        core.wake = None;
        core.active = Instant::ZERO;
        core.now = Instant::ZERO;
        core.greet();
    }

    /// Returns the server's waits for receive windows since the last call. The list is empty unless
    /// [`Config::record_window_waits`] is set.
    pub fn take_window_waits(&mut self) -> Vec<WindowWait> {
        let waits = self.core.window_waits.as_mut();
        waits.map(|waits| waits.take()).unwrap_or_default()
    }

    /// Frees unused memory, for a connection that will be idle for a long time. The compression tables stay, because
    /// the server relies on them.
    pub fn shrink(&mut self) {
        self.reader.rest();
        let core = &mut self.core;
        core.output.shrink();
        core.streams.shrink();
        core.spare = Vec::new();
        core.request.rest();
        if core.streams.is_empty() {
            core.head = FieldBlock::default();
            core.trailers = FieldBlock::default();
            core.promise = FieldBlock::default();
            core.head_block = Vec::new();
            core.head_generation = None;
        }
        if core.notes.is_empty() {
            core.notes = VecDeque::new();
        }
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.core.config
    }

    pub(super) fn core(&self) -> &Core {
        &self.core
    }

    pub(super) fn core_mut(&mut self) -> &mut Core {
        &mut self.core
    }

    /// Whether the connection accepts further requests. The limit on concurrent requests is ignored.
    pub fn accepts_requests(&self) -> bool {
        self.core.accepts_requests()
    }

    /// Whether a request can be queued now, within the limits of both sides on outstanding requests.
    /// [`Event::Settings`] may change the result.
    #[inline]
    pub fn can_request(&self) -> bool {
        self.core.accepts_requests() && self.core.has_room()
    }

    /// The number of requests, queued or sent, whose responses are not complete. Pushes are not counted.
    pub fn outstanding(&self) -> usize {
        self.core.asked as usize
    }

    /// The number of promised pushes whose responses are not complete.
    pub fn outstanding_pushes(&self) -> usize {
        self.core.pushed as usize
    }

    /// The oldest request of which the transport has taken no byte. If there is none, the next request to be queued.
    /// Requests are sent in the order in which they were queued.
    #[inline]
    pub fn first_unsent(&self) -> RequestId {
        self.core.first_unsent()
    }

    /// The head that the last [`Event::Head`] or [`Event::Interim`] announced. Valid until the next head is read.
    #[inline]
    pub fn head(&self) -> Head<'_> {
        Head::new(self.core.info.status, &self.core.head)
    }

    /// The fields that the last [`Event::Trailers`] announced. Valid until the next trailers are read.
    pub fn trailers(&self) -> &FieldBlock {
        &self.core.trailers
    }

    /// The request that the last [`Event::Promised`] announced; `None` if there was no promise. Valid until the next
    /// promise is read.
    pub fn promise(&self) -> Option<Promise<'_>> {
        promise::read(&self.core.promise).ok()
    }

    /// The origin and the `Alt-Svc` field value of the last [`Event::Alternatives`]. An empty origin means the
    /// origin of the request. Both are valid until the next announcement is read.
    pub fn alternatives(&self) -> (&str, &str) {
        (
            &self.core.announcement.origin,
            &self.core.announcement.value,
        )
    }

    /// The server's settings; `None` before [`Event::Settings`].
    pub fn peer_settings(&self) -> Option<&Settings> {
        self.core.peer_is_known.then_some(&self.core.peer)
    }

    /// The number and size of the frames handed to the transport, by type. The preface of 24 bytes is not a frame.
    pub fn sent(&self) -> &Traffic {
        self.core.output.traffic()
    }

    /// The number and size of the frames read, by type.
    pub fn received(&self) -> &Traffic {
        self.core.incoming.traffic()
    }

    /// The protocol error of the server that closed the connection; `None` if there was no such error.
    pub fn error(&self) -> Option<ConnectionError> {
        self.core.error
    }

    /// The reason for the close; `None` while the connection is active.
    pub fn close_reason(&self) -> Option<CloseReason> {
        match self.core.phase {
            Phase::Closed(reason) => Some(reason),
            _ => None,
        }
    }

    /// The number of held bytes: written, but neither released nor handed to the transport. Content that waits for a
    /// window is not counted.
    pub fn held(&self) -> Bytes {
        self.core.output.held()
    }

    /// Releases the oldest `bytes` held bytes and completes the frame in which they end. If fewer bytes are held,
    /// releases all. Returns the number of released bytes.
    pub fn release(&mut self, bytes: Bytes) -> Bytes {
        if bytes == Bytes(0) {
            return bytes;
        }
        let released = self.core.output.release(bytes.0);
        if self.core.output.held() == Bytes(0) {
            self.core.release_backlogs();
        }
        Bytes(released)
    }

    /// Releases all output written so far, including content that waits for a window. That content is sent when the
    /// server enlarges the window.
    pub fn flush(&mut self) {
        self.core.output.flush();
        self.core.release_backlogs();
    }

    /// The bytes that may be handed to the transport now. After [`Event::Closed`], these are the last bytes of the
    /// connection.
    #[inline]
    pub fn transmit(&self) -> &[u8] {
        self.core.output.transmit()
    }

    /// Notes that the transport took the first `bytes` bytes of the slice that [`transmit`](Self::transmit)
    /// returned.
    ///
    /// # Panics
    /// If `bytes` is larger than the slice.
    pub fn transmitted(&mut self, bytes: usize, now: Instant) {
        assert!(
            bytes <= self.transmit().len(),
            "more bytes were taken than offered"
        );
        if bytes > 0 {
            self.core.transmitted(bytes, now);
        }
    }

    /// Aborts one request or one push: resets its stream. The next [`poll`](Self::poll) reports `failure`. Does nothing
    /// if the request has already ended.
    pub fn cancel(&mut self, request: RequestId, failure: Failure, now: Instant) {
        self.core.now = now;
        if self.core.is_open() {
            self.core.fail_stream(request, ErrorCode::CANCEL, failure);
        }
    }

    /// Queues a PING, which the next flush sends. The answer is reported as [`Event::Pong`].
    pub fn ping(&mut self, payload: [u8; 8]) {
        if self.core.is_open() {
            self.core.pings += 1;
            write::ping(&mut self.core.output.held, false, payload);
        }
    }

    /// Reads bytes from the front of `input` and returns the next event. Call `poll` until it returns `None`: then all
    /// input is consumed. After any `handle_` method, call `poll` with an empty input to get the events that the method
    /// caused. Then call [`transmit`](Self::transmit).
    pub fn poll<'i>(&mut self, input: &mut &'i [u8], now: Instant) -> Option<Event<'i>> {
        let core = &mut self.core;
        core.now = now;
        if !input.is_empty() {
            core.active = now;
        }
        loop {
            if let Some(note) = core.notes.pop_front() {
                return Some(note);
            }
            if !core.is_open() {
                *input = &[];
                return core.close_step();
            }
            let before: &'i [u8] = input;
            let mut rest: &[u8] = before;
            let frame = self.reader.read(&mut rest);
            let used = before.len() - rest.len();
            *input = &before[used..];
            core.incoming.pass(&before[..used]);
            let event = match frame {
                None => return None,
                Some(Ok(Frame::Data(piece))) if core.peer_is_known => {
                    core.data(&piece, same_slice(before, piece.content))
                }
                Some(Ok(frame)) => core.take(&frame).map(|()| None),
                Some(Err(error)) => core.take_error(error).map(|()| None),
            };
            match event {
                Ok(None) => {}
                Ok(Some(event)) => return Some(event),
                Err(fault) => core.fail(fault),
            }
        }
    }

    /// Notes that the server has closed its side of the connection. Pass all bytes that arrived before to
    /// [`poll`](Self::poll) first.
    pub fn handle_eof(&mut self, now: Instant) {
        self.core.now = now;
        self.core.end_of_stream();
    }

    /// Notes that the transport failed, or that the caller aborts the connection. `failure` must be a failure that the
    /// peer did not cause. Responses that `poll` reported as complete stay complete.
    pub fn handle_failure(&mut self, failure: Failure, now: Instant) {
        self.core.now = now;
        if self.core.is_open() {
            let ending = Ending {
                begun: failure,
                unanswered: failure,
            };
            self.core.close(CloseReason::Failed(failure), ending);
            self.core.output.drop_all();
        }
    }

    /// Notes that the client has no more requests and closes the connection. Requests without a complete response are
    /// aborted with [`Failure::LocalAbort`], and the close reason is [`CloseReason::Finished`].
    pub fn finish(&mut self) {
        if !self.core.is_open() {
            return;
        }
        self.core.output.drop_held();
        if self.core.config.send_go_away {
            self.core.go_away(ErrorCode::NO_ERROR);
        }
        let ending = Ending {
            begun: Failure::LocalAbort,
            unanswered: Failure::LocalAbort,
        };
        self.core.close(CloseReason::Finished, ending);
    }

    /// The time at which to call [`handle_timeout`](Self::handle_timeout) if no other event happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.core.poll_timeout()
    }

    /// Handles every time limit that has passed. A call before the time limit does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.core.now = now;
        if self.core.is_open() {
            self.core.time_is_up();
        }
    }
}

impl Core {
    /// Writes the preface, the settings and, if needed, a window update.
    fn greet(&mut self) {
        let settings = self.config.sent_settings();
        let ready = &mut self.output.ready;
        ready.extend_from_slice(PREFACE);
        write::settings(ready, settings.changes(&Settings::default()));
        if self.config.record_window_waits {
            // The connection starts with this window. The window update that follows enlarges it.
            let mut waits = WindowWaits::new(u64::from(CONNECTION_WINDOW), self.now);
            let more = self
                .config
                .connection_window
                .saturating_sub(CONNECTION_WINDOW);
            if more > 0 {
                waits.grant(u64::from(more), self.now);
            }
            self.window_waits = Some(Box::new(waits));
        }
        let more = self.receive.available() - i64::from(CONNECTION_WINDOW);
        if more > 0 {
            write::window_update(ready, StreamId::CONNECTION, more as u32);
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    pub(super) fn accepts_requests(&self) -> bool {
        self.is_open() && self.end.is_none() && self.next_request.0 < MOST_REQUESTS
    }

    #[inline]
    pub(super) fn has_room(&self) -> bool {
        let theirs = self.peer.max_concurrent_streams.unwrap_or(u32::MAX);
        let may_start = self.peer_is_known || self.config.start == Start::AtOnce;
        self.asked < self.config.streams.max(1).min(theirs) && may_start
    }

    #[inline]
    fn first_unsent(&self) -> RequestId {
        RequestId(self.next_request.0 - self.output.unsent() as u32)
    }

    /// Records the host of a request.
    pub(super) fn note_authority(&mut self, host: &[u8]) {
        if self.config.push == Push::Accepted && !self.authorities.iter().any(|it| **it == *host) {
            self.authorities.push(host.into());
        }
    }

    fn transmitted(&mut self, bytes: usize, now: Instant) {
        self.active = now;
        if self.settings_wait && self.settings_by.is_none() {
            self.settings_by = deadline(now, self.config.settings_timeout);
        }
        let first = self.first_unsent().0;
        let begun = self.output.transmitted(bytes);
        for request in (first..first + begun).map(RequestId) {
            if let Some(stream) = self.streams.get_mut(request) {
                stream.sent = Some(now);
            }
        }
        self.watch(now);
        for (request, by) in &mut self.continuing {
            if by.is_none() && request.0 < first + begun {
                *by = Some(now + self.config.timeouts.expect_continue);
            }
        }
    }

    /// Writes an answer to a frame of the server. Fails if too many answers wait.
    pub(super) fn answer(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Fault> {
        let before = self.output.ready.len();
        write(&mut self.output.ready);
        let bytes = self.output.ready.len() - before;
        match self.output.answered(bytes) > self.config.floods.waiting {
            true => Err(Fault::OutputFlood),
            false => Ok(()),
        }
    }
}

fn reader_limits(config: &Config) -> frame::Limits {
    let block = u32::try_from(config.limits.head.0).unwrap_or(u32::MAX);
    frame::Limits {
        frame: config.settings.max_frame_size,
        block,
        ..frame::Limits::default()
    }
}

fn decoder(config: &Config) -> Decoder {
    // Before the server acknowledges a smaller table, it uses the protocol's initial size.
    let table = config.settings.header_table_size.max(DEFAULT_TABLE_SIZE);
    Decoder::new(table, config.limits.head.0)
}

/// Returns the slice of `input` that refers to the same memory as `part`.
fn same_slice<'i>(input: &'i [u8], part: &[u8]) -> &'i [u8] {
    if part.is_empty() {
        return &[];
    }
    // The reader does not copy the returned data, so `part` lies within `input`.
    let start = part.as_ptr() as usize - input.as_ptr() as usize;
    &input[start..start + part.len()]
}
