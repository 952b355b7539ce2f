//! Request targets in the sources of workloads.

/// Returns the path of the file for a request target: the target without the query.
pub(crate) fn without_query(target: &str) -> &str {
    target.split(['?', '#']).next().unwrap_or_default()
}

/// Decodes the file path in a target to bytes. `None` for a path that no site can have, because it contains dot
/// segments or cannot be decoded.
pub(crate) fn file_key(target: &str) -> Option<Vec<u8>> {
    let path = without_query(target);
    if !is_origin_form(path) {
        return None;
    }
    let mut key = Vec::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            key.push(byte);
            continue;
        }
        let mut digit = || (bytes.next()? as char).to_digit(16);
        match (digit()? * 16 + digit()?) as u8 {
            0 | b'/' => return None,
            byte => key.push(byte),
        }
    }
    let is_dots = |segment: &[u8]| segment == b"." || segment == b"..";
    (!key.split(|&byte| byte == b'/').any(is_dots)).then_some(key)
}

/// Returns whether a text can be a request target in origin form (RFC 9112 section 3.2.1), with lenient checks.
pub(crate) fn is_origin_form(target: &str) -> bool {
    target.starts_with('/')
        && target
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'#')
}

/// Returns whether a text can be a method: a token of RFC 9110 section 5.6.2.
pub(crate) fn is_token(text: &str) -> bool {
    let is_token_byte =
        |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token_byte)
}
