//! Why connections end.

use crate::h2::error::{ErrorCode, Fault};

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// The client said GOAWAY and that nothing is wrong, and has its responses.
    ClientAsked,
    /// The client said GOAWAY with this code.
    ClientGaveUp(ErrorCode),
    /// The client closed its half, and has its responses.
    ClientFinished,
    /// The client closed its half within a frame, a request or its preface.
    ClientTruncated,
    /// The client did what HTTP/2 forbids, or more than it may.
    Refused(Fault),
    /// The limit on requests of one connection was reached.
    RequestLimit,
    /// Silence between requests.
    IdleTimeout,
    /// A frame, or the preface, did not come in time.
    HeaderTimeout,
    /// The client's transport takes nothing.
    SendTimeout,
    /// The client's windows let nothing through.
    WindowStall,
    /// The server ends.
    ServerEnds,
    /// A file became shorter than was promised while it was sent.
    ContentLost,
    /// The transport failed, as the host of this machine says.
    TransportFailed,
}

impl CloseReason {
    /// What the client is told by GOAWAY.
    pub const fn code(self) -> ErrorCode {
        match self {
            CloseReason::Refused(fault) => fault.code(),
            CloseReason::WindowStall => ErrorCode::ENHANCE_YOUR_CALM,
            CloseReason::ContentLost => ErrorCode::INTERNAL_ERROR,
            _ => ErrorCode::NO_ERROR,
        }
    }
}
