//! Checks media types, entity tags and dates.
//!
//! The receiver writes them into the fields of a message, so they must not contain a character that ends a field.

use super::Entry;

/// The last second that a date field can express: 31 December 9999, 23:59:59.
const LAST_SECOND: u64 = 253_402_300_799;

/// Returns whether the metadata of a file is valid in the fields of a response.
pub(super) fn metadata_fits(entry: &Entry) -> bool {
    let fits = |text: &Option<String>, check: fn(&[u8]) -> bool| {
        text.as_ref()
            .is_none_or(|text| text.len() <= 255 && check(text.as_bytes()))
    };
    fits(&entry.media_type, is_media_type)
        && fits(&entry.etag, is_entity_tag)
        && entry.last_modified.is_none_or(|date| date <= LAST_SECOND)
}

/// Checks for printable ASCII that does not begin or end with a space.
fn is_media_type(text: &[u8]) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(|&byte| byte != b' ');
    text.iter().all(|byte| matches!(byte, b' '..=b'~')) && edge(text.first()) && edge(text.last())
}

/// Checks for an entity tag (RFC 9110 section 8.8.3) in ASCII only.
fn is_entity_tag(text: &[u8]) -> bool {
    let opaque = text.strip_prefix(b"W/").unwrap_or(text);
    match opaque {
        [b'"', inner @ .., b'"'] => inner.iter().all(|byte| matches!(byte, b'!' | b'#'..=b'~')),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_cannot_end_a_field() {
        for (tag, fits) in [
            ("\"\"", true),
            ("\"1-2\"", true),
            ("W/\"a b\"", false),
            ("W/\"ab\"", true),
            ("w/\"ab\"", false),
            ("\"", false),
            ("", false),
            ("abc", false),
            ("\"a\"b\"", false),
            ("\"a\r\n\"", false),
            ("\"\u{e9}\"", false),
        ] {
            assert_eq!(is_entity_tag(tag.as_bytes()), fits, "{tag:?}");
        }
        for (media_type, fits) in [
            ("text/html; charset=utf-8", true),
            ("", false),
            (" text/html", false),
            ("text/html ", false),
            ("text/html\r\nX: y", false),
            ("text/\u{e9}", false),
        ] {
            assert_eq!(is_media_type(media_type.as_bytes()), fits, "{media_type:?}");
        }
        let mut entry = Entry {
            last_modified: Some(LAST_SECOND),
            ..Entry::default()
        };
        assert!(metadata_fits(&entry));
        entry.last_modified = Some(LAST_SECOND + 1);
        assert!(!metadata_fits(&entry));
        entry.last_modified = None;
        entry.media_type = Some("a".repeat(256));
        assert!(!metadata_fits(&entry));
    }
}
