//! The header and the table of version 1: names, sizes and attributes of all files.

use super::gather::Gather;
use crate::package::layout::{LEAST_ROW, Seals, long, word};
use crate::package::roll::Roll;
use crate::package::{Attributes, DecodeError, Entry, Limits, name};

/// The paper's management table, as it arrives and as it is used up.
#[derive(Debug)]
pub(super) struct Table {
    part: Part,
    seals: Seals,
    gather: Gather,
    checksum: crc32fast::Hasher,
    /// The checksum that the header tells.
    told: u32,
    /// Octets of the table that have not been read.
    left: u64,
    /// Octets of all contents that the sizes have not accounted for.
    contents: u64,
    files: Option<u32>,
    /// Each with its terminator.
    names: Vec<u8>,
    /// Names in it.
    named: u32,
    sizes: Vec<u32>,
    attributes: Vec<Attributes>,
    /// The file that is taken next, and the place of its name.
    next: usize,
    next_name: usize,
}

/// What of the table comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Count,
    Names { start: usize },
    Sizes,
    Attributes,
    Complete,
}

impl Table {
    /// Reads the header.
    pub(super) fn new(header: &[u8], seals: Seals, limits: &Limits) -> Result<Table, DecodeError> {
        if !seals.hold(header) {
            return Err(DecodeError::HeaderDamaged);
        }
        if header[5..8] != [0, 0, 0] {
            return Err(DecodeError::Reserved);
        }
        let length = u64::from(word(header, 8));
        // The count, and for each file a size and an attribute beside its name.
        let largest = 4 + limits.table_octets as u64 + 5 * limits.remembered_files as u64;
        if length > largest {
            return Err(DecodeError::TableTooLarge);
        }
        Ok(Table {
            part: Part::Count,
            seals,
            gather: Gather::default(),
            checksum: crc32fast::Hasher::new(),
            told: word(header, 12),
            left: length,
            contents: long(header, 16),
            files: None,
            names: Vec::new(),
            named: 0,
            sizes: Vec::new(),
            attributes: Vec::new(),
            next: 0,
            next_name: 0,
        })
    }

    /// The number of files, once it is known.
    pub(super) fn files(&self) -> Option<u32> {
        self.files
    }

    /// Takes octets from `input` up to the end of the count or of the table; whether the table is
    /// complete.
    pub(super) fn read(
        &mut self,
        input: &mut &[u8],
        roll: &mut Roll,
        limits: &Limits,
    ) -> Result<bool, DecodeError> {
        let files = self.files.unwrap_or_default();
        loop {
            match self.part {
                Part::Count => {
                    if !self.number(input)? {
                        return Ok(false);
                    }
                    let files = word(self.gather.octets(), 0);
                    self.gather.clear();
                    if files > limits.files || files as usize > limits.remembered_files {
                        return Err(DecodeError::TooManyFiles);
                    }
                    if u64::from(files) * LEAST_ROW > self.left {
                        return Err(DecodeError::WrongCount);
                    }
                    self.files = Some(files);
                    self.part = Part::Names { start: 0 };
                    return Ok(false);
                }
                Part::Names { start } => {
                    if self.named == files {
                        // What is left is known to be the fixed parts now.
                        if u64::from(files) * 5 != self.left {
                            return Err(DecodeError::WrongLength);
                        }
                        self.part = Part::Sizes;
                    } else if !self.name(start, input, roll, limits)? {
                        return Ok(false);
                    }
                }
                Part::Sizes => {
                    if self.sizes.len() == files as usize {
                        if self.contents != 0 {
                            return Err(DecodeError::WrongLength);
                        }
                        self.part = Part::Attributes;
                        continue;
                    }
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
                Part::Attributes => {
                    let missing = files as usize - self.attributes.len();
                    for &octet in self.take(missing, input)? {
                        let attributes = Attributes::of_octet(octet);
                        self.attributes
                            .push(attributes.ok_or(DecodeError::Reserved)?);
                    }
                    if self.attributes.len() < files as usize {
                        return Ok(false);
                    }
                    let computed = std::mem::take(&mut self.checksum).finalize();
                    if !self.seals.agree(self.told, computed) {
                        return Err(DecodeError::TableDamaged);
                    }
                    self.part = Part::Complete;
                }
                Part::Complete => return Ok(true),
            }
        }
    }

    /// Moves the next file into `entry`; whether there is one.
    pub(super) fn next(&mut self, entry: &mut Entry) -> bool {
        let (Some(&size), Some(&attributes)) =
            (self.sizes.get(self.next), self.attributes.get(self.next))
        else {
            return false;
        };
        let rest = &self.names[self.next_name..];
        let length = memchr::memchr(0, rest).unwrap_or(rest.len());
        entry.name.clear();
        // Checked when it was read.
        entry
            .name
            .push_str(&String::from_utf8_lossy(&rest[..length]));
        entry.size = Some(u64::from(size));
        entry.attributes = attributes;
        self.next += 1;
        self.next_name += length + 1;
        true
    }

    /// Collects the four octets of a number; whether they are there.
    fn number(&mut self, input: &mut &[u8]) -> Result<bool, DecodeError> {
        let missing = 4 - self.gather.octets().len();
        let mut taken = self.take(missing, input)?;
        Ok(self.gather.fill(&mut taken, 4))
    }

    /// Takes a part of the name that begins at `start`; whether it is complete.
    fn name(
        &mut self,
        start: usize,
        input: &mut &[u8],
        roll: &mut Roll,
        limits: &Limits,
    ) -> Result<bool, DecodeError> {
        let end = memchr::memchr(0, input);
        let so_far = self.names.len() - start;
        let length = end.unwrap_or(input.len());
        if so_far + length > limits.name_octets {
            return Err(DecodeError::NameTooLong);
        }
        if self.names.len() + length + 1 > limits.table_octets {
            return Err(DecodeError::TableTooLarge);
        }
        let taken = self.take(length + usize::from(end.is_some()), input)?;
        self.names.extend_from_slice(taken);
        if end.is_none() {
            return Ok(false);
        }
        let name = &self.names[start..self.names.len() - 1];
        roll.admit(name::check(name)?, false, limits)?;
        self.named += 1;
        self.part = Part::Names {
            start: self.names.len(),
        };
        Ok(true)
    }

    /// Takes as many octets of `input` as there are, at most `length`, as part of the table.
    fn take<'i>(&mut self, length: usize, input: &mut &'i [u8]) -> Result<&'i [u8], DecodeError> {
        let (taken, rest) = input.split_at(length.min(input.len()));
        let left = self.left.checked_sub(taken.len() as u64);
        self.left = left.ok_or(DecodeError::WrongLength)?;
        self.checksum.update(taken);
        *input = rest;
        Ok(taken)
    }
}
