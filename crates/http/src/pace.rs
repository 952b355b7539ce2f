//! The slowest rate at which a client may send the content of a request.
//!
//! An idle time-out alone lets a client keep its connection for ever by sending a byte at long intervals. Therefore
//! a client starts with a grace period, and each byte of content extends the deadline a little.

use std::time::Duration;

use fathometer_model::{Bytes, Instant};

/// The time that a client may take to send the content of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentPace {
    /// The initial time budget, which is also the longest time until the first byte.
    pub grace: Duration,
    /// Bytes that extend the deadline by one second. 0: any byte resets the deadline to the maximum.
    pub per_second: Bytes,
    /// The grace period for a response that does not depend on the content, such as an error. Content that arrives
    /// within this time is read, and the connection can be reused. After this time the response is sent without waiting
    /// for the content.
    pub unwanted: Duration,
}

/// Apache httpd's default (`RequestReadTimeout body=20,MinRate=500`).
impl Default for ContentPace {
    fn default() -> ContentPace {
        ContentPace {
            grace: Duration::from_secs(20),
            per_second: Bytes(500),
            unwanted: Duration::from_secs(1),
        }
    }
}

/// The deadline for the content of one request; received bytes extend it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paid {
    until: Instant,
    grace: Duration,
    /// The maximum time from now to the deadline, which is also the longest time without a byte.
    most: Duration,
}

impl Paid {
    /// Starts the budget at `now`. The deadline is never more than `silence` (or the grace period, if longer)
    /// ahead; for unwanted content never more than [`ContentPace::unwanted`].
    pub fn new(pace: &ContentPace, is_wanted: bool, silence: Duration, now: Instant) -> Paid {
        let (grace, most) = match is_wanted {
            true => (pace.grace, silence.max(pace.grace)),
            false => (pace.unwanted, pace.unwanted),
        };
        Paid {
            until: now + grace,
            grace,
            most,
        }
    }

    /// Extends the deadline for `bytes` of content that arrived.
    pub fn note(&mut self, bytes: u64, pace: &ContentPace, now: Instant) {
        let earned = match pace.per_second.0 {
            0 => self.most,
            rate => Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate),
        };
        self.until = (self.until + earned).min(now + self.most);
    }

    /// The time at which the client has taken too long.
    pub fn deadline(&self) -> Instant {
        self.until
    }

    /// The time at which a client with exactly the minimum rate must have started to reach this deadline. A slower
    /// client has an earlier time.
    pub fn standing(&self) -> Instant {
        let until = self.until.since(Instant::ZERO);
        Instant::ZERO + until.saturating_sub(self.grace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn received_bytes_extend_the_deadline_up_to_the_idle_limit() {
        let pace = ContentPace::default();
        let mut now = Instant::ZERO;
        let mut paid = Paid::new(&pace, true, 60 * SECOND, now);
        assert_eq!(paid.deadline(), now + 20 * SECOND);
        paid.note(1_000, &pace, now);
        assert_eq!(paid.deadline(), now + 22 * SECOND);
        paid.note(1 << 30, &pace, now);
        assert_eq!(paid.deadline(), now + 60 * SECOND);
        // At the minimum rate the client may continue for ever.
        for _ in 0..1_000 {
            now += 30 * SECOND;
            assert!(paid.deadline() > now);
            paid.note(15_000, &pace, now);
        }
        // Single bytes at long intervals earn almost no time.
        let mut paid = Paid::new(&pace, true, 60 * SECOND, now);
        let begun = now;
        while paid.deadline() > now {
            now += 5 * SECOND;
            paid.note(1, &pace, now);
        }
        assert!(now.since(begun) <= 25 * SECOND);
        assert!(paid.standing().since(begun) < SECOND);
    }

    #[test]
    fn unwanted_content_must_come_at_once_or_at_the_pace() {
        let pace = ContentPace::default();
        let now = Instant::ZERO;
        let mut paid = Paid::new(&pace, false, 60 * SECOND, now);
        assert_eq!(paid.deadline(), now + SECOND);
        paid.note(1 << 30, &pace, now + SECOND / 2);
        assert_eq!(paid.deadline(), now + SECOND / 2 + SECOND);
    }
}
