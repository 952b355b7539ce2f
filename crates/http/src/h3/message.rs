//! Rules for the field sections of requests, responses and trailers (RFC 9114 sections 4.2 and 4.3).

use crate::field_block::FieldBlock;
use crate::h1::fields::{self, Repeated, Strictness};
use crate::origin::conditions::{Lines, Preconditions, Single};
use crate::origin::target::{Target, is_authority};
use crate::origin::{Method, Request, Status};

use super::Priority;

/// A malformed field section: its stream is reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// The parsed head of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ResponseInfo {
    pub status: u16,
    pub content_length: Option<u64>,
}

/// Reads the head of a response: `:status` once and first, and no other pseudo-header field.
pub(super) fn response(block: &FieldBlock) -> Result<ResponseInfo, Malformed> {
    let mut fields = block.iter();
    let status = match fields.next() {
        Some((b":status", value)) => status(value)?,
        _ => return Err(Malformed),
    };
    let mut content_length = None;
    for (name, value) in fields {
        check_field(name, value)?;
        if name == b"content-length" {
            let length = fields::content_length(value, content_length, Repeated::AllowEqual);
            content_length = Some(length.map_err(|_| Malformed)?);
        }
    }
    Ok(ResponseInfo {
        status,
        content_length,
    })
}

/// Checks trailers, which have no pseudo-header fields.
pub(super) fn trailers(block: &FieldBlock) -> Result<(), Malformed> {
    block
        .iter()
        .try_for_each(|(name, value)| check_field(name, value))
}

/// The head of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestHead<'a> {
    pub request: Request<'a>,
    /// `:method` as it was sent.
    pub method: &'a [u8],
    /// `:path`, or `:authority` of CONNECT, as it was sent.
    pub target: &'a [u8],
    pub content_length: Option<u64>,
    pub expects_continue: bool,
    pub priority: Option<Priority>,
    /// `Referer`; empty when absent.
    pub referer: &'a [u8],
    /// `User-Agent`; empty when absent.
    pub user_agent: &'a [u8],
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rejection {
    /// The request is malformed.
    Malformed,
    /// The request is well-formed; it is answered with this status.
    Refused(Status),
}

impl From<Malformed> for Rejection {
    fn from(_: Malformed) -> Rejection {
        Rejection::Malformed
    }
}

/// Reads the head of a request with at most `most_fields` fields and a target of at most `most_target` bytes.
pub(super) fn request(
    block: &FieldBlock,
    most_fields: u32,
    most_target: u64,
) -> Result<RequestHead<'_>, Rejection> {
    let mut found = Found::default();
    for (name, value) in block.iter() {
        found.add(name, value)?;
    }
    if block.len() > most_fields as usize {
        return Err(Rejection::Refused(Status::HEADER_TOO_LARGE));
    }
    found.finish(most_target)
}

#[derive(Default)]
struct Found<'a> {
    /// Whether a field has come that is not a pseudo-header field.
    regular: bool,
    method: Option<&'a [u8]>,
    scheme: Option<&'a [u8]>,
    authority: Option<&'a [u8]>,
    path: Option<&'a [u8]>,
    host: Single<'a>,
    expect: Single<'a>,
    content_length: Option<u64>,
    priority: Option<Priority>,
    preconditions: Preconditions<'a>,
    range: Single<'a>,
    accept: Lines<'a>,
    accept_encoding: Lines<'a>,
    package_have: Single<'a>,
    referer: &'a [u8],
    user_agent: &'a [u8],
    /// Whether a field came in more lines than are supported.
    too_many_lines: bool,
}

impl<'a> Found<'a> {
    fn add(&mut self, name: &'a [u8], value: &'a [u8]) -> Result<(), Malformed> {
        let pseudo = match name {
            b":method" => &mut self.method,
            b":scheme" => &mut self.scheme,
            b":authority" => &mut self.authority,
            b":path" => &mut self.path,
            _ => return self.add_regular(name, value),
        };
        let repeated = pseudo.replace(value).is_some();
        if self.regular || repeated || fields::check_value(value, Strictness::Strict).is_err() {
            return Err(Malformed);
        }
        Ok(())
    }

    fn add_regular(&mut self, name: &'a [u8], value: &'a [u8]) -> Result<(), Malformed> {
        self.regular = true;
        check_field(name, value)?;
        let fitted = match name {
            b"host" => push(&mut self.host, value),
            b"expect" => push(&mut self.expect, value),
            b"range" => push(&mut self.range, value),
            b"content-length" => {
                let length = fields::content_length(value, self.content_length, Repeated::Refuse);
                self.content_length = Some(length.map_err(|_| Malformed)?);
                true
            }
            b"priority" => {
                self.priority.get_or_insert_with(|| Priority::parse(value));
                true
            }
            b"referer" => {
                self.referer = value;
                true
            }
            b"user-agent" => {
                self.user_agent = value;
                true
            }
            b"accept" => {
                // `Accept` in too many lines is ignored: a preference is no reason to refuse the request.
                if !self.accept.push(value) {
                    self.accept = Lines::default();
                }
                true
            }
            b"package-have" => push(&mut self.package_have, value),
            b"accept-encoding" => self.accept_encoding.push(value),
            b"if-match" => self.preconditions.if_match.push(value),
            b"if-none-match" => self.preconditions.if_none_match.push(value),
            b"if-modified-since" => push(&mut self.preconditions.if_modified_since, value),
            b"if-unmodified-since" => push(&mut self.preconditions.if_unmodified_since, value),
            b"if-range" => push(&mut self.preconditions.if_range, value),
            _ => true,
        };
        self.too_many_lines |= !fitted;
        Ok(())
    }

    fn finish(self, most_target: u64) -> Result<RequestHead<'a>, Rejection> {
        let token = self.method.filter(|token| fields::is_token(token));
        let token = token.ok_or(Malformed)?;
        let method = Method::from_token(token);
        let host = match self.host {
            Single::Absent => None,
            Single::Value(host) => Some(host),
            Single::Repeated => return Err(Rejection::Malformed),
        };
        let authority = self.authority.or(host).ok_or(Malformed)?;
        if host.is_some_and(|host| !host.eq_ignore_ascii_case(authority))
            || !is_authority(authority, false)
        {
            return Err(Rejection::Malformed);
        }
        let (scheme, target) = match (method, self.scheme, self.path) {
            (Method::Connect, None, None) if self.authority.is_some() => (None, authority),
            (Method::Connect, ..) => return Err(Rejection::Malformed),
            (_, Some(scheme), Some(path)) => (Some(scheme), path),
            _ => return Err(Rejection::Malformed),
        };
        let is_whole = scheme.is_none_or(|scheme| {
            is_scheme(scheme)
                && (target.first() == Some(&b'/') || method == Method::Options && target == b"*")
        });
        if !is_whole {
            return Err(Rejection::Malformed);
        }
        if target.len() as u64 > most_target {
            return Err(Rejection::Refused(Status::URI_TOO_LONG));
        }
        let expects_continue = match self.expect {
            Single::Absent => false,
            Single::Value(value) if value.eq_ignore_ascii_case(b"100-continue") => true,
            _ => return Err(Rejection::Refused(Status::EXPECTATION_FAILED)),
        };
        if self.too_many_lines {
            return Err(Rejection::Refused(Status::HEADER_TOO_LARGE));
        }
        let parsed = Target::parse(method, target);
        Ok(RequestHead {
            request: Request {
                method,
                target: parsed.map_err(|_| Rejection::Refused(Status::BAD_REQUEST))?,
                preconditions: self.preconditions,
                range: self.range,
                accept: self.accept,
                accept_encoding: self.accept_encoding,
                package_have: self.package_have,
            },
            method: token,
            target,
            content_length: self.content_length,
            expects_continue,
            priority: self.priority,
            referer: self.referer,
            user_agent: self.user_agent,
        })
    }
}

fn push<'a>(single: &mut Single<'a>, value: &'a [u8]) -> bool {
    single.push(value);
    true
}

fn status(value: &[u8]) -> Result<u16, Malformed> {
    match *value {
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
            let digit = |byte: u8| u16::from(byte - b'0');
            // HTTP/3 has no upgrade (section 4.5).
            match digit(a) * 100 + digit(b) * 10 + digit(c) {
                101 => Err(Malformed),
                status => Ok(status),
            }
        }
        _ => Err(Malformed),
    }
}

/// Checks a field that is not a pseudo-header field: the name is a token in lower case, the value has no
/// control characters and no white space around it, and the field is not connection-specific.
fn check_field(name: &[u8], value: &[u8]) -> Result<(), Malformed> {
    let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let is_field = fields::is_token(name)
        && !name.iter().any(u8::is_ascii_uppercase)
        && fields::check_value(value, Strictness::Strict).is_ok()
        && !blank(value.first())
        && !blank(value.last())
        && !is_of_connection(name, value);
    if is_field { Ok(()) } else { Err(Malformed) }
}

/// Whether a field is specific to HTTP/1 connections, and so not permitted here (section 4.2).
pub(super) fn is_of_connection(name: &[u8], value: &[u8]) -> bool {
    match name.len() {
        2 => name == b"te" && !value.eq_ignore_ascii_case(b"trailers"),
        7 => name == b"upgrade",
        10 => name == b"connection" || name == b"keep-alive",
        16 => name == b"proxy-connection",
        17 => name == b"transfer-encoding",
        _ => false,
    }
}

fn is_scheme(scheme: &[u8]) -> bool {
    scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(fields: &[(&str, &str)]) -> FieldBlock {
        let mut block = FieldBlock::default();
        for (name, value) in fields {
            block.push(name.as_bytes(), value.as_bytes());
        }
        block
    }

    #[test]
    fn responses_are_held_to_the_rules() {
        let good = block(&[(":status", "200"), ("content-length", "5"), ("x", "")]);
        let info = ResponseInfo {
            status: 200,
            content_length: Some(5),
        };
        assert_eq!(response(&good), Ok(info));
        for fields in [
            &[][..],
            &[("x", "y")],
            &[("x", "y"), (":status", "200")],
            &[(":status", "200"), (":status", "200")],
            &[(":status", "200"), (":path", "/")],
            &[(":status", "20")],
            &[(":status", "101")],
            &[(":status", "099")],
            &[(":status", "200"), ("X", "y")],
            &[(":status", "200"), ("", "y")],
            &[(":status", "200"), ("x", " y")],
            &[(":status", "200"), ("x", "a\r\nb")],
            &[(":status", "200"), ("x", "a\0b")],
            &[(":status", "200"), ("connection", "close")],
            &[(":status", "200"), ("transfer-encoding", "chunked")],
            &[
                (":status", "200"),
                ("content-length", "5"),
                ("content-length", "6"),
            ],
        ] {
            assert_eq!(response(&block(fields)), Err(Malformed), "{fields:?}");
        }
        assert_eq!(trailers(&block(&[("x", "y")])), Ok(()));
        assert_eq!(trailers(&block(&[(":status", "200")])), Err(Malformed));
    }

    const GET: [(&str, &str); 4] = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "a.example:8443"),
        (":path", "/b?c"),
    ];

    #[test]
    fn requests_are_held_to_the_rules() {
        let read = |fields: &[(&str, &str)]| request(&block(fields), 50, 100).map(|_| ());
        assert_eq!(read(&GET), Ok(()));
        for left_out in 0..4 {
            let mut fields = GET.to_vec();
            fields.remove(left_out);
            assert_eq!(read(&fields), Err(Rejection::Malformed));
        }
        let host = [GET[0], GET[1], GET[3], ("host", "a.example")];
        assert_eq!(read(&host), Ok(()));
        for (place, wrong) in [
            (0, (":method", "G T")),
            (0, (":method", "CONNECT")),
            (1, (":scheme", "")),
            (2, (":authority", "")),
            (2, (":authority", "user@a")),
            (3, (":path", "")),
            (3, (":path", "b")),
            (3, (":path", "*")),
            (3, (":status", "200")),
            (3, (":protocol", "x")),
        ] {
            let mut fields = GET.to_vec();
            fields[place] = wrong;
            assert_eq!(read(&fields), Err(Rejection::Malformed), "{wrong:?}");
        }
        for more in [
            ("host", "b.example"),
            (":path", "/"),
            ("TE", "trailers"),
            ("te", "gzip"),
            ("connection", "close"),
            ("content-length", "x"),
        ] {
            let fields = [&GET[..], &[("accept", "*/*"), more]].concat();
            assert_eq!(read(&fields), Err(Rejection::Malformed), "{more:?}");
        }
        let refused = |status| Err(Rejection::Refused(status));
        let fields = [&GET[..], &[("expect", "x")]].concat();
        assert_eq!(read(&fields), refused(Status::EXPECTATION_FAILED));
        let fields = [&GET[..], &[("x", "y"); 47]].concat();
        assert_eq!(read(&fields), refused(Status::HEADER_TOO_LARGE));
        let long = format!("/{}", "x".repeat(100));
        let fields = [GET[0], GET[1], GET[2], (":path", &long)];
        assert_eq!(read(&fields), refused(Status::URI_TOO_LONG));
        let connect = [(":method", "CONNECT"), (":authority", "a.example:443")];
        assert_eq!(read(&connect), Ok(()));
        let star = [(":method", "OPTIONS"), GET[1], GET[2], (":path", "*")];
        assert_eq!(read(&star), Ok(()));
    }

    #[test]
    fn what_the_origin_looks_at_is_found() {
        let fields = [
            &GET[..],
            &[
                ("range", "bytes=0-1"),
                ("accept-encoding", "gzip"),
                ("if-none-match", "\"a\""),
                ("priority", "u=1, i"),
                ("expect", "100-continue"),
                ("te", "trailers"),
                ("referer", "https://a.example/"),
                ("user-agent", "x"),
            ],
        ]
        .concat();
        let block = block(&fields);
        let head = request(&block, 50, 100).unwrap();
        assert_eq!(head.target, b"/b?c");
        assert!(head.expects_continue);
        assert_eq!(
            head.priority,
            Some(Priority {
                urgency: 1,
                incremental: true
            })
        );
        assert_eq!(head.request.range.value(), Some(&b"bytes=0-1"[..]));
        assert!(!head.request.accept_encoding.is_empty());
        assert!(!head.request.preconditions.if_none_match.is_empty());
        assert_eq!(
            (head.referer, head.user_agent),
            (&b"https://a.example/"[..], &b"x"[..])
        );
    }
}
