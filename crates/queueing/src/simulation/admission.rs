//! Workers, the backlog in front of them, and connections that find the backlog full.

use crate::{ModelError, Seconds};

use super::positive;

/// Workers, and the backlog in front of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Admission {
    /// The index of the station before which an exchange needs a worker. The exchange holds the worker until it ends.
    pub before: usize,
    /// The number of workers; at least 1.
    pub workers: u32,
    /// The number of connections that may wait for a worker.
    pub backlog: u32,
    /// The handling of a connection that finds the backlog full.
    pub overflow: Overflow,
    /// The handshake of a connection; `None` if a SYN that finds room takes the slot at once.
    pub handshake: Option<Handshake>,
}

/// The handling of a connection that finds the backlog full.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Overflow {
    /// The connection is reset and its exchange fails, as with Linux's `net.ipv4.tcp_abort_on_overflow`.
    Refuse,
    /// The SYN is dropped, and the client repeats it.
    Retry(Retries),
}

/// The TCP handshake. A SYN that finds room in the backlog takes no slot: the client's ACK takes the slot, a round trip
/// later. If other connections have filled the backlog in the meantime, the ACK is dropped. The client then has a
/// connection, and repeats its request as after a loss, until the request takes a slot (Linux, `tcp_v4_syn_recv_sock`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Handshake {
    /// The time from a SYN to the ACK.
    pub round_trip: Seconds,
    /// The retries of the client's request.
    pub request: Retries,
}

impl Handshake {
    /// Returns a handshake with the retransmissions of Linux: the tail loss probe and the first time-out after 200 ms
    /// and a round trip each (RFC 8985, 7; `TCP_RTO_MIN`), then back-off (RFC 6298, 5.5).
    pub fn linux(round_trip: Seconds) -> Handshake {
        Handshake {
            round_trip,
            request: Retries {
                first: Seconds(0.2 + round_trip.0),
                even: 2,
                most: 15,
            },
        }
    }
}

/// The times at which a client repeats a segment that has no answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retries {
    /// The time before the first retry, above 0.
    pub first: Seconds,
    /// The number of retries with the same time as the first retry. The time before each further retry is twice the previous
    /// time.
    pub even: u32,
    /// The maximum number of retries. The exchange fails when a further retry would be due.
    pub most: u32,
}

impl Retries {
    /// The retries of a SYN in Linux since 6.5: after 1, 2, 3, 4, 5, 7, 11, 19, 35 and 67 s, and a failure after 131 s. Linux
    /// documentation, networking/ip-sysctl.rst, `tcp_syn_retries` (6) and `tcp_syn_linear_timeouts` (4); 1 s is RFC 6298, 2.1.
    pub const LINUX: Retries = Retries {
        first: Seconds(1.0),
        even: 5,
        most: 10,
    };

    /// Exponential back-off from the first retry on: after 1, 3, 7, 15, 31 and 63 s, and a failure after 127 s (Linux before
    /// 6.5).
    pub const EXPONENTIAL: Retries = Retries {
        first: Seconds(1.0),
        even: 1,
        most: 6,
    };

    /// Returns the time before a retry, or before the failure instead of the retry. Retries are counted from 1.
    pub(super) fn wait(&self, retry: u32) -> Seconds {
        let doublings = retry.saturating_sub(self.even.max(1)).min(MOST_DOUBLINGS);
        Seconds(self.first.0 * f64::from(1u32 << doublings))
    }
}

/// Longer waits would exceed every time-out.
const MOST_DOUBLINGS: u32 = 30;

impl Admission {
    /// Returns the retries of an attempt that finds the backlog full; `None` if the attempt is refused.
    pub(super) fn retries(&self, has_connection: bool) -> Option<Retries> {
        match (self.handshake, self.overflow) {
            (Some(handshake), _) if has_connection => Some(handshake.request),
            (_, Overflow::Retry(retries)) => Some(retries),
            (_, Overflow::Refuse) => None,
        }
    }

    /// Checks the parameters. `pause` is the mean time between the end of an exchange and the next need for a worker.
    pub(super) fn check(&self, stations: usize, pause: Seconds) -> Result<(), ModelError> {
        positive("the number of workers", f64::from(self.workers))?;
        if self.before > stations {
            return Err(ModelError::Parameter {
                what: "the index of the station before which a worker is needed".to_owned(),
                found: self.before as f64,
                range: "the index of a station",
            });
        }
        if let Some(handshake) = self.handshake {
            positive("the round trip of a handshake", handshake.round_trip.0)?;
            positive(
                "the time before a request is repeated",
                handshake.request.first.0,
            )?;
        }
        match self.overflow {
            Overflow::Retry(retries) => positive("the time before a retry", retries.first.0),
            // Otherwise a refused user would repeat its attempt at the same instant forever.
            Overflow::Refuse => positive("the time between two attempts of a user", pause.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the times of all retries since the first SYN, and of the failure.
    fn times(retries: Retries) -> Vec<f64> {
        let waits = (1..=retries.most + 1).map(|retry| retries.wait(retry).0);
        waits
            .scan(0.0, |sum, wait| {
                *sum += wait;
                Some(*sum)
            })
            .collect()
    }

    #[test]
    fn retries_are_those_that_the_documentation_of_linux_states() {
        assert_eq!(
            times(Retries::LINUX),
            [1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 11.0, 19.0, 35.0, 67.0, 131.0]
        );
        assert_eq!(
            times(Retries::EXPONENTIAL),
            [1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 127.0]
        );
    }
}
