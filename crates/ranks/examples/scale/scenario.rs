//! What is simulated, and what comes out.

use std::time::Duration;

use fathometer_path::Profile;
use fathometer_ranks::secret::Secret;

use super::costs::{Costs, IntervalCosts};

/// What happened, in virtual time.
#[derive(Debug, Default)]
pub struct Found {
    /// From the first connection until the test starts.
    pub rendezvous: Duration,
    /// The largest uncertainty of a rank's clock before the test.
    pub uncertainty: Duration,
    /// The longest from the end of an interval until rank 0 has merged the figures of the last rank.
    pub last_interval: Duration,
    /// The longest round trip of a ping during the test.
    pub ping: Duration,
    /// From the end of the load until rank 0 has the last result.
    pub last_result: Duration,
    /// Share of the processor of rank 0 that the control connections take while the test runs.
    pub processor: f64,
    /// Whether every rank started and handed over its result.
    pub is_complete: bool,
}

/// What is simulated.
#[derive(Debug)]
pub struct Scenario<'a> {
    /// Ranks.
    pub ranks: u32,
    /// The link of rank 0: members send up and receive down.
    pub path: &'a Profile,
    /// The secret of all ranks.
    pub secret: &'a Secret,
    /// Costs of connections.
    pub costs: Costs,
    /// Costs of figures, and an encoded interval.
    pub interval: (IntervalCosts, &'a [u8]),
}
