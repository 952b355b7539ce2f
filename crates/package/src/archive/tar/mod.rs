//! tar archives (POSIX.1-2017 `pax`, sections "ustar Interchange Format" and "pax Interchange Format").
//!
//! A file consists of a header of 512 bytes, its content, and zeros up to the next multiple of 512. Two blocks of zeros
//! end the archive. [`write()`] writes an archive of files in memory. If contents are not in memory, [`head`],
//! [`padding`] and [`END`] provide the other parts, and [`length`] computes the length of the archive in advance.
//! [`Reader`] reads an archive while it arrives.
//!
//! Names that do not fit into a header, and sizes from 8 GiB on, are stored in an extended header of pax, which
//! precedes the header. The reader also supports GNU's long names and binary numbers. It refuses sparse files.

mod reader;
mod write;

pub use reader::{Entry, Reader, TarError};
pub use write::{END, head, length, padding, write};

/// The block size in bytes, to which headers and contents are padded.
const BLOCK: usize = 512;

/// Types of headers (`typeflag`).
mod kind {
    pub const FILE: u8 = b'0';
    pub const OLD_FILE: u8 = 0;
    pub const CONTIGUOUS_FILE: u8 = b'7';
    pub const HARD_LINK: u8 = b'1';
    pub const FIFO: u8 = b'6';
    pub const EXTENDED: u8 = b'x';
    pub const EXTENDED_FOR_ALL: u8 = b'g';
    pub const GNU_LONG_NAME: u8 = b'L';
    pub const GNU_LONG_LINK: u8 = b'K';
    pub const GNU_SPARSE: u8 = b'S';
    pub const GNU_CONTINUED: u8 = b'M';
}

/// Returns the number of bytes up to the next multiple of the block size.
const fn to_block(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK as u64
}

#[cfg(test)]
mod tests;
