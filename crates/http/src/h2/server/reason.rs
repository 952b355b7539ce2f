//! Reasons for the close of a connection.

use crate::h2::error::{ErrorCode, Fault};

/// The reason for the close of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// The client sent GOAWAY with NO_ERROR and has received its responses.
    ClientRequested,
    /// The client sent GOAWAY with this error code.
    ClientFailed(ErrorCode),
    /// The client closed its sending side and has received its responses.
    ClientFinished,
    /// The client closed its sending side within a frame, a request or the preface.
    ClientTruncated,
    /// The client violated the protocol or exceeded a limit.
    Refused(Fault),
    /// The maximum number of requests on one connection was reached.
    RequestLimit,
    /// The client sent no request within the idle time-out.
    IdleTimeout,
    /// A frame or the preface was not complete in time.
    HeaderTimeout,
    /// The transport took no bytes within the time-out.
    SendTimeout,
    /// The client's windows allowed too little content within the time-out.
    WindowStall,
    /// The server shuts down.
    ServerEnds,
    /// A file was truncated while it was sent.
    ContentLost,
    /// The caller reported that the transport failed.
    TransportFailed,
}

impl CloseReason {
    /// The error code of the GOAWAY that the client receives.
    pub const fn code(self) -> ErrorCode {
        match self {
            CloseReason::Refused(fault) => fault.code(),
            CloseReason::WindowStall => ErrorCode::ENHANCE_YOUR_CALM,
            CloseReason::ContentLost => ErrorCode::INTERNAL_ERROR,
            _ => ErrorCode::NO_ERROR,
        }
    }
}
