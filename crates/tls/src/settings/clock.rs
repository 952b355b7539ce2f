//! The wall-clock time that the host reports.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fathometer_model::Instant;
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;

/// The latest time that any connection reported, for checks of certificates and tickets.
#[derive(Debug)]
pub(crate) struct Clock {
    /// The wall-clock time at [`Instant::ZERO`], since the Unix epoch.
    origin: Duration,
    /// The latest reported time, in nanoseconds since [`Instant::ZERO`].
    latest: AtomicU64,
}

impl Clock {
    pub(super) fn new(origin: Duration) -> Clock {
        Clock {
            origin,
            latest: AtomicU64::new(0),
        }
    }

    /// Reports the time `now`. Connections on several threads may report in any order. The latest time counts.
    pub(crate) fn set(&self, now: Instant) {
        // Loads first and stores only if needed, because all threads share the cache line.
        if self.latest.load(Ordering::Relaxed) < now.as_nanos() {
            self.latest.fetch_max(now.as_nanos(), Ordering::Relaxed);
        }
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let latest = Duration::from_nanos(self.latest.load(Ordering::Relaxed));
        Some(UnixTime::since_unix_epoch(self.origin + latest))
    }
}
