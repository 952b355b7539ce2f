//! Prepared requests, which are checked and rendered once and can be sent many times.

use fathometer_model::Bytes;

use super::connection::Connection;
use super::limits::Config;
use super::output::{Outstanding, Upload};
use crate::exchange::{Content, Queued, RequestId, RequestLine, SendError, Version, is_target};

/// A request without its target: everything else is checked and rendered when it is created.
///
/// One prepared request serves any number of targets with the same method, fields and content length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedRequest {
    /// Method and space.
    before: Box<[u8]>,
    /// Everything after the target, empty line included.
    after: Box<[u8]>,
    content: u64,
    version: Version,
    head_method: bool,
    idempotent: bool,
    asks_close: bool,
}

impl PreparedRequest {
    /// Prepares a request with these fields after `Host`, and with `content` bytes of content, if any. The allowed
    /// fields are the same as in [`Connection::request`].
    pub fn new(
        method: &str,
        host: &str,
        version: Version,
        fields: &[(String, String)],
        content: Option<u64>,
    ) -> Result<PreparedRequest, SendError> {
        // Rendered by the regular request writer, on a temporary connection.
        let mut connection = Connection::new(Config::default());
        let target = "/";
        let line = RequestLine {
            method,
            target,
            host,
            version,
        };
        let mut writer = connection.request(line)?;
        for (name, value) in fields {
            writer.field(name, value);
        }
        writer.send_with(content.map_or(Content::None, Content::Sized), false)?;
        let (before, rest) = connection.output.bytes.split_at(method.len() + 1);
        let written = connection.outstanding.back().ok_or(SendError::Closed)?;
        Ok(PreparedRequest {
            before: before.into(),
            after: rest[target.len()..].into(),
            content: content.unwrap_or(0),
            version,
            head_method: written.head_method,
            idempotent: written.idempotent,
            asks_close: written.asks_close,
        })
    }

    /// Bytes of the head with this target.
    pub fn head_length(&self, target: &str) -> Bytes {
        Bytes((self.before.len() + target.len() + self.after.len()) as u64)
    }
}

impl Connection {
    /// Queues a prepared request for `target`, as [`request`](Self::request) and
    /// [`RequestWriter::send_with`](super::RequestWriter::send_with) would. Announced content must follow with
    /// [`send_content`](Self::send_content).
    pub fn request_prepared(
        &mut self,
        prepared: &PreparedRequest,
        target: &str,
    ) -> Result<Queued, SendError> {
        if !is_target(target) {
            return Err(SendError::BadTarget);
        }
        self.check_room()?;
        let output = &mut self.output;
        let start = output.bytes.len();
        output.bytes.extend_from_slice(&prepared.before);
        output.bytes.extend_from_slice(target.as_bytes());
        output.bytes.extend_from_slice(&prepared.after);
        let request = self.next_request;
        self.outstanding.push_back(Outstanding {
            begin: output.offset_of(start),
            end: (prepared.content == 0).then(|| output.end_offset()),
            version: prepared.version,
            head_method: prepared.head_method,
            idempotent: prepared.idempotent,
            asks_close: prepared.asks_close,
        });
        self.upload = (prepared.content > 0).then_some(Upload {
            request,
            remaining: Some(prepared.content),
            awaits_continue: false,
            continue_by: None,
            continue_timed_out: false,
        });
        self.next_request = RequestId(request.0.wrapping_add(1));
        self.accepts &= prepared.version != Version::Http10 && !prepared.asks_close;
        let head = prepared.head_length(target);
        Ok(Queued {
            request,
            head,
            fields: head,
        })
    }
}
