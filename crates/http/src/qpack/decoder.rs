//! Decoding of encoder instructions and field sections into fields.

use super::{Error, Fault, most_entries, static_table};
use crate::field_block::FieldBlock;
use crate::hpack::integer;
use crate::hpack::section::Section;
use crate::hpack::string::{self, Missing, Written};
use crate::hpack::table::{Table, entry_size};
use crate::huffman;

/// The result of decoding a field section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// The fields of the section were appended.
    Fields,
    /// The section needs entries that have not arrived. When they have arrived, [`Decoder::unblocked`] returns
    /// the section's stream, and the section must be decoded again.
    Blocked,
}

/// The decoder for one direction of a connection.
#[derive(Debug, Clone)]
pub struct Decoder {
    table: Table,
    /// The maximum table capacity that the peer may set, in bytes.
    max_capacity: u64,
    max_section: u64,
    max_blocked: usize,
    /// Blocked streams, each with the required insert count of its section.
    blocked: Vec<(u64, u64)>,
    /// The number of entries that were acknowledged to the peer.
    known: u64,
    /// An incomplete instruction.
    partial: Vec<u8>,
    /// Acknowledgements and cancellations for the peer.
    instructions: Vec<u8>,
    /// The entry that is being inserted.
    entry: Vec<u8>,
}

impl Decoder {
    /// Creates a decoder with these limits for its peer, as announced in settings:
    ///
    /// - `max_capacity`: bytes of the dynamic table (SETTINGS_QPACK_MAX_TABLE_CAPACITY)
    /// - `max_blocked`: number of blocked streams (SETTINGS_QPACK_BLOCKED_STREAMS)
    /// - `max_section`: bytes of a field section, plus 32 for each field (SETTINGS_MAX_FIELD_SECTION_SIZE)
    pub fn new(max_capacity: u32, max_blocked: u16, max_section: u64) -> Decoder {
        Decoder {
            table: Table::new(0),
            max_capacity: u64::from(max_capacity),
            max_section,
            max_blocked: usize::from(max_blocked),
            blocked: Vec::new(),
            known: 0,
            partial: Vec::new(),
            instructions: Vec::new(),
            entry: Vec::new(),
        }
    }

    /// Reads bytes of the peer's encoder stream and carries out their instructions. The bytes may be split
    /// anywhere.
    ///
    /// # Errors
    /// Every error must close the connection.
    pub fn handle_instructions(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.partial.is_empty() {
            let used = self.follow(bytes, false)?;
            self.partial.extend_from_slice(&bytes[used..]);
        } else {
            let mut partial = std::mem::take(&mut self.partial);
            partial.extend_from_slice(bytes);
            let used = self.follow(&partial, false)?;
            partial.drain(..used);
            self.partial = partial;
        }
        Ok(())
    }

    /// Stores bytes of the peer's encoder stream for [`follow_on`](Self::follow_on). The bytes may be split
    /// anywhere.
    pub fn take_instructions(&mut self, bytes: &[u8]) {
        self.partial.extend_from_slice(bytes);
    }

    /// Carries out stored instructions until a blocked stream can continue. Returns whether a stream can
    /// continue. If the caller reads that stream before the next instruction, the result does not depend on how
    /// the bytes were split.
    ///
    /// # Errors
    /// Every error must close the connection.
    pub fn follow_on(&mut self) -> Result<bool, Error> {
        let mut partial = std::mem::take(&mut self.partial);
        let used = self.follow(&partial, true)?;
        partial.drain(..used);
        self.partial = partial;
        Ok(self.can_go_on())
    }

    /// Decodes a complete field section of a stream, and appends its fields to `into`.
    ///
    /// # Errors
    /// After [`Error::SectionTooLarge`] the connection continues, and `into` contains the fields that fitted.
    pub fn decode(
        &mut self,
        stream: u64,
        section: &[u8],
        into: &mut FieldBlock,
    ) -> Result<Decoded, Error> {
        let mut input = section;
        let (required, base) = self.prefix(&mut input).map_err(Error::Section)?;
        if required > self.table.inserted() {
            return self.block(stream, required);
        }
        let mut section = Section::new(into, self.max_section);
        while !input.is_empty() {
            self.line(&mut input, required, base, &mut section)
                .map_err(Error::Section)?;
        }
        if required > 0 {
            integer::encode(stream, 7, 0b1000_0000, &mut self.instructions);
            self.known = self.known.max(required);
        }
        if section.is_too_large() {
            Err(Error::SectionTooLarge)
        } else {
            Ok(Decoded::Fields)
        }
    }

    /// Takes the next stream whose section is no longer blocked. Each stream is returned once. The stream with the
    /// lowest required insert count comes first, as if entries had arrived one at a time.
    pub fn unblocked(&mut self) -> Option<u64> {
        let streams = self.blocked.iter().enumerate();
        let (place, &(_, required)) = streams.min_by_key(|&(_, &(_, required))| required)?;
        (required <= self.table.inserted()).then(|| self.blocked.remove(place).0)
    }

    /// The number of blocked streams.
    pub fn blocked(&self) -> usize {
        self.blocked.len()
    }

    /// Notes that a stream will not be read further: its sections will not be acknowledged.
    pub fn cancel(&mut self, stream: u64) {
        self.blocked.retain(|&(other, _)| other != stream);
        if self.max_capacity > 0 {
            integer::encode(stream, 6, 0b0100_0000, &mut self.instructions);
        }
    }

    /// Whether there are instructions for the peer's encoder.
    pub fn has_instructions(&self) -> bool {
        !self.instructions.is_empty() || self.known < self.table.inserted()
    }

    /// Appends the instructions for the peer's encoder.
    pub fn write_instructions(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.instructions);
        let arrived = self.table.inserted() - self.known;
        if arrived > 0 {
            integer::encode(arrived, 6, 0, out);
            self.known += arrived;
        }
    }

    fn can_go_on(&self) -> bool {
        let arrived = self.table.inserted();
        self.blocked
            .iter()
            .any(|&(_, required)| required <= arrived)
    }

    /// Carries out the complete instructions at the start of `input`. With `to_unblocked`, stops when a blocked
    /// stream can continue. Returns the number of bytes read.
    fn follow(&mut self, input: &[u8], to_unblocked: bool) -> Result<usize, Error> {
        let mut rest = input;
        loop {
            let before = rest;
            match self.instruction(&mut rest) {
                Ok(()) if rest.is_empty() => return Ok(input.len()),
                Ok(()) if to_unblocked && self.can_go_on() => return Ok(input.len() - rest.len()),
                Ok(()) => {}
                Err(Fault::Truncated) => return Ok(input.len() - before.len()),
                Err(fault) => return Err(Error::EncoderStream(fault)),
            }
        }
    }

    /// Carries out one encoder instruction (RFC 9204 section 4.3).
    fn instruction(&mut self, input: &mut &[u8]) -> Result<(), Fault> {
        let Some(&first) = input.first() else {
            return Ok(());
        };
        if first & 0b1000_0000 != 0 {
            let mut rest = *input;
            let index = take_integer(&mut rest, 6)?;
            let value = self.take_entry_string(&mut rest, 7)?;
            self.entry.clear();
            let name = if first & 0b0100_0000 != 0 {
                static_field(index)?.0
            } else {
                entry(&self.table, self.relative(index)?)?.0
            };
            self.entry.extend_from_slice(name);
            let name_end = self.entry.len();
            append(value, &mut self.entry)?;
            self.insert(name_end)?;
            *input = rest;
        } else if first & 0b0100_0000 != 0 {
            let mut rest = *input;
            let name = self.take_entry_string(&mut rest, 5)?;
            let value = self.take_entry_string(&mut rest, 7)?;
            self.entry.clear();
            append(name, &mut self.entry)?;
            let name_end = self.entry.len();
            append(value, &mut self.entry)?;
            self.insert(name_end)?;
            *input = rest;
        } else if first & 0b0010_0000 != 0 {
            let capacity = take_integer(input, 5)?;
            if capacity > self.max_capacity {
                return Err(Fault::TableTooLarge);
            }
            self.table.set_capacity(capacity);
        } else {
            let index = take_integer(input, 5)?;
            let (name, value) = entry(&self.table, self.relative(index)?)?;
            self.entry.clear();
            self.entry.extend_from_slice(name);
            self.entry.extend_from_slice(value);
            let name_end = name.len();
            self.insert(name_end)?;
        }
        Ok(())
    }

    /// Inserts `entry`, whose name ends at `name_end`.
    fn insert(&mut self, name_end: usize) -> Result<(), Fault> {
        let (name, value) = self.entry.split_at(name_end);
        if entry_size(name, value) > self.table.capacity() {
            return Err(Fault::EntryTooLarge);
        }
        self.table.insert(name, value);
        Ok(())
    }

    /// Reads a string of an entry. The limit on the string's length bounds the bytes that an incomplete
    /// instruction buffers.
    fn take_entry_string<'a>(
        &self,
        input: &mut &'a [u8],
        prefix: u32,
    ) -> Result<Written<'a>, Fault> {
        // A Huffman code has at most 30 bits per byte of text. Complete and incomplete strings have the same
        // limit.
        let most = 4 * self.table.capacity();
        match string::read(input, prefix) {
            Ok((written, _)) if written.length() > most => Err(Fault::EntryTooLarge),
            Ok((written, length)) => {
                *input = &input[length..];
                Ok(written)
            }
            Err(Missing::Bytes(length)) if length > most => Err(Fault::EntryTooLarge),
            Err(Missing::Bytes(_) | Missing::Length) => Err(Fault::Truncated),
            Err(Missing::TooLong) => Err(Fault::IntegerTooLarge),
        }
    }

    /// Converts an index relative to the newest entry to the absolute number of the entry.
    fn relative(&self, index: u64) -> Result<u64, Fault> {
        self.table
            .inserted()
            .checked_sub(index + 1)
            .ok_or(Fault::UnknownIndex)
    }

    /// Reads the prefix of a field section: the required insert count and the base (RFC 9204 section 4.5.1).
    fn prefix(&self, input: &mut &[u8]) -> Result<(u64, u64), Fault> {
        let encoded = take_integer(input, 8)?;
        let negative = input.first().is_some_and(|&first| first & 0b1000_0000 != 0);
        let delta = take_integer(input, 7)?;
        let required = self.required(encoded)?;
        let base = if negative {
            required.checked_sub(delta + 1)
        } else {
            required.checked_add(delta)
        };
        Ok((required, base.ok_or(Fault::BadPrefix)?))
    }

    fn required(&self, encoded: u64) -> Result<u64, Fault> {
        if encoded == 0 {
            return Ok(0);
        }
        let entries = most_entries(self.max_capacity);
        let range = 2 * entries;
        if encoded > range {
            return Err(Fault::BadPrefix);
        }
        let most = self.table.inserted() + entries;
        let wrapped = most / range * range;
        let mut required = wrapped + encoded - 1;
        if required > most {
            if required <= range {
                return Err(Fault::BadPrefix);
            }
            required -= range;
        }
        if required == 0 {
            return Err(Fault::BadPrefix);
        }
        Ok(required)
    }

    fn block(&mut self, stream: u64, required: u64) -> Result<Decoded, Error> {
        if let Some(place) = self.blocked.iter_mut().find(|(other, _)| *other == stream) {
            place.1 = required;
        } else if self.blocked.len() < self.max_blocked {
            self.blocked.push((stream, required));
        } else {
            return Err(Error::Section(Fault::TooManyBlocked));
        }
        Ok(Decoded::Blocked)
    }

    /// Reads one field line (RFC 9204 sections 4.5.2 to 4.5.6).
    fn line(
        &self,
        input: &mut &[u8],
        required: u64,
        base: u64,
        section: &mut Section<'_>,
    ) -> Result<(), Fault> {
        let first = input[0];
        let before_base = |index: u64| base.checked_sub(index + 1);
        let after_base = |index: u64| base.checked_add(index);
        let dynamic = |number: Option<u64>| {
            let number = number.filter(|&number| number < required);
            entry(&self.table, number.ok_or(Fault::UnknownIndex)?)
        };
        if first & 0b1000_0000 != 0 {
            let index = take_integer(input, 6)?;
            let (name, value) = match first & 0b0100_0000 {
                0 => dynamic(before_base(index))?,
                _ => static_field(index)?,
            };
            section.add(name, value);
            return Ok(());
        }
        if first & 0b1111_0000 == 0b0001_0000 {
            let (name, value) = dynamic(after_base(take_integer(input, 4)?))?;
            section.add(name, value);
            return Ok(());
        }
        let start = section.text_mut().len();
        if first & 0b1100_0000 == 0b0100_0000 {
            let index = take_integer(input, 4)?;
            let (name, _) = match first & 0b0001_0000 {
                0 => dynamic(before_base(index))?,
                _ => static_field(index)?,
            };
            section.text_mut().extend_from_slice(name);
        } else if first & 0b1110_0000 == 0b0010_0000 {
            append(take_string(input, 3)?, section.text_mut())?;
        } else {
            let (name, _) = dynamic(after_base(take_integer(input, 3)?))?;
            section.text_mut().extend_from_slice(name);
        }
        let name_end = section.text_mut().len();
        append(take_string(input, 7)?, section.text_mut())?;
        section.end_field(start, name_end);
        Ok(())
    }
}

fn entry(table: &Table, number: u64) -> Result<(&[u8], &[u8]), Fault> {
    table.entry(number).ok_or(Fault::UnknownIndex)
}

fn static_field(index: u64) -> Result<(&'static [u8], &'static [u8]), Fault> {
    usize::try_from(index)
        .ok()
        .and_then(|place| static_table::FIELDS.field(place))
        .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
        .ok_or(Fault::UnknownIndex)
}

fn take_integer(input: &mut &[u8], prefix: u32) -> Result<u64, Fault> {
    match integer::decode(input, prefix) {
        Ok(Some((value, length))) => {
            *input = &input[length..];
            Ok(value)
        }
        Ok(None) => Err(Fault::Truncated),
        Err(integer::TooLarge) => Err(Fault::IntegerTooLarge),
    }
}

fn take_string<'a>(input: &mut &'a [u8], prefix: u32) -> Result<Written<'a>, Fault> {
    match string::read(input, prefix) {
        Ok((written, length)) => {
            *input = &input[length..];
            Ok(written)
        }
        Err(Missing::Bytes(_) | Missing::Length) => Err(Fault::Truncated),
        Err(Missing::TooLong) => Err(Fault::IntegerTooLarge),
    }
}

fn append(written: Written<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    written
        .append_to(out)
        .map_err(|huffman::Invalid| Fault::BadHuffman)
}
