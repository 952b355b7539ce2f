//! The client side of one HTTP/1.x or HTTP/2 connection, without I/O, behind one interface.
//!
//! [`Connection`] forwards every call to [`h1::client::Connection`] or [`h2::client::Connection`]; their
//! documentation describes how to drive them. Their events are the same, except for these differences:
//!
//! - HTTP/2 writes its own frames (preface, settings, acknowledgements, window updates). Therefore call
//!   [`transmit`](Connection::transmit) when the transport is established and after every
//!   [`poll`](Connection::poll), not only after a flush. In both protocols, a flush sends the requests.
//! - In HTTP/2 responses are interleaved and end in any order. [`Pending`] stores a caller's state for its
//!   requests.
//! - In HTTP/2 a failure or an expired time limit may end one request and leave the connection usable: see
//!   `persists`.
//!
//! HTTP/3 is not included: its state machine uses many QUIC streams instead of one byte stream.

mod config;
mod request;

use fathometer_model::{Bytes, CloseReason, Failure, Instant};

pub use config::Config;
pub use request::{PreparedRequest, RequestWriter};

pub use crate::exchange::{
    Content, Event, Head, Pending, Queued, Received, RequestId, RequestLine, SendError, WindowWait,
    WindowWaits,
};
use crate::h1;
use crate::h2;
use crate::protocol::Protocol;

/// The client side of one connection. The [module](self) lists the remaining differences between the two
/// protocols.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a box would add a memory access to every call of HTTP/1.x"
)]
pub enum Connection {
    /// HTTP/1.x.
    Http1(h1::client::Connection),
    /// HTTP/2; boxed, because it is much larger and there are many idle connections of HTTP/1.x.
    Http2(Box<h2::client::Connection>),
}

impl From<h1::client::Connection> for Connection {
    fn from(connection: h1::client::Connection) -> Connection {
        Connection::Http1(connection)
    }
}

impl From<h2::client::Connection> for Connection {
    fn from(connection: h2::client::Connection) -> Connection {
        Connection::Http2(Box::new(connection))
    }
}

/// Forwards a call to the state machine of the connection's protocol.
macro_rules! either {
    ($connection:expr, $inner:ident => $call:expr) => {
        match $connection {
            Connection::Http1($inner) => $call,
            Connection::Http2($inner) => $call,
        }
    };
}

impl Connection {
    /// Creates a connection of this protocol; `None` for HTTP/3, which needs more than one byte stream.
    pub fn new(protocol: Protocol, config: &Config) -> Option<Connection> {
        match protocol {
            Protocol::Http1(_) => Some(h1::client::Connection::new(config.http1()).into()),
            Protocol::Http2 => Some(h2::client::Connection::new(config.http2()).into()),
            Protocol::Http3 => None,
        }
    }

    /// Whether the connection uses HTTP/2.
    pub const fn is_http2(&self) -> bool {
        matches!(self, Connection::Http2(_))
    }

    /// The HTTP/2 connection; `None` for HTTP/1.x.
    pub fn http2(&self) -> Option<&h2::client::Connection> {
        match self {
            Connection::Http1(_) => None,
            Connection::Http2(connection) => Some(connection),
        }
    }

    /// Resets the machine for another transport connection; keeps its allocated memory.
    pub fn renew(&mut self) {
        either!(self, connection => connection.renew());
    }

    /// Frees unused memory, for a connection that will be idle for a long time.
    pub fn shrink(&mut self) {
        either!(self, connection => connection.shrink());
    }

    /// Whether the connection accepts further requests. The limit on their number is not considered.
    pub fn accepts_requests(&self) -> bool {
        either!(self, connection => connection.accepts_requests())
    }

    /// Whether a request can be queued now.
    #[inline]
    pub fn can_request(&self) -> bool {
        either!(self, connection => connection.can_request())
    }

    /// The number of requests queued or sent whose responses are not complete; pushes are not counted.
    pub fn outstanding(&self) -> usize {
        either!(self, connection => connection.outstanding())
    }

    /// The first request of which no byte has been passed to the transport. If there is none, the next request
    /// that will be queued. Requests are sent in the order in which they were queued.
    #[inline]
    pub fn first_unsent(&self) -> RequestId {
        either!(self, connection => connection.first_unsent())
    }

    /// Starts to write a request, which is queued after all earlier requests.
    pub fn request(&mut self, line: RequestLine<'_>) -> Result<RequestWriter<'_>, SendError> {
        match self {
            Connection::Http1(connection) => connection.request(line).map(RequestWriter::Http1),
            Connection::Http2(connection) => connection.request(line).map(RequestWriter::Http2),
        }
    }

    /// Queues a prepared request for `target`. Content that the request announces must follow with
    /// [`send_content`](Self::send_content).
    #[inline]
    pub fn request_prepared(
        &mut self,
        prepared: &PreparedRequest,
        target: &str,
    ) -> Result<Queued, SendError> {
        match (self, prepared) {
            (Connection::Http1(connection), PreparedRequest::Http1(prepared)) => {
                connection.request_prepared(prepared, target)
            }
            (Connection::Http2(connection), PreparedRequest::Http2(prepared)) => {
                connection.request_prepared(prepared, target)
            }
            _ => Err(SendError::OtherProtocol),
        }
    }

    /// Adds content to a request that announced it; HTTP/1.x accepts content only for the last request. Like
    /// heads, content is held until it is released; in HTTP/2, flow control may hold it longer.
    pub fn send_content(&mut self, request: RequestId, content: &[u8]) -> Result<(), SendError> {
        match self {
            Connection::Http1(connection) => connection.send_content(content),
            Connection::Http2(connection) => connection.send_content(request, content),
        }
    }

    /// Ends content that was announced without its length.
    pub fn finish_content(&mut self, request: RequestId) -> Result<(), SendError> {
        match self {
            Connection::Http1(connection) => connection.finish_content(),
            Connection::Http2(connection) => connection.finish_content(request),
        }
    }

    /// Aborts one request, which is reported with this failure; HTTP/1.x aborts the whole connection.
    pub fn cancel(&mut self, request: RequestId, failure: Failure, now: Instant) {
        match self {
            Connection::Http1(connection) => connection.handle_failure(failure, now),
            Connection::Http2(connection) => connection.cancel(request, failure, now),
        }
    }

    /// The number of bytes that are written and not yet released.
    pub fn held(&self) -> Bytes {
        either!(self, connection => connection.held())
    }

    /// Releases the oldest `bytes` held bytes, or all held bytes if there are fewer. In HTTP/2 the frame that contains
    /// the last of these bytes is released completely. Returns the number of bytes released.
    pub fn release(&mut self, bytes: Bytes) -> Bytes {
        match self {
            Connection::Http1(connection) => {
                let before = connection.held();
                connection.release(bytes);
                Bytes(before.0 - connection.held().0)
            }
            Connection::Http2(connection) => connection.release(bytes),
        }
    }

    /// Releases everything written so far.
    #[inline]
    pub fn flush(&mut self) {
        either!(self, connection => connection.flush());
    }

    /// The bytes that may be written to the transport now.
    #[inline]
    pub fn transmit(&self) -> &[u8] {
        either!(self, connection => connection.transmit())
    }

    /// Notes that the transport took the first `bytes` bytes that [`transmit`](Self::transmit) returned.
    ///
    /// # Panics
    /// If `bytes` is larger than the slice that `transmit` returned.
    #[inline]
    pub fn transmitted(&mut self, bytes: usize, now: Instant) {
        either!(self, connection => connection.transmitted(bytes, now));
    }

    /// Reads bytes from the front of `input` and reports the next event. Call it until it returns `None`: then
    /// `input` is used up. After any other `handle_` method, call it with an empty input to get the events that
    /// the method caused.
    #[inline]
    pub fn poll<'i>(&mut self, input: &mut &'i [u8], now: Instant) -> Option<Event<'i>> {
        match self {
            Connection::Http1(connection) => connection.poll(input, now),
            Connection::Http2(connection) => connection.poll(input, now),
        }
    }

    /// Reads a complete response from the front of `input` in one step, for a caller that does not need its
    /// content, and returns its [`Event::End`]. `None`: nothing was read; call [`poll`](Self::poll).
    ///
    /// HTTP/1.x does this for a response whose head repeats the previous one
    /// ([`h1::client::Connection::poll_whole`]). HTTP/2 never does, because its responses are split into
    /// frames.
    #[inline]
    pub fn poll_whole<'i>(&mut self, input: &mut &'i [u8], now: Instant) -> Option<Event<'i>> {
        match self {
            Connection::Http1(connection) => connection.poll_whole(input, now),
            Connection::Http2(_) => None,
        }
    }

    /// Notes that the server has closed its side of the connection. All bytes that arrived before must have been
    /// passed to [`poll`](Self::poll).
    pub fn handle_eof(&mut self, now: Instant) {
        either!(self, connection => connection.handle_eof(now));
    }

    /// Notes that the transport failed, or that the caller aborts the connection; `failure` is the reason. Responses
    /// that were polled completely stay complete.
    pub fn handle_failure(&mut self, failure: Failure, now: Instant) {
        either!(self, connection => connection.handle_failure(failure, now));
    }

    /// Notes that the client has no more requests and is closing. Requests without a response are aborted with
    /// [`Failure::LocalAbort`], and the close reason is [`CloseReason::Finished`].
    pub fn finish(&mut self) {
        either!(self, connection => connection.finish());
    }

    /// The time at which to call [`handle_timeout`](Self::handle_timeout), unless another event happens first.
    pub fn poll_timeout(&self) -> Option<Instant> {
        either!(self, connection => connection.poll_timeout())
    }

    /// Handles every time limit that has passed. Spurious calls do nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        either!(self, connection => connection.handle_timeout(now));
    }

    /// The head announced by the last [`Event::Head`] or [`Event::Interim`]. Valid until the next head is read.
    #[inline]
    pub fn head(&self) -> Head<'_> {
        match self {
            Connection::Http1(connection) => connection.head().into(),
            Connection::Http2(connection) => connection.head(),
        }
    }

    /// The reason why the connection closed; `None` while it is active.
    pub fn close_reason(&self) -> Option<CloseReason> {
        either!(self, connection => connection.close_reason())
    }
}
