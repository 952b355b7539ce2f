//! Why connections end.

use crate::h2::error::{ErrorCode, Fault};

/// Why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// The client sent GOAWAY without an error, and has received its responses.
    ClientRequested,
    /// The client sent GOAWAY with this error code.
    ClientFailed(ErrorCode),
    /// The client closed its side, and has received its responses.
    ClientFinished,
    /// The client closed its side within a frame, a request or its preface.
    ClientTruncated,
    /// The client violated HTTP/2, or exceeded a limit.
    Refused(Fault),
    /// The limit on requests of one connection was reached.
    RequestLimit,
    /// The client sent no request for too long.
    IdleTimeout,
    /// A frame, or the preface, did not arrive in time.
    HeaderTimeout,
    /// The client's transport takes no bytes.
    SendTimeout,
    /// The client's windows allow no content.
    WindowStall,
    /// The server shuts down.
    ServerEnds,
    /// A file became shorter than announced while it was sent.
    ContentLost,
    /// The transport failed, as reported by the caller.
    TransportFailed,
}

impl CloseReason {
    /// The error code of the GOAWAY to the client.
    pub const fn code(self) -> ErrorCode {
        match self {
            CloseReason::Refused(fault) => fault.code(),
            CloseReason::WindowStall => ErrorCode::ENHANCE_YOUR_CALM,
            CloseReason::ContentLost => ErrorCode::INTERNAL_ERROR,
            _ => ErrorCode::NO_ERROR,
        }
    }
}
