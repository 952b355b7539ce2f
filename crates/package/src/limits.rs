//! Limits of readers and writers.

/// Limits on a package. With the defaults, a decoder uses less than 1 MB of memory for any package.
///
/// Writers and readers check the same limits, so a reader can read every package that was written with its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of files in a package.
    pub files: u32,
    /// The maximum number of files whose names are stored. In version 1, and in version 2 with unordered names, these
    /// are all files; in version 2 with ascending names, only the critical files. Each name takes about 20 bytes (in
    /// version 1, about 30).
    pub remembered_files: usize,
    /// The length of the longest name, in bytes.
    pub name_bytes: usize,
    /// The maximum total length of all names in a package of version 1, each with its terminator, in bytes.
    pub table_bytes: usize,
    /// The largest content of a file, in bytes.
    pub file_bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            files: 1 << 24,
            remembered_files: 16_384,
            name_bytes: 4096,
            table_bytes: 256 * 1024,
            file_bytes: 1 << 48,
        }
    }
}
