//! Writing requests.

use std::fmt;

use fathometer_model::Bytes;

use super::connection::Connection;
use super::stream::Upload;
use super::{Content, Queued, RequestLine, SendError};
pub use crate::exchange::PreparedRequest;
use crate::exchange::{Opening, is_target};
use crate::h3::frame::{self, FrameType};
use crate::h3::stream_of;
use crate::qpack::Indexing;

/// Writes one request. Nothing is compressed before one of the `send` methods, so that a dropped writer leaves
/// the encoder's state unchanged.
#[derive(Debug)]
#[must_use = "a request leaves when it is sent"]
pub struct RequestWriter<'c> {
    connection: &'c mut Connection,
    opening: Opening,
    error: Option<SendError>,
}

impl<'c> RequestWriter<'c> {
    /// Adds a field; its name is written in lower case. Fields that frame the content, `Expect`, and
    /// connection-specific fields of HTTP/1.x are refused.
    pub fn field(&mut self, name: &str, value: &str) -> &mut RequestWriter<'c> {
        self.field_display(name, value)
    }

    /// Adds a field whose value is formatted in place.
    pub fn field_display(
        &mut self,
        name: &str,
        value: impl fmt::Display,
    ) -> &mut RequestWriter<'c> {
        let added = self.connection.request.add(name, value);
        self.error = added.err().or(self.error);
        self
    }

    /// Queues the request without content.
    pub fn send(self) -> Result<Queued, SendError> {
        self.send_with(Content::None, false)
    }

    /// Queues the request; its content follows by [`Connection::send_content`]. With [`Content::Chunked`] the
    /// length is open. With `expect_continue` the request expects 100 (Continue), and the content waits for
    /// [`Event::SendContent`](super::Event::SendContent).
    pub fn send_with(self, content: Content, expect_continue: bool) -> Result<Queued, SendError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let opening = Opening {
            content,
            expect_continue,
            ..self.opening
        };
        let connection = self.connection;
        connection.request.end(&opening)?;
        let request = std::mem::take(&mut connection.request);
        let queued = connection.open(opening, request.bytes(), request.iter());
        connection.request = request;
        Ok(queued)
    }
}

impl Connection {
    /// Starts a request behind those that are queued.
    pub fn request(&mut self, line: RequestLine<'_>) -> Result<RequestWriter<'_>, SendError> {
        self.check_room()?;
        let error = self.request.begin(line, SCHEME);
        Ok(RequestWriter {
            connection: self,
            opening: Opening::new(line.method),
            error,
        })
    }

    /// Queues a prepared request for `target`, as [`request`](Self::request) and [`RequestWriter::send_with`]
    /// would. Announced content must follow by [`send_content`](Self::send_content).
    pub fn request_prepared(
        &mut self,
        prepared: &PreparedRequest,
        target: &str,
    ) -> Result<Queued, SendError> {
        if !is_target(target) {
            return Err(SendError::BadTarget);
        }
        self.check_room()?;
        let fields = prepared.iter(SCHEME, target);
        Ok(self.open(prepared.opening(), prepared.bytes(SCHEME, target), fields))
    }

    /// Whether a further request can be queued; if not, the error gives the reason.
    fn check_room(&self) -> Result<(), SendError> {
        if !self.accepts_requests() {
            return Err(SendError::Closed);
        }
        if self.outstanding() >= self.config.streams.max(1) as usize {
            return Err(SendError::PipelineFull);
        }
        Ok(())
    }

    /// Writes the head of a request and creates its stream.
    fn open<'f>(
        &mut self,
        opening: Opening,
        bytes: Bytes,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8], Indexing)>,
    ) -> Queued {
        let request = self.next_request;
        let encoder = &mut self.critical.encoder;
        encoder.begin(stream_of(request));
        let index_targets = self.config.index_targets;
        fields.for_each(|(name, value, indexing)| {
            let indexing = match name == b":path" && !index_targets {
                true => Indexing::No,
                false => indexing,
            };
            encoder.encode(name, value, indexing);
        });
        self.section.clear();
        encoder.finish(&mut self.section);
        let mut stream = self.spare.pop().unwrap_or_default();
        let length = self.section.len() as u64;
        let header = frame::write_header(FrameType::HEADERS, length, &mut stream.out);
        stream.out.extend_from_slice(&self.section);
        let ends = opening.ends();
        stream.ends = ends;
        stream.head_method = opening.head_method;
        stream.idempotent = opening.idempotent;
        stream.upload = (!ends).then_some(Upload {
            remaining: opening.remaining(),
            awaits_continue: opening.expect_continue,
        });
        self.streams.insert(request, stream);
        self.next_request.0 += 1;
        self.settle();
        Queued {
            request,
            head: Bytes(header + length),
            fields: bytes,
        }
    }
}

/// HTTP/3 always uses TLS.
const SCHEME: &str = "https";
