//! Settings of a client connection of HTTP/1.x.

use crate::exchange::{Limits, Timeouts};

/// Settings of one client connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The maximum number of requests that are queued or sent and not answered; at least 1. With 1 there is no
    /// pipelining.
    pub depth: u16,
    /// Limits on a response.
    pub limits: Limits,
    /// Time-outs of a request.
    pub timeouts: Timeouts,
}

/// No pipelining, default limits and time-outs.
impl Default for Config {
    fn default() -> Config {
        Config {
            depth: 1,
            limits: Limits::default(),
            timeouts: Timeouts::default(),
        }
    }
}
