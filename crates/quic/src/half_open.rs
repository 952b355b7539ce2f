//! The handshakes of a server that are in progress, oldest first.

use std::collections::VecDeque;

use fathometer_model::Instant;

use crate::endpoint::ConnectionKey;

/// Names a handshake for ever: keys of connections are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Serial(u64);

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    /// Those that have ended stay until they are the oldest.
    queue: VecDeque<(ConnectionKey, Serial, Instant)>,
    count: usize,
    next: u64,
}

impl Handshakes {
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn begin(&mut self, key: ConnectionKey, now: Instant) -> Serial {
        let serial = Serial(self.next);
        self.next += 1;
        self.count += 1;
        self.queue.push_back((key, serial, now));
        serial
    }

    /// One has ended, whichever it is.
    pub(crate) fn end(&mut self) {
        self.count = self.count.saturating_sub(1);
    }

    /// The oldest that is in progress, and when it began; `is_open` knows whether one is.
    pub(crate) fn oldest(
        &mut self,
        is_open: impl Fn(ConnectionKey, Serial) -> bool,
    ) -> Option<(ConnectionKey, Instant)> {
        while let Some(&(key, serial, begun)) = self.queue.front() {
            if is_open(key, serial) {
                return Some((key, begun));
            }
            self.queue.pop_front();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_found_behind_those_that_have_ended() {
        let mut handshakes = Handshakes::default();
        let serials: Vec<Serial> = (0..5)
            .map(|n| handshakes.begin(ConnectionKey(n % 2), Instant::from_nanos(n.into())))
            .collect();
        handshakes.end();
        handshakes.end();
        assert_eq!(handshakes.count(), 3);
        // The keys are those of others by now.
        let is_open = |_, serial| serials[2..].contains(&serial);
        let oldest = handshakes.oldest(is_open);
        assert_eq!(oldest, Some((ConnectionKey(0), Instant::from_nanos(2))));
        assert_eq!(handshakes.queue.len(), 3);
        assert_eq!(handshakes.oldest(|_, _| false), None);
        assert!(handshakes.queue.is_empty());
    }
}
