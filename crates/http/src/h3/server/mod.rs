//! The server side of one HTTP/3 connection, without I/O and without QUIC (RFC 9114).
//!
//! [`Connection`] reads bytes of streams and returns bytes of streams. It parses requests as they arrive, gets
//! each answer from the [`Origin`](crate::origin::Origin), and sends responses in the order of the client's
//! priorities (RFC 9218). Responses go by urgency; those of equal urgency go one after another, or by turns if
//! they are incremental. Content is not copied: `transmit` offers it in place, one stream at a time and as many
//! bytes as the transport requests. [`crate::h3`] describes how a host drives the machine. Particular to this
//! side:
//!
//! - [`handle_data`](Connection::handle_data) accepts all bytes that it is given.
//!   [`wants_data`](Connection::wants_data) returns whether the host should read more of a stream. If the host
//!   stops reading, flow control bounds the client.
//! - If content is in a file, [`Transmit::file`](super::Transmit::file) is set and no slices are filled.
//! - A request is answered when it is complete. An invalid request gets an error response if it can be parsed,
//!   and otherwise a reset of its stream.
//!
//! Any split of a stream's input gives the same output. An exchange allocates nothing once the buffers have
//! grown. Not implemented: pushes, CONNECT, datagrams.

mod config;
mod connection;
mod flowing;
mod fuzz;
mod lifetime;
mod reading;
mod respond;
mod schedule;
mod stream;
#[cfg(test)]
mod tests;

pub use crate::exchange::{FilePart, RequestText};
pub use config::{Limits, ServerConfig};
pub use connection::{CloseReason, Connection, Served};
pub use fuzz::fuzz;
