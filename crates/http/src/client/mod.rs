//! The client side of one connection, HTTP/1.x or HTTP/2, without I/O: one interface for hosts that
//! carry either.
//!
//! [`Connection`] passes every call on to [`h1::client::Connection`] or
//! [`h2::client::Connection`], whose documentation says how to drive
//! them; their events differ in nothing that a host must know. What differs between the two is this:
//!
//! - HTTP/2 writes on its own account (preface, settings, acknowledgements, window updates): look
//!   at [`transmit`](Connection::transmit) when the transport is established and after every
//!   [`poll`](Connection::poll), not only after a flush. Requests leave with a flush in both.
//! - In HTTP/2 responses come interleaved and end in any order. [`Pending`] keeps what a host knows
//!   of its requests.
//! - A failure or a time limit of HTTP/2 may end one request and not the connection: `persists` says
//!   which.
//!
//! HTTP/3 is not here: its machine speaks to many streams of QUIC and not to one transport.

mod event;
mod head;
mod pending;
mod request;

use fathometer_model::{Bytes, CloseReason, Failure, Instant};

pub use event::{Event, Received, RequestId};
pub use head::Head;
pub use pending::Pending;
pub use request::{Content, PreparedRequest, Queued, RequestLine, RequestWriter, SendError};

use crate::h1;
use crate::h2;

/// The client side of one connection. See the [module](self) for what it hides and what not.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "HTTP/1.x has one exchange or a few at a time and is reached without a detour"
)]
pub enum Connection {
    /// HTTP/1.x.
    Http1(h1::client::Connection),
    /// HTTP/2; apart, because it is larger by far and idle connections of HTTP/1.x are many.
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

/// Passes a call on.
macro_rules! either {
    ($connection:expr, $inner:ident => $call:expr) => {
        match $connection {
            Connection::Http1($inner) => $call,
            Connection::Http2($inner) => $call,
        }
    };
}

impl Connection {
    /// Whether it speaks HTTP/2.
    pub const fn is_http2(&self) -> bool {
        matches!(self, Connection::Http2(_))
    }

    /// The connection, if it speaks HTTP/2.
    pub fn http2(&self) -> Option<&h2::client::Connection> {
        match self {
            Connection::Http1(_) => None,
            Connection::Http2(connection) => Some(connection),
        }
    }

    /// The connection, if it speaks HTTP/2, for what HTTP/2 alone can do.
    pub fn http2_mut(&mut self) -> Option<&mut h2::client::Connection> {
        match self {
            Connection::Http1(_) => None,
            Connection::Http2(connection) => Some(connection),
        }
    }

    /// Makes ready for another transport connection, keeping the memory of this one.
    pub fn renew(&mut self) {
        either!(self, connection => connection.renew());
    }

    /// Gives back the memory that nothing is in, for a connection that will be idle for long.
    pub fn shrink(&mut self) {
        either!(self, connection => connection.shrink());
    }

    /// Whether the connection would take a request if it had room.
    pub fn accepts_requests(&self) -> bool {
        either!(self, connection => connection.accepts_requests())
    }

    /// Whether a request can be queued now.
    #[inline]
    pub fn can_request(&self) -> bool {
        either!(self, connection => connection.can_request())
    }

    /// Requests queued or sent whose answers are not whole; pushed ones are not among them.
    pub fn outstanding(&self) -> usize {
        either!(self, connection => connection.outstanding())
    }

    /// The first request of which no octet has been handed to the transport; the next one to be
    /// queued when there is none. Requests leave in the order in which they were queued.
    #[inline]
    pub fn first_unsent(&self) -> RequestId {
        either!(self, connection => connection.first_unsent())
    }

    /// Starts to write a request behind those queued before.
    pub fn request(&mut self, line: RequestLine<'_>) -> Result<RequestWriter<'_>, SendError> {
        match self {
            Connection::Http1(connection) => connection.request(line).map(RequestWriter::Http1),
            Connection::Http2(connection) => connection.request(line).map(RequestWriter::Http2),
        }
    }

    /// Queues a prepared request for `target`. Content that was announced is to follow by
    /// [`send_content`](Self::send_content).
    #[inline]
    pub fn request_prepared(
        &mut self,
        prepared: &PreparedRequest,
        target: &str,
    ) -> Result<Queued, SendError> {
        match (self, prepared) {
            (Connection::Http1(connection), PreparedRequest::Http1(prepared)) => {
                Ok(connection.request_prepared(prepared, target)?.into())
            }
            (Connection::Http2(connection), PreparedRequest::Http2(prepared)) => {
                connection.request_prepared(prepared, target)
            }
            _ => Err(SendError::OtherProtocol),
        }
    }

    /// Adds content to a request that announced it; HTTP/1.x takes it for the last request alone.
    /// Like heads it is held until it is released, and in HTTP/2 until the windows let it go.
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

    /// Gives up one request, which is reported with this failure; HTTP/1.x gives up the whole
    /// connection for that.
    pub fn cancel(&mut self, request: RequestId, failure: Failure, now: Instant) {
        match self {
            Connection::Http1(connection) => connection.handle_failure(failure, now),
            Connection::Http2(connection) => connection.cancel(request, failure, now),
        }
    }

    /// Octets written and held: neither released nor handed to the transport.
    pub fn held(&self) -> Bytes {
        either!(self, connection => connection.held())
    }

    /// Releases the oldest `octets` that are held, or all when they are fewer. In HTTP/2 the frame in
    /// which they end is released whole. Returns how many were released.
    pub fn release(&mut self, octets: Bytes) -> Bytes {
        match self {
            Connection::Http1(connection) => {
                let before = connection.held();
                connection.release(octets);
                Bytes(before.0 - connection.held().0)
            }
            Connection::Http2(connection) => connection.release(octets),
        }
    }

    /// Releases everything written so far.
    #[inline]
    pub fn flush(&mut self) {
        either!(self, connection => connection.flush());
    }

    /// The octets that may be handed to the transport now.
    #[inline]
    pub fn transmit(&self) -> &[u8] {
        either!(self, connection => connection.transmit())
    }

    /// Says that the transport took the first `octets` of what [`transmit`](Self::transmit) gave.
    ///
    /// # Panics
    /// When that is more than it gave.
    #[inline]
    pub fn transmitted(&mut self, octets: usize, now: Instant) {
        either!(self, connection => connection.transmitted(octets, now));
    }

    /// Reads octets off the front of `input` and reports what they mean. Call it until it returns
    /// `None`: then `input` is used up. Call it with an empty input after any other `handle_`
    /// method to learn what that one brought about.
    #[inline]
    pub fn poll<'i>(&mut self, input: &mut &'i [u8], now: Instant) -> Option<Event<'i>> {
        match self {
            Connection::Http1(connection) => connection.poll(input, now).map(Event::from),
            Connection::Http2(connection) => connection.poll(input, now),
        }
    }

    /// Takes a whole response off the front of `input` in one step, for who does not want its content, and
    /// returns its [`Event::End`]. `None`: nothing was read, and [`poll`](Self::poll) says what there is.
    ///
    /// HTTP/1.x sees this for a response whose head repeats the one before
    /// ([`h1::client::Connection::poll_whole`]). In HTTP/2 a response is in pieces anyway.
    #[inline]
    pub fn poll_whole<'i>(&mut self, input: &mut &'i [u8], now: Instant) -> Option<Event<'i>> {
        match self {
            Connection::Http1(connection) => connection.poll_whole(input, now).map(Event::from),
            Connection::Http2(_) => None,
        }
    }

    /// Says that the server has ended its side of the connection. All octets before that must have
    /// been [`poll`](Self::poll)ed.
    pub fn handle_eof(&mut self, now: Instant) {
        either!(self, connection => connection.handle_eof(now));
    }

    /// Says that the transport failed (or that the caller gives it up, with a failure that is not
    /// the peer's fault). Responses that were polled whole stay whole.
    pub fn handle_failure(&mut self, failure: Failure, now: Instant) {
        either!(self, connection => connection.handle_failure(failure, now));
    }

    /// Says that the client has no more to ask and is closing: requests without an answer are
    /// given up as [`Failure::LocalAbort`], and the reason is [`CloseReason::Finished`].
    pub fn finish(&mut self) {
        either!(self, connection => connection.finish());
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called if nothing happens before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        either!(self, connection => connection.poll_timeout())
    }

    /// Acts on every time limit that has passed. Spurious calls do nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        either!(self, connection => connection.handle_timeout(now));
    }

    /// The head that the last [`Event::Head`] or [`Event::Interim`] announced. Stays until the next
    /// head is read.
    #[inline]
    pub fn head(&self) -> Head<'_> {
        match self {
            Connection::Http1(connection) => connection.head().into(),
            Connection::Http2(connection) => connection.head(),
        }
    }

    /// Why the machine is done; `None` while it is not.
    pub fn close_reason(&self) -> Option<CloseReason> {
        either!(self, connection => connection.close_reason())
    }
}
