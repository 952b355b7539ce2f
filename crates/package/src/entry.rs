//! The metadata of a file in a package.

use std::fmt;

use fathometer_model::ContentCoding;

/// A file of a package, without its content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Entry {
    /// The name of the file; see [`name::check`](super::name::check).
    pub name: String,
    /// The size of the file's content in the package, in bytes. `None` if the size is unknown until the content ends,
    /// which requires version 2; a decoder then sets the size at the end. The size of a kept file is 0.
    pub size: Option<u64>,
    /// The checksum of the file's content. For an encoder: the known checksum, or `None` if the encoder must compute
    /// it. From a decoder: `None` until the file's end, and always in version 1, which has no checksums of files.
    pub checksum: Option<Checksum>,
    /// The value of `Content-Type`. Version 2.
    pub media_type: Option<String>,
    /// The value of `ETag`, including quotation marks. Version 2.
    pub etag: Option<String>,
    /// The time of `Last-Modified`, in seconds since 1970. Version 2.
    pub last_modified: Option<u64>,
    /// The content coding of the file in the package. Version 2.
    pub coding: Option<ContentCoding>,
    /// The attributes of the file in a file system.
    pub attributes: Attributes,
    /// Whether the page cannot be shown without this file. Critical files come first. Version 2.
    pub critical: bool,
    /// Whether the receiver already has this file with this entity tag, so that no content follows. Version 2.
    pub kept: bool,
}

/// The CRC-32 of a content, as in ZIP, gzip and PNG.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Checksum(pub u32);

impl Checksum {
    /// Returns the checksum of `content`.
    pub fn of(content: &[u8]) -> Checksum {
        Checksum(crc32fast::hash(content))
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// The paper's attributes of a file. By default a file is text, not executable, and writable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Attributes {
    /// Whether the file is not text.
    pub binary: bool,
    /// Whether the file is executable.
    pub executable: bool,
    /// Whether the file is not writable.
    pub read_only: bool,
}

impl Attributes {
    pub(super) fn byte(self) -> u8 {
        u8::from(self.binary) | u8::from(self.executable) << 1 | u8::from(self.read_only) << 2
    }

    /// Reads the attributes from a byte; `None` if an undefined bit is set.
    pub(super) fn of_byte(byte: u8) -> Option<Attributes> {
        (byte < 8).then_some(Attributes {
            binary: byte & 1 != 0,
            executable: byte & 2 != 0,
            read_only: byte & 4 != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_zip() {
        // The check value of CRC-32/ISO-HDLC.
        assert_eq!(Checksum::of(b"123456789"), Checksum(0xcbf4_3926));
        assert_eq!(Checksum::of(b""), Checksum(0));
        assert_eq!(Checksum(0xab).to_string(), "000000ab");
    }

    #[test]
    fn attributes_are_a_byte() {
        for byte in 0..8 {
            assert_eq!(Attributes::of_byte(byte).unwrap().byte(), byte);
        }
        assert_eq!(Attributes::of_byte(8), None);
        assert_eq!(Attributes::default().byte(), 0);
    }
}
