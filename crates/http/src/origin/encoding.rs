//! Chooses a content coding (RFC 9110 sections 12.4.2 and 12.5.3).

use fathometer_model::ContentCoding;

use super::conditions::Lines;
use crate::message::fields;

/// A content coding of this origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coding {
    /// `deflate`: the zlib format (RFC 1950).
    Deflate,
    /// `gzip` (RFC 1952).
    Gzip,
    /// `br` (RFC 7932).
    Brotli,
    /// `zstd` (RFC 8878).
    Zstd,
    /// `dcb`: Brotli with a dictionary that the client has (RFC 9842 section 4).
    DictionaryBrotli,
    /// `dcz`: Zstandard with a dictionary that the client has (RFC 9842 section 5).
    DictionaryZstd,
}

impl Coding {
    const COUNT: usize = 6;

    /// The codings that need no dictionary.
    pub const ALONE: [Coding; 4] = [Coding::Deflate, Coding::Gzip, Coding::Brotli, Coding::Zstd];

    /// The codings that need a dictionary.
    pub const WITH_DICTIONARY: [Coding; 2] = [Coding::DictionaryBrotli, Coding::DictionaryZstd];

    /// The token of the coding in `Accept-Encoding` and `Content-Encoding`.
    pub const fn token(self) -> &'static str {
        match self {
            Coding::Deflate => ContentCoding::Deflate.token(),
            Coding::Gzip => ContentCoding::Gzip.token(),
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
            Coding::DictionaryBrotli => "dcb",
            Coding::DictionaryZstd => "dcz",
        }
    }

    /// Returns the coding with the same algorithm and a dictionary; `None` if there is no such coding.
    pub const fn with_dictionary(self) -> Option<Coding> {
        match self {
            Coding::Brotli => Some(Coding::DictionaryBrotli),
            Coding::Zstd => Some(Coding::DictionaryZstd),
            _ => None,
        }
    }

    /// Whether the coding needs a dictionary.
    pub const fn needs_dictionary(self) -> bool {
        matches!(self, Coding::DictionaryBrotli | Coding::DictionaryZstd)
    }

    /// Returns the coding with this token or alias (RFC 9110 section 8.4.1.3).
    fn of_token(token: &[u8]) -> Option<Coding> {
        if token.eq_ignore_ascii_case(b"x-gzip") {
            return Some(Coding::Gzip);
        }
        Coding::ALONE
            .into_iter()
            .chain(Coding::WITH_DICTIONARY)
            .find(|coding| token.eq_ignore_ascii_case(coding.token().as_bytes()))
    }

    /// The coding of a file in a package; `None` for codings that packages do not support.
    pub(super) const fn in_packages(self) -> Option<ContentCoding> {
        match self {
            Coding::Deflate => Some(ContentCoding::Deflate),
            Coding::Gzip => Some(ContentCoding::Gzip),
            _ => None,
        }
    }
}

impl From<ContentCoding> for Coding {
    fn from(coding: ContentCoding) -> Coding {
        match coding {
            ContentCoding::Deflate => Coding::Deflate,
            ContentCoding::Gzip => Coding::Gzip,
        }
    }
}

/// The qualities in `Accept-Encoding`, in thousandths. The field is parsed once, in linear time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Qualities {
    named: [Option<u16>; Coding::COUNT],
    identity: Option<u16>,
    wildcard: Option<u16>,
}

impl Qualities {
    /// Parses the field. The first occurrence of a name counts. An invalid weight counts as zero.
    pub fn of(accept: &Lines<'_>) -> Qualities {
        let mut qualities = Qualities::default();
        for element in accept.iter().flat_map(fields::list) {
            let mut parts = element.split(|&byte| byte == b';').map(fields::trim);
            let name = parts.next().unwrap_or_default();
            let place = match Coding::of_token(name) {
                Some(coding) => &mut qualities.named[coding as usize],
                None if name == b"*" => &mut qualities.wildcard,
                None if name.eq_ignore_ascii_case(b"identity") => &mut qualities.identity,
                None => continue,
            };
            if place.is_some() {
                continue;
            }
            let weight = parts.find_map(|parameter| match parameter {
                [b'q' | b'Q', b'=', value @ ..] => Some(value),
                _ => None,
            });
            *place = Some(weight.map_or(1000, |value| thousandths(value).unwrap_or(0)));
        }
        qualities
    }

    /// The quality of a coding; `None` if the client does not accept it. A wildcard does not include codings with
    /// dictionaries, because a client that supports such a coding lists its name (RFC 9842 section 6.1).
    pub fn of_coding(&self, coding: Coding) -> Option<u16> {
        let wildcard = self.wildcard.filter(|_| !coding.needs_dictionary());
        let quality = self.named[coding as usize].or(wildcard);
        quality.filter(|&quality| quality > 0)
    }

    /// Whether the client refuses content without a coding (RFC 9110 section 12.5.3).
    pub fn refuses_identity(&self) -> bool {
        self.identity.or(self.wildcard) == Some(0)
    }
}

/// Selects one of the codings in which a file is available. `available` returns each coding with the size of its
/// representation (or another rank). `None`: send the file without a coding.
///
/// The coding with the highest quality is selected; among equal qualities, the smallest size. A file without a coding
/// ranks below all accepted codings, unless the client gives `identity` a quality.
pub fn choose(
    qualities: &Qualities,
    available: impl Iterator<Item = (Coding, u64)>,
) -> Option<Coding> {
    available
        .filter_map(|(coding, size)| {
            let quality = qualities.of_coding(coding)?;
            qualities
                .identity
                .is_none_or(|identity| quality >= identity)
                .then_some((coding, quality, size))
        })
        .max_by_key(|&(_, quality, size)| (quality, std::cmp::Reverse(size)))
        .map(|(coding, ..)| coding)
}

/// Parses a weight (0 to 1 with at most three decimals); returns thousandths.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_stored_coding_is_chosen() {
        use Coding::{Deflate, Gzip};
        let table = [
            ("", None),
            ("deflate", Some(Deflate)),
            ("gzip", Some(Gzip)),
            ("x-gzip", Some(Gzip)),
            ("GZIP", Some(Gzip)),
            ("br, zstd", None),
            // In these cases, the deflate representation is smaller than the gzip representation.
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
            let qualities = Qualities::of(&lines);
            assert_eq!(choose(&qualities, available), expected, "{accept:?}");
        }
        let available = [(Gzip, 112)].into_iter();
        let absent = Qualities::of(&Lines::default());
        assert_eq!(choose(&absent, available), None);
        assert!(!absent.refuses_identity());
    }

    #[test]
    fn codings_with_a_dictionary_are_chosen_only_by_name() {
        use Coding::{Brotli, DictionaryBrotli, DictionaryZstd};
        let table = [
            ("br", Some(Brotli)),
            ("*", Some(Brotli)),
            ("br, dcb, dcz", Some(DictionaryBrotli)),
            ("br, DCZ", Some(DictionaryZstd)),
            ("br;q=0.9, *", Some(Brotli)),
            ("br, dcb;q=0.9", Some(Brotli)),
            ("dcb;q=0, dcz;q=0, *", Some(Brotli)),
            ("dcbx", None),
        ];
        for (accept, expected) in table {
            let mut lines = Lines::default();
            assert!(lines.push(accept.as_bytes()));
            let available = [(DictionaryBrotli, 0), (DictionaryZstd, 1), (Brotli, 100)];
            let chosen = choose(&Qualities::of(&lines), available.into_iter());
            assert_eq!(chosen, expected, "{accept:?}");
        }
    }

    #[test]
    fn identity_is_refused_only_by_a_weight_of_zero() {
        let table = [
            ("gzip", false),
            ("identity;q=0", true),
            ("IDENTITY; q=0.000, gzip", true),
            ("*;q=0", true),
            ("*;q=0, identity;q=0.001", false),
            ("*;q=0, identity", false),
            ("identity;q=0.5", false),
        ];
        for (accept, refuses) in table {
            let mut lines = Lines::default();
            assert!(lines.push(accept.as_bytes()));
            let qualities = Qualities::of(&lines);
            assert_eq!(qualities.refuses_identity(), refuses, "{accept:?}");
        }
    }
}
