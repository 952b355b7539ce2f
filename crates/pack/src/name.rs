//! Converts file paths to names in a package, and back.
//!
//! A path is percent-encoded as in a request target (RFC 3986 section 3.3). A colon in the first segment is also
//! encoded, because the segment could be read as a scheme. A path may therefore consist of any bytes. A name is decoded
//! segment by segment, and each decoded segment is checked again, because it may contain a slash.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use percent_encoding::{AsciiSet, percent_decode, percent_encode};

use fathometer_files::site_folder::ESCAPED;

/// Characters to escape in the first segment.
const ESCAPED_FIRST: &AsciiSet = &ESCAPED.add(b':');

/// Returns the name of the file at a relative path. `None` if the path is absolute, is empty, or contains `..`.
pub fn of_path(path: &Path) -> Option<String> {
    let mut name = String::new();
    for component in path.components() {
        let segment = match component {
            Component::Normal(segment) => segment.as_bytes(),
            Component::CurDir => continue,
            _ => return None,
        };
        let escaped = match name.is_empty() {
            true => ESCAPED_FIRST,
            false => {
                name.push('/');
                ESCAPED
            }
        };
        name.extend(percent_encode(segment, escaped));
    }
    (!name.is_empty()).then_some(name)
}

/// Returns the path, relative to a folder, for a name. `None` if a segment is empty, is `.` or `..`, or contains a
/// slash or NUL.
pub fn to_path(name: &str) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for segment in name.split('/') {
        let segment = percent_decode(segment.as_bytes()).collect::<Vec<u8>>();
        let is_plain = !matches!(&segment[..], b"" | b"." | b"..")
            && !segment.iter().any(|byte| matches!(byte, 0 | b'/'));
        if !is_plain {
            return None;
        }
        path.push(OsStr::from_bytes(&segment));
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use fathometer_package as package;

    use super::*;

    #[test]
    fn any_path_reads_back() {
        for (path, name) in [
            (&b"index.html"[..], "index.html"),
            (b"a b/c:d", "a%20b/c:d"),
            (b"c:d/e", "c%3Ad/e"),
            (b"gr\xc3\xbcn\xff", "gr%C3%BCn%FF"),
            (b"100%/%20", "100%25/%2520"),
            (b"line\nfeed\\", "line%0Afeed%5C"),
            (b"a?b#c", "a%3Fb%23c"),
            (b".hidden/...", ".hidden/..."),
        ] {
            let path = Path::new(OsStr::from_bytes(path));
            assert_eq!(of_path(path).as_deref(), Some(name));
            assert_eq!(to_path(name).as_deref(), Some(path));
            package::name::check(name.as_bytes()).unwrap();
        }
        assert_eq!(of_path(Path::new("./a//b/")).as_deref(), Some("a/b"));
    }

    #[test]
    fn no_name_leads_out_of_the_folder() {
        for path in ["", ".", "/etc/passwd", "..", "a/../../b"] {
            assert_eq!(of_path(Path::new(path)), None, "{path}");
        }
        for name in [
            "",
            "..",
            "a/../b",
            "%2e%2e/a",
            ".%2E",
            "a%2fb",
            "%2fetc/passwd",
            "..%2f..",
            "a%00",
            "a//b",
            "/a",
            "a/",
        ] {
            assert_eq!(to_path(name), None, "{name}");
        }
    }
}
