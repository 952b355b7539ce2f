//! The end of requests and of the connection: time limits, failures, GOAWAY, close.

use fathometer_model::{CloseReason, Failure, Instant};

use super::connection::{Connection, Phase};
use super::stream::{Expect, Stream};
use super::{Event, RequestId};
use crate::h3::critical::ControlEvent;
use crate::h3::{Action, ErrorCode, Fault, request_of, stream_of};

impl Connection {
    /// Closes the connection if the server shuts down and no response is outstanding. Called after every frame and at
    /// the end of every request, so that the result does not depend on the split of the input.
    pub(super) fn close_if_idle(&mut self) {
        if self.leaving && self.phase == Phase::Open && self.streams.is_empty() {
            self.close(
                CloseReason::ServerAsked,
                Failure::GoneAway,
                Some(ErrorCode::NO_ERROR),
            );
        }
    }

    /// Notes that the QUIC connection failed, or that the host aborted it. `failure` must be a failure that the peer
    /// did not cause. Completely read responses stay complete.
    pub fn handle_failure(&mut self, failure: Failure, _now: Instant) {
        self.close(CloseReason::Failed(failure), failure, None);
    }

    /// Handles a close of the QUIC connection by the server with HTTP/3 error code `code`.
    pub fn handle_peer_close(&mut self, code: u64, _now: Instant) {
        let is_error = ErrorCode(code).name().is_some() && ErrorCode(code) != ErrorCode::NO_ERROR;
        let (reason, failure) = match (is_error, self.streams.is_empty()) {
            (true, _) => (CloseReason::Failed(Failure::GoneAway), Failure::GoneAway),
            (false, true) => (CloseReason::ServerIdle, Failure::ClosedEarly),
            (false, false) => (CloseReason::ServerEarly, Failure::ClosedEarly),
        };
        self.close(reason, failure, None);
    }

    /// Closes the connection, because the client sends no further requests. Requests without a complete response end
    /// with [`Failure::LocalAbort`], and the close reason is [`CloseReason::Finished`].
    pub fn finish(&mut self) {
        self.close(
            CloseReason::Finished,
            Failure::LocalAbort,
            Some(ErrorCode::NO_ERROR),
        );
    }

    /// The time at which to call [`handle_timeout`](Self::handle_timeout) if no other event happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.phase != Phase::Open || self.streams.is_empty() {
            return None;
        }
        let timeouts = &self.config.timeouts;
        let idle = timeouts.idle.map(|idle| self.active + idle);
        let streams = self.streams.iter();
        let due = streams.filter_map(|(_, stream)| self.deadline(stream));
        due.chain(idle).min()
    }

    /// The earliest time at which a time limit of an exchange expires.
    fn deadline(&self, stream: &Stream) -> Option<Instant> {
        let timeouts = &self.config.timeouts;
        let handed = stream.handed?;
        let head = timeouts.head.filter(|_| stream.expects_head());
        let waits = stream.upload.is_some_and(|upload| upload.awaits_continue);
        let patience = waits.then_some(timeouts.expect_continue);
        let limits = [head, timeouts.total, patience];
        limits.into_iter().flatten().min().map(|time| handed + time)
    }

    /// Handles every time limit that has passed. A call before the time limit does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.phase != Phase::Open || self.streams.is_empty() {
            return;
        }
        let timeouts = self.config.timeouts;
        if timeouts.idle.is_some_and(|idle| self.active + idle <= now) {
            let failure = Failure::TimedOut;
            let code = Some(ErrorCode::REQUEST_CANCELLED);
            return self.close(CloseReason::Failed(failure), failure, code);
        }
        let mut late: Vec<RequestId> = Vec::new();
        for (request, stream) in self.streams.iter() {
            if self.deadline(stream).is_some_and(|at| at <= now) {
                late.push(request);
            }
        }
        late.sort_unstable();
        for request in late {
            let Some(stream) = self.streams.get_mut(request) else {
                continue;
            };
            let Some(handed) = stream.handed else {
                continue;
            };
            let head = timeouts.head.filter(|_| stream.expects_head());
            let limits = [head, timeouts.total];
            if limits
                .into_iter()
                .flatten()
                .any(|time| handed + time <= now)
            {
                let code = ErrorCode::REQUEST_CANCELLED;
                self.give_up(request, Failure::TimedOut, code);
            } else if let Some(upload) = &mut stream.upload {
                upload.awaits_continue = false;
                self.events.push_back(Event::SendContent { request });
            }
        }
        self.settle();
    }

    /// Handles a message on the server's control stream.
    pub(super) fn handle_control(&mut self, event: ControlEvent) {
        match event {
            ControlEvent::Settings(_) => self.events.push_back(Event::Settings),
            ControlEvent::GoAway(id) => {
                self.leaving = true;
                let last = id.checked_sub(4).and_then(request_of);
                self.events.push_back(Event::GoAway { last, code: 0 });
                let mut unprocessed: Vec<RequestId> = self
                    .streams
                    .iter()
                    .map(|(request, _)| request)
                    .filter(|&request| stream_of(request) >= id)
                    .collect();
                unprocessed.sort_unstable();
                for request in unprocessed {
                    self.reject(request, Failure::GoneAway);
                }
                self.close_if_idle();
            }
            // Only clients send PRIORITY_UPDATE.
            ControlEvent::Priority(..) => {}
        }
    }

    /// Handles a request that the server did not process.
    pub(super) fn reject(&mut self, request: RequestId, failure: Failure) {
        let begun = self.streams.get(request).is_none_or(|stream| stream.begun);
        if begun {
            return self.give_up(request, failure, ErrorCode::REQUEST_CANCELLED);
        }
        self.abandon(request, ErrorCode::REQUEST_CANCELLED);
        if let Some(stream) = self.streams.remove(request) {
            let idempotent = stream.idempotent;
            self.recycle(stream);
            self.events.push_back(Event::Unanswered {
                request,
                failure,
                sent: false,
                idempotent,
                persists: self.accepts_requests(),
            });
        }
        self.note_sent();
    }

    /// Ends a request that has no complete response.
    pub(super) fn give_up(&mut self, request: RequestId, failure: Failure, code: ErrorCode) {
        self.abandon(request, code);
        let Some(stream) = self.streams.remove(request) else {
            return;
        };
        let event = failed(request, &stream, failure, self.accepts_requests());
        self.events.push_back(event);
        self.recycle(stream);
        self.note_sent();
    }

    /// Ends those directions of a stream that are still open.
    fn abandon(&mut self, request: RequestId, code: ErrorCode) {
        let Some(open) = self.streams.get_mut(request) else {
            return;
        };
        let stream = stream_of(request);
        // A stream that has not opened yet is reset when it opens.
        if open.is_open {
            if !open.finished && !open.stopped {
                self.actions.push_back(Action::Reset { stream, code });
            }
            self.actions.push_back(Action::StopSending { stream, code });
        }
        self.critical.decoder.cancel(stream);
    }

    /// Closes the connection after a protocol violation by the server.
    pub(super) fn fail(&mut self, fault: Fault) {
        if self.phase != Phase::Open {
            return;
        }
        self.fault = Some(fault);
        let failure = match fault {
            Fault::Flood => Failure::TooLarge,
            _ => Failure::BadResponse,
        };
        let reason = CloseReason::Failed(failure);
        self.close(reason, failure, Some(fault.code()));
    }

    /// Ends the connection and all requests. `code` must be `None` if the transport is already closed.
    fn close(&mut self, reason: CloseReason, failure: Failure, code: Option<ErrorCode>) {
        if self.phase != Phase::Open {
            return;
        }
        self.phase = Phase::Closed(reason);
        for (request, stream) in self.streams.drain() {
            let event = failed(request, &stream, failure, false);
            self.events.push_back(event);
            self.recycle(stream);
        }
        self.sendable.clear();
        self.first_unsent = self.next_request;
        self.actions.clear();
        if let Some(code) = code {
            self.actions.push_back(Action::Close { code });
        }
        self.events.push_back(Event::Closed { reason });
    }
}

impl Stream {
    fn expects_head(&self) -> bool {
        self.expect == Expect::Head
    }
}

/// Returns the event for a request that ends without a complete response.
fn failed(request: RequestId, stream: &Stream, failure: Failure, persists: bool) -> Event<'static> {
    if stream.begun {
        Event::Failed {
            request,
            failure,
            received: stream.received,
            persists,
        }
    } else {
        Event::Unanswered {
            request,
            failure,
            sent: stream.handed.is_some(),
            idempotent: stream.idempotent,
            persists,
        }
    }
}
