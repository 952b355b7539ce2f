//! An incremental parser of the `multipart/byteranges` media type (RFC 9110 section 14.6).

use fathometer_model::Failure;

use crate::exchange::Limits;
use crate::h1::syntax::{FieldLines, HeadEnd, Strictness};
use crate::message::{ContentRange, fields};

/// Returns the boundary in a `Content-Type` of `multipart/byteranges`. `None` when it is another type or the boundary
/// is missing, longer than 70 bytes or incorrectly quoted.
pub fn boundary(content_type: &[u8]) -> Option<&[u8]> {
    let mut parameters = content_type.split(|&byte| byte == b';').map(fields::trim);
    if !parameters
        .next()?
        .eq_ignore_ascii_case(b"multipart/byteranges")
    {
        return None;
    }
    let boundary = parameters.find_map(|parameter| {
        let (name, value) = parameter.split_at_checked(9)?;
        name.eq_ignore_ascii_case(b"boundary=").then_some(value)
    })?;
    let boundary = match boundary {
        [b'"', inner @ .., b'"'] => inner,
        plain => plain,
    };
    let fits = (1..=70).contains(&boundary.len());
    (fits && !boundary.contains(&b'"')).then_some(boundary)
}

/// Splits a `multipart/byteranges` body into its parts as it arrives. Every part must have a `Content-Range`, which
/// gives its length. Therefore content that looks like a boundary is not mistaken for one.
#[derive(Debug, Clone)]
pub struct Parts {
    delimiter: Vec<u8>,
    state: PartState,
    line: Vec<u8>,
    head_end: HeadEnd,
    head_limit: usize,
    remaining: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartState {
    /// Within lines before a delimiter: a preamble, or the empty line after a part.
    Lines,
    Head,
    Content,
    /// After the last delimiter; an epilogue is ignored.
    Done,
    Failed(Failure),
}

/// An event of [`Parts::read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartEvent<'i> {
    /// A part begins: always a [`ContentRange::Part`].
    Begin(ContentRange),
    /// Content of this part.
    Content(&'i [u8]),
    /// The part is complete.
    End,
}

impl Parts {
    /// Creates a reader for a body with this boundary. The limits on a response's head also apply to the head of every
    /// part.
    pub fn new(boundary: &[u8], limits: &Limits) -> Parts {
        Parts {
            delimiter: [b"--", boundary].concat(),
            state: PartState::Lines,
            line: Vec::new(),
            head_end: HeadEnd::new(),
            head_limit: usize::try_from(limits.head.0).unwrap_or(usize::MAX),
            remaining: 0,
        }
    }

    /// Whether the last delimiter has been read: a body that ends earlier is truncated.
    pub fn is_done(&self) -> bool {
        self.state == PartState::Done
    }

    /// Consumes bytes from the front of `input` up to the next event; `None` when the input is used up. An
    /// error is final.
    pub fn read<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<PartEvent<'i>>, Failure> {
        loop {
            match self.state {
                PartState::Content if self.remaining == 0 => {
                    self.state = PartState::Lines;
                    return Ok(Some(PartEvent::End));
                }
                PartState::Content if !input.is_empty() => {
                    let length = usize::try_from(self.remaining).unwrap_or(usize::MAX);
                    let (content, rest) = input.split_at(length.min(input.len()));
                    *input = rest;
                    self.remaining -= content.len() as u64;
                    return Ok(Some(PartEvent::Content(content)));
                }
                PartState::Failed(failure) => return Err(failure),
                PartState::Done => {
                    *input = &[];
                    return Ok(None);
                }
                _ => {}
            }
            let Some((&byte, rest)) = input.split_first() else {
                return Ok(None);
            };
            *input = rest;
            self.line.push(byte);
            let step = match self.state {
                PartState::Lines => self.delimiter_line(byte),
                _ => self.part_head(),
            };
            match step {
                Ok(None) => {}
                Ok(event) => return Ok(event),
                Err(failure) => {
                    self.state = PartState::Failed(failure);
                    return Err(failure);
                }
            }
        }
    }

    /// Handles a new byte of a line outside parts.
    fn delimiter_line<'i>(&mut self, byte: u8) -> Result<Option<PartEvent<'i>>, Failure> {
        if byte != b'\n' {
            return self.check_length();
        }
        if let Some(after) = self.line.strip_prefix(&self.delimiter[..]) {
            match fields::trim(after) {
                b"" => self.state = PartState::Head,
                b"--" => self.state = PartState::Done,
                _ => {}
            }
        }
        self.line.clear();
        self.head_end = HeadEnd::new();
        Ok(None)
    }

    /// Handles a new byte of a part's head.
    fn part_head<'i>(&mut self) -> Result<Option<PartEvent<'i>>, Failure> {
        if self.head_end.find(&self.line).is_none() {
            return self.check_length();
        }
        let mut range = None;
        for field in FieldLines::new(&self.line, Strictness::Lenient) {
            let field = field.map_err(|_| Failure::BadResponse)?;
            if field.is("content-range") {
                range = ContentRange::parse(field.value);
            }
        }
        let Some(range @ ContentRange::Part { .. }) = range else {
            return Err(Failure::BadResponse);
        };
        self.line.clear();
        self.remaining = range.length();
        self.state = PartState::Content;
        Ok(Some(PartEvent::Begin(range)))
    }

    fn check_length<'i>(&self) -> Result<Option<PartEvent<'i>>, Failure> {
        if self.line.len() >= self.head_limit {
            return Err(Failure::TooLarge);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathometer_model::Bytes;
    use proptest::prelude::*;

    const BODY: &[u8] =
        b"\r\n--x\r\nContent-Type: image/gif\r\nContent-Range: bytes 0-4/20\r\n\r\n\
        ab\r\n-\r\n--x\r\ncontent-range: bytes 7-8/20\r\n\r\n--\r\n--x--\r\nepilogue";

    /// The first byte and the content of every part.
    type Found = Vec<(u64, Vec<u8>)>;

    /// Returns the parts, and whether the last delimiter was read.
    fn read(pieces: &[&[u8]], limits: &Limits) -> Result<(Found, bool), Failure> {
        let mut parts = Parts::new(b"x", limits);
        let mut found = Found::new();
        for piece in pieces {
            let mut input = *piece;
            while let Some(event) = parts.read(&mut input)? {
                match event {
                    PartEvent::Begin(ContentRange::Part { first, .. }) => {
                        found.push((first, Vec::new()));
                    }
                    PartEvent::Begin(ContentRange::Unsatisfied { .. }) => unreachable!(),
                    PartEvent::Content(content) => {
                        found.last_mut().unwrap().1.extend_from_slice(content);
                    }
                    PartEvent::End => {}
                }
            }
        }
        Ok((found, parts.is_done()))
    }

    #[test]
    fn parts_are_framed_by_their_ranges() {
        let expected = vec![(0, b"ab\r\n-".to_vec()), (7, b"--".to_vec())];
        assert_eq!(read(&[BODY], &Limits::default()), Ok((expected, true)));
    }

    #[test]
    fn content_ranges_are_checked() {
        let part = |first, last, complete| {
            Some(ContentRange::Part {
                first,
                last,
                complete,
            })
        };
        for (value, expected) in [
            ("bytes 0-0/1", part(0, 0, Some(1))),
            ("Bytes 5-9/*", part(5, 9, None)),
            ("bytes */7", Some(ContentRange::Unsatisfied { complete: 7 })),
            ("bytes */*", None),
            ("bytes 5-4/9", None),
            ("bytes 0-9/9", None),
            ("bytes 0-/9", None),
            ("bytes=0-1/9", None),
            ("lines 0-1/9", None),
            ("bytes 0-1", None),
            ("", None),
        ] {
            assert_eq!(ContentRange::parse(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn boundaries_are_found() {
        for (value, expected) in [
            ("multipart/byteranges; boundary=a1", Some("a1")),
            (
                "Multipart/ByteRanges;charset=x; Boundary=\"a b\"",
                Some("a b"),
            ),
            ("multipart/byteranges", None),
            ("multipart/byteranges; boundary=\"a", None),
            ("multipart/byteranges; boundary=", None),
            ("text/html; boundary=a", None),
        ] {
            let found = boundary(value.as_bytes());
            assert_eq!(found, expected.map(str::as_bytes), "{value}");
        }
    }

    #[test]
    fn parts_without_range_or_end_are_refused() {
        let limits = Limits::default();
        let bad = |body: &[u8]| read(&[body], &limits);
        assert_eq!(bad(b"--x\r\nA: b\r\n\r\n"), Err(Failure::BadResponse));
        assert_eq!(bad(b"--x\r\nno colon\r\n\r\n"), Err(Failure::BadResponse));
        let small = Limits {
            head: Bytes(20),
            ..limits
        };
        assert_eq!(read(&[&[b'a'; 30]], &small), Err(Failure::TooLarge));
        assert_eq!(
            bad(&BODY[..BODY.len() - 12]).map(|(_, done)| done),
            Ok(false)
        );
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_parts(cut in 0usize..160) {
            let limits = Limits::default();
            let (before, after) = BODY.split_at(cut.min(BODY.len()));
            prop_assert_eq!(read(&[before, after], &limits), read(&[BODY], &limits));
        }
    }
}
