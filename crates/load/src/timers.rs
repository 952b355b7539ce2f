//! The timers of a loop.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A connection may have timed out.
    Slot(u32),
    /// QUIC has something to do on a connection.
    Quic(u32),
    /// A user continues.
    User(u32),
    /// The number of users changes.
    Step(u32),
}

/// Timers, in nanoseconds.
///
/// A timer is never cancelled: its handler checks whether it still applies. So a connection needs one timer per
/// timeout period, and not one for every exchange.
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

    /// Removes and returns the next one that is due.
    pub(super) fn due(&mut self, now: u64) -> Option<(u64, Timer)> {
        if self.next()? > now {
            return None;
        }
        self.0.pop().map(|Reverse(entry)| entry)
    }
}
