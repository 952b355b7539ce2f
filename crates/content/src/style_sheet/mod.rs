//! Style sheets: minifies them, and joins them into one.

mod join;
#[cfg(feature = "css")]
mod minify;
mod tokens;
mod white_space;

pub use join::{StyleSheet, join_style_sheets};
#[cfg(feature = "css")]
pub use minify::minify_css;
pub use white_space::KeptWhiteSpace;

/// The deepest nesting of blocks. More deeply nested style sheets are left unchanged, because parsers are recursive.
const DEEPEST: usize = 64;

/// The reason why a style sheet is left unchanged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StyleSheetError {
    /// The style sheet has an error.
    #[error("line {line}: {fault}")]
    Malformed {
        /// The line of the error, from 1.
        line: usize,
        /// The description of the error.
        fault: String,
    },
    /// The blocks are nested too deeply.
    #[error("its blocks are nested more than {DEEPEST} deep")]
    TooDeep,
    /// The style sheet is not in UTF-8.
    #[error("it is not in UTF-8")]
    Encoding,
    /// The style sheet cannot be joined with others: a part of it must be at the start of a style sheet, or depends on
    /// its position.
    #[error("it has {0}")]
    NotJoinable(&'static str),
    /// The library panicked.
    #[error("the CSS library panicked: {0}")]
    Panicked(String),
}

impl StyleSheetError {
    fn malformed(css: &[u8], at: usize, fault: &str) -> StyleSheetError {
        let before = &css[..at.min(css.len())];
        StyleSheetError::Malformed {
            line: 1 + before.iter().filter(|&&byte| byte == b'\n').count(),
            fault: fault.to_owned(),
        }
    }
}

/// Returns whether the style sheet may have a rule for elements with this name (in lower case). It may if the name is a
/// word in the style sheet, or if the style sheet cannot be read with certainty.
pub fn names_element(css: &[u8], name: &str) -> bool {
    let mut is_named = false;
    let read = tokens::scan(css, |token| {
        if let tokens::Token::Word(word) = token {
            let word = &css[word.clone()];
            // An escape may hide any name.
            let is_element = word.eq_ignore_ascii_case(name.as_bytes());
            is_named |= is_element || word.contains(&b'\\');
        }
    });
    is_named || read.is_err()
}

/// Finds the rule at the start that states an encoding (CSS Syntax, section 3.2). Returns its length in bytes, and
/// whether the encoding is UTF-8.
fn charset(css: &[u8]) -> Option<(usize, bool)> {
    const BEGIN: &[u8] = b"@charset \"";
    let rest = css.strip_prefix(BEGIN)?;
    let end = memchr::memmem::find(rest, b"\";")?;
    Some((
        BEGIN.len() + end + 2,
        rest[..end].eq_ignore_ascii_case(b"utf-8"),
    ))
}

/// The byte order mark of UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_in_selectors_and_not_in_strings() {
        for css in [
            "img{}",
            "p > IMG.x{}",
            "a{b:c}p img:hover{}",
            "\\69mg{}",
            "a{",
        ] {
            assert!(names_element(css.as_bytes(), "img"), "{css}");
        }
        for css in [
            ".img{}",
            "a{b:'img'}",
            "a{b:url(img)}/* img */",
            "#img,image{}",
        ] {
            assert!(!names_element(css.as_bytes(), "img"), "{css}");
        }
    }
}
