//! QUIC connections (RFC 9000, 9001, 9002) over any datagram socket, without I/O.
//!
//! The transport machine is `quinn-proto`; what is added here is what an experiment needs of it: our
//! [`Instant`](fathometer_model::Instant) and [`Seed`](fathometer_model::Seed), every setting as a
//! factor with a unit ([`TransportSettings`]), the figures of a handshake ([`Handshake`]), who closed a
//! connection and why ([`Closed`]), and qlog to a writer of the host's.
//!
//! An [`Endpoint`] is one UDP socket's worth of connections. Its host works in this order:
//!
//! 1. Datagrams go in by [`handle_datagrams`](Endpoint::handle_datagrams). Answers that belong to no
//!    connection come out of [`poll_response`](Endpoint::poll_response).
//! 2. [`poll_touched`](Endpoint::poll_touched) names the connections that need a look; those that the
//!    host itself wrote to, or whose time has come
//!    ([`handle_timeout`](Endpoint::handle_timeout)), need one too.
//! 3. Of each, take [`poll_event`](Endpoint::poll_event) until `None`, reading and writing streams of
//!    the [`Connection`] meanwhile;
//! 4. then [`poll_transmit`](Endpoint::poll_transmit) until `None`, sending what it gives;
//! 5. then ask [`poll_timeout`](Endpoint::poll_timeout), whose answer any of the above may have moved.
//!
//! The event [`Event::Drained`] is a connection's last; its key may name another from then on.
//!
//! With one seed, connection identifiers, skipped packet numbers and key updates are the same in every
//! run. What TLS draws (keys, randoms) is not, so datagrams of the same lengths carry other octets.
//!
//! Not done here: sockets, offloads and ECN marks as such (the host's), HTTP/3, and moving a connection
//! to another address.

mod budget;
mod congestion;
mod connection;
mod endpoint;
mod event;
mod half_open;
mod handshake;
mod hello;
mod identifiers;
mod memory;
mod session;
mod settings;
mod statistics;
mod timeline;

pub use connection::{Connection, ReadEnd, StreamError};
pub use endpoint::{ConnectError, ConnectionKey, Endpoint, EndpointCounts, Transmit};
pub use event::{CloseKind, Closed, Closer, Event};
pub use handshake::{EarlyData, Handshake, Volume};
pub use settings::{
    AckFrequency, ClientTls, Congestion, HalfOpen, QlogWriter, ServerSettings, SettingsError,
    TransportSettings, Waiting,
};
pub use statistics::Statistics;

/// The side that opened a stream and its kind, from its identifier (RFC 9000 section 2.1).
pub mod stream {
    /// Whether a stream was opened by the client.
    pub const fn is_clients(stream: u64) -> bool {
        stream & 1 == 0
    }

    /// Whether both sides send on a stream.
    pub const fn is_bidirectional(stream: u64) -> bool {
        stream & 2 == 0
    }
}
