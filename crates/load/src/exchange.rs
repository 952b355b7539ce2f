//! One exchange, from its planned instant to its end, and the rule for retries.

use std::time::Duration;

use fathometer_http::client::{Queued, RequestId};
use fathometer_model::{Bytes, Failure, Instant};

/// One exchange: planned, passed to a connection, sent, answered.
///
/// The instants are in chronological order if they are set. A retry keeps the instants of the first attempt, except for
/// the first byte of the response and, if the request was not sent, the instant from which it could be sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange {
    request: RequestId,
    planned: Instant,
    due: Instant,
    /// Zero before the request is sent.
    sent: Instant,
    /// Zero before the first byte of the response arrives.
    first_byte: Instant,
    target: u32,
    page: u32,
    user: u32,
    /// Bytes of the request's header section: on the wire, and before compression.
    head: u32,
    fields: u32,
    content: Bytes,
    member: u16,
    status: u16,
    retried: bool,
    overdue: bool,
}

/// The end of an exchange without a response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unanswered {
    pub(super) failure: Failure,
    /// Whether any byte of the request was sent.
    pub(super) sent: bool,
    pub(super) idempotent: bool,
    /// Whether the connection has completed other exchanges.
    pub(super) served: bool,
}

/// A permission to send a request again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    /// A counted retry; at most one per exchange.
    Only,
    /// A retry that is not counted: the server has not processed this request, but has answered others.
    Uncounted,
}

impl Exchange {
    /// Creates an exchange that was planned for a member of a page and is not yet requested. `user` is the index of its
    /// user in the loop, `member` the index in the page.
    pub(super) fn planned(
        planned: Instant,
        user: u32,
        page: u32,
        member: u16,
        target: u32,
    ) -> Exchange {
        Exchange {
            request: RequestId::default(),
            planned,
            due: Instant::ZERO,
            sent: Instant::ZERO,
            first_byte: Instant::ZERO,
            target,
            page,
            user,
            head: 0,
            fields: 0,
            content: Bytes(0),
            member,
            status: 0,
            retried: false,
            overdue: false,
        }
    }

    /// Creates the same exchange for another page, which has one member.
    pub(super) fn for_page(self, page: u32, target: u32) -> Exchange {
        Exchange {
            page,
            target,
            ..self
        }
    }

    /// Records that a connection has queued the request. `content` is the length of its content.
    pub(super) fn queued(&mut self, queued: &Queued, content: Bytes) {
        self.request = queued.request;
        self.head = queued.head.0 as u32;
        self.fields = queued.fields.0 as u32;
        self.content = content;
        self.first_byte = Instant::ZERO;
        self.status = 0;
    }

    /// Records that the request could not be sent before `from`, nor before its planned instant. Does nothing if the
    /// request was already sent.
    pub(super) fn could_leave(&mut self, from: Instant) {
        if !self.is_sent() {
            self.due = self.due.max(self.planned).max(from);
        }
    }

    /// Records that the first byte was handed to the kernel. Returns whether this was the first attempt.
    pub(super) fn leaves(&mut self, now: Instant) -> bool {
        let is_first = !self.is_sent();
        if is_first {
            self.sent = now;
        }
        is_first
    }

    /// Records the arrival of the first byte of the response.
    pub(super) fn response_begins(&mut self, now: Instant) {
        self.first_byte = now;
    }

    pub(super) fn has_status(&mut self, status: u16) {
        self.status = status;
    }

    /// Records that the exchange has timed out; the caller cancels its stream.
    pub(super) fn times_out(&mut self) {
        self.overdue = true;
    }

    /// Returns the permission to send the request again, if any. A request is not retried after its time-out. It is
    /// also not retried if the server may have processed it and a repetition is not safe.
    ///
    /// If a connection has served other requests and is closed without any data, it was idle for too long. A request
    /// that the server refused without processing may be sent on another connection. If the connection of the refused
    /// request has served others, there is progress; so the retry is not counted, and the number of such retries has no
    /// limit.
    pub(super) fn retry(&self, end: &Unanswered, now: Instant, timeout: Duration) -> Option<Retry> {
        let is_silent = matches!(end.failure, Failure::ClosedEarly | Failure::Reset);
        let is_refused =
            matches!(end.failure, Failure::GoneAway | Failure::StreamReset) && !end.sent;
        let is_safe = end.served && is_silent && (end.idempotent || !end.sent) || is_refused;
        let has_time = !self.overdue && !self.is_overdue(now, timeout);
        match is_refused && end.served {
            _ if !is_safe || !has_time => None,
            true => Some(Retry::Uncounted),
            false => (!self.retried).then_some(Retry::Only),
        }
    }

    /// Records a retry.
    pub(super) fn retried(&mut self, retry: Retry) {
        self.retried |= retry == Retry::Only;
    }

    /// Returns the instant at which the exchange times out, in any state.
    pub(super) fn overdue_at(&self, timeout: Duration) -> Instant {
        self.planned + timeout
    }

    /// Returns whether the exchange has timed out.
    pub(super) fn is_overdue(&self, now: Instant, timeout: Duration) -> bool {
        self.overdue_at(timeout) <= now
    }

    /// Returns whether the exchange was cancelled because it timed out.
    pub(super) fn has_timed_out(&self) -> bool {
        self.overdue
    }

    /// Returns the request's number on its connection.
    pub(super) fn request(&self) -> RequestId {
        self.request
    }

    pub(super) fn planned_at(&self) -> Instant {
        self.planned
    }

    /// Returns the time from which the request could be sent; zero if it never could.
    pub(super) fn due_at(&self) -> Instant {
        self.due
    }

    /// Returns the time at which the first byte was sent; zero if none was.
    pub(super) fn sent_at(&self) -> Instant {
        self.sent
    }

    pub(super) fn is_sent(&self) -> bool {
        self.sent > Instant::ZERO
    }

    /// Returns the time at which the first byte of the response arrived; zero before that.
    pub(super) fn first_byte_at(&self) -> Instant {
        self.first_byte
    }

    pub(super) fn is_answered(&self) -> bool {
        self.first_byte > Instant::ZERO
    }

    pub(super) fn target(&self) -> u32 {
        self.target
    }

    pub(super) fn page(&self) -> u32 {
        self.page
    }

    /// Returns the index of the user in the loop.
    pub(super) fn user(&self) -> u32 {
        self.user
    }

    /// Returns the index of the member in its page.
    pub(super) fn member(&self) -> u16 {
        self.member
    }

    /// Returns the status of the response; zero before it arrives.
    pub(super) fn status(&self) -> u16 {
        self.status
    }

    /// Returns the size of the request's header section on the wire, in bytes.
    pub(super) fn head(&self) -> u32 {
        self.head
    }

    /// Returns the size of the request's fields before compression, in bytes.
    pub(super) fn fields(&self) -> u32 {
        self.fields
    }

    /// Returns the size of the request's content.
    pub(super) fn content(&self) -> Bytes {
        self.content
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_nanos(100);

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn exchange() -> Exchange {
        Exchange::planned(at(50), 0, 0, 0, 0)
    }

    /// The end of an idle connection, without a response to a request that is safe to repeat.
    const IDLE: Unanswered = Unanswered {
        failure: Failure::Reset,
        sent: true,
        idempotent: true,
        served: true,
    };

    /// A request that the server reports as not processed.
    const REFUSED: Unanswered = Unanswered {
        failure: Failure::GoneAway,
        sent: false,
        idempotent: false,
        served: true,
    };

    #[test]
    fn a_retry_keeps_the_instants_of_the_first_attempt() {
        let mut exchange = exchange();
        exchange.could_leave(at(40));
        assert_eq!(exchange.due_at(), at(50), "not before its plan");
        exchange.could_leave(at(60));
        assert_eq!((exchange.due_at(), exchange.is_sent()), (at(60), false));
        exchange.could_leave(at(55));
        assert_eq!(exchange.due_at(), at(60), "the later of two waits");
        assert!(exchange.leaves(at(61)));
        exchange.response_begins(at(70));
        let queued = Queued {
            request: RequestId(7),
            head: Bytes(80),
            fields: Bytes(90),
        };
        exchange.queued(&queued, Bytes(3));
        exchange.could_leave(at(80));
        assert!(!exchange.leaves(at(81)));
        assert_eq!((exchange.due_at(), exchange.sent_at()), (at(60), at(61)));
        assert!(!exchange.is_answered());
        assert_eq!(exchange.request(), RequestId(7));
    }

    #[test]
    fn an_exchange_is_retried_once_after_an_idle_connection_ended() {
        let mut exchange = exchange();
        assert_eq!(exchange.retry(&IDLE, at(60), TIMEOUT), Some(Retry::Only));
        exchange.retried(Retry::Only);
        assert_eq!(exchange.retry(&IDLE, at(60), TIMEOUT), None);
        // If a server refuses a request but answers others, the number of retries has no limit.
        let uncounted = Some(Retry::Uncounted);
        assert_eq!(exchange.retry(&REFUSED, at(60), TIMEOUT), uncounted);
        exchange.retried(Retry::Uncounted);
        assert_eq!(exchange.retry(&REFUSED, at(60), TIMEOUT), uncounted);
        let first = Unanswered {
            served: false,
            ..REFUSED
        };
        assert_eq!(exchange.retry(&first, at(60), TIMEOUT), None);
        assert_eq!(
            self::exchange().retry(&first, at(60), TIMEOUT),
            Some(Retry::Only)
        );
    }

    #[test]
    fn nothing_is_retried_that_the_server_may_have_carried_out_or_that_has_timed_out() {
        let exchange = exchange();
        for end in [
            Unanswered {
                idempotent: false,
                ..IDLE
            },
            Unanswered {
                served: false,
                ..IDLE
            },
            Unanswered {
                failure: Failure::TimedOut,
                ..IDLE
            },
            Unanswered {
                sent: true,
                ..REFUSED
            },
        ] {
            assert_eq!(exchange.retry(&end, at(60), TIMEOUT), None, "{end:?}");
        }
        let unsent = Unanswered {
            idempotent: false,
            sent: false,
            ..IDLE
        };
        assert!(exchange.retry(&unsent, at(149), TIMEOUT).is_some());
        assert!(exchange.retry(&unsent, at(150), TIMEOUT).is_none());
        let mut cancelled = exchange;
        cancelled.times_out();
        assert!(cancelled.retry(&REFUSED, at(60), TIMEOUT).is_none());
    }
}
