//! Limits what a server sends to an address before the client's address is validated (RFC 9000 section 8.1).
//!
//! The limit is three times the bytes received from there. quinn-proto counts too, but starts another datagram
//! as long as a single byte is left, and so sends up to one datagram more. Here a datagram is started only if
//! there is room for a complete one. A client that waits for the rest sends again (RFC 9002 section 6.2.2.1),
//! which makes room.
//!
//! Not covered: addresses that a client migrates to. quinn-proto can only validate such an address with a
//! full-sized datagram, for which there may be no room.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that may be sent for each byte received.
const TIMES: usize = 3;

/// The byte counts of one connection.
#[derive(Debug)]
pub(crate) struct Budget {
    received: usize,
    sent: usize,
    /// Whether a packet has arrived that only a client could create that has received ours.
    is_peer_shown: Arc<AtomicBool>,
}

impl Budget {
    pub(crate) fn new(is_peer_shown: Arc<AtomicBool>) -> Budget {
        Budget {
            received: 0,
            sent: 0,
            is_peer_shown,
        }
    }

    pub(crate) fn received(&mut self, bytes: usize) {
        self.received += bytes;
    }

    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
    }

    /// Whether the limit no longer applies.
    pub(crate) fn is_over(&self) -> bool {
        self.is_peer_shown.load(Ordering::Relaxed)
    }

    /// Bytes that may be sent.
    pub(crate) fn left(&self) -> usize {
        (TIMES * self.received).saturating_sub(self.sent)
    }
}
