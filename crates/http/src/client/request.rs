//! Writing requests, whatever they are written in.

use std::fmt;

use fathometer_model::Bytes;

use super::event::RequestId;
use crate::driver::Protocol;
use crate::h1;
pub use crate::h1::client::{Content, RequestLine, SendError};
use crate::{h2, h3};

/// A request that was queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queued {
    /// Its name on this connection.
    pub request: RequestId,
    /// Octets of its head on the wire. HTTP/2: HEADERS and CONTINUATION frames with their headers.
    pub head: Bytes,
    /// The same before compression: names and values. HTTP/1.x compresses nothing: the same as `head`.
    pub fields: Bytes,
}

impl From<h1::client::Queued> for Queued {
    fn from(queued: h1::client::Queued) -> Queued {
        Queued {
            request: queued.request,
            head: queued.head,
            fields: queued.head,
        }
    }
}

/// Writes one request. Dropped before one of the `send` methods it leaves nothing behind.
#[derive(Debug)]
#[must_use = "a request leaves when it is sent"]
pub enum RequestWriter<'c> {
    /// Into a connection of HTTP/1.x.
    Http1(h1::client::RequestWriter<'c>),
    /// Into a connection of HTTP/2.
    Http2(h2::client::RequestWriter<'c>),
}

impl<'c> RequestWriter<'c> {
    /// Adds a field. Those that frame the content, those that belong to a connection (in HTTP/2) and
    /// `Expect` are the writer's own and refused here.
    pub fn field(&mut self, name: &str, value: &str) -> &mut RequestWriter<'c> {
        match self {
            RequestWriter::Http1(writer) => drop(writer.field(name, value)),
            RequestWriter::Http2(writer) => drop(writer.field(name, value)),
        }
        self
    }

    /// Adds a field whose value is formatted into place.
    pub fn field_display(
        &mut self,
        name: &str,
        value: impl fmt::Display,
    ) -> &mut RequestWriter<'c> {
        match self {
            RequestWriter::Http1(writer) => drop(writer.field_display(name, value)),
            RequestWriter::Http2(writer) => drop(writer.field_display(name, value)),
        }
        self
    }

    /// Queues the request, which has no content. Nothing leaves before the connection is told to
    /// [`flush`](super::Connection::flush) or [`release`](super::Connection::release).
    pub fn send(self) -> Result<Queued, SendError> {
        self.send_with(Content::None, false)
    }

    /// Queues the request with content to follow. With `expect_continue` it asks for 100 (Continue)
    /// and the content waits for [`Event::SendContent`](super::Event::SendContent).
    pub fn send_with(self, content: Content, expect_continue: bool) -> Result<Queued, SendError> {
        match self {
            RequestWriter::Http1(writer) => Ok(writer.send_with(content, expect_continue)?.into()),
            RequestWriter::Http2(writer) => writer.send_with(content, expect_continue),
        }
    }
}

/// A request but for its target, checked and rendered once for the protocol that will carry it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreparedRequest {
    /// For HTTP/1.x.
    Http1(h1::client::PreparedRequest),
    /// For HTTP/2.
    Http2(h2::client::PreparedRequest),
    /// For HTTP/3, whose [`Connection`](crate::h3::client::Connection) is not among those here.
    Http3(h3::client::PreparedRequest),
}

impl PreparedRequest {
    /// A request with these fields, and with `content` octets of content unless that is `None`. The
    /// rules are those of [`Connection::request`](super::Connection::request). A host that learns by
    /// ALPN which protocol it speaks prepares one for each.
    pub fn new(
        protocol: Protocol,
        method: &str,
        host: &str,
        fields: &[(String, String)],
        content: Option<u64>,
    ) -> Result<PreparedRequest, SendError> {
        // RFC 9110 section 8.6: where the method gives content a meaning, its absence is told.
        let content = content.or(matches!(method, "POST" | "PUT" | "PATCH").then_some(0));
        match protocol {
            Protocol::Http1(version) => {
                h1::client::PreparedRequest::new(method, host, version, fields, content)
                    .map(PreparedRequest::Http1)
            }
            Protocol::Http2 => h2::client::PreparedRequest::new(method, host, fields, content)
                .map(PreparedRequest::Http2),
            Protocol::Http3 => h3::client::PreparedRequest::new(method, host, fields, content)
                .map(PreparedRequest::Http3),
        }
    }

    /// Whether the target can be asked for: visible ASCII characters, at least one.
    pub fn takes(target: &str) -> bool {
        h1::client::PreparedRequest::takes(target)
    }
}
