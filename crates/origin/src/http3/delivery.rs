//! Detects clients that do not acknowledge the data sent to them.
//!
//! QUIC keeps sent data until it is acknowledged, and does not report acknowledgements to HTTP/3. A client that
//! acknowledges nothing but is never silent would make the server keep the data forever. So if a connection has
//! data in flight, some of the data must be acknowledged within a time limit, just as an HTTP/2 client must
//! accept some data.

use std::collections::{HashMap, HashSet};

use fathometer_http::h3::server::Limits;
use fathometer_model::{Bytes, Instant};

/// The progress of acknowledgements on one connection.
///
/// QUIC reports acknowledged bytes of packets, not of streams. A packet is longer than its stream data, so the data
/// that waits is at least the data given to QUIC minus the acknowledged bytes, and may be more. A response whose end
/// was given to QUIC certainly waits until QUIC reports that it is acknowledged completely.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// The time at which an ended response or a pending close began to wait for acknowledgements, and the number of
    /// bytes acknowledged at that time.
    unfinished: Option<(Instant, Bytes)>,
    /// The request streams whose end was given to QUIC, and that are neither acknowledged completely nor reset.
    ended: HashSet<u64>,
    /// The time at which data began to wait for acknowledgements, and the number of bytes acknowledged at that time.
    since: Option<(Instant, Bytes)>,
    /// The bytes that waited at that time.
    waiting: u64,
    /// The bytes given to QUIC after that time.
    given: u64,
    /// The bytes given to QUIC on each request stream that is neither acknowledged completely nor reset.
    streams: HashMap<u64, u64>,
}

impl Delivery {
    /// Records that QUIC took bytes of a stream, and whether the stream ends with them.
    pub fn give(&mut self, stream: u64, bytes: u64, end: bool) {
        if end && fathometer_quic::stream::is_bidirectional(stream) {
            self.ended.insert(stream);
        }
        if bytes == 0 {
            return;
        }
        self.given += bytes;
        if fathometer_quic::stream::is_bidirectional(stream) {
            *self.streams.entry(stream).or_default() += bytes;
        }
    }

    /// Records that a stream was acknowledged completely.
    pub fn finish(&mut self, stream: u64) {
        self.ended.remove(&stream);
        self.streams.remove(&stream);
    }

    /// Records that a stream was reset: QUIC no longer keeps its data.
    pub fn reset(&mut self, stream: u64) {
        self.ended.remove(&stream);
        let bytes = self.streams.remove(&stream).unwrap_or(0);
        let later = bytes.saturating_sub(self.waiting);
        self.waiting = self.waiting.saturating_sub(bytes);
        self.given = self.given.saturating_sub(later);
    }

    /// Whether a response whose end was given to QUIC waits for acknowledgements.
    pub fn has_unfinished(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Updates the state. Returns whether data that was given to QUIC at least one time limit ago still waits, and the
    /// client has acknowledged too little since then. `certainly_waits`: whether data waits regardless of the number of
    /// acknowledged bytes. `acknowledged` is called only if its result is needed.
    pub fn is_stalled(
        &mut self,
        certainly_waits: bool,
        acknowledged: impl Fn() -> Bytes,
        limits: &Limits,
        now: Instant,
    ) -> bool {
        match self.unfinished {
            _ if !certainly_waits => self.unfinished = None,
            None => self.unfinished = Some((now, acknowledged())),
            Some((since, before)) if since + limits.send <= now => {
                let after = acknowledged();
                // The count starts again if the client migrates to another path.
                let bytes = after.0.checked_sub(before.0);
                if bytes.is_some_and(|bytes| bytes < limits.stall_bytes.0) {
                    return true;
                }
                self.unfinished = Some((now, after));
            }
            Some(_) => {}
        }
        let acknowledged = match self.since {
            None if self.given == 0 => return false,
            Some((since, _)) if now < since + limits.send => return false,
            _ => acknowledged(),
        };
        if let Some((_, before)) = self.since {
            match acknowledged.0.checked_sub(before.0) {
                None => {
                    self.waiting = 0;
                    // If all request streams are acknowledged or reset, nothing waits.
                    if self.streams.is_empty() {
                        self.given = 0;
                    }
                }
                Some(bytes) => {
                    let later = bytes.saturating_sub(self.waiting);
                    self.waiting = self.waiting.saturating_sub(bytes);
                    if self.waiting > 0 && bytes < limits.stall_bytes.0 {
                        return true;
                    }
                    self.given = self.given.saturating_sub(later);
                }
            }
        }
        self.waiting += std::mem::take(&mut self.given);
        self.since = (self.waiting > 0).then_some((now, acknowledged));
        false
    }

    /// The time at which acknowledgements must be checked again; `None` if no data waits for acknowledgements.
    pub fn deadline(&self, limits: &Limits) -> Option<Instant> {
        let starts = [self.since, self.unfinished].into_iter().flatten();
        starts.map(|(since, _)| since + limits.send).min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(second: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(second)
    }

    fn look(delivery: &mut Delivery, acknowledged: u64, second: u64) -> bool {
        delivery.is_stalled(
            delivery.has_unfinished(),
            || Bytes(acknowledged),
            &Limits::default(),
            at(second),
        )
    }

    #[test]
    fn a_client_that_acknowledges_too_little_has_stalled_and_no_other() {
        let mut delivery = Delivery::default();
        assert!(!look(&mut delivery, 0, 0));
        assert_eq!(delivery.deadline(&Limits::default()), None);
        delivery.give(0, 100_000, false);
        assert!(!look(&mut delivery, 5_000, 10));
        assert!(!look(&mut delivery, 5_000, 69));
        assert!(
            !look(&mut delivery, 6_024, 70),
            "1024 bytes in a minute are enough"
        );
        assert!(!look(&mut delivery, 6_024, 129));
        assert_eq!(delivery.deadline(&Limits::default()), Some(at(130)));
        assert!(look(&mut delivery, 7_047, 130));
    }

    #[test]
    fn a_response_with_few_bytes_does_not_stall() {
        let mut delivery = Delivery::default();
        // An event of 100 bytes every 30 s. Each is acknowledged at once, in a packet of 140 bytes.
        let mut acknowledged = 0;
        for second in (0..600).step_by(30) {
            delivery.give(0, 100, false);
            assert!(!look(&mut delivery, acknowledged, second), "{second}");
            acknowledged += 140;
            assert!(!look(&mut delivery, acknowledged, second + 1), "{second}");
        }
        // The stream stays open, and no data waits.
        for second in 600..800 {
            assert!(!look(&mut delivery, acknowledged, second), "{second}");
        }
        assert_eq!(delivery.deadline(&Limits::default()), None);
        // An event that is not acknowledged stalls.
        delivery.give(0, 100, false);
        assert!(!look(&mut delivery, acknowledged, 800));
        assert!(look(&mut delivery, acknowledged, 860));
    }

    #[test]
    fn data_of_a_stream_that_is_reset_does_not_wait() {
        let mut delivery = Delivery::default();
        delivery.give(0, 200_000, false);
        assert!(!look(&mut delivery, 0, 0));
        delivery.give(4, 50_000, false);
        delivery.reset(0);
        assert!(
            !look(&mut delivery, 0, 60),
            "stream 4 had no time limit yet"
        );
        delivery.finish(8);
        delivery.reset(4);
        assert!(!look(&mut delivery, 0, 120));
        assert_eq!(delivery.deadline(&Limits::default()), None);
    }

    #[test]
    fn a_client_that_migrates_has_a_new_time_limit() {
        let mut delivery = Delivery::default();
        delivery.give(0, 100_000, false);
        assert!(!look(&mut delivery, 6_024, 0));
        delivery.give(0, 2_000, false);
        assert!(!look(&mut delivery, 0, 60));
        assert!(!look(&mut delivery, 1_023, 119));
        assert!(look(&mut delivery, 1_023, 120));
    }
    #[test]
    fn the_end_of_a_response_must_be_acknowledged() {
        let mut delivery = Delivery::default();
        delivery.give(0, 1_000_000, true);
        assert!(!look(&mut delivery, 0, 0));
        // The acknowledged packets are longer than the data in them: the last bytes may still wait.
        assert!(!look(&mut delivery, 1_000_000, 60));
        assert!(look(&mut delivery, 1_000_000, 120));
        delivery.finish(0);
        assert!(!look(&mut delivery, 1_000_000, 121));
        assert_eq!(delivery.deadline(&Limits::default()), None);
    }

    #[test]
    fn nothing_waits_after_a_migration_if_all_responses_are_acknowledged() {
        let mut delivery = Delivery::default();
        delivery.give(0, 1_000, false);
        assert!(!look(&mut delivery, 5_000, 0));
        delivery.give(0, 10_000_000, true);
        delivery.finish(0);
        assert!(!look(&mut delivery, 0, 60));
        assert!(!look(&mut delivery, 100, 120));
        assert_eq!(delivery.deadline(&Limits::default()), None);
    }
}
