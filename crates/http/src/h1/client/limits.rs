//! What a client connection puts up with, in octets and in time.

use std::time::Duration;

use fathometer_model::Bytes;

/// Limits on what one response may be. Past any of them the connection fails with
/// [`Failure::TooLarge`](fathometer_model::Failure::TooLarge).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Octets of one head, from the status line to the empty line. At most 4 GiB.
    pub head: Bytes,
    /// Field lines of one head.
    pub fields: u16,
    /// Interim (1xx) responses before one final response.
    pub interim: u16,
    /// Octets of one response's content, transfer coding taken off, content coding not.
    pub body: Bytes,
}

/// 64 KiB of head, 128 fields, 16 interim responses, 4 GiB of content.
impl Default for Limits {
    fn default() -> Limits {
        Limits {
            head: Bytes(64 * 1024),
            fields: 128,
            interim: 16,
            body: Bytes(4 << 30),
        }
    }
}

/// How long a client waits. Past any of them the connection fails with
/// [`Failure::TimedOut`](fathometer_model::Failure::TimedOut); `None` waits for ever.
///
/// The clock of an exchange starts with its *turn*: when it is the oldest one without an answer and
/// the first octet of its request has been handed to the transport. Responses that queue behind
/// others in a pipeline are not late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// From the turn until the head of the final response is whole.
    pub head: Option<Duration>,
    /// The longest silence (nothing read, nothing written) while an answer is owed.
    pub idle: Option<Duration>,
    /// From the turn until the response is whole.
    pub total: Option<Duration>,
    /// How long content is held back after `Expect: 100-continue` when no answer comes. This one is
    /// no failure: the content is sent then (RFC 9110 section 10.1.1).
    pub expect_continue: Duration,
}

/// 60 s for the head, 60 s of silence, 10 min in all; 1 s for 100 (Continue).
impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            head: Some(Duration::from_secs(60)),
            idle: Some(Duration::from_secs(60)),
            total: Some(Duration::from_secs(600)),
            expect_continue: Duration::from_secs(1),
        }
    }
}

/// How one connection behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The most requests queued or sent and not yet answered; at least 1. 1 is no pipelining.
    pub depth: u16,
    /// What a response may be.
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
