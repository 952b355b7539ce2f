//! Compression dictionaries: content that the client already has, such as an earlier version of a file (RFC 9842,
//! Compression Dictionary Transport).
//!
//! A response whose content is a dictionary has the field `Use-As-Dictionary`. A client that stores the dictionary
//! sends the dictionary's hash in `Available-Dictionary`. The client then gets content in `dcb` or `dcz`, compressed
//! with this dictionary. The hash identifies the dictionary, so `Dictionary-ID` is not read.

use std::sync::Arc;
use std::time::Duration;

use ring::digest::{SHA256, digest};

use crate::message::fields;
use crate::origin::encoding::Coding;

/// The maximum size of a dictionary in bytes. An encoder indexes the whole dictionary before it compresses the first
/// slice.
pub const LARGEST_DICTIONARY: usize = 2 << 20;

/// The maximum length of an identifier in characters (RFC 9842 section 2.1.3).
const LONGEST_ID: usize = 1024;

/// The first bytes of a formatted Zstandard dictionary. Encoders do not use such a dictionary as raw content, but
/// clients do (RFC 9842 section 2.1.4).
const ZSTD_DICTIONARY: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];

/// The first bytes of `dcb` content (RFC 9842 section 4).
const DCB: [u8; 4] = [0xff, 0x44, 0x43, 0x42];

/// The first bytes of `dcz` content: a skippable Zstandard frame with 32 bytes of content (RFC 9842 section 5).
const DCZ: [u8; 8] = [0x5e, 0x2a, 0x4d, 0x18, 0x20, 0, 0, 0];

/// The announcement of a resource as a dictionary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    /// The canonical path of the resource ([`target::canonical`](crate::origin::target::canonical)).
    pub path: String,
    /// `match`: the paths of the content that is compressed with the dictionary; `*` matches any text. `None`: the path
    /// of the dictionary, so that the dictionary is used for later versions of the same file.
    pub pattern: Option<String>,
    /// `id`: clients return it in `Dictionary-ID`.
    pub id: Option<String>,
    /// `max-age` of `Cache-Control`. Clients use a dictionary only while it is fresh (RFC 9842 section 2.2.1).
    pub max_age: Option<Duration>,
}

/// A resource whose content is a dictionary for other content.
#[derive(Debug, Clone)]
pub struct DictionaryResource {
    path: Box<[u8]>,
    pattern: Pattern,
    /// The value of `Use-As-Dictionary`.
    field: Box<str>,
    /// The time in seconds for which clients may use the dictionary.
    max_age: Option<u64>,
    /// The current content and earlier contents.
    versions: Vec<Arc<Dictionary>>,
}

/// The content of a dictionary, and its hash.
#[derive(Debug)]
pub(super) struct Dictionary {
    bytes: Box<[u8]>,
    hash: [u8; 32],
}

/// The reason why a dictionary cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the dictionary {path} {fault}")]
pub struct DictionaryError {
    path: String,
    fault: &'static str,
}

impl DictionaryResource {
    /// Creates a resource from its current content and earlier contents, which clients may have.
    pub fn new(
        announcement: Announcement,
        contents: Vec<Vec<u8>>,
    ) -> Result<DictionaryResource, DictionaryError> {
        let Announcement {
            path,
            pattern,
            id,
            max_age,
        } = announcement;
        let failed = |fault| DictionaryError {
            path: path.clone(),
            fault,
        };
        if !path.starts_with('/') || path.ends_with('/') {
            return Err(failed(
                "is not the path of a file: the path must start with a slash and must not end with a slash",
            ));
        }
        let pattern = Pattern::new(pattern.as_deref().unwrap_or(&path)).ok_or_else(|| {
            failed(
                "has an invalid match: use a path, with * for any text, and without a query, percent-encoding or other \
                 special characters of URL patterns",
            )
        })?;
        let is_id = |id: &str| {
            id.len() <= LONGEST_ID
                && id
                    .bytes()
                    .all(|byte| matches!(byte, b' '..=b'~') && !b"\"\\".contains(&byte))
        };
        if !id.as_deref().is_none_or(is_id) {
            return Err(failed(
                "has an invalid id: use at most 1024 ASCII characters without quotes and backslashes",
            ));
        }
        let mut field = format!("match=\"{}\"", pattern.0);
        if let Some(id) = id {
            field.push_str(&format!(", id=\"{id}\""));
        }
        let mut versions = Vec::new();
        for bytes in contents {
            if bytes.is_empty() || bytes.len() > LARGEST_DICTIONARY {
                return Err(failed("is empty or larger than 2 MiB"));
            }
            if bytes.starts_with(&ZSTD_DICTIONARY) {
                return Err(failed(
                    "is a formatted Zstandard dictionary; RFC 9842 needs raw content",
                ));
            }
            versions.push(Arc::new(Dictionary::new(bytes)));
        }
        Ok(DictionaryResource {
            path: path.into_bytes().into(),
            pattern,
            field: field.into(),
            max_age: max_age.map(|max_age| max_age.as_secs()),
            versions,
        })
    }

    /// The value of `Use-As-Dictionary`.
    pub(in crate::origin) fn field(&self) -> &str {
        &self.field
    }

    /// `max-age` in seconds, if it is sent.
    pub(in crate::origin) fn max_age(&self) -> Option<u64> {
        self.max_age
    }
}

impl Dictionary {
    fn new(bytes: Vec<u8>) -> Dictionary {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, &bytes).as_ref());
        Dictionary {
            bytes: bytes.into(),
            hash,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The SHA-256 of the content.
    pub fn hash(&self) -> &[u8; 32] {
        &self.hash
    }

    /// The bytes that precede content that is compressed with the dictionary.
    pub fn header(&self, coding: Coding) -> Vec<u8> {
        match coding {
            Coding::DictionaryBrotli => [&DCB[..], &self.hash].concat(),
            Coding::DictionaryZstd => [&DCZ[..], &self.hash].concat(),
            Coding::Deflate | Coding::Gzip | Coding::Brotli | Coding::Zstd => Vec::new(),
        }
    }
}

/// Finds the index of the dictionary at this path.
pub(in crate::origin) fn announced(all: &[DictionaryResource], path: &[u8]) -> Option<u16> {
    let place = all.iter().position(|resource| *resource.path == *path)?;
    u16::try_from(place).ok()
}

/// Whether a dictionary may be used for the content at this path.
pub(super) fn covers(all: &[DictionaryResource], path: &[u8]) -> bool {
    all.iter().any(|resource| resource.pattern.matches(path))
}

/// Finds the dictionary for this path whose hash is in `Available-Dictionary`.
pub(super) fn named<'a>(
    all: &'a [DictionaryResource],
    path: &[u8],
    field: &[u8],
) -> Option<&'a Arc<Dictionary>> {
    let hash = byte_sequence(field)?;
    all.iter()
        .filter(|resource| resource.pattern.matches(path))
        .flat_map(|resource| &resource.versions)
        .find(|dictionary| dictionary.hash == hash)
}

/// A path pattern in which each `*` matches any text.
#[derive(Debug, Clone)]
struct Pattern(Box<str>);

impl Pattern {
    /// Creates a pattern. `None` if the text is not a path, or contains characters that start groups, names or other
    /// URL components in a URL pattern.
    fn new(text: &str) -> Option<Pattern> {
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"\\(){}:?+#<>%".contains(&byte);
        (text.starts_with('/') && text.bytes().all(is_plain)).then(|| Pattern(text.into()))
    }

    /// Whether the path matches. The run time is at most proportional to the product of the two lengths.
    fn matches(&self, path: &[u8]) -> bool {
        let mut parts = self.0.as_bytes().split(|&byte| byte == b'*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = path.strip_prefix(first) else {
            return false;
        };
        let Some(last) = parts.next_back() else {
            return rest.is_empty();
        };
        // The first occurrence of each part leaves the longest text for the parts that follow.
        for part in parts {
            match memchr::memmem::find(rest, part) {
                Some(place) => rest = &rest[place + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

/// Parses a structured field that is a byte sequence of 32 bytes (RFC 9651 section 3.3.5). The field's parameters are
/// ignored.
fn byte_sequence(field: &[u8]) -> Option<[u8; 32]> {
    let text = fields::trim(field).strip_prefix(b":")?;
    let end = text.iter().position(|&byte| byte == b':')?;
    if !matches!(text.get(end + 1), None | Some(b';')) {
        return None;
    }
    // 32 bytes are 43 digits in base 64. Parsers accept missing padding.
    let digits = text[..end].strip_suffix(b"=").unwrap_or(&text[..end]);
    if digits.len() != 43 {
        return None;
    }
    let mut bytes = [0; 32];
    let (mut bits, mut count, mut place) = (0_u32, 0, 0);
    for &digit in digits {
        bits = bits << 6 | digit_value(digit)?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes[place] = (bits >> count) as u8;
            bits &= (1 << count) - 1;
            place += 1;
        }
    }
    Some(bytes)
}

/// The value of a digit of base 64 (RFC 4648 section 4).
fn digit_value(digit: u8) -> Option<u32> {
    Some(u32::from(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announcement(pattern: Option<&str>) -> Announcement {
        Announcement {
            path: "/a.js".to_owned(),
            pattern: pattern.map(str::to_owned),
            id: None,
            max_age: None,
        }
    }

    fn resource(pattern: &str, contents: &[&[u8]]) -> DictionaryResource {
        let contents = contents.iter().map(|content| content.to_vec()).collect();
        let announcement = Announcement {
            id: Some("one".to_owned()),
            max_age: Some(Duration::from_secs(60)),
            ..announcement(Some(pattern))
        };
        DictionaryResource::new(announcement, contents).unwrap()
    }

    #[test]
    fn a_pattern_matches_whole_paths() {
        let table = [
            ("/a.js", "/a.js", true),
            ("/a.js", "/a.jsx", false),
            ("/*", "/", true),
            ("/a*", "/", false),
            ("/app/*.js", "/app/main.js", true),
            ("/app/*.js", "/app/.js", true),
            ("/app/*.js", "/app/main.css", false),
            ("/*b*b", "/ab", false),
            ("/*b*b", "/abab", true),
            ("/*/x/*", "/x/x/x", true),
            ("/*.js", "/.j", false),
            ("/a*a", "/a", false),
            ("**", "/a", true),
        ];
        for (pattern, path, expected) in table {
            let pattern = Pattern(pattern.into());
            assert_eq!(
                pattern.matches(path.as_bytes()),
                expected,
                "{pattern:?} {path}"
            );
        }
        for pattern in [
            "",
            "a",
            "/(a)",
            "/:a",
            "/a?",
            "/{a}",
            "/a\"",
            "/\\a",
            "https://a/",
            "/a b",
            "/%61",
        ] {
            assert!(Pattern::new(pattern).is_none(), "{pattern}");
        }
    }

    #[test]
    fn a_client_names_a_dictionary_by_its_hash() {
        let all = [
            resource("/*.js", &[b"abc", b"older"]),
            resource("/only", &[b"other"]),
        ];
        // The digest of "abc" is in FIPS 180-2 appendix B.1.
        let abc = b":ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:";
        let found = named(&all, b"/b.js", abc).unwrap();
        assert_eq!(found.bytes(), b"abc");
        assert_eq!(found.hash()[..4], [0xba, 0x78, 0x16, 0xbf]);
        assert!(
            named(&all, b"/b.css", abc).is_none(),
            "the dictionary is for other paths"
        );
        assert!(covers(&all, b"/b.js") && !covers(&all, b"/b.css"));
        assert_eq!(announced(&all, b"/a.js"), Some(0));
        assert_eq!(announced(&all, b"/b.js"), None);
        assert_eq!(all[0].field(), "match=\"/*.js\", id=\"one\"");
        assert_eq!(all[0].max_age(), Some(60));
        // The headers of RFC 9842 sections 4 and 5.
        let header = found.header(Coding::DictionaryBrotli);
        assert_eq!((header.len(), &header[..5]), (36, &b"\xffDCB\xba"[..]));
        let header = found.header(Coding::DictionaryZstd);
        assert_eq!(header.len(), 40);
        assert_eq!(header[..9], *b"\x5e\x2a\x4d\x18\x20\0\0\0\xba");
        for (field, is_read) in [
            (&b" :ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0:"[..], true),
            (b":ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:;a=1", true),
            (b":ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=", false),
            (b"ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=", false),
            (b":ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=: x", false),
            (b":ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0=:", false),
            (b":YWJj:", false),
            (b"::", false),
            (b"", false),
        ] {
            let text = String::from_utf8_lossy(field);
            assert_eq!(named(&all, b"/b.js", field).is_some(), is_read, "{text}");
        }
    }

    #[test]
    fn unusable_dictionaries_are_refused() {
        let new = |path: &str, pattern: Option<&str>, id: Option<&str>, content: Vec<u8>| {
            let announcement = Announcement {
                path: path.to_owned(),
                id: id.map(str::to_owned),
                ..announcement(pattern)
            };
            DictionaryResource::new(announcement, vec![content]).is_ok()
        };
        assert!(new("/a", None, None, vec![1]));
        assert!(new("/a b", Some("/*"), Some("/a v1"), vec![1]));
        assert!(!new("/a b", None, None, vec![1]));
        for path in ["", "a", "/", "/a/"] {
            assert!(!new(path, Some("/*"), None, vec![1]), "{path}");
        }
        assert!(!new("/a", Some("/?"), None, vec![1]));
        assert!(!new("/a", None, Some("a\"b"), vec![1]));
        assert!(!new("/a", None, Some(&"a".repeat(1025)), vec![1]));
        assert!(!new("/a", None, None, Vec::new()));
        assert!(!new("/a", None, None, vec![1; LARGEST_DICTIONARY + 1]));
        let trained = [&ZSTD_DICTIONARY[..], b"..."].concat();
        assert!(!new("/a", None, None, trained));
    }
}
