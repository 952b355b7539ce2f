//! The events of a client connection, the same for all versions of HTTP.

use fathometer_model::{Bytes, CloseReason, Failure};

use super::RequestId;

/// An event on a connection.
///
/// The events of one request come in this order: `Promised` if it was pushed; `Begin`, any `Interim` and
/// `SendContent`, `Head`, any `Content`, `Trailers` if there are any, `End`. `Failed` replaces the missing
/// events after `Begin`. `Unanswered` comes alone. In HTTP/2 the events of different requests are interleaved.
/// `Closed` is the last event of the connection: all requests have ended, failed or remained unanswered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'i> {
    /// The first byte of the response was read; in HTTP/2 its first complete header block.
    Begin {
        /// The request that the response answers.
        request: RequestId,
    },
    /// An interim (1xx) response; its head is at [`Connection::head`](crate::client::Connection::head).
    Interim {
        /// The request that the response answers.
        request: RequestId,
        /// The status code.
        status: u16,
    },
    /// The server requests the content (100 Continue), or has not answered within the time limit: the content
    /// must be sent now.
    SendContent {
        /// The request.
        request: RequestId,
    },
    /// The head of the final response is at [`Connection::head`](crate::client::Connection::head).
    Head {
        /// The request that the response answers.
        request: RequestId,
    },
    /// Content, with transfer coding and frames removed.
    Content {
        /// The request that the response answers.
        request: RequestId,
        /// The next bytes of the content, never empty.
        bytes: &'i [u8],
    },
    /// Fields after the content, reported by HTTP/2 and HTTP/3. They are at
    /// [`h2`'s `trailers`](crate::h2::client::Connection::trailers) or
    /// [`h3`'s `trailers`](crate::h3::client::Connection::trailers).
    Trailers {
        /// The request to whose response the trailers belong.
        request: RequestId,
    },
    /// The response is complete.
    End {
        /// The request that the response answers.
        request: RequestId,
        /// The bytes of the response.
        received: Received,
        /// Whether the connection accepts further requests. If not, `Closed` follows after all remaining
        /// responses.
        persists: bool,
    },
    /// The response was cut off or violated the protocol.
    Failed {
        /// The request that the response answered.
        request: RequestId,
        /// The cause of the failure.
        failure: Failure,
        /// The bytes of the response that arrived before the failure.
        received: Received,
        /// Whether the connection still accepts further requests: only one stream failed.
        persists: bool,
    },
    /// No part of a response to this request arrived, and none will.
    Unanswered {
        /// The request.
        request: RequestId,
        /// The failure of the request or of its connection.
        failure: Failure,
        /// Whether the server may have processed the request. `false` if the transport took no byte of the request, or
        /// if the server reported that it did not process the request. A retry is then always safe.
        sent: bool,
        /// Whether the method is idempotent: the request can be retried even if the server processed it.
        idempotent: bool,
        /// Whether the connection still accepts further requests.
        persists: bool,
    },
    /// The server promised to push a response. The promised request is at
    /// [`promise`](crate::h2::client::Connection::promise).
    Promised {
        /// The identifier of the promised request.
        request: RequestId,
        /// The request on whose stream the push was promised.
        parent: RequestId,
        /// Whether the response is accepted. If not, the response was refused as configured, and this is the only event
        /// of the request.
        accepted: bool,
    },
    /// The server sent its settings, for the first time or again. They may change the number of possible requests.
    Settings,
    /// The server answered a [`ping`](crate::h2::client::Connection::ping).
    Pong {
        /// The payload of the ping.
        payload: [u8; 8],
    },
    /// The server announced alternative services in an ALTSVC frame (HTTP/2 only). The announcement is at
    /// [`alternatives`](crate::h2::client::Connection::alternatives).
    Alternatives {
        /// The request whose origin the announcement concerns; `None`: the announcement names the origin.
        request: Option<RequestId>,
    },
    /// The server accepts no further requests (GOAWAY). The requests that it will not answer are reported next
    /// as `Unanswered`.
    GoAway {
        /// The last request that the server may have processed; `None`: it processed no request.
        last: Option<RequestId>,
        /// The error code of HTTP/2; 0 in HTTP/3, whose GOAWAY has none.
        code: u32,
    },
    /// The connection is closed. No event follows, and no more bytes are read. Offer the output of
    /// [`transmit`](crate::client::Connection::transmit) to the transport once, then close the transport.
    Closed {
        /// The reason for the close.
        reason: CloseReason,
    },
}

/// The bytes of one response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Received {
    /// Heads on the wire, including interim responses and trailers. HTTP/1.x: status lines, fields and empty
    /// lines. HTTP/2: HEADERS and CONTINUATION frames with their headers and padding.
    pub head: Bytes,
    /// The size of the heads before compression: names and values. Equal to `head` in HTTP/1.x, which has no
    /// compression.
    pub fields: Bytes,
    /// Content on the wire. HTTP/1.x: with its transfer coding. HTTP/2: DATA frames with their headers
    /// and padding.
    pub body: Bytes,
    /// Content without framing.
    pub content: Bytes,
}

impl Event<'_> {
    /// Returns the same event with a static lifetime; `None` for content, which borrows the input.
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
