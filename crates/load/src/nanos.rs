//! A length of time in nanoseconds, for code that runs for every exchange.

use std::ops::{Div, Sub};
use std::time::Duration;

use fathometer_model::Instant;

/// A length of time in whole nanoseconds.
///
/// A [`Duration`] stores seconds and nanoseconds separately, so scaling or recording it takes a division. This type
/// needs no such division.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Nanos(pub(super) u64);

impl Nanos {
    pub(super) const ZERO: Nanos = Nanos(0);
    pub(super) const MAX: Nanos = Nanos(u64::MAX);

    /// Returns the time between two instants; `to` must not be earlier than `from`.
    #[inline]
    pub(super) fn between(from: Instant, to: Instant) -> Nanos {
        Nanos(to.as_nanos() - from.as_nanos())
    }

    /// Returns the time between two instants; zero if `to` is earlier than `from`.
    pub(super) fn saturating_between(from: Instant, to: Instant) -> Nanos {
        Nanos(to.as_nanos().saturating_sub(from.as_nanos()))
    }

    pub(super) fn saturating_mul(self, factor: u64) -> Nanos {
        Nanos(self.0.saturating_mul(factor))
    }
}

impl Sub for Nanos {
    type Output = Nanos;

    #[inline]
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}

impl Div<u64> for Nanos {
    type Output = Nanos;

    fn div(self, divisor: u64) -> Nanos {
        Nanos(self.0 / divisor)
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Duration {
        Duration::from_nanos(nanos.0)
    }
}
