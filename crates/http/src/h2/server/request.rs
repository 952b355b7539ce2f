//! Parsing a request's fields (RFC 9113 sections 8.2 and 8.3).

use crate::field_block::FieldBlock;
use crate::h1::fields::{self, Repeated, Strictness};
use crate::h2::priority::Priority;
use crate::origin::conditions::{Lines, Preconditions, Single};
use crate::origin::target::{Target, is_authority};
use crate::origin::{Method, Request, Status};

use super::config::Limits;

/// A request's head.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestHead<'a> {
    pub request: Request<'a>,
    /// `:method` as it was sent.
    pub method: &'a [u8],
    /// `:path`, or `:authority` of CONNECT, as it was sent.
    pub target: &'a [u8],
    /// `:scheme`; empty with CONNECT.
    pub scheme: &'a [u8],
    /// `:authority`, or `Host` if there is no `:authority`.
    pub authority: &'a [u8],
    /// `Content-Length`
    pub announced: Option<u64>,
    pub expects_continue: bool,
    /// `Priority`
    pub priority: Option<Priority>,
    /// `Referer`; empty when absent.
    pub referer: &'a [u8],
    /// `User-Agent`; empty when absent.
    pub user_agent: &'a [u8],
}

/// Why a request does not get its normal answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rejection {
    /// It is malformed: its stream is reset.
    Malformed,
    /// It is well-formed, and the answer is this status.
    Refused(Status),
}

use Rejection::{Malformed, Refused};

/// Parses a complete head.
pub(super) fn read<'a>(
    block: &'a FieldBlock,
    limits: &Limits,
) -> Result<RequestHead<'a>, Rejection> {
    let mut found = Found::default();
    for (name, value) in block.iter() {
        found.add(name, value)?;
    }
    if block.len() > limits.fields as usize {
        return Err(Refused(Status::HEADER_TOO_LARGE));
    }
    found.finish(limits)
}

/// Whether these fields are valid trailers: regular fields, no pseudo-header fields (section 8.1).
pub(super) fn are_trailers(block: &FieldBlock) -> bool {
    block.iter().all(|(name, value)| {
        is_field_name(name) && is_field_value(value) && !is_of_connection(name, value)
    })
}

#[derive(Default)]
struct Found<'a> {
    /// Whether a regular field has come.
    regular: bool,
    method: Option<&'a [u8]>,
    scheme: Option<&'a [u8]>,
    authority: Option<&'a [u8]>,
    path: Option<&'a [u8]>,
    host: Single<'a>,
    length: Option<u64>,
    expect: Single<'a>,
    priority: Option<Priority>,
    preconditions: Preconditions<'a>,
    range: Single<'a>,
    accept: Lines<'a>,
    accept_encoding: Lines<'a>,
    package_have: Single<'a>,
    referer: &'a [u8],
    user_agent: &'a [u8],
    /// Whether a field came in more lines than are processed.
    too_many_lines: bool,
}

impl<'a> Found<'a> {
    fn add(&mut self, name: &'a [u8], value: &'a [u8]) -> Result<(), Rejection> {
        if !is_field_value(value) {
            return Err(Malformed);
        }
        if let Some((b':', pseudo)) = name.split_first() {
            let place = match pseudo {
                b"method" => &mut self.method,
                b"scheme" => &mut self.scheme,
                b"authority" => &mut self.authority,
                b"path" => &mut self.path,
                _ => return Err(Malformed),
            };
            if self.regular || place.replace(value).is_some() {
                return Err(Malformed);
            }
            return Ok(());
        }
        self.regular = true;
        if !is_field_name(name) || is_of_connection(name, value) {
            return Err(Malformed);
        }
        let fitted = match name {
            b"host" => {
                self.host.push(value);
                true
            }
            b"content-length" => {
                let length = fields::content_length(value, self.length, Repeated::Refuse);
                self.length = Some(length.map_err(|_| Malformed)?);
                true
            }
            b"expect" => {
                self.expect.push(value);
                true
            }
            b"priority" => {
                // Several lines would form one list: only the first is used.
                self.priority.get_or_insert_with(|| Priority::parse(value));
                true
            }
            b"range" => {
                self.range.push(value);
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
                // If there are more lines than any client sends, `accept` is ignored; that is no reason to
                // refuse.
                if !self.accept.push(value) {
                    self.accept = Lines::default();
                }
                true
            }
            b"package-have" => {
                self.package_have.push(value);
                true
            }
            b"accept-encoding" => self.accept_encoding.push(value),
            b"if-match" => self.preconditions.if_match.push(value),
            b"if-none-match" => self.preconditions.if_none_match.push(value),
            b"if-modified-since" => {
                self.preconditions.if_modified_since.push(value);
                true
            }
            b"if-unmodified-since" => {
                self.preconditions.if_unmodified_since.push(value);
                true
            }
            b"if-range" => {
                self.preconditions.if_range.push(value);
                true
            }
            _ => true,
        };
        self.too_many_lines |= !fitted;
        Ok(())
    }

    fn finish(self, limits: &Limits) -> Result<RequestHead<'a>, Rejection> {
        let token = self.method.filter(|token| fields::is_token(token));
        let token = token.ok_or(Malformed)?;
        let method = Method::from_token(token);
        let host = match self.host {
            Single::Absent => None,
            Single::Value(host) => Some(host),
            Single::Repeated => return Err(Malformed),
        };
        // An authority that is present must not be empty, and Host must not contradict it (section 8.3.1).
        let authority = self.authority.or(host).ok_or(Malformed)?;
        if host.is_some_and(|host| !host.eq_ignore_ascii_case(authority))
            || !is_authority(authority, false)
        {
            return Err(Malformed);
        }
        let (scheme, target) = match (method, self.scheme, self.path) {
            (Method::Connect, None, None) if self.authority.is_some() => (&[][..], authority),
            (Method::Connect, ..) => return Err(Malformed),
            (_, Some(scheme), Some(path)) => (scheme, path),
            _ => return Err(Malformed),
        };
        let has_path = match method {
            Method::Connect => true,
            Method::Options if target == b"*" => is_scheme(scheme),
            _ => is_scheme(scheme) && target.first() == Some(&b'/'),
        };
        if !has_path {
            return Err(Malformed);
        }
        if target.len() as u64 > limits.target.0 {
            return Err(Refused(Status::URI_TOO_LONG));
        }
        let expects_continue = match self.expect {
            Single::Absent => false,
            Single::Value(value) if value.eq_ignore_ascii_case(b"100-continue") => true,
            _ => return Err(Refused(Status::EXPECTATION_FAILED)),
        };
        if self.too_many_lines {
            return Err(Refused(Status::HEADER_TOO_LARGE));
        }
        let target_of = Target::parse(method, target);
        Ok(RequestHead {
            request: Request {
                method,
                target: target_of.map_err(|_| Refused(Status::BAD_REQUEST))?,
                preconditions: self.preconditions,
                range: self.range,
                accept: self.accept,
                accept_encoding: self.accept_encoding,
                package_have: self.package_have,
            },
            method: token,
            target,
            scheme,
            authority,
            announced: self.length,
            expects_continue,
            priority: self.priority,
            referer: self.referer,
            user_agent: self.user_agent,
        })
    }
}

/// A token without capital letters (section 8.2.1).
fn is_field_name(name: &[u8]) -> bool {
    fields::is_token(name) && !name.iter().any(u8::is_ascii_uppercase)
}

/// No control characters, and no white space at either end (section 8.2.1).
fn is_field_value(value: &[u8]) -> bool {
    let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    fields::check_value(value, Strictness::Strict).is_ok()
        && !blank(value.first())
        && !blank(value.last())
}

/// Whether it is connection-specific, and so invalid in HTTP/2 (section 8.2.2).
fn is_of_connection(name: &[u8], value: &[u8]) -> bool {
    match name {
        b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
            true
        }
        b"te" => !value.eq_ignore_ascii_case(b"trailers"),
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

    const GET: [(&str, &str); 4] = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "example.org"),
        (":path", "/"),
    ];

    fn block(fields: &[(&str, &str)]) -> FieldBlock {
        let mut block = FieldBlock::default();
        for (name, value) in fields {
            block.push(name.as_bytes(), value.as_bytes());
        }
        block
    }

    fn rejection(fields: &[(&str, &str)]) -> Option<Rejection> {
        read(&block(fields), &Limits::default()).err()
    }

    fn with(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
        [&GET[..], more].concat()
    }

    #[test]
    fn a_request_has_its_pseudo_fields_once_and_first() {
        assert_eq!(rejection(&GET), None);
        for field in GET {
            let without: Vec<_> = GET.into_iter().filter(|&other| other != field).collect();
            assert_eq!(rejection(&without), Some(Malformed), "{field:?}");
            let twice = with(&[field]);
            assert_eq!(rejection(&twice), Some(Malformed), "{field:?}");
        }
        for fields in [
            with(&[(":status", "200")]),
            with(&[(":protocol", "websocket")]),
            with(&[("a", "b"), (":path", "/")]),
            vec![("a", "b"), GET[0], GET[1], GET[2], GET[3]],
            vec![GET[0], GET[1], GET[2], (":path", "")],
            vec![GET[0], GET[1], GET[2], (":path", "a")],
            vec![GET[0], GET[1], GET[2], (":path", "*")],
            vec![GET[0], GET[1], GET[2], (":path", "http://a/")],
            vec![GET[0], (":scheme", ""), GET[2], GET[3]],
            vec![GET[0], GET[1], (":authority", ""), GET[3]],
            vec![GET[0], GET[1], (":authority", "user@a"), GET[3]],
            vec![(":method", "G T"), GET[1], GET[2], GET[3]],
            vec![(":method", "CONNECT"), GET[1], GET[2], GET[3]],
            vec![(":method", "CONNECT"), ("host", "a:1")],
        ] {
            assert_eq!(rejection(&fields), Some(Malformed), "{fields:?}");
        }
        let host = vec![GET[0], GET[1], GET[3], ("host", "example.org")];
        assert_eq!(rejection(&host), None);
        let connect = [(":method", "CONNECT"), (":authority", "a:1")];
        assert_eq!(rejection(&connect), None);
        let options = [(":method", "OPTIONS"), GET[1], GET[2], (":path", "*")];
        assert_eq!(rejection(&options), None);
    }

    #[test]
    fn fields_are_in_lower_case_and_not_about_connections() {
        for field in [
            ("A", "b"),
            ("", "b"),
            ("a b", "b"),
            ("a:", "b"),
            ("a", " b"),
            ("a", "b\t"),
            ("a", "b\0"),
            ("a", "b\r\nc: d"),
            ("connection", "close"),
            ("keep-alive", "1"),
            ("proxy-connection", "x"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("te", "gzip"),
            ("te", "trailers, gzip"),
            ("host", "other.org"),
            ("content-length", "a"),
            ("content-length", "1, 2"),
        ] {
            assert_eq!(rejection(&with(&[field])), Some(Malformed), "{field:?}");
            let trailer = !matches!(field.0, "host" | "content-length");
            assert_eq!(are_trailers(&block(&[field])), !trailer, "{field:?}");
        }
        for field in [("te", "trailers"), ("a", ""), ("host", "EXAMPLE.org")] {
            assert_eq!(rejection(&with(&[field])), None, "{field:?}");
        }
        assert!(!are_trailers(&block(&[(":path", "/")])));
        let lengths = [("content-length", "5"), ("content-length", "6")];
        assert_eq!(rejection(&with(&lengths)), Some(Malformed));
    }

    #[test]
    fn what_is_too_much_or_unknown_is_answered() {
        let long = format!("/{}", "a".repeat(9000));
        let fields = [GET[0], GET[1], GET[2], (":path", &long)];
        assert_eq!(rejection(&fields), Some(Refused(Status::URI_TOO_LONG)));
        let many = with(&[("a", "b"); 100]);
        assert_eq!(rejection(&many), Some(Refused(Status::HEADER_TOO_LARGE)));
        let lines = with(&[("if-match", "\"a\""); 5]);
        assert_eq!(rejection(&lines), Some(Refused(Status::HEADER_TOO_LARGE)));
        let expects = with(&[("expect", "101-wonder")]);
        assert_eq!(
            rejection(&expects),
            Some(Refused(Status::EXPECTATION_FAILED))
        );
        let path = [GET[0], GET[1], GET[2], (":path", "/a#b")];
        assert_eq!(rejection(&path), Some(Refused(Status::BAD_REQUEST)));
    }

    #[test]
    fn a_priority_and_conditions_are_found() {
        let fields = with(&[
            ("priority", "u=1, i"),
            ("range", "bytes=0-1"),
            ("if-none-match", "\"x\""),
            ("expect", "100-Continue"),
            ("user-agent", "me"),
        ]);
        let block = block(&fields);
        let head = read(&block, &Limits::default()).unwrap();
        let priority = head.priority.unwrap();
        assert_eq!((priority.urgency, priority.incremental), (1, true));
        assert_eq!(head.request.range.value(), Some(&b"bytes=0-1"[..]));
        assert!(head.expects_continue && !head.request.preconditions.if_none_match.is_empty());
        assert_eq!(head.user_agent, b"me");
    }
}
