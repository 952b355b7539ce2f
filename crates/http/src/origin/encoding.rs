//! Choosing a content coding (RFC 9110 sections 12.4.2 and 12.5.3).

use fathometer_model::ContentCoding;

use super::conditions::Lines;
use crate::message::fields;

/// Chooses among the codings in which a file is stored. `available` yields each with the size of its
/// representation. `None`: send the file without a coding.
///
/// The highest quality wins; with equal quality, the smallest size. The file without a coding ranks below every
/// coding that the client accepts, unless the client gives `identity` a quality of its own.
pub fn choose(
    accept: &Lines<'_>,
    available: impl Iterator<Item = (ContentCoding, u64)>,
) -> Option<ContentCoding> {
    if accept.is_empty() {
        return None;
    }
    let wildcard = quality(accept, |name| name == b"*");
    let identity = quality(accept, |name| name.eq_ignore_ascii_case(b"identity"));
    available
        .filter_map(|(coding, size)| {
            let quality = quality(accept, |name| is_coding(name, coding)).or(wildcard)?;
            (quality > 0 && identity.is_none_or(|identity| quality >= identity))
                .then_some((coding, quality, size))
        })
        .max_by_key(|&(_, quality, size)| (quality, std::cmp::Reverse(size)))
        .map(|(coding, ..)| coding)
}

/// The quality, in thousandths, of the first element whose name matches.
fn quality(accept: &Lines<'_>, fits: impl Fn(&[u8]) -> bool) -> Option<u16> {
    accept.iter().flat_map(fields::list).find_map(|element| {
        let mut parts = element.split(|&byte| byte == b';').map(fields::trim);
        let name = parts.next()?;
        if !fits(name) {
            return None;
        }
        let weight = parts.find_map(|parameter| match parameter {
            [b'q' | b'Q', b'=', value @ ..] => Some(value),
            _ => None,
        });
        match weight {
            // An invalid weight counts as zero.
            Some(value) => Some(thousandths(value).unwrap_or(0)),
            None => Some(1000),
        }
    })
}

/// A weight: 0 to 1 with at most three decimals.
pub(super) fn thousandths(text: &[u8]) -> Option<u16> {
    let (whole, decimals) = match text {
        [whole] => (*whole, &[][..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (*whole, decimals),
        _ => return None,
    };
    if !matches!(whole, b'0' | b'1') || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut value = u16::from(whole - b'0') * 1000;
    let mut scale = 100;
    for digit in decimals {
        value += u16::from(digit - b'0') * scale;
        scale /= 10;
    }
    (value <= 1000).then_some(value)
}

fn is_coding(name: &[u8], coding: ContentCoding) -> bool {
    name.eq_ignore_ascii_case(coding.token().as_bytes())
        || coding == ContentCoding::Gzip && name.eq_ignore_ascii_case(b"x-gzip")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_stored_coding_is_chosen() {
        use ContentCoding::{Deflate, Gzip};
        let table = [
            ("", None),
            ("deflate", Some(Deflate)),
            ("gzip", Some(Gzip)),
            ("x-gzip", Some(Gzip)),
            ("GZIP", Some(Gzip)),
            ("br, zstd", None),
            // The deflate representation is smaller.
            ("gzip, deflate, br", Some(Deflate)),
            ("gzip;q=1.0, deflate;q=0.999", Some(Gzip)),
            ("deflate;q=0", None),
            ("*", Some(Deflate)),
            ("*, deflate;q=0", Some(Gzip)),
            ("*;q=0", None),
            ("gzip;q=0.5", Some(Gzip)),
            ("gzip;q=0.5, identity", None),
            ("gzip;q=0.5, identity;q=0.4", Some(Gzip)),
            ("gzip ; q=0.5 , identity;q=0.5", Some(Gzip)),
            ("gzip;q=2", None),
            ("gzip;q=0.0001", None),
            ("gzip;q=", None),
            ("gzip;q=1.", Some(Gzip)),
        ];
        for (accept, expected) in table {
            let mut lines = Lines::default();
            assert!(lines.push(accept.as_bytes()));
            let available = [(Gzip, 112), (Deflate, 100)].into_iter();
            assert_eq!(choose(&lines, available), expected, "{accept:?}");
        }
        let available = [(Gzip, 112)].into_iter();
        assert_eq!(choose(&Lines::default(), available), None);
    }
}
