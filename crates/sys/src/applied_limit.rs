//! A limit that was set in the kernel, compared with the value read back.

use serde::{Deserialize, Serialize};

/// A requested limit, and the value read back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppliedLimit {
    /// The name of the file with the limit: `cpu.cfs_quota_us`, `memory.max`.
    pub what: String,
    /// The requested value.
    pub wanted: String,
    /// The value read back.
    pub got: String,
    /// Whether both values are equal, except for the kernel's rounding of memory to pages.
    pub holds: bool,
}
