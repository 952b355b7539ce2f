//! What a client connection reports, whatever version of HTTP it speaks.

use fathometer_model::{Bytes, CloseReason, Failure};

use crate::h1;
pub use crate::h1::client::RequestId;
use crate::h2::error::ErrorCode;

impl RequestId {
    /// The bit that marks the requests that a server promised; the rest is half of the stream's
    /// number. Requests that were asked for are numbered from 0.
    const PUSHED: u32 = 1 << 31;

    /// The request that the server has promised to answer on its `number`-th stream.
    pub(crate) const fn pushed(number: u32) -> RequestId {
        RequestId(number | RequestId::PUSHED)
    }

    /// Whether it is a request that nobody asked: the server promised to answer it (RFC 9113 section
    /// 8.4).
    pub const fn is_pushed(self) -> bool {
        self.0 & RequestId::PUSHED != 0
    }
}

/// What happened on a connection.
///
/// The events of one request come in this order: `Promised` if it was pushed; `Begin`, any `Interim`
/// and `SendContent`, `Head`, any `Content`, `Trailers` if there are any, `End`; or `Failed` instead of
/// what is missing after `Begin`; or `Unanswered` alone. Those of different requests are interleaved
/// in HTTP/2. `Closed` is the last event of all, and every request has had its `End`, `Failed` or
/// `Unanswered` by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'i> {
    /// The first octet of the response was read; in HTTP/2 its first whole header block.
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
    /// Content, transfer coding and frames taken off.
    Content {
        /// The request it answers.
        request: RequestId,
        /// The next octets of it, never empty.
        bytes: &'i [u8],
    },
    /// Fields came behind the content; HTTP/2 alone tells them, and keeps them at
    /// [`trailers`](crate::h2::client::Connection::trailers).
    Trailers {
        /// The request they belong to.
        request: RequestId,
    },
    /// The response is whole.
    End {
        /// The request it answers.
        request: RequestId,
        /// What it consisted of.
        received: Received,
        /// Whether the connection takes further requests. If not, `Closed` follows when all
        /// responses that are still to come have come.
        persists: bool,
    },
    /// The response broke off or broke the rules.
    Failed {
        /// The request it answered.
        request: RequestId,
        /// Why.
        failure: Failure,
        /// What had arrived of it.
        received: Received,
        /// Whether the connection takes further requests all the same: the failure was that of one
        /// stream.
        persists: bool,
    },
    /// No part of a response to this request arrived, and none will.
    Unanswered {
        /// The request.
        request: RequestId,
        /// What ended it or its connection.
        failure: Failure,
        /// Whether the server may have acted on it. `false` when no octet of it was handed to the
        /// transport, and when the server said that it did not process it: it may be asked again
        /// in any case.
        sent: bool,
        /// Whether its method is idempotent: it may be asked again even if the server acted on it.
        idempotent: bool,
        /// Whether the connection takes further requests all the same.
        persists: bool,
    },
    /// The server announced a response to a request that was not asked. The request is at
    /// [`promise`](crate::h2::client::Connection::promise).
    Promised {
        /// What the promised request is called from now on.
        request: RequestId,
        /// The request that it came with.
        parent: RequestId,
        /// Whether the response is waited for. If not, it was refused as the configuration says,
        /// and this is the only event of the request.
        accepted: bool,
    },
    /// The server told its settings, for the first time or anew: more or fewer requests may be
    /// possible than before.
    Settings,
    /// The server answered a [`ping`](crate::h2::client::Connection::ping).
    Pong {
        /// What it was asked with.
        payload: [u8; 8],
    },
    /// The server told of alternative services in a frame of its own (HTTP/2 alone). What it said is at
    /// [`alternatives`](crate::h2::client::Connection::alternatives).
    Alternatives {
        /// The request about whose origin it is; `None`: it names the origin.
        request: Option<RequestId>,
    },
    /// The server takes no further requests (GOAWAY). Those that it will not answer are reported
    /// `Unanswered` next.
    GoAway {
        /// The last request that it may have acted on; `None`: it acted on none.
        last: Option<RequestId>,
        /// Why.
        code: ErrorCode,
    },
    /// The machine is done with the connection. Nothing comes after this and nothing more is read:
    /// the transport is to be closed, after what [`transmit`](super::Connection::transmit) has left
    /// to say was offered to it once.
    Closed {
        /// Why.
        reason: CloseReason,
    },
}

/// The octets of one response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Received {
    /// Heads on the wire, interim responses and trailers included. HTTP/1.x: status lines, fields and
    /// empty lines. HTTP/2: HEADERS and CONTINUATION frames with their headers and padding.
    pub head: Bytes,
    /// The same before compression: names and values. HTTP/1.x compresses nothing: the same as `head`.
    pub fields: Bytes,
    /// Content on the wire. HTTP/1.x: with its transfer coding. HTTP/2: DATA frames with their headers
    /// and padding.
    pub body: Bytes,
    /// Content by itself.
    pub content: Bytes,
}

impl From<h1::client::Received> for Received {
    fn from(received: h1::client::Received) -> Received {
        Received {
            head: received.head,
            fields: received.head,
            body: received.body,
            content: received.content,
        }
    }
}

/// HTTP/1.x knows nothing that outlives a failure.
impl<'i> From<h1::client::Event<'i>> for Event<'i> {
    #[inline]
    fn from(event: h1::client::Event<'i>) -> Event<'i> {
        use h1::client::Event as Http1;
        match event {
            Http1::Begin { request } => Event::Begin { request },
            Http1::Interim { request, status } => Event::Interim { request, status },
            Http1::SendContent { request } => Event::SendContent { request },
            Http1::Head { request } => Event::Head { request },
            Http1::Content { request, bytes } => Event::Content { request, bytes },
            Http1::End {
                request,
                received,
                persists,
            } => Event::End {
                request,
                received: received.into(),
                persists,
            },
            Http1::Failed {
                request,
                failure,
                received,
            } => Event::Failed {
                request,
                failure,
                received: received.into(),
                persists: false,
            },
            Http1::Unanswered {
                request,
                failure,
                sent,
                idempotent,
            } => Event::Unanswered {
                request,
                failure,
                sent,
                idempotent,
                persists: false,
            },
            Http1::Closed { reason } => Event::Closed { reason },
        }
    }
}

impl Event<'_> {
    /// The same event, which borrows nothing; `None` for content, which does.
    pub fn without_content(self) -> Option<Event<'static>> {
        Some(match self {
            Event::Content { .. } => return None,
            Event::Begin { request } => Event::Begin { request },
            Event::Interim { request, status } => Event::Interim { request, status },
            Event::SendContent { request } => Event::SendContent { request },
            Event::Head { request } => Event::Head { request },
            Event::Trailers { request } => Event::Trailers { request },
            Event::End {
                request,
                received,
                persists,
            } => Event::End {
                request,
                received,
                persists,
            },
            Event::Failed {
                request,
                failure,
                received,
                persists,
            } => Event::Failed {
                request,
                failure,
                received,
                persists,
            },
            Event::Unanswered {
                request,
                failure,
                sent,
                idempotent,
                persists,
            } => Event::Unanswered {
                request,
                failure,
                sent,
                idempotent,
                persists,
            },
            Event::Promised {
                request,
                parent,
                accepted,
            } => Event::Promised {
                request,
                parent,
                accepted,
            },
            Event::Settings => Event::Settings,
            Event::Pong { payload } => Event::Pong { payload },
            Event::Alternatives { request } => Event::Alternatives { request },
            Event::GoAway { last, code } => Event::GoAway { last, code },
            Event::Closed { reason } => Event::Closed { reason },
        })
    }
}
