//! Validation of a field section as a response, trailers or a promised request (RFC 9113 section 8).

use crate::field_block::FieldBlock;
use crate::h1::fields::{self, Repeated};

/// A section that HTTP forbids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// Information from the head of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ResponseInfo {
    pub(super) status: u16,
    pub(super) content_length: Option<u64>,
}

/// Parses the head of a response: one `:status`, in first place, and no other pseudo-header field.
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

/// A promised request, which the server will answer. Its slices are of the block.
#[derive(Debug, Clone, Copy)]
pub struct Promise<'c> {
    /// The method: GET or HEAD.
    pub method: &'c str,
    /// The scheme.
    pub scheme: &'c str,
    /// The host, and the port unless it is the default of the scheme.
    pub authority: &'c str,
    /// The request target.
    pub target: &'c str,
    block: &'c FieldBlock,
}

impl<'c> Promise<'c> {
    /// Names and values of its other fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&'c [u8], &'c [u8])> {
        self.block
            .iter()
            .filter(|(name, _)| !name.starts_with(b":"))
    }
}

/// Parses the head of a promised request (section 8.4): safe, cacheable, without content, and complete.
pub(super) fn promise(block: &FieldBlock) -> Result<Promise<'_>, Malformed> {
    let mut pseudo = [None; 4];
    let mut regular = false;
    for (name, value) in block.iter() {
        let place = match name {
            b":method" => 0,
            b":scheme" => 1,
            b":authority" => 2,
            b":path" => 3,
            _ => {
                regular = true;
                check_field(name, value)?;
                if name == b"content-length" && value != b"0" {
                    return Err(Malformed);
                }
                continue;
            }
        };
        let text = std::str::from_utf8(value).map_err(|_| Malformed)?;
        let good = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        if regular || !good || pseudo[place].replace(text).is_some() {
            return Err(Malformed);
        }
    }
    let [
        Some(method @ ("GET" | "HEAD")),
        Some(scheme),
        Some(authority),
        Some(target),
    ] = pseudo
    else {
        return Err(Malformed);
    };
    Ok(Promise {
        method,
        scheme,
        authority,
        target,
        block,
    })
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

/// Checks a regular field: a name in lower case, a value without line ends, NUL and surrounding white space,
/// and no connection-specific field (sections 8.2.1 and 8.2.2).
fn check_field(name: &[u8], value: &[u8]) -> Result<(), Malformed> {
    // No early exit, so that the compiler can examine many bytes in one step.
    let named = name.iter().fold(!name.is_empty(), |good, &byte| {
        good & NAME[usize::from(byte)]
    });
    let valued = value.iter().fold(true, |good, &byte| {
        good & !matches!(byte, 0 | b'\r' | b'\n')
    });
    let space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    if !named || !valued || space(value.first()) || space(value.last()) || is_of_connection(name) {
        return Err(Malformed);
    }
    Ok(())
}

/// Whether a field is connection-specific in HTTP/1.x and so forbidden in HTTP/2.
pub(super) fn is_of_connection(name: &[u8]) -> bool {
    // The length rules out most fields without a comparison.
    match name.len() {
        7 => name == b"upgrade",
        10 => name == b"connection" || name == b"keep-alive",
        16 => name == b"proxy-connection",
        17 => name == b"transfer-encoding",
        _ => false,
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
            assert_eq!(response(&block(fields)), Err(Malformed), "{fields:?}");
        }
        assert_eq!(trailers(&block(&[("x", "y")])), Ok(()));
        assert_eq!(trailers(&block(&[(":status", "200")])), Err(Malformed));
    }

    #[test]
    fn only_safe_and_complete_requests_are_promised() {
        let get = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "a"),
            (":path", "/b"),
        ];
        let good = block(&[&get[..], &[("accept", "*/*")]].concat());
        let promised = promise(&good).unwrap();
        assert_eq!((promised.target, promised.authority), ("/b", "a"));
        assert_eq!(promised.fields().count(), 1);
        for left_out in 0..4 {
            let mut fields = get.to_vec();
            fields.remove(left_out);
            assert!(promise(&block(&fields)).is_err());
        }
        for (place, wrong) in [
            (0, (":method", "POST")),
            (3, (":path", "")),
            (3, (":path", "/ ")),
            (2, (":status", "200")),
            (2, (":method", "GET")),
        ] {
            let mut fields = get.to_vec();
            fields[place] = wrong;
            assert!(promise(&block(&fields)).is_err(), "{wrong:?}");
        }
        for more in [("content-length", "1"), ("te", " x"), (":path", "/")] {
            let fields = [&get[..], &[("accept", "*/*"), more]].concat();
            assert!(promise(&block(&fields)).is_err(), "{more:?}");
        }
    }
}
