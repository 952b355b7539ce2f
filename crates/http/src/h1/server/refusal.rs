//! The reasons for refusing requests and for closing connections.

use crate::h1::chunked::ChunkedError;
use crate::h1::syntax::SyntaxError;
use crate::origin::Status;
use crate::origin::target::TargetError;

/// The reason why a request was refused. After a refusal the connection is closed, because the start of the next
/// request is uncertain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// A request line that is not a method, a target and a version with one space between each.
    #[error("the request line is malformed")]
    BadRequestLine,
    /// A major version other than 1.
    #[error("the version is not HTTP/1")]
    UnsupportedVersion,
    /// The target is not valid.
    #[error("the request target has {0}")]
    BadTarget(#[from] TargetError),
    /// The target is longer than its limit.
    #[error("the request target is too long")]
    TargetTooLong,
    /// The head is longer than its limit.
    #[error("the head is too long")]
    HeadTooLong,
    /// The head has more field lines than the limit.
    #[error("the head has too many field lines")]
    TooManyFields,
    /// The head violates the syntax of fields.
    #[error("{0}")]
    Syntax(#[from] SyntaxError),
    /// HTTP/1.1 without Host.
    #[error("there is no Host field")]
    MissingHost,
    /// Two Host fields.
    #[error("there are two Host fields")]
    RepeatedHost,
    /// A malformed Host.
    #[error("the Host field is not a host and port")]
    BadHost,
    /// Content-Length and Transfer-Encoding together: two ends for one message.
    #[error("the request has both a content length and a transfer encoding")]
    LengthAndCoding,
    /// Transfer-Encoding in an HTTP/1.0 message, which an intermediary may not understand.
    #[error("an HTTP/1.0 message has a transfer encoding")]
    CodingInOldVersion,
    /// A transfer coding other than chunked.
    #[error("a transfer coding is not implemented")]
    UnknownCoding,
    /// A Transfer-Encoding that does not end in chunked: the end of the message cannot be determined.
    #[error("the last transfer coding is not chunked")]
    CodingWithoutEnd,
    /// An expectation other than `100-continue`.
    #[error("the expectation is unknown")]
    UnknownExpectation,
    /// The content is longer than its limit.
    #[error("the content is too long")]
    BodyTooLong,
    /// Malformed chunked content.
    #[error("{0}")]
    Chunked(#[from] ChunkedError),
    /// The head did not arrive in time.
    #[error("the head took too long")]
    HeadTimeout,
    /// The content stopped, or arrived too slowly.
    #[error("the content stopped or arrived too slowly")]
    BodyTimeout,
}

impl Refusal {
    /// Returns the status code for this refusal.
    pub const fn status(self) -> Status {
        match self {
            Refusal::UnsupportedVersion => Status::VERSION_NOT_SUPPORTED,
            Refusal::TargetTooLong => Status::URI_TOO_LONG,
            Refusal::HeadTooLong | Refusal::TooManyFields => Status::HEADER_TOO_LARGE,
            Refusal::UnknownCoding => Status::NOT_IMPLEMENTED,
            Refusal::UnknownExpectation => Status::EXPECTATION_FAILED,
            Refusal::BodyTooLong => Status::CONTENT_TOO_LARGE,
            Refusal::HeadTimeout | Refusal::BodyTimeout => Status::REQUEST_TIMEOUT,
            Refusal::BadRequestLine
            | Refusal::BadTarget(_)
            | Refusal::Syntax(_)
            | Refusal::MissingHost
            | Refusal::RepeatedHost
            | Refusal::BadHost
            | Refusal::LengthAndCoding
            | Refusal::CodingInOldVersion
            | Refusal::CodingWithoutEnd
            | Refusal::Chunked(_) => Status::BAD_REQUEST,
        }
    }
}

/// The reason why a connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// The client sent `Connection: close`, or uses HTTP/1.0 without requesting keep-alive.
    ClientRequested,
    /// The client closed its side between two requests.
    ClientFinished,
    /// The client closed its side within a request.
    ClientTruncated,
    /// The close of the connection ends the last response: its length was not known, and the client does not
    /// support chunks.
    EndsContent,
    /// Keep-alive is off on this server.
    KeepAliveOff,
    /// The limit on requests per connection was reached.
    RequestLimit,
    /// A request was refused.
    Refused(Refusal),
    /// The server does not need the content, and the client withholds it or sends it too slowly.
    ContentUnwanted,
    /// The client sent no request for too long.
    IdleTimeout,
    /// The client does not read the responses.
    SendTimeout,
    /// The server shuts down.
    ServerEnds,
    /// A file became shorter than announced while it was sent.
    ContentLost,
    /// The transport failed, as reported by the caller.
    TransportFailed,
}
