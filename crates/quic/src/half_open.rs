//! A server's handshakes in progress, oldest first.

use std::collections::VecDeque;

use fathometer_model::Instant;

use crate::connection_key::ConnectionKey;

/// Identifies a handshake permanently, because connection keys are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Serial(u64);

/// All handshakes in progress.
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    /// The handshakes in order of their start. Completed handshakes stay until they are the oldest.
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

    /// Counts the end of one handshake.
    pub(crate) fn end(&mut self) {
        self.count = self.count.saturating_sub(1);
    }

    /// Returns the oldest handshake in progress and its start. `is_open` returns whether a handshake is in progress.
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
        // By now, other connections have these keys.
        let is_open = |_, serial| serials[2..].contains(&serial);
        let oldest = handshakes.oldest(is_open);
        assert_eq!(oldest, Some((ConnectionKey(0), Instant::from_nanos(2))));
        assert_eq!(handshakes.queue.len(), 3);
        assert_eq!(handshakes.oldest(|_, _| false), None);
        assert!(handshakes.queue.is_empty());
    }
}
