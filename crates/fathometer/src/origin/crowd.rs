//! When a crowd has gone, and with it what its memory was kept for.

use std::time::Duration;

use fathometer_model::Instant;

/// Fewer connections than this are no crowd.
const LEAST: usize = 128;
/// How often memory is given back, at most: it takes a moment.
const EVERY: Duration = Duration::from_secs(10);

/// Watches how many connections a loop has.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    /// The most since memory was last given back.
    most: usize,
    given_back: Option<Instant>,
}

impl Crowd {
    /// Takes note of how many there are; whether most of a crowd has gone, so that memory should be given back.
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

    /// When it is to be looked at again, though nothing happens.
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
