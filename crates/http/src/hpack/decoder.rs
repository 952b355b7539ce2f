//! Decoding of field blocks into fields.

use super::section::Section;
use super::string::{self, Missing};
use super::table::Table;
use super::{DEFAULT_TABLE_SIZE, Error, integer, static_table};
use crate::field_block::FieldBlock;
use crate::huffman;

/// The decoder for one direction of a connection.
#[derive(Debug, Clone)]
pub struct Decoder {
    table: Table,
    /// The maximum table size that the peer may set, in bytes.
    limit: u64,
    /// Whether the next block must begin with a size update within the limit.
    size_update_due: bool,
    max_section: u64,
    generation: u64,
}

impl Decoder {
    /// Creates a decoder with these limits for its peer, as announced in settings (RFC 9113 section 6.5.2):
    ///
    /// - `max_table`: bytes of the dynamic table (SETTINGS_HEADER_TABLE_SIZE)
    /// - `max_section`: bytes of a field section, plus 32 for each field (SETTINGS_MAX_HEADER_LIST_SIZE)
    ///
    /// The table has 4096 bytes at first, even if a smaller size was announced, because the peer has not
    /// received the settings yet. [`set_table_limit`](Self::set_table_limit) applies the limit when the peer
    /// has acknowledged the settings.
    pub fn new(max_table: u32, max_section: u64) -> Decoder {
        Decoder {
            table: Table::new(u64::from(DEFAULT_TABLE_SIZE)),
            limit: u64::from(max_table),
            size_update_due: false,
            max_section,
            generation: 0,
        }
    }

    /// A number that changes whenever the table changes or its limit is set. While the number is the same, the
    /// same block decodes to the same fields.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Applies the SETTINGS_HEADER_TABLE_SIZE that the peer has acknowledged. If the peer's table is larger, the next
    /// block must begin with a size update (RFC 7541 section 4.2).
    pub fn set_table_limit(&mut self, limit: u32) {
        self.limit = u64::from(limit);
        self.size_update_due = self.table.capacity() > self.limit;
        self.generation += 1;
    }

    /// Decodes a block of joined fragments, and appends its fields to `into`.
    ///
    /// # Errors
    /// After [`Error::SectionTooLarge`] the table is valid, and `into` contains the fields that fitted. After
    /// any other error the decoder is unusable.
    pub fn decode(&mut self, block: &[u8], into: &mut FieldBlock) -> Result<(), Error> {
        let decoded = self.decode_block(block, into);
        if decoded.is_err() {
            // Removes the incomplete field at which decoding stopped.
            into.abandon_field();
        }
        decoded
    }

    fn decode_block(&mut self, block: &[u8], into: &mut FieldBlock) -> Result<(), Error> {
        let mut rest = block;
        while let Some(&first) = rest.first()
            && first & 0b1110_0000 == 0b0010_0000
        {
            let size = take_integer(&mut rest, 5)?;
            if size > self.limit {
                return Err(Error::TableTooLarge);
            }
            self.table.set_capacity(size);
            self.size_update_due = false;
            self.generation += 1;
        }
        if self.size_update_due {
            return Err(Error::MissingSizeUpdate);
        }
        let mut section = Section::new(into, self.max_section);
        while let Some(&first) = rest.first() {
            if first & 0b1000_0000 != 0 {
                let index = take_integer(&mut rest, 7)?;
                let (name, value) = self.entry(index)?;
                section.add(name, value);
                continue;
            }
            let (prefix, is_inserted) = match first & 0b1110_0000 {
                0b0100_0000 | 0b0110_0000 => (6, true),
                0b0010_0000 => return Err(Error::LateSizeUpdate),
                _ => (4, false),
            };
            let text = section.text_mut();
            let start = text.len();
            match take_integer(&mut rest, prefix)? {
                0 => take_string(&mut rest, text)?,
                index => text.extend_from_slice(self.entry(index)?.0),
            }
            let name_end = text.len();
            take_string(&mut rest, text)?;
            if is_inserted {
                let (name, value) = text[start..].split_at(name_end - start);
                self.table.insert(name, value);
                self.generation += 1;
            }
            section.end_field(start, name_end);
        }
        if section.is_too_large() {
            Err(Error::SectionTooLarge)
        } else {
            Ok(())
        }
    }

    /// Returns the entry at an index into the static table and the dynamic table.
    fn entry(&self, index: u64) -> Result<(&[u8], &[u8]), Error> {
        let place = index.checked_sub(1).ok_or(Error::UnknownIndex)?;
        if let Some((name, value)) = static_table::FIELDS.field(place as usize)
            && place < static_table::LENGTH
        {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        let back = place - static_table::LENGTH;
        self.table
            .inserted()
            .checked_sub(back + 1)
            .and_then(|number| self.table.entry(number))
            .ok_or(Error::UnknownIndex)
    }
}

fn take_integer(input: &mut &[u8], prefix: u32) -> Result<u64, Error> {
    match integer::decode(input, prefix) {
        Ok(Some((value, length))) => {
            *input = &input[length..];
            Ok(value)
        }
        Ok(None) => Err(Error::Truncated),
        Err(integer::TooLarge) => Err(Error::IntegerTooLarge),
    }
}

fn take_string(input: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let (text, length) = string::read(input, 7).map_err(|missing| match missing {
        Missing::Length | Missing::Bytes(_) => Error::Truncated,
        Missing::TooLong => Error::IntegerTooLarge,
    })?;
    *input = &input[length..];
    text.append_to(out)
        .map_err(|huffman::Invalid| Error::BadHuffman)
}
