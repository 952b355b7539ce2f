//! Server settings chosen by its operator, or by the designer of an experiment.

use std::time::Duration;

use fathometer_model::Bytes;

use crate::exchange::CloseManner;
use crate::pace::ContentPace;

/// How a server handles its connections. All connections share it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Limits on what a client may send.
    pub limits: Limits,
    /// Whether connections persist at all.
    pub keep_alive: bool,
    /// Number of responses after which a connection is closed; `None`: no limit.
    pub max_requests_per_connection: Option<u32>,
    /// How a connection is closed.
    pub close: CloseManner,
    /// When responses are handed to the transport.
    pub coalesce: Coalesce,
    /// Size of the output buffer that [`Coalesce`] uses. Zero: no buffer, every response is handed over at
    /// once.
    pub output_buffer: Bytes,
    /// How long the server works on a request, from when it starts until the response is ready. The requests of
    /// one connection are processed one after another. Zero is this server's own speed; a larger value imitates
    /// a slower server, whose time is set by the experiment.
    pub service_time: Duration,
    /// Extra time for the first request of a connection, to imitate a server for which a new connection is
    /// extra work.
    pub connection_time: Duration,
    /// Whether a request may change its connection to HTTP/2 ([`Upgrade`](super::Upgrade)).
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

/// Limits on what one client can make a server store or wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the request line, field lines and the empty line. Above it 431, or 414 when the request line
    /// alone is too long.
    pub head: Bytes,
    /// Number of field lines; above it 431.
    pub fields: u32,
    /// Length of the request target; above it 414.
    pub target: Bytes,
    /// Request content without transfer coding; above it 413.
    pub body: Bytes,
    /// Heads of responses not handed over yet; above it no request is read until some are.
    pub backlog: Bytes,
    /// Silence before the first request of a connection, and within request content.
    pub idle: Duration,
    /// The slowest rate of request content; below it 408.
    pub content: ContentPace,
    /// Silence before each further request.
    pub keep_alive: Duration,
    /// From the first byte of a head to its last; after it 408.
    pub header: Duration,
    /// Time in which the transport takes no byte of a response; after it the connection is aborted.
    pub send: Duration,
    /// From closing the sending side to closing both sides.
    pub linger: Duration,
    /// Bytes discarded while waiting for the client to close its side.
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

/// When responses are handed to the transport. Where bytes are released in one piece, one round of
/// [`Connection::transmit`](super::Connection::transmit) offers exactly that piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coalesce {
    /// Each response at once, in its own piece.
    EachResponse,
    /// Responses collect in the output buffer. Full buffers are released as they fill. The rest is released
    /// when no complete request is left to answer, so that the server would wait (Apache 1.2b10).
    UntilInputWouldBlock,
    /// The same, but the rest waits until the input is empty: the beginning of a request counts as more to come
    /// (Jigsaw). The rest is held for at most [`Limits::idle`].
    UntilInputDrained,
}
