//! Response heads: parsed once into a buffer that the next head reuses.

use fathometer_model::Failure;

use crate::exchange::{FieldSpan, Head, Limits, Lines};
use crate::h1::syntax::{Field, Strictness, TransferCodings, split_head};
use crate::message::fields::{self, Repeated};

/// The head of a response: status and fields.
#[derive(Debug, Clone, Default)]
pub struct ResponseHead {
    bytes: Vec<u8>,
    fields: Vec<FieldSpan>,
    status: u16,
    minor: u8,
    content_length: Option<u64>,
    transfer_codings: Option<TransferCodings>,
    pub(super) says_close: bool,
    pub(super) says_keep_alive: bool,
    /// Whether the buffer contains a completely parsed head.
    is_whole: bool,
}

/// The rule that determines the end of a response (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Nothing,
    Length(u64),
    Chunked,
    UntilClose,
}

impl ResponseHead {
    /// The status code, 100 to 999.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Whether the server uses HTTP/1.1 (or a later 1.x) and not HTTP/1.0.
    pub fn is_http11(&self) -> bool {
        self.minor >= 1
    }

    /// The value of the first field of this name, case-insensitive.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields()
            .find(|field| field.is(name))
            .map(|field| field.value)
    }

    /// All fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        let fields = self.lines().iter();
        fields.map(|(name, value)| Field { name, value })
    }

    fn lines(&self) -> Lines<'_> {
        Lines {
            text: &self.bytes,
            fields: &self.fields,
            content_length: self.content_length,
        }
    }

    /// The value of `Content-Length`. In the response to a HEAD request it is the length that a GET would
    /// return.
    pub fn content_length(&self) -> Option<u64> {
        self.content_length
    }

    /// Parses `head`, empty line included, and replaces this head.
    pub(super) fn parse(&mut self, head: &[u8], limits: &Limits) -> Result<(), Failure> {
        self.bytes.clear();
        self.bytes.extend_from_slice(head);
        self.parse_buffer(limits)
    }

    /// The length of this head if `input` begins with exactly the same bytes. Most servers repeat the same head,
    /// except for the date. The parsed fields of the previous head then apply to the new head.
    pub(super) fn repeats(&self, input: &[u8]) -> Option<usize> {
        (self.is_whole && input.starts_with(&self.bytes)).then_some(self.bytes.len())
    }

    /// The buffer for a head that arrives in pieces: fill it, then call [`parse_buffer`](Self::parse_buffer).
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        self.is_whole = false;
        &mut self.bytes
    }

    pub(super) fn parse_buffer(&mut self, limits: &Limits) -> Result<(), Failure> {
        self.is_whole = false;
        self.fields.clear();
        self.content_length = None;
        self.transfer_codings = None;
        self.says_close = false;
        self.says_keep_alive = false;
        let bytes = &self.bytes[..];
        let origin = bytes.as_ptr() as usize;
        let span = |slice: &[u8]| {
            let start = slice.as_ptr() as usize - origin;
            (start as u32, (start + slice.len()) as u32)
        };
        let bad = |_| Failure::BadResponse;
        let (line, lines) = split_head(bytes, Strictness::Lenient).map_err(bad)?;
        (self.minor, self.status) = status_line(line).ok_or(Failure::BadResponse)?;
        for field in lines {
            let field = field.map_err(bad)?;
            if self.fields.len() == usize::from(limits.fields) {
                return Err(Failure::TooLarge);
            }
            self.fields.push(FieldSpan {
                name: span(field.name),
                value: span(field.value),
            });
            // The length rules out most fields without a comparison.
            match field.name.len() {
                10 if field.is("connection") => {
                    self.says_close |= fields::list_has(field.value, "close");
                    self.says_keep_alive |= fields::list_has(field.value, "keep-alive");
                }
                14 if field.is("content-length") => {
                    let length = fields::content_length(
                        field.value,
                        self.content_length,
                        Repeated::AllowEqual,
                    );
                    self.content_length = Some(length.map_err(|_| Failure::BadResponse)?);
                }
                17 if field.is("transfer-encoding") => {
                    let codings = self.transfer_codings.get_or_insert_default();
                    codings.add(field.value).map_err(bad)?;
                }
                _ => {}
            }
        }
        self.is_whole = true;
        Ok(())
    }

    /// Selects the rule that determines the end of this response. `head_request`: whether the request was HEAD.
    pub(super) fn framing(&self, head_request: bool) -> Result<Framing, Failure> {
        if let Some(codings) = self.transfer_codings {
            // With a length and a coding, or in HTTP/1.0, an intermediary may have framed the message differently
            // (RFC 9112 section 6.1). Other codings were not requested.
            let doubtful = self.content_length.is_some() || !self.is_http11();
            if doubtful || codings.has_others() || !codings.is_chunked() {
                return Err(Failure::BadResponse);
            }
        }
        if head_request || matches!(self.status, 100..=199 | 204 | 304) {
            return Ok(Framing::Nothing);
        }
        Ok(match (self.transfer_codings, self.content_length) {
            (Some(_), _) => Framing::Chunked,
            (None, Some(length)) => Framing::Length(length),
            (None, None) => Framing::UntilClose,
        })
    }
}

impl<'c> From<&'c ResponseHead> for Head<'c> {
    fn from(head: &'c ResponseHead) -> Head<'c> {
        Head::of_lines(head.status, head.lines())
    }
}

/// The first bytes of every status line.
pub(super) const STATUS_LINE_START: &[u8] = b"HTTP/1.";

/// Parses the minor version and the status of a status line (RFC 9112 section 4). The reason phrase may be missing,
/// together with the space before it.
fn status_line(line: &[u8]) -> Option<(u8, u16)> {
    let rest = line.strip_prefix(STATUS_LINE_START)?;
    let (&[minor, space, a, b, c], reason) = rest.split_first_chunk::<5>()?;
    let digits = [minor, a, b, c].iter().all(u8::is_ascii_digit);
    if space != b' ' || !digits || a == b'0' || !matches!(reason, [] | [b' ', ..]) {
        return None;
    }
    let digit = |byte: u8| u16::from(byte - b'0');
    Some((minor - b'0', digit(a) * 100 + digit(b) * 10 + digit(c)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ContentRange;

    fn parse(head: &str) -> Result<ResponseHead, Failure> {
        let mut parsed = ResponseHead::default();
        parsed.parse(head.as_bytes(), &Limits::default())?;
        Ok(parsed)
    }

    fn framing(fields: &str) -> Result<Framing, Failure> {
        parse(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n"))?.framing(false)
    }

    #[test]
    fn field_names_match_in_any_case() {
        let head = parse(
            "HTTP/1.0 206\r\nETAG: W/\"a\"\r\ncontent-Range: bytes 0-4/9\r\nX:  \r\nx: b\r\n\r\n",
        )
        .unwrap();
        assert_eq!((head.status(), head.is_http11()), (206, false));
        assert_eq!(Head::from(&head).etag(), Some("W/\"a\""));
        assert_eq!(head.field("X"), Some(&b""[..]));
        assert_eq!(head.fields().count(), 4);
        let range = Head::from(&head).content_range().unwrap();
        assert_eq!(
            range,
            ContentRange::Part {
                first: 0,
                last: 4,
                complete: Some(9)
            }
        );
    }

    #[test]
    fn status_lines_are_checked() {
        for (line, expected) in [
            ("HTTP/1.1 200 OK", Some((1, 200))),
            ("HTTP/1.0 404", Some((0, 404))),
            ("HTTP/1.9 999 ", Some((9, 999))),
            ("HTTP/1.1 20 OK", None),
            ("HTTP/1.1 2000", None),
            ("HTTP/1.1  200", None),
            ("HTTP/1.1 099 x", None),
            ("HTTP/2.0 200 OK", None),
            ("HTTP/1.1", None),
            ("http/1.1 200 OK", None),
        ] {
            assert_eq!(status_line(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn ambiguous_framing_is_refused() {
        assert_eq!(framing("Content-Length: 5\r\n"), Ok(Framing::Length(5)));
        assert_eq!(
            framing("Content-Length: 5, 5\r\nContent-Length: 5\r\n"),
            Ok(Framing::Length(5))
        );
        assert_eq!(
            framing("Transfer-Encoding: Chunked\r\n"),
            Ok(Framing::Chunked)
        );
        assert_eq!(framing(""), Ok(Framing::UntilClose));
        for fields in [
            "Content-Length: 5\r\nContent-Length: 6\r\n",
            "Content-Length: 5, 6\r\n",
            "Content-Length: +5\r\n",
            "Content-Length: -1\r\n",
            "Content-Length:\r\n",
            "Content-Length: 18446744073709551616\r\n",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked, gzip\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: identity\r\n",
            "Transfer-Encoding:\r\n",
        ] {
            assert_eq!(framing(fields), Err(Failure::BadResponse), "{fields}");
        }
        let old = parse("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        assert_eq!(old.framing(false), Err(Failure::BadResponse));
        let unmodified = parse("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n").unwrap();
        assert_eq!(unmodified.framing(false), Ok(Framing::Nothing));
    }

    #[test]
    fn too_many_fields_are_too_large() {
        let many = "X: y\r\n".repeat(129);
        assert_eq!(framing(&many), Err(Failure::TooLarge));
    }
}
