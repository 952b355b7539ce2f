//! Rate limits on what a client may do often but not for ever.

use fathometer_model::Instant;

use super::config::Allowance;

/// The rest of an [`Allowance`]. Reads the time only when it seems to be used up, so normal counting is cheap.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counter {
    left: u32,
    /// The time of the last refill.
    since: Instant,
}

impl Counter {
    /// A counter with the full allowance.
    pub fn new(allowance: Allowance, now: Instant) -> Counter {
        Counter {
            left: allowance.burst,
            since: now,
        }
    }

    /// Takes one; false if none is left.
    #[must_use]
    pub fn take(&mut self, allowance: Allowance, now: Instant) -> bool {
        if self.left == 0 {
            let earned =
                now.since(self.since).as_nanos() * u128::from(allowance.per_second) / 1_000_000_000;
            if earned == 0 {
                return false;
            }
            self.left = allowance
                .burst
                .min(u32::try_from(earned).unwrap_or(u32::MAX));
            self.since = now;
        }
        // A burst of zero allows nothing, even after any time.
        let Some(left) = self.left.checked_sub(1) else {
            return false;
        };
        self.left = left;
        true
    }

    /// Gives `count` back, for completed work.
    pub fn give(&mut self, allowance: Allowance, count: u32) {
        self.left = allowance.burst.min(self.left.saturating_add(count));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_is_used_up_and_time_and_work_give_back() {
        let allowance = Allowance {
            burst: 3,
            per_second: 10,
        };
        let mut now = Instant::ZERO;
        let mut counter = Counter::new(allowance, now);
        let takes =
            |counter: &mut Counter, now| (0..9).filter(|_| counter.take(allowance, now)).count();
        assert_eq!(takes(&mut counter, now), 3);
        now += Duration::from_millis(99);
        assert_eq!(takes(&mut counter, now), 0);
        now += Duration::from_millis(101);
        assert_eq!(takes(&mut counter, now), 2);
        now += Duration::from_secs(3600);
        assert_eq!(takes(&mut counter, now), 3, "no more than a burst");
        counter.give(allowance, 2);
        assert_eq!(takes(&mut counter, now), 2);
        let nothing = Allowance {
            burst: 0,
            per_second: 10,
        };
        now += Duration::from_secs(1);
        assert!(!Counter::new(nothing, Instant::ZERO).take(nothing, now));
    }
}
