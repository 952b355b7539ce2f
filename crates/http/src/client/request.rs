//! Writing requests for all versions of HTTP.

use std::fmt;

use crate::exchange::{Content, Queued, SendError, is_target};
use crate::protocol::Protocol;
use crate::{h1, h2, h3};

/// Writes one request. If the writer is dropped before one of the `send` methods is called, no request is queued.
#[derive(Debug)]
#[must_use = "a `send` method queues the request"]
pub enum RequestWriter<'c> {
    /// For a connection of HTTP/1.x.
    Http1(h1::client::RequestWriter<'c>),
    /// For a connection of HTTP/2.
    Http2(h2::client::RequestWriter<'c>),
}

impl<'c> RequestWriter<'c> {
    /// Adds a field. This method refuses `Expect` and the fields that frame the content, because the writer sets them
    /// itself. In HTTP/2 it also refuses connection-specific fields.
    pub fn field(&mut self, name: &str, value: &str) -> &mut RequestWriter<'c> {
        match self {
            RequestWriter::Http1(writer) => drop(writer.field(name, value)),
            RequestWriter::Http2(writer) => drop(writer.field(name, value)),
        }
        self
    }

    /// Adds a field whose value is formatted directly into the buffer.
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

    /// Queues the request without content. The request is sent only after [`flush`](super::Connection::flush) or
    /// [`release`](super::Connection::release).
    pub fn send(self) -> Result<Queued, SendError> {
        self.send_with(Content::None, false)
    }

    /// Queues the request with content to follow. With `expect_continue` the request has `Expect: 100-continue`, and
    /// the content waits for [`Event::SendContent`](super::Event::SendContent).
    pub fn send_with(self, content: Content, expect_continue: bool) -> Result<Queued, SendError> {
        match self {
            RequestWriter::Http1(writer) => writer.send_with(content, expect_continue),
            RequestWriter::Http2(writer) => writer.send_with(content, expect_continue),
        }
    }
}

/// A request without its target, checked and rendered once for one protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreparedRequest {
    /// For HTTP/1.x.
    Http1(h1::client::PreparedRequest),
    /// For HTTP/2.
    Http2(h2::client::PreparedRequest),
    /// For HTTP/3, whose [`Connection`](crate::h3::client::Connection) is not part of this module.
    Http3(h3::client::PreparedRequest),
}

impl PreparedRequest {
    /// Prepares a request with these fields, and with `content` bytes of content unless `content` is `None`. The
    /// allowed fields are the same as in [`Connection::request`](super::Connection::request). A caller whose protocol
    /// is chosen by ALPN prepares a request for each protocol.
    pub fn new(
        protocol: Protocol,
        method: &str,
        host: &str,
        fields: &[(String, String)],
        content: Option<u64>,
    ) -> Result<PreparedRequest, SendError> {
        // RFC 9110 section 8.6: a request without content states a length of 0 if its method defines a meaning
        // for content.
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

    /// Whether the target is valid in a request: visible ASCII characters, at least one.
    pub fn takes(target: &str) -> bool {
        is_target(target)
    }
}
