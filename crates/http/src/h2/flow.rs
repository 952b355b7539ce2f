//! Flow-control windows (RFC 9113 sections 5.2 and 6.9).
//!
//! [`Window`] limits the bytes that this side sends, and [`ReceiveWindow`] the bytes that the peer may send. The
//! connection and each stream have one window of each kind.

use super::error::Fault;

/// The largest window, in bytes.
pub const MAX_WINDOW: u32 = (1 << 31) - 1;

/// The initial window of a connection. Settings do not change it (section 6.9.2).
pub const CONNECTION_WINDOW: u32 = 65_535;

/// A send window: the number of bytes that this side may still send. Negative if the peer reduced its initial window
/// (section 6.9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window(i64);

impl Window {
    /// Creates a window of `bytes` bytes.
    pub const fn new(bytes: u32) -> Window {
        Window(bytes as i64)
    }

    /// The number of bytes that may be sent now.
    pub fn available(self) -> u32 {
        u32::try_from(self.0).unwrap_or(0)
    }

    /// Subtracts bytes that were sent.
    pub fn take(&mut self, bytes: u32) {
        debug_assert!(
            bytes <= self.available(),
            "more was sent than the window allows"
        );
        self.0 -= i64::from(bytes);
    }

    /// Adds the increment of the peer's WINDOW_UPDATE.
    pub fn give(&mut self, increment: u32) -> Result<(), Fault> {
        self.shift(i64::from(increment))
    }

    /// Applies a change of the peer's initial window.
    pub fn change_initial(&mut self, before: u32, now: u32) -> Result<(), Fault> {
        self.shift(i64::from(now) - i64::from(before))
    }

    fn shift(&mut self, by: i64) -> Result<(), Fault> {
        let after = self.0 + by;
        if after > i64::from(MAX_WINDOW) {
            return Err(Fault::WindowOverflow);
        }
        self.0 = after;
        Ok(())
    }
}

/// The time at which a window update is sent to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateAt {
    /// After any bytes were processed.
    Once,
    /// After this many bytes were processed, or after half of the window if that is less.
    Bytes(u32),
    /// After this share of the window, in percent, was processed; at most 100.
    Percent(u8),
    /// Never, so that the window runs out.
    Never,
}

impl UpdateAt {
    fn threshold(self, size: u32) -> Option<u32> {
        match self {
            UpdateAt::Once => Some(1),
            UpdateAt::Bytes(bytes) => Some(bytes.min(size / 2).max(1)),
            UpdateAt::Percent(percent) => {
                let share = u64::from(size) * u64::from(percent.min(100)) / 100;
                Some((share as u32).max(1))
            }
            UpdateAt::Never => None,
        }
    }
}

/// A receive window. It counts the bytes that the peer may still send, and the processed bytes that were not yet
/// returned to the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveWindow {
    /// The target size of the window, in bytes.
    size: u32,
    /// The number of bytes that the peer may still send. Negative if the initial window was reduced while the peer was
    /// sending.
    available: i64,
    /// The number of processed bytes that were not yet returned to the window.
    dealt_with: u32,
}

impl ReceiveWindow {
    /// Creates a window with a target size of `size` bytes.
    pub const fn new(size: u32) -> ReceiveWindow {
        ReceiveWindow {
            size,
            available: size as i64,
            dealt_with: 0,
        }
    }

    /// The number of bytes that the peer may still send.
    pub fn available(&self) -> i64 {
        self.available
    }

    /// Raises the target size to `size`; returns the increment to send. A smaller size has no effect.
    pub fn grow(&mut self, size: u32) -> Option<u32> {
        let more = size.checked_sub(self.size).filter(|&more| more > 0)?;
        self.size = size;
        self.available += i64::from(more);
        Some(more)
    }

    /// Applies a smaller initial window that the peer has acknowledged (RFC 9113 section 6.9.2). Returns the increment
    /// to send, if a window update is due. A larger size has no effect.
    pub fn shrink(&mut self, size: u32, when: UpdateAt) -> Option<u32> {
        let less = self.size.checked_sub(size).filter(|&less| less > 0)?;
        self.size = size;
        self.available -= i64::from(less);
        self.release(0, when)
    }

    /// Counts a received DATA frame of this length, padding included.
    pub fn receive(&mut self, length: u32) -> Result<(), Fault> {
        if i64::from(length) > self.available {
            return Err(Fault::WindowExceeded);
        }
        self.available -= i64::from(length);
        Ok(())
    }

    /// Counts bytes as processed; returns the increment to send if a window update is due.
    pub fn release(&mut self, bytes: u32, when: UpdateAt) -> Option<u32> {
        self.dealt_with += bytes;
        let threshold = when.threshold(self.size)?;
        (self.dealt_with >= threshold).then(|| self.give_back())
    }

    /// Enlarges the window by the processed bytes; returns the increment to send, which may be 0.
    fn give_back(&mut self) -> u32 {
        let increment = std::mem::take(&mut self.dealt_with);
        self.available += i64::from(increment);
        increment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_may_be_made_negative_and_does_not_overflow() {
        let mut window = Window::new(100);
        window.take(80);
        window.change_initial(100, 10).unwrap();
        assert_eq!(window.available(), 0);
        window.give(71).unwrap();
        assert_eq!(window.available(), 1);
        assert_eq!(window.give(MAX_WINDOW), Err(Fault::WindowOverflow));
        window.give(MAX_WINDOW - 1).unwrap();
        assert_eq!(window.available(), MAX_WINDOW);
    }

    #[test]
    fn the_peer_must_respect_its_window_and_gets_updates_in_time() {
        for (when, updates) in [
            (UpdateAt::Once, vec![Some(30), Some(30), Some(30)]),
            (UpdateAt::Bytes(60), vec![None, Some(60), None]),
            (UpdateAt::Bytes(60_000), vec![None, Some(60), None]),
            (UpdateAt::Percent(90), vec![None, None, Some(90)]),
            (UpdateAt::Never, vec![None, None, None]),
        ] {
            let mut window = ReceiveWindow::new(100);
            for wanted in updates {
                window.receive(30).unwrap();
                assert_eq!(window.release(30, when), wanted, "{when:?}");
            }
            let left = u32::try_from(window.available()).unwrap();
            assert_eq!(window.receive(left + 1), Err(Fault::WindowExceeded));
            window.receive(left).unwrap();
        }
        let mut window = ReceiveWindow::new(65_535);
        assert_eq!(window.grow(1 << 20), Some((1 << 20) - 65_535));
        assert_eq!(window.grow(100), None);
        assert_eq!(window.available(), 1 << 20);
    }
}
