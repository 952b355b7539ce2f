//! Control of an origin that runs on another thread: stop, drain, and a look at its progress.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mio::Waker;

/// Stops an origin that runs on another thread.
#[derive(Debug, Clone)]
pub struct OriginHandle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) waker: Arc<Waker>,
}

/// What a loop and its handles share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) stop: AtomicBool,
    pub(crate) drain: AtomicBool,
    /// How long a drain may take, in nanoseconds.
    pub(crate) drain_for: AtomicU64,
    pub(crate) responses: AtomicU64,
}

impl OriginHandle {
    /// Tells the loop to end; connections that are still open are reset.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        // A waker fails only when its poller is closed, and then the loop has ended.
        let _ = self.waker.wake();
    }

    /// Tells the loop to accept no more connections, to answer requests in flight and then to end. Connections
    /// that are open after `within` are reset.
    pub fn drain(&self, within: Duration) {
        let nanoseconds = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        self.shared.drain_for.store(nanoseconds, Ordering::Release);
        self.shared.drain.store(true, Ordering::Release);
        // See `stop`.
        let _ = self.waker.wake();
    }

    /// Responses that were handed to the kernel completely so far.
    pub fn responses(&self) -> u64 {
        self.shared.responses.load(Ordering::Acquire)
    }
}
