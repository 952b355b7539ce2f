//! Which streams are open, and how the connection ends.

use fathometer_model::Instant;

use super::connection::{CloseReason, Connection, Leaving, Phase, number};
use super::stream::{Expect, Stream};
use crate::exchange::RequestId;
use crate::h3::frame::{self, FrameType};
use crate::h3::{Action, ErrorCode, Fault, Priority, varint};
use crate::origin::Status;

/// The largest ID of a request stream.
const GREATEST: u64 = varint::LARGEST - 3;
/// Most stream IDs that may be skipped: QUIC permits far fewer concurrent streams.
const MOST_UNSEEN: usize = 10_000;
/// The most priorities kept for streams that have not been seen.
const MOST_EARLY: usize = 64;

impl Connection {
    /// The request of a stream; it is created if the stream has not been seen. `None` if it is done or
    /// rejected.
    pub(super) fn open(&mut self, stream: u64, now: Instant) -> Option<RequestId> {
        let request = number(stream)?;
        if self.streams.get(request).is_some() {
            return Some(request);
        }
        if stream >= self.next_stream {
            let mut gap = self.next_stream;
            while gap < stream && self.unseen.len() <= MOST_UNSEEN {
                self.unseen.insert(gap);
                gap += 4;
            }
            if self.unseen.len() > MOST_UNSEEN {
                self.fail(Fault::Flood);
                return None;
            }
            self.next_stream = stream + 4;
        } else if !self.unseen.remove(&stream) {
            return None;
        }
        if let Leaving::From(first) = self.leaving
            && stream >= first
        {
            let code = ErrorCode::REQUEST_REJECTED;
            self.actions.push_back(Action::Reset { stream, code });
            self.actions.push_back(Action::StopSending { stream, code });
            self.critical.decoder.cancel(stream);
            return None;
        }
        let mut open = match self.spare.pop() {
            Some(mut open) => {
                open.renew(stream, now);
                open
            }
            None => Box::new(Stream::new(stream, now)),
        };
        let mut early = self.early_priorities.iter();
        let place = early.rposition(|&(other, _)| other == stream);
        if let Some((_, priority)) = place.and_then(|place| self.early_priorities.remove(place)) {
            open.priority = priority;
            open.has_priority = true;
        }
        self.streams.insert(request, open);
        Some(request)
    }

    /// The client changed the priority of the response on a stream.
    pub(super) fn reprioritize(&mut self, stream: u64, priority: Priority) {
        let Some(request) = number(stream) else {
            return;
        };
        match self.streams.get_mut(request) {
            Some(open) => {
                let before = std::mem::replace(&mut open.priority, priority);
                open.has_priority = true;
                if open.scheduled && before.urgency != priority.urgency {
                    self.schedule.remove(stream, before);
                    self.schedule.add(stream, priority);
                }
            }
            None if stream >= self.next_stream || self.unseen.contains(&stream) => {
                if self.early_priorities.len() >= MOST_EARLY {
                    self.early_priorities.pop_front();
                }
                self.early_priorities.push_back((stream, priority));
            }
            None => {}
        }
    }

    /// The server is about to end: sends GOAWAY with the largest identifier so that the client starts no more
    /// requests. Until it calls [`end`](Self::end), the host reads what arrives.
    pub fn announce_end(&mut self) {
        if self.phase == Phase::Open && self.leaving == Leaving::No {
            self.leaving = Leaving::Announced;
            frame::write_number(FrameType::GOAWAY, GREATEST, self.critical.control());
        }
    }

    /// The server ends: requests that have begun to arrive are answered and later ones are rejected. Then the
    /// connection closes, at once if there are no such requests.
    pub fn end(&mut self, _now: Instant) {
        if self.phase != Phase::Open || matches!(self.leaving, Leaving::From(_)) {
            return;
        }
        self.leaving = Leaving::From(self.next_stream);
        frame::write_number(FrameType::GOAWAY, self.next_stream, self.critical.control());
        self.leave();
    }

    /// The QUIC connection failed. No event follows.
    pub fn handle_failure(&mut self) {
        self.close(CloseReason::TransportFailed, None);
    }

    /// The client closed the QUIC connection with this HTTP/3 error code.
    pub fn handle_peer_close(&mut self, _code: u64, _now: Instant) {
        self.close(CloseReason::ClientClosed, None);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) unless something else happens before. Query it
    /// again after each call.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.phase != Phase::Open {
            return None;
        }
        if self.streams.is_empty() {
            return Some(self.last + self.config.limits.idle);
        }
        let streams = self.streams.iter();
        let due = streams.filter_map(|(_, stream)| {
            let deadline = self.deadline(stream).into_iter();
            deadline.chain(stream.flows_at(self.backlog)).min()
        });
        let work = self.working.front().map(|&(_, until)| until);
        due.chain(work).min()
    }

    /// When the client's time limit on a stream passes; `None` while this side is the one that takes time.
    fn deadline(&self, stream: &Stream) -> Option<Instant> {
        let limits = &self.config.limits;
        match stream.expect {
            _ if stream.working => None,
            _ if stream.flowing.is_some() && stream.output.is_empty() => None,
            // A stream may wait behind others: it is not late while the client takes bytes of those.
            _ if stream.ends || stream.flowing.is_some() => {
                Some(stream.active.max(self.last_taken) + limits.send)
            }
            Expect::Head => Some(stream.started + limits.request),
            _ => match stream.paid {
                Some(paid) => Some(paid.deadline()),
                None => Some(stream.active + limits.request),
            },
        }
    }

    /// Acts on the time limits that have passed at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.phase != Phase::Open {
            return;
        }
        if self.streams.is_empty() {
            if self.last + self.config.limits.idle <= now {
                self.close(CloseReason::IdleTimeout, Some(ErrorCode::NO_ERROR));
            }
            return;
        }
        self.finish_work(now);
        self.flow_on(now);
        let mut late: Vec<RequestId> = Vec::new();
        for (request, stream) in self.streams.iter() {
            if self.deadline(stream).is_some_and(|at| at <= now) {
                late.push(request);
            }
        }
        late.sort_unstable();
        for request in late {
            let stream = u64::from(request.0) * 4;
            let answers = |open: &Stream| open.ends || open.flowing.is_some();
            if self.streams.get(request).is_some_and(|open| answers(open)) {
                self.break_off(request, stream, ErrorCode::REQUEST_CANCELLED, now);
            } else {
                self.give_up_request(request, now);
            }
        }
        self.settle();
    }

    /// A request comes too slowly, or not at all. If its content would not change the answer, it is answered.
    fn give_up_request(&mut self, request: RequestId, now: Instant) {
        let answer = self
            .streams
            .get_mut(request)
            .and_then(|open| open.answer.as_ref());
        if answer.is_some_and(|answer| !answer.takes_content()) {
            self.respond(request, now);
            self.stop_reading(request, u64::from(request.0) * 4);
        } else {
            self.refuse(request, Status::REQUEST_TIMEOUT, now);
        }
    }

    /// Since when the connection has waited for its client; see
    /// [`h1`](crate::h1::server::Connection::waits_since).
    pub fn waits_since(&self) -> Option<Instant> {
        if self.phase != Phase::Open || !self.working.is_empty() {
            return None;
        }
        if self.streams.is_empty() {
            return Some(self.last_busy);
        }
        let streams = self.streams.iter();
        let since = streams.map(|(_, stream)| match (stream.expect, stream.paid) {
            _ if stream.ends || stream.flowing.is_some() => stream.active,
            (Expect::Head, _) => stream.started,
            (_, Some(paid)) => paid.standing(),
            (_, None) => stream.active,
        });
        since.max()
    }

    /// Closes the connection if this side shuts down and no request is in flight.
    pub(super) fn leave(&mut self) {
        if self.streams.is_empty() && matches!(self.leaving, Leaving::From(_)) {
            self.close(self.leave_reason, Some(ErrorCode::NO_ERROR));
        }
    }

    /// The client broke the protocol.
    pub(super) fn fail(&mut self, fault: Fault) {
        self.close(CloseReason::Fault(fault), Some(fault.code()));
    }

    fn close(&mut self, reason: CloseReason, code: Option<ErrorCode>) {
        if self.phase != Phase::Open {
            return;
        }
        self.phase = Phase::Closed(reason);
        // On a graceful close, actions on single streams are still carried out before the close.
        self.is_graceful = code == Some(ErrorCode::NO_ERROR);
        if !self.is_graceful {
            self.actions.clear();
        }
        if let Some(code) = code {
            self.actions.push_back(Action::Close { code });
        }
    }
}
