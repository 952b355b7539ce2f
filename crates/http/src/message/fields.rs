//! Field names and values (RFC 9110 section 5). They are the same in all versions of HTTP.
//!
//! Nothing is copied or allocated: all results are slices of the caller's buffer.

/// Whether these bytes are a token (RFC 9110 section 5.6.2): a method, a field name, a coding.
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| is_token_byte(byte))
}

/// Whether this byte is allowed in a token.
pub fn is_token_byte(byte: u8) -> bool {
    TOKEN[byte as usize]
}

/// Whether a value has no control character except tabs (RFC 9110 section 5.5). Bytes from 0x80 are allowed.
pub fn is_value(value: &[u8]) -> bool {
    // No early exit, so that the compiler examines many bytes at a time.
    !value
        .iter()
        .fold(false, |bad, &byte| bad | is_control(byte))
}

/// Removes spaces, tabs and the line ends of folded lines from both ends. A bare carriage return is kept.
pub fn trim(value: &[u8]) -> &[u8] {
    // `trim_ascii` would also remove form feeds and bare carriage returns, and thus hide them.
    let mut rest = value;
    loop {
        rest = match rest {
            [b' ' | b'\t' | b'\n', after @ ..] | [b'\r', b'\n', after @ ..] => after,
            [before @ .., b'\r', b'\n'] | [before @ .., b' ' | b'\t' | b'\n'] => before,
            _ => return rest,
        };
    }
}

/// Iterates over the elements of a comma-separated list (RFC 9110 section 5.6.1), trimmed. Empty elements are skipped;
/// commas within a quoted string are not separators.
pub fn list(value: &[u8]) -> List<'_> {
    List { rest: value }
}

/// Whether a list such as `Connection` contains this token; case is ignored.
pub fn list_has(value: &[u8], token: &str) -> bool {
    list(value).any(|element| element.eq_ignore_ascii_case(token.as_bytes()))
}

/// Iterator of [`list`].
#[derive(Debug, Clone)]
pub struct List<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for List<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.rest.is_empty() {
            let end = element_end(self.rest);
            let element = trim(&self.rest[..end]);
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            if !element.is_empty() {
                return Some(element);
            }
        }
        None
    }
}

fn element_end(bytes: &[u8]) -> usize {
    let mut quoted = false;
    let mut escaped = false;
    for (place, &byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => return place,
            _ => {}
        }
    }
    bytes.len()
}

/// The reason why a Content-Length is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthError {
    /// It is not one decimal number below 2^64.
    NotANumber,
    /// Its values contradict each other.
    Conflict,
}

/// The treatment of a list of equal numbers instead of one number (`Content-Length: 5, 5`, or two field lines with the
/// same value). RFC 9110 section 8.6 permits a recipient to treat the list as one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeated {
    /// Refuse the list: even if the numbers are equal, an intermediary may frame the message differently.
    Refuse,
    /// Treat equal numbers as one number.
    AllowEqual,
}

/// Parses a Content-Length: only decimal digits, below 2^64. `before` is the value of an earlier field line of
/// the same message.
pub fn content_length(
    value: &[u8],
    before: Option<u64>,
    repeated: Repeated,
) -> Result<u64, LengthError> {
    if repeated == Repeated::Refuse {
        let length = decimal(value).ok_or(LengthError::NotANumber)?;
        return match before {
            None => Ok(length),
            Some(_) => Err(LengthError::Conflict),
        };
    }
    let mut known = before;
    for element in value.split(|&byte| byte == b',') {
        let length = decimal(trim(element)).ok_or(LengthError::NotANumber)?;
        if known.is_some_and(|known| known != length) {
            return Err(LengthError::Conflict);
        }
        known = Some(length);
    }
    known.ok_or(LengthError::NotANumber)
}

/// Parses an unsigned decimal number: only digits, below 2^64.
pub fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Whether this byte is forbidden in a field value.
pub(crate) fn is_control(byte: u8) -> bool {
    (byte < b' ' && byte != b'\t') | (byte == 0x7f)
}

/// The bytes that are allowed in a token.
static TOKEN: [bool; 256] = token_bytes();

const fn token_bytes() -> [bool; 256] {
    let mut table = [false; 256];
    let mut index = 0;
    while index < 256 {
        let byte = index as u8;
        let punctuation = matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        );
        table[index] = punctuation || byte.is_ascii_alphanumeric();
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_skip_empty_elements_and_keep_quoted_commas() {
        let elements: Vec<&[u8]> = list(b" a,, b\t,\"c,\\\"d\", ,e").collect();
        assert_eq!(elements, [&b"a"[..], b"b", b"\"c,\\\"d\"", b"e"]);
        assert!(list_has(b"Upgrade, Close", "close"));
        assert!(!list_has(b"closed", "close"));
    }

    #[test]
    fn content_lengths_are_digits_alone() {
        for text in ["", "+1", "-1", "1 ", "0x1", "1.0", "18446744073709551616"] {
            let read = content_length(text.as_bytes(), None, Repeated::Refuse);
            assert_eq!(read, Err(LengthError::NotANumber), "{text:?}");
        }
        let largest = content_length(b"18446744073709551615", None, Repeated::Refuse);
        assert_eq!(largest, Ok(u64::MAX));
        assert_eq!(content_length(b"5, 5", None, Repeated::AllowEqual), Ok(5));
        assert_eq!(content_length(b"5", Some(5), Repeated::AllowEqual), Ok(5));
        assert_eq!(
            content_length(b"5", Some(5), Repeated::Refuse),
            Err(LengthError::Conflict)
        );
        assert_eq!(
            content_length(b"5, 6", None, Repeated::AllowEqual),
            Err(LengthError::Conflict)
        );
        for text in ["5,", "5, 5", ",5"] {
            let read = content_length(text.as_bytes(), None, Repeated::Refuse);
            assert_eq!(read, Err(LengthError::NotANumber), "{text:?}");
        }
    }
}
