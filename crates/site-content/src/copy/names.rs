//! The new names of files, and the URLs that refer to them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The files with a new name. The memory is proportional to the number of renamed files.
#[derive(Debug, Default)]
pub struct Names {
    /// The suffix of each new name, by place in the site.
    suffixes: HashMap<String, &'static str>,
}

/// Appends the suffix to the name in a path; `None` if the path is not UTF-8, because the URLs that refer to it are
/// then uncertain.
pub fn with_suffix(path: &Path, suffix: &str) -> Option<PathBuf> {
    Some(PathBuf::from(format!("{}{suffix}", path.to_str()?)))
}

impl Names {
    /// Records that the suffix is appended to the name of the file at this place of the site.
    pub fn rename(&mut self, place: &Path, suffix: &'static str) {
        if let Some(place) = place.to_str() {
            self.suffixes.insert(place.to_owned(), suffix);
        }
    }

    /// Returns the URL with the new name of its file, for a document at this place.
    pub fn renamed(&self, document: &Path, url: &str) -> Option<String> {
        let (path, rest) = url.split_at(url.find(['?', '#']).unwrap_or(url.len()));
        let suffix = self.suffixes.get(&place_of(document, url)?)?;
        Some(format!("{path}{suffix}{rest}"))
    }
}

/// Returns the place of the file to which a URL refers in a document at this place. `None` if the file belongs to
/// another site.
pub fn place_of(document: &Path, url: &str) -> Option<String> {
    let path = &url[..url.find(['?', '#']).unwrap_or(url.len())];
    // A URL with a scheme or with another host does not belong to this site.
    if path.is_empty() || path.starts_with("//") || path.contains(':') {
        return None;
    }
    let decoded = decode(path)?;
    let mut place: Vec<&str> = Vec::new();
    if !path.starts_with('/') {
        let folder = document.parent()?.to_str()?;
        place.extend(folder.split('/').filter(|name| !name.is_empty()));
    }
    for name in decoded.split('/') {
        match name {
            "" | "." => {}
            // A URL above the site's root refers to the root (URL Standard, section 4.4).
            ".." => {
                place.pop();
            }
            _ => place.push(name),
        }
    }
    Some(place.join("/"))
}

/// Returns the place of the file to which an absolute URL refers, if the URL has the site's host. The host itself is
/// not known here.
pub fn place_on_any_host(url: &str) -> Option<String> {
    let (_, behind) = url.split_once("//")?;
    let path = &behind[behind.find('/')?..];
    let path = path.trim_start_matches('/');
    place_of(Path::new(""), &format!("/{path}"))
}

/// Removes percent-encoding from a path; `None` if the result is not UTF-8, or if a name contains an encoded slash.
fn decode(path: &str) -> Option<String> {
    let mut decoded = Vec::new();
    let mut rest = path.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        let digits = match byte {
            b'%' => behind.get(..2),
            _ => None,
        };
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(b'/' | 0) => return None,
            Some(decoded_byte) => {
                decoded.push(decoded_byte);
                rest = &behind[2..];
            }
            None => decoded.push(byte),
        }
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_find_their_file_and_keep_how_they_are_written() {
        let mut names = Names::default();
        names.rename(Path::new("a/b c.gif"), ".png");
        names.rename(Path::new("top.gif"), ".webp");
        let document = Path::new("a/page.html");
        for (url, expected) in [
            ("b%20c.gif", Some("b%20c.gif.png")),
            ("./b%20c.gif?x=1#y", Some("./b%20c.gif.png?x=1#y")),
            ("/a/b%20c.gif", Some("/a/b%20c.gif.png")),
            ("../top.gif", Some("../top.gif.webp")),
            ("../../../top.gif", Some("../../../top.gif.webp")),
            ("/a/../top.gif", Some("/a/../top.gif.webp")),
            ("top.gif", None),
            ("//other.test/top.gif", None),
            ("http://other.test/top.gif", None),
            ("data:top.gif", None),
            ("", None),
            ("?x", None),
            ("..%2ftop.gif", None),
            ("%ff", None),
            ("%", None),
        ] {
            assert_eq!(names.renamed(document, url).as_deref(), expected, "{url}");
        }
    }
}
