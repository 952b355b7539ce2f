//! Settings of an HTTP/1.x server.

use std::time::Duration;

use fathometer_model::Bytes;

use crate::exchange::CloseManner;
use crate::pace::ContentPace;

/// The settings of a server, which all its connections share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Limits on a client.
    pub limits: Limits,
    /// Whether connections persist.
    pub keep_alive: bool,
    /// Number of responses after which a connection is closed; `None`: no limit.
    pub max_requests_per_connection: Option<u32>,
    /// The method of closing a connection.
    pub close: CloseManner,
    /// The rule for passing responses to the transport.
    pub coalesce: Coalesce,
    /// Size of the output buffer that [`Coalesce`] uses. Zero: no buffer, every response is passed on at
    /// once.
    pub output_buffer: Bytes,
    /// Simulated service time, from the start of the work on a request until the response is ready. The requests of one
    /// connection are processed one after another. Zero: no added time.
    pub service_time: Duration,
    /// Additional service time of the first request of a connection, to imitate servers for which a new connection
    /// is extra work.
    pub connection_time: Duration,
    /// Whether a request may upgrade its connection to HTTP/2 ([`Upgrade`](super::Upgrade)).
    pub upgrade: bool,
    /// Whether [`Served`](super::Served) events are generated.
    pub events: bool,
    /// Whether events include the [text](super::RequestText) of their requests.
    pub request_text: bool,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            limits: Limits::default(),
            keep_alive: true,
            max_requests_per_connection: None,
            close: CloseManner::HalfThenDrain,
            coalesce: Coalesce::UntilInputWouldBlock,
            output_buffer: Bytes(64 * 1024),
            service_time: Duration::ZERO,
            connection_time: Duration::ZERO,
            upgrade: false,
            events: false,
            request_text: false,
        }
    }
}

/// Limits on the memory and the time that one client can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a head: request line, field lines and empty line. A longer head is refused with 431, or with 414 if
    /// the request line alone is too long.
    pub head: Bytes,
    /// Number of field lines; more are refused with 431.
    pub fields: u32,
    /// Bytes of the request target; a longer target is refused with 414.
    pub target: Bytes,
    /// Bytes of request content without transfer coding; longer content is refused with 413.
    pub body: Bytes,
    /// Bytes of response heads that the transport has not taken yet. Above this, no request is read until the
    /// transport takes some of them.
    pub backlog: Bytes,
    /// Idle time-out before the first request of a connection, and within request content.
    pub idle: Duration,
    /// The slowest rate of request content; slower requests are refused with 408.
    pub content: ContentPace,
    /// Idle time-out before each further request.
    pub keep_alive: Duration,
    /// Time-out from the first byte of a head to its last; then the request is refused with 408.
    pub header: Duration,
    /// Time-out while the transport takes no byte of a response; then the connection is aborted.
    pub send: Duration,
    /// Time from closing the sending side to closing both sides.
    pub linger: Duration,
    /// The maximum number of bytes discarded while waiting for the client to close its side.
    pub linger_bytes: Bytes,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            head: Bytes(16 * 1024),
            fields: 100,
            target: Bytes(8 * 1024),
            body: Bytes(64 * 1024 * 1024),
            backlog: Bytes(64 * 1024),
            idle: Duration::from_secs(60),
            content: ContentPace::default(),
            keep_alive: Duration::from_secs(60),
            header: Duration::from_secs(20),
            send: Duration::from_secs(60),
            linger: Duration::from_secs(10),
            linger_bytes: Bytes(1024 * 1024),
        }
    }
}

/// The rule for passing responses to the transport. A piece of bytes that are released together is offered in one round
/// of [`Connection::transmit`](super::Connection::transmit), without other bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coalesce {
    /// Each response at once, in its own piece.
    EachResponse,
    /// Responses collect in the output buffer. Each full buffer is released at once. A partly filled buffer is released
    /// when no complete request is left to answer, that is, before the server waits for input (Apache 1.2b10).
    UntilInputWouldBlock,
    /// As [`UntilInputWouldBlock`](Coalesce::UntilInputWouldBlock), but a partly filled buffer is held until the input
    /// is empty, so also while a request is incomplete (Jigsaw). Such a buffer is held for at most [`Limits::idle`].
    UntilInputDrained,
}
