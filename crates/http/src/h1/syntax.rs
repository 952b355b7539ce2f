//! Parses heads of HTTP/1.x messages (RFC 9112 sections 2.2 and 5). A head is the start line, the header section
//! and the empty line at its end.
//!
//! Nothing is copied or allocated: all results are slices of the caller's buffer. Callers interpret the fields,
//! except for [`Transfer-Encoding`](TransferCodings), which only HTTP/1.1 has.
//!
//! ```
//! use fathometer_http::h1::syntax::{HeadEnd, Strictness, split_head};
//!
//! let bytes = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /next";
//! let end = HeadEnd::new().find(bytes).unwrap();
//! let (start_line, fields) = split_head(&bytes[..end], Strictness::Strict).unwrap();
//! assert_eq!(start_line, b"GET / HTTP/1.1");
//! let host = fields.map(|field| field.unwrap()).next().unwrap();
//! assert_eq!((host.name, host.value), (&b"Host"[..], &b"a"[..]));
//! ```

use memchr::memchr;

use crate::message::fields::{
    LengthError, is_control, is_token, is_token_byte, is_value, list, trim,
};

/// The tolerance of a recipient for malformed heads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    /// For an origin, which must never split messages differently from the proxy in front of it: lines end in
    /// CRLF, no line folding, no space before the colon, no control characters.
    Strict,
    /// For a client that reads a response (RFC 9112 sections 2.2, 5.1, 5.2): a bare LF ends a line; a folded
    /// line belongs to the previous field; space before the colon is dropped; control characters other than NUL
    /// and CR are accepted.
    Lenient,
}

/// The reason why a head is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum SyntaxError {
    /// A line that ends in LF without CR.
    #[error("a line ends in a bare line feed")]
    BareLineFeed,
    /// A CR without a following LF.
    #[error("a carriage return is not followed by a line feed")]
    BareCarriageReturn,
    /// A field line that starts with space: obsolete folding, or space before the first field.
    #[error("a field line starts with white space")]
    FoldedLine,
    /// A field line without a colon.
    #[error("a field line has no colon")]
    MissingColon,
    /// Space between the field name and the colon.
    #[error("a field line has white space before its colon")]
    SpaceBeforeColon,
    /// A field name that is empty or not a token.
    #[error("a field name is not a token")]
    BadFieldName,
    /// NUL or another control character in a field value.
    #[error("a field value contains a control character")]
    ControlInValue,
    /// A Content-Length that is not one decimal number below 2^64.
    #[error("a content length is not a decimal number")]
    BadContentLength,
    /// Content-Length values that contradict each other.
    #[error("content lengths contradict each other")]
    ConflictingContentLength,
    /// A Transfer-Encoding that is empty or not a list of codings.
    #[error("a transfer encoding is not a list of codings")]
    BadTransferEncoding,
    /// `chunked` appears before another coding, or more than once.
    #[error("the chunked coding is repeated or is not the last coding")]
    ChunkedNotLast,
    /// The head does not end in an empty line.
    #[error("the head does not end in an empty line")]
    Unterminated,
}

impl From<LengthError> for SyntaxError {
    fn from(error: LengthError) -> SyntaxError {
        match error {
            LengthError::NotANumber => SyntaxError::BadContentLength,
            LengthError::Conflict => SyntaxError::ConflictingContentLength,
        }
    }
}

/// Finds the end of a head in bytes that arrive in pieces; examines every byte once.
///
/// The empty line may be CRLF or a bare LF, also where the syntax requires CRLF. Therefore a head with bare line
/// feeds is refused as soon as it is complete, and not at a time-out.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeadEnd {
    /// No line feed before this position is followed by an empty line.
    scanned: usize,
}

impl HeadEnd {
    /// Creates a finder at the start of a head.
    pub const fn new() -> HeadEnd {
        HeadEnd { scanned: 0 }
    }

    /// Returns the length of the head including its empty line; `None` when more bytes are needed. `buffer` must start
    /// with the bytes of the last call; more may follow. Bytes after the head are not examined. An empty line at the
    /// very start is not an end: see [`leading_line_end`].
    pub fn find(&mut self, buffer: &[u8]) -> Option<usize> {
        let mut at = self.scanned;
        while let Some(found) = buffer.get(at..).and_then(|rest| memchr(b'\n', rest)) {
            let line_feed = at + found;
            match buffer[line_feed + 1..] {
                [b'\n', ..] => return Some(line_feed + 2),
                [b'\r', b'\n', ..] => return Some(line_feed + 3),
                [] | [b'\r'] => {
                    self.scanned = line_feed;
                    return None;
                }
                _ => at = line_feed + 1,
            }
        }
        self.scanned = buffer.len();
        None
    }
}

/// Returns the length of an empty line at the start of `buffer`, which a recipient may skip before a start line (RFC
/// 9112 section 2.2); 0 when there is none (yet). A bare LF counts only in lenient mode.
pub fn leading_line_end(buffer: &[u8], strictness: Strictness) -> usize {
    match buffer {
        [b'\r', b'\n', ..] => 2,
        [b'\n', ..] if strictness == Strictness::Lenient => 1,
        _ => 0,
    }
}

/// Splits a complete head, its empty line included, into the start line (without its line end) and the field
/// lines. Only the line ends of the start line are checked.
pub fn split_head(
    head: &[u8],
    strictness: Strictness,
) -> Result<(&[u8], FieldLines<'_>), SyntaxError> {
    let mut lines = FieldLines {
        rest: head,
        strictness,
    };
    let start_line = lines.line()?.ok_or(SyntaxError::Unterminated)?;
    if memchr(b'\r', start_line).is_some() {
        return Err(SyntaxError::BareCarriageReturn);
    }
    Ok((start_line, lines))
}

/// A parsed and checked field line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// The name, a token, in its original case.
    pub name: &'a [u8],
    /// The value without white space around it. In lenient mode a folded line keeps its line end,
    /// which [`trim`] and [`list`] treat as white space.
    pub value: &'a [u8],
}

impl Field<'_> {
    /// Whether the field has this name, compared case-insensitively.
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

/// The field lines of a head, in order; ends at the empty line or at the first error.
#[derive(Debug, Clone)]
pub struct FieldLines<'a> {
    rest: &'a [u8],
    strictness: Strictness,
}

impl<'a> FieldLines<'a> {
    /// Iterates over field lines without a start line, as in a trailer section: ends at an empty line or at the end
    /// of `lines`.
    pub fn new(lines: &'a [u8], strictness: Strictness) -> FieldLines<'a> {
        FieldLines {
            rest: lines,
            strictness,
        }
    }

    /// Takes the next line, without its line end; `None` when nothing is left.
    fn line(&mut self) -> Result<Option<&'a [u8]>, SyntaxError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let line_feed = memchr(b'\n', self.rest).ok_or(SyntaxError::Unterminated)?;
        let (line, rest) = (&self.rest[..line_feed], &self.rest[line_feed + 1..]);
        self.rest = rest;
        match (line.strip_suffix(b"\r"), self.strictness) {
            (Some(line), _) => Ok(Some(line)),
            (None, Strictness::Lenient) => Ok(Some(line)),
            (None, Strictness::Strict) => Err(SyntaxError::BareLineFeed),
        }
    }

    /// Takes the next field line together with the lines folded onto it.
    fn unfolded(&mut self) -> Result<Option<&'a [u8]>, SyntaxError> {
        let all = self.rest;
        let Some(first) = self.line()? else {
            return Ok(None);
        };
        if first.is_empty() {
            return Ok(None);
        }
        if is_blank(first[0]) {
            return Err(SyntaxError::FoldedLine);
        }
        let mut end = first.len();
        while self.rest.first().is_some_and(|&byte| is_blank(byte)) {
            if self.strictness == Strictness::Strict {
                return Err(SyntaxError::FoldedLine);
            }
            let start = all.len() - self.rest.len();
            let line = self.line()?.unwrap_or_default();
            end = start + line.len();
        }
        Ok(Some(&all[..end]))
    }

    fn field(&mut self) -> Result<Option<Field<'a>>, SyntaxError> {
        let Some(line) = self.unfolded()? else {
            return Ok(None);
        };
        let colon = memchr(b':', line).ok_or(SyntaxError::MissingColon)?;
        let mut name = &line[..colon];
        if name.last().is_some_and(|&byte| is_blank(byte)) {
            if self.strictness == Strictness::Strict {
                return Err(SyntaxError::SpaceBeforeColon);
            }
            name = name.trim_ascii_end();
        }
        if !is_token(name) {
            return Err(SyntaxError::BadFieldName);
        }
        let value = trim(&line[colon + 1..]);
        check_value(value, self.strictness)?;
        Ok(Some(Field { name, value }))
    }
}

impl<'a> Iterator for FieldLines<'a> {
    type Item = Result<Field<'a>, SyntaxError>;

    fn next(&mut self) -> Option<Self::Item> {
        let field = self.field().transpose();
        if !matches!(field, Some(Ok(_))) {
            self.rest = &[];
        }
        field
    }
}

/// Checks the characters of a field value (RFC 9110 section 5.5). Bytes from 0x80 are allowed.
pub fn check_value(value: &[u8], strictness: Strictness) -> Result<(), SyntaxError> {
    if is_value(value) {
        return Ok(());
    }
    for (place, &byte) in value.iter().enumerate() {
        if !is_control(byte) {
            continue;
        }
        let folded = |at: usize| value.get(at + 1).is_some_and(|&next| is_blank(next));
        match (byte, strictness) {
            (b'\r', Strictness::Lenient)
                if value.get(place + 1) == Some(&b'\n') && folded(place + 1) => {}
            (b'\n', Strictness::Lenient) if folded(place) => {}
            (b'\r', _) => return Err(SyntaxError::BareCarriageReturn),
            (0 | b'\n', _) | (_, Strictness::Strict) => return Err(SyntaxError::ControlInValue),
            _ => {}
        }
    }
    Ok(())
}

/// The transfer codings of a message, collected from its Transfer-Encoding lines (RFC 9112 section 6.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransferCodings {
    others: bool,
    chunked: bool,
}

impl TransferCodings {
    /// Adds the codings of one field line to the codings of the previous lines.
    pub fn add(&mut self, value: &[u8]) -> Result<(), SyntaxError> {
        let mut empty = true;
        for coding in list(value) {
            empty = false;
            if self.chunked {
                return Err(SyntaxError::ChunkedNotLast);
            }
            let name_end = coding
                .iter()
                .position(|&byte| !is_token_byte(byte))
                .unwrap_or(coding.len());
            let (name, parameters) = coding.split_at(name_end);
            let parameters = trim(parameters);
            if name.is_empty() || !(parameters.is_empty() || parameters[0] == b';') {
                return Err(SyntaxError::BadTransferEncoding);
            }
            if !name.eq_ignore_ascii_case(b"chunked") {
                self.others = true;
            } else if parameters.is_empty() {
                self.chunked = true;
            } else {
                return Err(SyntaxError::BadTransferEncoding);
            }
        }
        if empty {
            return Err(SyntaxError::BadTransferEncoding);
        }
        Ok(())
    }

    /// Whether the last coding is `chunked`, so that the message marks its own end.
    pub fn is_chunked(self) -> bool {
        self.chunked
    }

    /// Whether there is a coding other than `chunked`.
    pub fn has_others(self) -> bool {
        self.others
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields(head: &[u8], strictness: Strictness) -> Result<Vec<(String, String)>, SyntaxError> {
        let (_, lines) = split_head(head, strictness)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        lines
            .map(|field| field.map(|field| (text(field.name), text(field.value))))
            .collect()
    }

    #[test]
    fn fields_are_split_and_trimmed() {
        let head = b"GET / HTTP/1.1\r\nHost: \t a b \t\r\nEmpty:\r\nX:\xe4:y\r\n\r\n";
        let (start_line, lines) = split_head(head, Strictness::Strict).unwrap();
        assert_eq!(start_line, b"GET / HTTP/1.1");
        let values: Vec<&[u8]> = lines.map(|field| field.unwrap().value).collect();
        assert_eq!(values, [&b"a b"[..], b"", b"\xe4:y"]);
    }

    #[test]
    fn strict_parsing_refuses_faults_that_lenient_parsing_accepts() {
        let cases: [(&[u8], SyntaxError, &str); 6] = [
            (b"A\nb: c\r\n\r\n", SyntaxError::BareLineFeed, "c"),
            (b"A\r\nb: c\n\r\n", SyntaxError::BareLineFeed, "c"),
            (b"A\r\nb: c\r\n\n", SyntaxError::BareLineFeed, "c"),
            (
                b"A\r\nb: c\r\n d\r\n\r\n",
                SyntaxError::FoldedLine,
                "c\r\n d",
            ),
            (b"A\r\nb : c\r\n\r\n", SyntaxError::SpaceBeforeColon, "c"),
            (
                b"A\r\nb: c\x07d\r\n\r\n",
                SyntaxError::ControlInValue,
                "c\x07d",
            ),
        ];
        for (head, error, value) in cases {
            assert_eq!(fields(head, Strictness::Strict), Err(error), "{head:?}");
            assert_eq!(
                fields(head, Strictness::Lenient),
                Ok(vec![("b".to_owned(), value.to_owned())]),
                "{head:?}"
            );
        }
    }

    #[test]
    fn strict_and_lenient_parsing_refuse_faults_that_change_the_framing() {
        let cases: [(&[u8], SyntaxError); 10] = [
            (b"A\r\nb:\rc\r\n\r\n", SyntaxError::BareCarriageReturn),
            (b"A\r\nb: c\0\r\n\r\n", SyntaxError::ControlInValue),
            (b"A\r\nb: c\rd\r\n\r\n", SyntaxError::BareCarriageReturn),
            (b"A\r\nb: c\r\r\n\r\n", SyntaxError::BareCarriageReturn),
            (b"A\rB\r\nb: c\r\n\r\n", SyntaxError::BareCarriageReturn),
            (b"A\r\n b: c\r\n\r\n", SyntaxError::FoldedLine),
            (b"A\r\n: c\r\n\r\n", SyntaxError::BadFieldName),
            (b"A\r\nb c: d\r\n\r\n", SyntaxError::BadFieldName),
            (b"A\r\nbc\r\n\r\n", SyntaxError::MissingColon),
            (b"A\r\nbc: d", SyntaxError::Unterminated),
        ];
        for (head, error) in cases {
            for strictness in [Strictness::Strict, Strictness::Lenient] {
                assert_eq!(fields(head, strictness), Err(error), "{head:?}");
            }
        }
    }

    #[test]
    fn chunked_is_applied_once_and_last() {
        let read = |values: &[&str]| {
            let mut codings = TransferCodings::default();
            for value in values {
                codings.add(value.as_bytes())?;
            }
            Ok((codings.is_chunked(), codings.has_others()))
        };
        assert_eq!(read(&["chunked"]), Ok((true, false)));
        assert_eq!(read(&["gzip, Chunked"]), Ok((true, true)));
        assert_eq!(read(&["gzip", "chunked"]), Ok((true, true)));
        assert_eq!(read(&["gzip;q=\"a,b\""]), Ok((false, true)));
        for values in [&["chunked, gzip"][..], &["chunked", "chunked"]] {
            assert_eq!(read(values), Err(SyntaxError::ChunkedNotLast));
        }
        for value in [
            "",
            ",",
            "chunked;a=b",
            "\x0bchunked",
            "chunked x",
            "=chunked",
        ] {
            assert_eq!(
                read(&[value]),
                Err(SyntaxError::BadTransferEncoding),
                "{value:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn the_end_of_a_head_is_found_at_any_split(
            bytes in prop::collection::vec(prop::sample::select(&b"\r\na"[..]), 0..40),
            cuts in prop::collection::vec(0usize..40, 0..6),
        ) {
            let whole = HeadEnd::new().find(&bytes);
            let mut cuts = cuts;
            cuts.sort_unstable();
            let mut finder = HeadEnd::new();
            let mut found = None;
            for cut in cuts.into_iter().filter(|&cut| cut < bytes.len()).chain([bytes.len()]) {
                found = finder.find(&bytes[..cut]);
                if found.is_some() {
                    break;
                }
            }
            prop_assert_eq!(found, whole);
            let naive = (2..=bytes.len()).find(|&end| {
                bytes[..end].ends_with(b"\n\n") || bytes[..end].ends_with(b"\n\r\n")
            });
            prop_assert_eq!(whole, naive);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            for strictness in [Strictness::Strict, Strictness::Lenient] {
                if let Ok((_, lines)) = split_head(&bytes, strictness) {
                    for field in lines.flatten() {
                        prop_assert!(is_token(field.name));
                        list(field.value).for_each(drop);
                    }
                }
            }
        }
    }
}
