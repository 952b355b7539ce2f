//! Reads the head of an HTTP/2 or HTTP/3 request (RFC 9113 section 8.3, RFC 9114 section 4.3).

use crate::field_block::FieldBlock;
use crate::message::Priority;
use crate::message::fields::{self, Repeated};
use crate::message::section::{Malformed, Recipient, check_field, is_padded};
use crate::origin::conditions::{Lines, Preconditions, Single};
use crate::origin::target::{Target, is_authority};
use crate::origin::{Method, Request, Status};

/// A request's head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestHead<'a> {
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
    pub content_length: Option<u64>,
    pub expects_continue: bool,
    /// `Priority`
    pub priority: Option<Priority>,
    /// `Referer`; empty when absent.
    pub referer: &'a [u8],
    /// `User-Agent`; empty when absent.
    pub user_agent: &'a [u8],
}

/// The reason why a request does not get its normal response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// The request is malformed: its stream is reset.
    Malformed,
    /// The request is well-formed, and the response has this status.
    Refused(Status),
}

use Rejection::Refused;

impl From<Malformed> for Rejection {
    fn from(_: Malformed) -> Rejection {
        Rejection::Malformed
    }
}

/// Parses a complete head with at most `most_fields` fields and a target of at most `most_target` bytes.
pub(crate) fn read(
    block: &FieldBlock,
    recipient: Recipient,
    most_fields: u32,
    most_target: u64,
) -> Result<RequestHead<'_>, Rejection> {
    let mut found = Found::default();
    for (name, value) in block.iter() {
        found.add(name, value, recipient)?;
    }
    if block.len() > most_fields as usize {
        return Err(Refused(Status::HEADER_TOO_LARGE));
    }
    found.finish(most_target)
}

#[derive(Default)]
struct Found<'a> {
    /// Whether a regular field has been read.
    regular: bool,
    method: Option<&'a [u8]>,
    scheme: Option<&'a [u8]>,
    authority: Option<&'a [u8]>,
    path: Option<&'a [u8]>,
    host: Single<'a>,
    content_length: Option<u64>,
    expect: Single<'a>,
    priority: Option<Priority>,
    preconditions: Preconditions<'a>,
    range: Single<'a>,
    accept: Lines<'a>,
    accept_encoding: Lines<'a>,
    available_dictionary: Single<'a>,
    package_have: Single<'a>,
    no_transform: bool,
    referer: &'a [u8],
    user_agent: &'a [u8],
    /// Whether a field has more lines than are processed.
    too_many_lines: bool,
}

impl<'a> Found<'a> {
    fn add(
        &mut self,
        name: &'a [u8],
        value: &'a [u8],
        recipient: Recipient,
    ) -> Result<(), Malformed> {
        let pseudo = match name {
            b":method" => &mut self.method,
            b":scheme" => &mut self.scheme,
            b":authority" => &mut self.authority,
            b":path" => &mut self.path,
            _ => return self.add_regular(name, value, recipient),
        };
        let is_repeated = pseudo.replace(value).is_some();
        let is_value =
            fields::is_value(value) && !(recipient == Recipient::Http2Server && is_padded(value));
        match self.regular || is_repeated || !is_value {
            true => Err(Malformed),
            false => Ok(()),
        }
    }

    fn add_regular(
        &mut self,
        name: &'a [u8],
        value: &'a [u8],
        recipient: Recipient,
    ) -> Result<(), Malformed> {
        self.regular = true;
        check_field(name, value, recipient)?;
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
                // Several lines would form one list: only the first is used.
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
                // `Accept` with too many lines is ignored: a preference is no reason to refuse the request.
                if !self.accept.push(value) {
                    self.accept = Lines::default();
                }
                true
            }
            b"cache-control" => {
                self.no_transform |= fields::list_has(value, "no-transform");
                true
            }
            b"available-dictionary" => push(&mut self.available_dictionary, value),
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
        let token = token.ok_or(Rejection::Malformed)?;
        let method = Method::from_token(token);
        let host = match self.host {
            Single::Absent => None,
            Single::Value(host) => Some(host),
            Single::Repeated => return Err(Rejection::Malformed),
        };
        // An authority that is present must not be empty, and Host must not contradict it (RFC 9113 section 8.3.1, RFC
        // 9114 section 4.3.1).
        let authority = self.authority.or(host).ok_or(Rejection::Malformed)?;
        if host.is_some_and(|host| !host.eq_ignore_ascii_case(authority))
            || !is_authority(authority, false)
        {
            return Err(Rejection::Malformed);
        }
        let (scheme, target) = match (method, self.scheme, self.path) {
            (Method::Connect, None, None) if self.authority.is_some() => (&[][..], authority),
            (Method::Connect, ..) => return Err(Rejection::Malformed),
            (_, Some(scheme), Some(path)) => (scheme, path),
            _ => return Err(Rejection::Malformed),
        };
        let has_path = match method {
            Method::Connect => true,
            Method::Options if target == b"*" => is_scheme(scheme),
            _ => is_scheme(scheme) && target.first() == Some(&b'/'),
        };
        if !has_path {
            return Err(Rejection::Malformed);
        }
        if target.len() as u64 > most_target {
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
                available_dictionary: self.available_dictionary,
                package_have: self.package_have,
                no_transform: self.no_transform,
            },
            method: token,
            target,
            scheme,
            authority,
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

fn is_scheme(scheme: &[u8]) -> bool {
    scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::section::trailers;

    const BOTH: [Recipient; 2] = [Recipient::Http2Server, Recipient::Http3];

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
        let block = block(fields);
        let [first, second] = BOTH.map(|recipient| read(&block, recipient, 100, 8192).err());
        assert_eq!(first, second, "both protocols have the same rules");
        first
    }

    fn with(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
        [&GET[..], more].concat()
    }

    #[test]
    fn a_request_has_its_pseudo_fields_once_and_first() {
        assert_eq!(rejection(&GET), None);
        for field in GET {
            let without: Vec<_> = GET.into_iter().filter(|&other| other != field).collect();
            assert_eq!(rejection(&without), Some(Rejection::Malformed), "{field:?}");
            let twice = with(&[field]);
            assert_eq!(rejection(&twice), Some(Rejection::Malformed), "{field:?}");
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
            assert_eq!(rejection(&fields), Some(Rejection::Malformed), "{fields:?}");
        }
        let host = vec![GET[0], GET[1], GET[3], ("host", "example.org")];
        assert_eq!(rejection(&host), None);
        let connect = [(":method", "CONNECT"), (":authority", "a:1")];
        assert_eq!(rejection(&connect), None);
        let options = [(":method", "OPTIONS"), GET[1], GET[2], (":path", "*")];
        assert_eq!(rejection(&options), None);
    }

    #[test]
    fn invalid_names_values_and_connection_fields_are_refused() {
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
            assert_eq!(
                rejection(&with(&[field])),
                Some(Rejection::Malformed),
                "{field:?}"
            );
            let trailer = !matches!(field.0, "host" | "content-length");
            for recipient in BOTH {
                let read = trailers(&block(&[field]), recipient);
                assert_eq!(read.is_ok(), !trailer, "{field:?}");
            }
        }
        for field in [("te", "trailers"), ("a", ""), ("host", "EXAMPLE.org")] {
            assert_eq!(rejection(&with(&[field])), None, "{field:?}");
        }
        let lengths = [("content-length", "5"), ("content-length", "6")];
        assert_eq!(rejection(&with(&lengths)), Some(Rejection::Malformed));
    }

    #[test]
    fn oversized_or_unsupported_requests_have_their_status() {
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
        let head = read(&block, Recipient::Http3, 100, 8192).unwrap();
        let priority = head.priority.unwrap();
        assert_eq!((priority.urgency, priority.incremental), (1, true));
        assert_eq!(head.request.range.value(), Some(&b"bytes=0-1"[..]));
        assert!(head.expects_continue && !head.request.preconditions.if_none_match.is_empty());
        assert_eq!(head.user_agent, b"me");
    }
}
