//! Archives: a page's files sent as an archive, for comparison with object packages.
//!
//! A [`tar`] archive is written piece by piece and read while it arrives; each file is usable when its last
//! byte has arrived. A [`zip`] archive has its directory at the end and is read when it is complete. The `tar`
//! and `zip` crates read and write headers and directories. Reading a tar archive from pieces of any size is
//! implemented here, because a protocol machine cannot block for more input.
//!
//! Not implemented: folders, links and devices in an archive are skipped, and permissions and owners are
//! neither kept nor reported. All names must satisfy [`is_name`]: an archive with another name is refused, even
//! if the name is not used.

pub mod tar;
pub mod zip;

use fathometer_model::Body;

/// A file to be added to an archive.
#[derive(Debug, Clone, Copy)]
pub struct Member<'m> {
    /// Its name: [`is_name`].
    pub name: &'m str,
    /// Its last modification, in seconds since the Unix epoch.
    pub last_modified: u64,
    /// Its content.
    pub content: &'m Body,
}

/// A file read from an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name: [`is_name`].
    pub name: String,
    /// Its content.
    pub content: Vec<u8>,
}

/// An event of a reader. The events of a file come in this order, and files come one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'i> {
    /// A file starts. The reader provides its name and size.
    Start {
        /// Its index among the files, from 0.
        entry: usize,
    },
    /// Content of the file, at least one byte.
    Data {
        /// Its index among the files.
        entry: usize,
        /// The bytes, as a part of the input.
        content: &'i [u8],
    },
    /// The file is complete. This is reported with the file's last byte.
    End {
        /// Its index among the files.
        entry: usize,
    },
    /// The archive is complete.
    Finished,
}

/// The longest name, in bytes.
pub const LONGEST_NAME: usize = 4096;

/// Whether a file of an archive may have this name: segments separated by slashes, none of them empty, `.` or
/// `..`, without NUL and backslashes.
pub fn is_name(name: &str) -> bool {
    name.len() <= LONGEST_NAME
        && !name.bytes().any(|byte| byte == 0 || byte == b'\\')
        && name
            .split('/')
            .all(|segment| !matches!(segment, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_their_folder() {
        for name in ["a", "a/b.c", "%2e%2e/a", "...", "a b/ü\n", ".hidden"] {
            assert!(is_name(name), "{name:?}");
        }
        for name in [
            "", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a\0", "a\\b",
        ] {
            assert!(!is_name(name), "{name:?}");
        }
        assert!(!is_name(&"a".repeat(LONGEST_NAME + 1)));
    }
}
