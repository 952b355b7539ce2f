//! The server side of one HTTP/3 connection, without I/O and without QUIC (RFC 9114).
//!
//! [`Connection`] is given octets of streams and gives octets of streams. It reads requests as they
//! come, asks the [`Origin`](crate::origin::Origin) what to answer, and sends the answers in the order
//! that the client's priorities ask for (RFC 9218): by urgency; of the same urgency one after the
//! other, or by turns where they are incremental. Content is not copied: it is offered where it is, a
//! stream's piece at a time, as much as the transport asks for. See [`crate::h3`] for how a host
//! drives it. What is particular to this side:
//!
//! - [`handle_data`](Connection::handle_data) takes all it is given.
//!   [`wants_data`](Connection::wants_data) says whether more of a stream is welcome: a host that reads
//!   no more of it lets flow control bound the client.
//! - Where content is in a file, [`Transmit::file`](super::Transmit::file) says so instead of slices.
//! - A request is answered when it is whole; what is wrong with one is told by a response where
//!   it is legible, and by a reset of its stream where it is not.
//!
//! Any split of the input of a stream gives the same output. Nothing is allocated for an exchange once
//! buffers have grown. Not done here: pushes, CONNECT, datagrams.

mod config;
mod connection;
mod flowing;
mod fuzz;
mod lifetime;
mod output;
mod reading;
mod respond;
mod schedule;
mod stream;
#[cfg(test)]
mod tests;

pub use crate::h1::server::{FilePart, RequestText};
pub use config::{Limits, ServerConfig};
pub use connection::{CloseReason, Connection, Served};
pub use fuzz::fuzz;
