//! Messages between ranks.

use serde::{Deserialize, Serialize};

/// A message on a control connection. Instants are nanoseconds of the sender's clock unless stated otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Member: identifies itself and its test.
    Hello(Hello),
    /// Rank 0: the member is accepted in the test.
    Welcome,
    /// Rank 0: the member is not accepted, or the test does not start.
    Refused(String),
    /// Member: requests the time of rank 0's clock. The ping is sent once a second. It also shows that the member is
    /// alive.
    Ping {
        /// The instant of sending.
        sent: u64,
    },
    /// Rank 0: answers a ping with the time of its clock.
    Pong {
        /// The instant of sending, copied from [`Message::Ping`].
        sent: u64,
        /// The instant at which the ping was read.
        read: u64,
    },
    /// Member: its event loops are ready, and the comparison of the clocks is complete.
    Ready,
    /// Rank 0: the test starts.
    Start {
        /// The start, as an instant of rank 0's clock.
        at: u64,
        /// The number of this test, which is the same in all its spools.
        test: u64,
    },
    /// Member: its figures of one interval.
    Interval(Vec<u8>),
    /// Rank 0: ends the test early.
    Stop,
    /// Member: its share has finished, with this result.
    Ended(Vec<u8>),
    /// Rank 0: the result has arrived.
    Done,
    /// Member: its share failed.
    Failed(String),
}

/// The first message of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The member's rank.
    pub rank: u32,
    /// The number of ranks according to the member's options.
    pub ranks: u32,
    /// The hash of the member's plan and options.
    pub plan: [u8; 32],
    /// Version and build of the member's program.
    pub version: String,
    /// The host name of the member's machine.
    pub host: String,
}
