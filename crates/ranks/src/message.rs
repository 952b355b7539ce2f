//! Messages between ranks.

use serde::{Deserialize, Serialize};

/// A message on a control connection. Instants are nanoseconds of the sender's clock unless stated otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// Member: who it is, and of which test.
    Hello(Hello),
    /// Rank 0: the member takes part in the test.
    Welcome,
    /// Rank 0: the member does not take part, or the test does not start.
    Refused(String),
    /// Member: asks for the time. Once a second it also shows that the member is there.
    Ping {
        /// When it was sent.
        sent: u64,
    },
    /// Rank 0: the time.
    Pong {
        /// [`Message::Ping`]'s instant.
        sent: u64,
        /// When the ping was read.
        read: u64,
    },
    /// Member: its event loops are ready, and its clock is compared.
    Ready,
    /// Rank 0: the test starts.
    Start {
        /// At this instant of rank 0's clock.
        at: u64,
        /// The number of this test, which its spools have in common.
        test: u64,
    },
    /// Member: its figures of one interval.
    Interval(Vec<u8>),
    /// Rank 0: ends the test early.
    Stop,
    /// Member: its share has ended, with this result.
    Ended(Vec<u8>),
    /// Rank 0: the result has arrived.
    Done,
    /// Member: its share failed.
    Failed(String),
}

/// The first message of a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Its rank.
    pub rank: u32,
    /// The number of ranks that its options give.
    pub ranks: u32,
    /// The hash of its plan and options.
    pub plan: [u8; 32],
    /// Version and build of its program.
    pub version: String,
    /// The name of its machine.
    pub host: String,
}
