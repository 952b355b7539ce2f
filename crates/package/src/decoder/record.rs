//! Reads the header and record heads of version 2.

use crate::layout::{
    self, ASCENDING, COUNTED, CRITICAL, DATED, FILE_FIXED, Fixed, KEPT, SIZED, long, word,
};
use crate::{Attributes, DecodeError, Entry, Limits, checks, name};

/// The values of a header.
pub(super) struct Header {
    pub(super) ascending: bool,
    pub(super) files: Option<u32>,
}

pub(super) fn header(bytes: &[u8], limits: &Limits) -> Result<Header, DecodeError> {
    if !layout::is_sealed(bytes) {
        return Err(DecodeError::HeaderDamaged);
    }
    let (flags, files) = (bytes[5], word(bytes, 8));
    let counted = flags & COUNTED != 0;
    if flags & !(ASCENDING | COUNTED) != 0 || bytes[6..8] != [0, 0] || !counted && files != 0 {
        return Err(DecodeError::Reserved);
    }
    if files > limits.files {
        return Err(DecodeError::TooManyFiles);
    }
    Ok(Header {
        ascending: flags & ASCENDING != 0,
        files: counted.then_some(files),
    })
}

/// Reads the fixed part of a file's record. The checksum follows later, so only values that exceed the memory limits
/// are refused here.
pub(super) fn fixed(bytes: &[u8], limits: &Limits) -> Result<Fixed, DecodeError> {
    let fixed = Fixed {
        flags: bytes[1],
        attributes: bytes[2],
        coding: bytes[3],
        name: usize::from(bytes[4]) << 8 | usize::from(bytes[5]),
        media_type: usize::from(bytes[6]),
        etag: usize::from(bytes[7]),
    };
    if fixed.name > limits.name_bytes {
        return Err(DecodeError::NameTooLong);
    }
    Ok(fixed)
}

/// Reads a complete head into `entry`.
pub(super) fn entry(
    fixed: Fixed,
    head: &[u8],
    limits: &Limits,
    entry: &mut Entry,
) -> Result<(), DecodeError> {
    if !layout::is_sealed(head) {
        return Err(DecodeError::RecordDamaged);
    }
    let flag = |flag: u8| fixed.flags & flag != 0;
    let attributes = Attributes::of_byte(fixed.attributes).ok_or(DecodeError::Reserved)?;
    if fixed.flags & !(CRITICAL | KEPT | SIZED | DATED) != 0 {
        return Err(DecodeError::Reserved);
    }
    let coding = layout::coding_of(fixed.coding).ok_or(DecodeError::UnknownCoding(fixed.coding))?;
    let mut rest = &head[FILE_FIXED..];
    let mut number = |present: bool| {
        present.then(|| {
            let number = long(rest, 0);
            rest = &rest[8..];
            number
        })
    };
    let size = number(flag(SIZED));
    let last_modified = number(flag(DATED));
    let (name, rest) = rest.split_at(fixed.name);
    let (media_type, rest) = rest.split_at(fixed.media_type);
    let etag = &rest[..fixed.etag];
    if size.is_some_and(|size| size > limits.file_bytes) {
        return Err(DecodeError::FileTooLarge);
    }
    entry.name.clear();
    entry.name.push_str(name::check(name)?);
    set(&mut entry.media_type, media_type)?;
    set(&mut entry.etag, etag)?;
    entry.last_modified = last_modified;
    if !checks::metadata_fits(entry) {
        return Err(DecodeError::Metadata);
    }
    entry.kept = flag(KEPT);
    if entry.kept && (size.is_some() || coding.is_some() || entry.etag.is_none()) {
        return Err(DecodeError::Kept);
    }
    entry.size = if entry.kept { Some(0) } else { size };
    entry.checksum = None;
    entry.coding = coding;
    entry.attributes = attributes;
    entry.critical = flag(CRITICAL);
    Ok(())
}

/// Sets a text, or `None` if it is empty. Reuses allocated memory.
fn set(text: &mut Option<String>, bytes: &[u8]) -> Result<(), DecodeError> {
    if bytes.is_empty() {
        *text = None;
        return Ok(());
    }
    let bytes = std::str::from_utf8(bytes).map_err(|_| DecodeError::Metadata)?;
    let text = text.get_or_insert_default();
    text.clear();
    text.push_str(bytes);
    Ok(())
}

/// Reads the number of files in the end record of a package.
pub(super) fn end(bytes: &[u8]) -> Result<u32, DecodeError> {
    if !layout::is_sealed(bytes) {
        return Err(DecodeError::RecordDamaged);
    }
    if bytes[1..4] != [0, 0, 0] {
        return Err(DecodeError::Reserved);
    }
    Ok(word(bytes, 4))
}
