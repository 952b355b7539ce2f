//! The allocator of this test program. It counts the bytes of each thread separately, so that concurrent tests do not
//! affect one another.

#![expect(unsafe_code, reason = "a counting allocator, whose trait is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Whether this thread's bytes are counted.
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// Resets the number of allocated bytes of this thread, and their peak.
pub fn reset_held() {
    HELD.set(0);
    PEAK.set(0);
}

/// Runs `work` and counts the bytes that it allocates and frees.
pub fn counted<T>(work: impl FnOnce() -> T) -> T {
    COUNTING.set(true);
    let result = work();
    COUNTING.set(false);
    result
}

/// Returns the maximum number of bytes allocated at one time in counted work since the reset.
pub fn peak_held() -> isize {
    PEAK.get()
}

/// The system's allocator, with a byte count per thread.
struct Counting;

fn count_bytes(bytes: isize) {
    if COUNTING.get() {
        HELD.set(HELD.get() + bytes);
        PEAK.set(PEAK.get().max(HELD.get()));
    }
}

// SAFETY: every call is passed to the system's allocator unchanged. Counting only accesses constant-initialised thread
// locals without destructors, which never allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_bytes(layout.size() as isize);
        // SAFETY: the caller's obligations are passed on unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count_bytes(-(layout.size() as isize));
        // SAFETY: the caller's obligations are passed on unchanged.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // The old and the new memory may briefly exist at the same time.
        count_bytes(size as isize);
        count_bytes(-(layout.size() as isize));
        // SAFETY: the caller's obligations are passed on unchanged.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
