//! Why requests are refused and connections closed.

use crate::h1::chunked::ChunkedError;
use crate::h1::fields::SyntaxError;
use crate::origin::Status;
use crate::origin::target::TargetError;

/// Why a request was refused. After a refusal the connection is closed: where the next request
/// begins is no longer certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// Not a method, a target and a version with one space between each.
    #[error("the request line is malformed")]
    BadRequestLine,
    /// Another major version than 1.
    #[error("the version is not HTTP/1")]
    UnsupportedVersion,
    /// The target is no target.
    #[error("the request target has {0}")]
    BadTarget(#[from] TargetError),
    /// Past the limit on targets.
    #[error("the request target is too long")]
    TargetTooLong,
    /// Past the limit on heads.
    #[error("the head is too long")]
    HeadTooLong,
    /// Past the limit on field lines.
    #[error("the head has too many field lines")]
    TooManyFields,
    /// The head breaks the syntax of fields.
    #[error("{0}")]
    Syntax(#[from] SyntaxError),
    /// HTTP/1.1 without Host.
    #[error("there is no Host field")]
    MissingHost,
    /// Two Host fields.
    #[error("there are two Host fields")]
    RepeatedHost,
    /// A Host that is no host and port.
    #[error("the Host field is not a host and port")]
    BadHost,
    /// Content-Length and Transfer-Encoding together: two ends for one message.
    #[error("there are both a content length and a transfer encoding")]
    LengthAndCoding,
    /// Transfer-Encoding in an HTTP/1.0 message, where whoever passed it on may not know it.
    #[error("an HTTP/1.0 message has a transfer encoding")]
    CodingInOldVersion,
    /// A transfer coding other than chunked.
    #[error("a transfer coding is not implemented")]
    UnknownCoding,
    /// A Transfer-Encoding that does not end in chunked: the end of the message is unknowable.
    #[error("the last transfer coding is not chunked")]
    CodingWithoutEnd,
    /// An expectation other than `100-continue`.
    #[error("the expectation is unknown")]
    UnknownExpectation,
    /// Past the limit on content.
    #[error("the content is too long")]
    BodyTooLong,
    /// Chunked content that is none.
    #[error("{0}")]
    Chunked(#[from] ChunkedError),
    /// The head did not come in time.
    #[error("the head took too long")]
    HeadTimeout,
    /// The content stopped coming, or came too slowly.
    #[error("the content stopped or came too slowly")]
    BodyTimeout,
}

impl Refusal {
    /// The status that says so.
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

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// The client said `Connection: close`, or speaks HTTP/1.0 and did not ask to keep it.
    ClientAsked,
    /// The client closed its half between two requests.
    ClientFinished,
    /// The client closed its half within a request.
    ClientTruncated,
    /// The end of the connection is that of the last response: its length was not known, and the client
    /// does not know chunks.
    EndsContent,
    /// This server does not keep connections.
    KeepAliveOff,
    /// The limit on requests of one connection was reached.
    RequestLimit,
    /// A request was refused.
    Refused(Refusal),
    /// The client waits with content that would be refused, and may or may not send it; or sends it slowly.
    ContentUnwanted,
    /// Silence between requests.
    IdleTimeout,
    /// The client takes no responses.
    SendTimeout,
    /// The server ends.
    ServerEnds,
    /// A file became shorter than was promised while it was sent.
    ContentLost,
    /// The transport failed, as the host of this machine says.
    TransportFailed,
}
