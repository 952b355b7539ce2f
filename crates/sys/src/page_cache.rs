//! What of a file is in memory: asking the kernel to forget it, and whether it did.
//!
//! The page cache holds what was read and written lately. An experiment about the disk has to begin without;
//! and a kernel that is asked to forget may not: pages that wait to be written, that are mapped, or
//! that are on a file system that lives in memory (tmpfs) stay. What is not forgotten here are the names:
//! folders and inodes stay known, so that opening a file again costs no reading.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

use rustix::fs::Advice;

use crate::error::{Doing as _, Result};

/// Has what waits to be written written, and asks the kernel to forget the file's pages.
pub fn forget(file: &File) -> Result<()> {
    file.sync_all().doing("write a file to its disk")?;
    rustix::fs::fadvise(file, 0, None, Advice::DontNeed).doing("have a file forgotten")
}

/// Pages of the file that are in memory now.
pub fn resident_pages(file: &File) -> Result<u64> {
    let length = file.metadata().doing("look at a file")?.len() as usize;
    if length == 0 {
        return Ok(0);
    }
    let pages = length.div_ceil(page_size());
    let mut residence = vec![0_u8; pages];
    // SAFETY: a new mapping at a place of the kernel's choice, of which no octet is read: asking what is in
    // memory must not bring it there. It is unmapped before anybody else can come to know of it.
    // mincore writes one octet for each page of the mapping, as many as the vector has.
    let asked = unsafe {
        let (anywhere, descriptor) = (std::ptr::null_mut(), file.as_raw_fd());
        let start = libc::mmap(
            anywhere,
            length,
            libc::PROT_NONE,
            libc::MAP_SHARED,
            descriptor,
            0,
        );
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error()).doing("map a file");
        }
        let asked = match libc::mincore(start, length, residence.as_mut_ptr()) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        };
        libc::munmap(start, length);
        asked
    };
    asked.doing("ask what of a file is in memory")?;
    Ok(residence.iter().map(|page| u64::from(page & 1)).sum())
}

fn page_size() -> usize {
    // SAFETY: it reads a constant of the system.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _, Write as _};

    use super::*;

    /// A file on a disk, not in memory: the folder of this package is on one, the system's temporary folder may
    /// not be.
    fn file() -> File {
        tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap()
    }

    #[test]
    fn what_was_written_is_in_memory_until_it_is_forgotten_and_again_when_it_was_read() {
        let mut file = file();
        assert_eq!(resident_pages(&file).unwrap(), 0);
        file.write_all(&vec![7; 100_000]).unwrap();
        let pages = 100_000_u64.div_ceil(page_size() as u64);
        assert_eq!(resident_pages(&file).unwrap(), pages);
        forget(&file).unwrap();
        assert_eq!(resident_pages(&file).unwrap(), 0);
        // Asking has not brought it back.
        assert_eq!(resident_pages(&file).unwrap(), 0);
        file.rewind().unwrap();
        let mut octets = Vec::new();
        file.read_to_end(&mut octets).unwrap();
        assert_eq!(resident_pages(&file).unwrap(), pages);
    }
}
