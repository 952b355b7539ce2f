//! Time limits.

use std::time::Duration;

use fathometer_model::Instant;

use super::streams::{Progress, Slot};
use super::{CloseReason, Connection, Phase, Start};
use crate::exchange::Action;
use crate::h2::error::Fault;

/// When a server shuts down: how long it waits for a client to close its side.
pub(super) const ENDING_LINGER: Duration = Duration::from_secs(1);

/// What happens at [`Connection::poll_timeout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timeout {
    Header,
    Settings,
    Body,
    Idle,
    Send,
    Stall,
    Linger,
    /// The work on a request is finished.
    Work,
    /// More of a response is ready.
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
            Timeout::Flow => self.flow_on(now),
            Timeout::Send => {
                self.close_reason.get_or_insert(CloseReason::SendTimeout);
                self.finish(Action::Abort);
            }
            Timeout::Linger => self.finish(Action::Close),
        }
        self.settle(now);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) if no other event happens before. After any event,
    /// query it again.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deadline().map(|(at, _)| at)
    }

    /// Answers the requests whose content has stopped, or arrives too slowly.
    fn give_up_requests(&mut self, now: Instant) {
        let mut place = 0;
        while let Some(slot) = self.streams.at(place) {
            if self.content_due(slot).is_some_and(|due| due <= now) {
                self.give_up_content(slot, now);
            }
            place += 1;
        }
    }

    /// When the content of a request has taken too long.
    fn content_due(&self, slot: Slot) -> Option<Instant> {
        let stream = &self.streams[slot];
        let paid = stream.paid.filter(|_| stream.progress == Progress::Reading);
        paid.map(|paid| paid.deadline())
    }

    /// Whether output waits for the transport, or content for the client's windows.
    pub fn is_sending(&self) -> bool {
        self.phase == Phase::Open && (!self.output.is_empty() || self.stalled.is_some())
    }

    /// Since when the connection waits for its client, as
    /// [`h1`'s](crate::h1::server::Connection::waits_since).
    pub fn waits_since(&self) -> Option<Instant> {
        match self.phase {
            Phase::Closed => return None,
            Phase::Lingering { .. } => return Some(self.last_output),
            Phase::Open => {}
        }
        if !self.output.is_empty() {
            return Some(self.last_output);
        }
        if !self.working.is_empty() {
            return None;
        }
        if self.streams.is_empty() {
            return Some(self.last_busy);
        }
        let streams = (0..).map_while(|place| self.streams.at(place));
        let reading = streams.filter_map(|slot| {
            let stream = &self.streams[slot];
            let paid = stream.paid.filter(|_| stream.progress == Progress::Reading);
            paid.map(|paid| paid.standing())
        });
        // Other streams are being generated, or the client's windows block them.
        let sending = self.stalled.map(|(since, _)| since);
        reading.chain(sending).max()
    }

    /// Starts and stops the time limit on windows that block responses.
    pub(super) fn watch_windows(&mut self, now: Instant) {
        let held_up = self.blocked > 0 || self.send.available() == 0 && !self.schedule.is_empty();
        if !held_up {
            self.stalled = None;
        } else if self.stalled.is_none() {
            self.stalled = Some((now, self.content_sent));
        }
    }

    /// Windows have blocked responses for a while: closes the connection if too little content was sent.
    fn judge_stall(&mut self, now: Instant) {
        let before = self.stalled.map_or(0, |(_, sent)| sent);
        if self.content_sent - before < self.config.limits.stall_octets.0 {
            self.stop(CloseReason::WindowStall);
        } else {
            self.stalled = Some((now, self.content_sent));
        }
    }

    pub(super) fn linger(&self) -> Duration {
        match self.close_reason {
            Some(CloseReason::ServerEnds) => self.config.limits.linger.min(ENDING_LINGER),
            _ => self.config.limits.linger,
        }
    }

    /// The next time-out and its kind.
    fn deadline(&self) -> Option<(Instant, Timeout)> {
        let limits = &self.config.limits;
        match self.phase {
            Phase::Closed => return None,
            Phase::Lingering { until } => return Some((until, Timeout::Linger)),
            Phase::Open => {}
        }
        let sending =
            (!self.output.is_empty()).then(|| (self.last_output + limits.send, Timeout::Send));
        if self.close_reason.is_some() {
            return sending;
        }
        let settings = self
            .unacknowledged
            .map(|since| (since + limits.settings, Timeout::Settings));
        let header = self
            .frame_started
            .map(|since| (since + limits.header, Timeout::Header));
        let stall = self
            .stalled
            .map(|(since, _)| (since + limits.stall, Timeout::Stall));
        let work = self
            .working
            .front()
            .map(|&(_, until)| (until, Timeout::Work));
        let flow = self.flows_at().map(|at| (at, Timeout::Flow));
        let reading = if self.streams.is_empty() {
            let patience = match self.requests {
                0 => limits.idle,
                _ => limits.keep_alive,
            };
            let since = self.last_input.max(self.last_output);
            (self.start == Start::Done && self.output.is_empty())
                .then(|| (since + patience, Timeout::Idle))
        } else {
            let streams = (0..).map_while(|place| self.streams.at(place));
            let due = streams.filter_map(|slot| self.content_due(slot)).min();
            due.map(|due| (due, Timeout::Body))
        };
        [sending, header, settings, stall, work, flow, reading]
            .into_iter()
            .flatten()
            .min_by_key(|&(at, _)| at)
    }
}
