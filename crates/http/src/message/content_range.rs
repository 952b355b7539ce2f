//! The value of `Content-Range` (RFC 9110 section 14.4).

use super::fields;

/// The value of a `Content-Range`, in bytes; positions count from 0 and `last` is included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentRange {
    /// These bytes of the file.
    Part {
        /// The first byte.
        first: u64,
        /// The last byte; not before `first`.
        last: u64,
        /// The length of the complete file, if the server gave it.
        complete: Option<u64>,
    },
    /// No bytes: the requested range is outside the file (416).
    Unsatisfied {
        /// The length of the complete file.
        complete: u64,
    },
}

impl ContentRange {
    /// Parses a field value; `None` when it is malformed, contradicts itself or its unit is not bytes.
    pub fn parse(value: &[u8]) -> Option<ContentRange> {
        let (unit, rest) = value.split_at_checked(6)?;
        if !unit.eq_ignore_ascii_case(b"bytes ") {
            return None;
        }
        let slash = memchr::memchr(b'/', rest)?;
        let (range, complete) = (fields::trim(&rest[..slash]), &rest[slash + 1..]);
        let complete = match complete {
            b"*" => None,
            digits => Some(fields::decimal(digits)?),
        };
        if range == b"*" {
            return complete.map(|complete| ContentRange::Unsatisfied { complete });
        }
        let dash = memchr::memchr(b'-', range)?;
        let first = fields::decimal(&range[..dash])?;
        let last = fields::decimal(&range[dash + 1..])?;
        let outside = complete.is_some_and(|complete| last >= complete);
        (first <= last && !outside).then_some(ContentRange::Part {
            first,
            last,
            complete,
        })
    }

    /// The number of bytes of a part; 0 when unsatisfied.
    pub fn length(self) -> u64 {
        match self {
            ContentRange::Part { first, last, .. } => (last - first).saturating_add(1),
            ContentRange::Unsatisfied { .. } => 0,
        }
    }
}
