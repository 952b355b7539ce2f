//! Archives of files: what a page's files are also sent as, to compare object packages with.
//!
//! [`tar`] is written piece by piece and read while it arrives, each file usable with its last
//! octet. [`zip`] has its list of contents at the end and is read when it is whole. Heads and lists
//! are the `tar` and `zip` crates' work; reading a tar archive from pieces of any size is ours, since
//! a machine cannot be asked to wait for more.
//!
//! Not done here: folders, links and devices in an archive are passed over, permissions and owners
//! neither kept nor told. Names are those of [`is_name`]: an archive that names anything else is
//! refused, whatever its reader would do with it.

pub mod tar;
pub mod zip;

use fathometer_model::Body;

/// A file to be put into an archive.
#[derive(Debug, Clone, Copy)]
pub struct Member<'m> {
    /// Its name: [`is_name`].
    pub name: &'m str,
    /// Its last modification, in seconds since the Unix epoch.
    pub last_modified: u64,
    /// Its octets.
    pub content: &'m Body,
}

/// A file that came out of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name: [`is_name`].
    pub name: String,
    /// Its octets.
    pub content: Vec<u8>,
}

/// What a reader of a stream tells. Events of a file come in this order, and one file after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'i> {
    /// A file begins; what is known of it is with the reader.
    Start {
        /// Its place among the files, from 0.
        entry: usize,
    },
    /// Octets of it, never none.
    Data {
        /// Its place among the files.
        entry: usize,
        /// The octets, of the input.
        content: &'i [u8],
    },
    /// It is whole. Comes with its last octet.
    End {
        /// Its place among the files.
        entry: usize,
    },
    /// The archive is complete.
    Finished,
}

/// The longest name, in octets.
pub const LONGEST_NAME: usize = 4096;

/// Whether a file of an archive may have this name: segments apart by slashes, none of them empty,
/// `.` or `..`, without NUL and backslashes.
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
