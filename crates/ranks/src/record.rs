//! The report of a rank at the end of its share, and the facts that all ranks of a test share.

use std::time::Duration;

use fathometer_analysis::load::{Counts, Distribution, LoadResult};
use serde::{Deserialize, Serialize};

use crate::clock_offset::ClockRecord;

/// The facts that all ranks of a test share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestFacts {
    /// The number of ranks.
    pub ranks: u32,
    /// The length of an interval of the timeline; not zero.
    pub interval: Duration,
    /// The length of the warm-up before the measured window.
    pub warm_up: Duration,
    /// The length of the measured window; `None` if it ends after a number of exchanges.
    pub measured: Option<Duration>,
}

impl TestFacts {
    /// Whether an interval belongs to the measured window: its last instant decides.
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
    /// The rank, from 0.
    pub rank: u32,
    /// The host name of its machine.
    pub host: String,
    /// The result of its share, without a timeline.
    pub result: LoadResult,
    /// Its clock, compared with that of rank 0.
    pub clock: ClockRecord,
    /// By how much the start message arrived after the common start.
    pub start_late: Duration,
    /// Bytes sent and received on its control connection until the report.
    pub traffic: (u64, u64),
}

impl RankRecord {
    /// The largest possible difference between its start and the start of rank 0.
    pub fn start_skew(&self) -> Duration {
        self.start_late + self.clock.before.uncertainty
    }

    /// The time from the start of the test to the end of its share, including the drain.
    pub fn elapsed(&self) -> Duration {
        let result = &self.result;
        let windows = [&result.warm_up, &result.drain];
        let others = windows.into_iter().flatten().map(|window| window.duration);
        result.measured.duration + others.sum::<Duration>()
    }
}

/// The figures of the measured window, from the intervals of a rank.
#[derive(Debug, Default)]
pub(crate) struct Reported {
    pub(crate) intervals: u64,
    pub(crate) counts: Counts,
    pub(crate) received: u64,
    pub(crate) corrected: Distribution,
    pub(crate) send_lag: Distribution,
}
