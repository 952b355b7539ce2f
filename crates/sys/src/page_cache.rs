//! What of a file is in memory: asking the kernel to forget it, whether it did, and that nobody but a limit
//! takes it from there.
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

/// A file whose pages, as far as they are in memory, are mapped into this process, for as long as this lives.
///
/// Some kernels take from memory what nobody has read for a while, however much memory is free: DAMON's
/// scheme `pageout` does, which hypervisors set up in their guests, and it spares what somebody has mapped. An
/// experiment about a host's memory wants the host's limit to be what decides.
///
/// The mapping is without weight in that decision: where a control group is at its limit the kernel asks
/// who used a page lately, counts members of that group alone, and counts no mapping that is declared
/// to be read at random, which this one is. A page that is taken is unmapped.
#[derive(Debug)]
pub struct Mapped {
    start: *mut libc::c_void,
    length: usize,
}

// SAFETY: it is an address that only this value unmaps, and whose octets nobody reads.
unsafe impl Send for Mapped {}

impl Mapped {
    /// Maps the file, and nothing of it that is not in memory. `None`: it is empty.
    pub fn new(file: &File) -> Result<Option<Mapped>> {
        let length = file.metadata().doing("look at a file")?.len() as usize;
        if length == 0 {
            return Ok(None);
        }
        // SAFETY: a new mapping at a place of the kernel's choice. The advice changes what is read ahead, and
        // whose use of a page counts.
        let mapped = unsafe {
            let (anywhere, descriptor) = (std::ptr::null_mut(), file.as_raw_fd());
            let (access, kind) = (libc::PROT_READ, libc::MAP_SHARED);
            let start = libc::mmap(anywhere, length, access, kind, descriptor, 0);
            if start == libc::MAP_FAILED {
                return Err(io::Error::last_os_error()).doing("map a file");
            }
            let mapped = Mapped { start, length };
            if libc::madvise(start, length, libc::MADV_RANDOM) != 0 {
                return Err(io::Error::last_os_error()).doing("have a file's mapping not count");
            }
            mapped
        };
        Ok(Some(mapped))
    }

    /// Maps the pages that have come into memory since. `residence` is room for the answer. Gives how
    /// many pages of the file are in memory.
    ///
    /// A page that is taken between the question and the mapping is read from the disk again: some
    /// microseconds in which that has to happen.
    pub fn follow(&self, residence: &mut Vec<u8>) -> Result<u64> {
        let page = page_size();
        residence.clear();
        residence.resize(self.length.div_ceil(page), 0);
        // SAFETY: mincore writes an octet for each page of the mapping, as many as the vector has.
        if unsafe { libc::mincore(self.start, self.length, residence.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error()).doing("ask what of a file is in memory");
        }
        let mut at = 0;
        let mut resident = 0;
        for run in residence.chunk_by(|a, b| a & 1 == b & 1) {
            if run[0] & 1 == 1 {
                resident += run.len() as u64;
                // SAFETY: pages of the mapping. Where the file has been shortened since, the kernel
                // refuses (EFAULT) and raises no signal; what cannot be mapped stays as it was.
                unsafe {
                    let from = self.start.byte_add(at * page);
                    libc::madvise(from, run.len() * page, libc::MADV_POPULATE_READ);
                }
            }
            at += run.len();
        }
        Ok(resident)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping that this value made, of which nobody has an address.
        unsafe { libc::munmap(self.start, self.length) };
    }
}

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

    #[test]
    fn a_mapping_follows_what_is_in_memory_and_reads_nothing() {
        let mut file = file();
        let mut room = Vec::new();
        assert!(Mapped::new(&file).unwrap().is_none(), "an empty file");
        file.write_all(&vec![7; 10 * page_size() + 1]).unwrap();
        forget(&file).unwrap();
        let mapped = Mapped::new(&file).unwrap().unwrap();
        assert_eq!(mapped.follow(&mut room).unwrap(), 0);
        assert_eq!(resident_pages(&file).unwrap(), 0, "it was read");
        file.rewind().unwrap();
        let mut octets = Vec::new();
        file.read_to_end(&mut octets).unwrap();
        assert_eq!(mapped.follow(&mut room).unwrap(), 11);
        // What is mapped is not forgotten for the asking; a limit's reclaim takes it all the same, which
        // the tests of limits show.
        forget(&file).unwrap();
        assert_eq!(resident_pages(&file).unwrap(), 11);
        drop(mapped);
        forget(&file).unwrap();
        assert_eq!(resident_pages(&file).unwrap(), 0);
    }
}
