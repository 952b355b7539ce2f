//! The head of a response, for all versions of HTTP: status and header section.

use crate::field_block::FieldBlock;
use crate::message::ContentRange;

/// The head of a response: its status and header fields.
#[derive(Debug, Clone, Copy)]
pub struct Head<'c> {
    status: u16,
    fields: Fields<'c>,
}

#[derive(Debug, Clone, Copy)]
enum Fields<'c> {
    Lines(Lines<'c>),
    Block(&'c FieldBlock),
}

/// The parsed field lines of an HTTP/1.x head.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lines<'c> {
    pub text: &'c [u8],
    pub fields: &'c [FieldSpan],
    pub content_length: Option<u64>,
}

/// The positions of a field's name and value in a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldSpan {
    pub name: (u32, u32),
    pub value: (u32, u32),
}

impl<'c> Lines<'c> {
    /// Names and values, in order.
    pub fn iter(self) -> impl Iterator<Item = (&'c [u8], &'c [u8])> {
        let slice = move |(start, end): (u32, u32)| &self.text[start as usize..end as usize];
        let fields = self.fields.iter();
        fields.map(move |span| (slice(span.name), slice(span.value)))
    }
}

impl<'c> Head<'c> {
    /// Creates the head of an HTTP/2 or HTTP/3 response: status and fields. Pseudo-header fields are skipped.
    pub const fn new(status: u16, fields: &'c FieldBlock) -> Head<'c> {
        Head {
            status,
            fields: Fields::Block(fields),
        }
    }

    /// Creates the head of an HTTP/1.x response.
    pub(crate) const fn of_lines(status: u16, lines: Lines<'c>) -> Head<'c> {
        Head {
            status,
            fields: Fields::Lines(lines),
        }
    }

    /// The status code, 100 to 999.
    pub const fn status(self) -> u16 {
        self.status
    }

    /// The value of the first field with this name; case is ignored.
    pub fn field(self, name: &str) -> Option<&'c [u8]> {
        self.fields()
            .find(|(other, _)| other.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, value)| value)
    }

    /// The value of the first field with this name, as text; `None` also if it is not UTF-8.
    pub fn text(self, name: &str) -> Option<&'c str> {
        std::str::from_utf8(self.field(name)?).ok()
    }

    /// Returns names and values of all fields, in order.
    pub fn fields(self) -> impl Iterator<Item = (&'c [u8], &'c [u8])> {
        let (lines, block) = match self.fields {
            Fields::Lines(lines) => (Some(lines), None),
            Fields::Block(block) => (None, Some(block)),
        };
        let lines = lines.into_iter().flat_map(Lines::iter);
        let block = block.into_iter().flat_map(FieldBlock::iter);
        lines.chain(block.filter(|(name, _)| !name.starts_with(b":")))
    }

    /// Returns the value of `Content-Length`, if it is one number. In the response to a HEAD request it is the length
    /// that a GET would return.
    pub fn content_length(self) -> Option<u64> {
        match self.fields {
            Fields::Lines(lines) => lines.content_length,
            Fields::Block(_) => {
                let text = self.text("content-length")?;
                let digits = text.bytes().all(|byte| byte.is_ascii_digit());
                digits.then(|| text.parse().ok()).flatten()
            }
        }
    }

    /// `Content-Type`.
    pub fn content_type(self) -> Option<&'c str> {
        self.text("content-type")
    }

    /// `Content-Encoding`.
    pub fn content_encoding(self) -> Option<&'c str> {
        self.text("content-encoding")
    }

    /// `ETag`, with its quotes and its `W/` prefix.
    pub fn etag(self) -> Option<&'c str> {
        self.text("etag")
    }

    /// `Last-Modified`.
    pub fn last_modified(self) -> Option<&'c str> {
        self.text("last-modified")
    }

    /// `Content-Range`; `None` also when it is malformed or not in bytes.
    pub fn content_range(self) -> Option<ContentRange> {
        ContentRange::parse(self.field("content-range")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pseudo_fields_are_excluded_and_names_match_in_any_case() {
        let mut block = FieldBlock::default();
        block.push(b":status", b"206");
        block.push(b"etag", b"\"a\"");
        block.push(b"content-range", b"bytes 0-4/9");
        block.push(b"content-length", b"5");
        let head = Head::new(206, &block);
        assert_eq!((head.status(), head.fields().count()), (206, 3));
        assert_eq!(head.field("ETag"), Some(&b"\"a\""[..]));
        assert_eq!(head.field(":status"), None);
        assert_eq!(head.content_length(), Some(5));
        let part = ContentRange::Part {
            first: 0,
            last: 4,
            complete: Some(9),
        };
        assert_eq!(head.content_range(), Some(part));
    }
}
