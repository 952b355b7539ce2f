//! Settings of a client connection of HTTP/1.x.

use crate::exchange::{Limits, Timeouts};

/// How one connection behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The most requests queued or sent and not yet answered; at least 1. With 1 there is no pipelining.
    pub depth: u16,
    /// Limits on a response.
    pub limits: Limits,
    /// How long to wait.
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
