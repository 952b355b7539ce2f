//! Writing answers: fields in the order of the dress, content as pieces.

use super::conditions::Validators;
use super::date::DateText;
use super::dress::{FieldValue, Responses};
use super::ranges::ByteRange;
use super::text::{Decimal, FixedText, hexadecimal};
use super::{Answer, Content, Origin, RepresentationId};

/// Takes the fields of a response, in order. Each version of HTTP writes them in its own way.
pub trait FieldSink {
    /// A field with its value.
    fn field(&mut self, name: &str, value: &[u8]);

    /// The place of a field about the connection, which HTTP/1 fills in and later versions leave
    /// out.
    fn hop(&mut self, field: HopField, name: &str);
}

/// A field about the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HopField {
    /// `Connection`
    Connection,
    /// `Keep-Alive`
    KeepAlive,
}

/// A piece of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Segment<'a> {
    /// Octets to copy.
    Text(&'a [u8]),
    /// Octets of a representation, which stay where they are.
    Body(RepresentationId, ByteRange),
}

/// Texts of dates, kept from answer to answer.
#[derive(Debug, Clone, Default)]
pub struct Dates {
    date: DateText,
    expires: DateText,
}

/// Length of a multipart boundary: a word and the digits of an entity tag.
const BOUNDARY_LENGTH: usize = BOUNDARY_WORD.len() + 16;
const BOUNDARY_WORD: &[u8] = b"part-";

impl Origin {
    /// Writes the fields of an answer that is sent at `second` since the Unix epoch.
    pub fn write_fields(
        &self,
        answer: &Answer,
        second: u64,
        dates: &mut Dates,
        sink: &mut impl FieldSink,
    ) {
        let described = match answer.content {
            Content::Unsatisfiable(_) => None,
            ref content => content.representation(),
        };
        let validators = described.map(|id| self.index.validators(id));
        for field in &self.fields {
            let name = field.name.as_str();
            if !field.value.is_required() && !is_on(field.on, answer) {
                continue;
            }
            match &field.value {
                FieldValue::Static(value) => sink.field(name, value.as_bytes()),
                FieldValue::Date => sink.field(name, dates.date.at(second)),
                FieldValue::Expires(after) => {
                    let second = second.saturating_add(after.as_secs());
                    sink.field(name, dates.expires.at(second));
                }
                FieldValue::Connection => sink.hop(HopField::Connection, name),
                FieldValue::KeepAlive => sink.hop(HopField::KeepAlive, name),
                value => self.write_described(answer, validators, name, value, sink),
            }
        }
    }

    /// Writes a field that depends on the content, if it has a value for this answer.
    fn write_described(
        &self,
        answer: &Answer,
        validators: Option<Validators<'_>>,
        name: &str,
        value: &FieldValue,
        sink: &mut impl FieldSink,
    ) {
        match (value, &answer.content) {
            (FieldValue::LastModified, _) => {
                if let Some(validators) = validators {
                    sink.field(name, validators.last_modified_text);
                }
            }
            (FieldValue::ETag, _) => {
                if let Some(validators) = validators {
                    sink.field(name, validators.etag);
                }
            }
            (FieldValue::Vary, content) => {
                if let Some(id) = content.representation()
                    && self
                        .index
                        .representations(self.index.representation(id).file)
                        .nth(1)
                        .is_some()
                {
                    sink.field(name, b"Accept-Encoding");
                }
            }
            (FieldValue::Allow, _) => {
                if let Some(allow) = answer.allow {
                    sink.field(name, allow.as_bytes());
                }
            }
            (FieldValue::ContentLength, _) if !answer.status.is_bodiless() => {
                sink.field(name, Decimal::new(answer.length).as_bytes());
            }
            (FieldValue::ContentType, Content::StatusText | Content::Unsatisfiable(_)) => {
                sink.field(name, b"text/plain");
            }
            (FieldValue::ContentType, Content::Whole(id) | Content::Part(id, _)) => {
                sink.field(name, self.content_type(*id));
            }
            (FieldValue::ContentType, Content::Parts(id, _)) => {
                let mut text = FixedText::<64>::new();
                text.push(b"multipart/byteranges; boundary=")
                    .push(&self.boundary(*id));
                sink.field(name, text.as_bytes());
            }
            (
                FieldValue::ContentEncoding,
                Content::Whole(id) | Content::Part(id, _) | Content::Parts(id, _),
            ) => {
                if let Some(coding) = self.index.representation(*id).coding {
                    sink.field(name, coding.token().as_bytes());
                }
            }
            (FieldValue::ContentRange, Content::Part(id, range)) => {
                sink.field(name, self.content_range(*id, *range).as_bytes());
            }
            (FieldValue::ContentRange, Content::Unsatisfiable(id)) => {
                let length = Decimal::new(self.index.representation(*id).length);
                let mut text = FixedText::<32>::new();
                text.push(b"bytes */").push(length.as_bytes());
                sink.field(name, text.as_bytes());
            }
            _ => {}
        }
    }

    /// Writes the content of an answer, piece by piece; nothing where none is sent.
    pub fn write_content(&self, answer: &Answer, mut sink: impl FnMut(Segment<'_>)) {
        if answer.sent_length() == 0 {
            return;
        }
        match &answer.content {
            Content::Empty | Content::NotModified(_) => {}
            Content::StatusText | Content::Unsatisfiable(_) => {
                sink(Segment::Text(answer.status.line().as_bytes()));
                sink(Segment::Text(b"\n"));
            }
            &Content::Whole(id) => {
                let end = answer.length;
                sink(Segment::Body(id, ByteRange { first: 0, end }));
            }
            &Content::Part(id, range) => sink(Segment::Body(id, range)),
            Content::Parts(id, ranges) => self.write_parts(*id, ranges.as_slice(), sink),
        }
    }

    /// Octets of the multipart content made of these ranges.
    pub(super) fn parts_length(&self, id: RepresentationId, ranges: &[ByteRange]) -> u64 {
        let mut length = 0;
        self.write_parts(id, ranges, |segment| {
            length += match segment {
                Segment::Text(text) => text.len() as u64,
                Segment::Body(_, range) => range.length(),
            };
        });
        length
    }

    /// Writes the content of `multipart/byteranges` (RFC 9110 section 14.6).
    fn write_parts(
        &self,
        id: RepresentationId,
        ranges: &[ByteRange],
        mut sink: impl FnMut(Segment<'_>),
    ) {
        let boundary = self.boundary(id);
        for &range in ranges {
            for text in [
                b"\r\n--",
                &boundary[..],
                b"\r\nContent-Type: ",
                self.content_type(id),
                b"\r\nContent-Range: ",
                self.content_range(id, range).as_bytes(),
                b"\r\n\r\n",
            ] {
                sink(Segment::Text(text));
            }
            sink(Segment::Body(id, range));
        }
        for text in [b"\r\n--", &boundary[..], b"--\r\n"] {
            sink(Segment::Text(text));
        }
    }

    fn content_type(&self, id: RepresentationId) -> &[u8] {
        let file = self.index.representation(id).file;
        self.site().file(file).content_type.as_bytes()
    }

    /// `bytes 0-99/1000`
    fn content_range(&self, id: RepresentationId, range: ByteRange) -> FixedText<72> {
        let length = self.index.representation(id).length;
        let mut text = FixedText::new();
        text.push(b"bytes ")
            .push(Decimal::new(range.first).as_bytes())
            .push(b"-")
            .push(Decimal::new(range.end - 1).as_bytes())
            .push(b"/")
            .push(Decimal::new(length).as_bytes());
        text
    }

    /// A boundary that its content holds with a chance of less than 2^-64 an octet, because it is
    /// made from the content's own digest.
    fn boundary(&self, id: RepresentationId) -> [u8; BOUNDARY_LENGTH] {
        let etag = &self.index.representation(id).etag;
        let digits = &etag[1..17];
        let number = digits.iter().fold(0u64, |number, &digit| {
            number << 4 | u64::from((digit as char).to_digit(16).unwrap_or(0))
        });
        let mut boundary = [0; BOUNDARY_LENGTH];
        boundary[..BOUNDARY_WORD.len()].copy_from_slice(BOUNDARY_WORD);
        // Not the entity tag itself: a page may well quote that.
        let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        boundary[BOUNDARY_WORD.len()..].copy_from_slice(&hexadecimal(number));
        boundary
    }
}

impl Content {
    fn representation(&self) -> Option<RepresentationId> {
        match self {
            Content::Empty | Content::StatusText => None,
            Content::Unsatisfiable(id)
            | Content::NotModified(id)
            | Content::Whole(id)
            | Content::Part(id, _)
            | Content::Parts(id, _) => Some(*id),
        }
    }
}

fn is_on(on: Responses, answer: &Answer) -> bool {
    match answer.status.code() {
        200 | 204 => on.ok,
        206 => on.partial,
        304 => on.not_modified,
        _ => on.refusal,
    }
}
