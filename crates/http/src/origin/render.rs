//! Writes answers: the fields in the order of the server persona, and the content in segments.

use super::date::DateText;
use super::persona::{FieldValue, Responses};
use super::ranges::ByteRange;
use super::text::{Decimal, FixedText, hexadecimal};
use super::{Answer, Content, Described, Origin, Selected, Status, Subject};

/// The receiver of response fields, in order. Each HTTP version writes the fields in its own format.
pub trait FieldSink {
    /// Writes a field.
    fn field(&mut self, name: &str, value: &[u8]);

    /// Marks the position of a connection-specific field. HTTP/1 writes the field there; later versions omit it.
    fn hop(&mut self, field: HopField, name: &str);
}

/// A connection-specific field (RFC 9110 section 7.6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HopField {
    /// `Connection`
    Connection,
    /// `Keep-Alive`
    KeepAlive,
}

/// A segment of content.
#[derive(Debug, Clone, Copy)]
pub enum Segment<'a> {
    /// Bytes to copy.
    Text(&'a [u8]),
    /// A range of a representation, by reference.
    Body(&'a Selected, ByteRange),
}

/// A segment of multipart content.
pub(super) enum PartOf<'a> {
    /// Text before and after parts.
    Text(&'a [u8]),
    /// A range of the represented content.
    Content(ByteRange),
}

/// Formatted dates, reused for later answers.
#[derive(Debug, Clone, Default)]
pub struct Dates {
    date: DateText,
    expires: DateText,
}

/// Whether the response has a modification time later than the time of sending.
fn is_modified_after(second: u64, answer: &Answer, described: Option<&Described<'_>>) -> bool {
    let modified = described.and_then(|of| of.validators.modified);
    !matches!(answer.content, Content::Unsatisfiable(_))
        && modified.is_some_and(|modified| modified.second > second)
}

/// The length of a multipart boundary: a word, and the hexadecimal digits of a digest.
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
        let described = answer
            .content
            .subject()
            .map(|subject| self.describe(subject));
        let has_ranges = answer
            .content
            .subject()
            .is_some_and(|subject| !subject.is_open());
        for field in &self.fields {
            let name = field.name.as_str();
            if !field.value.is_required() && !is_on(field.on, answer)
                || !has_ranges && field.announces_ranges()
            {
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
                // The modification time may be later than the server's clock. A response must not state such a time
                // (RFC 9110 section 8.8.2.1).
                FieldValue::LastModified
                    if is_modified_after(second, answer, described.as_ref()) =>
                {
                    sink.field(name, dates.date.at(second));
                }
                value => self.write_described(answer, described.as_ref(), name, value, sink),
            }
        }
        if let Some(place) = answer.dictionary
            && let Some(resource) = self.negotiation.dictionaries.get(usize::from(place))
        {
            // Only complete content can be used as a dictionary.
            if answer.status == Status::OK {
                sink.field("Use-As-Dictionary", resource.field().as_bytes());
            }
            // 206 and 304 responses have the same field as the 200 response (RFC 9110 sections 15.3.7 and 15.4.5).
            if matches!(answer.status.code(), 200 | 206 | 304)
                && let Some(seconds) = resource.max_age()
            {
                let mut text = FixedText::<32>::new();
                text.push(b"max-age=")
                    .push(Decimal::new(seconds).as_bytes());
                sink.field("Cache-Control", text.as_bytes());
            }
        }
    }

    /// Writes a field that depends on the content, if this answer has a value for it.
    fn write_described(
        &self,
        answer: &Answer,
        described: Option<&Described<'_>>,
        name: &str,
        value: &FieldValue,
        sink: &mut impl FieldSink,
    ) {
        match (value, &answer.content, described) {
            (FieldValue::ContentLength, ..) if answer.is_open() => {}
            (FieldValue::ContentLength, ..) if !answer.status.is_bodiless() => {
                sink.field(name, Decimal::new(answer.length).as_bytes());
            }
            (FieldValue::Allow, ..) => {
                if let Some(allow) = answer.allow {
                    sink.field(name, allow.as_bytes());
                }
            }
            (FieldValue::Location, ..) => {
                if let Some(location) = &answer.location {
                    match answer.status.code() {
                        301 => sink.field(name, location.as_bytes()),
                        200 | 206 | 304 => sink.field("Content-Location", location.as_bytes()),
                        _ => {}
                    }
                } else if let Some(base) = answer.content_location() {
                    sink.field("Content-Location", base.as_bytes());
                }
            }
            (FieldValue::ContentType, Content::StatusText | Content::Unsatisfiable(_), _) => {
                sink.field(name, b"text/plain");
            }
            (FieldValue::ContentRange, Content::Unsatisfiable(_), Some(of)) => {
                let mut text = FixedText::<32>::new();
                text.push(b"bytes */")
                    .push(Decimal::new(of.length).as_bytes());
                sink.field(name, text.as_bytes());
            }
            (FieldValue::Vary, _, of) => {
                if let Some(fields) = vary(answer, of) {
                    sink.field(name, fields.as_bytes());
                }
            }
            (_, Content::Unsatisfiable(_), _) => {}
            (FieldValue::LastModified, _, Some(of)) => {
                if let Some(modified) = of.validators.modified {
                    sink.field(name, modified.text);
                }
            }
            (FieldValue::ETag, _, Some(of)) if !of.validators.has_tag() => {}
            (FieldValue::ETag, _, Some(of)) if of.validators.weak => {
                let mut text = FixedText::<20>::new();
                text.push(b"W/").push(of.validators.etag);
                sink.field(name, text.as_bytes());
            }
            (FieldValue::ETag, _, Some(of)) => sink.field(name, of.validators.etag),
            (_, Content::NotModified(_), _) => {}
            (FieldValue::ContentType, Content::Parts(..), Some(of)) => {
                let mut text = FixedText::<64>::new();
                text.push(b"multipart/byteranges; boundary=")
                    .push(&boundary(of));
                sink.field(name, text.as_bytes());
            }
            (FieldValue::ContentType, _, Some(of)) => sink.field(name, of.content_type),
            (FieldValue::ContentEncoding, _, Some(of)) => {
                if let Some(coding) = of.coding {
                    sink.field(name, coding.token().as_bytes());
                }
            }
            (FieldValue::ContentRange, Content::Part(_, range), Some(of)) => {
                sink.field(name, content_range(of, *range).as_bytes());
            }
            _ => {}
        }
    }

    /// Writes the content of an answer in segments. Writes nothing if no content is sent, or if the content is a
    /// [flow](Origin::flow).
    pub fn write_content(&self, answer: &Answer, mut sink: impl FnMut(Segment<'_>)) {
        if answer.sent_length() == 0 || answer.flows() {
            return;
        }
        match &answer.content {
            Content::Empty
            | Content::NotModified(_)
            | Content::Flowing(_)
            | Content::Undecided(_) => {}
            Content::StatusText | Content::Unsatisfiable(_) => {
                sink(Segment::Text(answer.status.line().as_bytes()));
                sink(Segment::Text(b"\n"));
            }
            Content::Whole(subject) => {
                let end = answer.length;
                subject.write(ByteRange { first: 0, end }, sink);
            }
            Content::Part(subject, range) => subject.write(*range, sink),
            Content::Parts(subject, ranges) => {
                self.write_parts(subject, ranges.as_slice(), |part| match part {
                    PartOf::Text(text) => sink(Segment::Text(text)),
                    PartOf::Content(range) => subject.write(range, &mut sink),
                });
            }
        }
    }

    /// The size in bytes of the multipart content for these ranges.
    pub(super) fn parts_length(&self, subject: &Subject, ranges: &[ByteRange]) -> u64 {
        let mut length = 0;
        self.write_parts(subject, ranges, |part| {
            length += match part {
                PartOf::Text(text) => text.len() as u64,
                PartOf::Content(range) => range.length(),
            };
        });
        length
    }

    /// Writes the content of `multipart/byteranges` (RFC 9110 section 14.6).
    pub(super) fn write_parts(
        &self,
        subject: &Subject,
        ranges: &[ByteRange],
        mut sink: impl FnMut(PartOf<'_>),
    ) {
        let of = self.describe(subject);
        let boundary = boundary(&of);
        for &range in ranges {
            for text in [
                b"\r\n--",
                &boundary[..],
                b"\r\nContent-Type: ",
                of.content_type,
                b"\r\nContent-Range: ",
                content_range(&of, range).as_bytes(),
                b"\r\n\r\n",
            ] {
                sink(PartOf::Text(text));
            }
            sink(PartOf::Content(range));
        }
        for text in [b"\r\n--", &boundary[..], b"--\r\n"] {
            sink(PartOf::Text(text));
        }
    }
}

/// The value of `Content-Range`, such as `bytes 0-99/1000`.
fn content_range(of: &Described<'_>, range: ByteRange) -> FixedText<72> {
    let mut text = FixedText::new();
    text.push(b"bytes ")
        .push(Decimal::new(range.first).as_bytes())
        .push(b"-")
        .push(Decimal::new(range.end - 1).as_bytes())
        .push(b"/")
        .push(Decimal::new(of.length).as_bytes());
    text
}

/// Computes the boundary of multipart content. The probability that the content contains the boundary is below 2^-64
/// per byte. The boundary is derived from a digest of the content, or of data outside the content.
fn boundary(of: &Described<'_>) -> [u8; BOUNDARY_LENGTH] {
    let digits = &of.validators.etag[1..17];
    let number = digits.iter().fold(0u64, |number, &digit| {
        number << 4 | u64::from((digit as char).to_digit(16).unwrap_or(0))
    });
    let mut boundary = [0; BOUNDARY_LENGTH];
    boundary[..BOUNDARY_WORD.len()].copy_from_slice(BOUNDARY_WORD);
    // The entity tag itself is not suitable, because a page may contain the tag.
    let number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    boundary[BOUNDARY_WORD.len()..].copy_from_slice(&hexadecimal(number));
    boundary
}

impl Subject {
    /// Writes a range of the content in segments.
    fn write(&self, range: ByteRange, mut sink: impl FnMut(Segment<'_>)) {
        match self {
            Subject::File(selected) => sink(Segment::Body(selected, range)),
            Subject::Composed(composed) => composed.write(range, sink),
            Subject::Live(_) => {}
        }
    }

    /// Whether the content length is unknown until the content ends.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Subject::File(_) => false,
            Subject::Composed(composed) => composed.is_open(),
            Subject::Live(_) => true,
        }
    }

    /// Whether the content is generated during sending.
    fn flows(&self) -> bool {
        match self {
            Subject::File(_) => false,
            Subject::Composed(composed) => composed.recipe().is_some(),
            Subject::Live(_) => true,
        }
    }
}

impl Content {
    fn subject(&self) -> Option<&Subject> {
        match self {
            Content::Empty | Content::StatusText | Content::Undecided(_) => None,
            Content::Unsatisfiable(subject)
            | Content::NotModified(subject)
            | Content::Whole(subject)
            | Content::Part(subject, _)
            | Content::Parts(subject, _)
            | Content::Flowing(subject) => Some(subject),
        }
    }
}

impl Answer {
    /// Whether the content is generated during sending.
    fn flows(&self) -> bool {
        match &self.content {
            Content::Whole(subject)
            | Content::Part(subject, _)
            | Content::Parts(subject, _)
            | Content::Flowing(subject) => subject.flows(),
            Content::Empty
            | Content::StatusText
            | Content::Unsatisfiable(_)
            | Content::NotModified(_)
            | Content::Undecided(_) => false,
        }
    }

    /// The address of a package's page; `None` if it is the address of the request.
    fn content_location(&self) -> Option<&str> {
        match (&self.content, self.content.subject()?) {
            (Content::Unsatisfiable(_), _) => None,
            (_, Subject::Composed(composed)) if self.names_base => composed.base(),
            _ => None,
        }
    }
}

/// The value of `Vary`: the request fields that selected the representation.
fn vary(answer: &Answer, of: Option<&Described<'_>>) -> Option<FixedText<80>> {
    let varies = answer.varies;
    let (is_coded, by_have) = of.map_or((false, false), |of| (of.is_coded, of.by_have));
    // Without a representation, only negotiated answers depend on request fields.
    let by_accept = varies.accept || answer.negotiated && (of.is_some() || !varies.is_empty());
    let is_empty = !by_accept && !is_coded && varies.is_empty();
    if is_empty {
        return None;
    }
    let mut text = FixedText::new();
    for (name, is_named) in [
        ("Accept", by_accept),
        ("Accept-Encoding", is_coded || varies.accept_encoding),
        ("Available-Dictionary", varies.available_dictionary),
        ("Package-Have", by_accept && by_have),
    ] {
        if is_named {
            let comma: &[u8] = if text.as_bytes().is_empty() {
                b""
            } else {
                b", "
            };
            text.push(comma).push(name.as_bytes());
        }
    }
    Some(text)
}

fn is_on(on: Responses, answer: &Answer) -> bool {
    match answer.status.code() {
        200 | 204 => on.ok,
        206 => on.partial,
        304 => on.not_modified,
        _ => on.refusal,
    }
}
