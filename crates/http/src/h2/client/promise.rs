//! Promised requests (RFC 9113 section 8.4).

use crate::field_block::FieldBlock;
use crate::message::section::{Malformed, Recipient, check_field};

/// A request that the server promises to answer. The slices borrow the field block.
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
    /// The names and values of the request's other fields, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&'c [u8], &'c [u8])> {
        self.block
            .iter()
            .filter(|(name, _)| !name.starts_with(b":"))
    }
}

/// Parses the fields of a promised request. The request must be safe, cacheable, complete, and without content (section
/// 8.4).
pub(super) fn read(block: &FieldBlock) -> Result<Promise<'_>, Malformed> {
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
                check_field(name, value, Recipient::Http2Client)?;
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
    fn only_safe_and_complete_requests_can_be_promised() {
        let get = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "a"),
            (":path", "/b"),
        ];
        let good = block(&[&get[..], &[("accept", "*/*")]].concat());
        let promised = read(&good).unwrap();
        assert_eq!((promised.target, promised.authority), ("/b", "a"));
        assert_eq!(promised.fields().count(), 1);
        for left_out in 0..4 {
            let mut fields = get.to_vec();
            fields.remove(left_out);
            assert!(read(&block(&fields)).is_err());
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
            assert!(read(&block(&fields)).is_err(), "{wrong:?}");
        }
        for more in [("content-length", "1"), ("te", " x"), (":path", "/")] {
            let fields = [&get[..], &[("accept", "*/*"), more]].concat();
            assert!(read(&block(&fields)).is_err(), "{more:?}");
        }
    }
}
