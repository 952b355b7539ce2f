//! HTTP/3 on both sides, without I/O and without QUIC (RFC 9114).
//!
//! A host passes the bytes of the streams of a QUIC connection to a [`client::Connection`] or a
//! [`server::Connection`]. The state machine returns which streams to open, write, reset and refuse, and when
//! to close the connection. Streams are named by QUIC's stream IDs (RFC 9000 section 2.1). Packets, flow
//! control, loss recovery and the handshake belong to the transport.
//!
//! The host drives either machine in this order once the connection is established (a client with early data
//! may start before):
//!
//! 1. While `wants_stream` requests a stream and the transport opens one: call `handle_opened` with its ID.
//! 2. For every readable stream: pass its bytes to `poll` (client) or `handle_data` (server), its end to
//!    `handle_fin`, and its reset to `handle_reset`. When the peer sends STOP_SENDING: call
//!    `handle_stop_sending`.
//! 3. Carry out each `poll_action`; take each `poll_event`.
//! 4. While `transmit` returns bytes of a stream: write them. If `end` is set and the transport took all of
//!    them, finish the stream. Then call `transmitted`. If the transport took fewer bytes, also call
//!    `handle_blocked`, and call `handle_writable` when it accepts bytes again.
//! 5. Wait for the transport, or until `poll_timeout`, and then call `handle_timeout`.
//!
//! An action may name a stream that has been closed in the meantime. The host then ignores the action.

pub mod client;
mod critical;
mod error;
mod frame;
pub mod server;
mod settings;
#[cfg(test)]
mod tests;
mod varint;

use crate::exchange::{FilePart, RequestId};

pub use crate::message::Priority;
pub use error::{ErrorCode, Fault};
pub use settings::Settings;

/// Whether a stream carries bytes in one direction or in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From this side only.
    Unidirectional,
    /// In both directions.
    Bidirectional,
}

/// An action that the host of a connection must carry out on its transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Reset the sending part of a stream (RESET_STREAM). Bytes that were written and not sent are dropped.
    Reset {
        /// The stream.
        stream: u64,
        /// The error code that is sent.
        code: ErrorCode,
    },
    /// Ask the peer to reset its part of a stream, and stop reading it (STOP_SENDING).
    StopSending {
        /// The stream.
        stream: u64,
        /// The error code that is sent.
        code: ErrorCode,
    },
    /// Close the connection (CONNECTION_CLOSE). No action follows.
    Close {
        /// The error code that is sent.
        code: ErrorCode,
    },
}

/// The bytes of one stream to send next.
#[derive(Debug, Clone, Copy)]
pub struct Transmit<'a> {
    /// The stream.
    pub stream: u64,
    /// The number of slices that were filled with bytes, starting with the first.
    pub slices: usize,
    /// The number of bytes in the slices, or in the part of the file.
    pub bytes: usize,
    /// If set, the bytes are in a file, and no slice was filled.
    pub file: Option<FilePart<'a>>,
    /// Whether the stream ends after these bytes, of which there may be none.
    pub end: bool,
}

/// The stream of a request.
fn stream_of(request: RequestId) -> u64 {
    u64::from(request.0) * 4
}

/// The request of a stream, which need not be open; `None` for a stream that carries no request.
fn request_of(stream: u64) -> Option<RequestId> {
    let number = u32::try_from(stream / 4).ok()?;
    is_request(stream).then_some(RequestId(number))
}

/// Whether a stream ID belongs to a request.
const fn is_request(stream: u64) -> bool {
    stream.is_multiple_of(4)
}

/// Whether a stream carries bytes in both directions.
const fn is_bidirectional(stream: u64) -> bool {
    stream & 2 == 0
}
