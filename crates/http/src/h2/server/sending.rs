//! Flow control of sent data, and stalls: times during which the client's windows block content (RFC 9113 sections 5.2
//! and 6.9).

use fathometer_model::Instant;

use crate::h2::error::Fault;
use crate::h2::flow::{CONNECTION_WINDOW, Window};

/// The send window of the connection, and the stall of responses.
///
/// Invariant: after each [`watch`](Self::watch), a stall is recorded if and only if some content is blocked only by
/// windows.
#[derive(Debug)]
pub(super) struct Sending {
    window: Window,
    /// The number of streams whose content is blocked only by their own windows.
    blocked_streams: u32,
    /// The number of content bytes put into frames.
    content: u64,
    stalled: Option<Stall>,
}

#[derive(Debug, Clone, Copy)]
struct Stall {
    since: Instant,
    /// The value of `content` in [`Sending`] at the start of the stall.
    content: u64,
}

impl Sending {
    pub fn new() -> Sending {
        Sending {
            window: Window::new(CONNECTION_WINDOW),
            blocked_streams: 0,
            content: 0,
            stalled: None,
        }
    }

    /// The number of bytes that the connection's window allows.
    pub fn available(&self) -> u32 {
        self.window.available()
    }

    /// Enlarges the connection's window by the client's increment.
    pub fn give(&mut self, increment: u32) -> Result<(), Fault> {
        self.window.give(increment)
    }

    /// Counts content that was put into a frame.
    pub fn take(&mut self, bytes: u32) {
        self.window.take(bytes);
        self.content += u64::from(bytes);
    }

    /// Counts one more stream that is blocked by its own window.
    pub fn block_stream(&mut self) {
        self.blocked_streams += 1;
    }

    /// Counts one stream fewer that is blocked by its own window.
    pub fn unblock_stream(&mut self) {
        self.blocked_streams -= 1;
    }

    /// Starts or ends a stall. `is_due`: whether some content is not blocked by the window of its stream.
    pub fn watch(&mut self, is_due: bool, now: Instant) {
        if self.blocked_streams == 0 && (self.available() > 0 || !is_due) {
            self.stalled = None;
        } else if self.stalled.is_none() {
            self.begin_stall(now);
        }
    }

    /// The time since which the client's windows have blocked responses.
    pub fn stalled_since(&self) -> Option<Instant> {
        self.stalled.map(|stall| stall.since)
    }

    /// Whether at least `least` bytes of content were sent during the stall. If so, a new stall starts.
    pub fn has_moved(&mut self, least: u64, now: Instant) -> bool {
        let before = self.stalled.map_or(0, |stall| stall.content);
        let has_moved = self.content - before >= least;
        if has_moved {
            self.begin_stall(now);
        }
        has_moved
    }

    /// Ends the stall, because no more content is sent.
    pub fn stop(&mut self) {
        self.stalled = None;
    }

    fn begin_stall(&mut self, now: Instant) {
        self.stalled = Some(Stall {
            since: now,
            content: self.content,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_stall_lasts_while_a_window_blocks_content() {
        let mut now = Instant::ZERO;
        let mut sending = Sending::new();
        sending.watch(true, now);
        assert_eq!(sending.stalled_since(), None, "the window is open");
        sending.take(CONNECTION_WINDOW);
        sending.watch(false, now);
        assert_eq!(sending.stalled_since(), None, "no content waits");
        sending.watch(true, now);
        now += Duration::from_secs(1);
        sending.watch(true, now);
        assert_eq!(sending.stalled_since(), Some(Instant::ZERO));
        sending.give(10).unwrap();
        sending.watch(true, now);
        assert_eq!(sending.stalled_since(), None);
        sending.block_stream();
        sending.watch(false, now);
        assert_eq!(
            sending.stalled_since(),
            Some(now),
            "the window of a stream blocks content"
        );
        sending.unblock_stream();
        sending.watch(false, now);
        assert_eq!(sending.stalled_since(), None);
    }

    #[test]
    fn little_content_does_not_end_a_stall() {
        let mut now = Instant::ZERO;
        let mut sending = Sending::new();
        sending.block_stream();
        sending.watch(false, now);
        now += Duration::from_secs(1);
        sending.take(9);
        assert!(!sending.has_moved(10, now));
        sending.take(1);
        assert!(sending.has_moved(10, now));
        assert_eq!(sending.stalled_since(), Some(now));
        assert!(
            !sending.has_moved(10, now),
            "the new stall counts only later content"
        );
    }
}
