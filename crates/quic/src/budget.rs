//! What a server sends to an address before it knows that the address is its client's (RFC 9000 section 8.1).
//!
//! At most three times the bytes that came from there. quinn-proto counts too, but begins another datagram as
//! long as a single byte is left, and so sends up to one datagram more. Here a datagram is begun only if there is
//! room for a whole one. A client that waits for the rest sends again (RFC 9002 section 6.2.2.1), which makes room.
//!
//! Not done here: addresses that a client moves to. quinn-proto can only ask whether such an address is the
//! client's by a whole datagram, for which there may be no room.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many bytes may be sent for each that came.
const TIMES: usize = 3;

/// The bytes of one connection.
#[derive(Debug)]
pub(crate) struct Budget {
    received: usize,
    sent: usize,
    /// Whether a packet came that only a client can make that has received ours.
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

    /// Whether it holds no longer.
    pub(crate) fn is_over(&self) -> bool {
        self.is_peer_shown.load(Ordering::Relaxed)
    }

    /// Bytes that may be sent.
    pub(crate) fn left(&self) -> usize {
        (TIMES * self.received).saturating_sub(self.sent)
    }
}
