//! Time limits.

use fathometer_model::Instant;

use super::streams::{Progress, Stream};
use super::{CloseReason, Connection};
use crate::exchange::Action;
use crate::h2::error::Fault;
use crate::pace::Paid;

/// The times of the last activity on the connection.
#[derive(Debug)]
pub(super) struct Activity {
    last_input: Instant,
    last_output: Instant,
    /// The last time at which a request was in flight.
    last_busy: Instant,
}

impl Activity {
    pub fn new(now: Instant) -> Activity {
        Activity {
            last_input: now,
            last_output: now,
            last_busy: now,
        }
    }

    /// Notes that bytes arrived.
    pub fn note_input(&mut self, now: Instant) {
        self.last_input = now;
    }

    /// Notes that the transport took bytes.
    pub fn note_output(&mut self, now: Instant) {
        self.last_output = now;
    }

    /// Notes that a request is in flight.
    pub fn note_busy(&mut self, now: Instant) {
        self.last_busy = now;
    }
}

/// The event that is due at [`Connection::poll_timeout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timeout {
    Header,
    Settings,
    Body,
    Idle,
    Send,
    Stall,
    Linger,
    /// The processing time of a request ends.
    Work,
    /// The next part of a generated response is ready.
    Flow,
}

impl Connection {
    /// Handles all time limits that have passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        let Some((_, timeout)) = self.deadline().filter(|&(at, _)| at <= now) else {
            return;
        };
        match timeout {
            Timeout::Header => self.stop(CloseReason::HeaderTimeout),
            Timeout::Settings => self.refuse(Fault::SettingsTimeout.into()),
            Timeout::Body => self.give_up_requests(now),
            Timeout::Idle => self.stop(CloseReason::IdleTimeout),
            Timeout::Stall => self.judge_stall(now),
            Timeout::Work => {}
            Timeout::Flow => self
                .responses
                .flow_on(&mut self.streams, &mut self.budget, now),
            Timeout::Send => {
                self.ending.stop(CloseReason::SendTimeout);
                self.ending.finish(Action::Abort);
            }
            Timeout::Linger => self.ending.finish(Action::Close),
        }
        self.settle(now);
    }

    /// The time at which to call [`handle_timeout`](Self::handle_timeout) if no other event happens before. Query it
    /// again after each event.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deadline().map(|(at, _)| at)
    }

    /// Answers the requests whose content has stopped or is too slow.
    fn give_up_requests(&mut self, now: Instant) {
        let mut place = 0;
        while let Some(slot) = self.streams.at(place) {
            if content_due(&self.streams[slot]).is_some_and(|due| due <= now) {
                self.give_up_content(slot, now);
            }
            place += 1;
        }
    }

    /// Notes that the transport was sending its own buffered data until `at`; see
    /// [`h1`](crate::h1::server::Connection::transport_moved).
    pub fn transport_moved(&mut self, at: Instant) {
        self.activity.last_output = self.activity.last_output.max(at);
    }

    /// Whether output waits for the transport, or content waits for the client's windows.
    pub fn is_sending(&self) -> bool {
        let is_stalled = self.responses.stalled_since().is_some();
        self.ending.is_open() && (!self.responses.output().is_empty() || is_stalled)
    }

    /// The time since which the connection has been waiting for the client; see
    /// [`h1`](crate::h1::server::Connection::waits_since).
    pub fn waits_since(&self) -> Option<Instant> {
        if self.ending.is_closed() {
            return None;
        }
        if !self.ending.is_open() || !self.responses.output().is_empty() {
            return Some(self.activity.last_output);
        }
        if !self.work.is_empty() {
            return None;
        }
        if self.streams.is_empty() {
            return Some(self.activity.last_busy);
        }
        let streams = self.streams.iter();
        let reading = streams.filter_map(|(_, stream)| Some(paid(stream)?.standing()));
        // The remaining streams are being generated, or the client's windows block them.
        reading.chain(self.responses.stalled_since()).max()
    }

    /// Closes the connection after the stall time-out, unless enough content was sent in that time.
    fn judge_stall(&mut self, now: Instant) {
        if !self.responses.outlasts_stall(now) {
            self.stop(CloseReason::WindowStall);
        }
    }

    /// The time and the kind of the next time-out.
    fn deadline(&self) -> Option<(Instant, Timeout)> {
        let limits = &self.config.limits;
        if self.ending.is_closed() {
            return None;
        }
        if let Some(until) = self.ending.lingers_until() {
            return Some((until, Timeout::Linger));
        }
        let Activity {
            last_input,
            last_output,
            ..
        } = self.activity;
        let has_output = !self.responses.output().is_empty();
        let sending = has_output.then(|| (last_output + limits.send, Timeout::Send));
        if self.ending.reason().is_some() {
            return sending;
        }
        let unacknowledged = self.receiving.unacknowledged();
        let settings = unacknowledged.map(|since| (since + limits.settings, Timeout::Settings));
        let frame = self.input.frame_started();
        let header = frame.map(|since| (since + limits.header, Timeout::Header));
        let stalled = self.responses.stalled_since();
        let stall = stalled.map(|since| (since + limits.stall, Timeout::Stall));
        let work = self.work.next().map(|until| (until, Timeout::Work));
        let flow = self.responses.flows_at(&self.streams);
        let flow = flow.map(|at| (at, Timeout::Flow));
        let reading = if self.streams.is_empty() {
            let patience = match self.requests {
                0 => limits.idle,
                _ => limits.keep_alive,
            };
            let since = last_input.max(last_output);
            (self.input.has_started() && !has_output).then(|| (since + patience, Timeout::Idle))
        } else {
            let streams = self.streams.iter();
            let due = streams.filter_map(|(_, stream)| content_due(stream)).min();
            due.map(|due| (due, Timeout::Body))
        };
        [sending, header, settings, stall, work, flow, reading]
            .into_iter()
            .flatten()
            .min_by_key(|&(at, _)| at)
    }
}

/// The time limit for the content of a request that is being received.
fn paid(stream: &Stream) -> Option<Paid> {
    let paid = stream.request.paid();
    paid.filter(|_| stream.progress == Progress::Reading)
}

/// The time at which the content of a request exceeds its time limit.
fn content_due(stream: &Stream) -> Option<Instant> {
    paid(stream).map(|paid| paid.deadline())
}
