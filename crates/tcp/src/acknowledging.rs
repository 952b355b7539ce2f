//! The decision when to acknowledge: at once, with the next data, or after a delay.
//!
//! A connection begins with quick acknowledgements. The connection becomes interactive when the application answers
//! within the adaptive delay; acknowledgements are then delayed. More than one full segment is always acknowledged at
//! once. When the application has read all data, data that ended a write of the peer is acknowledged too.

use std::time::Duration;

use fathometer_model::Instant;

use crate::ticks::{TICK, Ticks, in_ticks};

/// The minimum delay.
const LEAST: Duration = Duration::from_millis(40);
/// The maximum delay in interactive mode and after the end of a write; otherwise [`GREATEST_OF_STREAM`].
const GREATEST: Duration = Duration::from_millis(200);
const GREATEST_OF_STREAM: Duration = Duration::from_millis(500);
/// The maximum number of successive quick acknowledgements.
const MOST_QUICK: u32 = 16;
/// The assumed size of a full segment before one has arrived (RFC 9293 section 3.7.1).
const FIRST_FULL: u32 = 536;

/// The state that decides when acknowledgements are sent.
#[derive(Debug, Clone)]
pub(crate) struct Acknowledging {
    ticks: Ticks,
    /// Whether an acknowledgement must be sent.
    pending: bool,
    /// Whether to acknowledge without delay: a gap exists or was filled, or both sides have sent FIN.
    at_once: bool,
    due: Option<Instant>,
    /// The number of segments that ended a write of the peer, since the last acknowledgement: 0, 1, or 2 for two or
    /// more.
    pushed: u8,
    quick: u32,
    interactive: bool,
    /// The adaptive delay; zero before the first data.
    adaptive: Duration,
    last_received: u64,
    /// The estimated size of a full segment of the peer.
    pub(crate) full: u32,
    /// The size of the previous segment if it was smaller than `full`, but at least 524 bytes; otherwise 0.
    smaller: u32,
    /// The sequence number that was last acknowledged.
    pub(crate) acknowledged: u64,
}

/// The inputs of the decision that are not part of the state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Circumstances {
    pub(crate) next: u64,
    pub(crate) window: u32,
    pub(crate) round_trip: Option<Duration>,
    pub(crate) timeout: Duration,
}

impl Acknowledging {
    pub(crate) fn new(ticks: Ticks, now: Instant) -> Acknowledging {
        Acknowledging {
            ticks,
            pending: false,
            at_once: false,
            due: None,
            pushed: 0,
            quick: 0,
            interactive: false,
            adaptive: Duration::ZERO,
            last_received: ticks.number(now),
            full: FIRST_FULL,
            smaller: 0,
            acknowledged: 0,
        }
    }

    /// Records that `length` bytes arrived in order.
    pub(crate) fn note_data(&mut self, length: u32, push: bool, now: Instant, at: Circumstances) {
        self.pending = true;
        self.measure(length, push);
        let tick = self.ticks.number(now);
        if self.adaptive.is_zero() {
            self.add_quick(at.window);
            self.adaptive = LEAST;
        } else {
            let gap = TICK * (tick - self.last_received) as u32;
            if gap <= LEAST / 2 {
                self.adaptive = self.adaptive / 2 + LEAST / 2;
            } else if gap < self.adaptive {
                self.adaptive = (self.adaptive / 2 + gap).min(at.timeout);
            } else if gap > at.timeout {
                self.add_quick(at.window);
            }
        }
        self.last_received = tick;
    }

    /// Records a FIN, or data after a gap, that must be acknowledged.
    pub(crate) fn note_pending(&mut self) {
        self.pending = true;
    }

    /// Records that the peer closed its side: the acknowledgement of the peer's FIN may wait for our FIN.
    pub(crate) fn note_fin(&mut self) {
        self.pending = true;
        self.interactive = true;
    }

    /// Records data after a gap, or a filled gap: acknowledge without delay (RFC 5681 section 4.2).
    pub(crate) fn note_filled(&mut self) {
        self.at_once = true;
    }

    /// Records a duplicate: the peer has not received our acknowledgements.
    pub(crate) fn note_duplicate(&mut self, window: u32) {
        self.pending = true;
        self.add_quick(window);
        self.interactive = false;
        self.adaptive = LEAST;
    }

    fn add_quick(&mut self, window: u32) {
        let most = (window / (2 * self.full)).clamp(2, MOST_QUICK);
        self.quick = self.quick.max(most);
    }

    fn measure(&mut self, length: u32, push: bool) {
        let previous = std::mem::take(&mut self.smaller);
        if length >= self.full {
            self.full = length;
            if push {
                self.pushed = self.pushed.max(1);
            }
            return;
        }
        if length + 12 >= FIRST_FULL {
            self.smaller = length;
            if length == previous {
                self.full = length;
                return;
            }
        }
        self.pushed = if self.pushed > 0 { 2 } else { 1 };
    }

    /// Returns whether to acknowledge now; if not, starts the delay.
    pub(crate) fn decide(&mut self, now: Instant, at: Circumstances) -> bool {
        if !self.pending {
            return false;
        }
        let is_more_than_full = at.next - self.acknowledged > u64::from(self.full);
        let is_quick = self.quick > 0 && !self.interactive;
        if is_more_than_full || is_quick || self.at_once {
            return true;
        }
        let mut wait = self.adaptive.max(TICK);
        if wait > LEAST {
            let mut most = match self.interactive || self.pushed > 0 {
                true => GREATEST,
                false => GREATEST_OF_STREAM,
            };
            if let Some(round_trip) = at.round_trip {
                most = most.min((TICK * in_ticks(round_trip) as u32).max(LEAST));
            }
            wait = wait.min(most);
        }
        wait = wait.min(GREATEST);
        let due = self.ticks.expiry(now, wait);
        match self.due {
            // The old delay is about to expire.
            Some(old) if old <= now + wait / 4 => return true,
            Some(old) => self.due = Some(old.min(due)),
            None => self.due = Some(due),
        }
        false
    }

    /// Returns whether to acknowledge after a read by the application. `emptied`: the application has read all data.
    pub(crate) fn decide_after_read(&self, next: u64, emptied: bool) -> bool {
        let is_end_of_write = self.pushed > 1 || self.pushed > 0 && !self.interactive;
        self.pending
            && (next - self.acknowledged > u64::from(self.full) || is_end_of_write && emptied)
    }

    /// Records that an acknowledgement was sent, alone or with data.
    pub(crate) fn note_acknowledged(&mut self, next: u64) {
        self.acknowledged = next;
        if self.pending && self.quick > 0 {
            self.quick -= 1;
            if self.quick == 0 {
                self.adaptive = LEAST;
            }
        }
        self.pending = false;
        self.at_once = false;
        self.pushed = 0;
        self.due = None;
    }

    /// Records that data was sent. If the data follows received data within the adaptive delay, the connection becomes
    /// interactive.
    pub(crate) fn note_sent_data(&mut self, now: Instant) {
        let since = self.ticks.number(now) - self.last_received;
        if since < in_ticks(self.adaptive) {
            self.interactive = true;
        }
    }

    /// Returns the time at which the delay ends.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Ends the delay. Returns whether to acknowledge.
    pub(crate) fn expire(&mut self, timeout: Duration) -> bool {
        self.due = None;
        if !self.pending {
            return false;
        }
        if self.interactive {
            self.interactive = false;
            self.adaptive = LEAST;
        } else {
            self.adaptive = (self.adaptive * 2).min(timeout);
        }
        true
    }
}
