//! How fast the content of a request must come.
//!
//! A bound on silence alone lets a client hold its place for ever with a byte now and then. So content earns
//! time: a client has a while to begin with, and each byte it sends gives it a little more.

use std::time::Duration;

use fathometer_model::{Bytes, Instant};

/// How long a client may take over the content of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentPace {
    /// What a client has to begin with, and so the longest silence before the first byte.
    pub grace: Duration,
    /// Bytes that earn a second more. 0: any byte earns as much as can be.
    pub per_second: Bytes,
    /// The grace where the answer is an error whatever the content says. Content that comes at once is read, and
    /// the connection can be used again; for any other the answer does not wait.
    pub unwanted: Duration,
}

/// What Apache httpd asks for by default (`RequestReadTimeout body=20,MinRate=500`).
impl Default for ContentPace {
    fn default() -> ContentPace {
        ContentPace {
            grace: Duration::from_secs(20),
            per_second: Bytes(500),
            unwanted: Duration::from_secs(1),
        }
    }
}

/// The time that the content of one request has earned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paid {
    until: Instant,
    grace: Duration,
    /// How far ahead it can be: the longest silence.
    most: Duration,
}

impl Paid {
    /// Content begins `now`. It is never more than `silence` ahead.
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

    /// Some of it came.
    pub fn note(&mut self, bytes: u64, pace: &ContentPace, now: Instant) {
        let earned = match pace.per_second.0 {
            0 => self.most,
            rate => Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate),
        };
        self.until = (self.until + earned).min(now + self.most);
    }

    /// When the client has taken too long.
    pub fn deadline(&self) -> Instant {
        self.until
    }

    /// When a client would have begun that had come as far at the least pace: the earlier, the slower it is.
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
    fn bytes_earn_time_and_never_more_than_a_silence() {
        let pace = ContentPace::default();
        let mut now = Instant::ZERO;
        let mut paid = Paid::new(&pace, true, 60 * SECOND, now);
        assert_eq!(paid.deadline(), now + 20 * SECOND);
        paid.note(1_000, &pace, now);
        assert_eq!(paid.deadline(), now + 22 * SECOND);
        paid.note(1 << 30, &pace, now);
        assert_eq!(paid.deadline(), now + 60 * SECOND);
        // At the least pace it goes on for ever.
        for _ in 0..1_000 {
            now += 30 * SECOND;
            assert!(paid.deadline() > now);
            paid.note(15_000, &pace, now);
        }
        // A byte now and then earns nothing to speak of.
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
