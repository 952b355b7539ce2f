//! The files whose hashes documents state (Subresource Integrity). Browsers reject such a file if it changes.

use std::collections::HashSet;
use std::path::Path;

use fathometer_content::Rewritten;

use super::names::{place_of, place_on_any_host};

/// The files that must not change.
#[derive(Debug, Default)]
pub struct Hashes {
    places: HashSet<String>,
    /// Whether all files must be regarded as such files.
    pub are_unknown: bool,
    /// Whether a document states the hash of any file.
    are_stated: bool,
}

impl Hashes {
    /// Records the hashes in the document at this place; `read` is `None` if the document's tags cannot be read.
    pub fn note(&mut self, document: &Path, content: &[u8], read: Option<&Rewritten>) {
        let Some(read) = read else {
            self.are_unknown |= names_integrity(content);
            return;
        };
        self.are_unknown |= read.hashes_unknown;
        self.are_stated |= !read.hashed.is_empty();
        for url in &read.hashed {
            let place = place_of(document, url).or_else(|| place_on_any_host(url));
            self.places.extend(place);
        }
    }

    /// Returns whether a document may state the hash of the file at this place.
    pub fn may_state(&self, place: &Path) -> bool {
        let is_stated = |place: &str| self.places.contains(place);
        // A file whose name is not UTF-8 has no place.
        self.are_unknown || place.to_str().map_or(self.are_stated, is_stated)
    }
}

/// Returns whether the document contains the word `integrity`, in ASCII or UTF-16.
fn names_integrity(content: &[u8]) -> bool {
    const WORD: &[u8] = b"integrity";
    let letters: Vec<u8> = content.iter().copied().filter(|&byte| byte != 0).collect();
    letters
        .windows(WORD.len())
        .any(|word| word.eq_ignore_ascii_case(WORD))
}

#[cfg(test)]
mod tests {
    use fathometer_content::rewrite_html;

    use super::*;

    /// Returns the hashes in the document `a/page.html`.
    fn of(html: &[u8]) -> Hashes {
        let mut hashes = Hashes::default();
        let read = rewrite_html(html, |_| None);
        hashes.note(Path::new("a/page.html"), html, read.as_ref().ok());
        hashes
    }

    #[test]
    fn only_files_with_a_stated_hash_stay() {
        for url in [
            "x.css?1",
            "/a/x.css",
            "https://host.test/a/x.css",
            "//host.test//a/x.css",
        ] {
            let hashes = of(format!("<link href={url} integrity=sha256-x>").as_bytes());
            assert!(hashes.may_state(Path::new("a/x.css")), "{url}");
            assert!(!hashes.may_state(Path::new("a/y.css")), "{url}");
        }
        assert!(!of(b"<link href=x.css>").may_state(Path::new("a/x.css")));
    }

    #[test]
    fn a_document_that_cannot_be_read_may_state_the_hash_of_any_file() {
        let utf_16: Vec<u8> = b"<link href=x integrity=y>"
            .iter()
            .flat_map(|&byte| [byte, 0])
            .collect();
        for html in [
            b"<link href=x.css Integrity=y><![CDATA[".as_slice(),
            &utf_16,
        ] {
            assert!(of(html).may_state(Path::new("b")));
        }
        assert!(!of(b"<link href=x.css><![CDATA[").may_state(Path::new("b")));
    }
}
