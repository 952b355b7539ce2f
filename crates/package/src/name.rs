//! The names of files in packages.
//!
//! A name is the path of a file within a site or a folder, without a leading slash. The name cannot refer to a file
//! outside the site or folder. Names are compared byte by byte, without decoding or normalisation. Code that removes
//! percent-encoding before it creates a file must check the result.

/// The reason why a name is invalid. The message continues "a name …".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NameError {
    /// The name is empty.
    #[error("is empty")]
    Empty,
    /// The name is not UTF-8.
    #[error("is not UTF-8")]
    NotUtf8,
    /// The name has a control character, which may be NUL or DEL.
    #[error("has a control character")]
    Control,
    /// The name has a backslash, which some systems treat as a slash.
    #[error("has a backslash")]
    Backslash,
    /// The name begins with a slash, so it is an absolute path.
    #[error("begins with a slash")]
    Absolute,
    /// The name ends with a slash, or has two consecutive slashes.
    #[error("has an empty segment")]
    EmptySegment,
    /// The name has a segment `.` or `..`, possibly percent-encoded.
    #[error("has a segment of dots only")]
    DotSegment,
    /// The first segment has a colon, so that it could be read as a scheme or a drive.
    #[error("has a colon in its first segment")]
    Scheme,
}

/// Checks `name` and returns it as text.
///
/// The length is not checked here; see [`Limits`](super::Limits).
pub fn check(name: &[u8]) -> Result<&str, NameError> {
    let text = std::str::from_utf8(name).map_err(|_| NameError::NotUtf8)?;
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if text.starts_with('/') {
        return Err(NameError::Absolute);
    }
    for (place, segment) in text.split('/').enumerate() {
        if segment.is_empty() {
            return Err(NameError::EmptySegment);
        }
        if is_dots(segment.as_bytes()) {
            return Err(NameError::DotSegment);
        }
        if place == 0 && segment.contains(':') {
            return Err(NameError::Scheme);
        }
    }
    if text.contains('\\') {
        return Err(NameError::Backslash);
    }
    // Control characters are C0, DEL, and C1, which takes two bytes in UTF-8.
    if text.chars().any(char::is_control) {
        return Err(NameError::Control);
    }
    Ok(text)
}

/// Returns whether a segment is `.` or `..`. A dot may be written as `%2e`, because clients treat these as equal when
/// they resolve a reference.
fn is_dots(segment: &[u8]) -> bool {
    let mut rest = segment;
    let mut dots = 0;
    while let Some(after) = without_dot(rest) {
        rest = after;
        dots += 1;
    }
    rest.is_empty() && (1..=2).contains(&dots)
}

fn without_dot(text: &[u8]) -> Option<&[u8]> {
    match text {
        [b'.', after @ ..] | [b'%', b'2', b'e' | b'E', after @ ..] => Some(after),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_within_their_folder() {
        use NameError::*;
        let table: [(&[u8], Result<(), NameError>); 32] = [
            (b"index.html", Ok(())),
            (b"a/b/c.png", Ok(())),
            (b"a b", Ok(())),
            (b"a%20b?x=1&y=/", Err(EmptySegment)),
            (b"a%20b?x=1", Ok(())),
            (b"...", Ok(())),
            (b".hidden", Ok(())),
            (b"..a/a..", Ok(())),
            (b"%2e%2e%2e", Ok(())),
            (b"%2f..%2f", Ok(())),
            (b"a/b:c", Ok(())),
            ("gr\u{fc}n/\u{1f600}".as_bytes(), Ok(())),
            (b"", Err(Empty)),
            (b"/", Err(Absolute)),
            (b"/etc/passwd", Err(Absolute)),
            (b"//host/a", Err(Absolute)),
            (b"a//b", Err(EmptySegment)),
            (b"a/", Err(EmptySegment)),
            (b".", Err(DotSegment)),
            (b"..", Err(DotSegment)),
            (b"../a", Err(DotSegment)),
            (b"a/../../b", Err(DotSegment)),
            (b"a/.", Err(DotSegment)),
            (b"%2e%2E/a", Err(DotSegment)),
            (b"a/.%2e", Err(DotSegment)),
            (b"C:/a", Err(Scheme)),
            (b"file:a", Err(Scheme)),
            (b"a\\..\\b", Err(Backslash)),
            (b"a\0b", Err(Control)),
            (b"a\nb", Err(Control)),
            ("a\u{85}".as_bytes(), Err(Control)),
            (b"\xff", Err(NotUtf8)),
        ];
        for (name, expected) in table {
            let checked = check(name);
            let text = String::from_utf8_lossy(name);
            assert_eq!(checked.map(|_| ()), expected, "{text:?}");
            if let Ok(checked) = checked {
                assert_eq!(checked.as_bytes(), name);
            }
        }
    }
}
