//! Writing requests.

use std::fmt::{self, Write as _};

use fathometer_model::{Bytes, Instant};

use super::connection::Connection;
use super::stream::{Upload, stream_of};
use super::{Content, Queued, RequestLine, SendError, Version};
use crate::field_block::FieldBlock;
use crate::h1::client::{PreparedRequest as Http1Prepared, is_idempotent};
use crate::h1::fields::{self, Strictness};
use crate::h3::frame::{self, FrameType};
use crate::h3::message;
use crate::qpack::Indexing;

/// Writes one request. Nothing is compressed before one of the `send` methods, so that a dropped writer leaves
/// the encoder's state unchanged.
#[derive(Debug)]
#[must_use = "a request leaves when it is sent"]
pub struct RequestWriter<'c> {
    connection: &'c mut Connection,
    head_method: bool,
    idempotent: bool,
    error: Option<SendError>,
}

impl<'c> RequestWriter<'c> {
    pub(super) fn new(connection: &'c mut Connection, line: RequestLine<'_>) -> RequestWriter<'c> {
        let mut error = None;
        if !fields::is_token(line.method.as_bytes()) || line.method == "CONNECT" {
            error = Some(SendError::BadMethod);
        }
        if !Http1Prepared::takes(line.target) {
            error = Some(SendError::BadTarget);
        }
        if !is_host(line.host) {
            error = Some(SendError::BadField);
        }
        let block = &mut connection.request;
        block.clear();
        block.push(b":method", line.method.as_bytes());
        block.push(b":scheme", SCHEME);
        block.push(b":authority", line.host.as_bytes());
        block.push(b":path", line.target.as_bytes());
        RequestWriter {
            head_method: line.method == "HEAD",
            idempotent: is_idempotent(line.method),
            error,
            connection,
        }
    }

    /// Adds a field; its name is written in lower case. Fields that frame the content, `Expect`, and
    /// connection-specific fields of HTTP/1.x are refused.
    pub fn field(&mut self, name: &str, value: &str) -> &mut RequestWriter<'c> {
        self.field_display(name, format_args!("{value}"))
    }

    /// Adds a field whose value is formatted in place.
    pub fn field_display(
        &mut self,
        name: &str,
        value: impl fmt::Display,
    ) -> &mut RequestWriter<'c> {
        let text = &mut self.connection.text;
        text.clear();
        text.push_str(name);
        text.make_ascii_lowercase();
        if write!(text, "{value}").is_err() {
            self.error = Some(SendError::BadField);
        }
        let (name, value) = text.as_bytes().split_at(name.len());
        if takes_field(name, value) {
            self.connection.request.push(name, value);
        } else {
            self.error = Some(SendError::BadField);
        }
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
        if expect_continue && matches!(content, Content::None | Content::Sized(0)) {
            return Err(SendError::BadContent);
        }
        let connection = self.connection;
        if let Content::Sized(length) = content {
            connection.text.clear();
            // Writing to a string does not fail.
            let _ = write!(connection.text, "{length}");
            let digits = connection.text.as_bytes();
            connection.request.push(b"content-length", digits);
        }
        if expect_continue {
            connection.request.push(b"expect", b"100-continue");
        }
        let block = std::mem::take(&mut connection.request);
        let opening = Opening {
            head_method: self.head_method,
            idempotent: self.idempotent,
            content,
            expect_continue,
        };
        let lines = block
            .iter()
            .map(|(name, value)| (name, value, indexing(name, value)));
        let queued = connection.open(opening, block.octets(), lines);
        connection.request = block;
        Ok(queued)
    }
}

/// A request without its target; everything else was checked when it was made.
///
/// One value serves any number of targets that share the method, the fields and the length of the content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedRequest {
    /// The pseudo-header fields except `:path`.
    before: FieldBlock,
    /// All other fields.
    after: FieldBlock,
    content: u64,
    head_method: bool,
    idempotent: bool,
}

impl PreparedRequest {
    /// A request with these fields, and with `content` bytes of content unless that is `None`. The rules are
    /// those of [`Connection::request`].
    pub fn new(
        method: &str,
        host: &str,
        fields: &[(String, String)],
        content: Option<u64>,
    ) -> Result<PreparedRequest, SendError> {
        // The checks are those of `RequestWriter`, on a temporary connection.
        let mut connection = Connection::new(super::Config::default(), Instant::ZERO);
        let line = RequestLine {
            method,
            target: "/",
            host,
            version: Version::Http11,
        };
        let mut writer = connection.request(line)?;
        for (name, value) in fields {
            writer.field(name, value);
        }
        writer.send_with(content.map_or(Content::None, Content::Sized), false)?;
        let (mut before, mut after) = (FieldBlock::default(), FieldBlock::default());
        for (name, value) in connection.request.iter() {
            match name {
                b":path" => {}
                [b':', ..] => before.push(name, value),
                _ => after.push(name, value),
            }
        }
        Ok(PreparedRequest {
            before,
            after,
            content: content.unwrap_or(0),
            head_method: method == "HEAD",
            idempotent: is_idempotent(method),
        })
    }
}

impl Connection {
    /// Starts a request behind those that are queued.
    pub fn request(&mut self, line: RequestLine<'_>) -> Result<RequestWriter<'_>, SendError> {
        self.check_room()?;
        Ok(RequestWriter::new(self, line))
    }

    /// Queues a prepared request for `target`, as [`request`](Self::request) and [`RequestWriter::send_with`]
    /// would. Announced content must follow by [`send_content`](Self::send_content).
    pub fn request_prepared(
        &mut self,
        prepared: &PreparedRequest,
        target: &str,
    ) -> Result<Queued, SendError> {
        if !Http1Prepared::takes(target) {
            return Err(SendError::BadTarget);
        }
        self.check_room()?;
        let opening = Opening {
            head_method: prepared.head_method,
            idempotent: prepared.idempotent,
            content: match prepared.content {
                0 => Content::None,
                length => Content::Sized(length),
            },
            expect_continue: false,
        };
        let path = (&b":path"[..], target.as_bytes());
        let octets = prepared.before.octets() + prepared.after.octets();
        let octets = octets + Bytes((path.0.len() + path.1.len()) as u64);
        let lines = prepared.before.iter();
        let lines = lines.chain([path]).chain(prepared.after.iter());
        let lines = lines.map(|(name, value)| (name, value, indexing(name, value)));
        Ok(self.open(opening, octets, lines))
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
        fields: Bytes,
        lines: impl Iterator<Item = (&'f [u8], &'f [u8], Indexing)>,
    ) -> Queued {
        let request = self.next_request;
        let encoder = &mut self.critical.encoder;
        encoder.begin(stream_of(request));
        for (name, value, indexing) in lines {
            let indexing = match name == b":path" && !self.config.index_targets {
                true => Indexing::No,
                false => indexing,
            };
            encoder.encode(name, value, indexing);
        }
        self.section.clear();
        encoder.finish(&mut self.section);
        let mut stream = self.spare.pop().unwrap_or_default();
        let length = self.section.len() as u64;
        let header = frame::write_header(FrameType::HEADERS, length, &mut stream.out);
        stream.out.extend_from_slice(&self.section);
        let ends = matches!(opening.content, Content::None | Content::Sized(0));
        stream.ends = ends;
        stream.head_method = opening.head_method;
        stream.idempotent = opening.idempotent;
        stream.upload = (!ends).then_some(Upload {
            remaining: match opening.content {
                Content::Sized(length) => Some(length),
                Content::None | Content::Chunked => None,
            },
            awaits_continue: opening.expect_continue,
        });
        self.streams.insert(request, stream);
        self.next_request.0 += 1;
        self.settle();
        Queued {
            request,
            head: Bytes(header + length),
            fields,
        }
    }
}

/// The initial values of a stream.
#[derive(Clone, Copy)]
struct Opening {
    head_method: bool,
    idempotent: bool,
    content: Content,
    expect_continue: bool,
}

/// HTTP/3 always uses TLS.
const SCHEME: &[u8] = b"https";

/// Which fields are inserted into the table: not those whose values seldom repeat, and never secrets that are
/// short enough to be guessed (RFC 9204 section 7.1.3).
fn indexing(name: &[u8], value: &[u8]) -> Indexing {
    match name {
        b"content-length"
        | b"if-match"
        | b"if-modified-since"
        | b"if-none-match"
        | b"if-range"
        | b"if-unmodified-since"
        | b"range" => Indexing::No,
        b"authorization" | b"proxy-authorization" => Indexing::Never,
        b"cookie" if value.len() < 20 => Indexing::Never,
        _ => Indexing::Yes,
    }
}

/// Whether `:authority` can have this value.
fn is_host(host: &str) -> bool {
    !host.is_empty()
        && host
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'@')
}

/// Whether a request may have this field; `name` is in lower case.
fn takes_field(name: &[u8], value: &[u8]) -> bool {
    let own: [&[u8]; 2] = [b"content-length", b"expect"];
    fields::is_token(name)
        && !own.contains(&name)
        && fields::check_value(value, Strictness::Strict).is_ok()
        && fields::trim(value).len() == value.len()
        && !message::is_of_connection(name, value)
}
