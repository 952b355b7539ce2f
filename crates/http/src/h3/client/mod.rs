//! The client side of one HTTP/3 connection; performs no I/O and contains no QUIC (RFC 9114).
//!
//! [`Connection`] turns requests into bytes on streams, and bytes on streams into [`Event`]s, which are the events of
//! [`crate::client`]. [`crate::h3`] describes the interface to the host. On the client side:
//!
//! - Requests may be queued before the transport is established. Request *n* uses stream 4*n*, because streams are
//!   opened in the order of requests. If a request is cancelled before its stream opens, the stream is still opened,
//!   and then reset.
//! - [`poll`](Connection::poll) reads bytes of one stream. If it returns `None` and leaves bytes in the input, the
//!   stream waits for entries of the QPACK table. The host stores these bytes and stops reading the stream; QUIC's flow
//!   control then bounds the memory. The host passes the bytes again when
//!   [`poll_unblocked`](Connection::poll_unblocked) returns the stream.
//! - [`poll_event`](Connection::poll_event) returns all other events.
//!
//! Invariants:
//!
//! - Any split of a stream's input gives the same events, except that content may be split differently.
//! - Every request ends with exactly one of the events `End`, `Failed` and `Unanswered`.
//! - No event follows `Closed`.
//! - An exchange allocates no memory after the buffers have reached their final sizes.
//!
//! Not implemented: pushes (no push is permitted, so a push is a fault), CONNECT, datagrams, and stored settings for
//! early data.
//!
//! ```
//! use fathometer_http::h3::client::{Config, Connection, Event, RequestLine, Version};
//! use fathometer_http::h3::Direction;
//! use fathometer_model::Instant;
//!
//! let now = Instant::ZERO;
//! let mut connection = Connection::new(Config::default(), now);
//! let line = RequestLine { method: "GET", target: "/", host: "a.example", version: Version::Http11 };
//! connection.request(line).unwrap().send().unwrap();
//! for stream in [2, 6, 10] {
//!     assert_eq!(connection.wants_stream(), Some(Direction::Unidirectional));
//!     connection.handle_opened(stream, now);
//! }
//! assert_eq!(connection.wants_stream(), Some(Direction::Bidirectional));
//! connection.handle_opened(0, now);
//!
//! // A response: HEADERS with `:status: 200` of the static table, DATA with two bytes.
//! let mut input: &[u8] = &[1, 3, 0, 0, 0xd9, 0, 2, b'h', b'i'];
//! while let Some(event) = connection.poll(0, &mut input, now) {
//!     match event {
//!         Event::Head { .. } => assert_eq!(connection.head().status(), 200),
//!         Event::Content { bytes, .. } => assert_eq!(bytes, b"hi"),
//!         _ => {}
//!     }
//! }
//! connection.handle_fin(0, now);
//! assert!(matches!(connection.poll_event(now), Some(Event::End { persists: true, .. })));
//! ```

mod config;
mod connection;
mod ending;
mod fuzz;
mod receive;
mod request;
mod stream;
#[cfg(test)]
mod tests;

pub use crate::exchange::{Content, Limits, RequestLine, SendError, Timeouts, Version};
pub use crate::exchange::{Event, Head, Queued, Received, RequestId};
pub use crate::exchange::{PreparedRequest, RequestWriter};
pub use config::{Config, Qpack};
pub use connection::Connection;
pub use fuzz::fuzz;
