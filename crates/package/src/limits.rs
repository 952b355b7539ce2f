//! Limits of readers and writers.

/// Bounds on a package. With the defaults, a decoder's memory stays below 1 MB for any package.
///
/// Writers and readers check the same limits: a package written within some limits can be read within them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most files of a package.
    pub files: u32,
    /// Most files whose names must be remembered. In version 1 and in version 2 with unordered names, these are
    /// all files; in version 2 with ascending names, only the critical ones. Each takes about 20 bytes, in
    /// version 1 about 30.
    pub remembered_files: usize,
    /// Longest name, in bytes.
    pub name_bytes: usize,
    /// Most bytes of all names of a package of version 1, each with its terminator.
    pub table_bytes: usize,
    /// Largest content of a file, in bytes.
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
