//! The header and the table of version 1: names, sizes and attributes of all files.

use super::gather::Gather;
use crate::layout::{self, LEAST_ROW, long, word};
use crate::roll::Roll;
use crate::{Attributes, Class, DecodeError, Entry, Limits, name};

/// The paper's management table: first filled as it arrives, then consumed file by file.
#[derive(Debug)]
pub(super) struct Table {
    part: Part,
    gather: Gather,
    checksum: crc32fast::Hasher,
    /// The checksum in the header.
    told: u32,
    /// Bytes of the table that have not been read.
    left: u64,
    /// Bytes of all contents that are not covered by the sizes read so far.
    contents: u64,
    files: u32,
    /// Names, each with its terminator.
    names: Vec<u8>,
    sizes: Vec<u32>,
    attributes: Vec<Attributes>,
    /// The file that is returned next, and the position of its name.
    next: usize,
    next_name: usize,
}

/// The next part of the table to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Count,
    Names {
        start: usize,
    },
    Sizes,
    Attributes,
    Complete,
    /// A fault was found. The rest is read to verify its checksum, which shows whether the table was written
    /// like this or was damaged.
    Refused(DecodeError),
}

impl Table {
    /// Reads the header.
    pub(super) fn new(header: &[u8], limits: &Limits) -> Result<Table, DecodeError> {
        if !layout::is_sealed(header) {
            return Err(DecodeError::HeaderDamaged);
        }
        if header[5..8] != [0, 0, 0] {
            return Err(DecodeError::Reserved);
        }
        let length = u64::from(word(header, 8));
        // The count, and for each file a size and an attribute byte in addition to its name.
        let largest = 4 + limits.table_octets as u64 + 5 * limits.remembered_files as u64;
        if length > largest {
            return Err(DecodeError::TableTooLarge);
        }
        Ok(Table {
            part: Part::Count,
            gather: Gather::default(),
            checksum: crc32fast::Hasher::new(),
            told: word(header, 12),
            left: length,
            contents: long(header, 16),
            files: 0,
            names: Vec::new(),
            sizes: Vec::new(),
            attributes: Vec::new(),
            next: 0,
            next_name: 0,
        })
    }

    /// Takes bytes from `input` up to the end of the table; returns whether the table is complete.
    pub(super) fn read(
        &mut self,
        input: &mut &[u8],
        roll: &mut Roll,
        limits: &Limits,
    ) -> Result<bool, DecodeError> {
        loop {
            match self.part {
                Part::Complete => return Ok(true),
                Part::Refused(fault) => {
                    let left = usize::try_from(self.left).unwrap_or(usize::MAX);
                    self.take(left, input)?;
                    if self.left > 0 {
                        return Ok(false);
                    }
                    return Err(match self.is_damaged() {
                        true => DecodeError::TableDamaged,
                        false => fault,
                    });
                }
                _ => match self.step(input, roll, limits) {
                    Ok(true) => {}
                    Ok(false) => return Ok(false),
                    Err(fault) if fault.class() == Class::Malformed => {
                        self.part = Part::Refused(fault);
                    }
                    Err(fault) => return Err(fault),
                },
            }
        }
    }

    /// Takes bytes of the current part; returns whether the part made progress to the next step.
    fn step(
        &mut self,
        input: &mut &[u8],
        roll: &mut Roll,
        limits: &Limits,
    ) -> Result<bool, DecodeError> {
        match self.part {
            Part::Count => {
                if !self.number(input)? {
                    return Ok(false);
                }
                self.files = word(self.gather.octets(), 0);
                self.gather.clear();
                if u64::from(self.files) * LEAST_ROW > self.left {
                    return Err(DecodeError::WrongCount);
                }
                if self.files > limits.files || self.files as usize > limits.remembered_files {
                    return Err(DecodeError::TooManyFiles);
                }
                self.part = Part::Names { start: 0 };
            }
            Part::Names { start } if roll.files() < self.files => {
                if !self.name(start, input, roll, limits)? {
                    return Ok(false);
                }
            }
            Part::Names { .. } => {
                // The length of the remaining parts is known now.
                if u64::from(self.files) * 5 != self.left {
                    return Err(DecodeError::WrongLength);
                }
                self.part = Part::Sizes;
            }
            Part::Sizes if self.sizes.len() < self.files as usize => {
                if !self.number(input)? {
                    return Ok(false);
                }
                let size = word(self.gather.octets(), 0);
                self.gather.clear();
                if u64::from(size) > limits.file_octets {
                    return Err(DecodeError::FileTooLarge);
                }
                let contents = self.contents.checked_sub(u64::from(size));
                self.contents = contents.ok_or(DecodeError::WrongLength)?;
                self.sizes.push(size);
            }
            Part::Sizes => {
                if self.contents != 0 {
                    return Err(DecodeError::WrongLength);
                }
                self.part = Part::Attributes;
            }
            Part::Attributes => {
                let missing = self.files as usize - self.attributes.len();
                for &octet in self.take(missing, input)? {
                    let attributes = Attributes::of_octet(octet).ok_or(DecodeError::Reserved)?;
                    self.attributes.push(attributes);
                }
                if self.attributes.len() < self.files as usize {
                    return Ok(false);
                }
                if self.is_damaged() {
                    return Err(DecodeError::TableDamaged);
                }
                self.part = Part::Complete;
            }
            Part::Complete | Part::Refused(_) => {}
        }
        Ok(true)
    }

    /// Whether the table does not match the checksum in the header.
    fn is_damaged(&mut self) -> bool {
        let computed = std::mem::take(&mut self.checksum).finalize();
        !layout::agree(self.told, computed)
    }

    /// Moves the next file into `entry`; returns whether there was one.
    pub(super) fn next(&mut self, entry: &mut Entry) -> bool {
        let (Some(&size), Some(&attributes)) =
            (self.sizes.get(self.next), self.attributes.get(self.next))
        else {
            return false;
        };
        let rest = &self.names[self.next_name..];
        let length = memchr::memchr(0, rest).unwrap_or(rest.len());
        entry.name.clear();
        // The name was checked when it was read.
        entry
            .name
            .push_str(&String::from_utf8_lossy(&rest[..length]));
        entry.size = Some(u64::from(size));
        entry.attributes = attributes;
        self.next += 1;
        self.next_name += length + 1;
        true
    }

    /// Collects the four bytes of a number; returns whether they are complete.
    fn number(&mut self, input: &mut &[u8]) -> Result<bool, DecodeError> {
        let missing = 4 - self.gather.octets().len();
        let mut taken = self.take(missing, input)?;
        Ok(self.gather.fill(&mut taken, 4))
    }

    /// Takes a part of the name that begins at `start`; returns whether it is complete.
    fn name(
        &mut self,
        start: usize,
        input: &mut &[u8],
        roll: &mut Roll,
        limits: &Limits,
    ) -> Result<bool, DecodeError> {
        if input.is_empty() {
            return Ok(false);
        }
        let end = memchr::memchr(0, input);
        let length = end.unwrap_or(input.len());
        // The fault depends on the first byte above a bound, and not on how many bytes have arrived.
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let mut nearest = (
            DecodeError::NameTooLong,
            start.saturating_add(limits.name_octets),
        );
        for (fault, bound) in [
            (
                DecodeError::TableTooLarge,
                limits.table_octets.saturating_sub(1),
            ),
            (
                DecodeError::WrongLength,
                self.names.len().saturating_add(left),
            ),
        ] {
            if bound < nearest.1 {
                nearest = (fault, bound);
            }
        }
        if self.names.len() + length > nearest.1 {
            return Err(nearest.0);
        }
        let taken = self.take(length + usize::from(end.is_some()), input)?;
        self.names.extend_from_slice(taken);
        if end.is_none() {
            return Ok(false);
        }
        let name = &self.names[start..self.names.len() - 1];
        roll.admit(name::check(name)?, false, limits)?;
        self.part = Part::Names {
            start: self.names.len(),
        };
        Ok(true)
    }

    /// Takes at most `length` bytes of `input` as a part of the table.
    fn take<'i>(&mut self, length: usize, input: &mut &'i [u8]) -> Result<&'i [u8], DecodeError> {
        let (taken, rest) = input.split_at(length.min(input.len()));
        let left = self.left.checked_sub(taken.len() as u64);
        self.left = left.ok_or(DecodeError::WrongLength)?;
        self.checksum.update(taken);
        *input = rest;
        Ok(taken)
    }
}
