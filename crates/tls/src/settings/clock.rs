//! Wall-clock time as the host tells it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fathometer_model::Instant;
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;

/// The latest instant that any connection was told, on the clock of the wall. Certificates and tickets
/// are judged by it.
#[derive(Debug)]
pub(crate) struct Clock {
    /// The time since 1970 at [`Instant::ZERO`].
    origin: Duration,
    /// The latest instant, in nanoseconds.
    latest: AtomicU64,
}

impl Clock {
    pub(super) fn new(origin: Duration) -> Clock {
        Clock {
            origin,
            latest: AtomicU64::new(0),
        }
    }

    /// It is `now`. Connections on several threads tell it in any order; the latest counts.
    pub(crate) fn tell(&self, now: Instant) {
        // A plain look first: the cache line is shared by all threads.
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
