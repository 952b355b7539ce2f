//! Archives: a page's files sent as an archive, for comparison with object packages.
//!
//! A [`tar`] archive is written piece by piece and read while it arrives; each file is usable when its last
//! byte has arrived. A [`zip`] archive has its directory at the end and is read when it is complete. The `tar`
//! and `zip` crates read and write headers and directories. Reading a tar archive from pieces of any size is
//! implemented here, because a protocol machine cannot block for more input.
//!
//! Not implemented: folders, links and devices in an archive are skipped, and permissions and owners are ignored. All
//! names must satisfy [`is_name`]: an archive with another name is refused, even if the name is not used.

pub mod tar;
pub mod zip;

use fathometer_model::Body;

/// A file to be added to an archive.
#[derive(Debug, Clone, Copy)]
pub struct Member<'m> {
    /// The name of the file; see [`is_name`].
    pub name: &'m str,
    /// The last modification of the file, in seconds since the Unix epoch.
    pub last_modified: u64,
    /// The content of the file.
    pub content: &'m Body,
}

/// A file read from an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The name of the file; see [`is_name`].
    pub name: String,
    /// The content of the file.
    pub content: Vec<u8>,
}

/// An event of a reader. The events of a file come in this order. The events of different files are not interleaved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'i> {
    /// A file starts. The reader provides its name and size.
    Start {
        /// The index of the file, from 0.
        entry: usize,
    },
    /// Content of the file, at least one byte.
    Data {
        /// The index of the file.
        entry: usize,
        /// The bytes, as a part of the input.
        content: &'i [u8],
    },
    /// The file is complete. This is reported with the file's last byte.
    End {
        /// The index of the file.
        entry: usize,
    },
    /// The archive is complete.
    Finished,
}

/// The length of the longest name, in bytes.
pub const LONGEST_NAME: usize = 4096;

/// Returns whether a file of an archive may have this name. The name consists of segments separated by slashes. No
/// segment is empty, `.` or `..`, or contains NUL or a backslash.
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
