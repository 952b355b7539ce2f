//! The events of a connection.

use fathometer_model::{Bytes, CloseReason, Failure};

use crate::exchange::RequestId;

/// An event on a connection.
///
/// The events of one request come in this order: `Begin`, any `Interim` and `SendContent`, `Head`, any
/// `Content`, `End`. `Failed` replaces the events that are missing after `Begin`. `Unanswered` comes alone.
/// `Closed` is the last event of all; by then every request has had its `End`, `Failed` or `Unanswered`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'i> {
    /// The first byte of the response was read.
    Begin {
        /// The request it answers.
        request: RequestId,
    },
    /// An interim (1xx) response; its head is at [`Connection::head`](super::Connection::head).
    Interim {
        /// The request it answers.
        request: RequestId,
        /// Its status.
        status: u16,
    },
    /// The server requests the content (100), or has not answered within the time limit, so the content is to
    /// be sent anyway.
    SendContent {
        /// The request.
        request: RequestId,
    },
    /// The head of the final response is at [`Connection::head`](super::Connection::head).
    Head {
        /// The request it answers.
        request: RequestId,
    },
    /// Content, with the transfer coding removed.
    Content {
        /// The request it answers.
        request: RequestId,
        /// The next bytes of it, never empty.
        bytes: &'i [u8],
    },
    /// The response is complete.
    End {
        /// The request it answers.
        request: RequestId,
        /// The bytes of the response.
        received: Received,
        /// Whether the connection persists. If not, `Closed` follows (after `Unanswered` events).
        persists: bool,
    },
    /// The response was cut off or violated the protocol. Earlier responses are complete.
    Failed {
        /// The request it answered.
        request: RequestId,
        /// Why.
        failure: Failure,
        /// The bytes of it that had arrived.
        received: Received,
    },
    /// No byte of a response to this request arrived, and none will.
    Unanswered {
        /// The request.
        request: RequestId,
        /// What ended the connection.
        failure: Failure,
        /// Whether any byte of it was handed to the transport: the server may have received it.
        sent: bool,
        /// Whether its method is idempotent: it may be retried even if the server received it.
        idempotent: bool,
    },
    /// The machine is done with the connection. No event follows and no more bytes are read or written: the
    /// transport is to be closed.
    Closed {
        /// Why.
        reason: CloseReason,
    },
}

/// The bytes of one response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Received {
    /// Status lines, fields and empty lines, interim responses included.
    pub head: Bytes,
    /// Content as it was transferred, with its transfer coding. (When a chunked response is cut off within its
    /// framing, the incomplete piece is not counted.)
    pub body: Bytes,
    /// Content without its transfer coding.
    pub content: Bytes,
}
