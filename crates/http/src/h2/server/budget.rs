//! Rate limits on frames that cost the server more work than the client. Bursts are allowed; a sustained flood is not.

use fathometer_model::Instant;

use super::config::{Allowance, Limits};
use crate::h2::error::Fault;

/// Idle frames that each request adds to the allowance: WINDOW_UPDATE frames and the stream's dependency.
const IDLE_PER_REQUEST: u32 = 4;
/// Idle frames that each sent DATA frame adds to the allowance: one WINDOW_UPDATE for the stream and one for the
/// connection.
const IDLE_PER_DATA: u32 = 2;

/// The remaining allowances of a client. They are refilled at the rate of each [`Allowance`], and also by useful work.
///
/// Invariant: no counter is above the burst of its allowance.
#[derive(Debug)]
pub(super) struct Budget {
    resets: Counter,
    provoked_resets: Counter,
    answers: Counter,
    idle_frames: Counter,
}

impl Budget {
    /// Creates a budget with full allowances.
    pub fn new(limits: &Limits, now: Instant) -> Budget {
        Budget {
            resets: Counter::new(limits.resets, now),
            provoked_resets: Counter::new(limits.provoked_resets, now),
            answers: Counter::new(limits.answers, now),
            idle_frames: Counter::new(limits.idle_frames, now),
        }
    }

    /// Counts an idle frame.
    pub fn take_idle_frame(&mut self, now: Instant) -> Result<(), Fault> {
        self.idle_frames.take(now, Fault::IdleFrames)
    }

    /// Counts a frame that requires an answer.
    pub fn take_answer(&mut self, now: Instant) -> Result<(), Fault> {
        self.answers.take(now, Fault::AnswerFlood)
    }

    /// Counts a request that the client has reset.
    pub fn take_reset(&mut self, now: Instant) -> Result<(), Fault> {
        self.resets.take(now, Fault::ResetFlood)
    }

    /// Counts a fault for which the server resets a stream.
    pub fn take_provoked_reset(&mut self, now: Instant) -> Result<(), Fault> {
        self.provoked_resets.take(now, Fault::ProvokedResets)
    }

    /// Refills the allowance of idle frames, because a request has arrived.
    pub fn note_request(&mut self) {
        self.idle_frames.give(IDLE_PER_REQUEST);
    }

    /// Refills the allowance of idle frames, because a DATA frame was sent.
    pub fn note_data(&mut self) {
        self.idle_frames.give(IDLE_PER_DATA);
    }

    /// Refills the allowance of resets, because a response is complete.
    pub fn note_response(&mut self) {
        self.resets.give(1);
    }
}

/// The unused part of an [`Allowance`]. The time is compared only when the allowance is used up, so counting is usually
/// cheap.
#[derive(Debug, Clone, Copy)]
struct Counter {
    allowance: Allowance,
    left: u32,
    /// The time of the last refill.
    since: Instant,
}

impl Counter {
    /// Creates a counter with the full allowance.
    fn new(allowance: Allowance, now: Instant) -> Counter {
        Counter {
            allowance,
            left: allowance.burst,
            since: now,
        }
    }

    /// Takes one unit of the allowance; returns `fault` if the allowance is used up.
    fn take(&mut self, now: Instant, fault: Fault) -> Result<(), Fault> {
        let Allowance { burst, per_second } = self.allowance;
        if self.left == 0 {
            let earned = now.since(self.since).as_nanos() * u128::from(per_second) / 1_000_000_000;
            if earned == 0 {
                return Err(fault);
            }
            self.left = burst.min(u32::try_from(earned).unwrap_or(u32::MAX));
            self.since = now;
        }
        // With a burst of zero, nothing is ever allowed.
        self.left = self.left.checked_sub(1).ok_or(fault)?;
        Ok(())
    }

    /// Adds `count` units to the allowance for completed work, up to the maximum burst.
    fn give(&mut self, count: u32) {
        self.left = self.allowance.burst.min(self.left.saturating_add(count));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn time_and_useful_work_refill_the_budget() {
        let allowance = Allowance {
            burst: 3,
            per_second: 10,
        };
        let mut now = Instant::ZERO;
        let mut counter = Counter::new(allowance, now);
        let takes = |counter: &mut Counter, now| {
            let taken = (0..9).filter(|_| counter.take(now, Fault::IdleFrames).is_ok());
            taken.count()
        };
        assert_eq!(takes(&mut counter, now), 3);
        now += Duration::from_millis(99);
        assert_eq!(takes(&mut counter, now), 0);
        now += Duration::from_millis(101);
        assert_eq!(takes(&mut counter, now), 2);
        now += Duration::from_secs(3600);
        assert_eq!(
            takes(&mut counter, now),
            3,
            "the allowance is limited to one burst"
        );
        counter.give(2);
        assert_eq!(takes(&mut counter, now), 2);
        let nothing = Allowance {
            burst: 0,
            per_second: 10,
        };
        now += Duration::from_secs(1);
        assert_eq!(takes(&mut Counter::new(nothing, Instant::ZERO), now), 0);
    }

    #[test]
    fn each_kind_of_frame_has_its_own_fault_and_refill() {
        let once = Allowance {
            burst: 1,
            per_second: 0,
        };
        let limits = Limits {
            resets: once,
            provoked_resets: once,
            answers: once,
            idle_frames: once,
            ..Limits::default()
        };
        let now = Instant::ZERO;
        let mut budget = Budget::new(&limits, now);
        assert_eq!(budget.take_idle_frame(now), Ok(()));
        assert_eq!(budget.take_answer(now), Ok(()));
        assert_eq!(budget.take_reset(now), Ok(()));
        assert_eq!(budget.take_provoked_reset(now), Ok(()));
        budget.note_response();
        assert_eq!(budget.take_reset(now), Ok(()));
        assert_eq!(budget.take_reset(now), Err(Fault::ResetFlood));
        assert_eq!(budget.take_idle_frame(now), Err(Fault::IdleFrames));
        budget.note_data();
        assert_eq!(budget.take_idle_frame(now), Ok(()));
        budget.note_request();
        assert_eq!(budget.take_idle_frame(now), Ok(()));
        assert_eq!(budget.take_answer(now), Err(Fault::AnswerFlood));
        let provoked = budget.take_provoked_reset(now);
        assert_eq!(provoked, Err(Fault::ProvokedResets));
    }
}
