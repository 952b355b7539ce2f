//! The server side of one HTTP/2 connection, as a state machine (RFC 9113).
//!
//! The input of a [`Connection`] is bytes and the time. Its output is bytes, actions and the next time-out. The
//! interface is the same as in [`h1::server`](crate::h1::server). A connection gets the answers from the [`Origin`] and
//! splits them into frames, within the limits of windows and [`Framing`]. [`Scheduling`] sets the order of responses;
//! the default is the client's priorities. [`Limits`] bound the work that a client can cause. Content is not copied,
//! except for small pieces. An exchange allocates no memory after the buffers have reached their final sizes. The state
//! machine has no socket and no clock, and does not depend on TLS.
//!
//! A connection starts with the client's preface, after ALPN or with prior knowledge ([`new`](Connection::new)), or
//! after an HTTP/1.1 request that upgrades it to HTTP/2 ([`from_upgrade`](Connection::from_upgrade)).
//!
//! Any split of the input gives the same requests. It also gives the same output if [`Framing::ahead`] is 0, so that no
//! response frames are queued before the remaining input arrives. A stream error resets the stream, and a connection
//! error closes the connection ([`Fault`](super::error::Fault)). Floods of frames that cost the server more work than
//! the client also close the connection.
//!
//! Out of scope: proxying, CONNECT, extended CONNECT (RFC 8441).

mod budget;
mod config;
mod early;
mod ending;
mod fuzz;
mod input;
mod memory;
mod output;
mod reading;
mod reason;
mod receiving;
mod records;
mod requests;
mod response_fields;
mod responses;
mod schedule;
mod sending;
mod streams;
mod timing;
mod tree;
mod upgrade;

use std::collections::HashSet;
use std::io::IoSlice;
use std::sync::Arc;

use fathometer_model::Instant;

use self::budget::Budget;
use self::early::EarlyPriorities;
use self::ending::Ending;
use self::input::Input;
use self::receiving::Receiving;
use self::responses::Responses;
use self::streams::{Slot, Streams};
use self::timing::Activity;
use super::StreamId;
use super::error::{ConnectionError, ErrorCode};
use super::frame::{self, write};
use super::settings::Settings;
use crate::exchange::{Action, FilePart, RequestText, WorkQueue};
use crate::field_block::FieldBlock;
use crate::hpack::Decoder;
use crate::origin::Origin;

pub use self::config::{
    Allowance, FieldIndexing, Framing, Heads, Limits, ReceiveWindows, Scheduling, ServerConfig,
    Writes,
};
pub use self::fuzz::fuzz;
pub use self::reason::CloseReason;
pub use self::records::Served;

/// One connection. It applies the client's frames to the streams, and turns the responses of the streams into frames.
#[derive(Debug)]
pub struct Connection {
    origin: Arc<Origin>,
    config: Arc<ServerConfig>,
    input: Input,
    decoder: Decoder,
    /// The last decoded fields.
    fields: FieldBlock,
    streams: Streams,
    /// Flow control of received data.
    receiving: Receiving,
    budget: Budget,
    early: EarlyPriorities,
    work: WorkQueue<Slot>,
    responses: Responses,
    ending: Ending,
    /// Hashes of the targets that were pushed on this connection.
    pushed: HashSet<u64>,
    /// The number of accepted requests.
    requests: u32,
    /// Whether the work on the first request has begun.
    has_worked: bool,
    activity: Activity,
    scratch: Vec<u8>,
}

/// The payload of the PING after the GOAWAY that announces the shutdown. Its answer shows that the client has received
/// both frames.
const LEAVING_PING: [u8; 8] = *b"leaving.";

impl Connection {
    /// Creates a connection that expects the client's preface. HTTP/2 was negotiated, or is used with prior knowledge.
    pub fn new(origin: Arc<Origin>, config: Arc<ServerConfig>, now: Instant) -> Connection {
        let mut connection = Connection::silent(origin, config, now);
        connection.send_preface();
        connection
    }

    /// Creates a connection that has sent nothing.
    fn silent(origin: Arc<Origin>, config: Arc<ServerConfig>, now: Instant) -> Connection {
        let limits = &config.limits;
        let frames = frame::Limits {
            block: limits.block,
            continuations: limits.continuations,
            ..frame::Limits::default()
        };
        Connection {
            input: Input::new(frames, now),
            decoder: Decoder::new(config.decoder_table, limits.head.0),
            fields: FieldBlock::default(),
            streams: Streams::default(),
            receiving: Receiving::new(config.receive, now),
            budget: Budget::new(limits, now),
            early: EarlyPriorities::new(limits.streams as usize),
            work: WorkQueue::new(now),
            responses: Responses::new(Arc::clone(&origin), Arc::clone(&config)),
            ending: Ending::new(),
            pushed: HashSet::new(),
            requests: 0,
            has_worked: false,
            activity: Activity::new(now),
            scratch: Vec::new(),
            origin,
            config,
        }
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
        let more = self.receiving.grow();
        self.responses.write(|out| {
            write::settings(out, settings.changes(&Settings::default()));
            if let Some(more) = more {
                write::window_update(out, StreamId::CONNECTION, more);
            }
        });
    }

    /// Whether the caller should read input. False while too much output waits, and permanently after the decision to
    /// close the connection [completely](crate::exchange::CloseManner::Full).
    pub fn wants_data(&self) -> bool {
        if self.ending.is_peer_finished() {
            false
        } else if self.ending.is_active() {
            !self.is_congested()
        } else {
            let most = self.config.limits.linger_bytes.0;
            self.ending.wants_rest(self.config.close, most)
        }
    }

    /// Processes bytes that the transport received.
    pub fn handle_data(&mut self, data: &[u8], now: Instant) {
        if data.is_empty() || self.ending.is_peer_finished() || self.ending.is_closed() {
            return;
        }
        self.activity.note_input(now);
        self.process(data, now);
        self.settle(now);
    }

    /// Handles the client's close of its side. Complete requests are still answered.
    pub fn handle_eof(&mut self, now: Instant) {
        if self.ending.is_closed() {
            return;
        }
        self.ending.finish_peer();
        self.settle(now);
    }

    /// Handles a failure of the transport. No more output follows.
    pub fn handle_failure(&mut self) {
        self.ending.fail();
    }

    /// Handles a file that is shorter than the part that [`transmit_file`](Self::transmit_file) offered. The connection
    /// closes within the frame, because the frame cannot be completed.
    pub fn handle_truncated_file(&mut self) {
        if !self.ending.is_closed() {
            self.ending.stop(CloseReason::ContentLost);
            self.ending.finish(Action::Close);
        }
    }

    /// Notes that the server will shut down soon, and notifies the client. Requests in flight are still answered.
    /// Between this call and [`end`](Self::end), the caller must read the input that has arrived.
    pub fn announce_end(&mut self) {
        if self.ending.announce() {
            self.responses.write(|out| {
                write::go_away(out, StreamId::MAX, ErrorCode::NO_ERROR, b"");
                write::ping(out, false, LEAVING_PING);
            });
        }
    }

    /// Shuts the connection down. Requests that have arrived are answered first. Without such requests, the connection
    /// closes immediately.
    pub fn end(&mut self, now: Instant) {
        self.ending.hurry(now);
        if self.ending.is_open() {
            self.leave(CloseReason::ServerEnds);
            self.settle(now);
        }
    }

    /// Whether the connection is idle: no request is arriving, and no response is to be sent.
    pub fn is_idle(&self) -> bool {
        self.ending.is_active()
            && self.streams.is_empty()
            && self.input.is_between_frames()
            && self.responses.output().is_empty()
    }

    /// Frees unused memory, for a connection that is likely to stay idle. The next exchange allocates it again.
    pub fn rest(&mut self) {
        if self.is_idle() {
            self.input.rest();
            self.fields = FieldBlock::default();
            self.streams.rest();
            self.early.rest();
            self.work.rest();
            self.responses.rest();
            self.scratch = Vec::new();
        }
    }

    /// Fills `slices` with the bytes of the next write. Returns the number of filled slices; 0 if no byte may be sent
    /// now.
    pub fn transmit<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        match self.ending.is_open() {
            true => self.responses.output().transmit(&self.origin, slices),
            false => 0,
        }
    }

    /// The part of a file to send next, if [`transmit`](Self::transmit) returns 0 because a file is next. Pass the
    /// number of bytes that the transport took to [`transmitted`](Self::transmitted).
    pub fn transmit_file(&self) -> Option<FilePart<'_>> {
        match self.ending.is_open() {
            true => self.responses.output().transmit_file(&self.origin),
            false => None,
        }
    }

    /// Whether more output follows immediately after the bytes from [`transmit`](Self::transmit): bytes of a file, or
    /// the close of the sending side.
    pub fn more_follows(&self) -> bool {
        let output = self.responses.output();
        self.ending.is_open()
            && (self.ending.reason().is_some() && output.offers_the_rest()
                || output.file_follows(&self.origin))
    }

    /// Notes that the transport took the first `count` of the bytes that [`transmit`](Self::transmit) offered.
    pub fn transmitted(&mut self, count: usize, now: Instant) {
        if count == 0 {
            return;
        }
        self.activity.note_output(now);
        self.responses.transmitted(count, now);
        self.settle(now);
    }

    /// The next action that the host must perform on the transport. Each action is returned once; an upgrade is never
    /// returned.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.ending.take_action()
    }

    /// The next exchange whose response was handed to the transport, if events are [enabled](ServerConfig::events).
    /// Events wait until the caller takes them.
    pub fn poll_event(&mut self) -> Option<Served> {
        self.poll_event_with_text().map(|(served, _)| served)
    }

    /// Like [`poll_event`](Self::poll_event), with the request's text for logs if texts are
    /// [recorded](ServerConfig::request_text).
    pub fn poll_event_with_text(&mut self) -> Option<(Served, RequestText<'_>)> {
        self.responses.take_record()
    }

    /// The next exchange whose response the transport took only in part, on a connection that is no longer served. Only
    /// the content that the transport took is counted. Take all events before; then call this method until it returns
    /// `None`.
    pub fn cut_short(&mut self, now: Instant) -> Option<(Served, RequestText<'_>)> {
        self.responses.take_cut_record(&mut self.streams, now)
    }

    /// Whether both sides are closed and the last action was taken.
    pub fn is_finished(&self) -> bool {
        self.ending.is_finished()
    }

    /// The reason for the close, once it is decided; `None` while the connection stays open.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.ending.reason()
    }

    /// The number of accepted requests, including unreadable requests that were refused, without pushes.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    fn is_congested(&self) -> bool {
        let Framing { ahead, .. } = self.config.framing;
        let most = self.config.limits.backlog.0.saturating_add(ahead.0);
        self.responses.output().text_waiting() > most
    }

    /// Sends GOAWAY, unless already sent. No more requests are accepted.
    fn leave(&mut self, reason: CloseReason) {
        let last = self.streams.last_client();
        if self.ending.leave(last, reason) {
            self.responses
                .write(|out| write::go_away(out, last, reason.code(), b""));
        }
    }

    /// Closes the connection because of a fault of the client.
    fn refuse(&mut self, error: ConnectionError) {
        let reason = CloseReason::Refused(error.why);
        let last = self.streams.last_client();
        if self.ending.refuse(last, reason) {
            // The debug data contains the text of the fault.
            self.responses.write(|out| {
                write::go_away(out, last, error.code, error.why.to_string().as_bytes());
            });
        }
        self.stop(reason);
    }

    /// Reads no further input and answers no further request. The connection closes after all queued output is sent.
    fn stop(&mut self, reason: CloseReason) {
        if self.ending.reason().is_some() {
            return;
        }
        self.leave(reason);
        self.ending.stop(reason);
        self.input.stop();
        self.work.clear();
        self.responses.stop();
    }

    /// Performs all transitions that follow from the current state.
    fn settle(&mut self, now: Instant) {
        if self.ending.is_closed() {
            return;
        }
        if !self.streams.is_empty() {
            self.activity.note_busy(now);
        }
        if self.ending.reason().is_none() {
            self.finish_work(now);
            self.responses
                .fill(&mut self.streams, &mut self.budget, now);
            self.responses.watch_windows(now);
            self.settle_end();
        }
        let limits = &self.config.limits;
        self.ending.advance(
            self.responses.output().is_empty(),
            self.config.close,
            limits.linger,
            limits.linger_bytes.0,
            now,
        );
    }

    /// After the client's last input, ends the connection as soon as all responses are in frames or blocked by
    /// exhausted windows.
    fn settle_end(&mut self) {
        if self.ending.is_peer_finished() {
            let is_cut = !self.input.is_between_frames();
            let is_reading = self.drop_unfinished_requests();
            if is_cut || is_reading {
                self.leave(CloseReason::ClientTruncated);
            } else {
                self.leave(CloseReason::ClientFinished);
            }
            // The client sends no more window updates, so exhausted windows stay exhausted.
            let is_stuck = self.responses.output().is_empty()
                && self.work.is_empty()
                && self.responses.is_generated();
            if is_stuck && !self.streams.is_empty() {
                self.stop(CloseReason::ClientTruncated);
            }
        }
        self.end_if_nothing_is_owed();
    }

    /// Ends a connection that accepts no more requests and has answered all accepted ones.
    fn end_if_nothing_is_owed(&mut self) {
        if let Some(reason) = self.ending.leaving_for()
            && self.streams.is_empty()
        {
            self.stop(reason);
        }
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
