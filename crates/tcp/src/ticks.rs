//! The kernel's timers: ticks of 4 ms (HZ=250), coarser for long waits.
//!
//! A timer never expires early. A timer of less than 63 ticks expires one tick after its nominal tick. A timer of 63
//! ticks or more expires at a multiple of 8 ticks (32 ms). A timer of 504 ticks or more expires at a multiple of 64
//! ticks (256 ms), and so on (see the comment at the top of kernel/time/timer.c).

use std::time::Duration;

use fathometer_model::Instant;

/// The length of a tick.
pub(crate) const TICK: Duration = Duration::from_millis(4);
/// Timers of fewer ticks than this have the precision of a tick.
const EXACT: u64 = 63;
/// Each level is coarser than the previous level by this power of two.
const COARSER: u32 = 3;

/// The tick counter of a host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticks {
    phase: u64,
}

impl Ticks {
    pub(crate) fn new(phase: Duration) -> Ticks {
        Ticks {
            phase: phase.as_nanos() as u64,
        }
    }

    /// Returns the number of the current tick.
    pub(crate) fn number(self, now: Instant) -> u64 {
        (now.as_nanos() + self.phase) / TICK.as_nanos() as u64
    }

    /// Returns the time at which a timer that is set now for `wait` expires.
    pub(crate) fn expiry(self, now: Instant, wait: Duration) -> Instant {
        let ticks = in_ticks(wait).max(1);
        let (mut start, mut level) = (EXACT, 0);
        while ticks >= start {
            start <<= COARSER;
            level += COARSER;
        }
        let granules = (self.number(now) + ticks + (1 << level)) >> level;
        let nanos = (granules << level) * TICK.as_nanos() as u64;
        Instant::from_nanos(nanos.saturating_sub(self.phase))
    }
}

/// Converts a time to ticks, rounded up.
pub(crate) fn in_ticks(time: Duration) -> u64 {
    (time.as_nanos() as u64).div_ceil(TICK.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_delayed_acknowledgement_waits_for_40_to_44_ms() {
        let ticks = Ticks::new(Duration::ZERO);
        assert_eq!(ticks.expiry(ms(0), Duration::from_millis(40)), ms(44));
        assert_eq!(ticks.expiry(ms(3), Duration::from_millis(40)), ms(44));
        let later = Ticks::new(Duration::from_millis(3));
        assert_eq!(later.expiry(ms(0), Duration::from_millis(40)), ms(41));
    }

    #[test]
    fn long_timers_expire_at_multiples_of_32_ms_or_256_ms() {
        let ticks = Ticks::new(Duration::ZERO);
        assert_eq!(ticks.expiry(ms(0), Duration::from_millis(555)), ms(576));
        assert_eq!(ticks.expiry(ms(0), Duration::from_secs(3)), ms(3072));
    }
}
