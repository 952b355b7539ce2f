//! What a reader takes and a writer makes.

/// Bounds on a package. With the defaults a decoder holds less than 1 MB, whatever a package claims.
///
/// Writer and reader check the same things: what was written within some limits is read within them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Files of a package.
    pub files: u32,
    /// Files whose names have to be remembered: all of a package of version 1, all of one of version 2
    /// whose names are in no order, and the critical ones of one whose names ascend. Each costs some 20
    /// octets, in version 1 some 30.
    pub remembered_files: usize,
    /// Octets of a name.
    pub name_octets: usize,
    /// Octets of all names of a package of version 1, each with its terminator.
    pub table_octets: usize,
    /// Octets of a file's content.
    pub file_octets: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            files: 1 << 24,
            remembered_files: 16_384,
            name_octets: 4096,
            table_octets: 256 * 1024,
            file_octets: 1 << 48,
        }
    }
}
