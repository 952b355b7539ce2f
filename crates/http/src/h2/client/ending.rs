//! The end of requests and connections.

use fathometer_model::{CloseReason, Failure};

use super::connection::{Core, MOST_REQUESTS, Phase};
use super::stream::{Ending, Stream, UploadState, stream_of};
use crate::exchange::{Event, RequestId};
use crate::h2::error::{ConnectionError, ErrorCode, Fault};
use crate::h2::frame::write;

/// The maximum number of remembered stream resets.
const MOST_RESETS: usize = 256;

/// The maximum number of upload buffers that are stored for reuse.
const MOST_SPARE: usize = 16;

impl Core {
    /// Ends a stream whose response is complete.
    pub(super) fn end_stream(&mut self, request: RequestId) {
        let Some(stream) = self.remove(request) else {
            return;
        };
        if stream.upload.state != UploadState::Done {
            // The response is complete, so the server does not need the remaining content (RFC 9113 section 8.1).
            self.reset(request, ErrorCode::CANCEL);
        }
        self.notes.push_back(Event::End {
            request,
            received: stream.received,
            persists: self.accepts_requests(),
        });
        self.recycle(stream);
        self.close_when_drained();
    }

    /// Resets a stream and reports its request, unless the request has already ended.
    pub(super) fn fail_stream(&mut self, request: RequestId, code: ErrorCode, failure: Failure) {
        if self.streams.get(request).is_some() {
            self.reset(request, code);
            self.lose_stream(request, failure, true);
        }
    }

    /// Reports a request whose stream is closed. `acted`: whether the server may have processed the request, if the
    /// request was sent.
    pub(super) fn lose_stream(&mut self, request: RequestId, failure: Failure, acted: bool) {
        let Some(stream) = self.remove(request) else {
            return;
        };
        let persists = self.accepts_requests();
        let sent = acted && stream.sent.is_some();
        let event = ended(request, &stream, failure, sent, persists);
        self.notes.push_back(event);
        self.recycle(stream);
        self.close_when_drained();
    }

    /// Resets a stream. If output of the stream is held, RST_STREAM is queued after it.
    pub(super) fn reset(&mut self, request: RequestId, code: ErrorCode) {
        let stream = stream_of(request);
        let output = &mut self.output;
        let behind = output.holds(stream);
        let out = if behind {
            &mut output.held
        } else {
            &mut output.ready
        };
        let before = out.len();
        write::reset(out, stream, code);
        let bytes = out.len() - before;
        if !behind {
            output.answered(bytes);
        }
        if self.resets.len() == MOST_RESETS {
            self.resets.pop_front();
            self.resets_overflowed = true;
        }
        self.resets.push_back(request);
    }

    pub(super) fn go_away(&mut self, code: ErrorCode) {
        write::go_away(&mut self.output.ready, self.last_promised, code, &[]);
    }

    /// Closes the connection because of an error of the server.
    pub(super) fn fail(&mut self, fault: Fault) {
        if !self.is_open() {
            return;
        }
        let error = ConnectionError::from(fault);
        self.error = Some(error);
        self.output.drop_held();
        self.go_away(error.code);
        let failure = failure_of(fault);
        let ending = Ending {
            begun: failure,
            unanswered: failure,
        };
        self.close(CloseReason::Failed(failure), ending);
    }

    pub(super) fn end_of_stream(&mut self) {
        if !self.is_open() {
            return;
        }
        let sent = self.streams.iter().any(|(_, stream)| stream.sent.is_some());
        let reason = match self.end {
            Some((_, code)) if code != ErrorCode::NO_ERROR => {
                CloseReason::Failed(Failure::GoneAway)
            }
            _ if sent => CloseReason::ServerEarly,
            Some(_) => CloseReason::ServerAsked,
            None => CloseReason::ServerIdle,
        };
        let unanswered = match reason {
            CloseReason::Failed(failure) => failure,
            _ => Failure::ClosedEarly,
        };
        let ending = Ending {
            begun: Failure::Truncated,
            unanswered,
        };
        self.close(reason, ending);
        self.output.drop_all();
    }

    /// Closes a connection after its last event.
    pub(super) fn close_when_drained(&mut self) {
        if !self.is_open() || !self.streams.is_empty() {
            return;
        }
        let reason = match self.end {
            Some((_, ErrorCode::NO_ERROR)) => CloseReason::ServerAsked,
            Some(_) => CloseReason::Failed(Failure::GoneAway),
            None if self.next_request.0 < MOST_REQUESTS => return,
            None => CloseReason::Finished,
        };
        let ending = Ending {
            begun: Failure::GoneAway,
            unanswered: Failure::GoneAway,
        };
        self.close(reason, ending);
    }

    /// Starts the close. [`close_step`](Self::close_step) reports the remaining requests, the oldest first.
    pub(super) fn close(&mut self, reason: CloseReason, ending: Ending) {
        let mut left: Vec<RequestId> = self.streams.iter().map(|(request, _)| request).collect();
        left.sort_unstable_by(|one, other| other.cmp(one));
        self.phase = Phase::Closing {
            reason,
            ending,
            left,
        };
    }

    /// Returns the next event of a closing connection.
    pub(super) fn close_step(&mut self) -> Option<Event<'static>> {
        let Phase::Closing {
            reason,
            ending,
            left,
        } = &mut self.phase
        else {
            return None;
        };
        let (reason, ending) = (*reason, *ending);
        while let Some(request) = left.pop() {
            if let Some(stream) = self.streams.remove(request) {
                self.asked -= u32::from(!request.is_pushed());
                self.pushed -= u32::from(request.is_pushed());
                let failure = match stream.is_begun() {
                    true => ending.begun,
                    false => ending.unanswered,
                };
                let sent = stream.sent.is_some();
                return Some(ended(request, &stream, failure, sent, false));
            }
        }
        self.phase = Phase::Closed(reason);
        Some(Event::Closed { reason })
    }

    fn remove(&mut self, request: RequestId) -> Option<Stream> {
        let stream = self.streams.remove(request)?;
        match request.is_pushed() {
            true => self.pushed -= 1,
            false => self.asked -= 1,
        }
        if !self.continuing.is_empty() {
            self.continuing.retain(|&(other, _)| other != request);
        }
        if stream.upload.is_blocked() {
            self.blocked.retain(|&other| other != request);
        }
        Some(stream)
    }

    fn recycle(&mut self, mut stream: Stream) {
        let buffer = &mut stream.upload.backlog;
        if buffer.capacity() > 0 && self.spare.len() < MOST_SPARE {
            buffer.clear();
            self.spare.push(std::mem::take(buffer));
        }
    }
}

/// Returns the event for a request that ends without a complete response.
fn ended(
    request: RequestId,
    stream: &Stream,
    failure: Failure,
    sent: bool,
    persists: bool,
) -> Event<'static> {
    match stream.is_begun() {
        true => Event::Failed {
            request,
            failure,
            received: stream.received,
            persists,
        },
        false => Event::Unanswered {
            request,
            failure,
            sent,
            idempotent: stream.idempotent,
            persists,
        },
    }
}

/// Maps a fault to the failure that all HTTP versions use.
pub(super) const fn failure_of(fault: Fault) -> Failure {
    match fault {
        Fault::SettingsTimeout => Failure::TimedOut,
        Fault::BlockTooLong
        | Fault::ResetFlood
        | Fault::ProvokedResets
        | Fault::AnswerFlood
        | Fault::IdleFrames
        | Fault::OutputFlood => Failure::TooLarge,
        _ => Failure::BadResponse,
    }
}
