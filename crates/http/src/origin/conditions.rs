//! Conditional requests (RFC 9110 section 13).

use super::date::{DATE_LENGTH, parse_date};

/// The length of an entity tag of this origin: sixteen hexadecimal digits in quotes.
pub const ETAG_LENGTH: usize = 18;

/// The values of a field that may have several lines, in order. Holds at most four lines; a legitimate request has no
/// more lines of one field.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lines<'a> {
    lines: [&'a [u8]; 4],
    count: u8,
}

impl<'a> Lines<'a> {
    /// Adds a line. Returns false if there are already four lines.
    #[must_use]
    pub fn push(&mut self, value: &'a [u8]) -> bool {
        let Some(line) = self.lines.get_mut(self.count as usize) else {
            return false;
        };
        *line = value;
        self.count += 1;
        true
    }

    /// Whether the field is absent.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The values.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.lines[..self.count as usize].iter().copied()
    }
}

/// The value of a field that must occur only once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Single<'a> {
    /// The field is absent.
    #[default]
    Absent,
    /// The field occurs once.
    Value(&'a [u8]),
    /// The field occurs more than once, which makes it invalid.
    Repeated,
}

impl<'a> Single<'a> {
    /// Adds an occurrence.
    pub fn push(&mut self, value: &'a [u8]) {
        *self = match self {
            Single::Absent => Single::Value(value),
            _ => Single::Repeated,
        };
    }

    /// The value, if there is exactly one.
    pub fn value(self) -> Option<&'a [u8]> {
        match self {
            Single::Value(value) => Some(value),
            _ => None,
        }
    }
}

/// The precondition fields of a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Preconditions<'a> {
    /// `If-Match`
    pub if_match: Lines<'a>,
    /// `If-None-Match`
    pub if_none_match: Lines<'a>,
    /// `If-Modified-Since`
    pub if_modified_since: Single<'a>,
    /// `If-Unmodified-Since`
    pub if_unmodified_since: Single<'a>,
    /// `If-Range`
    pub if_range: Single<'a>,
}

/// The validators of the selected representation (RFC 9110 section 8.8).
#[derive(Debug, Clone, Copy)]
pub struct Validators<'a> {
    /// The opaque part of the entity tag, including the quotes.
    pub etag: &'a [u8; ETAG_LENGTH],
    /// Whether the entity tag is weak. The date is then also a weak validator.
    pub weak: bool,
    /// The last modification, if the date distinguishes all states of the representation.
    pub modified: Option<Modified<'a>>,
}

impl Validators<'_> {
    /// The validators of content whose state is unknown before it is sent. This tag never equals a tag of a request.
    pub const NONE: Validators<'static> = Validators {
        etag: &[0; ETAG_LENGTH],
        weak: true,
        modified: None,
    };

    /// Whether there is an entity tag.
    pub fn has_tag(&self) -> bool {
        self.etag != Validators::NONE.etag
    }

    /// The entity tag in the format of the `ETag` field.
    pub fn tag_text(&self) -> String {
        let opaque = String::from_utf8_lossy(self.etag);
        match self.weak {
            true => format!("W/{opaque}"),
            false => opaque.into_owned(),
        }
    }
}

/// The time of the last modification.
#[derive(Debug, Clone, Copy)]
pub struct Modified<'a> {
    /// The time in seconds since the Unix epoch.
    pub second: u64,
    /// The time as an HTTP date.
    pub text: &'a [u8; DATE_LENGTH],
}

/// The result of the preconditions of a GET or HEAD request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Answer the request normally.
    Proceed,
    /// 304: the client has the current state.
    NotModified,
    /// 412: the client requires a different state.
    Failed,
}

/// Evaluates the preconditions of a GET or HEAD request in the order of RFC 9110 section 13.2.2.
pub fn evaluate(preconditions: &Preconditions<'_>, current: &Validators<'_>) -> Verdict {
    if !preconditions.if_match.is_empty() {
        if !matches_any(&preconditions.if_match, current, Comparison::Strong) {
            return Verdict::Failed;
        }
    } else if let Some(date) = preconditions.if_unmodified_since.value()
        && let Some(modified) = current.modified
        && let Some(since) = parse_date(date)
        && modified.second > since
    {
        return Verdict::Failed;
    }
    if !preconditions.if_none_match.is_empty() {
        if matches_any(&preconditions.if_none_match, current, Comparison::Weak) {
            return Verdict::NotModified;
        }
    } else if let Some(date) = preconditions.if_modified_since.value()
        && let Some(modified) = current.modified
    {
        let unmodified =
            date == modified.text || parse_date(date).is_some_and(|since| modified.second <= since);
        if unmodified {
            return Verdict::NotModified;
        }
    }
    Verdict::Proceed
}

/// Whether a Range field applies according to If-Range (RFC 9110 section 13.1.5).
pub fn range_applies(if_range: Single<'_>, current: &Validators<'_>) -> bool {
    match if_range {
        Single::Absent => true,
        // Ranges of two different states of a file must not be combined.
        Single::Repeated => false,
        Single::Value(_) if current.weak => false,
        Single::Value(value) if value.starts_with(b"\"") => value == current.etag,
        Single::Value(value) => current
            .modified
            .is_some_and(|modified| parse_date(value) == Some(modified.second)),
    }
}

/// The comparison function for entity tags (RFC 9110 section 8.8.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

fn matches_any(lines: &Lines<'_>, current: &Validators<'_>, comparison: Comparison) -> bool {
    lines.iter().any(|line| {
        line == b"*"
            || entity_tags(line).any(|(weak, opaque)| {
                let strong = !weak && !current.weak;
                opaque == current.etag && (strong || comparison == Comparison::Weak)
            })
    })
}

/// Iterates over the entity tags of a list. Returns for each tag whether it is weak, and its opaque part in quotes.
/// Ends at the first element that is not an entity tag.
fn entity_tags(list: &[u8]) -> impl Iterator<Item = (bool, &[u8])> {
    let mut rest = list;
    std::iter::from_fn(move || {
        // `fields::list` is not suitable: a backslash in an entity tag is not an escape.
        while let [b' ' | b'\t' | b',', after @ ..] = rest {
            rest = after;
        }
        let (weak, opaque) = match rest.strip_prefix(b"W/") {
            Some(opaque) => (true, opaque),
            None => (false, rest),
        };
        let inner = opaque.strip_prefix(b"\"")?;
        let length = inner.iter().position(|&byte| byte == b'"')? + 2;
        let (tag, after) = opaque.split_at(length);
        rest = after;
        Some((weak, tag))
    })
}

#[cfg(test)]
mod tests {
    use super::super::date::format_date;
    use super::*;

    const ETAG: &[u8; ETAG_LENGTH] = b"\"0123456789abcdef\"";
    const MODIFIED: u64 = 784_111_777;
    const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const LATER: &str = "Sunday, 06-Nov-94 08:49:38 GMT";

    fn with_current<T>(test: impl FnOnce(&Validators<'_>) -> T) -> T {
        test(&Validators {
            etag: ETAG,
            weak: false,
            modified: Some(Modified {
                second: MODIFIED,
                text: &format_date(MODIFIED),
            }),
        })
    }

    fn verdict(fields: &[(&str, &'static str)]) -> Verdict {
        let mut preconditions = Preconditions::default();
        for (name, value) in fields {
            let value = value.as_bytes();
            match *name {
                "match" => assert!(preconditions.if_match.push(value)),
                "none-match" => assert!(preconditions.if_none_match.push(value)),
                "modified" => preconditions.if_modified_since.push(value),
                "unmodified" => preconditions.if_unmodified_since.push(value),
                _ => unreachable!(),
            }
        }
        with_current(|current| evaluate(&preconditions, current))
    }

    #[test]
    fn each_precondition_alone() {
        use Verdict::*;
        let table = [
            ("match", "*", Proceed),
            ("match", "\"0123456789abcdef\"", Proceed),
            ("match", "\"x\", \"0123456789abcdef\"", Proceed),
            ("match", "W/\"0123456789abcdef\"", Failed),
            ("match", "\"x\"", Failed),
            ("match", "0123456789abcdef", Failed),
            ("none-match", "*", NotModified),
            ("none-match", "\"0123456789abcdef\"", NotModified),
            ("none-match", "W/\"0123456789abcdef\"", NotModified),
            (
                "none-match",
                "\"x,y\",\"\\\",\"0123456789abcdef\"",
                NotModified,
            ),
            ("none-match", "\"x\"", Proceed),
            ("none-match", "\"0123456789abcdef", Proceed),
            ("modified", EARLIER, Proceed),
            ("modified", SAME, NotModified),
            (
                "modified",
                "Sun, 06 Nov 1994 08:49:37 GMT; length=9",
                NotModified,
            ),
            ("modified", LATER, NotModified),
            ("modified", "nonsense", Proceed),
            ("unmodified", EARLIER, Failed),
            ("unmodified", SAME, Proceed),
            ("unmodified", LATER, Proceed),
            ("unmodified", "nonsense", Proceed),
        ];
        for (name, value, expected) in table {
            assert_eq!(verdict(&[(name, value)]), expected, "{name}: {value}");
        }
    }

    #[test]
    fn entity_tags_take_precedence_over_dates() {
        let own = "\"0123456789abcdef\"";
        assert_eq!(
            verdict(&[("none-match", "\"x\""), ("modified", LATER)]),
            Verdict::Proceed
        );
        assert_eq!(
            verdict(&[("match", own), ("unmodified", EARLIER)]),
            Verdict::Proceed
        );
        assert_eq!(
            verdict(&[("match", "\"x\""), ("none-match", own)]),
            Verdict::Failed
        );
        assert_eq!(
            verdict(&[("match", own), ("none-match", own)]),
            Verdict::NotModified
        );
        assert_eq!(
            verdict(&[("unmodified", EARLIER), ("modified", SAME)]),
            Verdict::Failed
        );
    }

    #[test]
    fn lists_continue_over_lines_and_repeated_dates_are_void() {
        let own = "\"0123456789abcdef\"";
        assert_eq!(
            verdict(&[("none-match", "\"x\""), ("none-match", own)]),
            Verdict::NotModified
        );
        assert_eq!(
            verdict(&[("modified", SAME), ("modified", SAME)]),
            Verdict::Proceed
        );
    }

    #[test]
    fn a_weak_etag_matches_only_for_cache_validation() {
        let current = Validators {
            etag: ETAG,
            weak: true,
            modified: Some(Modified {
                second: MODIFIED,
                text: &format_date(MODIFIED),
            }),
        };
        let tag = b"W/\"0123456789abcdef\"".as_slice();
        let mut cached = Preconditions::default();
        assert!(cached.if_none_match.push(tag));
        assert_eq!(evaluate(&cached, &current), Verdict::NotModified);
        let mut wanted = Preconditions::default();
        assert!(wanted.if_match.push(&tag[2..]));
        assert_eq!(evaluate(&wanted, &current), Verdict::Failed);
        for value in [tag, &tag[2..], SAME.as_bytes()] {
            assert!(!range_applies(Single::Value(value), &current));
        }
        assert!(range_applies(Single::Absent, &current));
    }

    #[test]
    fn without_a_modification_date_only_etags_decide() {
        let current = Validators {
            etag: ETAG,
            weak: false,
            modified: None,
        };
        let dated = Preconditions {
            if_modified_since: Single::Value(LATER.as_bytes()),
            if_unmodified_since: Single::Value(EARLIER.as_bytes()),
            ..Preconditions::default()
        };
        assert_eq!(evaluate(&dated, &current), Verdict::Proceed);
        assert!(!range_applies(Single::Value(SAME.as_bytes()), &current));
        assert!(range_applies(Single::Value(ETAG), &current));
    }

    #[test]
    fn if_range_compares_strongly() {
        let table = [
            ("\"0123456789abcdef\"", true),
            ("W/\"0123456789abcdef\"", false),
            ("\"x\"", false),
            (SAME, true),
            (LATER, false),
            (EARLIER, false),
            ("nonsense", false),
        ];
        with_current(|current| {
            for (value, expected) in table {
                let field = Single::Value(value.as_bytes());
                assert_eq!(range_applies(field, current), expected, "{value}");
            }
            assert!(range_applies(Single::Absent, current));
            assert!(!range_applies(Single::Repeated, current));
        });
    }
}
