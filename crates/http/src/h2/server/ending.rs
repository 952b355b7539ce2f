//! The end of a connection: GOAWAY, the last responses, and the close of both sides (RFC 9113 sections 5.4.1 and 6.8).

use std::time::Duration;

use fathometer_model::Instant;

use super::reason::CloseReason;
use crate::exchange::{Action, CloseManner};
use crate::h2::StreamId;

/// The maximum time for which a server that shuts down waits for the client's close.
const ENDING_LINGER: Duration = Duration::from_secs(1);

/// The progress of the end of a connection.
///
/// Invariants: the phase only moves forward, and each action is returned once. The reason is set in every phase except
/// `Open`, and never changes.
#[derive(Debug)]
pub(super) struct Ending {
    phase: Phase,
    leaving: Leaving,
    reason: Option<CloseReason>,
    action: Option<Action>,
    /// Whether the client has closed its side.
    peer_finished: bool,
    /// Bytes discarded since the connection stopped reading.
    discarded: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Frames are read, or output remains to be sent.
    Open,
    /// The sending side is closed. The receiving side stays open until this time at most.
    Lingering { until: Instant },
    /// Both sides are closed.
    Closed,
}

/// The progress of a graceful shutdown by the server (section 6.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaving {
    No,
    /// GOAWAY with the largest stream number was sent, followed by a PING.
    Announced,
    /// GOAWAY with this stream number was sent; higher streams are ignored.
    Above(StreamId, CloseReason),
}

impl Ending {
    pub fn new() -> Ending {
        Ending {
            phase: Phase::Open,
            leaving: Leaving::No,
            reason: None,
            action: None,
            peer_finished: false,
            discarded: 0,
        }
    }

    /// Whether the sending side is open.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Whether both sides are closed.
    pub fn is_closed(&self) -> bool {
        self.phase == Phase::Closed
    }

    /// Whether frames are read and responses are generated.
    pub fn is_active(&self) -> bool {
        self.is_open() && self.reason.is_none()
    }

    /// Whether both sides are closed and the last action was taken.
    pub fn is_finished(&self) -> bool {
        self.is_closed() && self.action.is_none()
    }

    /// The reason for the end of the connection; `None` before the end is decided.
    pub fn reason(&self) -> Option<CloseReason> {
        self.reason
    }

    /// Removes and returns the next action.
    pub fn take_action(&mut self) -> Option<Action> {
        self.action.take()
    }

    /// Whether no graceful shutdown has begun.
    pub fn is_staying(&self) -> bool {
        self.leaving == Leaving::No
    }

    /// Whether the shutdown was announced, and the GOAWAY with the last stream number has not been sent yet.
    pub fn is_announced(&self) -> bool {
        self.leaving == Leaving::Announced
    }

    /// Whether new streams of the client are accepted.
    pub fn accepts_streams(&self) -> bool {
        !matches!(self.leaving, Leaving::Above(..))
    }

    /// Whether frames on this stream are ignored, because it is above the last accepted stream.
    pub fn ignores(&self, id: StreamId) -> bool {
        matches!(self.leaving, Leaving::Above(last, _) if id.is_client() && id > last)
    }

    /// The reason why the connection closes after its last stream has ended.
    pub fn leaving_for(&self) -> Option<CloseReason> {
        match self.leaving {
            Leaving::Above(_, reason) => Some(reason),
            Leaving::No | Leaving::Announced => None,
        }
    }

    /// Notes that the server will shut down soon. Returns whether the announcement must be sent.
    #[must_use]
    pub fn announce(&mut self) -> bool {
        let is_new = self.is_staying() && self.is_active();
        if is_new {
            self.leaving = Leaving::Announced;
        }
        is_new
    }

    /// Ends the acceptance of streams above `last`. Returns whether GOAWAY must be sent.
    #[must_use]
    pub fn leave(&mut self, last: StreamId, reason: CloseReason) -> bool {
        let is_new = self.accepts_streams();
        if is_new {
            self.leaving = Leaving::Above(last, reason);
        }
        is_new
    }

    /// Like [`leave`](Self::leave), but because of a fault: GOAWAY is sent even after an earlier GOAWAY. Returns false
    /// if the end was already decided.
    #[must_use]
    pub fn refuse(&mut self, last: StreamId, reason: CloseReason) -> bool {
        let is_new = self.reason.is_none();
        if is_new {
            self.leaving = Leaving::Above(last, reason);
        }
        is_new
    }

    /// Decides the end: no more input is read, and no more requests are answered.
    pub fn stop(&mut self, reason: CloseReason) {
        self.reason.get_or_insert(reason);
    }

    /// Closes both directions. The caller then performs `action`. The close reason must already be set.
    pub fn finish(&mut self, action: Action) {
        debug_assert!(self.reason.is_some(), "the close reason is not set");
        self.action = Some(action);
        self.phase = Phase::Closed;
    }

    /// Closes without an action, because the transport failed.
    pub fn fail(&mut self) {
        self.stop(CloseReason::TransportFailed);
        self.action = None;
        self.phase = Phase::Closed;
    }

    /// Notes that the client has closed its side.
    pub fn finish_peer(&mut self) {
        self.peer_finished = true;
    }

    /// Whether the client has closed its side.
    pub fn is_peer_finished(&self) -> bool {
        self.peer_finished
    }

    /// Counts discarded input.
    pub fn discard(&mut self, bytes: usize) {
        self.discarded += bytes as u64;
    }

    /// Whether to read input after the end was decided. At most `most` bytes are read and discarded.
    pub fn wants_rest(&self, manner: CloseManner, most: u64) -> bool {
        match self.phase {
            Phase::Open => manner == CloseManner::HalfThenDrain && self.discarded <= most,
            Phase::Lingering { .. } => true,
            Phase::Closed => false,
        }
    }

    /// The latest time at which the receiving side closes; `None` unless the connection lingers.
    pub fn lingers_until(&self) -> Option<Instant> {
        match self.phase {
            Phase::Lingering { until } => Some(until),
            Phase::Open | Phase::Closed => None,
        }
    }

    /// Shortens the wait for the client's close, because the server shuts down.
    pub fn hurry(&mut self, now: Instant) {
        if let Phase::Lingering { until } = &mut self.phase {
            *until = (*until).min(now + ENDING_LINGER);
        }
    }

    /// Closes the sending side after the last output. Closes the receiving side when the client has closed it, or after
    /// more than `most` bytes.
    pub fn advance(
        &mut self,
        is_all_sent: bool,
        manner: CloseManner,
        linger: Duration,
        most: u64,
        now: Instant,
    ) {
        let Some(reason) = self.reason else {
            return;
        };
        match self.phase {
            Phase::Open if !is_all_sent => {}
            Phase::Open if manner == CloseManner::Full || self.peer_finished => {
                self.finish(Action::Close);
            }
            Phase::Open => {
                let linger = match reason {
                    CloseReason::ServerEnds => linger.min(ENDING_LINGER),
                    _ => linger,
                };
                self.action = Some(Action::ShutdownWrite);
                self.phase = Phase::Lingering {
                    until: now + linger,
                };
            }
            Phase::Lingering { .. } if self.peer_finished || self.discarded > most => {
                self.finish(Action::Close);
            }
            Phase::Lingering { .. } | Phase::Closed => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINGER: Duration = Duration::from_secs(10);
    const DRAIN: CloseManner = CloseManner::HalfThenDrain;

    #[test]
    fn a_graceful_shutdown_is_sent_in_two_steps_and_ignores_later_streams() {
        let mut ending = Ending::new();
        assert!(ending.announce() && !ending.announce());
        assert!(ending.is_announced() && ending.accepts_streams());
        let (last, reason) = (StreamId::new(5), CloseReason::ServerEnds);
        assert!(ending.leave(last, reason));
        assert!(!ending.leave(StreamId::new(9), CloseReason::ClientRequested));
        assert!(ending.ignores(StreamId::new(7)) && !ending.ignores(last));
        assert!(
            !ending.ignores(StreamId::new(8)),
            "open pushes are still completed"
        );
        assert_eq!(ending.leaving_for(), Some(reason));
        assert_eq!(ending.reason(), None, "responses must still be sent");
    }

    #[test]
    fn a_fault_is_sent_after_a_graceful_goaway_and_once() {
        let mut ending = Ending::new();
        let last = StreamId::new(1);
        assert!(ending.leave(last, CloseReason::ClientRequested));
        assert!(ending.refuse(last, CloseReason::WindowStall));
        ending.stop(CloseReason::WindowStall);
        assert!(!ending.refuse(last, CloseReason::SendTimeout));
        ending.stop(CloseReason::SendTimeout);
        assert_eq!(ending.reason(), Some(CloseReason::WindowStall));
    }

    #[test]
    fn the_sending_side_closes_first_and_the_receiving_side_in_time() {
        let now = Instant::ZERO;
        let mut ending = Ending::new();
        ending.advance(true, DRAIN, LINGER, 100, now);
        assert!(ending.is_active() && ending.take_action().is_none());
        ending.stop(CloseReason::ServerEnds);
        ending.advance(false, DRAIN, LINGER, 100, now);
        assert!(ending.is_open() && ending.wants_rest(DRAIN, 100));
        ending.advance(true, DRAIN, LINGER, 100, now);
        assert_eq!(ending.take_action(), Some(Action::ShutdownWrite));
        assert_eq!(ending.lingers_until(), Some(now + ENDING_LINGER));
        ending.discard(101);
        ending.advance(true, DRAIN, LINGER, 100, now);
        assert!(ending.is_closed() && !ending.is_finished());
        assert_eq!(ending.take_action(), Some(Action::Close));
        assert!(ending.is_finished());
    }

    #[test]
    fn both_sides_close_at_once_if_configured_or_half_closed_by_the_client() {
        for (manner, peer_finished) in [(CloseManner::Full, false), (DRAIN, true)] {
            let mut ending = Ending::new();
            if peer_finished {
                ending.finish_peer();
            }
            ending.stop(CloseReason::ClientFinished);
            ending.advance(true, manner, LINGER, 100, Instant::ZERO);
            assert_eq!(ending.take_action(), Some(Action::Close));
            assert!(ending.is_finished());
        }
        let mut ending = Ending::new();
        ending.stop(CloseReason::ClientFinished);
        ending.fail();
        assert!(ending.is_finished());
        assert_eq!(ending.reason(), Some(CloseReason::ClientFinished));
    }
}
