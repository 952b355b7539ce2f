//! Limits of a client connection, in bytes and in time, for all versions of HTTP.

use std::time::Duration;

use fathometer_model::Bytes;

/// Limits on one response. If a limit is exceeded, the connection fails with
/// [`Failure::TooLarge`](fathometer_model::Failure::TooLarge).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one head, from the status line to the empty line. At most 4 GiB.
    pub head: Bytes,
    /// Field lines of one head.
    pub fields: u16,
    /// Interim (1xx) responses before one final response.
    pub interim: u16,
    /// Bytes of one response's content, after transfer decoding and before content decoding.
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

/// The time-outs of a client. When a time-out expires, the connection fails with
/// [`Failure::TimedOut`](fathometer_model::Failure::TimedOut); `None` sets no limit.
///
/// The clock of an exchange starts with its *turn*: when the first byte of its request has been passed to the
/// transport and all earlier responses are complete. The time that a response waits behind others
/// in a pipeline does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// The longest time from the turn until the head of the final response is complete.
    pub head: Option<Duration>,
    /// The longest time without a byte read or written while a response is pending.
    pub idle: Option<Duration>,
    /// The longest time from the turn until the response is complete.
    pub total: Option<Duration>,
    /// The longest time for which content is held back after `Expect: 100-continue` without a response. This time-out
    /// is not a failure: after this time the content is sent (RFC 9110 section 10.1.1).
    pub expect_continue: Duration,
}

/// 60 s for the head, 60 s idle, 10 min in total; 1 s for 100 (Continue).
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
