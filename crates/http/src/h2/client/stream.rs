//! The state of one request.

use fathometer_model::{Failure, Instant};

use crate::exchange::{Received, RequestId};
use crate::h2::StreamId;
use crate::h2::flow::{ReceiveWindow, Window};

/// A request without a complete response.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) head_method: bool,
    pub(super) idempotent: bool,
    pub(super) answer: Answer,
    pub(super) interims: u16,
    pub(super) received: Received,
    /// When the request's first byte was handed to the transport; for a push, when it was promised.
    pub(super) sent: Option<Instant>,
    pub(super) send: Window,
    pub(super) receive: ReceiveWindow,
    pub(super) upload: Upload,
}

/// The progress of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing has arrived.
    None,
    /// Something has arrived, but not the final head.
    Begun,
    /// The final head has arrived; the value is the number of content bytes still to come, if announced.
    Content(Option<u64>),
}

/// The content of a request.
#[derive(Debug, Default)]
pub(super) struct Upload {
    pub(super) state: UploadState,
    /// Bytes that the caller has not passed yet; `None` when the length was not announced.
    pub(super) remaining: Option<u64>,
    /// Content that the caller has passed and that is not in a frame yet, because the windows block it.
    pub(super) backlog: Vec<u8>,
    /// Bytes at the start of the backlog that are in frames.
    pub(super) framed: usize,
    /// Bytes at the start of the backlog that may be sent.
    pub(super) released: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum UploadState {
    /// The request has no content, or all of it is in frames.
    #[default]
    Done,
    /// The request waits for 100 (Continue).
    AwaitsContinue,
    /// The caller may pass more content.
    Open,
    /// The caller has passed all content.
    Given,
}

impl Upload {
    /// Whether content waits for a window.
    pub(super) fn is_blocked(&self) -> bool {
        self.framed < self.backlog.len()
    }
}

impl Stream {
    /// Whether any part of the response was reported.
    pub(super) fn is_begun(&self) -> bool {
        self.answer != Answer::None
    }
}

/// The number of a stream on the wire.
pub(super) const fn stream_of(request: RequestId) -> StreamId {
    match request.is_pushed() {
        true => StreamId::new(request.0 << 1),
        false => StreamId::new(request.0 << 1 | 1),
    }
}

/// The request of a stream; the stream must not be the connection.
pub(super) const fn request_of(stream: StreamId) -> RequestId {
    let number = stream.number() >> 1;
    match stream.is_client() {
        true => RequestId(number),
        false => RequestId::pushed(number),
    }
}

/// The failures to report when the connection ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending {
    /// The failure of responses that have begun.
    pub(super) begun: Failure,
    /// The failure of requests without any part of a response.
    pub(super) unanswered: Failure,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_ids_and_request_ids_convert_both_ways() {
        for (number, request) in [
            (1, RequestId(0)),
            (3, RequestId(1)),
            (0x7fff_ffff, RequestId(0x3fff_ffff)),
            (2, RequestId::pushed(1)),
            (0x7fff_fffe, RequestId::pushed(0x3fff_ffff)),
        ] {
            assert_eq!(request_of(StreamId::new(number)), request);
            assert_eq!(stream_of(request), StreamId::new(number));
        }
        assert!(RequestId::pushed(1).is_pushed() && !RequestId(1).is_pushed());
    }
}
