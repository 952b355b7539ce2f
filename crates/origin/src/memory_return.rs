//! Detects that most connections of a busy loop have closed, so that their memory can be returned to the
//! system.

use std::time::Duration;

use fathometer_model::Instant;

/// Memory is returned only if the number of a loop's connections reached this value.
const LEAST: usize = 128;
/// The minimum time between two returns of memory, because each takes time.
const EVERY: Duration = Duration::from_secs(10);

/// Tracks the number of connections of a loop.
#[derive(Debug, Default)]
pub(crate) struct MemoryReturn {
    /// The maximum number of connections since memory was last returned.
    most: usize,
    given_back: Option<Instant>,
}

impl MemoryReturn {
    /// Records the number of connections. Returns true if most of them have closed, so that memory should be
    /// returned to the system.
    pub fn is_due(&mut self, open: usize, now: Instant) -> bool {
        self.most = self.most.max(open);
        let is_late = self.given_back.is_none_or(|at| now.since(at) >= EVERY);
        let is_due = self.most >= LEAST && open <= self.most / 4 && is_late;
        if is_due {
            self.most = open;
            self.given_back = Some(now);
        }
        is_due
    }

    /// The time until the next check, which is due even if no event occurs.
    pub fn time_left(&self, open: usize, now: Instant) -> Option<Duration> {
        let waits = self.most >= LEAST && open <= self.most / 4;
        let since = self.given_back.filter(|_| waits)?;
        Some((since + EVERY).since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_returned_once_most_connections_have_closed_and_not_too_often() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut memory = MemoryReturn::default();
        assert!(!memory.is_due(100, at(0)));
        assert!(!memory.is_due(0, at(0)), "too few connections");
        assert!(!memory.is_due(1000, at(1)));
        assert!(!memory.is_due(251, at(2)));
        assert!(memory.is_due(250, at(3)));
        assert!(!memory.is_due(250, at(20)), "returned already");
        assert!(memory.is_due(60, at(30)));
        assert!(!memory.is_due(500, at(31)));
        assert!(!memory.is_due(0, at(32)), "too soon");
        assert_eq!(memory.time_left(0, at(32)), Some(Duration::from_secs(8)));
        assert!(memory.is_due(0, at(40)));
        assert_eq!(memory.time_left(0, at(40)), None);
    }
}
