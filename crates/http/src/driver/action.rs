//! The connections of a retrieval, and the actions that the caller of the driver must take on them.

/// A connection of one retrieval. Connections are numbered from 0 in the order in which they are requested. The
/// number is [`ConnectionRecord::connection`](fathometer_model::ConnectionRecord::connection).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u32);

/// An action that the caller of the driver must take on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Open the connection for the protocol [`protocol_of`](super::PageDriver::protocol_of), to the port
    /// [`port_of`](super::PageDriver::port_of) if there is one. Then report
    /// [`handle_connected`](super::PageDriver::handle_connected) or
    /// [`handle_failure`](super::PageDriver::handle_failure). A TLS connection counts as connected when it can carry
    /// requests. Its server name is [`host_of`](super::PageDriver::host_of).
    Connect(ConnectionId),
    /// Close the client's side and continue to read: send FIN, with TLS the closure alert first.
    ShutdownWrite(ConnectionId),
    /// Close and drop the connection. Every requested connection ends in exactly one `Close` or `Abort`,
    /// including those that failed.
    Close(ConnectionId),
    /// Reset and drop the connection: the server violated the protocol or a time limit.
    Abort(ConnectionId),
}
