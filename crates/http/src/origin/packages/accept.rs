//! The form of a page that a client prefers: the page itself, a package or an archive (RFC 9110 section 12.5.1).
//!
//! A package is sent only to a client that lists its media type. A wildcard never selects a package, because clients
//! that expect a page also send `*/*`.

use super::{Format, Formats};
use crate::message::fields;
use crate::origin::conditions::Lines;
use crate::origin::encoding::thousandths;
use fathometer_package::{MEDIA_TYPE, Version};

/// The length of the shortest format name. A shorter field cannot contain a format.
const SHORTEST: usize = b"application/zip".len();

/// The quality of each format in thousandths; 0 if the client does not list or does not accept the format.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct AcceptedFormats {
    qualities: [u16; Format::COUNT],
}

impl AcceptedFormats {
    /// Parses the field, and returns the qualities of the offered formats.
    pub fn of(accept: &Lines<'_>, offered: Formats) -> AcceptedFormats {
        let mut wishes = AcceptedFormats::default();
        for element in elements(accept) {
            let Some(range) = Range::read(element) else {
                continue;
            };
            if let Some(format) = range.format()
                && offered.has(format)
            {
                let quality = &mut wishes.qualities[format.place()];
                *quality = range.quality.max(*quality);
            }
        }
        wishes
    }

    /// Whether no format is accepted.
    pub fn is_empty(&self) -> bool {
        self.qualities == [0; Format::COUNT]
    }

    /// The best accepted format, if its quality is at least `other`. Among equal qualities, packages precede archives,
    /// and later versions precede earlier ones.
    pub fn best(&self, other: u16) -> Option<Format> {
        Format::ALL
            .into_iter()
            .map(|format| (self.qualities[format.place()], format))
            .filter(|&(quality, _)| quality > 0 && quality >= other)
            .max_by_key(|&(quality, format)| (quality, std::cmp::Reverse(format.place())))
            .map(|(_, format)| format)
    }
}

/// The quality of a media type in thousandths: the quality of the most specific range that matches the type
/// (RFC 9110 section 12.5.1). Parameters of the type are ignored.
pub(in crate::origin) fn quality_of(accept: &Lines<'_>, content_type: &[u8]) -> u16 {
    let essence = content_type
        .split(|&byte| byte == b';')
        .next()
        .map_or(&[][..], fields::trim);
    let kind = essence.split(|&byte| byte == b'/').next().unwrap_or(&[]);
    let mut best = (0, 0);
    for range in elements(accept).filter_map(Range::read) {
        let specificity = if range.essence.eq_ignore_ascii_case(essence) {
            3
        } else if let Some(prefix) = range.essence.strip_suffix(b"/*")
            && prefix != b"*"
        {
            if !prefix.eq_ignore_ascii_case(kind) {
                continue;
            }
            2
        } else if range.essence == b"*/*" {
            1
        } else {
            continue;
        };
        if specificity > best.0 {
            best = (specificity, range.quality);
        }
    }
    best.1
}

fn elements<'a>(accept: &Lines<'a>) -> impl Iterator<Item = &'a [u8]> {
    accept
        .iter()
        .filter(|line| line.len() >= 3)
        .flat_map(fields::list)
}

/// Whether the field is long enough to contain a format.
pub(super) fn may_name_a_format(accept: &Lines<'_>) -> bool {
    accept.iter().any(|line| line.len() >= SHORTEST)
}

/// One media range.
struct Range<'a> {
    essence: &'a [u8],
    /// The value of the `version` parameter, the only parameter that is allowed besides the weight.
    version: Option<&'a [u8]>,
    /// Whether the range has an unknown parameter.
    has_unknown_parameter: bool,
    quality: u16,
}

impl<'a> Range<'a> {
    fn read(element: &'a [u8]) -> Option<Range<'a>> {
        let mut parts = element.split(|&byte| byte == b';').map(fields::trim);
        let mut range = Range {
            essence: parts.next()?,
            version: None,
            has_unknown_parameter: false,
            quality: 1000,
        };
        for part in parts {
            let (name, value) = match part.iter().position(|&byte| byte == b'=') {
                Some(equals) => (&part[..equals], &part[equals + 1..]),
                None => (part, &[][..]),
            };
            if name.eq_ignore_ascii_case(b"q") {
                // An invalid weight counts as zero. In earlier HTTP versions, parameters after the weight were
                // extensions.
                range.quality = thousandths(value).unwrap_or(0);
                break;
            } else if name.eq_ignore_ascii_case(b"version") && range.version.is_none() {
                range.version = Some(unquoted(value));
            } else if !part.is_empty() {
                range.has_unknown_parameter = true;
            }
        }
        Some(range)
    }

    fn format(&self) -> Option<Format> {
        if self.has_unknown_parameter {
            return None;
        }
        if self.essence.eq_ignore_ascii_case(MEDIA_TYPE.as_bytes()) {
            return match self.version {
                None | Some(b"2") => Some(Format::Package(Version::Two)),
                Some(b"1") => Some(Format::Package(Version::One)),
                Some(_) => None,
            };
        }
        [Format::Tar, Format::Zip].into_iter().find(|format| {
            self.version.is_none()
                && self
                    .essence
                    .eq_ignore_ascii_case(format.content_type().as_bytes())
        })
    }
}

fn unquoted(value: &[u8]) -> &[u8] {
    value
        .strip_prefix(b"\"")
        .and_then(|value| value.strip_suffix(b"\""))
        .unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: Format = Format::Package(Version::Two);
    const ONE: Format = Format::Package(Version::One);

    fn lines<'a>(values: &[&'a str]) -> Lines<'a> {
        let mut lines = Lines::default();
        for value in values {
            assert!(lines.push(value.as_bytes()));
        }
        lines
    }

    fn chosen(accept: &str, offered: Formats) -> Option<Format> {
        let accept = accept.replace("PACKAGE", MEDIA_TYPE);
        let accept = lines(&[&accept]);
        AcceptedFormats::of(&accept, offered).best(quality_of(&accept, b"text/html; charset=utf-8"))
    }

    #[test]
    fn a_package_is_chosen_if_named_and_not_less_preferred_than_the_page() {
        let table = [
            ("", None),
            ("*/*", None),
            ("application/*", None),
            ("text/html, application/xhtml+xml, */*;q=0.8", None),
            ("PACKAGE", Some(TWO)),
            ("PACKAGE;version=2, text/html;q=0.5, */*;q=0.1", Some(TWO)),
            ("PACKAGE; VERSION=\"2\" ;Q=1.0, text/html;q=0.5", Some(TWO)),
            ("PACKAGE;version=1, text/html;q=0.5", Some(ONE)),
            (
                "PACKAGE;version=1;q=0.9, PACKAGE;version=2;q=0.8",
                Some(ONE),
            ),
            ("PACKAGE;version=1, PACKAGE;version=2", Some(TWO)),
            ("PACKAGE;version=3, */*;q=0.1", None),
            ("PACKAGE;profile=x, */*;q=0.1", None),
            // The quality of the page is the quality of the most specific matching range.
            ("PACKAGE, */*", Some(TWO)),
            ("PACKAGE, text/html", Some(TWO)),
            ("PACKAGE;q=0.5, text/html", None),
            ("PACKAGE;q=0.5, text/*;q=0.4, */*", Some(TWO)),
            ("PACKAGE;q=0.5, text/html;q=0.6, text/*;q=0.4", None),
            ("PACKAGE;q=0", None),
            ("PACKAGE;q=2, */*;q=0.1", None),
            ("application/x-tar", Some(Format::Tar)),
            ("application/zip, text/html;q=0.5", Some(Format::Zip)),
            ("application/zip, PACKAGE", Some(TWO)),
            ("application/zip, PACKAGE;q=0.9", Some(Format::Zip)),
            ("application/zip;version=1", None),
        ];
        for (accept, expected) in table {
            assert_eq!(chosen(accept, Formats::ALL), expected, "{accept:?}");
        }
    }

    #[test]
    fn formats_that_are_not_offered_are_not_chosen() {
        let tar = Formats::only(Format::Tar);
        assert_eq!(
            chosen("PACKAGE, application/x-tar;q=0.1", tar),
            Some(Format::Tar)
        );
        assert_eq!(chosen("PACKAGE, */*;q=0.1", tar), None);
    }

    #[test]
    fn lists_continue_over_lines() {
        let accept = lines(&["text/html;q=0.5", MEDIA_TYPE]);
        assert!(may_name_a_format(&accept));
        assert_eq!(
            AcceptedFormats::of(&accept, Formats::ALL).best(500),
            Some(TWO)
        );
        assert!(!may_name_a_format(&lines(&["*/*", "text/html"])));
        assert!(AcceptedFormats::of(&lines(&["*/*", "text/html"]), Formats::ALL).is_empty());
    }
}
