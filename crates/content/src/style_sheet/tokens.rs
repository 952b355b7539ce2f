//! The tokens of a style sheet that determine its blocks, strings, comments and URLs (CSS Syntax, section 4).
//!
//! Invalid input, for which browsers have error rules, is refused: a broken string, a bad URL, unbalanced brackets. All
//! parsers interpret valid style sheets in the same way.

use std::ops::Range;

use super::StyleSheetError;

/// A token, as a range of the style sheet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// White space.
    Space(Range<usize>),
    /// A comment, with its delimiters.
    Comment(Range<usize>),
    /// A string, without its quotes.
    Text(Range<usize>),
    /// The URL of `url(…)`, without quotes.
    Url {
        /// The URL.
        url: Range<usize>,
    },
    /// A name, a number, or a word that begins with `@`, `#` or `.`.
    Word(Range<usize>),
    /// An opening bracket and its position.
    Open(u8, usize),
    /// A closing bracket and its position.
    Close(u8, usize),
    /// Any other byte and its position.
    Other(u8, usize),
}

/// Calls the function for each token. If there is no error, the brackets are balanced.
pub(super) fn scan(css: &[u8], mut found: impl FnMut(&Token)) -> Result<(), StyleSheetError> {
    let mut open = Vec::new();
    let mut at = 0;
    while at < css.len() {
        let (token, end) = token_at(css, at)?;
        match token {
            Token::Open(bracket, _) => open.push(bracket),
            Token::Close(bracket, _) => {
                let opening = match bracket {
                    b'}' => b'{',
                    b']' => b'[',
                    _ => b'(',
                };
                if open.pop() != Some(opening) {
                    return Err(StyleSheetError::malformed(css, at, "an unmatched bracket"));
                }
            }
            _ => {}
        }
        if open.len() > super::DEEPEST {
            return Err(StyleSheetError::TooDeep);
        }
        found(&token);
        at = end;
    }
    match open.is_empty() {
        true => Ok(()),
        false => Err(StyleSheetError::malformed(css, at, "an unclosed bracket")),
    }
}

/// Reads the token that begins at `at`. Returns the token and the position of its end.
fn token_at(css: &[u8], at: usize) -> Result<(Token, usize), StyleSheetError> {
    let rest = &css[at..];
    let span = |is: &dyn Fn(u8) -> bool| at + rest.iter().take_while(|&&byte| is(byte)).count();
    Ok(match rest[0] {
        b'/' if rest.starts_with(b"/*") => {
            let end = memchr::memmem::find(&rest[2..], b"*/");
            let end = end.ok_or_else(|| StyleSheetError::malformed(css, at, "unclosed comment"))?;
            let end = at + end + 4;
            (Token::Comment(at..end), end)
        }
        quote @ (b'"' | b'\'') => {
            let end = end_of_string(css, at, quote)?;
            (Token::Text(at + 1..end - 1), end)
        }
        bracket @ (b'{' | b'[' | b'(') => (Token::Open(bracket, at), at + 1),
        bracket @ (b'}' | b']' | b')') => (Token::Close(bracket, at), at + 1),
        byte if is_space(byte) => {
            let end = span(&is_space);
            (Token::Space(at..end), end)
        }
        byte if is_name(byte) || b"@#.".contains(&byte) => {
            let end = end_of_word(css, at)?;
            let is_url = css[at..end].eq_ignore_ascii_case(b"url") && css.get(end) == Some(&b'(');
            match is_url {
                true => url(css, end + 1)?,
                false => (Token::Word(at..end), end),
            }
        }
        byte => (Token::Other(byte, at), at + 1),
    })
}

fn end_of_word(css: &[u8], from: usize) -> Result<usize, StyleSheetError> {
    let mut at = from;
    while let Some(&byte) = css.get(at) {
        match byte {
            b'\\' if matches!(css.get(at + 1), None | Some(b'\n' | b'\r' | b'\x0c')) => {
                return Err(StyleSheetError::malformed(css, at, "an incomplete escape"));
            }
            b'\\' => at += 2,
            byte if is_name(byte) || (at == from && b"@#.".contains(&byte)) => at += 1,
            _ => break,
        }
    }
    Ok(at)
}

/// Returns the position after the closing quote of the string that begins with this quote.
fn end_of_string(css: &[u8], from: usize, quote: u8) -> Result<usize, StyleSheetError> {
    let mut at = from + 1;
    loop {
        match css.get(at) {
            None | Some(b'\n' | b'\r' | b'\x0c') => {
                return Err(StyleSheetError::malformed(css, from, "an unclosed string"));
            }
            Some(b'\\') => {
                let is_line = css.get(at + 1) == Some(&b'\r') && css.get(at + 2) == Some(&b'\n');
                at += if is_line { 3 } else { 2 };
            }
            Some(&byte) if byte == quote => return Ok(at + 1),
            Some(_) => at += 1,
        }
    }
}

/// Reads the URL after `url(`. Returns the URL and the position of the token's end.
fn url(css: &[u8], from: usize) -> Result<(Token, usize), StyleSheetError> {
    let bad = || StyleSheetError::malformed(css, from, "a URL is malformed");
    let skip = |from: usize| {
        let rest = css.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|&&byte| is_space(byte)).count()
    };
    let start = skip(from);
    let (url, end) = match css.get(start) {
        Some(&quote @ (b'"' | b'\'')) => {
            let end = end_of_string(css, start, quote)?;
            (start + 1..end - 1, end)
        }
        _ => {
            let rest = css.get(start..).unwrap_or_default();
            let is_url =
                |byte: u8| !is_space(byte) && byte > b' ' && !b"\"'()\\\x7f".contains(&byte);
            let end = start + rest.iter().take_while(|&&byte| is_url(byte)).count();
            (start..end, end)
        }
    };
    let end = skip(end);
    match css.get(end) {
        Some(b')') => Ok((Token::Url { url }, end + 1)),
        _ => Err(bad()),
    }
}

pub(super) fn is_space(byte: u8) -> bool {
    b" \t\n\r\x0c".contains(&byte)
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_\\".contains(&byte) || byte > 127
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random_texts::random_texts;

    fn tokens(css: &str) -> Result<Vec<Token>, StyleSheetError> {
        let mut tokens = Vec::new();
        scan(css.as_bytes(), |token| tokens.push(token.clone()))?;
        Ok(tokens)
    }

    #[test]
    fn brackets_in_strings_comments_and_urls_are_no_brackets() {
        let css = "a{b:'}' \"\\\"}\" /*}*/url( }x )url(']')}";
        let found = tokens(css).unwrap();
        let brackets = |token: &&Token| matches!(token, Token::Open(..) | Token::Close(..));
        assert_eq!(found.iter().filter(brackets).count(), 2);
        let urls: Vec<_> = found
            .iter()
            .filter_map(|token| match token {
                Token::Url { url } => Some(&css[url.clone()]),
                _ => None,
            })
            .collect();
        assert_eq!(urls, ["}x", "]"]);
    }

    #[test]
    fn what_browsers_read_by_their_rules_for_errors_is_refused() {
        for css in [
            "a{",
            "a}",
            "a{b:(}",
            "a{b:'x\n'}",
            "/* x",
            "a{b:url(x y)}",
            "a{b:url(x'y)}",
            "a\\",
            "'",
            "url(",
            "a{b:url('x' y)}",
        ] {
            assert!(tokens(css).is_err(), "{css}");
        }
        let deep = "a{".repeat(200);
        assert!(matches!(tokens(&deep), Err(StyleSheetError::TooDeep)));
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        let alphabet = b"{}()[]'\"\\/* url(\n\r@#.a\xff";
        for css in random_texts(alphabet, 24, 20_000) {
            let mut end = 0;
            let result = scan(&css, |token| {
                if let Token::Word(range) | Token::Text(range) | Token::Comment(range) = token {
                    assert!(range.start >= end && range.end <= css.len());
                    end = range.end;
                }
            });
            drop(result);
        }
    }
}
