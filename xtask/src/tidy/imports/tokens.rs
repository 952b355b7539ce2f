//! The tokens of Rust source that import paths consist of: names, punctuation and brackets. Comments, literals and
//! lifetimes are left out.

/// A token and its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub text: &'a str,
    pub line: usize,
}

/// Returns the tokens of `source`: names, `::`, and every other punctuation character alone.
pub(super) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let (length, counts) = if first.is_whitespace() {
            (first.len_utf8(), false)
        } else if let Some(length) = comment(rest).or_else(|| literal(rest)) {
            (length, false)
        } else if is_name(first) {
            (name_length(rest), !first.is_ascii_digit())
        } else if rest.starts_with("::") {
            (2, true)
        } else {
            (first.len_utf8(), true)
        };
        let (text, after) = rest.split_at(length);
        if counts {
            // A raw identifier is the same name.
            let text = text.strip_prefix("r#").unwrap_or(text);
            tokens.push(Token { text, line });
        }
        line += text.matches('\n').count();
        rest = after;
    }
    tokens
}

fn is_name(letter: char) -> bool {
    letter == '_' || letter.is_alphanumeric()
}

fn name_length(text: &str) -> usize {
    let prefix = if text.starts_with("r#") { 2 } else { 0 };
    prefix
        + text[prefix..]
            .find(|c| !is_name(c))
            .unwrap_or(text.len() - prefix)
}

/// Returns the length of the comment that `text` begins with. Block comments nest.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if !text.starts_with("/*") {
        return None;
    }
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    Some(at)
}

/// Returns the length of the string, character or lifetime that `text` begins with.
fn literal(text: &str) -> Option<usize> {
    if let Some(after) = text.strip_prefix('\'') {
        return Some(1 + character_or_lifetime(after));
    }
    let unprefixed = text.trim_start_matches(['b', 'c']);
    let prefix = text.len() - unprefixed.len();
    if prefix <= 1 && unprefixed.starts_with('"') {
        return Some(prefix + 1 + quoted(&unprefixed[1..], '"'));
    }
    if prefix == 1 && text.starts_with("b'") {
        return Some(2 + quoted(&text[2..], '\''));
    }
    let raw = unprefixed.strip_prefix('r').filter(|_| prefix <= 1)?;
    let hashes = raw.len() - raw.trim_start_matches('#').len();
    let body = raw[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(prefix + 1 + hashes + 1 + length)
}

/// Returns the length of the text after an opening quotation mark, including the closing mark.
fn quoted(text: &str, mark: char) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if letter == mark => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the length of the text after an apostrophe: a character with its closing mark, or the name of a lifetime.
fn character_or_lifetime(text: &str) -> usize {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => quoted(text, '\''),
        _ => text.find(|c| !is_name(c)).unwrap_or(text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        tokens(source).iter().map(|token| token.text).collect()
    }

    #[test]
    fn names_and_punctuation_are_tokens() {
        assert_eq!(
            texts("use a::{b, r#type};"),
            ["use", "a", "::", "{", "b", ",", "type", "}", ";"]
        );
    }

    #[test]
    fn comments_literals_and_lifetimes_are_left_out() {
        assert_eq!(texts("a // b\nc /* d /* e */ f */ g"), ["a", "c", "g"]);
        assert_eq!(
            texts(r##"a("{", b"\"{", r#""{"#, br"{") b"##),
            ["a", "(", ",", ",", ",", ")", "b"]
        );
        assert_eq!(texts(r"'{' '\'' '\u{7b}' b'{' b'\'' x"), ["x"]);
        assert_eq!(
            texts("fn f<'a>(x: &'a str) {}"),
            [
                "fn", "f", "<", ">", "(", "x", ":", "&", "str", ")", "{", "}"
            ]
        );
        assert_eq!(texts("1_000u64 + 0x7b"), ["+"]);
    }

    #[test]
    fn a_token_has_the_line_on_which_it_stands() {
        let lines: Vec<usize> = tokens("a\n\"\n\"\n/*\n*/ b")
            .iter()
            .map(|t| t.line)
            .collect();
        assert_eq!(lines, [1, 5]);
    }
}
