//! Resolves references to request targets (RFC 3986 section 5.2), with the corrections that browsers apply to
//! hand-written addresses.

/// The result of resolving a reference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resolution {
    /// A file of the page's own origin: path and query, valid in a request line.
    Target(String),
    /// A file of another origin, or of another scheme.
    Elsewhere,
    /// There is no file to fetch: an empty reference, a fragment of the page itself, `data:`, `javascript:` and
    /// similar schemes.
    Nothing,
}

/// Resolves references against a page at `http://<host><target>`.
#[derive(Debug, Clone)]
pub struct Resolver {
    /// Host and port of the page's origin, in lower case and without the default port.
    authority: Vec<u8>,
    base: Base,
    rebased: bool,
}

/// The base of relative references.
#[derive(Debug, Clone)]
enum Base {
    /// This path (and query) on the page's own origin.
    Path(String),
    /// `<base>` names another origin.
    Elsewhere,
}

impl Resolver {
    /// Creates a resolver for the references of one page. `host` is the value of the `Host` field, `target` is the
    /// request target of the page (`/` is used if it does not start with a slash).
    pub fn new(host: &str, target: &str) -> Resolver {
        let target = if target.starts_with('/') { target } else { "/" };
        Resolver {
            authority: normalised(host.as_bytes()),
            base: Base::Path(encoded(target.as_bytes())),
            rebased: false,
        }
    }

    /// Makes `href` the base of later references. Only the first call has an effect, because only the first
    /// `<base>` of a document counts.
    pub fn rebase(&mut self, href: &[u8]) {
        if self.rebased {
            return;
        }
        match self.resolve(href) {
            Resolution::Target(path) => self.base = Base::Path(path),
            Resolution::Elsewhere => self.base = Base::Elsewhere,
            Resolution::Nothing => return,
        }
        self.rebased = true;
    }

    /// Resolves `reference`.
    pub fn resolve(&self, reference: &[u8]) -> Resolution {
        let reference = cleaned(reference);
        let mut rest = &reference[..];
        if let Some(colon) = scheme_end(rest) {
            let scheme = rest[..colon].to_ascii_lowercase();
            match &scheme[..] {
                b"http" => rest = &rest[colon + 1..],
                b"data" | b"javascript" | b"about" | b"blob" | b"mailto" => {
                    return Resolution::Nothing;
                }
                _ => return Resolution::Elsewhere,
            }
        }
        if rest.is_empty() {
            return Resolution::Nothing;
        }
        if let Some(after) = rest.strip_prefix(b"//") {
            let end = after.iter().position(|byte| matches!(byte, b'/' | b'?'));
            let (authority, path) = after.split_at(end.unwrap_or(after.len()));
            if normalised(authority) != self.authority {
                return Resolution::Elsewhere;
            }
            return Resolution::Target(absolute(b"/", path));
        }
        if rest[0] == b'/' {
            return Resolution::Target(absolute(b"/", rest));
        }
        match &self.base {
            Base::Elsewhere => Resolution::Elsewhere,
            Base::Path(base) => Resolution::Target(absolute(base.as_bytes(), rest)),
        }
    }
}

/// Merges `reference` (a path, a query, both, or neither) with the absolute path `base`.
fn absolute(base: &[u8], reference: &[u8]) -> String {
    let (base_path, _) = split_query(base);
    let (path, query) = split_query(reference);
    let mut merged = Vec::with_capacity(base.len() + reference.len());
    if path.is_empty() {
        merged.extend_from_slice(base_path);
    } else if path[0] == b'/' {
        merged.extend_from_slice(&without_dot_segments(path));
    } else {
        let directory = base_path.iter().rposition(|&byte| byte == b'/');
        let mut whole = base_path[..directory.map_or(0, |slash| slash + 1)].to_vec();
        whole.extend_from_slice(path);
        merged.extend_from_slice(&without_dot_segments(&whole));
    }
    merged.extend_from_slice(query);
    encoded(&merged)
}

/// Splits before the question mark.
fn split_query(target: &[u8]) -> (&[u8], &[u8]) {
    let question = target.iter().position(|&byte| byte == b'?');
    target.split_at(question.unwrap_or(target.len()))
}

/// Removes dot segments (RFC 3986 section 5.2.4) from a path that starts with a slash.
fn without_dot_segments(path: &[u8]) -> Vec<u8> {
    let mut output: Vec<u8> = Vec::with_capacity(path.len());
    let mut segments = path.split(|&byte| byte == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            b"." | b".." => {
                if segment == b".." {
                    let parent = output.iter().rposition(|&byte| byte == b'/');
                    output.truncate(parent.unwrap_or(0));
                }
                if last {
                    output.push(b'/');
                }
            }
            _ => {
                output.push(b'/');
                output.extend_from_slice(segment);
            }
        }
    }
    if output.is_empty() {
        output.push(b'/');
    }
    output
}

/// Removes surrounding white space, the fragment, and line breaks and tabs within the reference. Turns the
/// backslashes of a path into slashes.
fn cleaned(reference: &[u8]) -> Vec<u8> {
    let start = reference.iter().position(|&byte| byte > b' ');
    let end = reference.iter().rposition(|&byte| byte > b' ');
    let (Some(start), Some(end)) = (start, end) else {
        return Vec::new();
    };
    let mut in_query = false;
    reference[start..=end]
        .iter()
        .copied()
        .filter(|byte| !matches!(byte, b'\t' | b'\r' | b'\n'))
        .take_while(|&byte| byte != b'#')
        .map(|byte| {
            in_query |= byte == b'?';
            if byte == b'\\' && !in_query {
                b'/'
            } else {
                byte
            }
        })
        .collect()
}

/// Returns the position of the colon after a scheme, if there is one.
fn scheme_end(reference: &[u8]) -> Option<usize> {
    if !reference.first()?.is_ascii_alphabetic() {
        return None;
    }
    let end = reference
        .iter()
        .position(|&byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'+' | b'-' | b'.'))?;
    (reference[end] == b':').then_some(end)
}

/// Converts an authority to the form in which origins are compared: no user information, lower case, no default port.
fn normalised(authority: &[u8]) -> Vec<u8> {
    let host = match authority.iter().rposition(|&byte| byte == b'@') {
        Some(at) => &authority[at + 1..],
        None => authority,
    };
    let host = host.strip_suffix(b":80").unwrap_or(host);
    host.strip_suffix(b":").unwrap_or(host).to_ascii_lowercase()
}

/// Percent-encodes bytes that are not permitted in a request target.
fn encoded(target: &[u8]) -> String {
    let mut text = String::with_capacity(target.len());
    for &byte in target {
        let plain = byte.is_ascii_graphic()
            && !matches!(
                byte,
                b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' | b'#'
            );
        if plain {
            text.push(char::from(byte));
        } else {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            text.push('%');
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> Resolution {
        Resolution::Target(path.to_owned())
    }

    #[test]
    fn the_examples_of_rfc_3986_resolve() {
        let resolver = Resolver::new("a", "/b/c/d;p?q");
        // Sections 5.4.1 and 5.4.2: the examples that name a file.
        for (reference, path) in [
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("/g", "/g"),
            ("?y", "/b/c/d;p?y"),
            ("g?y", "/b/c/g?y"),
            ("g#s", "/b/c/g"),
            ("g?y#s", "/b/c/g?y"),
            (";x", "/b/c/;x"),
            ("g;x", "/b/c/g;x"),
            (".", "/b/c/"),
            ("./", "/b/c/"),
            ("..", "/b/"),
            ("../", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../g", "/g"),
            ("../../../g", "/g"),
            ("/./g", "/g"),
            ("/../g", "/g"),
            ("g.", "/b/c/g."),
            (".g", "/b/c/.g"),
            ("g..", "/b/c/g.."),
            ("./../g", "/b/g"),
            ("./g/.", "/b/c/g/"),
            ("g/./h", "/b/c/g/h"),
            ("g/../h", "/b/c/h"),
            ("g;x=1/../y", "/b/c/y"),
            ("g?y/./x", "/b/c/g?y/./x"),
            ("http:g", "/b/c/g"),
        ] {
            assert_eq!(
                resolver.resolve(reference.as_bytes()),
                target(path),
                "{reference}"
            );
        }
        assert_eq!(resolver.resolve(b"//g"), Resolution::Elsewhere);
        assert_eq!(resolver.resolve(b""), Resolution::Nothing);
        assert_eq!(resolver.resolve(b"#s"), Resolution::Nothing);
    }

    #[test]
    fn origins_are_distinguished() {
        let resolver = Resolver::new("Example.org:80", "/a/");
        for same in [
            "http://example.ORG/x",
            "//example.org:80/x",
            "HTTP://u:p@example.org:/x",
        ] {
            assert_eq!(resolver.resolve(same.as_bytes()), target("/x"), "{same}");
        }
        assert_eq!(resolver.resolve(b"http://example.org"), target("/"));
        assert_eq!(resolver.resolve(b"http://example.org?q"), target("/?q"));
        for other in [
            "http://example.org:8080/x",
            "https://example.org/x",
            "ftp://x/y",
            "//b/x",
        ] {
            assert_eq!(
                resolver.resolve(other.as_bytes()),
                Resolution::Elsewhere,
                "{other}"
            );
        }
        for none in ["data:image/gif;base64,R0", "javascript:a()", " \n", "http:"] {
            assert_eq!(
                resolver.resolve(none.as_bytes()),
                Resolution::Nothing,
                "{none}"
            );
        }
    }

    #[test]
    fn malformed_urls_are_repaired() {
        let resolver = Resolver::new("a", "/b/c");
        assert_eq!(resolver.resolve(b" x y.gif\n"), target("/b/x%20y.gif"));
        assert_eq!(resolver.resolve(b"..\\x\\y?a\\b"), target("/x/y?a%5Cb"));
        assert_eq!(resolver.resolve(b"x\r\n\ty"), target("/b/xy"));
        assert_eq!(resolver.resolve("é".as_bytes()), target("/b/%C3%A9"));
        assert_eq!(resolver.resolve(b"%41\"<>"), target("/b/%41%22%3C%3E"));
    }

    #[test]
    fn the_first_base_counts() {
        let mut resolver = Resolver::new("a", "/b/c");
        resolver.rebase(b"");
        resolver.rebase(b"../x/y/");
        resolver.rebase(b"/no/");
        assert_eq!(resolver.resolve(b"g"), target("/x/y/g"));
        let mut away = Resolver::new("a", "/b/c");
        away.rebase(b"http://b/");
        assert_eq!(away.resolve(b"g"), Resolution::Elsewhere);
        assert_eq!(away.resolve(b"http://a/g"), target("/g"));
    }
}
