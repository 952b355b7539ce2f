//! The report of a rank at the end of its share, and the facts that are equal on all ranks of a test.

use std::time::Duration;

use fathometer_analysis::load::{Counts, Distribution, LoadResult};
use serde::{Deserialize, Serialize};

use crate::clock_offset::ClockRecord;

/// The facts that are equal on all ranks of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestFacts {
    /// The number of ranks.
    pub ranks: u32,
    /// The length of an interval of the timeline. It is not zero.
    pub interval: Duration,
    /// The length of the warm-up before the measured window.
    pub warm_up: Duration,
    /// The length of the measured window; `None` if the window ends after a number of exchanges.
    pub measured: Option<Duration>,
}

impl TestFacts {
    /// Whether an interval belongs to the measured window. The last instant of the interval determines this.
    pub(crate) fn is_measured(&self, interval: u64) -> bool {
        let ends = self.interval.as_nanos() * (u128::from(interval) + 1);
        let last = ends.saturating_sub(1);
        let begin = self.warm_up.as_nanos();
        last >= begin
            && self
                .measured
                .is_none_or(|measured| last < begin + measured.as_nanos())
    }
}

/// The report of a rank at the end of its share.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RankRecord {
    /// The rank, counted from 0.
    pub rank: u32,
    /// The host name of the rank's machine.
    pub host: String,
    /// The result of the rank's share, without a timeline.
    pub result: LoadResult,
    /// The comparison of the rank's clock with rank 0's clock.
    pub clock: ClockRecord,
    /// The time from the common start until the start message arrived, if it arrived after the start.
    pub start_late: Duration,
    /// The numbers of bytes sent and received on the control connection until the report.
    pub traffic: (u64, u64),
}

impl RankRecord {
    /// The maximum difference between the start of this rank and the start of rank 0.
    pub fn start_skew(&self) -> Duration {
        self.start_late + self.clock.before.uncertainty
    }

    /// The time from the start of the test to the end of the rank's share, including the drain.
    pub fn elapsed(&self) -> Duration {
        let result = &self.result;
        let windows = [&result.warm_up, &result.drain];
        let others = windows.into_iter().flatten().map(|window| window.duration);
        result.measured.duration + others.sum::<Duration>()
    }
}

/// The figures of the measured window, added up from the intervals of a rank.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    pub(crate) intervals: u64,
    pub(crate) counts: Counts,
    pub(crate) received: u64,
    pub(crate) corrected: Distribution,
    pub(crate) send_lag: Distribution,
}
