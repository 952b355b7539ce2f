//! HTTP/3 on both sides, without I/O and without QUIC (RFC 9114).
//!
//! A [`client::Connection`] and a [`server::Connection`] are told what came on the streams of a QUIC
//! connection, and say which streams are to be opened, written, reset, refused, and when the connection
//! is to be closed. Streams are named by QUIC's numbers (RFC 9000 section 2.1); packets, flow control,
//! loss and the handshake are the transport's, which they know nothing of.
//!
//! The host of either works in this order, once the connection is established (or, on a client,
//! earlier, with early data):
//!
//! 1. While `wants_stream` asks for a stream and the transport opens one, `handle_opened` with its
//!    number.
//! 2. For every stream that can be read: its octets to `poll` (client) or `handle_data` (server); its
//!    end to `handle_fin`; that it was reset to `handle_reset`. A stream the peer no longer wants to
//!    read: `handle_stop_sending`.
//! 3. Carry out `poll_action`, take `poll_event`.
//! 4. While `transmit` gives octets of a stream, write them; where `end` is set and all were taken,
//!    finish the stream; then say so by `transmitted`. Where the transport takes less, also
//!    `handle_blocked`, and `handle_writable` when that changes.
//! 5. Wait for the transport, or until `poll_timeout`, and then call `handle_timeout`.
//!
//! An action may be about a stream that is closed by then; it is nothing more to be done there.

pub mod client;
mod critical;
mod error;
mod frame;
mod message;
pub mod server;
mod settings;
#[cfg(test)]
mod tests;
mod varint;

use crate::h1::server::FilePart;

pub use crate::h2::priority::Priority;
pub use error::{ErrorCode, Fault};
pub use settings::Settings;

/// Whether octets go one way or both on a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From this side only.
    Unidirectional,
    /// Both ways.
    Bidirectional,
}

/// What the host of a connection is to do with its transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Reset the sending part of a stream (RESET_STREAM). What was written and not sent is dropped.
    Reset {
        /// The stream.
        stream: u64,
        /// Why.
        code: ErrorCode,
    },
    /// Ask the peer to reset its part of a stream, and read no more of it (STOP_SENDING).
    StopSending {
        /// The stream.
        stream: u64,
        /// Why.
        code: ErrorCode,
    },
    /// Close the connection (CONNECTION_CLOSE). Nothing follows.
    Close {
        /// Why.
        code: ErrorCode,
    },
}

/// Octets of one stream that go next.
#[derive(Debug, Clone, Copy)]
pub struct Transmit<'a> {
    /// The stream.
    pub stream: u64,
    /// How many slices were filled with octets, from the first on.
    pub slices: usize,
    /// Octets in them, or of the file.
    pub octets: usize,
    /// The octets are of a file, and no slice was filled.
    pub file: Option<FilePart<'a>>,
    /// Whether the stream ends behind them. There may be none.
    pub end: bool,
}

/// Whether a stream's number is that of a request.
const fn is_request(stream: u64) -> bool {
    stream.is_multiple_of(4)
}

/// Whether octets go both ways on a stream.
const fn is_bidirectional(stream: u64) -> bool {
    stream & 2 == 0
}
