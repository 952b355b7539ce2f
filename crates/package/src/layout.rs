//! Defines the layout of packages, and writes headers and record heads. All numbers are in network byte order.

use fathometer_model::ContentCoding;

use super::{Entry, Version};

/// The first bytes of every package.
pub(super) const MAGIC: [u8; 4] = *b"OBJP";
/// The length of the identification: the magic bytes and the version.
pub(super) const IDENTIFICATION: usize = 5;

/// Version 1: the length of the header in bytes.
pub(super) const HEADER_ONE: usize = 28;
/// Version 1: the smallest row of the table, for a file with a name of one byte.
pub(super) const LEAST_ROW: u64 = 2 + 4 + 1;

/// Version 2: the length of the header in bytes.
pub(super) const HEADER_TWO: usize = 16;
/// Version 2, header: the names of non-critical files ascend.
pub(super) const ASCENDING: u8 = 1;
/// Version 2, header: the number of files is stated.
pub(super) const COUNTED: u8 = 2;

/// Version 2: the record that ends the package, and its length in bytes.
pub(super) const END: u8 = 0;
pub(super) const END_LENGTH: usize = 12;
/// Version 2: the record of a file, and the length of its fixed part in bytes.
pub(super) const FILE: u8 = 1;
pub(super) const FILE_FIXED: usize = 8;

/// Version 2, record: the page cannot be shown without the file.
pub(super) const CRITICAL: u8 = 1;
/// Version 2, record: the receiver has the file.
pub(super) const KEPT: u8 = 2;
/// Version 2, record: the size is stated.
pub(super) const SIZED: u8 = 4;
/// Version 2, record: the last modification is stated.
pub(super) const DATED: u8 = 8;

/// Returns the byte for a content coding in a record of version 2.
pub(super) const fn coding_byte(coding: Option<ContentCoding>) -> u8 {
    match coding {
        None => 0,
        Some(ContentCoding::Gzip) => 1,
        Some(ContentCoding::Deflate) => 2,
    }
}

/// Returns the content coding for a byte; `None` if the byte is not defined.
pub(super) const fn coding_of(byte: u8) -> Option<Option<ContentCoding>> {
    match byte {
        0 => Some(None),
        1 => Some(Some(ContentCoding::Gzip)),
        2 => Some(Some(ContentCoding::Deflate)),
        _ => None,
    }
}

/// Appends the header and the table of version 1. Every entry has a size below 2^32.
pub(super) fn write_table<'e>(entries: impl Iterator<Item = &'e Entry> + Clone, out: &mut Vec<u8>) {
    let size = |entry: &Entry| entry.size.unwrap_or_default();
    let contents: u64 = entries.clone().map(size).sum();
    let mut table = Vec::new();
    table.extend_from_slice(&(entries.clone().count() as u32).to_be_bytes());
    for entry in entries.clone() {
        table.extend_from_slice(entry.name.as_bytes());
        table.push(0);
    }
    for entry in entries.clone() {
        table.extend_from_slice(&(size(entry) as u32).to_be_bytes());
    }
    table.extend(entries.map(|entry| entry.attributes.byte()));

    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[Version::One.number(), 0, 0, 0]);
    out.extend_from_slice(&(table.len() as u32).to_be_bytes());
    out.extend_from_slice(&crc32fast::hash(&table).to_be_bytes());
    out.extend_from_slice(&contents.to_be_bytes());
    seal(start, out);
    out.append(&mut table);
}

/// Appends the header of version 2.
pub(super) fn write_header(ascending: bool, files: Option<u32>, out: &mut Vec<u8>) {
    let start = out.len();
    let flags = if ascending { ASCENDING } else { 0 } | if files.is_some() { COUNTED } else { 0 };
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[Version::Two.number(), flags, 0, 0]);
    out.extend_from_slice(&files.unwrap_or_default().to_be_bytes());
    seal(start, out);
}

/// Appends the head of a file's record. The caller has checked the lengths of the strings.
pub(super) fn write_record(entry: &Entry, out: &mut Vec<u8>) {
    let start = out.len();
    let size = if entry.kept { None } else { entry.size };
    let coding = if entry.kept { None } else { entry.coding };
    let mut flags = 0;
    for (flag, set) in [
        (CRITICAL, entry.critical),
        (KEPT, entry.kept),
        (SIZED, size.is_some()),
        (DATED, entry.last_modified.is_some()),
    ] {
        flags |= if set { flag } else { 0 };
    }
    let media_type = entry.media_type.as_deref().unwrap_or_default();
    let etag = entry.etag.as_deref().unwrap_or_default();
    out.extend_from_slice(&[FILE, flags, entry.attributes.byte(), coding_byte(coding)]);
    out.extend_from_slice(&(entry.name.len() as u16).to_be_bytes());
    out.extend_from_slice(&[media_type.len() as u8, etag.len() as u8]);
    for number in [size, entry.last_modified].into_iter().flatten() {
        out.extend_from_slice(&number.to_be_bytes());
    }
    for text in [&entry.name, media_type, etag] {
        out.extend_from_slice(text.as_bytes());
    }
    seal(start, out);
}

/// Returns the length of the head of a file's record in bytes.
pub(super) fn record_length(entry: &Entry) -> u64 {
    let numbers =
        u64::from(entry.size.is_some() && !entry.kept) + u64::from(entry.last_modified.is_some());
    let texts = [&entry.media_type, &entry.etag].map(|text| text.as_ref().map_or(0, String::len));
    let texts = entry.name.len() + texts[0] + texts[1];
    FILE_FIXED as u64 + 8 * numbers + texts as u64 + 4
}

/// Appends the end record of a package of version 2.
pub(super) fn write_end(files: u32, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[END, 0, 0, 0]);
    out.extend_from_slice(&files.to_be_bytes());
    seal(start, out);
}

/// Appends the checksum of the bytes written since `start`.
fn seal(start: usize, out: &mut Vec<u8>) {
    let checksum = crc32fast::hash(&out[start..]);
    out.extend_from_slice(&checksum.to_be_bytes());
}

/// Returns whether the last four bytes are the checksum of the preceding bytes.
pub(super) fn is_sealed(bytes: &[u8]) -> bool {
    bytes
        .split_last_chunk()
        .is_some_and(|(before, stated)| agree(u32::from_be_bytes(*stated), crc32fast::hash(before)))
}

/// Returns whether a stated checksum is accepted. In fuzzing, all checksums are accepted.
pub(super) fn agree(stated: u32, computed: u32) -> bool {
    stated == computed || cfg!(feature = "fuzzing")
}

/// Reads the number in the four bytes at `place`.
pub(super) fn word(bytes: &[u8], place: usize) -> u32 {
    bytes[place..place + 4]
        .iter()
        .fold(0, |number, &byte| number << 8 | u32::from(byte))
}

/// Reads the number in the eight bytes at `place`.
pub(super) fn long(bytes: &[u8], place: usize) -> u64 {
    u64::from(word(bytes, place)) << 32 | u64::from(word(bytes, place + 4))
}

/// The fixed part of the head of a file's record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fixed {
    pub(super) flags: u8,
    pub(super) attributes: u8,
    pub(super) coding: u8,
    pub(super) name: usize,
    pub(super) media_type: usize,
    pub(super) etag: usize,
}

impl Fixed {
    /// Returns the length of the whole head in bytes, including its checksum.
    pub(super) fn head(&self) -> usize {
        let numbers = (self.flags & (SIZED | DATED)).count_ones() as usize;
        FILE_FIXED + 8 * numbers + self.name + self.media_type + self.etag + 4
    }
}
