//! The pages of a file in memory: evicting them, counting them, and ensuring that only a memory limit evicts
//! them.
//!
//! The page cache contains recently read and written data. An experiment about the disk must start without its data in
//! the cache. However, the kernel may keep pages after a request to evict them: dirty pages, mapped pages, and pages of
//! a file system in memory (tmpfs). Directories and inodes are not evicted here, so opening a file again needs no disk
//! read.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

use rustix::fs::Advice;

use crate::error::{Doing as _, Result};

/// A file whose resident pages are mapped into this process while this value exists.
///
/// Some kernels evict memory that has not been accessed for a while, even if enough memory is free. DAMON's scheme
/// `pageout` does this; hypervisors enable it in their guests. The scheme does not evict mapped pages. In an experiment
/// about a host's memory, only the host's memory limit may evict pages.
///
/// The mapping does not change which pages that limit evicts. When a control group is at its limit, the kernel checks
/// which pages were accessed recently. It counts only accesses by members of that group, and ignores mappings for random
/// access such as this mapping. An evicted page is unmapped.
#[derive(Debug)]
pub struct Mapped {
    start: *mut libc::c_void,
    length: usize,
}

// SAFETY: only this value unmaps the address, and no code reads its bytes.
unsafe impl Send for Mapped {}

impl Mapped {
    /// Maps the file without reading pages that are not in memory. Returns `None` for an empty file.
    pub fn new(file: &File) -> Result<Option<Mapped>> {
        let length = file.metadata().doing("read the length of a file")?.len() as usize;
        if length == 0 {
            return Ok(None);
        }
        // SAFETY: a new mapping at an address that the kernel chooses. The advice only changes read-ahead and
        // which accesses to a page count.
        let mapped = unsafe {
            let (anywhere, descriptor) = (std::ptr::null_mut(), file.as_raw_fd());
            let (access, kind) = (libc::PROT_READ, libc::MAP_SHARED);
            let start = libc::mmap(anywhere, length, access, kind, descriptor, 0);
            if start == libc::MAP_FAILED {
                return Err(io::Error::last_os_error()).doing("map a file");
            }
            let mapped = Mapped { start, length };
            if libc::madvise(start, length, libc::MADV_RANDOM) != 0 {
                return Err(io::Error::last_os_error())
                    .doing("set random access for a file's mapping");
            }
            mapped
        };
        Ok(Some(mapped))
    }

    /// Maps the pages that were loaded since the last call. `residence` is a scratch buffer. Returns the number of pages
    /// of the file that are in memory.
    ///
    /// A page that is evicted between the query and the mapping is read from the disk again. This window lasts a few
    /// microseconds.
    pub fn follow(&self, residence: &mut Vec<u8>) -> Result<u64> {
        let page = page_size();
        residence.clear();
        residence.resize(self.length.div_ceil(page), 0);
        // SAFETY: mincore writes a byte for each page of the mapping, as many as the vector has.
        if unsafe { libc::mincore(self.start, self.length, residence.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error())
                .doing("read which pages of a file are in memory");
        }
        let mut at = 0;
        let mut resident = 0;
        for run in residence.chunk_by(|a, b| a & 1 == b & 1) {
            if run[0] & 1 == 1 {
                resident += run.len() as u64;
                // SAFETY: pages of the mapping. If the file has been shortened meanwhile, the kernel returns
                // EFAULT and raises no signal. Pages that cannot be mapped stay unchanged.
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
        // SAFETY: the mapping that this value created, and no other code has an address in it.
        unsafe { libc::munmap(self.start, self.length) };
    }
}

/// Writes the file's dirty pages to the disk, and requests that the kernel evict the file's pages.
pub fn evict(file: &File) -> Result<()> {
    file.sync_all().doing("write a file to its disk")?;
    rustix::fs::fadvise(file, 0, None, Advice::DontNeed).doing("evict a file from the page cache")
}

/// Returns the number of pages of the file that are in memory.
pub fn resident_pages(file: &File) -> Result<u64> {
    let length = file.metadata().doing("read the length of a file")?.len() as usize;
    if length == 0 {
        return Ok(0);
    }
    let pages = length.div_ceil(page_size());
    let mut residence = vec![0_u8; pages];
    // SAFETY: a new mapping at an address that the kernel chooses. No byte of it is read, because the query
    // must not load pages. No other code gets the address before it is unmapped. mincore writes one byte for
    // each page of the mapping, as many as the vector has.
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
    asked.doing("read which pages of a file are in memory")?;
    Ok(residence.iter().map(|page| u64::from(page & 1)).sum())
}

fn page_size() -> usize {
    // SAFETY: the call reads a constant of the system.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _, Write as _};

    use super::*;

    /// A file on a disk. This package's directory is on a disk; the system's temporary directory may be in
    /// memory.
    fn file() -> File {
        tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap()
    }

    #[test]
    fn written_pages_are_resident_until_evicted_and_again_after_a_read() {
        let mut file = file();
        assert_eq!(resident_pages(&file).unwrap(), 0);
        file.write_all(&vec![7; 100_000]).unwrap();
        let pages = 100_000_u64.div_ceil(page_size() as u64);
        assert_eq!(resident_pages(&file).unwrap(), pages);
        evict(&file).unwrap();
        assert_eq!(resident_pages(&file).unwrap(), 0);
        // The query has not loaded the page again.
        assert_eq!(resident_pages(&file).unwrap(), 0);
        file.rewind().unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(resident_pages(&file).unwrap(), pages);
    }

    #[test]
    fn a_mapping_follows_resident_pages_and_reads_none() {
        let mut file = file();
        let mut room = Vec::new();
        assert!(Mapped::new(&file).unwrap().is_none(), "an empty file");
        file.write_all(&vec![7; 10 * page_size() + 1]).unwrap();
        evict(&file).unwrap();
        let mapped = Mapped::new(&file).unwrap().unwrap();
        assert_eq!(mapped.follow(&mut room).unwrap(), 0);
        assert_eq!(resident_pages(&file).unwrap(), 0, "a page was read");
        file.rewind().unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(mapped.follow(&mut room).unwrap(), 11);
        // A request does not evict mapped pages. The reclaim of a memory limit does, as the tests of limits
        // show.
        evict(&file).unwrap();
        assert_eq!(resident_pages(&file).unwrap(), 11);
        drop(mapped);
        evict(&file).unwrap();
        assert_eq!(resident_pages(&file).unwrap(), 0);
    }
}
