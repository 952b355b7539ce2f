//! Converts our instants to `quinn-proto`'s instants, and back.
//!
//! `quinn-proto` uses `std::time::Instant`, whose values come only from the system's clock. One reading of that clock
//! represents our origin. All conversions are relative to this reading, so no result depends on its value.

#![expect(
    clippy::disallowed_types,
    reason = "quinn-proto's interface has these types"
)]

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fathometer_model::Instant;

static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();

/// Returns the clock reading that represents our origin.
pub(crate) fn origin() -> std::time::Instant {
    *ORIGIN.get_or_init(std::time::Instant::now)
}

/// Converts our instant to `quinn-proto`'s type.
pub(crate) fn to_machine(instant: Instant) -> std::time::Instant {
    origin() + Duration::from_nanos(instant.as_nanos())
}

/// The time type of `quinn-proto`.
pub(crate) type MachineInstant = std::time::Instant;

/// Converts an instant of `quinn-proto` to our type.
pub(crate) fn from_machine(instant: std::time::Instant) -> Instant {
    Instant::ZERO + instant.saturating_duration_since(origin())
}

/// The clock for address validation tokens: the time of the last call, with our origin mapped to the Unix epoch. Only
/// this program reads those tokens.
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
