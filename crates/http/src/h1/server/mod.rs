//! The server side of one HTTP/1.0 or HTTP/1.1 connection, as a machine (RFC 9112).
//!
//! [`Connection`] is given octets and the time and gives octets, actions and the next time-out. It
//! parses requests as they come, pipelined or not, asks the [`Origin`] what to answer, and queues the
//! answers in order; bodies are never copied, heads are written into one buffer, and nothing is
//! allocated for an exchange once that buffer has grown. It holds no socket and reads no clock, and it
//! does not proxy. Where it is [told to](ServerConfig::upgrade), it recognises the wish to go on in HTTP/2
//! ([`Upgrade`]).
//!
//! Methods fall into `handle_*` (something happened), `poll_*` (what follows) and the pair
//! [`transmit`](Connection::transmit) and [`transmitted`](Connection::transmitted). The host of a
//! machine works in this order:
//!
//! 1. While [`wants_data`](Connection::wants_data), read, and tell the machine by
//!    [`handle_data`](Connection::handle_data) or [`handle_eof`](Connection::handle_eof).
//! 2. While [`transmit`](Connection::transmit) fills slices, write them with one call and say how much
//!    was taken by [`transmitted`](Connection::transmitted); stop when the transport takes no more. One
//!    round offers what the server flushed in one piece and no more: joining rounds would undo what
//!    [`Coalesce`] decides. Where a file comes next, [`transmit_file`](Connection::transmit_file) says
//!    so instead.
//! 3. Carry out [`poll_action`](Connection::poll_action), take
//!    [`poll_event`](Connection::poll_event).
//! 4. Drop the connection when [`is_finished`](Connection::is_finished); otherwise wait for the
//!    transport, or until [`poll_timeout`](Connection::poll_timeout) and then call
//!    [`handle_timeout`](Connection::handle_timeout).
//!
//! Any split of the input gives the same output. Requests that two recipients could take apart
//! differently are refused, and the connection is closed: see [`Refusal`].

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

use fathometer_model::{Bytes, FileId, Instant};

use self::flowing::Flowing;
use self::output::Output;
use self::request::Version;
use self::text::{TextLengths, Texts};
use super::chunked::ChunkedDecoder;
use super::fields::HeadEnd;
use crate::origin::{Answer, Dates, Method, Origin};
use crate::pace::Paid;

pub use self::config::{CloseManner, Coalesce, Limits, ServerConfig};
pub use self::output::FilePart;
pub use self::refusal::{CloseReason, Refusal};
pub use self::text::RequestText;
pub use self::upgrade::Upgrade;

/// How long a client of a server that ends is waited for to close its half.
const ENDING_LINGER: Duration = Duration::from_secs(1);

/// What the host of a connection is to do with its transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Close the sending half, and go on reading.
    ShutdownWrite,
    /// Close both halves now, whatever was not read.
    Close,
    /// Reset the connection: its peer takes nothing any more.
    Abort,
    /// Go on in HTTP/2 with [`Connection::take_upgrade`].
    Upgrade,
}

/// An exchange whose response was handed to the transport whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// The request method.
    pub method: Method,
    /// The file, when the target names one.
    pub file: Option<FileId>,
    /// A hash (64-bit FNV-1a) of the target as it was sent; 0 when no request line could be read.
    pub target_hash: u64,
    /// The status code of the response.
    pub status: u16,
    /// Octets of the request head.
    pub request_head: Bytes,
    /// Octets of the request content, without transfer coding.
    pub request_body: Bytes,
    /// Octets of the response heads, an interim response included.
    pub head: Bytes,
    /// Octets of the response content.
    pub body: Bytes,
    /// When the request head was complete.
    pub received: Instant,
    /// When the transport took the last octet of the response.
    pub at: Instant,
}

/// One connection.
#[derive(Debug)]
pub struct Connection {
    origin: Arc<Origin>,
    config: Arc<ServerConfig>,
    /// Octets received and not dealt with.
    input: Vec<u8>,
    reading: Reading,
    /// The end of the head that `input` starts with, as far as it was searched for.
    head_end: HeadEnd,
    /// When the first octet of that head came.
    head_started: Option<Instant>,
    /// The request that is being worked on.
    work: Option<Work>,
    /// The same, where deciding its answer is the work.
    undecided: Option<Box<Exchange>>,
    /// The response of which not all is ready.
    flowing: Option<Box<Flowing>>,
    output: Output,
    phase: Phase,
    close_reason: Option<CloseReason>,
    action: Option<Action>,
    peer_finished: bool,
    /// Octets thrown away since no more requests are read.
    discarded: u64,
    /// Requests answered.
    requests: u32,
    last_input: Instant,
    last_output: Instant,
    /// Responses queued whose last octet was not sent, each with where it ends.
    outstanding: VecDeque<Outstanding>,
    events: VecDeque<(Served, TextLengths)>,
    /// The texts of all that is outstanding, of all events, and of the request being read.
    texts: Texts,
    /// The server ends: what is under way is answered, and no more.
    ending: bool,
    upgrade: Option<Box<Upgrade>>,
    dates: Dates,
    scratch: Vec<u8>,
}

/// What the next octets of the input are.
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
    /// Nothing that will be answered.
    Nothing,
    /// Nothing of this machine's.
    Upgraded,
}

#[derive(Debug)]
enum Body {
    Length(u64),
    Chunked(ChunkedDecoder),
}

/// A response that was queued.
#[derive(Debug)]
struct Outstanding {
    /// Where it ends.
    end: u64,
    served: Served,
    text: TextLengths,
}

/// A request and what it will be answered.
#[derive(Debug)]
struct Exchange {
    answer: Answer,
    text: TextLengths,
    version: Version,
    /// Whether the client can and wants to use the connection again.
    persistent: bool,
    /// Whether it has said so.
    asks_keep_alive: bool,
    served: Served,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Requests may come, or responses are still to be sent.
    Open,
    /// The own half is closed; until then, the other may stay open.
    Lingering { until: Instant },
    /// Both halves are closed.
    Closed,
}

/// A request that was taken up and whose response is not ready.
#[derive(Debug, Clone, Copy)]
struct Work {
    /// The octets of its head, which `input` starts with.
    head: usize,
    /// When the response is ready.
    until: Instant,
    /// Octets of the interim response that was sent meanwhile.
    interim: Bytes,
}

/// What happens when [`Connection::poll_timeout`] has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timeout {
    Head,
    Body,
    Idle,
    Send,
    Linger,
    /// Responses were held for as long as they may be.
    Hold,
    /// A request has been worked on.
    Work,
    /// More of a response is ready.
    Flow,
}

impl Connection {
    /// A connection that was accepted at `now`.
    pub fn new(origin: Arc<Origin>, config: Arc<ServerConfig>, now: Instant) -> Connection {
        Connection {
            origin,
            config,
            input: Vec::new(),
            reading: Reading::Head,
            head_end: HeadEnd::new(),
            head_started: None,
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

    /// Whether octets are welcome. False while responses pile up, and for good after a
    /// [full](CloseManner::Full) close was decided. What is given all the same is kept.
    pub fn wants_data(&self) -> bool {
        match self.phase {
            _ if self.peer_finished => false,
            Phase::Open if self.close_reason.is_none() => {
                // Work takes time: what is asked for meanwhile must not pile up without bound.
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

    /// Octets came.
    pub fn handle_data(&mut self, data: &[u8], now: Instant) {
        if data.is_empty() || self.peer_finished || self.phase == Phase::Closed {
            return;
        }
        self.last_input = now;
        // What arrives whole is read where it is; what is left over goes into the buffer.
        if self.input.is_empty() {
            let used = self.process(data, now);
            self.input.extend_from_slice(&data[used..]);
        } else {
            self.input.extend_from_slice(data);
            self.process_input(now);
        }
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

    /// A file ended before the octets that [`transmit_file`](Self::transmit_file) offered. The message
    /// cannot be completed: the connection ends within it, which tells the client.
    pub fn handle_truncated_file(&mut self) {
        if self.phase != Phase::Closed {
            self.stop(CloseReason::ContentLost);
            self.finish(Action::Close);
        }
    }

    /// The server is about to end: whatever is answered from now on says `Connection: close`. Between
    /// this and [`end`](Self::end) the host reads what has come.
    pub fn announce_end(&mut self) {
        self.ending = true;
    }

    /// The server ends: requests that have begun to come are answered, and then the connection is
    /// closed; at once when there are none.
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

    /// Whether nothing is under way: no request has begun to come, no response is to be sent.
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

    /// Gives back memory that holds nothing, for a connection that is likely to stay idle. The next
    /// exchange allocates it again.
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

    /// It is `now`; does what is due, if anything is.
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

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called, unless something else happens
    /// before; then ask again.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deadline().map(|(at, _)| at)
    }

    /// Releases all responses that are held back.
    pub fn flush(&mut self, now: Instant) {
        self.release_all(now);
        self.settle(now);
    }

    /// Fills `slices` with octets to be sent by one write. Returns how many slices were filled; none
    /// when nothing may be sent now. A response takes two slices: with fewer slices than a flushed
    /// piece needs, it goes in several writes.
    pub fn transmit<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        if self.phase == Phase::Open {
            self.output.transmit(&self.origin, slices)
        } else {
            0
        }
    }

    /// The octets of a file that go next, when [`transmit`](Self::transmit) fills no slice because of
    /// it; as many as may be sent, however they are cut into writes. The transport takes them from the
    /// file, and [`transmitted`](Self::transmitted) is told how many it took.
    pub fn transmit_file(&self) -> Option<FilePart<'_>> {
        (self.phase == Phase::Open)
            .then(|| self.output.transmit_file(&self.origin))
            .flatten()
    }

    /// Whether more follows at once what [`transmit`](Self::transmit) offers now: octets of a file, or
    /// the end of the own half. A host that tells
    /// the transport so (`MSG_MORE`) lets the end ride on the last segment instead of following it,
    /// which costs a packet, and a round trip where the congestion window is one segment.
    pub fn more_follows(&self) -> bool {
        self.phase == Phase::Open
            && (self.is_last() && self.output.offers_the_rest()
                || self.output.file_follows(&self.origin))
    }

    /// The transport took the first `count` octets of what [`transmit`](Self::transmit) offered.
    pub fn transmitted(&mut self, count: usize, now: Instant) {
        if count == 0 {
            return;
        }
        let was_congested = self.is_congested();
        self.last_output = now;
        self.output.transmitted(count);
        self.note_handed_over(now);
        let was_flowing = self.flowing.is_some();
        if was_flowing {
            self.flow_on(now);
        }
        let has_flowed = was_flowing && self.flowing.is_none();
        if has_flowed || was_congested && !self.is_congested() {
            self.process_input(now);
        }
        self.settle(now);
    }

    /// Notes the exchanges whose responses were handed over whole.
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

    /// What is to be done with the transport, once.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.action.take()
    }

    /// The next exchange whose response was handed over, when events are
    /// [asked for](ServerConfig::events). They are kept until they are taken.
    pub fn poll_event(&mut self) -> Option<Served> {
        self.poll_event_with_text().map(|(served, _)| served)
    }

    /// The same, with what the client said of the request, where that is
    /// [kept](ServerConfig::request_text).
    pub fn poll_event_with_text(&mut self) -> Option<(Served, RequestText<'_>)> {
        let (served, lengths) = self.events.pop_front()?;
        self.texts.take(lengths);
        Some((served, self.texts.last(lengths)))
    }

    /// The exchange whose response was handed to the transport in part, on a connection that is not
    /// served any further: its content is what was handed over. Asked for once, when all events were
    /// taken.
    pub fn cut_short(&mut self, now: Instant) -> Option<(Served, RequestText<'_>)> {
        self.cut_flow();
        let Outstanding { end, served, text } = self.outstanding.pop_front()?;
        self.outstanding.clear();
        let unsent = end - self.output.sent();
        if unsent >= served.body.0 + served.head.0 {
            return None;
        }
        let served = Served {
            head: Bytes(served.head.0 - unsent.saturating_sub(served.body.0)),
            body: Bytes(served.body.0.saturating_sub(unsent)),
            at: now,
            ..served
        };
        Some((served, self.texts.next(text)))
    }

    /// Whether both halves are closed and the last action was taken.
    pub fn is_finished(&self) -> bool {
        self.phase == Phase::Closed && self.action.is_none()
    }

    /// Whether the transport has been offered something that it has not taken.
    pub fn is_sending(&self) -> bool {
        self.phase == Phase::Open && self.output.is_released()
    }

    /// Since when the connection waits for its client: how long ago a client that works at the least pace would
    /// have come to where this one is. `None` while it is this side that takes its time. Where there is no room
    /// for others, the connection that has waited longest should make it.
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

    /// Why the connection ends; `None` while it may go on.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.close_reason
    }

    /// Requests answered, refusals of what could not be read included.
    pub fn requests(&self) -> u32 {
        self.requests
    }

    /// Whether what is queued is the last on this connection.
    fn is_last(&self) -> bool {
        self.close_reason.is_some() && self.flowing.is_none()
    }

    fn is_congested(&self) -> bool {
        let most = self.config.limits.backlog.0;
        self.output.text_waiting() > most
            || self.texts.waiting() > most && !self.outstanding.is_empty()
    }

    /// Reads no more requests; closes once all that is queued was sent.
    fn stop(&mut self, reason: CloseReason) {
        self.close_reason.get_or_insert(reason);
        self.reading = Reading::Nothing;
        self.head_started = None;
        self.work = None;
        self.undecided = None;
        self.discarded += self.input.len() as u64;
        self.input.clear();
    }

    /// Brings everything that follows from the present state about.
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
            // A congested server waits for the transport alone.
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

    /// The next time-out and what it is.
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
        let working = self.work.map(|work| (work.until, Timeout::Work));
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
