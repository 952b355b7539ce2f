//! Descriptors inherited from the process that started this process, identified by number.

use std::os::fd::{FromRawFd as _, OwnedFd};

use crate::error::{Doing, Result, check};

/// Returns a copy of the descriptor with this number. The copy is not inherited by programs that this process starts.
///
/// # Errors
/// If no descriptor with this number is open.
pub fn descriptor(number: i32) -> Result<OwnedFd> {
    // SAFETY: `fcntl` with this command reads no memory of this process, for any number.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    let copy = check(copy).doing(format!("use the inherited descriptor {number}"))?;
    // SAFETY: the call above has created this descriptor, and no other code uses its number.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_copy_outlives_the_descriptor_and_a_number_without_one_is_an_error() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let copy = descriptor(there.as_raw_fd()).unwrap();
        drop(there);
        here.write_all(b"x").unwrap();
        let mut byte = [0];
        UnixStream::from(copy).read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
        for number in [-1, i32::MAX] {
            let error = descriptor(number).unwrap_err().to_string();
            assert!(error.contains(&format!("descriptor {number}")), "{error}");
        }
    }
}
