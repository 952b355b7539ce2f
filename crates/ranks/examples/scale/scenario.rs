//! The input and the result of a simulation.

use std::time::Duration;

use fathometer_path::Profile;
use fathometer_ranks::secret::Secret;

use super::costs::{Costs, IntervalCosts};

/// The result of a simulation, in virtual time.
#[derive(Debug, Default)]
pub struct Found {
    /// The time from the first connection to the start of the test.
    pub rendezvous: Duration,
    /// The largest uncertainty of a rank's clock before the test.
    pub uncertainty: Duration,
    /// The longest time from the end of an interval until rank 0 has merged the figures of the last rank.
    pub last_interval: Duration,
    /// The longest round trip of a ping during the test.
    pub ping: Duration,
    /// The time from the end of the load until rank 0 has the last result.
    pub last_result: Duration,
    /// The share of rank 0's processor that the control connections use during the test.
    pub processor: f64,
    /// Whether rank 0 received the result of every other rank.
    pub is_complete: bool,
}

/// The input of a simulation.
#[derive(Debug)]
pub struct Scenario<'a> {
    /// The number of ranks.
    pub ranks: u32,
    /// The link of rank 0. The direction `up` leads to rank 0.
    pub path: &'a Profile,
    /// The secret that all ranks share.
    pub secret: &'a Secret,
    /// The CPU times of the operations on a connection.
    pub costs: Costs,
    /// The CPU times of processing an interval's figures, and the encoded figures of an interval.
    pub interval: (IntervalCosts, &'a [u8]),
}
