//! Client and server state machines of HTTP/3, without I/O and without QUIC (RFC 9114).
//!
//! A host passes the bytes of the streams of a QUIC connection to a [`client::Connection`] or a [`server::Connection`].
//! The state machine requests that streams are opened, written, reset or refused, and that the connection is closed.
//! Streams are identified by QUIC's stream IDs (RFC 9000 section 2.1). Packets, flow control, loss recovery and the
//! handshake belong to the transport.
//!
//! The host calls either state machine in this order after the connection is established. A client with early data may
//! start earlier.
//!
//! 1. While `wants_stream` requests a stream: open it, if the transport permits it, and call `handle_opened` with its
//!    ID.
//! 2. For every readable stream: pass its bytes to `poll` (client) or `handle_data` (server), its end to
//!    `handle_fin`, and its reset to `handle_reset`. When the peer sends STOP_SENDING: call
//!    `handle_stop_sending`.
//! 3. Perform each action that `poll_action` returns, and take each event that `poll_event` returns.
//! 4. While `transmit` returns bytes of a stream: write them. If `end` is set and the transport took all bytes, finish
//!    the stream. Then call `transmitted`. If the transport took fewer bytes, also call `handle_blocked`, and call
//!    `handle_writable` when it accepts bytes again.
//! 5. Wait for the transport, or for the time that `poll_timeout` returns. At that time, call `handle_timeout`.
//!
//! The host ignores an action on a stream that has already closed.

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

/// The direction of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Bytes flow from this side only.
    Unidirectional,
    /// Bytes flow in both directions.
    Bidirectional,
}

/// An action that the host of a connection must perform on the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Reset the sending side of a stream (RESET_STREAM). Bytes that were queued and not sent are dropped.
    Reset {
        /// The stream.
        stream: u64,
        /// The error code that is sent.
        code: ErrorCode,
    },
    /// Request that the peer resets its side of a stream, and stop reading the stream (STOP_SENDING).
    StopSending {
        /// The stream.
        stream: u64,
        /// The error code that is sent.
        code: ErrorCode,
    },
    /// Close the connection (CONNECTION_CLOSE). This is the last action.
    Close {
        /// The error code that is sent.
        code: ErrorCode,
    },
}

/// The next bytes to send, all of one stream.
#[derive(Debug, Clone, Copy)]
pub struct Transmit<'a> {
    /// The stream.
    pub stream: u64,
    /// The number of filled slices, counted from the first.
    pub slices: usize,
    /// The number of bytes in the filled slices or in the part of the file.
    pub bytes: usize,
    /// The part of a file to send. If set, no slice was filled.
    pub file: Option<FilePart<'a>>,
    /// Whether the stream ends after these bytes. The number of bytes may be 0.
    pub end: bool,
}

/// The stream ID of a request.
fn stream_of(request: RequestId) -> u64 {
    u64::from(request.0) * 4
}

/// The request that belongs to a stream ID, whether the stream is open or not; `None` if the stream carries no request.
fn request_of(stream: u64) -> Option<RequestId> {
    let number = u32::try_from(stream / 4).ok()?;
    is_request(stream).then_some(RequestId(number))
}

/// Whether a stream ID is the ID of a request stream.
const fn is_request(stream: u64) -> bool {
    stream.is_multiple_of(4)
}

/// Whether a stream carries bytes in both directions.
const fn is_bidirectional(stream: u64) -> bool {
    stream & 2 == 0
}
