//! The server side of one HTTP/2 connection, as a machine (RFC 9113).
//!
//! [`Connection`] is given octets and the time and gives octets, actions and the next time-out, as
//! [`h1::server`](crate::h1::server) does, and is hosted in the same manner. It asks the [`Origin`] what
//! to answer, makes frames of the answers in the order that the client's priorities ask for
//! ([`Scheduling`]), as far as windows and [`Framing`] allow, and bounds what a client can make it do
//! ([`Limits`]). Content is not copied, small pieces apart; nothing is allocated for an exchange once
//! buffers have grown. It holds no socket and reads no clock; whether TLS protects its octets is
//! nothing to it.
//!
//! A connection starts with the client's preface, whether HTTP/2 was agreed on by ALPN or is known
//! from elsewhere ([`new`](Connection::new)), or behind a request of HTTP/1.1 that changed to HTTP/2
//! ([`from_upgrade`](Connection::from_upgrade)).
//!
//! Any split of the input gives the same requests and, as far as no frames of responses are made
//! [ahead](Framing::ahead) of what the rest of the input asks for, the same output. What is wrong with one stream ends it, and what is wrong with the connection ends
//! that, each as RFC 9113 says (see [`Fault`](super::error::Fault)); so does what would be a fault only
//! in the long run: floods of frames that cost the server more than the client.
//!
//! Not done here: proxying, CONNECT, extended CONNECT (RFC 8441).

mod allowance;
mod config;
mod events;
mod flowing;
mod fuzz;
mod memory;
mod output;
mod reading;
mod reason;
mod request;
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
use crate::field_block::FieldBlock;
use crate::h1::server::{Action, CloseManner, FilePart};
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
    /// The stream that takes the DATA frame that is being read.
    data: Option<Slot>,
    /// Whether that frame has had any content.
    data_has_content: bool,
    decoder: Decoder,
    encoder: Encoder,
    /// The fields that were decoded last.
    fields: FieldBlock,
    /// What the client bears.
    peer: Settings,
    streams: Streams,
    /// The last stream that the client opened.
    last_stream: StreamId,
    /// The last stream that was promised.
    last_promised: StreamId,
    /// Hashes of the targets that were pushed on this connection.
    pushed: HashSet<u64>,
    /// What may be sent on all streams together.
    send: Window,
    /// What the client may send on all streams together.
    receive: ReceiveWindow,
    /// What the client may send on a stream that opens now.
    receive_initial: u32,
    memory: Memory,
    schedule: Schedule,
    /// Scheduled responses without HEADERS so far.
    heads_due: u32,
    /// Streams with content that only their own windows hold up.
    blocked: u32,
    /// Priorities of streams that are not open yet.
    early_priorities: VecDeque<(StreamId, super::priority::Priority)>,
    /// Requests that wait for their turn or are worked on, each with the time when it is done.
    working: VecDeque<(Slot, Instant)>,
    work_until: Instant,
    /// Responses of which not all is ready, each with the time when there is more.
    flowing: Vec<(Slot, Instant)>,
    output: Output,
    phase: Phase,
    leaving: Leaving,
    close_reason: Option<CloseReason>,
    action: Option<Action>,
    peer_finished: bool,
    /// Octets thrown away since nothing is read any more.
    discarded: u64,
    /// Requests taken up.
    requests: u32,
    /// Since when settings wait for their acknowledgement.
    unacknowledged: Option<Instant>,
    /// When the first octet came of a frame that is not there whole.
    frame_started: Option<Instant>,
    /// Since when windows hold responses up, and the content made into frames until then.
    stalled: Option<(Instant, u64)>,
    /// Content made into frames.
    content_sent: u64,
    last_input: Instant,
    last_output: Instant,
    /// When a request was last in flight.
    last_busy: Instant,
    counters: Counters,
    /// Responses queued whole whose last octet was not sent.
    outstanding: VecDeque<Outstanding>,
    /// DATA frames in the output that are not the last of their response.
    frames: VecDeque<QueuedFrame>,
    events: VecDeque<(Served, [u32; 3])>,
    /// The texts of all that is outstanding and of all events, in order.
    texts: VecDeque<u8>,
    /// The text of the event that was taken last.
    text: Vec<u8>,
    dates: Dates,
    scratch: Vec<u8>,
}

/// What is to come before any frame but SETTINGS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// The preface, of which so many octets have come.
    Preface(usize),
    /// SETTINGS.
    Settings,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Frames are read, or are still to be sent.
    Open,
    /// The own half is closed; until then, the other may stay open.
    Lingering { until: Instant },
    /// Both halves are closed.
    Closed,
}

/// How far this side is in leaving (section 6.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    /// GOAWAY with the greatest number was sent, and a PING behind it.
    Announced,
    /// GOAWAY with this number was sent: what is above it is not looked at.
    Above(StreamId, CloseReason),
}

#[derive(Debug)]
struct Counters {
    resets: Counter,
    provoked_resets: Counter,
    answers: Counter,
    idle_frames: Counter,
}

/// The PING behind the GOAWAY that announces the end: when it is answered, the client knows.
const LEAVING_PING: [u8; 8] = *b"leaving.";

impl Connection {
    /// A connection on which the client's preface is next: one on which HTTP/2 was agreed, or is known
    /// to be spoken.
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
            // A client may send as much as it may by default, until it knows better.
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

    /// Sends what a server's side of a connection starts with.
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

    /// Whether octets are welcome. False while what was to be sent piles up, and for good after a
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

    /// Octets came.
    pub fn handle_data(&mut self, data: &[u8], now: Instant) {
        if data.is_empty() || self.peer_finished || self.phase == Phase::Closed {
            return;
        }
        self.last_input = now;
        self.process(data, now);
        self.settle(now);
    }

    /// The client closed its half. Requests that came whole are answered.
    pub fn handle_eof(&mut self, now: Instant) {
        if self.phase == Phase::Closed {
            return;
        }
        self.peer_finished = true;
        self.settle(now);
    }

    /// The transport failed. Nothing follows.
    pub fn handle_failure(&mut self) {
        self.close_reason
            .get_or_insert(CloseReason::TransportFailed);
        self.action = None;
        self.phase = Phase::Closed;
    }

    /// A file ended before the octets that [`transmit_file`](Self::transmit_file) offered. The frame
    /// cannot be completed: the connection ends within it.
    pub fn handle_truncated_file(&mut self) {
        if self.phase != Phase::Closed {
            self.close_reason.get_or_insert(CloseReason::ContentLost);
            self.finish(Action::Close);
        }
    }

    /// The server is about to end: the client is told so, and that requests which are already on their
    /// way will be answered. Between this and [`end`](Self::end) the host reads what has come.
    pub fn announce_end(&mut self) {
        if self.leaving == Leaving::No && self.phase == Phase::Open && self.close_reason.is_none() {
            self.leaving = Leaving::Announced;
            self.output.write(|out| {
                write::go_away(out, StreamId::MAX, ErrorCode::NO_ERROR, b"");
                write::ping(out, false, LEAVING_PING);
            });
        }
    }

    /// The server ends: requests that have come are answered, and then the connection is closed; at
    /// once when there are none.
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

    /// Whether nothing is under way: no request has begun to come, no response is to be sent.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Open
            && self.close_reason.is_none()
            && self.start == Start::Done
            && self.streams.is_empty()
            && self.reader.is_between_frames()
            && self.output.is_empty()
    }

    /// Gives back memory that holds nothing, for a connection that is likely to stay idle. The next
    /// exchange allocates it again.
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

    /// Fills `slices` with octets to be sent by one write. Returns how many slices were filled; none
    /// when nothing may be sent now.
    pub fn transmit<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        match self.phase {
            Phase::Open => self.output.transmit(&self.origin, slices),
            _ => 0,
        }
    }

    /// The octets of a file that go next, when [`transmit`](Self::transmit) fills no slice because of
    /// it. The transport takes them from the file, and [`transmitted`](Self::transmitted) is told how
    /// many it took.
    pub fn transmit_file(&self) -> Option<FilePart<'_>> {
        match self.phase {
            Phase::Open => self.output.transmit_file(&self.origin),
            _ => None,
        }
    }

    /// Whether more follows at once what [`transmit`](Self::transmit) offers now: octets of a file, or
    /// the end of the own half.
    pub fn more_follows(&self) -> bool {
        self.phase == Phase::Open
            && (self.close_reason.is_some() && self.output.offers_the_rest()
                || self.output.file_follows(&self.origin))
    }

    /// The transport took the first `count` octets of what [`transmit`](Self::transmit) offered.
    pub fn transmitted(&mut self, count: usize, now: Instant) {
        if count == 0 {
            return;
        }
        self.last_output = now;
        self.output.transmitted(count);
        self.note_handed_over(now);
        self.settle(now);
    }

    /// What is to be done with the transport, once. It is never to be upgraded.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.action.take()
    }

    /// Whether both halves are closed and the last action was taken.
    pub fn is_finished(&self) -> bool {
        self.phase == Phase::Closed && self.action.is_none()
    }

    /// Why the connection ends; `None` while it may go on.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.close_reason
    }

    /// Requests taken up, refusals of what could not be read included, pushes not.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    fn is_congested(&self) -> bool {
        let Framing { ahead, .. } = self.config.framing;
        self.output.text_waiting() > self.config.limits.backlog.0.saturating_add(ahead.0)
    }

    /// Tells the client, unless it knows, that no more requests are taken up.
    fn leave(&mut self, reason: CloseReason) {
        if let Leaving::No | Leaving::Announced = self.leaving {
            let last = self.last_stream;
            self.leaving = Leaving::Above(last, reason);
            self.output
                .write(|out| write::go_away(out, last, reason.code(), b""));
        }
    }

    /// Ends the connection for what the client did.
    fn refuse(&mut self, error: ConnectionError) {
        let reason = CloseReason::Refused(error.why);
        if self.close_reason.is_none() {
            let last = self.last_stream;
            // The text saves a search with a debugger on the other side.
            self.output.write(|out| {
                write::go_away(out, last, error.code, error.why.to_string().as_bytes());
            });
            self.leaving = Leaving::Above(last, reason);
        }
        self.stop(reason);
    }

    /// Reads no more, answers no more; closes once all that is queued was sent.
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

    /// Brings everything that follows from the present state about.
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

    /// Ends a connection on which nothing more is to come, once its responses were made into frames.
    fn settle_end(&mut self) {
        if self.peer_finished {
            let is_cut = self.start != Start::Done || !self.reader.is_between_frames();
            let is_reading = self.drop_unfinished_requests();
            if is_cut || is_reading {
                self.leave(CloseReason::ClientTruncated);
            } else {
                self.leave(CloseReason::ClientFinished);
            }
            // Windows that are full now stay full.
            let is_stuck =
                self.output.is_empty() && self.working.is_empty() && self.flowing.is_empty();
            if is_stuck && !self.streams.is_empty() {
                self.stop(CloseReason::ClientTruncated);
            }
        }
        self.end_if_nothing_is_owed();
    }

    /// Ends a connection that takes up no more requests and has answered all others.
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
