//! Returns the allocator's free memory to the system.

/// Returns free memory to the system. Without this call, the allocator does not return free memory at addresses below
/// memory in use. The call takes about 1 ms per 100 MB; allocations of other threads may wait during the call. Has no
/// effect with other C libraries than glibc.
pub fn release_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes the allocator's own locks and does not touch allocated memory (malloc_trim(3)).
    unsafe {
        libc::malloc_trim(0);
    }
}
