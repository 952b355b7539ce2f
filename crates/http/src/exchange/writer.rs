//! HTTP/2 and HTTP/3 requests as lists of fields, before compression (RFC 9113 section 8.3.1, RFC 9114 section
//! 4.3.1).

use std::fmt::{self, Write as _};

use fathometer_model::Bytes;

use super::{Content, RequestLine, SendError, Version, is_idempotent, is_target};
use crate::field_block::FieldBlock;
use crate::hpack::Indexing;
use crate::message::fields;
use crate::message::section::is_of_connection;

/// The request that is being written. Its buffers are reused for the next request.
///
/// Invariant: every field in the block was checked.
#[derive(Debug, Default)]
pub(crate) struct RequestFields {
    block: FieldBlock,
    text: String,
}

/// The start of a request's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Opening {
    pub head_method: bool,
    pub idempotent: bool,
    pub content: Content,
    pub expect_continue: bool,
}

impl Opening {
    /// Creates a request without content.
    pub fn new(method: &str) -> Opening {
        Opening {
            head_method: method == "HEAD",
            idempotent: is_idempotent(method),
            content: Content::None,
            expect_continue: false,
        }
    }

    /// Whether the stream ends with the head.
    pub fn ends(&self) -> bool {
        matches!(self.content, Content::None | Content::Sized(0))
    }

    /// The bytes of content that must follow, if their number was announced.
    pub fn remaining(&self) -> Option<u64> {
        match self.content {
            Content::Sized(length) => Some(length),
            Content::None | Content::Chunked => None,
        }
    }
}

impl RequestFields {
    /// Begins another request. Returns the error if the request line is invalid; if there are several errors, the last
    /// error.
    pub fn begin(&mut self, line: RequestLine<'_>, scheme: &str) -> Option<SendError> {
        let mut error = None;
        if !fields::is_token(line.method.as_bytes()) || line.method == "CONNECT" {
            error = Some(SendError::BadMethod);
        }
        if !is_target(line.target) {
            error = Some(SendError::BadTarget);
        }
        if !is_host(line.host) {
            error = Some(SendError::BadField);
        }
        let block = &mut self.block;
        block.clear();
        block.push(b":method", line.method.as_bytes());
        block.push(b":scheme", scheme.as_bytes());
        block.push(b":authority", line.host.as_bytes());
        block.push(b":path", line.target.as_bytes());
        error
    }

    /// Adds a field; its name is converted to lower case. The fields that frame the content, `Expect`, and
    /// connection-specific fields of HTTP/1.x are refused.
    pub fn add(&mut self, name: &str, value: impl fmt::Display) -> Result<(), SendError> {
        let text = &mut self.text;
        text.clear();
        text.push_str(name);
        text.make_ascii_lowercase();
        let written = write!(text, "{value}");
        let (name, value) = text.as_bytes().split_at(name.len());
        if written.is_err() || !takes_field(name, value) {
            return Err(SendError::BadField);
        }
        self.block.push(name, value);
        Ok(())
    }

    /// Adds the fields that describe the content, which come last.
    pub fn end(&mut self, opening: &Opening) -> Result<(), SendError> {
        if opening.expect_continue && opening.ends() {
            return Err(SendError::BadContent);
        }
        if let Content::Sized(length) = opening.content {
            self.text.clear();
            // Writing to a string does not fail.
            let _ = write!(self.text, "{length}");
            self.block.push(b"content-length", self.text.as_bytes());
        }
        if opening.expect_continue {
            self.block.push(b"expect", b"100-continue");
        }
        Ok(())
    }

    /// The size of all names and values.
    pub fn bytes(&self) -> Bytes {
        self.block.bytes()
    }

    /// `:authority`
    pub fn authority(&self) -> &[u8] {
        self.block.get(":authority").unwrap_or_default()
    }

    /// All fields, with the rule for their compression.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8], Indexing)> {
        let fields = self.block.iter();
        fields.map(|(name, value)| (name, value, indexing(name, value)))
    }

    /// Frees unused memory.
    pub fn rest(&mut self) {
        self.block = FieldBlock::default();
    }
}

/// A request without its target. Everything else is checked when the prepared request is created.
///
/// One prepared request serves any number of targets with the same method, fields and content length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedRequest {
    method: Box<str>,
    host: Box<str>,
    fields: Box<[PreparedField]>,
    /// The size of all names and values, except of the target and the scheme.
    bytes: u64,
    content: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct PreparedField {
    name: Box<[u8]>,
    value: Box<[u8]>,
    indexing: Indexing,
}

impl PreparedRequest {
    /// Prepares a request with these fields, and with `content` bytes of content unless `content` is `None`. The
    /// allowed fields are the same as in the request writer.
    pub fn new(
        method: &str,
        host: &str,
        fields: &[(String, String)],
        content: Option<u64>,
    ) -> Result<PreparedRequest, SendError> {
        let mut request = RequestFields::default();
        let line = RequestLine {
            method,
            target: "/",
            host,
            version: Version::Http11,
        };
        let mut error = request.begin(line, "");
        for (name, value) in fields {
            error = request.add(name, value).err().or(error);
        }
        if let Some(error) = error {
            return Err(error);
        }
        request.end(&Opening {
            content: content.map_or(Content::None, Content::Sized),
            ..Opening::new(method)
        })?;
        let regular = request.iter().filter(|(name, ..)| !name.starts_with(b":"));
        let fields = regular.map(|(name, value, indexing)| PreparedField {
            name: name.into(),
            value: value.into(),
            indexing,
        });
        Ok(PreparedRequest {
            method: method.into(),
            host: host.into(),
            fields: fields.collect(),
            bytes: request.bytes().0 - line.target.len() as u64,
            content: content.unwrap_or(0),
        })
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Returns the start of the request's stream.
    pub(crate) fn opening(&self) -> Opening {
        Opening {
            content: match self.content {
                0 => Content::None,
                length => Content::Sized(length),
            },
            ..Opening::new(&self.method)
        }
    }

    /// The size of all names and values with this scheme and target.
    pub(crate) fn bytes(&self, scheme: &str, target: &str) -> Bytes {
        Bytes(self.bytes + (scheme.len() + target.len()) as u64)
    }

    /// Returns all fields with this scheme and target, with the rule for their compression.
    pub(crate) fn iter<'a>(
        &'a self,
        scheme: &'a str,
        target: &'a str,
    ) -> impl Iterator<Item = (&'a [u8], &'a [u8], Indexing)> {
        let pseudo: [(&[u8], &[u8], Indexing); 4] = [
            (b":method", self.method.as_bytes(), Indexing::Yes),
            (b":scheme", scheme.as_bytes(), Indexing::Yes),
            (b":authority", self.host.as_bytes(), Indexing::Yes),
            (b":path", target.as_bytes(), Indexing::Yes),
        ];
        let fields = self.fields.iter();
        let fields = fields.map(|field| (&field.name[..], &field.value[..], field.indexing));
        pseudo.into_iter().chain(fields)
    }
}

/// Decides whether a field is added to the dynamic table. Excluded are fields whose values seldom repeat, and
/// secrets that are short enough to be guessed (RFC 7541 and RFC 9204, section 7.1.3 of both).
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

/// Whether `host` is valid as `:authority`.
fn is_host(host: &str) -> bool {
    !host.is_empty()
        && host
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'@')
}

/// Whether a request may contain this field. The name is in lower case.
fn takes_field(name: &[u8], value: &[u8]) -> bool {
    fields::is_token(name)
        && !matches!(name, b"content-length" | b"expect")
        && fields::is_value(value)
        && fields::trim(value).len() == value.len()
        && !is_of_connection(name)
        && (name != b"te" || value.eq_ignore_ascii_case(b"trailers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: RequestLine<'static> = RequestLine {
        method: "GET",
        target: "/",
        host: "a",
        version: Version::Http11,
    };

    #[test]
    fn fields_of_the_writer_and_of_connections_are_refused() {
        let mut request = RequestFields::default();
        assert_eq!(request.begin(LINE, "https"), None);
        for (name, value) in [
            ("Content-Length", "1"),
            ("Expect", "100-continue"),
            ("Transfer-Encoding", "chunked"),
            ("Connection", "close"),
            ("TE", "gzip"),
            ("a b", "c"),
            ("a", " b"),
            ("a", "b\0"),
        ] {
            assert_eq!(request.add(name, value), Err(SendError::BadField), "{name}");
        }
        assert_eq!(request.add("TE", "trailers"), Ok(()));
        assert_eq!(request.iter().count(), 5);
    }

    #[test]
    fn a_prepared_request_has_the_fields_of_a_written_one() {
        let fields = [("Cookie".to_owned(), "a=b".to_owned())];
        let prepared = PreparedRequest::new("PUT", "a", &fields, Some(3)).unwrap();
        let mut written = RequestFields::default();
        let line = RequestLine {
            method: "PUT",
            ..LINE
        };
        assert_eq!(written.begin(line, "https"), None);
        written.add("cookie", "a=b").unwrap();
        let opening = Opening {
            content: Content::Sized(3),
            ..Opening::new("PUT")
        };
        written.end(&opening).unwrap();
        assert_eq!(prepared.opening(), opening);
        assert_eq!(prepared.bytes("https", "/"), written.bytes());
        let both = (prepared.iter("https", "/"), written.iter());
        assert!(both.0.eq(both.1));
        let bad = PreparedRequest::new("GET", "", &[], None);
        assert_eq!(bad, Err(SendError::BadField));
    }
}
