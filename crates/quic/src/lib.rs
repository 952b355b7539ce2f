//! QUIC connections (RFC 9000, 9001, 9002) over any datagram socket, without I/O.
//!
//! The transport state machine is `quinn-proto`. This crate adds what experiments need: our
//! [`Instant`](fathometer_model::Instant) and [`Seed`](fathometer_model::Seed), every setting as a factor with a unit
//! ([`TransportSettings`]), the figures of a handshake ([`Handshake`]), the side that closed a connection and the
//! reason ([`Closed`]), and qlog to a writer that the host supplies.
//!
//! An [`Endpoint`] contains the connections of one UDP socket. Its host works in this order:
//!
//! 1. Pass received datagrams to [`handle_datagrams`](Endpoint::handle_datagrams). Take responses without a
//!    connection from [`poll_response`](Endpoint::poll_response).
//! 2. Take the connections that have changed from [`poll_touched`](Endpoint::poll_touched). Also handle connections
//!    that the host itself wrote to, and those whose time-out is due ([`handle_timeout`](Endpoint::handle_timeout)).
//! 3. For each connection, call [`poll_event`](Endpoint::poll_event) until `None`, and read and write streams of the
//!    [`Connection`] meanwhile.
//! 4. Then call [`poll_transmit`](Endpoint::poll_transmit) until `None`, and send the datagrams.
//! 5. Then call [`poll_timeout`](Endpoint::poll_timeout): any of these steps may have changed its result.
//!
//! [`Event::Drained`] is the last event of a connection; its key may identify another connection afterwards.
//!
//! With the same seed, connection IDs, skipped packet numbers and key updates are the same in every run. The
//! random values of TLS (keys, hello randoms) are not, so datagrams of the same lengths have other contents.
//!
//! Not in this crate: sockets, offloads and access to ECN marks (all belong to the host), HTTP/3, and migration of
//! our own connections to another address.

mod budget;
mod congestion;
mod connection;
mod connection_key;
mod endpoint;
mod event;
mod half_open;
mod handshake;
mod hello;
mod identifiers;
mod memory;
mod session;
mod settings;
mod settings_error;
mod statistics;
mod timeline;

pub use connection::{Connection, ReadEnd, StreamError};
pub use connection_key::ConnectionKey;
pub use endpoint::{ConnectError, Endpoint, EndpointCounts, SharedLimit, Transmit};
pub use event::{CloseKind, Closed, Closer, Event};
pub use handshake::{EarlyData, Handshake, Volume};
pub use settings::{
    AckFrequency, ClientTls, Congestion, HalfOpen, QlogWriter, ServerSettings, TransportSettings,
    Waiting,
};
pub use settings_error::SettingsError;
pub use statistics::Statistics;

/// The side that opened a stream and its kind, from its identifier (RFC 9000 section 2.1).
pub mod stream {
    /// Whether a stream was opened by the client.
    pub(crate) const fn is_clients(stream: u64) -> bool {
        stream & 1 == 0
    }

    /// Whether both sides send on a stream.
    pub const fn is_bidirectional(stream: u64) -> bool {
        stream & 2 == 0
    }
}
