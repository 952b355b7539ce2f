//! The events of a client connection, the same for all versions of HTTP.

use fathometer_model::{Bytes, CloseReason, Failure};

use crate::h1;
pub use crate::h1::client::RequestId;
use crate::h2::error::ErrorCode;

impl RequestId {
    /// The bit that marks pushed requests; the other bits are half of the stream number. The client's own
    /// requests are numbered from 0.
    const PUSHED: u32 = 1 << 31;

    /// The promised request of the server's `number`-th stream.
    pub(crate) const fn pushed(number: u32) -> RequestId {
        RequestId(number | RequestId::PUSHED)
    }

    /// Whether the client did not send it: the server pushed it (RFC 9113 section 8.4).
    pub const fn is_pushed(self) -> bool {
        self.0 & RequestId::PUSHED != 0
    }
}

/// An event on a connection.
///
/// The events of one request come in this order: `Promised` if it was pushed; `Begin`, any `Interim` and
/// `SendContent`, `Head`, any `Content`, `Trailers` if there are any, `End`. `Failed` replaces the events that
/// are missing after `Begin`. `Unanswered` comes alone. In HTTP/2 the events of different requests are
/// interleaved. `Closed` is the last event of all; by then every request has had its `End`, `Failed` or
/// `Unanswered`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'i> {
    /// The first byte of the response was read; in HTTP/2 its first complete header block.
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
    /// Content, with transfer coding and frames removed.
    Content {
        /// The request it answers.
        request: RequestId,
        /// The next bytes of it, never empty.
        bytes: &'i [u8],
    },
    /// Fields after the content, reported only by HTTP/2. They are at
    /// [`trailers`](crate::h2::client::Connection::trailers).
    Trailers {
        /// The request they belong to.
        request: RequestId,
    },
    /// The response is complete.
    End {
        /// The request it answers.
        request: RequestId,
        /// The bytes of the response.
        received: Received,
        /// Whether the connection accepts further requests. If not, `Closed` follows after all remaining
        /// responses.
        persists: bool,
    },
    /// The response was cut off or violated the protocol.
    Failed {
        /// The request it answered.
        request: RequestId,
        /// Why.
        failure: Failure,
        /// The bytes of it that had arrived.
        received: Received,
        /// Whether the connection still accepts further requests: only one stream failed.
        persists: bool,
    },
    /// No part of a response to this request arrived, and none will.
    Unanswered {
        /// The request.
        request: RequestId,
        /// What ended it or its connection.
        failure: Failure,
        /// Whether the server may have processed it. `false` when no byte of it was handed to the transport,
        /// and when the server reported that it did not process it: then it may always be retried.
        sent: bool,
        /// Whether its method is idempotent: it may be retried even if the server processed it.
        idempotent: bool,
        /// Whether the connection still accepts further requests.
        persists: bool,
    },
    /// The server promised a response to an unrequested request. The request is at
    /// [`promise`](crate::h2::client::Connection::promise).
    Promised {
        /// The identifier of the promised request.
        request: RequestId,
        /// The request with which it was promised.
        parent: RequestId,
        /// Whether the response is accepted. If not, it was refused as configured, and this is the only event
        /// of the request.
        accepted: bool,
    },
    /// The server sent its settings, for the first time or again: the number of possible requests may have
    /// changed.
    Settings,
    /// The server answered a [`ping`](crate::h2::client::Connection::ping).
    Pong {
        /// The payload of the ping.
        payload: [u8; 8],
    },
    /// The server announced alternative services in an ALTSVC frame (HTTP/2 only). The announcement is at
    /// [`alternatives`](crate::h2::client::Connection::alternatives).
    Alternatives {
        /// The request whose origin it concerns; `None`: the announcement names the origin.
        request: Option<RequestId>,
    },
    /// The server accepts no further requests (GOAWAY). The requests that it will not answer are reported next
    /// as `Unanswered`.
    GoAway {
        /// The last request that it may have processed; `None`: it processed none.
        last: Option<RequestId>,
        /// Why.
        code: ErrorCode,
    },
    /// The machine is done with the connection. No event follows and no more bytes are read. Offer the output
    /// of [`transmit`](super::Connection::transmit) to the transport once, then close it.
    Closed {
        /// Why.
        reason: CloseReason,
    },
}

/// The bytes of one response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Received {
    /// Heads on the wire, including interim responses and trailers. HTTP/1.x: status lines, fields and empty
    /// lines. HTTP/2: HEADERS and CONTINUATION frames with their headers and padding.
    pub head: Bytes,
    /// The same before compression: names and values. Equal to `head` in HTTP/1.x, which has no compression.
    pub fields: Bytes,
    /// Content on the wire. HTTP/1.x: with its transfer coding. HTTP/2: DATA frames with their headers
    /// and padding.
    pub body: Bytes,
    /// Content without framing.
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

/// In HTTP/1.x the connection never persists after a failure.
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
    /// The same event with a static lifetime; `None` for content, which borrows.
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
