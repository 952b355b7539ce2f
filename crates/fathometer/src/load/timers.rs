//! What a loop wants to be told later.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a timer is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A connection may have run out of time.
    Slot(u32),
    /// QUIC has something to do on a connection.
    Quic(u32),
    /// A user goes on.
    User(u32),
    /// The number of users changes.
    Step(u32),
}

/// Timers, in nanoseconds.
///
/// A timer is never taken back: whoever is told looks whether it still applies. So a connection
/// needs one in the time that an exchange may take, and not one for every exchange.
#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<(u64, Timer)>>);

impl Timers {
    pub(super) fn set(&mut self, at: u64, timer: Timer) {
        self.0.push(Reverse((at, timer)));
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<u64> {
        self.0.peek().map(|&Reverse((at, _))| at)
    }

    /// Takes the next one that is due.
    pub(super) fn due(&mut self, now: u64) -> Option<(u64, Timer)> {
        if self.next()? > now {
            return None;
        }
        self.0.pop().map(|Reverse(entry)| entry)
    }
}
