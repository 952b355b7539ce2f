//! Types for the requests of clients.

use fathometer_model::Bytes;

/// The number of a request on one connection, from 0 in the order in which the requests were queued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u32);

impl RequestId {
    /// The bit that marks pushed requests; the other bits are half of the stream number. The client's own
    /// requests are numbered from 0.
    const PUSHED: u32 = 1 << 31;

    /// Returns the identifier of the request of the server's `number`-th pushed stream.
    pub(crate) const fn pushed(number: u32) -> RequestId {
        RequestId(number | RequestId::PUSHED)
    }

    /// Whether the server pushed the response and the client did not send the request (RFC 9113 section 8.4).
    pub const fn is_pushed(self) -> bool {
        self.0 & RequestId::PUSHED != 0
    }
}

/// The version of a request, and whether it requests a persistent connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// HTTP/1.0: one exchange, then the server closes.
    Http10,
    /// HTTP/1.0 with the `Connection: Keep-Alive` extension: the connection persists if the response has it as
    /// well.
    Http10KeepAlive,
    /// HTTP/1.1: the connection persists unless a side sends `Connection: close`.
    Http11,
}

/// The start of a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestLine<'a> {
    /// The method, a token. `CONNECT` is refused: it turns the connection into a tunnel.
    pub method: &'a str,
    /// The request target: visible ASCII characters.
    pub target: &'a str,
    /// The `Host` field. If it is empty it is omitted, which HTTP/1.1 does not permit.
    pub host: &'a str,
    /// Version and persistence.
    pub version: Version,
}

/// The content of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// No content, and no field that describes it.
    None,
    /// This many bytes, framed by `Content-Length`; they must be sent with
    /// [`send_content`](crate::client::Connection::send_content).
    Sized(u64),
    /// An unknown number of bytes in the chunked coding, HTTP/1.1 only. They must be sent with
    /// [`send_content`](crate::client::Connection::send_content) and ended with
    /// [`finish_content`](crate::client::Connection::finish_content).
    Chunked,
}

/// The reason why a request or its content was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The connection accepts no further request: it is closed or will be.
    #[error("the connection accepts no more requests")]
    Closed,
    /// The number of requests in flight has reached [`Config::depth`](crate::h1::client::Config::depth).
    #[error("the pipeline is full")]
    PipelineFull,
    /// The content of the previous request is not complete.
    #[error("the content of the last request is not finished")]
    ContentUnfinished,
    /// The method is not a token, or it is `CONNECT`.
    #[error("the method is invalid")]
    BadMethod,
    /// The target is empty or has characters that a request line cannot contain.
    #[error("the request target is invalid")]
    BadTarget,
    /// A field name or value is invalid in a head, or an HTTP/1.1 request has no host.
    #[error("a request field is invalid or the host is missing")]
    BadField,
    /// Content was sent although none is allowed, with another length than announced, or before the server sent
    /// 100 (Continue).
    #[error("the content does not match its announced length")]
    BadContent,
    /// The request was prepared for another HTTP version than the connection uses.
    #[error("the request was prepared for another protocol")]
    OtherProtocol,
}

/// A request that was queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued {
    /// The number of the request on this connection.
    pub request: RequestId,
    /// The size of its head on the wire. HTTP/2: HEADERS and CONTINUATION frames with their frame headers.
    pub head: Bytes,
    /// The size of the head before compression: names and values. Equal to `head` in HTTP/1.x, which has no
    /// compression.
    pub fields: Bytes,
}

/// Whether the method is idempotent (RFC 9110 section 9.2.2): a repeated request has the same effect as one request.
pub fn is_idempotent(method: &str) -> bool {
    matches!(
        method,
        "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE"
    )
}

/// Whether the target is valid in a request: visible ASCII characters, at least one.
pub fn is_target(target: &str) -> bool {
    // No early exit, so that the compiler can examine many bytes in one step.
    !target.is_empty()
        && target
            .bytes()
            .fold(true, |good, byte| good & byte.is_ascii_graphic())
}
