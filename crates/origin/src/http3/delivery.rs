//! Detects clients that do not acknowledge the data sent to them.
//!
//! QUIC keeps sent data until it is acknowledged, and does not report acknowledgements to HTTP/3. A client that
//! acknowledges nothing but is never silent would make the server keep the data forever. So if a connection has
//! data in flight, some of the data must be acknowledged within a time limit, just as an HTTP/2 client must
//! accept some data.

use fathometer_http::h3::server::Limits;
use fathometer_model::{Bytes, Instant};

/// The progress of acknowledgements on one connection.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// Since when data waits for acknowledgements, and the number of bytes that were acknowledged by then.
    since: Option<(Instant, Bytes)>,
}

impl Delivery {
    /// Updates the state. `waits`: data waits for acknowledgements. Returns whether the client has taken too
    /// long. `acknowledged` is called only if its result is needed.
    pub fn is_stalled(
        &mut self,
        waits: bool,
        acknowledged: impl FnOnce() -> Bytes,
        limits: &Limits,
        now: Instant,
    ) -> bool {
        match self.since {
            _ if !waits => self.since = None,
            None => self.since = Some((now, acknowledged())),
            Some((since, before)) if since + limits.send <= now => {
                let after = acknowledged();
                // The count starts again if the client migrates to another path.
                if after >= before && after.0 - before.0 < limits.stall_bytes.0 {
                    return true;
                }
                self.since = Some((now, after));
            }
            Some(_) => {}
        }
        false
    }

    /// The time at which acknowledgements must be checked again; `None` if no data waits for acknowledgements.
    pub fn deadline(&self, limits: &Limits) -> Option<Instant> {
        self.since.map(|(since, _)| since + limits.send)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(second: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(second)
    }

    #[test]
    fn a_client_that_acknowledges_too_little_has_stalled_and_no_other() {
        let limits = Limits::default();
        let mut delivery = Delivery::default();
        let mut look = |waits, acknowledged, second| {
            delivery.is_stalled(waits, || Bytes(acknowledged), &limits, at(second))
        };
        assert!(!look(false, 0, 0));
        assert!(!look(true, 5_000, 10));
        assert!(!look(true, 5_000, 69));
        assert!(!look(true, 6_024, 70), "1024 bytes in a minute are enough");
        assert!(!look(true, 6_024, 129));
        assert!(!look(false, 6_024, 129), "all was acknowledged");
        assert!(!look(true, 6_024, 130));
        assert!(!look(true, 0, 190), "the client moved");
        assert!(!look(true, 1_023, 249));
        assert!(look(true, 1_023, 250));
        assert_eq!(delivery.deadline(&limits), Some(at(250)));
    }
}
