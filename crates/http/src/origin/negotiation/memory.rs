//! The limit on the memory for compressed content: cached, in responses, and in progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A fixed amount of memory, parts of which are in use.
#[derive(Debug)]
pub(super) struct Memory {
    most: u64,
    used: AtomicU64,
}

/// A reserved part of the memory. Dropping the share releases it.
#[derive(Debug)]
pub(super) struct Share {
    bytes: u64,
    memory: Arc<Memory>,
}

impl Memory {
    pub fn of(most: u64) -> Arc<Memory> {
        Arc::new(Memory {
            most,
            used: AtomicU64::new(0),
        })
    }

    /// Reserves a part of the memory; `None` if less than `bytes` bytes are free.
    pub fn take(self: &Arc<Memory>, bytes: u64) -> Option<Share> {
        let taken = |used: u64| used.checked_add(bytes).filter(|used| *used <= self.most);
        let order = Ordering::Relaxed;
        self.used.fetch_update(order, order, taken).ok()?;
        Some(Share {
            bytes,
            memory: Arc::clone(self),
        })
    }

    /// The number of bytes in use.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

impl Share {
    /// Releases all but `bytes` bytes of the share.
    pub fn shrink(&mut self, bytes: u64) {
        let released = self.bytes.saturating_sub(bytes);
        self.bytes -= released;
        self.memory.used.fetch_sub(released, Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_bounded_and_released() {
        let memory = Memory::of(100);
        let mut first = memory.take(60).unwrap();
        assert!(memory.take(41).is_none() && memory.take(u64::MAX).is_none());
        first.shrink(10);
        first.shrink(50);
        let second = memory.take(90).unwrap();
        assert_eq!(memory.used(), 100);
        drop(first);
        drop(second);
        assert_eq!(memory.used(), 0);
    }
}
