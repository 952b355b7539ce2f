//! Memory whose access blocks, so that a test can stall a thread in the kernel (`man 2 userfaultfd`). It imitates a page
//! that is read from a slow disk.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `_IOWR(0xAA, 0x3F, struct uffdio_api)`
const API: libc::c_ulong = 0xc018_aa3f;
/// `_IOWR(0xAA, 0x00, struct uffdio_register)`
const REGISTER: libc::c_ulong = 0xc020_aa00;
/// `_IOWR(0xAA, 0x04, struct uffdio_zeropage)`
const ZEROPAGE: libc::c_ulong = 0xc020_aa04;
/// The version of the interface.
const VERSION: u64 = 0xaa;
/// `UFFDIO_REGISTER_MODE_MISSING`
const MISSING: u64 = 1;
/// The size of `struct uffd_msg` in bytes.
const MESSAGE: usize = 32;

/// One page that is missing until [`give`](Self::give).
pub(super) struct Withheld {
    descriptor: OwnedFd,
    start: *mut libc::c_void,
    length: usize,
}

// SAFETY: the mapping belongs to this value, and only the kernel writes to it.
unsafe impl Sync for Withheld {}

impl Withheld {
    /// Creates the page. Fails if the kernel does not have userfaultfd, or does not permit it to this user.
    pub(super) fn page() -> io::Result<Withheld> {
        let length = super::page_size() as usize;
        // SAFETY: no pointers; the descriptor is new and has no other owner.
        let descriptor = unsafe {
            let number = libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC);
            if number < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(number as libc::c_int)
        };
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let withheld = Withheld {
            descriptor,
            start,
            length,
        };
        withheld.ioctl(API, &mut [VERSION, 0, 0])?;
        let place = start as u64;
        withheld.ioctl(REGISTER, &mut [place, length as u64, MISSING, 0])?;
        Ok(withheld)
    }

    /// Returns the page. Reading it blocks until [`give`](Self::give).
    pub(super) fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has this length and lives as long as this value.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.length) }
    }

    /// Waits until a thread accesses the page.
    pub(super) fn wait_for_access(&self) -> io::Result<()> {
        let mut message = [0u8; MESSAGE];
        let room = message.as_mut_ptr().cast();
        // SAFETY: the buffer is of the length given.
        match unsafe { libc::read(self.descriptor.as_raw_fd(), room, MESSAGE) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// Provides the page, full of zeros, to all current and later readers. Repeated calls have no effect.
    pub(super) fn give(&self) {
        let place = self.start as u64;
        // An error means that the page was provided before.
        let _ = self.ioctl(ZEROPAGE, &mut [place, self.length as u64, 0, 0]);
    }

    /// Makes a request. All structures of this interface consist of 64-bit words.
    fn ioctl<const WORDS: usize>(
        &self,
        what: libc::c_ulong,
        words: &mut [u64; WORDS],
    ) -> io::Result<()> {
        // SAFETY: the words are the structure of this request, and outlive the call.
        match unsafe { libc::ioctl(self.descriptor.as_raw_fd(), what as _, words.as_mut_ptr()) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

impl Drop for Withheld {
    fn drop(&mut self) {
        self.give();
        // SAFETY: this value created the mapping, and no borrow of it exists any more.
        unsafe { libc::munmap(self.start, self.length) };
    }
}
