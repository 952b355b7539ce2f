//! Our instants in the form that the transport machine wants, and back.
//!
//! `quinn-proto` counts in `std::time::Instant`, which can only be had from the system's clock. One
//! such reading stands for our origin. Its value means nothing: everything is counted from it, in both
//! directions, so that no result depends on when it was taken.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fathometer_model::Instant;

static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();

/// What stands for our origin.
pub(crate) fn origin() -> std::time::Instant {
    *ORIGIN.get_or_init(std::time::Instant::now)
}

/// The machine's form of an instant.
pub(crate) fn to_machine(instant: Instant) -> std::time::Instant {
    origin() + Duration::from_nanos(instant.as_nanos())
}

/// What the machine takes for a time.
pub(crate) type MachineInstant = std::time::Instant;

/// Our form of an instant of the machine's.
pub(crate) fn from_machine(instant: std::time::Instant) -> Instant {
    Instant::ZERO + instant.saturating_duration_since(origin())
}

/// The time that address validation tokens are stamped with: that of the last call, counted from the
/// Unix epoch as if our origin were there. Only this program reads those tokens.
#[derive(Debug, Default)]
pub(crate) struct TokenTime(AtomicU64);

impl TokenTime {
    pub(crate) fn set(&self, now: Instant) {
        self.0.store(now.as_nanos(), Ordering::Relaxed);
    }
}

impl quinn_proto::TimeSource for TokenTime {
    fn now(&self) -> std::time::SystemTime {
        std::time::UNIX_EPOCH + Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_return_as_they_went() {
        for nanos in [0, 1, 999, 1_000_000_007, u64::MAX / 4] {
            let instant = Instant::from_nanos(nanos);
            assert_eq!(from_machine(to_machine(instant)), instant);
        }
        let later = to_machine(Instant::from_nanos(5));
        assert_eq!(later - to_machine(Instant::ZERO), Duration::from_nanos(5));
    }
}
