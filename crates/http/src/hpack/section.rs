//! A field section while it is being decoded.

use super::table::ENTRY_OVERHEAD;
use crate::field_block::FieldBlock;

/// The field section that is being decoded. Fields beyond its size limit are dropped.
pub(crate) struct Section<'a> {
    into: &'a mut FieldBlock,
    size: u64,
    most: u64,
}

impl<'a> Section<'a> {
    /// Creates a field section of at most `most` bytes, counted as for SETTINGS_MAX_HEADER_LIST_SIZE, that is appended
    /// to `into`.
    pub fn new(into: &'a mut FieldBlock, most: u64) -> Section<'a> {
        Section {
            into,
            size: 0,
            most,
        }
    }

    /// The buffer to which the text of the next field is appended, before [`end_field`](Self::end_field).
    pub fn text_mut(&mut self) -> &mut Vec<u8> {
        self.into.text_mut()
    }

    /// Adds a field from a table.
    pub fn add(&mut self, name: &[u8], value: &[u8]) {
        self.size += name.len() as u64 + value.len() as u64 + ENTRY_OVERHEAD;
        if self.size <= self.most {
            self.into.push(name, value);
        }
    }

    /// Adds the field whose text was appended from `start` on.
    pub fn end_field(&mut self, start: usize, name_end: usize) {
        let length = self.into.text_mut().len() - start;
        self.size += length as u64 + ENTRY_OVERHEAD;
        if self.size <= self.most {
            self.into.end_field(name_end);
        } else {
            self.into.abandon_field();
        }
    }

    /// Whether a field did not fit.
    pub fn is_too_large(&self) -> bool {
        self.size > self.most
    }
}
