//! The client side of one HTTP/1.x connection, without I/O: HTTP/1.0, HTTP/1.0 with Keep-Alive and
//! HTTP/1.1 (RFC 1945, RFC 9112), with pipelining of bounded depth.
//!
//! [`Connection`] turns requests into bytes and bytes into [`Event`]s. Its methods are of four kinds:
//!
//! - queries, which change nothing: [`can_request`](Connection::can_request), [`head`](Connection::head),
//!   [`transmit`](Connection::transmit), [`poll_timeout`](Connection::poll_timeout) …
//! - commands of the client: [`request`](Connection::request),
//!   [`request_prepared`](Connection::request_prepared), [`send_content`](Connection::send_content),
//!   [`release`](Connection::release), [`flush`](Connection::flush), [`finish`](Connection::finish);
//! - notifications from the transport: [`transmitted`](Connection::transmitted),
//!   [`handle_eof`](Connection::handle_eof), [`handle_failure`](Connection::handle_failure),
//!   [`handle_timeout`](Connection::handle_timeout);
//! - [`poll`](Connection::poll), which reads bytes and is the only source of events. Call it with the bytes
//!   read, and with an empty input after every method of the third kind, until it returns `None`. Then call
//!   `transmit` and `poll_timeout` again. A caller that does not need content may call
//!   [`poll_whole`](Connection::poll_whole) first, each time.
//!
//! Invariants:
//!
//! - Any split of the input gives the same events (contents joined).
//! - No byte is sent before it is released, because the experiments measure *when a client flushes*.
//! - Every request ends in exactly one of `End`, `Failed` and `Unanswered`.
//! - No event follows `Closed`.
//! - An exchange allocates nothing once the buffers have grown to their sizes.
//!
//! Out of scope: choosing connections and retrying (see [`crate::driver`]), content codings, following
//! redirections, upgrading (101) and tunnels (`CONNECT`). Responses with ambiguous framing are refused: two
//! lengths, a length and a transfer coding, a transfer coding in HTTP/1.0, or a transfer coding that was not
//! requested. Harmless faults (bare line feeds, folded lines) are accepted.
//!
//! ```
//! use fathometer_http::h1::client::{Config, Connection, Event, RequestLine, Version};
//! use fathometer_model::Instant;
//!
//! let now = Instant::ZERO;
//! let mut connection = Connection::new(Config { depth: 4, ..Config::default() });
//! for target in ["/a", "/b"] {
//!     let line = RequestLine { method: "GET", target, host: "example.org", version: Version::Http11 };
//!     let mut request = connection.request(line).unwrap();
//!     request.field("Accept", "*/*");
//!     request.send().unwrap();
//! }
//! assert!(connection.transmit().is_empty(), "no byte is sent before a flush");
//! connection.flush();
//! let written = connection.transmit().len();
//! connection.transmitted(written, now);
//!
//! let mut input: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
//! while let Some(event) = connection.poll(&mut input, now) {
//!     match event {
//!         Event::Head { .. } => assert_eq!(connection.head().status(), 200),
//!         Event::Content { bytes, .. } => assert_eq!(bytes, b"hi"),
//!         Event::End { persists, .. } => assert!(persists),
//!         _ => {}
//!     }
//! }
//! assert_eq!(connection.outstanding(), 1);
//! ```

pub mod byteranges;
mod connection;
mod fuzz;
mod head;
mod limits;
mod output;
mod prepared;
mod request;
#[cfg(test)]
mod tests;

pub use crate::exchange::{Event, Received};
pub use connection::Connection;
pub use fuzz::fuzz;
pub use head::ResponseHead;
pub use limits::Config;
pub use prepared::PreparedRequest;
pub use request::RequestWriter;

pub use crate::exchange::{
    Content, Limits, Queued, RequestId, RequestLine, SendError, Timeouts, Version, is_idempotent,
};
