//! What a connection reports.

use fathometer_model::{Bytes, CloseReason, Failure};

/// A request on one connection: they are numbered from 0 in the order they were queued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u32);

/// What happened on a connection.
///
/// The events of one request come in this order: `Begin`, any `Interim` and `SendContent`, `Head`,
/// any `Content`, `End`; or `Failed` instead of what is missing after `Begin`; or `Unanswered`
/// alone. `Closed` is the last event of all, and every request has had its `End`, `Failed` or
/// `Unanswered` by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'i> {
    /// The first octet of the response was read.
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
    /// The server wants the content of the request (100), or has not answered for so long that it
    /// is to be sent without asking.
    SendContent {
        /// The request.
        request: RequestId,
    },
    /// The head of the final response is at [`Connection::head`](super::Connection::head).
    Head {
        /// The request it answers.
        request: RequestId,
    },
    /// Content, transfer coding taken off.
    Content {
        /// The request it answers.
        request: RequestId,
        /// The next octets of it, never empty.
        bytes: &'i [u8],
    },
    /// The response is whole.
    End {
        /// The request it answers.
        request: RequestId,
        /// What it consisted of.
        received: Received,
        /// Whether the connection persists. If not, `Closed` follows (after `Unanswered` events).
        persists: bool,
    },
    /// The response broke off or broke the rules. Responses before it are whole.
    Failed {
        /// The request it answered.
        request: RequestId,
        /// Why.
        failure: Failure,
        /// What had arrived of it.
        received: Received,
    },
    /// No octet of a response to this request arrived, and none will.
    Unanswered {
        /// The request.
        request: RequestId,
        /// What ended the connection.
        failure: Failure,
        /// Whether any octet of it was handed to the transport: the server may have seen it.
        sent: bool,
        /// Whether its method is idempotent: it may be asked again even if the server saw it.
        idempotent: bool,
    },
    /// The machine is done with the connection. Nothing comes after this and nothing more is read
    /// or written: the transport is to be closed.
    Closed {
        /// Why.
        reason: CloseReason,
    },
}

/// The octets of one response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Received {
    /// Status lines, fields and empty lines, interim responses included.
    pub head: Bytes,
    /// Content as it was transferred, with its transfer coding. (When a chunked response breaks
    /// off within its framing, the broken piece is not counted.)
    pub body: Bytes,
    /// Content without its transfer coding.
    pub content: Bytes,
}
