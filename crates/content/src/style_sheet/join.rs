//! Joins several style sheets into one.

use super::tokens::{Token, is_space, scan};
use super::{MARK, StyleSheetError, charset};

/// A style sheet to join with others.
#[derive(Clone, Copy, Debug)]
pub struct StyleSheet<'a> {
    /// The content of the style sheet.
    pub content: &'a [u8],
    /// Whether the style sheet is in the folder of the joined file, so that its relative URLs remain valid.
    pub is_beside: bool,
}

/// Joins the style sheets in order. Their meaning does not change: only the first style sheet may have rules that must
/// be at the start, and all blocks must be closed.
///
/// # Errors
///
/// The index of the style sheet that cannot be joined, and the reason.
pub fn join_style_sheets(sheets: &[StyleSheet<'_>]) -> Result<Vec<u8>, (usize, StyleSheetError)> {
    let mut joined = Vec::new();
    let mut is_stated = false;
    let mut is_ascii = true;
    for (index, sheet) in sheets.iter().enumerate() {
        let marked = sheet.content.strip_prefix(MARK);
        let content = marked.unwrap_or(sheet.content);
        let rule = charset(content);
        let content = &content[rule.map_or(0, |(length, _)| length)..];
        let at = |error| (index, error);
        check(content, index == 0, sheet.is_beside).map_err(at)?;
        if !content.is_ascii() {
            let states_utf8 = marked.is_some() || rule.is_some_and(|(_, is_utf8)| is_utf8);
            let is_same = is_ascii || states_utf8 == is_stated;
            let other = rule.is_some_and(|(_, is_utf8)| !is_utf8) && marked.is_none();
            if other || !is_same || str::from_utf8(content).is_err() {
                return Err(at(StyleSheetError::Encoding));
            }
            (is_stated, is_ascii) = (states_utf8, false);
        }
        if !joined.is_empty() {
            joined.push(b'\n');
        }
        joined.extend_from_slice(content.trim_ascii());
    }
    if is_stated {
        joined.splice(0..0, *b"@charset \"utf-8\";");
    }
    Ok(joined)
}

/// Checks that the style sheet has the same meaning before and after other style sheets.
fn check(css: &[u8], is_first: bool, is_beside: bool) -> Result<(), StyleSheetError> {
    let mut fault = None;
    let mut last = b';';
    let mut refuse = |what| fault = fault.or(Some(what));
    scan(css, |token| {
        match token {
            Token::Space(_) | Token::Comment(_) => return,
            Token::Word(word) => {
                let word = css[word.clone()].to_ascii_lowercase();
                let is_rule = matches!(word.as_slice(), b"@import" | b"@namespace" | b"@charset");
                if is_rule && !(is_first && word != b"@charset") {
                    refuse("a rule that must be at the start");
                }
                if word == b"@namespace" {
                    refuse("a namespace, which would apply to the others");
                }
                // Strings in these rules are URLs.
                if !is_beside
                    && matches!(
                        word.as_slice(),
                        b"image-set" | b"-webkit-image-set" | b"src" | b"@import"
                    )
                {
                    refuse("URLs in strings, and is in another folder");
                }
                if word.contains(&b'\\') && word.starts_with(b"@") {
                    refuse("an escaped rule name");
                }
            }
            Token::Url { url } if !is_beside && is_relative(&css[url.clone()]) => {
                refuse("relative URLs, and is in another folder");
            }
            _ => {}
        }
        last = match token {
            Token::Close(b'}', _) => b'}',
            Token::Other(byte, _) => *byte,
            _ => 0,
        };
    })?;
    match fault {
        Some(what) => Err(StyleSheetError::NotJoinable(what)),
        // Text after the last rule would become part of the next selector.
        None if b"};".contains(&last) => Ok(()),
        None => Err(StyleSheetError::malformed(
            css,
            css.len(),
            "the last rule is not closed",
        )),
    }
}

fn is_relative(url: &[u8]) -> bool {
    let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let scheme = url.iter().take_while(|byte| is_scheme(byte)).count();
    let has_scheme = scheme > 0 && url.get(scheme) == Some(&b':');
    !(has_scheme || url.starts_with(b"/") || url.starts_with(b"#"))
        || url.iter().any(|&byte| is_space(byte) || byte == b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(sheets: &[(&str, bool)]) -> Result<String, (usize, StyleSheetError)> {
        let sheets: Vec<_> = sheets
            .iter()
            .map(|&(content, is_beside)| StyleSheet {
                content: content.as_bytes(),
                is_beside,
            })
            .collect();
        join_style_sheets(&sheets).map(|joined| String::from_utf8(joined).unwrap())
    }

    #[test]
    fn sheets_follow_each_other_with_one_encoding() {
        for (sheets, expected) in [
            (vec![("a{b:c}\n", true), ("d{e:f}", true)], "a{b:c}\nd{e:f}"),
            (
                vec![("@import 'x';", true), ("a{b:url(/x)}", false)],
                "@import 'x';\na{b:url(/x)}",
            ),
            (
                vec![
                    ("@charset \"UTF-8\";a{}", true),
                    ("\u{feff}b{content:'\u{e9}'}", true),
                ],
                "@charset \"utf-8\";a{}\nb{content:'\u{e9}'}",
            ),
            (vec![("", true), ("a{}", true)], "a{}"),
        ] {
            assert_eq!(join(&sheets).unwrap(), expected);
        }
    }

    #[test]
    fn what_would_change_its_meaning_is_not_joined() {
        for sheets in [
            [("a{}", true), ("@import 'x';", true)],
            [("@namespace x 'y';", true), ("a{}", true)],
            [("a{", true), ("b{}", true)],
            [("a{} b", true), ("c{}", true)],
            [("a{}", true), ("b{c:url(x.png)}", false)],
            [("a{}", true), ("b{c:image-set('x.png' 1x)}", false)],
            [
                ("a{content:'\u{e9}'}", true),
                ("\u{feff}b{content:'\u{e9}'}", true),
            ],
            [
                ("@charset \"latin1\";a{content:'\u{e9}'}", true),
                ("b{}", true),
            ],
        ] {
            assert!(join(&sheets).is_err(), "{sheets:?}");
        }
    }
}
