//! Runs one test at a time, in a program whose tests measure the machine or their own process.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits until no other test of this program holds the guard, even if another test panicked.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
