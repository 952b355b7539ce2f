//! The lexical analysis of Rust that the rules need: code without comments and literals, and the paths it
//! names.

/// `source` with comments and the contents of string and character literals blanked out. Line ends stay, so
/// line numbers are those of the source.
pub(super) fn code_only(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut code = String::with_capacity(source.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => find(bytes, at, b"\n"),
            b'/' if bytes.get(at + 1) == Some(&b'*') => block_comment_end(bytes, at),
            b'"' => string_end(bytes, at),
            b'r' if !follows_word(bytes, at) => raw_string_end(bytes, at),
            b'b' if bytes.get(at + 1) == Some(&b'r') && !follows_word(bytes, at) => {
                raw_string_end(bytes, at + 1)
            }
            b'\'' => character_end(bytes, at),
            _ => at,
        };
        if end > at {
            code.extend(
                bytes[at..end]
                    .iter()
                    .map(|&byte| if byte == b'\n' { '\n' } else { ' ' }),
            );
            at = end;
        } else {
            // Characters outside ASCII do not matter to the rules.
            code.push(if bytes[at].is_ascii() {
                bytes[at] as char
            } else {
                ' '
            });
            at += 1;
        }
    }
    code
}

/// Every path of two or more segments in code (from [`code_only`]), with its line. Includes written-out paths
/// and those of `use`, with its braces expanded.
pub(super) fn paths(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut rest = 0;
    while let Some(start) = code[rest..]
        .find(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        .map(|offset| rest + offset)
    {
        let end = end_of_path(code, start);
        let path: String = code[start..end]
            .chars()
            .filter(|letter| !letter.is_whitespace())
            .collect();
        let line = 1 + code[..start].matches('\n').count();
        if path == "use" {
            let end = code[end..].find(';').map_or(code.len(), |n| end + n);
            expand(code, start + 3..end, "", &mut found);
            rest = end;
        } else {
            if path.contains("::") {
                found.push((line, path));
            }
            rest = end;
        }
    }
    found
}

/// The words of code with their lines.
pub(super) fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.lines().enumerate().flat_map(|(n, line)| {
        line.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'))
            .filter(|word| !word.is_empty())
            .map(move |word| (n + 1, word))
    })
}

/// Expands one `use` tree.
fn expand(
    code: &str,
    range: std::ops::Range<usize>,
    prefix: &str,
    found: &mut Vec<(usize, String)>,
) {
    let mut depth = 0;
    let mut from = range.start;
    let bytes = code.as_bytes();
    for at in range.start..=range.end {
        let byte = bytes.get(at).copied().filter(|_| at < range.end);
        match byte {
            Some(b'{') => depth += 1,
            Some(b'}') => depth -= 1,
            _ => {}
        }
        if depth > 0 || !(byte.is_none() || byte == Some(b',')) {
            continue;
        }
        let branch = &code[from..at];
        let (head, inner) = match branch.split_once('{') {
            Some((head, _)) => {
                let open = from + head.len() + 1;
                let close = code[from..at].rfind('}').map_or(at, |n| from + n);
                (head, Some(open..close))
            }
            None => (branch, None),
        };
        let head: String = head
            .split(" as ")
            .next()
            .unwrap_or_default()
            .chars()
            .filter(|letter| !letter.is_whitespace())
            .collect();
        let path = format!("{prefix}{head}");
        match inner {
            Some(inner) => expand(code, inner, &path, found),
            None if !head.is_empty() => {
                let blank = branch.len() - branch.trim_start().len();
                let line = 1 + code[..from + blank].matches('\n').count();
                found.push((line, path));
            }
            None => {}
        }
        from = at + 1;
    }
}

/// The end of the path (words joined by `::`) that begins at `start`.
fn end_of_path(code: &str, start: usize) -> usize {
    let word_end = |from: usize| {
        code[from..]
            .find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'))
            .map_or(code.len(), |n| from + n)
    };
    let mut end = word_end(start);
    loop {
        let rest = code[end..].trim_start();
        let Some(after) = rest.strip_prefix("::") else {
            return end;
        };
        let next = after.trim_start();
        if !next.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_') {
            return end;
        }
        end = word_end(code.len() - next.len());
    }
}

fn find(bytes: &[u8], from: usize, needle: &[u8]) -> usize {
    bytes[from..]
        .windows(needle.len())
        .position(|window| window == needle)
        .map_or(bytes.len(), |n| from + n)
}

fn follows_word(bytes: &[u8], at: usize) -> bool {
    at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_')
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < bytes.len() {
        match &bytes[at..bytes.len().min(at + 2)] {
            b"/*" => {
                depth += 1;
                at += 2;
            }
            b"*/" => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    at
}

fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns `start` itself when no raw string begins there.
fn raw_string_end(bytes: &[u8], start: usize) -> usize {
    let hashes = bytes[start + 1..]
        .iter()
        .take_while(|&&byte| byte == b'#')
        .count();
    if bytes.get(start + 1 + hashes) != Some(&b'"') {
        return start;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let end = find(bytes, start + 2 + hashes, &close);
    bytes.len().min(end + close.len())
}

/// Returns `start` itself when a lifetime begins there.
fn character_end(bytes: &[u8], start: usize) -> usize {
    match bytes.get(start + 1) {
        Some(b'\\') => find(bytes, start + 3, b"'") + 1,
        // A character outside ASCII has up to four bytes.
        Some(_) => (start + 2..=start + 5)
            .find(|&at| bytes.get(at) == Some(&b'\''))
            .filter(|&at| at == start + 2 || !bytes[start + 1].is_ascii())
            .map_or(start, |at| at + 1),
        None => start,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_and_lines_kept() {
        let source = "let a = \"std::fs\"; // std::net\n/* unsafe\n/* nested */ */ let b = 'u';\n\
                      let c = r#\"unsafe \" \"#; let d: &'a str = b'\\'' ;\nfn r() {}\n";
        let code = code_only(source);
        assert_eq!(code.lines().count(), source.lines().count());
        for hidden in ["std", "unsafe", "nested", "'u'"] {
            assert!(!code.contains(hidden), "{hidden} in {code}");
        }
        for kept in ["let a =", "let b =", "let c =", "&'a str", "fn r()"] {
            assert!(code.contains(kept), "{kept} not in {code}");
        }
    }

    #[test]
    fn use_trees_are_multiplied_out() {
        let code = "use std::{\n    fs,\n    net::{SocketAddr, TcpStream as S},\n};\nuse a;\n";
        assert_eq!(
            paths(code),
            [
                (2, "std::fs".to_owned()),
                (3, "std::net::SocketAddr".to_owned()),
                (3, "std::net::TcpStream".to_owned()),
                (5, "a".to_owned()),
            ]
        );
    }

    #[test]
    fn written_out_paths_are_found_whole() {
        let code = "fn f() {\n    let t = std::time::Instant::now();\n    x.y::<u8>();\n}\n";
        assert_eq!(paths(code), [(2, "std::time::Instant::now".to_owned())]);
    }
}
