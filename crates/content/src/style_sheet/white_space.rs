//! The elements with visible white space because of a style sheet.

use std::collections::BTreeSet;

use super::tokens::{Token, is_space, scan};

/// The elements whose white space a browser shows. Minification preserves this white space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptWhiteSpace {
    /// Whether white space may be visible in any element.
    all: bool,
    /// The names of the elements, in lower case.
    elements: BTreeSet<Vec<u8>>,
    /// Whether the style sheets from other hosts were also read.
    knows_other_hosts: bool,
}

impl Default for KeptWhiteSpace {
    /// Returns the elements of every document: `pre` and similar elements, and elements that are not HTML.
    fn default() -> KeptWhiteSpace {
        let names = [
            "listing",
            "math",
            "plaintext",
            "pre",
            "svg",
            "textarea",
            "xmp",
        ];
        KeptWhiteSpace {
            all: false,
            elements: names.map(|name| name.as_bytes().to_vec()).into(),
            knows_other_hosts: false,
        }
    }
}

impl KeptWhiteSpace {
    /// Creates a value that preserves white space in all elements.
    pub fn everywhere() -> KeptWhiteSpace {
        KeptWhiteSpace {
            all: true,
            ..KeptWhiteSpace::default()
        }
    }

    /// States that the style sheets from other hosts were also added. Without this, documents with such style sheets
    /// preserve all white space.
    pub fn with_other_hosts(mut self) -> KeptWhiteSpace {
        self.knows_other_hosts = true;
        self
    }

    /// Returns whether the style sheets of other hosts were added.
    pub(crate) fn knows_other_hosts(&self) -> bool {
        self.knows_other_hosts
    }

    /// Returns whether all white space is kept.
    pub fn is_everywhere(&self) -> bool {
        self.all
    }

    /// Returns whether the white space in this element is kept.
    pub(crate) fn is_kept_in(&self, element: &[u8]) -> bool {
        self.elements.contains(&element.to_ascii_lowercase())
    }

    /// Adds the elements for which the style sheet sets `white-space`. These are the element names that end its
    /// selectors, or all elements if a selector does not end with a name. If the style sheet may set `white-space` but
    /// cannot be parsed, all elements are added.
    pub fn add_style_sheet(&mut self, css: &[u8]) {
        if !sets_white_space(css) {
            return;
        }
        let mut reader = Reader::new(css);
        let result = scan(css, |token| reader.read(token));
        match result {
            Ok(()) if !reader.all => self.elements.extend(reader.elements),
            Ok(()) | Err(_) => self.all = true,
        }
    }

    /// Adds the declarations of an element's `style` attribute. They have no selector, so white space is preserved
    /// everywhere if they set `white-space`.
    pub(crate) fn add_declarations(&mut self, css: &[u8]) {
        if sets_white_space(css) {
            let mut reader = Reader::new(css);
            let result = scan(css, |token| reader.read(token));
            self.all |= result.is_err() || reader.all || !reader.elements.is_empty();
        }
    }
}

/// Returns whether the property `white-space` may occur. An escape may hide any name.
fn sets_white_space(css: &[u8]) -> bool {
    let lower = css.to_ascii_lowercase();
    memchr::memmem::find(&lower, b"white-space").is_some() || lower.contains(&b'\\')
}

/// Reads the declarations of `white-space`, with the selectors of their blocks.
struct Reader<'a> {
    css: &'a [u8],
    /// The position at which the current prelude or declaration begins.
    start: usize,
    /// The preludes of the open blocks; `None` for other brackets.
    blocks: Vec<Option<std::ops::Range<usize>>>,
    /// `Some` within a declaration of `white-space`: whether its colon was read.
    property: Option<bool>,
    all: bool,
    elements: BTreeSet<Vec<u8>>,
}

impl<'a> Reader<'a> {
    fn new(css: &'a [u8]) -> Reader<'a> {
        Reader {
            css,
            start: 0,
            blocks: Vec::new(),
            property: None,
            all: false,
            elements: BTreeSet::new(),
        }
    }

    fn read(&mut self, token: &Token) {
        match *token {
            Token::Open(b'{', at) => {
                self.blocks.push(Some(self.start..at));
                (self.start, self.property) = (at + 1, None);
            }
            Token::Open(..) => self.blocks.push(None),
            Token::Close(bracket, at) => {
                self.blocks.pop();
                if bracket == b'}' {
                    (self.start, self.property) = (at + 1, None);
                }
            }
            Token::Other(b';', at) => (self.start, self.property) = (at + 1, None),
            Token::Other(b':', _) => self.property = self.property.map(|_| true),
            Token::Word(ref word) => self.word(&self.css[word.clone()]),
            _ => {}
        }
    }

    fn word(&mut self, word: &'a [u8]) {
        if word.contains(&b'\\') {
            self.all |= self.property.is_some();
            return;
        }
        let word = word.to_ascii_lowercase();
        match self.property {
            Some(true)
                if !matches!(
                    word.as_slice(),
                    b"normal" | b"nowrap" | b"collapse" | b"important"
                ) =>
            {
                self.shown();
            }
            Some(_) => {}
            None if matches!(word.as_slice(), b"white-space" | b"white-space-collapse") => {
                self.property = Some(false);
            }
            None => {}
        }
    }

    /// Handles a value of `white-space` that makes white space visible: reads the names in the selectors.
    fn shown(&mut self) {
        let prelude = self.blocks.iter().rev().find_map(Clone::clone);
        let Some(prelude) = prelude else {
            self.all = true;
            return;
        };
        let prelude = without_comments(&self.css[prelude]);
        // Functions contain selectors, `&` means the selectors of the outer block, and a rule such as `@media` has no
        // selector.
        if prelude.iter().any(|byte| b"()@&\\/\"'".contains(byte)) {
            self.all = true;
            return;
        }
        for selector in prelude.split(|&byte| byte == b',') {
            let subject = selector
                .trim_ascii()
                .rsplit(|&byte| is_space(byte) || b">+~".contains(&byte))
                .next()
                .unwrap_or_default();
            let length = subject
                .iter()
                .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-')
                .count();
            if length == 0 {
                self.all = true;
            } else {
                self.elements.insert(subject[..length].to_ascii_lowercase());
            }
        }
    }
}

fn without_comments(css: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = css;
    while let Some(at) = memchr::memmem::find(rest, b"/*") {
        out.extend_from_slice(&rest[..at]);
        let end = memchr::memmem::find(&rest[at + 2..], b"*/");
        rest = end.map_or(&[], |end| &rest[at + end + 4..]);
    }
    out.extend_from_slice(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(css: &str) -> KeptWhiteSpace {
        let mut kept = KeptWhiteSpace::default();
        kept.add_style_sheet(css.as_bytes());
        kept
    }

    #[test]
    fn names_in_selectors_are_kept_and_other_values_change_nothing() {
        for css in [
            "a{white-space:nowrap}",
            "/* white-space: pre */ a{color:red}",
            ".x{WHITE-SPACE: normal !important}",
            "pre.code, div > pre{white-space:pre-wrap}",
            "a{content:'white-space:pre'}",
            "",
        ] {
            assert_eq!(kept(css), KeptWhiteSpace::default(), "{css}");
        }
        let code = kept(
            "p /* x */ code.a, tt{color:red;white-space:pre}@media print{kbd{white-space:pre-line}}",
        );
        for name in ["code", "TT", "kbd", "pre"] {
            assert!(code.is_kept_in(name.as_bytes()), "{name}");
        }
        assert!(!code.is_everywhere() && !code.is_kept_in(b"p"));
    }

    #[test]
    fn selectors_without_a_name_keep_all() {
        for css in [
            ".x{white-space:pre}",
            "*{white-space:break-spaces}",
            ":is(pre){white-space:pre}",
            "pre,.x{white-space:var(--x)}",
            "white-space:pre",
            "a{white-space:pre",
            "p{&{white-space:pre}}",
            "@media print{white-space:pre}",
            "a{white-space-collapse:preserve}b .c{white-space:pre}",
        ] {
            assert!(kept(css).is_everywhere(), "{css}");
        }
        let mut kept = KeptWhiteSpace::default();
        kept.add_declarations(b"color:red;white-space:nowrap");
        assert!(!kept.is_everywhere());
        kept.add_declarations(b"white-space: pre");
        assert!(kept.is_everywhere());
    }
}
