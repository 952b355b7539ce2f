//! What the operator of a server, or the designer of an experiment, decides.

use std::time::Duration;

use fathometer_model::Bytes;

use crate::pace::ContentPace;

/// How a server treats its connections. Shared by all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// What a client may ask of it.
    pub limits: Limits,
    /// Whether connections persist at all.
    pub keep_alive: bool,
    /// Responses after which a connection is closed; `None`: never for that.
    pub max_requests_per_connection: Option<u32>,
    /// How a connection is closed.
    pub close: CloseManner,
    /// When responses are handed to the transport.
    pub coalesce: Coalesce,
    /// The output buffer that [`Coalesce`] speaks of. Zero: there is none, every response is handed
    /// over at once.
    pub output_buffer: Bytes,
    /// How long the server works on a request, from when it takes it up to when its response is
    /// ready; a connection's requests are taken up one after another. Zero is this server's own
    /// speed; more stands for a slower one, whose time is that of the experiment.
    pub service_time: Duration,
    /// What the first request of a connection takes longer, for a server to which a new connection
    /// is work of its own.
    pub connection_time: Duration,
    /// Whether a request may change its connection to HTTP/2 ([`Upgrade`](super::Upgrade)).
    pub upgrade: bool,
    /// Whether [`Served`](super::Served) events are made.
    pub events: bool,
    /// Whether events come with the [text](super::RequestText) of their requests.
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

/// Bounds on what one client can make a server hold or wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Request line, field lines and the empty line; past it 431, or 414 when the request line alone
    /// is too long.
    pub head: Bytes,
    /// Field lines; past it 431.
    pub fields: u32,
    /// The request target; past it 414.
    pub target: Bytes,
    /// Request content without transfer coding; past it 413.
    pub body: Bytes,
    /// Heads of responses not handed over yet; past it no request is read until some are.
    pub backlog: Bytes,
    /// Silence before the first request of a connection, and within request content.
    pub idle: Duration,
    /// How fast request content must come; past it 408.
    pub content: ContentPace,
    /// Silence before each further request.
    pub keep_alive: Duration,
    /// From the first octet of a head to its last; past it 408.
    pub header: Duration,
    /// Without the transport taking any octet of a response; past it the connection is aborted.
    pub send: Duration,
    /// From closing the own half to closing both.
    pub linger: Duration,
    /// Octets thrown away while waiting for the client to close its half.
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

/// How a connection is closed after its last response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseManner {
    /// The own half first; then what the client still sends is read and thrown away until it closes
    /// its half, or the limits on lingering are reached. The responses arrive.
    HalfThenDrain,
    /// Both halves at once, whatever the client is still sending: its transport is then reset and
    /// may lose responses that it has not read yet (Nielsen et al. 1997, section 5, "Connection
    /// Management").
    Full,
}

/// When responses are handed to the transport. Where octets are released in one piece, one round of
/// [`Connection::transmit`](super::Connection::transmit) offers that piece and no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coalesce {
    /// Each response at once, in a piece of its own.
    EachResponse,
    /// Responses gather in the output buffer. Full buffers are released as they fill; the rest when no
    /// complete request is left to answer, so that the server would wait (Apache 1.2b10).
    UntilInputWouldBlock,
    /// The same, but the rest waits until the input is empty: the beginning of a request counts as
    /// more to come (Jigsaw). Such a rest is held no longer than [`Limits::idle`].
    UntilInputDrained,
}
