//! Parsing the head of a request, in strict mode (RFC 9112 sections 2.2, 3, 6, 11.2).

use memchr::{memchr, memrchr};

use super::config::Limits;
use super::refusal::Refusal;
use crate::h1::syntax::{Field, FieldLines, Strictness, SyntaxError, TransferCodings, split_head};
use crate::message::fields::{self, Repeated};
use crate::origin::conditions::{Lines, Preconditions, Single};
use crate::origin::target::{Target, is_authority};
use crate::origin::{Method, Request};

/// The HTTP version of a request. Versions that are handled alike are one variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Http10,
    /// 1.1, and later minor versions, which must be treated as 1.1.
    Http11,
}

/// The rule that determines the end of a request's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyFraming {
    Length(u64),
    Chunked,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct RequestHead<'a> {
    pub request: Request<'a>,
    pub version: Version,
    /// The request line as it was sent.
    pub line: &'a [u8],
    /// The target as it was sent.
    pub target: &'a [u8],
    pub body: BodyFraming,
    pub expects_continue: bool,
    /// Whether the client can and will reuse the connection.
    pub persistent: bool,
    /// Whether the client sent `Connection: keep-alive`.
    pub asks_keep_alive: bool,
    /// The value of `HTTP2-Settings` in a request to upgrade to HTTP/2.
    pub http2_settings: Option<&'a [u8]>,
}

/// Parses a complete head, its empty line included.
pub(super) fn read<'a>(head: &'a [u8], limits: &Limits) -> Result<RequestHead<'a>, Refusal> {
    let (start_line, lines) = split_head(head, Strictness::Strict)?;
    let (method, target, version) = request_line(start_line)?;
    if target.len() as u64 > limits.target.0 {
        return Err(Refusal::TargetTooLong);
    }
    let mut found = Found::default();
    found.read_all(lines, limits.fields)?;
    match (found.host, version) {
        (Single::Absent, Version::Http11) => return Err(Refusal::MissingHost),
        (Single::Repeated, _) => return Err(Refusal::RepeatedHost),
        (Single::Value(host), _) if !host.is_empty() && !is_authority(host, false) => {
            return Err(Refusal::BadHost);
        }
        _ => {}
    }
    let body = found.framing(version)?;
    let expects_continue = match (found.expect, version) {
        (Single::Absent, _) | (_, Version::Http10) => false,
        (Single::Value(value), _) if value.eq_ignore_ascii_case(b"100-continue") => true,
        _ => return Err(Refusal::UnknownExpectation),
    };
    let kept = found.keep_alive || version == Version::Http11;
    Ok(RequestHead {
        request: Request {
            method,
            target: Target::parse(method, target)?,
            preconditions: found.preconditions,
            range: found.range,
            accept: found.accept,
            accept_encoding: found.accept_encoding,
            available_dictionary: found.available_dictionary,
            package_have: found.package_have,
            no_transform: found.no_transform,
        },
        version,
        line: start_line,
        target,
        body,
        expects_continue,
        persistent: kept && !found.close,
        asks_keep_alive: found.keep_alive && !found.close,
        http2_settings: found
            .http2_settings()
            .filter(|_| version == Version::Http11),
    })
}

/// Returns the method of a request whose head may be malformed or incomplete: the first word.
pub(super) fn method(bytes: &[u8]) -> Method {
    let end = bytes.iter().position(|&byte| !fields::is_token_byte(byte));
    Method::from_token(&bytes[..end.unwrap_or(bytes.len())])
}

/// Whether a first line has the three words of a request line, but the second is not a target and the third is
/// not a version: the client uses another protocol.
pub(super) fn is_other_protocol(bytes: &[u8]) -> bool {
    let end = memchr::memchr2(b'\r', b'\n', bytes).unwrap_or(bytes.len());
    let mut words = bytes[..end].split(|&byte| byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return false;
    };
    fields::is_token(method)
        && fields::is_token(target)
        && target != b"*"
        && fields::is_token(version)
}

fn request_line(line: &[u8]) -> Result<(Method, &[u8], Version), Refusal> {
    let malformed = Refusal::BadRequestLine;
    let first = memchr(b' ', line).ok_or(malformed)?;
    let last = memrchr(b' ', line).ok_or(malformed)?;
    let (method, version) = (&line[..first], &line[last + 1..]);
    let target = line.get(first + 1..last).ok_or(malformed)?;
    if !fields::is_token(method) || target.is_empty() || memchr(b' ', target).is_some() {
        return Err(malformed);
    }
    let version = match version {
        b"HTTP/1.0" => Version::Http10,
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1'..=b'9'] => Version::Http11,
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            return Err(Refusal::UnsupportedVersion);
        }
        _ => return Err(malformed),
    };
    Ok((Method::from_token(method), target, version))
}

/// The values of the relevant fields found so far.
#[derive(Default)]
struct Found<'a> {
    host: Single<'a>,
    expect: Single<'a>,
    length: Option<u64>,
    codings: Option<TransferCodings>,
    close: bool,
    keep_alive: bool,
    /// The words of `Connection` and `Upgrade` for an [`Upgrade`](super::Upgrade).
    upgrade: UpgradeWords,
    http2_settings: Single<'a>,
    preconditions: Preconditions<'a>,
    range: Single<'a>,
    accept: Lines<'a>,
    accept_encoding: Lines<'a>,
    available_dictionary: Single<'a>,
    package_have: Single<'a>,
    no_transform: bool,
}

/// The words that must all be present for an upgrade to HTTP/2.
#[derive(Default)]
struct UpgradeWords {
    option_upgrade: bool,
    option_settings: bool,
    h2c: bool,
}

impl<'a> Found<'a> {
    fn read_all(&mut self, lines: FieldLines<'a>, most: u32) -> Result<(), Refusal> {
        for (count, field) in lines.enumerate() {
            if count as u64 >= u64::from(most) {
                return Err(Refusal::TooManyFields);
            }
            self.add(field?)?;
        }
        Ok(())
    }

    fn add(&mut self, field: Field<'a>) -> Result<(), Refusal> {
        let value = field.value;
        let fitted = match Known::of(field.name) {
            None => true,
            Some(Known::Host) => {
                self.host.push(value);
                true
            }
            Some(Known::Expect) => {
                self.expect.push(value);
                true
            }
            Some(Known::Connection) => {
                for option in fields::list(value) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                    self.upgrade.option_upgrade |= option.eq_ignore_ascii_case(b"upgrade");
                    self.upgrade.option_settings |= option.eq_ignore_ascii_case(b"http2-settings");
                }
                true
            }
            Some(Known::Upgrade) => {
                // Protocol names are compared case-sensitively.
                self.upgrade.h2c |= fields::list(value).any(|protocol| protocol == b"h2c");
                true
            }
            Some(Known::Http2Settings) => {
                self.http2_settings.push(value);
                true
            }
            Some(Known::ContentLength) => {
                let length = fields::content_length(value, self.length, Repeated::Refuse);
                self.length = Some(length.map_err(SyntaxError::from)?);
                true
            }
            Some(Known::TransferEncoding) => {
                self.codings.get_or_insert_default().add(value)?;
                true
            }
            Some(Known::Accept) => {
                // If there are more lines than any client sends, `Accept` is ignored. The request is not refused.
                if !self.accept.push(value) {
                    self.accept = Lines::default();
                }
                true
            }
            Some(Known::AvailableDictionary) => {
                self.available_dictionary.push(value);
                true
            }
            Some(Known::PackageHave) => {
                self.package_have.push(value);
                true
            }
            Some(Known::CacheControl) => {
                self.no_transform |= fields::list_has(value, "no-transform");
                true
            }
            Some(Known::AcceptEncoding) => self.accept_encoding.push(value),
            Some(Known::Range) => {
                self.range.push(value);
                true
            }
            Some(Known::IfMatch) => self.preconditions.if_match.push(value),
            Some(Known::IfNoneMatch) => self.preconditions.if_none_match.push(value),
            Some(Known::IfModifiedSince) => {
                self.preconditions.if_modified_since.push(value);
                true
            }
            Some(Known::IfUnmodifiedSince) => {
                self.preconditions.if_unmodified_since.push(value);
                true
            }
            Some(Known::IfRange) => {
                self.preconditions.if_range.push(value);
                true
            }
        };
        if fitted {
            Ok(())
        } else {
            Err(Refusal::TooManyFields)
        }
    }

    fn http2_settings(&self) -> Option<&'a [u8]> {
        let asked = &self.upgrade;
        (asked.h2c && asked.option_upgrade && asked.option_settings)
            .then(|| self.http2_settings.value())
            .flatten()
    }

    fn framing(&self, version: Version) -> Result<BodyFraming, Refusal> {
        let Some(codings) = self.codings else {
            return Ok(BodyFraming::Length(self.length.unwrap_or(0)));
        };
        if self.length.is_some() {
            return Err(Refusal::LengthAndCoding);
        }
        if version == Version::Http10 {
            return Err(Refusal::CodingInOldVersion);
        }
        match (codings.is_chunked(), codings.has_others()) {
            (true, false) => Ok(BodyFraming::Chunked),
            (true, true) => Err(Refusal::UnknownCoding),
            (false, _) => Err(Refusal::CodingWithoutEnd),
        }
    }
}

/// The fields that this server uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Host,
    Range,
    Accept,
    Expect,
    Upgrade,
    IfMatch,
    IfRange,
    Connection,
    PackageHave,
    IfNoneMatch,
    CacheControl,
    ContentLength,
    Http2Settings,
    AcceptEncoding,
    TransferEncoding,
    IfModifiedSince,
    IfUnmodifiedSince,
    AvailableDictionary,
}

impl Known {
    /// Identifies a field by its name. Comparing lengths first rules out most fields that clients send.
    fn of(name: &[u8]) -> Option<Known> {
        let candidates: &[(&[u8], Known)] = match name.len() {
            4 => &[(b"host", Known::Host)],
            5 => &[(b"range", Known::Range)],
            6 => &[(b"accept", Known::Accept), (b"expect", Known::Expect)],
            7 => &[(b"upgrade", Known::Upgrade)],
            8 => &[(b"if-match", Known::IfMatch), (b"if-range", Known::IfRange)],
            10 => &[(b"connection", Known::Connection)],
            12 => &[(b"package-have", Known::PackageHave)],
            13 => &[
                (b"if-none-match", Known::IfNoneMatch),
                (b"cache-control", Known::CacheControl),
            ],
            14 => &[
                (b"content-length", Known::ContentLength),
                (b"http2-settings", Known::Http2Settings),
            ],
            15 => &[(b"accept-encoding", Known::AcceptEncoding)],
            17 => &[
                (b"if-modified-since", Known::IfModifiedSince),
                (b"transfer-encoding", Known::TransferEncoding),
            ],
            19 => &[(b"if-unmodified-since", Known::IfUnmodifiedSince)],
            20 => &[(b"available-dictionary", Known::AvailableDictionary)],
            _ => &[],
        };
        candidates
            .iter()
            .find(|(spelling, _)| name.eq_ignore_ascii_case(spelling))
            .map(|&(_, known)| known)
    }
}

/// Returns the first value of a field in a parsed head; empty when there is none.
pub(super) fn first_value<'a>(head: &'a [u8], name: &[u8]) -> &'a [u8] {
    let lines = split_head(head, Strictness::Strict).map(|(_, lines)| lines);
    lines
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .find(|field| field.name.eq_ignore_ascii_case(name))
        .map_or(&[], |field| field.value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<RequestHead<'_>, Refusal> {
        read(text.as_bytes(), &Limits::default())
    }

    #[test]
    fn request_lines_have_three_parts_and_one_space_between() {
        for line in [
            "GET /",
            "GET",
            "",
            "GET  / HTTP/1.1",
            "GET /  HTTP/1.1",
            " GET / HTTP/1.1",
            "GET / HTTP/1.1 ",
            "GET\t/ HTTP/1.1",
            "GET / a HTTP/1.1",
            "G@T / HTTP/1.1",
            "GET / http/1.1",
            "GET / HTTP/1.1.1",
            "GET / HTTP/11",
            "GET / HTTP/1.x",
        ] {
            let text = format!("{line}\r\nHost: a\r\n\r\n");
            assert_eq!(
                head(&text).unwrap_err(),
                Refusal::BadRequestLine,
                "{line:?}"
            );
        }
        for version in ["HTTP/2.0", "HTTP/0.9", "HTTP/3.1"] {
            let text = format!("GET / {version}\r\nHost: a\r\n\r\n");
            assert_eq!(head(&text).unwrap_err(), Refusal::UnsupportedVersion);
        }
        let later = head("GET / HTTP/1.7\r\nHost: a\r\n\r\n").unwrap();
        assert_eq!(later.version, Version::Http11);
    }

    #[test]
    fn field_names_match_in_any_case() {
        let text = "GET /a HTTP/1.1\r\nHOST: a\r\nhost2: b\r\nif-NONE-match: \"x\"\r\n\
                    If-None-Match: \"y\"\r\naccept-encoding: gzip\r\nRange: bytes=0-\r\n\
                    X-Other: z\r\n\r\n";
        let found = head(text).unwrap();
        let request = found.request;
        assert_eq!(request.preconditions.if_none_match.iter().count(), 2);
        assert_eq!(request.accept_encoding.iter().next(), Some(&b"gzip"[..]));
        assert_eq!(request.range.value(), Some(&b"bytes=0-"[..]));
        assert_eq!(found.body, BodyFraming::Length(0));
    }

    #[test]
    fn persistence_follows_the_http_version() {
        for (version, connection, expected) in [
            ("1.0", "", false),
            ("1.0", "Keep-Alive", true),
            ("1.0", "keep-alive, close", false),
            ("1.1", "", true),
            ("1.1", "keep-alive", true),
            ("1.1", "foo, Close", false),
            ("1.1", "closed", true),
        ] {
            let text =
                format!("GET / HTTP/{version}\r\nHost: a\r\nConnection: {connection}\r\n\r\n");
            let found = head(&text).unwrap();
            assert_eq!(found.persistent, expected, "{version} {connection}");
        }
    }
}
