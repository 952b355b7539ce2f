//! Cached alternative services (RFC 7838 section 2.2).

use fathometer_model::Instant;

/// An alternative service of a host, stored from one visit to the next: HTTP/3 on a port of the same host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service {
    /// The port.
    pub port: u16,
    /// The time at which the announcement expires.
    pub until: Instant,
    /// If the service failed: the time until which it is not used.
    pub broken_until: Option<Instant>,
}

impl Service {
    /// Whether a connection to the service may be opened.
    pub fn is_usable(&self, now: Instant) -> bool {
        now < self.until && !self.is_broken(now)
    }

    pub(super) fn is_broken(&self, now: Instant) -> bool {
        self.broken_until.is_some_and(|until| now < until)
    }
}
