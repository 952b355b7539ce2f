//! HTTP/2 on the wire (RFC 9113).
//!
//! - [`frame`]: frames, read incrementally and written into a buffer
//! - [`settings`]: the settings of one side
//! - [`flow`]: flow-control windows
//! - [`error`]: error codes, and the peer's faults that cause them
//! - [`server`] and [`client`]: the two sides of a connection

pub mod client;
pub mod error;
pub mod flow;
pub mod frame;
pub mod server;
pub mod settings;

/// The bytes that a client sends before its first frame (RFC 9113 section 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The number of a stream within its connection; at most 2^31 − 1. Zero denotes the connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u32);

impl StreamId {
    /// The connection as a whole.
    pub const CONNECTION: StreamId = StreamId(0);
    /// The largest stream number.
    pub const MAX: StreamId = StreamId((1 << 31) - 1);

    /// Creates a stream identifier; the reserved highest bit is cleared.
    pub const fn new(number: u32) -> StreamId {
        StreamId(number & StreamId::MAX.0)
    }

    /// The number.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Whether the number denotes the connection itself.
    pub const fn is_connection(self) -> bool {
        self.0 == 0
    }

    /// Whether the number is odd: clients open these streams.
    pub const fn is_client(self) -> bool {
        self.0 & 1 == 1
    }

    /// Whether the number is even and not zero: servers open these streams.
    pub const fn is_server(self) -> bool {
        self.0 != 0 && self.0 & 1 == 0
    }
}
