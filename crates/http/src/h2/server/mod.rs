//! The server side of one HTTP/2 connection, as a machine (RFC 9113).
//!
//! Input of a [`Connection`]: bytes and the time. Output: bytes, actions and the next time-out. Its caller uses
//! it like [`h1::server`](crate::h1::server). It asks the [`Origin`] for the answers and splits them into
//! frames, in the order of the client's priorities ([`Scheduling`]), as far as windows and [`Framing`] allow.
//! It limits what a client can make it do ([`Limits`]). Content is not copied, except for small pieces. An
//! exchange allocates nothing once buffers have grown. The machine has no socket and no clock, and does not
//! depend on TLS.
//!
//! A connection starts with the client's preface, after ALPN or with prior knowledge
//! ([`new`](Connection::new)), or after an HTTP/1.1 request that changed to HTTP/2
//! ([`from_upgrade`](Connection::from_upgrade)).
//!
//! Any split of the input gives the same requests. It also gives the same output, if no frames of responses are
//! made [ahead](Framing::ahead) of the rest of the input. A stream error ends its stream and a connection error
//! ends the connection, as in RFC 9113 (see [`Fault`](super::error::Fault)). The connection also ends on floods
//! of frames that cost the server more than the client.
//!
//! Out of scope: proxying, CONNECT, extended CONNECT (RFC 8441).

mod allowance;
mod config;
mod events;
mod flowing;
mod fuzz;
mod memory;
mod output;
mod reading;
mod reason;
mod requests;
mod responses;
mod schedule;
mod streams;
mod timing;
mod tree;
mod upgrade;

use std::collections::{HashSet, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;

use fathometer_model::Instant;

use self::allowance::Counter;
use self::events::{Outstanding, QueuedFrame};
use self::memory::Memory;
use self::output::Output;
use self::schedule::Schedule;
use self::streams::{Slot, Streams};
use super::error::{ConnectionError, ErrorCode};
use super::flow::{CONNECTION_WINDOW, ReceiveWindow, Window};
use super::frame::{self, Reader, write};
use super::settings::Settings;
use super::{PREFACE, StreamId};
use crate::exchange::{Action, CloseManner, FilePart};
use crate::field_block::FieldBlock;
use crate::hpack::{Decoder, Encoder};
use crate::origin::{Dates, Origin};

pub use self::config::{
    Allowance, FieldIndexing, Framing, Heads, Limits, ReceiveWindows, Scheduling, ServerConfig,
    Writes,
};
pub use self::events::Served;
pub use self::fuzz::fuzz;
pub use self::reason::CloseReason;

/// One connection.
#[derive(Debug)]
pub struct Connection {
    origin: Arc<Origin>,
    config: Arc<ServerConfig>,
    start: Start,
    reader: Reader,
    /// The stream that receives the current DATA frame.
    data: Option<Slot>,
    /// Whether that frame has had any content.
    data_has_content: bool,
    decoder: Decoder,
    encoder: Encoder,
    /// The last decoded fields.
    fields: FieldBlock,
    /// The client's settings.
    peer: Settings,
    streams: Streams,
    /// The last stream opened by the client.
    last_stream: StreamId,
    /// The last promised stream.
    last_promised: StreamId,
    /// Hashes of the targets that were pushed on this connection.
    pushed: HashSet<u64>,
    /// The send window of the connection.
    send: Window,
    /// The receive window of the connection.
    receive: ReceiveWindow,
    /// The receive window of a stream that opens now.
    receive_initial: u32,
    memory: Memory,
    schedule: Schedule,
    /// Number of scheduled responses whose HEADERS are not sent yet.
    heads_due: u32,
    /// Number of streams with content that only their own windows block.
    blocked: u32,
    /// Priorities of streams that are not open yet.
    early_priorities: VecDeque<(StreamId, crate::message::Priority)>,
    /// Requests that wait for their turn or are in processing, each with the time when it is done.
    working: VecDeque<(Slot, Instant)>,
    work_until: Instant,
    /// Responses that are not completely generated, each with the time when the next part is ready.
    flowing: Vec<(Slot, Instant)>,
    output: Output,
    phase: Phase,
    leaving: Leaving,
    close_reason: Option<CloseReason>,
    action: Option<Action>,
    peer_finished: bool,
    /// Bytes discarded since the connection stopped reading.
    discarded: u64,
    /// Number of requests accepted.
    requests: u32,
    /// Since when settings wait for their acknowledgement.
    unacknowledged: Option<Instant>,
    /// When the first byte of an incomplete frame arrived.
    frame_started: Option<Instant>,
    /// Since when windows block responses, and the amount of content in frames at that time.
    stalled: Option<(Instant, u64)>,
    /// Bytes of content put into frames.
    content_sent: u64,
    last_input: Instant,
    last_output: Instant,
    /// When a request was last in flight.
    last_busy: Instant,
    counters: Counters,
    /// Completely queued responses whose last byte was not sent.
    outstanding: VecDeque<Outstanding>,
    /// DATA frames in the output that are not the last of their response.
    frames: VecDeque<QueuedFrame>,
    events: VecDeque<(Served, [u32; 3])>,
    /// The texts of all outstanding responses and of all events, in order.
    texts: VecDeque<u8>,
    /// The text of the event taken last.
    text: Vec<u8>,
    dates: Dates,
    scratch: Vec<u8>,
}

/// What must arrive before any frame but SETTINGS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// The preface, of which this many bytes have arrived.
    Preface(usize),
    /// SETTINGS.
    Settings,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Frames are read, or are still to be sent.
    Open,
    /// The sending side is closed; the receiving side may stay open until this time.
    Lingering { until: Instant },
    /// Both sides are closed.
    Closed,
}

/// The progress of a graceful shutdown by this side (section 6.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    /// GOAWAY with the largest stream number was sent, followed by a PING.
    Announced,
    /// GOAWAY with this stream number was sent: higher streams are ignored.
    Above(StreamId, CloseReason),
}

#[derive(Debug)]
struct Counters {
    resets: Counter,
    provoked_resets: Counter,
    answers: Counter,
    idle_frames: Counter,
}

/// The PING after the GOAWAY that announces the shutdown: its answer shows that the client has received both.
const LEAVING_PING: [u8; 8] = *b"leaving.";

impl Connection {
    /// A connection on which the client's preface is next: HTTP/2 was agreed, or is used with prior knowledge.
    pub fn new(origin: Arc<Origin>, config: Arc<ServerConfig>, now: Instant) -> Connection {
        let limits = &config.limits;
        let mut connection = Connection {
            start: Start::Preface(0),
            reader: Reader::new(frame::Limits {
                block: limits.block,
                continuations: limits.continuations,
                ..frame::Limits::default()
            }),
            data: None,
            data_has_content: false,
            decoder: Decoder::new(config.decoder_table, limits.head.0),
            encoder: Encoder::new(config.encoder_table),
            fields: FieldBlock::default(),
            peer: Settings::default(),
            streams: Streams::default(),
            last_stream: StreamId::CONNECTION,
            last_promised: StreamId::CONNECTION,
            pushed: HashSet::new(),
            send: Window::new(CONNECTION_WINDOW),
            receive: ReceiveWindow::new(CONNECTION_WINDOW),
            // Until the client has received the settings, it may use the default window.
            receive_initial: config.receive.stream.max(CONNECTION_WINDOW),
            memory: Memory::new(config.remembered),
            schedule: Schedule::new(config.scheduling, 2 * limits.streams as usize),
            heads_due: 0,
            blocked: 0,
            early_priorities: VecDeque::new(),
            working: VecDeque::new(),
            work_until: now,
            flowing: Vec::new(),
            output: Output::default(),
            phase: Phase::Open,
            leaving: Leaving::No,
            close_reason: None,
            action: None,
            peer_finished: false,
            discarded: 0,
            requests: 0,
            unacknowledged: Some(now),
            frame_started: Some(now),
            stalled: None,
            content_sent: 0,
            last_input: now,
            last_output: now,
            last_busy: now,
            counters: Counters {
                resets: Counter::new(limits.resets, now),
                provoked_resets: Counter::new(limits.provoked_resets, now),
                answers: Counter::new(limits.answers, now),
                idle_frames: Counter::new(limits.idle_frames, now),
            },
            outstanding: VecDeque::new(),
            frames: VecDeque::new(),
            events: VecDeque::new(),
            texts: VecDeque::new(),
            text: Vec::new(),
            dates: Dates::default(),
            scratch: Vec::new(),
            origin,
            config,
        };
        connection.send_preface();
        connection
    }

    /// Sends the first frames of a server.
    fn send_preface(&mut self) {
        let config = &self.config;
        let settings = Settings {
            header_table_size: config.decoder_table,
            max_concurrent_streams: Some(config.limits.streams),
            initial_window_size: config.receive.stream,
            max_header_list_size: u32::try_from(config.limits.head.0).ok(),
            no_rfc7540_priorities: config.scheduling == Scheduling::Urgency,
            ..Settings::default()
        };
        let more = self.receive.grow(config.receive.connection);
        self.output.write(|out| {
            write::settings(out, settings.changes(&Settings::default()));
            if let Some(more) = more {
                write::window_update(out, StreamId::CONNECTION, more);
            }
        });
    }

    /// Whether the caller should read input. False while output piles up, and permanently after a
    /// [full](CloseManner::Full) close was decided.
    pub fn wants_data(&self) -> bool {
        match self.phase {
            _ if self.peer_finished => false,
            Phase::Open if self.close_reason.is_none() => !self.is_congested(),
            Phase::Open => {
                self.config.close == CloseManner::HalfThenDrain
                    && self.discarded <= self.config.limits.linger_bytes.0
            }
            Phase::Lingering { .. } => true,
            Phase::Closed => false,
        }
    }

    /// Takes bytes from the transport.
    pub fn handle_data(&mut self, data: &[u8], now: Instant) {
        if data.is_empty() || self.peer_finished || self.phase == Phase::Closed {
            return;
        }
        self.last_input = now;
        self.process(data, now);
        self.settle(now);
    }

    /// The client closed its side. Complete requests are still answered.
    pub fn handle_eof(&mut self, now: Instant) {
        if self.phase == Phase::Closed {
            return;
        }
        self.peer_finished = true;
        self.settle(now);
    }

    /// The transport failed. No output follows.
    pub fn handle_failure(&mut self) {
        self.close_reason
            .get_or_insert(CloseReason::TransportFailed);
        self.action = None;
        self.phase = Phase::Closed;
    }

    /// A file ended before the bytes that [`transmit_file`](Self::transmit_file) offered. The frame cannot be
    /// completed: the connection closes within it.
    pub fn handle_truncated_file(&mut self) {
        if self.phase != Phase::Closed {
            self.close_reason.get_or_insert(CloseReason::ContentLost);
            self.finish(Action::Close);
        }
    }

    /// The server will shut down soon. The client is notified; requests that are already on their way will be
    /// answered. Between this and [`end`](Self::end) the caller reads the input that has arrived.
    pub fn announce_end(&mut self) {
        if self.leaving == Leaving::No && self.phase == Phase::Open && self.close_reason.is_none() {
            self.leaving = Leaving::Announced;
            self.output.write(|out| {
                write::go_away(out, StreamId::MAX, ErrorCode::NO_ERROR, b"");
                write::ping(out, false, LEAVING_PING);
            });
        }
    }

    /// The server shuts down. Requests that have arrived are answered, then the connection is closed; if there
    /// are none, it is closed at once.
    pub fn end(&mut self, now: Instant) {
        match &mut self.phase {
            Phase::Closed => {}
            Phase::Lingering { until } => *until = (*until).min(now + timing::ENDING_LINGER),
            Phase::Open => {
                self.leave(CloseReason::ServerEnds);
                self.settle(now);
            }
        }
    }

    /// Whether the connection is idle: no request has begun to arrive, no response is to be sent.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Open
            && self.close_reason.is_none()
            && self.start == Start::Done
            && self.streams.is_empty()
            && self.reader.is_between_frames()
            && self.output.is_empty()
    }

    /// Frees unused memory, for a connection that is likely to stay idle. The next exchange allocates it again.
    pub fn rest(&mut self) {
        if self.is_idle() {
            self.reader.rest();
            self.fields = FieldBlock::default();
            self.memory.rest();
            self.streams.rest();
            self.schedule.rest();
            self.output.rest();
            self.scratch = Vec::new();
            self.text = Vec::new();
            self.early_priorities = VecDeque::new();
            self.working = VecDeque::new();
            self.flowing = Vec::new();
            self.frames = VecDeque::new();
            self.outstanding.shrink_to_fit();
            self.events.shrink_to_fit();
            self.texts.shrink_to_fit();
        }
    }

    /// Fills `slices` with bytes to be sent by one write. Returns how many slices were filled; none when no
    /// byte may be sent now.
    pub fn transmit<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        match self.phase {
            Phase::Open => self.output.transmit(&self.origin, slices),
            _ => 0,
        }
    }

    /// The bytes of a file that are to be sent next, when [`transmit`](Self::transmit) fills no slice because
    /// of it. The transport takes them from the file; then pass their number to
    /// [`transmitted`](Self::transmitted).
    pub fn transmit_file(&self) -> Option<FilePart<'_>> {
        match self.phase {
            Phase::Open => self.output.transmit_file(&self.origin),
            _ => None,
        }
    }

    /// Whether more follows immediately after what [`transmit`](Self::transmit) offers now: bytes of a file, or
    /// the close of the sending side.
    pub fn more_follows(&self) -> bool {
        self.phase == Phase::Open
            && (self.close_reason.is_some() && self.output.offers_the_rest()
                || self.output.file_follows(&self.origin))
    }

    /// The transport took the first `count` bytes of what [`transmit`](Self::transmit) offered.
    pub fn transmitted(&mut self, count: usize, now: Instant) {
        if count == 0 {
            return;
        }
        self.last_output = now;
        self.output.transmitted(count);
        self.note_handed_over(now);
        self.settle(now);
    }

    /// What to do with the transport; each action is returned once. It is never an upgrade.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.action.take()
    }

    /// Whether both halves are closed and the last action was taken.
    pub fn is_finished(&self) -> bool {
        self.phase == Phase::Closed && self.action.is_none()
    }

    /// Why the connection ends; `None` while it continues.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.close_reason
    }

    /// Requests accepted, including refusals of unreadable requests, without pushes.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    fn is_congested(&self) -> bool {
        let Framing { ahead, .. } = self.config.framing;
        self.output.text_waiting() > self.config.limits.backlog.0.saturating_add(ahead.0)
    }

    /// Sends GOAWAY, unless it was sent before: no more requests are accepted.
    fn leave(&mut self, reason: CloseReason) {
        if let Leaving::No | Leaving::Announced = self.leaving {
            let last = self.last_stream;
            self.leaving = Leaving::Above(last, reason);
            self.output
                .write(|out| write::go_away(out, last, reason.code(), b""));
        }
    }

    /// Closes the connection because of a fault of the client.
    fn refuse(&mut self, error: ConnectionError) {
        let reason = CloseReason::Refused(error.why);
        if self.close_reason.is_none() {
            let last = self.last_stream;
            // The text saves a debugging session on the other side.
            self.output.write(|out| {
                write::go_away(out, last, error.code, error.why.to_string().as_bytes());
            });
            self.leaving = Leaving::Above(last, reason);
        }
        self.stop(reason);
    }

    /// Reads and answers no more; closes once all queued output was sent.
    fn stop(&mut self, reason: CloseReason) {
        if self.close_reason.is_some() {
            return;
        }
        self.leave(reason);
        self.close_reason = Some(reason);
        self.frame_started = None;
        self.working.clear();
        self.flowing.clear();
        self.stalled = None;
    }

    /// Carries out all transitions that follow from the present state.
    fn settle(&mut self, now: Instant) {
        if self.phase == Phase::Closed {
            return;
        }
        if !self.streams.is_empty() {
            self.last_busy = now;
        }
        if self.close_reason.is_none() {
            self.finish_work(now);
            self.fill(now);
            self.watch_windows(now);
            self.settle_end();
        }
        if self.phase == Phase::Open && self.close_reason.is_some() && self.output.is_empty() {
            if self.config.close == CloseManner::Full || self.peer_finished {
                self.finish(Action::Close);
            } else {
                self.action = Some(Action::ShutdownWrite);
                self.phase = Phase::Lingering {
                    until: now + self.linger(),
                };
            }
        } else if matches!(self.phase, Phase::Lingering { .. })
            && (self.peer_finished || self.discarded > self.config.limits.linger_bytes.0)
        {
            self.finish(Action::Close);
        }
    }

    /// Ends a connection on which no input follows, once its responses were put into frames.
    fn settle_end(&mut self) {
        if self.peer_finished {
            let is_cut = self.start != Start::Done || !self.reader.is_between_frames();
            let is_reading = self.drop_unfinished_requests();
            if is_cut || is_reading {
                self.leave(CloseReason::ClientTruncated);
            } else {
                self.leave(CloseReason::ClientFinished);
            }
            // Windows that are full now will stay full.
            let is_stuck =
                self.output.is_empty() && self.working.is_empty() && self.flowing.is_empty();
            if is_stuck && !self.streams.is_empty() {
                self.stop(CloseReason::ClientTruncated);
            }
        }
        self.end_if_nothing_is_owed();
    }

    /// Ends a connection that accepts no more requests and has answered all others.
    fn end_if_nothing_is_owed(&mut self) {
        if let Leaving::Above(_, reason) = self.leaving
            && self.streams.is_empty()
        {
            self.stop(reason);
        }
    }

    fn finish(&mut self, action: Action) {
        self.action = Some(action);
        self.phase = Phase::Closed;
    }
}

#[cfg(test)]
mod delivery_tests;
#[cfg(test)]
mod flood_tests;
#[cfg(test)]
mod leaving_tests;
#[cfg(test)]
mod state_tests;
#[cfg(test)]
mod tests;
