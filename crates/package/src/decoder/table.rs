//! Reads the header and the table of version 1: names, sizes and attributes of all files.

use crate::layout::{self, LEAST_ROW, long, word};
use crate::roll::SeenNames;
use crate::{Attributes, DecodeError, Entry, Limits, name};

/// The length of the number of files, which precedes the names.
const COUNT: usize = 4;
/// The length of a file's size and attributes.
const ROW_END: usize = 4 + 1;

/// The paper's management table. The decoder first collects it, then checks it as a whole, then reads it file by file.
#[derive(Debug)]
pub(super) struct Table {
    /// The bytes collected until now.
    bytes: Vec<u8>,
    /// The length and the checksum of the table, and the length of all contents, as stated in the header.
    length: usize,
    checksum: u32,
    contents: u64,
    files: usize,
    /// The file that is returned next, and the position of its name.
    next: usize,
    next_name: usize,
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
        let length = word(header, 8) as usize;
        let largest = COUNT + limits.table_bytes + ROW_END * limits.remembered_files;
        if length > largest {
            return Err(DecodeError::TableTooLarge);
        }
        Ok(Table {
            bytes: Vec::new(),
            length,
            checksum: word(header, 12),
            contents: long(header, 16),
            files: 0,
            next: 0,
            next_name: COUNT,
        })
    }

    /// Takes bytes from `input` up to the end of the table. Returns whether the table is complete and valid.
    pub(super) fn read(
        &mut self,
        input: &mut &[u8],
        roll: &mut SeenNames,
        limits: &Limits,
    ) -> Result<bool, DecodeError> {
        let missing = self.length - self.bytes.len();
        let (taken, rest) = input.split_at(missing.min(input.len()));
        if taken.len() > self.bytes.capacity() - self.bytes.len() {
            // Doubles the memory, up to the stated length.
            let more = taken.len().max(self.bytes.len()).min(missing);
            self.bytes.reserve_exact(more);
        }
        self.bytes.extend_from_slice(taken);
        *input = rest;
        if self.bytes.len() < self.length {
            return Ok(false);
        }
        self.check(roll, limits)?;
        Ok(true)
    }

    /// Checks the complete table. The checksum is first: it shows whether an error was caused by damage or by the
    /// writer.
    fn check(&mut self, roll: &mut SeenNames, limits: &Limits) -> Result<(), DecodeError> {
        let bytes = &self.bytes[..];
        if !layout::agree(self.checksum, crc32fast::hash(bytes)) {
            return Err(DecodeError::TableDamaged);
        }
        let Some((count, rows)) = bytes.split_first_chunk::<COUNT>() else {
            return Err(DecodeError::WrongCount);
        };
        let count = u32::from_be_bytes(*count);
        if u64::from(count) * LEAST_ROW > rows.len() as u64 {
            return Err(DecodeError::WrongCount);
        }
        self.files = count as usize;
        if count > limits.files || self.files > limits.remembered_files {
            return Err(DecodeError::TooManyFiles);
        }
        let (mut names, ends) = rows.split_at(rows.len() - ROW_END * self.files);
        if names.len() > limits.table_bytes {
            return Err(DecodeError::TableTooLarge);
        }
        for _ in 0..self.files {
            let end = memchr::memchr(0, names).ok_or(DecodeError::WrongLength)?;
            if end > limits.name_bytes {
                return Err(DecodeError::NameTooLong);
            }
            roll.admit(name::check(&names[..end])?, false, limits)?;
            names = &names[end + 1..];
        }
        let (sizes, attributes) = ends.split_at(4 * self.files);
        let sizes = sizes.chunks(4).map(|size| u64::from(word(size, 0)));
        if !names.is_empty() || sizes.clone().sum::<u64>() != self.contents {
            return Err(DecodeError::WrongLength);
        }
        if sizes.max().unwrap_or_default() > limits.file_bytes {
            return Err(DecodeError::FileTooLarge);
        }
        match attributes
            .iter()
            .all(|&bits| Attributes::of_byte(bits).is_some())
        {
            true => Ok(()),
            false => Err(DecodeError::Reserved),
        }
    }

    /// Moves the next file of the checked table into `entry`. Returns whether there was a file.
    pub(super) fn next(&mut self, entry: &mut Entry) -> bool {
        if self.next == self.files {
            return false;
        }
        let ends = &self.bytes[self.length - ROW_END * self.files..];
        let rest = &self.bytes[self.next_name..];
        let length = memchr::memchr(0, rest).unwrap_or(rest.len());
        entry.name.clear();
        entry
            .name
            .push_str(&String::from_utf8_lossy(&rest[..length]));
        entry.size = Some(u64::from(word(ends, 4 * self.next)));
        entry.attributes =
            Attributes::of_byte(ends[4 * self.files + self.next]).unwrap_or_default();
        self.next += 1;
        self.next_name += length + 1;
        true
    }
}
