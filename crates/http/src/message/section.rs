//! Rules for field sections of HTTP/2 and HTTP/3 (RFC 9113 section 8, RFC 9114 section 4): which fields are
//! allowed, and the heads and trailers of responses.
//!
//! Both protocols have the same rules. [`Recipient`] selects the checks that go beyond the requirements of the
//! RFC.

use super::fields::{self, Repeated};
use crate::field_block::FieldBlock;

/// A field section that the RFC forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The machine that reads a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recipient {
    /// An HTTP/2 client. It refuses only the sections that RFC 9113 section 8.2.1 requires it to refuse. It
    /// accepts control characters other than NUL, CR and LF in values, and any `TE` and the status 101 in
    /// responses.
    Http2Client,
    /// An HTTP/2 server. It also refuses white space around the values of pseudo-header fields.
    Http2Server,
    /// An HTTP/3 client or server.
    Http3,
}

/// The parsed head of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ResponseInfo {
    pub status: u16,
    pub content_length: Option<u64>,
}

/// Parses the head of a response: one `:status`, in first place, and no other pseudo-header field.
pub(crate) fn response(
    block: &FieldBlock,
    recipient: Recipient,
) -> Result<ResponseInfo, Malformed> {
    let mut fields = block.iter();
    let status = match fields.next() {
        Some((b":status", value)) => status(value)?,
        _ => return Err(Malformed),
    };
    // HTTP/2 and HTTP/3 have no upgrade (RFC 9113 section 8.6, RFC 9114 section 4.5).
    if status == 101 && recipient != Recipient::Http2Client {
        return Err(Malformed);
    }
    let mut content_length = None;
    for (name, value) in fields {
        check_field(name, value, recipient)?;
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
pub(crate) fn trailers(block: &FieldBlock, recipient: Recipient) -> Result<(), Malformed> {
    block
        .iter()
        .try_for_each(|(name, value)| check_field(name, value, recipient))
}

/// Checks a regular field: a name in lower case, a value without control characters and surrounding white
/// space, and no connection-specific field (RFC 9113 sections 8.2.1 and 8.2.2, RFC 9114 section 4.2).
pub(crate) fn check_field(
    name: &[u8],
    value: &[u8],
    recipient: Recipient,
) -> Result<(), Malformed> {
    // No early exit, so that the compiler can examine many bytes in one step.
    let named = name.iter().fold(!name.is_empty(), |good, &byte| {
        good & NAME[usize::from(byte)]
    });
    let valued = match recipient {
        Recipient::Http2Client => value.iter().fold(true, |good, &byte| {
            good & !matches!(byte, 0 | b'\r' | b'\n')
        }),
        Recipient::Http2Server | Recipient::Http3 => fields::is_value(value),
    };
    let hop = match recipient {
        Recipient::Http2Client => is_of_connection(name),
        Recipient::Http2Server | Recipient::Http3 => {
            is_of_connection(name) || name == b"te" && !value.eq_ignore_ascii_case(b"trailers")
        }
    };
    match named && valued && !is_padded(value) && !hop {
        true => Ok(()),
        false => Err(Malformed),
    }
}

/// Whether a value has white space at either end.
pub(crate) fn is_padded(value: &[u8]) -> bool {
    let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    blank(value.first()) || blank(value.last())
}

/// Whether a field is specific to HTTP/1.x connections and therefore forbidden with any value.
pub(crate) fn is_of_connection(name: &[u8]) -> bool {
    // The length rules out most fields without a comparison.
    match name.len() {
        7 => name == b"upgrade",
        10 => name == b"connection" || name == b"keep-alive",
        16 => name == b"proxy-connection",
        17 => name == b"transfer-encoding",
        _ => false,
    }
}

fn status(value: &[u8]) -> Result<u16, Malformed> {
    match *value {
        [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] => {
            let digit = |byte: u8| u16::from(byte - b'0');
            Ok(digit(a) * 100 + digit(b) * 10 + digit(c))
        }
        _ => Err(Malformed),
    }
}

/// The bytes of tokens, except capital letters.
const NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        let is_capital = (byte as u8).is_ascii_uppercase();
        table[byte] = matches!(
            byte as u8,
            b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'0'..=b'9' | b'^'..=b'z' | b'|' | b'~'
        ) && !is_capital;
        byte += 1;
    }
    table
};

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
    fn names_are_tokens_in_lower_case() {
        for byte in 0..=u8::MAX {
            let token = fields::is_token_byte(byte) && !byte.is_ascii_uppercase();
            assert_eq!(NAME[usize::from(byte)], token, "{byte:#x}");
        }
    }

    #[test]
    fn responses_must_follow_the_rules_of_the_rfc() {
        let good = block(&[(":status", "200"), ("content-length", "5"), ("x", "")]);
        let info = ResponseInfo {
            status: 200,
            content_length: Some(5),
        };
        let all = [
            Recipient::Http2Client,
            Recipient::Http2Server,
            Recipient::Http3,
        ];
        for recipient in all {
            assert_eq!(response(&good, recipient), Ok(info));
        }
        for fields in [
            &[][..],
            &[("x", "y")],
            &[("x", "y"), (":status", "200")],
            &[(":status", "200"), (":status", "200")],
            &[(":status", "200"), (":path", "/")],
            &[(":status", "20")],
            &[(":status", "+20")],
            &[(":status", "099")],
            &[(":status", "200"), ("X", "y")],
            &[(":status", "200"), ("", "y")],
            &[(":status", "200"), ("a b", "y")],
            &[(":status", "200"), ("x", " y")],
            &[(":status", "200"), ("x", "y\t")],
            &[(":status", "200"), ("x", "a\r\nb")],
            &[(":status", "200"), ("x", "a\0b")],
            &[(":status", "200"), ("connection", "close")],
            &[(":status", "200"), ("keep-alive", "5")],
            &[(":status", "200"), ("transfer-encoding", "chunked")],
            &[(":status", "200"), ("proxy-connection", "close")],
            &[(":status", "200"), ("upgrade", "h2c")],
            &[
                (":status", "200"),
                ("content-length", "5"),
                ("content-length", "6"),
            ],
            &[(":status", "200"), ("content-length", "-5")],
        ] {
            for recipient in all {
                let read = response(&block(fields), recipient);
                assert_eq!(read, Err(Malformed), "{fields:?} {recipient:?}");
            }
        }
        for recipient in all {
            assert_eq!(trailers(&block(&[("x", "y")]), recipient), Ok(()));
            let pseudo = block(&[(":status", "200")]);
            assert_eq!(trailers(&pseudo, recipient), Err(Malformed));
        }
        for fields in [
            &[(":status", "101")][..],
            &[(":status", "200"), ("te", "gzip")],
            &[(":status", "200"), ("x", "a\x07b")],
        ] {
            let read = |recipient| response(&block(fields), recipient).is_ok();
            assert_eq!(all.map(read), [true, false, false], "{fields:?}");
        }
    }
}
