//! The fields of one section: names and values in one reusable buffer.
//!
//! HPACK and QPACK decode into a [`FieldBlock`]; the HTTP/2 and HTTP/3 state machines read messages from it. A
//! block preserves order and repetition and does not validate: the protocol layer above decides whether a name is
//! allowed.

use fathometer_model::Bytes;

/// The fields of one section, in order, pseudo-header fields included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldBlock {
    /// All names and values, concatenated.
    text: Vec<u8>,
    fields: Vec<Span>,
}

/// The end positions of a field's name and value. A field starts where the previous field ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    name_end: u32,
    end: u32,
}

impl FieldBlock {
    /// Removes all fields but keeps the allocated memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.fields.clear();
    }

    /// Adds a field at the end.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.text.extend_from_slice(name);
        let name_end = self.text.len();
        self.text.extend_from_slice(value);
        self.end_field(name_end);
    }

    /// The number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.fields.iter().map(move |span| {
            let (name_end, end) = (span.name_end as usize, span.end as usize);
            let field = (&self.text[start..name_end], &self.text[name_end..end]);
            start = end;
            field
        })
    }

    /// The value of the first field with this name. Names are compared byte by byte, because HTTP/2 and HTTP/3
    /// names are in lower case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter()
            .find(|&(other, _)| other == name.as_bytes())
            .map(|(_, value)| value)
    }

    /// Bytes of all names and values: the size of the section before compression, as h2load and tshark count
    /// it.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.text.len() as u64)
    }

    /// The buffer. A decoder appends a name, then a value, then calls [`end_field`](Self::end_field).
    pub(crate) fn text_mut(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Makes a field of the bytes appended since the previous field; the new field's name ends at `name_end`.
    pub(crate) fn end_field(&mut self, name_end: usize) {
        // Section limits are far below 4 GiB; 32-bit positions halve the size of the list.
        let position = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        self.fields.push(Span {
            name_end: position(name_end),
            end: position(self.text.len()),
        });
    }

    /// Drops all bytes appended since the last complete field.
    pub(crate) fn abandon_field(&mut self) {
        let end = self.fields.last().map_or(0, |span| span.end as usize);
        self.text.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order_and_the_first_is_found() {
        let mut block = FieldBlock::default();
        block.push(b":status", b"200");
        block.push(b"set-cookie", b"a=1");
        block.push(b"set-cookie", b"");
        assert_eq!(block.len(), 3);
        assert_eq!(block.bytes(), Bytes(7 + 3 + 10 + 3 + 10));
        assert_eq!(block.get("set-cookie"), Some(&b"a=1"[..]));
        assert_eq!(block.get("Set-Cookie"), None);
        let fields: Vec<_> = block.iter().collect();
        assert_eq!(fields[2], (&b"set-cookie"[..], &b""[..]));
        block.clear();
        assert!(block.is_empty());
        assert_eq!(block.bytes(), Bytes(0));
        assert_eq!(block.iter().count(), 0);
    }

    #[test]
    fn an_abandoned_field_is_removed() {
        let mut block = FieldBlock::default();
        block.push(b"a", b"b");
        block.text_mut().extend_from_slice(b"half a na");
        block.abandon_field();
        block.push(b"c", b"d");
        assert_eq!(block.iter().nth(1), Some((&b"c"[..], &b"d"[..])));
        assert_eq!(block.bytes(), Bytes(4));
    }
}
