//! The server side of one HTTP/1.0 or HTTP/1.1 connection, as a state machine (RFC 9112).
//!
//! Input of a [`Connection`]: bytes and the time. Output: bytes, actions and the next time-out. A connection parses
//! requests as they arrive, pipelined or not, gets the answers from the [`Origin`], and queues them in order.
//! Bodies are never copied, and heads are written into one buffer. Once that buffer has grown, an exchange
//! allocates nothing. The machine has no socket and no clock, and it is not a proxy. If
//! [enabled](ServerConfig::upgrade), it recognises a request to upgrade to HTTP/2 ([`Upgrade`]).
//!
//! `handle_*` methods pass in an event; `poll_*` methods return its effects;
//! [`transmit`](Connection::transmit) and [`transmitted`](Connection::transmitted) move output. The caller works in
//! this order:
//!
//! 1. While [`wants_data`](Connection::wants_data), read, and call [`handle_data`](Connection::handle_data) or
//!    [`handle_eof`](Connection::handle_eof).
//! 2. While [`transmit`](Connection::transmit) fills slices, write them with one call and pass the number of
//!    bytes taken to [`transmitted`](Connection::transmitted); stop when the transport takes no more. One round
//!    offers exactly what the server flushed in one piece: joining rounds would disable [`Coalesce`].
//!    When a file comes next, [`transmit_file`](Connection::transmit_file) returns it instead.
//! 3. Carry out [`poll_action`](Connection::poll_action), take [`poll_event`](Connection::poll_event).
//! 4. Drop the connection when [`is_finished`](Connection::is_finished). Otherwise wait for the transport, or
//!    until [`poll_timeout`](Connection::poll_timeout) and then call
//!    [`handle_timeout`](Connection::handle_timeout).
//!
//! Any split of the input gives the same output. Requests that two recipients could frame differently are
//! refused, and the connection is closed: see [`Refusal`].

mod config;
mod flowing;
mod output;
mod reading;
mod refusal;
mod request;
mod respond;
mod text;
mod upgrade;

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

use fathometer_model::{Bytes, Instant};

use self::flowing::Flowing;
use self::output::Output;
use self::request::Version;
use self::text::{TextLengths, Texts};
use super::chunked::ChunkedDecoder;
use super::syntax::HeadEnd;
use crate::origin::{Answer, Dates, Origin};
use crate::pace::Paid;

pub use self::config::{Coalesce, Limits, ServerConfig};
pub use self::refusal::{CloseReason, Refusal};
pub use self::upgrade::Upgrade;
pub use crate::exchange::{Action, CloseManner, FilePart, RequestText, Served};

/// The longest time for which a server that shuts down waits for a client to close its side.
const ENDING_LINGER: Duration = Duration::from_secs(1);

/// The server side of one connection.
#[derive(Debug)]
pub struct Connection {
    origin: Arc<Origin>,
    config: Arc<ServerConfig>,
    /// Bytes received and not processed.
    input: Vec<u8>,
    reading: Reading,
    /// The search state for the end of the head at the start of `input`.
    head_end: HeadEnd,
    /// The time at which the first byte of that head arrived.
    head_started: Option<Instant>,
    /// Empty lines that were skipped before that head.
    empty_lines: u8,
    /// The request that is being processed.
    work: Option<Work>,
    /// The exchange whose answer is still being decided.
    undecided: Option<Box<Exchange>>,
    /// The response whose content is not completely generated yet.
    flowing: Option<Box<Flowing>>,
    output: Output,
    phase: Phase,
    close_reason: Option<CloseReason>,
    action: Option<Action>,
    peer_finished: bool,
    /// Bytes discarded since the connection stopped reading requests.
    discarded: u64,
    /// Requests answered.
    requests: u32,
    last_input: Instant,
    last_output: Instant,
    /// Queued responses whose last byte was not sent, each with its end position.
    outstanding: VecDeque<Outstanding>,
    events: VecDeque<(Served, TextLengths)>,
    /// The texts of all outstanding responses, of all events, and of the request being read.
    texts: Texts,
    /// Whether the server is shutting down: only requests in flight are still answered.
    ending: bool,
    upgrade: Option<Box<Upgrade>>,
    dates: Dates,
    scratch: Vec<u8>,
}

/// The part of a request to which the next bytes of the input belong.
#[derive(Debug)]
// A box would cost an allocation for each request with content.
#[allow(clippy::large_enum_variant)]
enum Reading {
    Head,
    Body {
        body: Body,
        exchange: Exchange,
        paid: Paid,
    },
    /// Input that will not be answered.
    Nothing,
    /// Input for the HTTP/2 machine.
    Upgraded,
}

#[derive(Debug)]
enum Body {
    Length(u64),
    Chunked(ChunkedDecoder),
}

/// A queued response.
#[derive(Debug)]
struct Outstanding {
    /// The response's end position in the output.
    end: u64,
    /// Whether the server failed to generate all of the content.
    is_broken: bool,
    served: Served,
    text: TextLengths,
}

/// A request and its answer.
#[derive(Debug)]
struct Exchange {
    answer: Answer,
    text: TextLengths,
    version: Version,
    /// Whether the client can and will reuse the connection.
    persistent: bool,
    /// Whether the client sent `Connection: keep-alive`.
    asks_keep_alive: bool,
    served: Served,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Requests may arrive, or responses are still to be sent.
    Open,
    /// The sending side is closed; the receiving side may stay open until this time.
    Lingering { until: Instant },
    /// Both sides are closed.
    Closed,
}

/// A request in processing whose response is not ready.
#[derive(Debug, Clone, Copy)]
struct Work {
    /// The length in bytes of the request's head, which is at the start of `input`.
    head: usize,
    /// The time at which the response is ready.
    until: Instant,
    /// Bytes of the interim response that was sent during the work.
    interim: Bytes,
}

/// The time limit that expires at [`Connection::poll_timeout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timeout {
    Head,
    Body,
    Idle,
    Send,
    Linger,
    /// Responses were held for the longest time allowed.
    Hold,
    /// The work on a request is finished.
    Work,
    /// More of a response is ready.
    Flow,
}

impl Connection {
    /// Creates a connection that was accepted at `now`.
    pub fn new(origin: Arc<Origin>, config: Arc<ServerConfig>, now: Instant) -> Connection {
        Connection {
            origin,
            config,
            input: Vec::new(),
            reading: Reading::Head,
            head_end: HeadEnd::new(),
            head_started: None,
            empty_lines: 0,
            work: None,
            undecided: None,
            flowing: None,
            output: Output::default(),
            phase: Phase::Open,
            close_reason: None,
            action: None,
            peer_finished: false,
            discarded: 0,
            requests: 0,
            last_input: now,
            last_output: now,
            outstanding: VecDeque::new(),
            events: VecDeque::new(),
            texts: Texts::default(),
            ending: false,
            upgrade: None,
            dates: Dates::default(),
            scratch: Vec::new(),
        }
    }

    /// Whether the caller should read input. False while responses pile up, and permanently after a
    /// [full](CloseManner::Full) close was decided. Data that is passed in anyway is buffered or discarded.
    pub fn wants_data(&self) -> bool {
        match self.phase {
            _ if self.peer_finished => false,
            Phase::Open if self.close_reason.is_none() => {
                // Requests that arrive while one is processed must not pile up without limit.
                !self.is_congested() && self.input.len() as u64 <= self.config.limits.backlog.0
            }
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
        // Input that is complete is parsed in place; only the remainder is copied into the buffer.
        if self.input.is_empty() {
            let used = self.process(data, now);
            self.input.extend_from_slice(&data[used..]);
        } else {
            self.input.extend_from_slice(data);
            self.process_input(now);
        }
        self.settle(now);
    }

    /// Notes that the client closed its side. Complete requests are still answered.
    pub fn handle_eof(&mut self, now: Instant) {
        if self.phase == Phase::Closed {
            return;
        }
        self.peer_finished = true;
        self.settle(now);
    }

    /// Notes that the transport failed. No output follows.
    pub fn handle_failure(&mut self) {
        self.close_reason
            .get_or_insert(CloseReason::TransportFailed);
        self.action = None;
        self.phase = Phase::Closed;
    }

    /// Notes that a file ended before the bytes that [`transmit_file`](Self::transmit_file) offered. The message
    /// cannot be completed: the connection closes within it, so the client detects the truncation.
    pub fn handle_truncated_file(&mut self) {
        if self.phase != Phase::Closed {
            self.stop(CloseReason::ContentLost);
            self.finish(Action::Close);
        }
    }

    /// Notes that the server will shut down soon: all further answers have `Connection: close`. Between this call
    /// and [`end`](Self::end) the caller reads the input that has arrived.
    pub fn announce_end(&mut self) {
        self.ending = true;
    }

    /// Shuts the connection down. Requests that have begun to arrive are answered before the connection is closed;
    /// without such requests the connection is closed at once.
    pub fn end(&mut self, now: Instant) {
        if self.phase == Phase::Closed {
            return;
        }
        self.ending = true;
        if self.is_idle() {
            self.stop(CloseReason::ServerEnds);
            self.finish(Action::Close);
        } else if let Phase::Lingering { until } = &mut self.phase {
            *until = (*until).min(now + ENDING_LINGER);
        } else {
            self.settle(now);
        }
    }

    /// Whether the connection is idle: no request has begun to arrive, no response is to be sent.
    pub fn is_idle(&self) -> bool {
        self.phase == Phase::Open
            && self.close_reason.is_none()
            && matches!(self.reading, Reading::Head)
            && self.head_started.is_none()
            && self.work.is_none()
            && self.flowing.is_none()
            && self.input.is_empty()
            && self.output.is_empty()
    }

    /// Frees unused memory, for a connection that is likely to stay idle. The next exchange allocates it again.
    pub fn rest(&mut self) {
        if self.is_idle() {
            self.input = Vec::new();
            self.scratch = Vec::new();
            self.output.rest();
            self.texts.rest();
            self.outstanding.shrink_to_fit();
            self.events.shrink_to_fit();
        }
    }

    /// Handles all time limits that have passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        let Some((_, timeout)) = self.deadline().filter(|&(at, _)| at <= now) else {
            return;
        };
        match timeout {
            Timeout::Head => self.refuse_late_head(now),
            Timeout::Body => self.give_up_content(now),
            Timeout::Idle => self.stop(CloseReason::IdleTimeout),
            Timeout::Hold => self.release_all(now),
            Timeout::Work => {
                self.go_on(now);
                self.process_input(now);
            }
            Timeout::Flow => {
                self.flow_on(now);
                self.process_input(now);
            }
            Timeout::Send => {
                self.stop(CloseReason::SendTimeout);
                self.finish(Action::Abort);
            }
            Timeout::Linger => self.finish(Action::Close),
        }
        self.settle(now);
    }

    /// The time at which to call [`handle_timeout`](Self::handle_timeout), unless another event happens first. Any
    /// event may change this time.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deadline().map(|(at, _)| at)
    }

    /// Releases all responses that are held back.
    pub fn flush(&mut self, now: Instant) {
        self.release_all(now);
        self.settle(now);
    }

    /// Fills `slices` with bytes to be sent by one write. Returns the number of filled slices; 0 when no byte may
    /// be sent now. A response takes two slices. A flushed piece that needs more slices than there are takes
    /// several writes.
    pub fn transmit<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        if self.phase == Phase::Open {
            self.output.transmit(&self.origin, slices)
        } else {
            0
        }
    }

    /// The bytes of a file that are to be sent next, if [`transmit`](Self::transmit) fills no slice because a file
    /// is next. The part covers all bytes that may be sent, in any number of writes. The transport takes bytes from
    /// the file; then pass their number to [`transmitted`](Self::transmitted).
    pub fn transmit_file(&self) -> Option<FilePart<'_>> {
        (self.phase == Phase::Open)
            .then(|| self.output.transmit_file(&self.origin))
            .flatten()
    }

    /// Whether the output that [`transmit`](Self::transmit) offers now is immediately followed by bytes of a file
    /// or by the close of the sending side. A caller can pass this to the transport (`MSG_MORE`). The
    /// FIN is then sent with the last segment and not in a separate packet. A separate packet would also cost a
    /// round trip where the congestion window is one segment.
    pub fn more_follows(&self) -> bool {
        self.phase == Phase::Open
            && (self.is_last() && self.output.offers_the_rest()
                || self.output.file_follows(&self.origin))
    }

    /// Notes that the transport took the first `count` bytes that [`transmit`](Self::transmit) offered.
    pub fn transmitted(&mut self, count: usize, now: Instant) {
        if count == 0 {
            return;
        }
        self.last_output = now;
        self.output.transmitted(count);
        self.note_handed_over(now);
        let was_flowing = self.flowing.is_some();
        if was_flowing {
            self.flow_on(now);
        }
        let has_flowed = was_flowing && self.flowing.is_none();
        // Congestion may already have ended: taking events frees their texts.
        let may_continue = !self.input.is_empty() && self.flowing.is_none() && !self.is_congested();
        if has_flowed || may_continue {
            self.process_input(now);
        }
        self.settle(now);
    }

    /// Notes that the transport was still sending from its own buffer until `at`. On a slow link a large buffer empties
    /// slowly: the transport may accept no byte for a long time, although the client reads all bytes that arrive.
    pub fn transport_moved(&mut self, at: Instant) {
        self.last_output = self.last_output.max(at);
    }

    /// Records the exchanges whose responses the transport has taken completely.
    fn note_handed_over(&mut self, now: Instant) {
        while let Some(first) = self.outstanding.front()
            && first.end <= self.output.sent()
        {
            let served = Served {
                at: now,
                ..first.served
            };
            self.events.push_back((served, first.text));
            self.outstanding.pop_front();
        }
    }

    /// Takes the next action for the transport.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.action.take()
    }

    /// Takes the next exchange whose response the transport took, if events are [enabled](ServerConfig::events). Events
    /// are stored until they are taken.
    pub fn poll_event(&mut self) -> Option<Served> {
        self.poll_event_with_text().map(|(served, _)| served)
    }

    /// As [`poll_event`](Self::poll_event), with the request's text for logs if texts are
    /// [stored](ServerConfig::request_text).
    pub fn poll_event_with_text(&mut self) -> Option<(Served, RequestText<'_>)> {
        let (served, lengths) = self.events.pop_front()?;
        self.texts.take(lengths);
        Some((served, self.texts.last(lengths)))
    }

    /// Returns the next exchange with an incomplete response, on a connection that is no longer served. The transport
    /// took only a part of the response, or the server could not generate all of the content. The record counts the
    /// content bytes that the transport took. After all events were taken, call this method until it returns `None`.
    pub fn cut_short(&mut self, now: Instant) -> Option<(Served, RequestText<'_>)> {
        self.cut_flow();
        while let Some(cut) = self.outstanding.pop_front() {
            self.texts.take(cut.text);
            let served = cut.served;
            let unsent = cut.end - self.output.sent();
            if unsent >= served.body.0 + served.head.0 && !cut.is_broken {
                continue;
            }
            let unsent_head = unsent.saturating_sub(served.body.0);
            let served = Served {
                head: Bytes(served.head.0.saturating_sub(unsent_head)),
                body: Bytes(served.body.0.saturating_sub(unsent)),
                at: now,
                ..served
            };
            return Some((served, self.texts.last(cut.text)));
        }
        None
    }

    /// Whether both halves are closed and the last action was taken.
    pub fn is_finished(&self) -> bool {
        self.phase == Phase::Closed && self.action.is_none()
    }

    /// Whether released output waits for the transport.
    pub fn is_sending(&self) -> bool {
        self.phase == Phase::Open && self.output.is_released()
    }

    /// Returns the time since which the connection waits for its client; `None` while the server is working. While
    /// request content is read: the time at which a client with the minimum rate would have started to send the same
    /// content. If there is no room for new connections, the connection with the earliest time should be closed.
    pub fn waits_since(&self) -> Option<Instant> {
        match (&self.phase, &self.reading) {
            (Phase::Closed, _) => None,
            (Phase::Lingering { .. }, _) => Some(self.last_output),
            _ if self.output.is_released() => Some(self.last_output),
            _ if self.work.is_some() || self.flowing.is_some() => None,
            (_, Reading::Body { paid, .. }) => Some(paid.standing()),
            (_, Reading::Head) => {
                let idle = self.last_input.max(self.last_output);
                Some(self.head_started.unwrap_or(idle))
            }
            (_, Reading::Nothing | Reading::Upgraded) => Some(self.last_output),
        }
    }

    /// The reason why the connection is or will be closed; `None` while it stays open.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.close_reason
    }

    /// Requests answered, including refusals of unreadable requests.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// Whether the queued output is the last on this connection.
    fn is_last(&self) -> bool {
        self.close_reason.is_some() && self.flowing.is_none()
    }

    fn is_congested(&self) -> bool {
        let most = self.config.limits.backlog.0;
        self.output.text_waiting() > most
            || self.texts.waiting() > most && !self.outstanding.is_empty()
    }

    /// Stops reading requests. The connection is closed when all queued output was sent.
    fn stop(&mut self, reason: CloseReason) {
        self.close_reason.get_or_insert(reason);
        self.reading = Reading::Nothing;
        self.head_started = None;
        self.work = None;
        self.undecided = None;
        self.discarded += self.input.len() as u64;
        self.input.clear();
    }

    /// Carries out all transitions that follow from the current state.
    fn settle(&mut self, now: Instant) {
        if self.phase == Phase::Closed {
            return;
        }
        if self.peer_finished
            && self.close_reason.is_none()
            && self.work.is_none()
            && self.flowing.is_none()
            && !self.is_congested()
        {
            let between = self.input.is_empty() && matches!(self.reading, Reading::Head);
            self.stop(if between {
                CloseReason::ClientFinished
            } else {
                CloseReason::ClientTruncated
            });
        }
        if self.ending && self.is_idle() {
            self.stop(CloseReason::ServerEnds);
        }
        let release = match self.config.coalesce {
            // A congested server waits only for the transport.
            _ if self.close_reason.is_some() || self.is_congested() => true,
            Coalesce::EachResponse => true,
            Coalesce::UntilInputWouldBlock => self.work.is_none(),
            Coalesce::UntilInputDrained => self.input.is_empty(),
        };
        if release {
            self.release_all(now);
        }
        match self.phase {
            Phase::Open if self.is_last() && self.output.is_empty() => {
                if self.config.close == CloseManner::Full || self.peer_finished {
                    self.finish(Action::Close);
                } else {
                    self.action = Some(Action::ShutdownWrite);
                    let linger = self.config.limits.linger;
                    let until = now
                        + if self.ending {
                            linger.min(ENDING_LINGER)
                        } else {
                            linger
                        };
                    self.phase = Phase::Lingering { until };
                }
            }
            Phase::Lingering { .. }
                if self.peer_finished || self.discarded > self.config.limits.linger_bytes.0 =>
            {
                self.finish(Action::Close);
            }
            _ => {}
        }
    }

    fn finish(&mut self, action: Action) {
        self.action = Some(action);
        self.phase = Phase::Closed;
    }

    /// Returns the next time-out and its kind.
    fn deadline(&self) -> Option<(Instant, Timeout)> {
        let limits = &self.config.limits;
        match self.phase {
            Phase::Closed => return None,
            Phase::Lingering { until } => return Some((until, Timeout::Linger)),
            Phase::Open => {}
        }
        let sending = self
            .output
            .is_released()
            .then(|| (self.last_output + limits.send, Timeout::Send));
        // While responses pile up, no request is handled; `transmitted` resumes the work.
        let working = self
            .work
            .filter(|_| self.undecided.is_some() || !self.is_congested())
            .map(|work| (work.until, Timeout::Work));
        let flowing = self.flows_at().map(|at| (at, Timeout::Flow));
        let holding =
            (self.output.held() > 0).then(|| (self.last_input + limits.idle, Timeout::Hold));
        let reading = match (&self.reading, self.head_started) {
            _ if self.is_congested() || self.work.is_some() || self.flowing.is_some() => None,
            (Reading::Nothing | Reading::Upgraded, _) => None,
            (Reading::Body { paid, .. }, _) => {
                let silent = self.last_input + limits.idle;
                Some((paid.deadline().min(silent), Timeout::Body))
            }
            (Reading::Head, Some(started)) => Some((started + limits.header, Timeout::Head)),
            (Reading::Head, None) if !self.output.is_empty() => None,
            (Reading::Head, None) => {
                let since = self.last_input.max(self.last_output);
                let patience = match self.requests {
                    0 => limits.idle,
                    _ => limits.keep_alive,
                };
                Some((since + patience, Timeout::Idle))
            }
        };
        [sending, working, flowing, holding, reading]
            .into_iter()
            .flatten()
            .min_by_key(|&(at, _)| at)
    }
}

#[cfg(test)]
mod delivery_tests;
#[cfg(test)]
mod smuggling_tests;
#[cfg(test)]
mod tests;
