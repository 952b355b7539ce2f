//! The allocator's memory.

/// Gives memory that is allocated to nothing back to the system. Allocators keep it otherwise, where something that is
/// still used lies behind it. Takes a millisecond or so for a hundred megabytes, in which other threads may wait to
/// allocate. Does nothing where the C library is not glibc, whose allocator this is about.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes the allocator's own locks and touches nothing that is allocated (malloc_trim(3)).
    unsafe {
        libc::malloc_trim(0);
    }
}
