//! Time limits.

use fathometer_model::Instant;

use super::stream::{Expect, Stream};
use super::{CloseReason, Connection, Limits};
use crate::exchange::RequestId;
use crate::h3::{ErrorCode, stream_of};
use crate::origin::Status;

/// The times of the last activity on the connection.
///
/// Invariant: `last_taken` and `last_busy` are not later than `last`.
#[derive(Debug)]
pub(super) struct Activity {
    /// The last time at which the transport delivered or took bytes.
    last: Instant,
    /// The last time at which a request was in flight.
    last_busy: Instant,
    /// The last time at which the transport took content of any response.
    last_taken: Instant,
}

impl Activity {
    pub fn new(now: Instant) -> Activity {
        Activity {
            last: now,
            last_busy: now,
            last_taken: now,
        }
    }

    /// Notes that the transport delivered or took bytes.
    pub fn note_use(&mut self, now: Instant) {
        self.last = now;
    }

    /// Notes that the transport took bytes of a response.
    pub fn note_taken(&mut self, now: Instant) {
        self.last_taken = now;
    }

    /// Notes that a request ends.
    pub fn note_busy(&mut self, now: Instant) {
        self.last_busy = now;
    }

    /// The time at which the client's time limit on a stream expires; `None` while the server processes the request.
    fn deadline(&self, stream: &Stream, limits: &Limits) -> Option<Instant> {
        match stream.expect {
            _ if stream.working => None,
            _ if stream.flowing.is_some() && stream.output.is_empty() => None,
            // A stream may wait behind others, so its time limit restarts whenever the client takes bytes of any
            // stream.
            _ if stream.is_answered() => Some(stream.active.max(self.last_taken) + limits.send),
            Expect::Head => Some(stream.started + limits.request),
            _ => match stream.paid {
                Some(paid) => Some(paid.deadline()),
                None => Some(stream.active + limits.request),
            },
        }
    }
}

impl Connection {
    /// The time at which to call [`handle_timeout`](Self::handle_timeout) if no other event happens before. Query it
    /// again after each call.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if !self.ending.is_open() {
            return None;
        }
        let limits = &self.config.limits;
        if self.streams.is_empty() {
            return Some(self.activity.last + limits.idle);
        }
        let backlog = self.sending.backlog();
        let due = self.streams.iter().filter_map(|(_, stream)| {
            let deadline = self.activity.deadline(stream, limits).into_iter();
            deadline.chain(stream.flows_at(backlog)).min()
        });
        due.chain(self.work.next()).min()
    }

    /// Handles the time limits that have passed at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        if !self.ending.is_open() {
            return;
        }
        if self.streams.is_empty() {
            if self.activity.last + self.config.limits.idle <= now {
                let code = Some(ErrorCode::NO_ERROR);
                self.ending.close(CloseReason::IdleTimeout, code);
            }
            return;
        }
        self.finish_work(now);
        self.flow_on(now);
        let limits = &self.config.limits;
        let is_late = |stream| {
            let deadline = self.activity.deadline(stream, limits);
            deadline.is_some_and(|at| at <= now)
        };
        let streams = self.streams.iter();
        let mut late: Vec<RequestId> = streams
            .filter(|(_, stream)| is_late(stream))
            .map(|(request, _)| request)
            .collect();
        late.sort_unstable();
        for request in late {
            if self.streams.get(request).is_some_and(Stream::is_answered) {
                let code = ErrorCode::REQUEST_CANCELLED;
                self.break_off(request, stream_of(request), code, now);
            } else {
                self.give_up_request(request, now);
            }
        }
        self.settle();
    }

    /// Handles a request that is too slow or stops. A request whose answer does not depend on the content is answered.
    fn give_up_request(&mut self, request: RequestId, now: Instant) {
        let open = self.streams.get_mut(request);
        let answer = open.and_then(|open| open.answer.as_ref());
        if answer.is_some_and(|answer| !answer.takes_content()) {
            self.respond(request, now);
            self.stop_reading(request, stream_of(request));
        } else {
            self.refuse(request, Status::REQUEST_TIMEOUT, now);
        }
    }

    /// The time since which the connection has been waiting for the client; see
    /// [`h1`](crate::h1::server::Connection::waits_since).
    pub fn waits_since(&self) -> Option<Instant> {
        if !self.ending.is_open() || !self.work.is_empty() {
            return None;
        }
        if self.streams.is_empty() {
            return Some(self.activity.last_busy);
        }
        let streams = self.streams.iter();
        let since = streams.map(|(_, stream)| match (stream.expect, stream.paid) {
            _ if stream.is_answered() => stream.active,
            (Expect::Head, _) => stream.started,
            (_, Some(paid)) => paid.standing(),
            (_, None) => stream.active,
        });
        since.max()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_response_is_not_late_while_the_client_takes_others() {
        let limits = Limits::default();
        let start = Instant::ZERO;
        let mut activity = Activity::new(start);
        let mut stream = Stream::new(0, start);
        let deadline = |activity: &Activity, stream: &Stream| activity.deadline(stream, &limits);
        assert_eq!(deadline(&activity, &stream), Some(start + limits.request));
        stream.working = true;
        assert_eq!(
            deadline(&activity, &stream),
            None,
            "no time limit while the server processes the request"
        );
        stream.working = false;
        stream.ends = true;
        assert_eq!(deadline(&activity, &stream), Some(start + limits.send));
        let later = start + Duration::from_secs(5);
        activity.note_taken(later);
        assert_eq!(deadline(&activity, &stream), Some(later + limits.send));
    }
}
