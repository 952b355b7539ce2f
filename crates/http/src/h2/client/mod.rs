//! The client side of one HTTP/2 connection; performs no I/O (RFC 9113, RFC 7541, RFC 9218).
//!
//! [`Connection`] turns requests into bytes and bytes into [`Event`]s, as
//! [`h1::client::Connection`](crate::h1::client::Connection) does. [`crate::client::Connection`] wraps both.
//! [`Connection`] has four kinds of methods:
//!
//! - queries, which change nothing: [`can_request`](Connection::can_request), [`head`](Connection::head),
//!   [`promise`](Connection::promise), [`transmit`](Connection::transmit),
//!   [`poll_timeout`](Connection::poll_timeout), [`sent`](Connection::sent),
//!   [`received`](Connection::received) …
//! - commands of the client: [`request`](Connection::request),
//!   [`request_prepared`](Connection::request_prepared), [`send_content`](Connection::send_content),
//!   [`cancel`](Connection::cancel), [`ping`](Connection::ping), [`release`](Connection::release),
//!   [`flush`](Connection::flush), [`finish`](Connection::finish);
//! - notifications from the transport: [`transmitted`](Connection::transmitted),
//!   [`handle_eof`](Connection::handle_eof), [`handle_failure`](Connection::handle_failure),
//!   [`handle_timeout`](Connection::handle_timeout);
//! - [`poll`](Connection::poll), which reads bytes and is the only source of events. Call it with the bytes read, and
//!   with an empty input after every notification from the transport, until it returns `None`. Then call `transmit` and
//!   `poll_timeout` again.
//!
//! The connection's own frames (the preface and settings, acknowledgements, window updates, resets) may be transmitted
//! at once and are never held. Requests, their content, PING and PRIORITY_UPDATE are held until they are released. All
//! output that is released at once is one slice of [`transmit`](Connection::transmit), because the experiments measure
//! the effect of the time at which a client flushes.
//!
//! Invariants:
//!
//! - Any split of the input gives the same events, except that content may be split differently.
//! - Every request and every accepted push ends with exactly one of the events `End`, `Failed` and `Unanswered`.
//! - No event follows `Closed`.
//! - An error on one stream resets only that stream. A connection error closes the connection with GOAWAY and
//!   the error code of the RFC.
//! - [`Config`] bounds the memory of a connection for any input from the server.
//! - An exchange allocates no memory after the buffers have reached their final sizes.
//!
//! Out of scope: TLS and ALPN, the upgrade from HTTP/1.1, `CONNECT`, the selection of connections and retries (both are
//! tasks of the caller), and the priority tree of RFC 7540.
//!
//! ```
//! use fathometer_http::h2::client::{Config, Connection, Event, RequestLine};
//! use fathometer_http::h1::client::Version;
//! use fathometer_model::Instant;
//!
//! let now = Instant::ZERO;
//! let mut connection = Connection::new(Config::default());
//! let preface = connection.transmit().len();
//! connection.transmitted(preface, now);
//! for target in ["/a", "/b"] {
//!     let version = Version::Http11; // HTTP/2 has no versions.
//!     let line = RequestLine { method: "GET", target, host: "example.org", version };
//!     let mut request = connection.request(line).unwrap();
//!     request.field("accept", "*/*");
//!     request.send().unwrap();
//! }
//! assert!(connection.transmit().is_empty(), "nothing is sent before the flush");
//! connection.flush();
//! let written = connection.transmit().len();
//! connection.transmitted(written, now);
//!
//! // SETTINGS; then the response 204 on the second stream (`:status 204` is an entry of the static table).
//! let mut input: &[u8] = b"\0\0\0\x04\0\0\0\0\0\0\0\x01\x01\x05\0\0\0\x03\x89";
//! let mut ended = Vec::new();
//! while let Some(event) = connection.poll(&mut input, now) {
//!     match event {
//!         Event::Head { .. } => assert_eq!(connection.head().status(), 204),
//!         Event::End { request, .. } => ended.push(request.0),
//!         _ => {}
//!     }
//! }
//! assert_eq!((ended, connection.outstanding()), (vec![1], 1));
//! assert!(!connection.transmit().is_empty(), "the settings are acknowledged");
//! ```

mod alternatives;
mod calm;
mod config;
mod connection;
mod ending;
mod fuzz;
mod output;
mod promise;
mod push;
mod receive;
mod request;
mod stream;
#[cfg(test)]
mod tests;
mod timing;
mod traffic;
mod upload;

pub use crate::exchange::{
    Content, PreparedRequest, RequestLine, RequestWriter, SendError, WindowWait,
};
pub use config::{Config, Floods, Limits, Push, Scheme, Start, Timeouts};
pub use connection::Connection;
pub use fuzz::fuzz;
pub use promise::Promise;
pub use traffic::Traffic;

pub use crate::exchange::{Event, Head, Queued, Received, RequestId};
