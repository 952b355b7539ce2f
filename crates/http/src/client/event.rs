//! The events of HTTP/1.x as those of all versions.

use crate::exchange::{Event, Received};
use crate::h1;

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
