//! The quota of a station: server time that is granted at the start of each period.
//!
//! Unused server time of earlier periods remains available up to the burst; further unused time is lost. Periods start
//! at multiples of their length.

use super::Quota;

/// The tolerance with which times and work are compared, in seconds: much shorter than a service, much larger than rounding
/// errors.
pub(super) const TOLERANCE_S: f64 = 1e-10;

/// A quota and the server time that is left.
#[derive(Debug)]
pub(super) struct Gate {
    granted_s: f64,
    burst_s: f64,
    period_s: f64,
    left_s: f64,
    period_number: f64,
}

impl Gate {
    pub(super) fn new(quota: Quota) -> Gate {
        let granted_s = quota.share * quota.period.0;
        Gate {
            granted_s,
            burst_s: quota.burst.0,
            period_s: quota.period.0,
            left_s: granted_s,
            period_number: 0.0,
        }
    }

    /// Grants the quotas of all periods that have started up to `now`, each once.
    pub(super) fn renew(&mut self, now: f64) {
        let number = ((now + TOLERANCE_S) / self.period_s).floor();
        if number > self.period_number {
            let granted = (number - self.period_number) * self.granted_s;
            self.period_number = number;
            self.left_s = (self.left_s + granted).min(self.granted_s + self.burst_s);
        }
    }

    /// Takes server time from the quota.
    pub(super) fn spend(&mut self, used_s: f64) {
        self.left_s -= used_s;
        if self.left_s < TOLERANCE_S {
            self.left_s = 0.0;
        }
    }

    /// Whether the quota is used up.
    pub(super) fn is_closed(&self) -> bool {
        self.left_s <= 0.0
    }

    /// Returns the time from `now` until the quota is used up by `busy` servers, or granted again, whichever is
    /// earlier.
    pub(super) fn next_change(&self, now: f64, busy: usize) -> f64 {
        let renewed = ((self.period_number + 1.0) * self.period_s - now).max(0.0);
        match self.is_closed() || busy == 0 {
            true => renewed,
            false => renewed.min(self.left_s / busy as f64),
        }
    }
}
