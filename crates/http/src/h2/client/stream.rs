//! The state of one request.

use fathometer_model::{Failure, Instant};

use crate::exchange::{Received, RequestId};
use crate::h2::StreamId;
use crate::h2::flow::{ReceiveWindow, Window};

/// A request or push whose response is not complete.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) head_method: bool,
    pub(super) idempotent: bool,
    pub(super) answer: Answer,
    pub(super) interims: u16,
    pub(super) received: Received,
    /// The time at which the first byte of the request was handed to the transport; for a push, the time of the
    /// promise.
    pub(super) sent: Option<Instant>,
    pub(super) send: Window,
    pub(super) receive: ReceiveWindow,
    pub(super) upload: Upload,
}

/// The progress of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing has been received.
    None,
    /// A part of the response has been received, but not the final head.
    Begun,
    /// The final head has been received. The value is the number of content bytes not yet received, if the length was
    /// announced.
    Content(Option<u64>),
}

/// The content of a request.
#[derive(Debug, Default)]
pub(super) struct Upload {
    pub(super) state: UploadState,
    /// Content bytes that the caller still has to pass; `None` if the length was not announced.
    pub(super) remaining: Option<u64>,
    /// Content that the caller has passed and that the windows still block.
    pub(super) backlog: Vec<u8>,
    /// The number of backlog bytes, from the start, that are in frames.
    pub(super) framed: usize,
    /// The number of backlog bytes, from the start, that are released.
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

/// The stream number of a request on the wire.
pub(super) const fn stream_of(request: RequestId) -> StreamId {
    match request.is_pushed() {
        true => StreamId::new(request.0 << 1),
        false => StreamId::new(request.0 << 1 | 1),
    }
}

/// The request of a stream. The stream must not be 0 (the connection).
pub(super) const fn request_of(stream: StreamId) -> RequestId {
    let number = stream.number() >> 1;
    match stream.is_client() {
        true => RequestId(number),
        false => RequestId::pushed(number),
    }
}

/// The failures that are reported when the connection ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending {
    /// The failure of requests whose response has begun.
    pub(super) begun: Failure,
    /// The failure of requests whose response has not begun.
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
