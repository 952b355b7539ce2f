//! Detects that most connections of a busy loop have closed, so that their memory can be returned to the
//! system.

use std::time::Duration;

use fathometer_model::Instant;

/// With fewer connections than this, memory is not returned.
const LEAST: usize = 128;
/// The shortest time between two returns of memory, because each takes a moment.
const EVERY: Duration = Duration::from_secs(10);

/// Watches the number of connections of a loop.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    /// The most since memory was last returned.
    most: usize,
    given_back: Option<Instant>,
}

impl Crowd {
    /// Records the number of connections. True: most of them have closed, and memory should be returned to the
    /// system.
    pub fn has_gone(&mut self, open: usize, now: Instant) -> bool {
        self.most = self.most.max(open);
        let is_late = self.given_back.is_none_or(|at| now.since(at) >= EVERY);
        let has_gone = self.most >= LEAST && open <= self.most / 4 && is_late;
        if has_gone {
            self.most = open;
            self.given_back = Some(now);
        }
        has_gone
    }

    /// Until the next check, even if no event occurs.
    pub fn due(&self, open: usize, now: Instant) -> Option<Duration> {
        let waits = self.most >= LEAST && open <= self.most / 4;
        let since = self.given_back.filter(|_| waits)?;
        Some((since + EVERY).since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_has_gone_once_and_not_too_often() {
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        let mut crowd = Crowd::default();
        assert!(!crowd.has_gone(100, at(0)));
        assert!(!crowd.has_gone(0, at(0)), "a hundred are no crowd");
        assert!(!crowd.has_gone(1000, at(1)));
        assert!(!crowd.has_gone(251, at(2)));
        assert!(crowd.has_gone(250, at(3)));
        assert!(!crowd.has_gone(250, at(20)), "it was told");
        assert!(crowd.has_gone(60, at(30)));
        assert!(!crowd.has_gone(500, at(31)));
        assert!(!crowd.has_gone(0, at(32)), "not so soon");
        assert_eq!(crowd.due(0, at(32)), Some(Duration::from_secs(8)));
        assert!(crowd.has_gone(0, at(40)));
        assert_eq!(crowd.due(0, at(40)), None);
    }
}
