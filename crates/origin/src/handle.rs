//! Control of an origin that runs on another thread: stopping it, draining it, and reading its progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mio::Waker;

/// Stops or drains an origin that runs on another thread.
#[derive(Debug, Clone)]
pub struct OriginHandle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) waker: Arc<Waker>,
}

/// The state that a loop and its handles share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) stop: AtomicBool,
    pub(crate) drain: AtomicBool,
    /// The time limit of a drain, in nanoseconds.
    pub(crate) drain_for: AtomicU64,
    pub(crate) responses: AtomicU64,
}

impl OriginHandle {
    /// Stops the loop; connections that are still open are reset.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        // A waker fails only if its poller is closed, that is, after the loop has finished.
        let _ = self.waker.wake();
    }

    /// Makes the loop accept no more connections, respond to requests in flight and then finish. Connections
    /// that are still open after `within` are reset.
    pub fn drain(&self, within: Duration) {
        let nanoseconds = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        self.shared.drain_for.store(nanoseconds, Ordering::Release);
        self.shared.drain.store(true, Ordering::Release);
        // See `stop`.
        let _ = self.waker.wake();
    }

    /// The number of responses that were completely handed to the kernel so far.
    pub fn responses(&self) -> u64 {
        self.shared.responses.load(Ordering::Acquire)
    }
}
