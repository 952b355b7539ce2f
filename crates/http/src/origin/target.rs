//! Request targets (RFC 9112 section 3.2), and the paths in them (RFC 3986 sections 2.1, 5.2.4).
//!
//! Before the look-up, a path is decoded and its dot segments are resolved. Therefore, all spellings of a path identify
//! the same file, and no spelling identifies a file above the root.

use super::Method;

/// The name of a folder's index file.
pub(super) const INDEX: &[u8] = b"index.html";

/// The target of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// The path of an origin-form or absolute-form target, still encoded and without its query.
    Path(&'a [u8]),
    /// `*`: the server as a whole; only for OPTIONS.
    Asterisk,
    /// A host and port; only for CONNECT.
    Authority(&'a [u8]),
}

/// The reason why a request target is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TargetError {
    /// A byte that is invalid in a URI: a space, a control character, `#`, or a byte outside ASCII.
    #[error("a character that is invalid in a URI")]
    BadCharacter,
    /// A form that the method does not allow, or a text that has none of the four forms.
    #[error("a form that the method does not allow")]
    BadForm,
    /// A percent sign that is not followed by two hexadecimal digits.
    #[error("a percent sign without two hexadecimal digits")]
    BadEncoding,
    /// An encoded NUL.
    #[error("an encoded NUL")]
    Nul,
}

impl<'a> Target<'a> {
    /// Parses the four forms of a target.
    pub fn parse(method: Method, text: &'a [u8]) -> Result<Target<'a>, TargetError> {
        if !text
            .iter()
            .all(|&byte| byte.is_ascii_graphic() && byte != b'#')
        {
            return Err(TargetError::BadCharacter);
        }
        match (method, text) {
            (Method::Connect, _) => is_authority(text, true)
                .then_some(Target::Authority(text))
                .ok_or(TargetError::BadForm),
            (_, [b'/', ..]) => Ok(Target::Path(without_query(text))),
            (Method::Options, b"*") => Ok(Target::Asterisk),
            _ => absolute(method, text).ok_or(TargetError::BadForm),
        }
    }
}

/// Whether the text is a host with an optional port (RFC 3986 section 3.2), without user information. An empty
/// text is not a host.
pub fn is_authority(text: &[u8], port_required: bool) -> bool {
    let (host, port) = match text {
        [b'[', ..] => match text.iter().position(|&byte| byte == b']') {
            Some(end) => (&text[..=end], &text[end + 1..]),
            None => return false,
        },
        _ => text.split_at(
            text.iter()
                .position(|&byte| byte == b':')
                .unwrap_or(text.len()),
        ),
    };
    let port_fits = match port {
        [] => !port_required,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit) && digits.len() <= 5,
        _ => false,
    };
    let literal = host.first() == Some(&b'[');
    let host_fits = host.iter().all(|&byte| {
        byte.is_ascii_alphanumeric()
            || b"-._~%!$&'()*+;=".contains(&byte)
            || literal && b":[]".contains(&byte)
    });
    !host.is_empty() && host_fits && port_fits
}

fn absolute(method: Method, text: &[u8]) -> Option<Target<'_>> {
    let scheme_end = text.windows(3).position(|part| part == b"://")?;
    let scheme = &text[..scheme_end];
    if !scheme.eq_ignore_ascii_case(b"http") && !scheme.eq_ignore_ascii_case(b"https") {
        return None;
    }
    let rest = &text[scheme_end + 3..];
    let authority_end = rest
        .iter()
        .position(|&byte| matches!(byte, b'/' | b'?'))
        .unwrap_or(rest.len());
    if !is_authority(&rest[..authority_end], false) {
        return None;
    }
    Some(match without_query(&rest[authority_end..]) {
        [] if method == Method::Options && authority_end == rest.len() => Target::Asterisk,
        [] => Target::Path(b"/"),
        path => Target::Path(path),
    })
}

fn without_query(path: &[u8]) -> &[u8] {
    match memchr::memchr(b'?', path) {
        Some(place) => &path[..place],
        None => path,
    }
}

/// Returns the canonical form of a path: decoded, absolute, and without dot segments. `scratch` is used if the path is
/// not already canonical. `None` for a path with an encoded slash, because its decoded form would be a different path.
pub fn canonical<'a>(
    path: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Result<Option<&'a [u8]>, TargetError> {
    if is_canonical(path) {
        return Ok(Some(path));
    }
    scratch.clear();
    let mut segments = path.strip_prefix(b"/").unwrap_or(path);
    loop {
        let end = memchr::memchr(b'/', segments).unwrap_or(segments.len());
        let start = scratch.len();
        scratch.push(b'/');
        let whole = decode(&segments[..end], scratch)?;
        if !whole {
            return Ok(None);
        }
        let last = end == segments.len();
        let dots = scratch.len() - start;
        match &scratch[start + 1..] {
            b"." | b".." => {
                scratch.truncate(start);
                if dots == 3 {
                    let parent = memchr::memrchr(b'/', scratch).unwrap_or(0);
                    scratch.truncate(parent);
                }
                // A path that ends in a dot segment identifies a folder.
                if last {
                    scratch.push(b'/');
                }
            }
            _ => {}
        }
        if last {
            return Ok(Some(scratch));
        }
        segments = &segments[end + 1..];
    }
}

/// Encodes a canonical path as a request target.
pub fn encoded(path: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut target = String::with_capacity(path.len() + 1);
    for &byte in path {
        if byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=:@".contains(&byte) {
            target.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(target, "%{byte:02X}");
        }
    }
    target
}

/// Whether the path has no encoded bytes and no segment that starts with a dot.
fn is_canonical(path: &[u8]) -> bool {
    path.first() == Some(&b'/')
        && memchr::memchr(b'%', path).is_none()
        && !path.windows(2).any(|pair| pair == b"/.")
}

/// Appends the decoded segment. Returns false if it contains an encoded slash.
fn decode(segment: &[u8], decoded: &mut Vec<u8>) -> Result<bool, TargetError> {
    let mut bytes = segment.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || {
            bytes
                .next()
                .and_then(|&byte| (byte as char).to_digit(16))
                .ok_or(TargetError::BadEncoding)
        };
        match (digit()? << 4 | digit()?) as u8 {
            0 => return Err(TargetError::Nul),
            b'/' => return Ok(false),
            byte => decoded.push(byte),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn resolved(path: &str) -> Result<Option<String>, TargetError> {
        let mut scratch = Vec::new();
        canonical(path.as_bytes(), &mut scratch)
            .map(|found| found.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
    }

    #[test]
    fn the_four_forms_are_distinguished() {
        let parse = |method, text: &'static str| Target::parse(method, text.as_bytes());
        let path = |text: &'static str| Ok(Target::Path(text.as_bytes()));
        assert_eq!(parse(Method::Get, "/a?b=/c"), path("/a"));
        assert_eq!(parse(Method::Get, "http://h:80/a?b"), path("/a"));
        assert_eq!(parse(Method::Get, "HTTPS://[::1]:80?b"), path("/"));
        assert_eq!(parse(Method::Get, "http://h"), path("/"));
        assert_eq!(parse(Method::Options, "http://h"), Ok(Target::Asterisk));
        assert_eq!(parse(Method::Options, "*"), Ok(Target::Asterisk));
        assert_eq!(
            parse(Method::Connect, "h:80"),
            Ok(Target::Authority(b"h:80"))
        );
        for (method, text) in [
            (Method::Get, "*"),
            (Method::Get, "h:80"),
            (Method::Get, "a/b"),
            (Method::Get, "ftp://h/"),
            (Method::Get, "http:///a"),
            (Method::Get, "http://user@h/a"),
            (Method::Connect, "/a"),
            (Method::Connect, "h"),
        ] {
            assert_eq!(parse(method, text), Err(TargetError::BadForm), "{text}");
        }
        for text in ["/a b", "/a#b", "/\u{e4}", "/\u{7f}", "/\0"] {
            assert_eq!(
                parse(Method::Get, text),
                Err(TargetError::BadCharacter),
                "{text:?}"
            );
        }
    }

    #[test]
    fn no_spelling_leaves_the_root() {
        for (path, expected) in [
            ("/a/b", "/a/b"),
            ("/%61%2Fb".trim_end_matches("%2Fb"), "/a"),
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/a/%2e%2E/b", "/b"),
            ("/a/.%2e/b", "/b"),
            ("/../../etc/passwd", "/etc/passwd"),
            ("/a/..", "/"),
            ("/a/b/.", "/a/b/"),
            ("/..", "/"),
            ("/.hidden", "/.hidden"),
            ("/...", "/..."),
            ("//a", "//a"),
            ("/a//../b", "/a/b"),
            ("/a%20b", "/a b"),
            ("/..%5c..%5cx", "/..\\..\\x"),
        ] {
            assert_eq!(resolved(path), Ok(Some(expected.to_owned())), "{path}");
        }
        assert_eq!(resolved("/a%2f..%2fb"), Ok(None));
        assert_eq!(resolved("/a%00"), Err(TargetError::Nul));
        for path in ["/%", "/%4", "/%zz", "/%+1"] {
            assert_eq!(resolved(path), Err(TargetError::BadEncoding), "{path}");
        }
    }

    #[test]
    fn hosts_are_checked() {
        for host in [
            "h",
            "a.example:8080",
            "[::1]",
            "[::1]:80",
            "10.0.0.1:",
            "a_b",
        ] {
            assert!(is_authority(host.as_bytes(), false), "{host}");
        }
        for host in [
            "", ":80", "a b", "a,b", "a/b", "u@h", "h:80x", "h:123456", "[::1", "a:b:c",
        ] {
            assert!(!is_authority(host.as_bytes(), false), "{host}");
        }
    }

    proptest! {
        #[test]
        fn canonical_paths_have_no_dot_segments_and_are_stable(
            path in "/[a./%25eE]{0,24}"
        ) {
            if let Ok(Some(found)) = resolved(&path) {
                prop_assert!(found.starts_with('/'));
                prop_assert!(found.split('/').all(|part| part != "." && part != ".."));
                if !found.contains('%') {
                    prop_assert_eq!(resolved(&found), Ok(Some(found)));
                }
            }
        }
    }
}
