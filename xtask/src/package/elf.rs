//! Detects whether an ELF program is linked statically.

use std::fmt;
use std::fs;
use std::path::Path;

/// The linkage of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Linkage {
    /// Without an interpreter: the program runs in an empty root.
    Static,
    /// Needs the system's C library.
    Dynamic,
}

impl fmt::Display for Linkage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Linkage::Static => "static",
            Linkage::Dynamic => "dynamic: needs libc6",
        })
    }
}

/// Type of the program header that names an interpreter (System V ABI, chapter 5: PT_INTERP).
const INTERPRETER: u32 = 3;

/// Reads the program headers of the file.
pub(super) fn linkage(program: &Path) -> Result<Linkage, String> {
    let failed = |what: &str| format!("cannot package {}: {what}", program.display());
    let bytes = fs::read(program).map_err(|error| failed(&error.to_string()))?;
    has_interpreter(&bytes)
        .map(|interpreter| match interpreter {
            true => Linkage::Dynamic,
            false => Linkage::Static,
        })
        .ok_or_else(|| failed("it is not a 64-bit little-endian ELF program"))
}

/// Whether the program has an interpreter; `None` if it is not a 64-bit little-endian ELF program. Field offsets:
/// System V ABI, chapter 4.
fn has_interpreter(bytes: &[u8]) -> Option<bool> {
    let ident = bytes.get(..6)?;
    if ident != b"\x7fELF\x02\x01" {
        return None;
    }
    let start = usize::try_from(u64::from_le_bytes(field(bytes, 32)?)).ok()?;
    let size = usize::from(u16::from_le_bytes(field(bytes, 54)?));
    let count = usize::from(u16::from_le_bytes(field(bytes, 56)?));
    for header in 0..count {
        let at = start.checked_add(header.checked_mul(size)?)?;
        if u32::from_le_bytes(field(bytes, at)?) == INTERPRETER {
            return Some(true);
        }
    }
    Some(false)
}

/// Returns the `N` bytes at the offset `at`.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linkage_of_this_test_is_that_of_its_target() {
        let own = std::env::current_exe().unwrap();
        let expected = match cfg!(target_feature = "crt-static") {
            true => Linkage::Static,
            false => Linkage::Dynamic,
        };
        assert_eq!(linkage(&own), Ok(expected));
    }

    #[test]
    fn a_program_without_headers_is_static() {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        assert_eq!(has_interpreter(&bytes), Some(false));
        // One header beyond the end of the file.
        bytes[56] = 1;
        bytes[32] = 64;
        assert_eq!(has_interpreter(&bytes), None);
    }

    #[test]
    fn a_script_is_refused() {
        assert_eq!(has_interpreter(b"#!/bin/sh\necho"), None);
    }
}
