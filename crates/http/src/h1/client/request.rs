//! Writing requests.

use std::fmt::{self, Write as _};

use fathometer_model::Bytes;

use super::connection::Connection;
use super::output::{Outstanding, Upload};
use crate::exchange::{
    Content, Queued, RequestId, RequestLine, SendError, Version, is_idempotent, is_target,
};
use crate::message::fields;

/// Writes one request directly into the output of its connection. A writer that is dropped before one of the `send`
/// methods leaves the output unchanged.
#[derive(Debug)]
#[must_use = "a `send` method queues the request"]
pub struct RequestWriter<'c> {
    connection: &'c mut Connection,
    start: usize,
    version: Version,
    head_method: bool,
    idempotent: bool,
    asks_close: bool,
    error: Option<SendError>,
    sent: bool,
}

impl Connection {
    /// Starts to write a request, which is queued after all earlier requests.
    pub fn request(&mut self, line: RequestLine<'_>) -> Result<RequestWriter<'_>, SendError> {
        self.check_room()?;
        Ok(RequestWriter::new(self, line))
    }
}

impl<'c> RequestWriter<'c> {
    fn new(connection: &'c mut Connection, line: RequestLine<'_>) -> RequestWriter<'c> {
        let mut writer = RequestWriter {
            start: connection.output.bytes.len(),
            version: line.version,
            head_method: line.method == "HEAD",
            idempotent: is_idempotent(line.method),
            asks_close: false,
            error: None,
            sent: false,
            connection,
        };
        writer.start_line(line);
        writer
    }

    fn start_line(&mut self, line: RequestLine<'_>) {
        if !fields::is_token(line.method.as_bytes()) || line.method == "CONNECT" {
            self.error = Some(SendError::BadMethod);
        }
        if !is_target(line.target) {
            self.error = Some(SendError::BadTarget);
        }
        let version = match line.version {
            Version::Http11 => " HTTP/1.1\r\n",
            Version::Http10 | Version::Http10KeepAlive => " HTTP/1.0\r\n",
        };
        let output = &mut self.connection.output.bytes;
        for part in [line.method, " ", line.target, version] {
            output.extend_from_slice(part.as_bytes());
        }
        if !line.host.is_empty() {
            self.field("Host", line.host);
        } else if line.version == Version::Http11 {
            self.error = Some(SendError::BadField);
        }
        if line.version == Version::Http10KeepAlive {
            self.field("Connection", "Keep-Alive");
        }
    }

    /// Adds a field line. This method refuses `Expect` and the fields that frame the content, because the writer sets
    /// them itself.
    pub fn field(&mut self, name: &str, value: &str) -> &mut RequestWriter<'c> {
        self.field_display(name, format_args!("{value}"))
    }

    /// Adds a field line whose value is formatted directly into the output.
    pub fn field_display(
        &mut self,
        name: &str,
        value: impl fmt::Display,
    ) -> &mut RequestWriter<'c> {
        let own = ["content-length", "transfer-encoding", "expect"];
        let is_own = own.iter().any(|own| own.eq_ignore_ascii_case(name));
        if is_own || !fields::is_token(name.as_bytes()) {
            self.error = Some(SendError::BadField);
            return self;
        }
        let start = self.raw_field(name, value);
        let output = &self.connection.output.bytes;
        let value = &output[start..output.len() - 2];
        if !fields::is_value(value) {
            self.error = Some(SendError::BadField);
        }
        if name.eq_ignore_ascii_case("connection") {
            self.asks_close |= fields::list_has(value, "close");
        }
        self
    }

    /// Writes a field line and returns the position of its value.
    fn raw_field(&mut self, name: &str, value: impl fmt::Display) -> usize {
        let output = &mut self.connection.output.bytes;
        output.extend_from_slice(name.as_bytes());
        output.extend_from_slice(b": ");
        let start = output.len();
        if write!(Appender(output), "{value}").is_err() {
            self.error = Some(SendError::BadField);
        }
        self.connection.output.bytes.extend_from_slice(b"\r\n");
        start
    }

    /// Queues the request without content. The request is sent only after [`flush`](Connection::flush) or
    /// [`release`](Connection::release).
    pub fn send(self) -> Result<Queued, SendError> {
        self.send_with(Content::None, false)
    }

    /// Queues the request with content to follow. With `expect_continue` the request has `Expect: 100-continue`, and
    /// the content waits for [`Event::SendContent`](super::Event::SendContent).
    pub fn send_with(
        mut self,
        content: Content,
        expect_continue: bool,
    ) -> Result<Queued, SendError> {
        let http11 = self.version == Version::Http11;
        match content {
            Content::None => {}
            Content::Sized(length) => {
                self.raw_field("Content-Length", length);
            }
            Content::Chunked if http11 => {
                self.raw_field("Transfer-Encoding", "chunked");
            }
            Content::Chunked => self.error = Some(SendError::BadContent),
        }
        if expect_continue {
            self.raw_field("Expect", "100-continue");
            if !http11 || matches!(content, Content::None | Content::Sized(0)) {
                self.error = Some(SendError::BadContent);
            }
        }
        if let Some(error) = self.error {
            return Err(error);
        }
        let output = &mut self.connection.output;
        output.bytes.extend_from_slice(b"\r\n");
        let head = Bytes((output.bytes.len() - self.start) as u64);
        let request = self.connection.next_request;
        let upload = match content {
            Content::None | Content::Sized(0) => None,
            Content::Sized(length) => Some(Some(length)),
            Content::Chunked => Some(None),
        };
        self.connection.outstanding.push_back(Outstanding {
            begin: output.offset_of(self.start),
            end: upload.is_none().then(|| output.end_offset()),
            version: self.version,
            head_method: self.head_method,
            idempotent: self.idempotent,
            asks_close: self.asks_close,
        });
        self.connection.upload = upload.map(|remaining| Upload {
            request,
            remaining,
            awaits_continue: expect_continue,
            continue_by: None,
            continue_timed_out: false,
        });
        self.connection.next_request = RequestId(request.0.wrapping_add(1));
        self.connection.accepts &= self.version != Version::Http10 && !self.asks_close;
        self.sent = true;
        Ok(Queued {
            request,
            head,
            fields: head,
        })
    }
}

impl Drop for RequestWriter<'_> {
    fn drop(&mut self) {
        if !self.sent {
            self.connection.output.bytes.truncate(self.start);
        }
    }
}

/// Lets `write!` append to a byte vector without an intermediate string.
struct Appender<'a>(&'a mut Vec<u8>);

impl fmt::Write for Appender<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}
