//! The start of streams, and the end of the connection.

use fathometer_model::Instant;

use super::{CloseReason, Connection};
use crate::exchange::RequestId;
use crate::h3::frame::{self, FrameType};
use crate::h3::{Action, ErrorCode, Fault, Priority, request_of, varint};

/// The largest ID of a request stream.
const LARGEST_REQUEST: u64 = varint::LARGEST - 3;

impl Connection {
    /// Returns the request on a stream; opens the request if the stream is new. `None` if the request is finished or
    /// rejected.
    pub(super) fn open(&mut self, stream: u64, now: Instant) -> Option<RequestId> {
        let request = request_of(stream)?;
        if self.streams.get(request).is_some() {
            return Some(request);
        }
        match self.arrivals.arrive(stream) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(fault) => {
                self.fail(fault);
                return None;
            }
        }
        if self.ending.rejects(stream) {
            let code = ErrorCode::REQUEST_REJECTED;
            self.ending.act(Action::Reset { stream, code });
            self.ending.act(Action::StopSending { stream, code });
            self.critical.decoder.cancel(stream);
            return None;
        }
        let open = self.streams.open(request, now)?;
        if let Some(priority) = self.arrivals.take_priority(stream) {
            open.priority = priority;
            open.has_priority = true;
        }
        Some(request)
    }

    /// Applies a changed priority of the response on a stream.
    pub(super) fn reprioritize(&mut self, stream: u64, priority: Priority) {
        let Some(request) = request_of(stream) else {
            return;
        };
        match self.streams.get_mut(request) {
            Some(open) => {
                open.has_priority = true;
                self.sending.reprioritize(stream, open, priority);
            }
            None => self.arrivals.set_priority(stream, priority),
        }
    }

    /// Announces the shutdown: sends GOAWAY with the largest identifier, so that the client starts no more requests.
    /// The host must continue to read until it calls [`end`](Self::end).
    pub fn announce_end(&mut self) {
        if self.ending.announce() {
            self.go_away(LARGEST_REQUEST);
        }
    }

    /// Shuts the server down. Requests that have begun to arrive are answered, and later requests are rejected. After
    /// the last answer, or immediately if there is no request, the connection closes.
    pub fn end(&mut self, _now: Instant) {
        let first = self.arrivals.next();
        if self.ending.reject_from(first) {
            self.go_away(first);
            self.leave();
        }
    }

    fn go_away(&mut self, first: u64) {
        frame::write_number(FrameType::GOAWAY, first, self.critical.control());
    }

    /// Handles a failure of the QUIC connection. No more events follow.
    pub fn handle_failure(&mut self) {
        self.ending.close(CloseReason::TransportFailed, None);
    }

    /// Handles a close of the QUIC connection by the client with an HTTP/3 error code.
    pub fn handle_peer_close(&mut self, _code: u64, _now: Instant) {
        self.ending.close(CloseReason::ClientClosed, None);
    }

    /// Closes the connection if the server shuts down and no request is in flight.
    pub(super) fn leave(&mut self) {
        if self.streams.is_empty() {
            self.ending.leave();
        }
    }

    /// Closes the connection after a protocol violation by the client.
    pub(super) fn fail(&mut self, fault: Fault) {
        self.ending
            .close(CloseReason::Fault(fault), Some(fault.code()));
    }
}
