//! The end of a connection: GOAWAY, the last responses, and the close (RFC 9114 section 5.2).

use std::collections::VecDeque;

use crate::h3::{Action, ErrorCode, Fault};

/// The reason for the close of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The client closed the connection.
    ClientClosed,
    /// The server shut down.
    ServerEnds,
    /// The maximum number of requests on one connection was reached.
    RequestLimit,
    /// No data arrived within the idle time-out.
    IdleTimeout,
    /// The client violated the protocol.
    Fault(Fault),
    /// The host reported that the transport failed.
    TransportFailed,
}

/// The progress of the connection's end, and the actions for the host.
///
/// Invariants: the shutdown only moves forward, and the close reason never changes. A close is the last action. If the
/// close reports an error, all earlier actions are dropped.
#[derive(Debug)]
pub(super) struct Ending {
    leaving: Leaving,
    /// The reason for the close after a shutdown, when no request is in flight.
    leave_reason: CloseReason,
    closed: Option<CloseReason>,
    /// Whether the connection closed without a fault, so that queued data is still sent.
    is_graceful: bool,
    actions: VecDeque<Action>,
}

/// The progress of the server's graceful shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    /// GOAWAY with the largest identifier was sent.
    Announced,
    /// Streams with this or a higher ID are rejected.
    From(u64),
}

impl Ending {
    pub fn new() -> Ending {
        Ending {
            leaving: Leaving::No,
            leave_reason: CloseReason::ServerEnds,
            closed: None,
            is_graceful: false,
            actions: VecDeque::new(),
        }
    }

    /// Whether the connection is not closed.
    pub fn is_open(&self) -> bool {
        self.closed.is_none()
    }

    /// Whether output is still sent: true until the close, and after a graceful close.
    pub fn is_sending(&self) -> bool {
        self.is_open() || self.is_graceful
    }

    /// Whether the connection is closed and the last action was taken.
    pub fn is_finished(&self) -> bool {
        !self.is_open() && self.actions.is_empty()
    }

    /// The reason for the close of the connection; `None` while it is open.
    pub fn reason(&self) -> Option<CloseReason> {
        self.closed
    }

    /// Adds an action on a stream, unless the connection is closed.
    pub fn act(&mut self, action: Action) {
        if self.is_open() {
            self.actions.push_back(action);
        }
    }

    /// Removes and returns the next action.
    pub fn take_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Announces the shutdown. Returns whether GOAWAY must be sent.
    pub fn announce(&mut self) -> bool {
        let begins = self.is_open() && self.leaving == Leaving::No;
        if begins {
            self.leaving = Leaving::Announced;
        }
        begins
    }

    /// Rejects streams with the ID `first` or higher. Returns whether GOAWAY must be sent.
    pub fn reject_from(&mut self, first: u64) -> bool {
        let begins = self.is_open() && !self.is_leaving();
        if begins {
            self.leaving = Leaving::From(first);
        }
        begins
    }

    /// Sets the close reason that applies after a shutdown.
    pub fn leave_for(&mut self, reason: CloseReason) {
        self.leave_reason = reason;
    }

    /// Whether new streams are rejected.
    fn is_leaving(&self) -> bool {
        matches!(self.leaving, Leaving::From(_))
    }

    /// Whether a request on this stream is rejected.
    pub fn rejects(&self, stream: u64) -> bool {
        matches!(self.leaving, Leaving::From(first) if stream >= first)
    }

    /// Closes the connection if the server shuts down. Called when no request is in flight.
    pub fn leave(&mut self) {
        if self.is_leaving() {
            self.close(self.leave_reason, Some(ErrorCode::NO_ERROR));
        }
    }

    /// Closes the connection. If `code` is given, the transport is closed with this error code.
    pub fn close(&mut self, reason: CloseReason, code: Option<ErrorCode>) {
        if !self.is_open() {
            return;
        }
        self.closed = Some(reason);
        // Before a graceful close, actions on single streams are still performed.
        self.is_graceful = code == Some(ErrorCode::NO_ERROR);
        if !self.is_graceful {
            self.actions.clear();
        }
        if let Some(code) = code {
            self.actions.push_back(Action::Close { code });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESET: Action = Action::Reset {
        stream: 4,
        code: ErrorCode::REQUEST_REJECTED,
    };
    const CLOSE: Action = Action::Close {
        code: ErrorCode::NO_ERROR,
    };

    #[test]
    fn a_shutdown_moves_forward_only() {
        let mut ending = Ending::new();
        assert!(ending.announce());
        assert!(!ending.announce(), "the shutdown is announced only once");
        assert!(!ending.rejects(8));
        assert!(ending.reject_from(8));
        assert!(
            !ending.reject_from(12),
            "a later GOAWAY does not raise the identifier"
        );
        assert!(ending.rejects(8) && !ending.rejects(4));
        assert!(!ending.announce());
        ending.leave();
        assert_eq!(ending.reason(), Some(CloseReason::ServerEnds));
        assert_eq!(ending.take_action(), Some(CLOSE));
        assert!(ending.is_finished());
    }

    #[test]
    fn a_graceful_close_comes_after_the_other_actions() {
        let mut ending = Ending::new();
        ending.act(RESET);
        ending.leave_for(CloseReason::RequestLimit);
        ending.leave();
        assert!(ending.is_open(), "the connection does not shut down yet");
        ending.reject_from(0);
        ending.leave();
        assert!(ending.is_sending());
        ending.act(RESET);
        assert_eq!(ending.take_action(), Some(RESET));
        assert_eq!(ending.take_action(), Some(CLOSE));
        assert_eq!(ending.take_action(), None, "a close is the last action");
        assert_eq!(ending.reason(), Some(CloseReason::RequestLimit));
    }

    #[test]
    fn after_a_fault_the_close_is_the_only_action() {
        let mut ending = Ending::new();
        ending.act(RESET);
        let reason = CloseReason::Fault(Fault::Flood);
        ending.close(reason, Some(Fault::Flood.code()));
        ending.close(CloseReason::ClientClosed, None);
        assert!(!ending.is_sending());
        assert_eq!(
            ending.reason(),
            Some(reason),
            "the first close reason does not change"
        );
        let code = Fault::Flood.code();
        assert_eq!(ending.take_action(), Some(Action::Close { code }));
        assert!(ending.is_finished());
    }
}
