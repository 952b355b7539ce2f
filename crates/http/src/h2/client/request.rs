//! Writing requests.

use std::fmt::{self, Write as _};

use fathometer_model::Bytes;

use super::connection::{Connection, Core};
use super::message;
use super::stream::{Answer, Stream, Upload, UploadState, stream_of};
use crate::client::{Queued, Received};
pub use crate::h1::client::{Content, RequestLine, SendError};
use crate::h1::client::{PreparedRequest as Http1Prepared, RequestId, is_idempotent};
use crate::h1::fields::{self, Strictness};
use crate::h2::flow::{ReceiveWindow, Window};
use crate::h2::frame::write;
use crate::hpack::Indexing;

/// Writes one request. It is compressed only by one of the `send` methods, so dropping it before has no effect.
#[derive(Debug)]
#[must_use = "a request leaves when it is sent"]
pub struct RequestWriter<'c> {
    core: &'c mut Core,
    head_method: bool,
    idempotent: bool,
    error: Option<SendError>,
}

impl<'c> RequestWriter<'c> {
    fn new(core: &'c mut Core, line: RequestLine<'_>) -> RequestWriter<'c> {
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
        let block = &mut core.request;
        block.clear();
        block.push(b":method", line.method.as_bytes());
        block.push(b":scheme", core.config.scheme.name().as_bytes());
        block.push(b":authority", line.host.as_bytes());
        block.push(b":path", line.target.as_bytes());
        RequestWriter {
            head_method: line.method == "HEAD",
            idempotent: is_idempotent(line.method),
            error,
            core,
        }
    }

    /// Adds a field; its name is converted to lower case. The fields that frame the content, `Expect`, and
    /// connection-specific fields of HTTP/1.x are refused.
    pub fn field(&mut self, name: &str, value: &str) -> &mut RequestWriter<'c> {
        self.field_display(name, format_args!("{value}"))
    }

    /// Adds a field whose value is formatted into place.
    pub fn field_display(
        &mut self,
        name: &str,
        value: impl fmt::Display,
    ) -> &mut RequestWriter<'c> {
        let own = ["content-length", "transfer-encoding", "expect"];
        if own.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            self.error = Some(SendError::BadField);
            return self;
        }
        let text = &mut self.core.text;
        text.clear();
        let name_end = name.len();
        text.push_str(name);
        text.make_ascii_lowercase();
        if write!(text, "{value}").is_err() {
            self.error = Some(SendError::BadField);
        }
        let (name, value) = text.as_bytes().split_at(name_end);
        if !takes_field(name, value) {
            self.error = Some(SendError::BadField);
            return self;
        }
        self.core.request.push(name, value);
        self
    }

    /// Queues the request without content. It is sent only after [`flush`](Connection::flush) or
    /// [`release`](Connection::release).
    pub fn send(self) -> Result<Queued, SendError> {
        self.send_with(Content::None, false)
    }

    /// Queues the request with content to follow by [`Connection::send_content`]. [`Content::Chunked`] leaves
    /// its length open. With `expect_continue` it requests 100 (Continue) and the content waits for
    /// [`Event::SendContent`](super::Event::SendContent).
    pub fn send_with(self, content: Content, expect_continue: bool) -> Result<Queued, SendError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if expect_continue && matches!(content, Content::None | Content::Sized(0)) {
            return Err(SendError::BadContent);
        }
        let core = self.core;
        if let Content::Sized(length) = content {
            let mut digits = Digits::default();
            core.request.push(b"content-length", digits.of(length));
        }
        if expect_continue {
            core.request.push(b"expect", b"100-continue");
        }
        let block = std::mem::take(&mut core.request);
        let fields = block.octets();
        let opening = Opening {
            head_method: self.head_method,
            idempotent: self.idempotent,
            content,
            expect_continue,
        };
        let authority = block.get(":authority").unwrap_or_default();
        core.note_authority(authority);
        let queued = core.open(opening, fields, |encode| {
            for (name, value) in block.iter() {
                encode(name, value, indexing(name, value));
            }
        });
        core.request = block;
        Ok(queued)
    }
}

/// A request without its target: everything else is checked when it is created.
///
/// One prepared request serves any number of targets that share a method, fields and a content length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedRequest {
    method: Box<str>,
    host: Box<str>,
    fields: Box<[PreparedField]>,
    /// Bytes of all names and values, except those of the target and the scheme.
    octets: u64,
    content: u64,
    head_method: bool,
    idempotent: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct PreparedField {
    name: Box<[u8]>,
    value: Box<[u8]>,
    indexing: Indexing,
}

impl PreparedRequest {
    /// A request with these fields, and with `content` bytes of content unless that is `None`. The
    /// rules are those of [`Connection::request`].
    pub fn new(
        method: &str,
        host: &str,
        fields: &[(String, String)],
        content: Option<u64>,
    ) -> Result<PreparedRequest, SendError> {
        // Checked by the regular request writer, on a temporary connection.
        let mut connection = Connection::new(super::Config::default());
        let target = "/";
        let line = RequestLine {
            method,
            target,
            host,
            version: crate::h1::client::Version::Http11,
        };
        let mut writer = connection.request(line)?;
        for (name, value) in fields {
            writer.field(name, value);
        }
        let queued = writer.send_with(content.map_or(Content::None, Content::Sized), false)?;
        let written = connection.core().request.iter();
        let regular = written.filter(|(name, _)| !name.starts_with(b":"));
        let fields = regular.map(|(name, value)| PreparedField {
            name: name.into(),
            value: value.into(),
            indexing: indexing(name, value),
        });
        let scheme = super::Config::default().scheme.name();
        Ok(PreparedRequest {
            method: method.into(),
            host: host.into(),
            fields: fields.collect(),
            octets: queued.fields.0 - (target.len() + scheme.len()) as u64,
            content: content.unwrap_or(0),
            head_method: method == "HEAD",
            idempotent: is_idempotent(method),
        })
    }
}

impl Connection {
    /// Starts to write a request after those already queued.
    pub fn request(&mut self, line: RequestLine<'_>) -> Result<RequestWriter<'_>, SendError> {
        let core = self.core_mut();
        core.check_room()?;
        Ok(RequestWriter::new(core, line))
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
        let core = self.core_mut();
        core.check_room()?;
        let opening = Opening {
            head_method: prepared.head_method,
            idempotent: prepared.idempotent,
            content: match prepared.content {
                0 => Content::None,
                length => Content::Sized(length),
            },
            expect_continue: false,
        };
        let scheme = core.config.scheme.name();
        let octets = Bytes(prepared.octets + (scheme.len() + target.len()) as u64);
        core.note_authority(prepared.host.as_bytes());
        Ok(core.open(opening, octets, |encode| {
            encode(b":method", prepared.method.as_bytes(), Indexing::Yes);
            encode(b":scheme", scheme.as_bytes(), Indexing::Yes);
            encode(b":authority", prepared.host.as_bytes(), Indexing::Yes);
            encode(b":path", target.as_bytes(), Indexing::Yes);
            for field in &prepared.fields {
                encode(&field.name, &field.value, field.indexing);
            }
        }))
    }
}

/// Parameters for opening a stream.
#[derive(Debug, Clone, Copy)]
struct Opening {
    head_method: bool,
    idempotent: bool,
    content: Content,
    expect_continue: bool,
}

impl Core {
    /// Writes the head of a request and opens its stream.
    fn open(
        &mut self,
        opening: Opening,
        fields: Bytes,
        mut list: impl FnMut(&mut dyn FnMut(&[u8], &[u8], Indexing)),
    ) -> Queued {
        let request = self.next_request;
        let ends = matches!(opening.content, Content::None | Content::Sized(0));
        self.output.begin_request();
        let carrier = write::Carrier::Headers {
            end_stream: ends,
            dependency: None,
        };
        let Core {
            encoder,
            output,
            peer,
            ..
        } = self;
        let index_targets = self.config.index_targets;
        let head = write::header_block(
            &mut output.held,
            stream_of(request),
            carrier,
            peer.max_frame_size,
            |out| {
                encoder.begin(out);
                list(&mut |name, value, indexing| {
                    let indexing = match name == b":path" && !index_targets {
                        true => Indexing::No,
                        false => indexing,
                    };
                    encoder.encode(name, value, indexing, out);
                });
            },
        );
        let state = match opening.expect_continue {
            _ if ends => UploadState::Done,
            true => UploadState::AwaitsContinue,
            false => UploadState::Open,
        };
        let stream = Stream {
            head_method: opening.head_method,
            idempotent: opening.idempotent,
            answer: Answer::None,
            interims: 0,
            received: Received::default(),
            sent: None,
            send: Window::new(self.peer.initial_window_size),
            receive: ReceiveWindow::new(self.config.settings.initial_window_size),
            upload: Upload {
                state,
                remaining: match opening.content {
                    Content::Sized(length) => Some(length),
                    Content::None | Content::Chunked => None,
                },
                backlog: match ends {
                    true => Vec::new(),
                    false => self.spare.pop().unwrap_or_default(),
                },
                ..Upload::default()
            },
        };
        if state == UploadState::AwaitsContinue {
            self.continuing.push((request, None));
        }
        self.streams.insert(request, stream);
        self.asked += 1;
        self.next_request = RequestId(request.0 + 1);
        Queued {
            request,
            head: Bytes(u64::from(head)),
            fields,
        }
    }

    /// Whether a further request can be queued, and if not, why not.
    fn check_room(&self) -> Result<(), SendError> {
        if !self.accepts_requests() {
            return Err(SendError::Closed);
        }
        match self.has_room() {
            true => Ok(()),
            false => Err(SendError::PipelineFull),
        }
    }
}

/// Which fields are added to the table. Excluded are fields whose values seldom repeat, and secrets that are
/// short enough to be guessed (RFC 7541 section 7.1.3).
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

/// Whether this is valid as `:authority`.
fn is_host(host: &str) -> bool {
    !host.is_empty()
        && host
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'@')
}

/// Whether a request may have this field, its name in lower case.
fn takes_field(name: &[u8], value: &[u8]) -> bool {
    fields::is_token(name)
        && fields::check_value(value, Strictness::Strict).is_ok()
        && fields::trim(value).len() == value.len()
        && !message::is_of_connection(name)
        && (name != b"te" || value == b"trailers")
}

/// A number in decimal digits, without allocating a string.
#[derive(Default)]
struct Digits([u8; 20]);

impl Digits {
    fn of(&mut self, number: u64) -> &[u8] {
        let mut rest = number;
        let mut start = self.0.len();
        loop {
            start -= 1;
            self.0[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                return &self.0[start..];
            }
        }
    }
}
