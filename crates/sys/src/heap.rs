//! The allocator's memory.

/// Returns free memory to the system. Without this call, allocators keep free memory that lies before memory
/// in use. Takes about a millisecond per hundred megabytes, during which allocations of other threads may
/// wait. Has no effect if the C library is not glibc.
pub fn release_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes the allocator's own locks and does not touch allocated memory (malloc_trim(3)).
    unsafe {
        libc::malloc_trim(0);
    }
}
