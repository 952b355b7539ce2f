//! tar: POSIX.1-2017 `pax`, section "ustar Interchange Format" and "pax Interchange Format".
//!
//! A file is a head of 512 octets, its content, and zeros up to the next multiple of 512; two blocks
//! of zeros end the archive. [`write()`] makes an archive of files in memory. Where contents come from
//! elsewhere, [`head`], [`padding`] and [`END`] are its other parts, and [`length`] tells beforehand how
//! long it will be. [`Reader`] takes an archive apart while it arrives.
//!
//! Names that do not fit into a head, and sizes from 8 GiB on, are in an extended head of pax before
//! it. Read are also GNU's long names and binary numbers; sparse files are refused.

mod reader;
mod write;

pub use reader::{Entry, Reader, TarError};
pub use write::{END, head, length, padding, write};

/// What everything is padded to, in octets.
const BLOCK: usize = 512;

/// Types of heads (`typeflag`).
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

/// Octets up to the next whole block.
const fn to_block(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK as u64
}

#[cfg(test)]
mod tests;
