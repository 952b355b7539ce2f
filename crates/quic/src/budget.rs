//! Limits the bytes that a server sends to a client whose address is not validated yet (RFC 9000 section 8.1).
//!
//! The limit is three times the bytes received from the address. quinn-proto has this limit too, but starts another
//! datagram as long as a single byte is left, and so exceeds the limit by up to one datagram. Here a datagram is
//! started only if the limit permits a complete datagram. A client that waits for further datagrams sends a probe (RFC
//! 9002 section 6.2.2.1), which raises the limit.
//!
//! Not covered: addresses that a client migrates to. quinn-proto can validate such an address only with a full-sized
//! datagram, which this limit might not permit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes that may be sent for each byte received.
const TIMES: usize = 3;

/// The byte counts of one connection.
#[derive(Debug)]
pub(crate) struct Budget {
    received: usize,
    sent: usize,
    /// Whether the client has proved its address, by a packet whose keys depend on data that we sent.
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

    /// Whether the limit no longer applies, because the client's address is validated.
    pub(crate) fn is_over(&self) -> bool {
        self.is_peer_shown.load(Ordering::Relaxed)
    }

    /// The number of bytes that may still be sent.
    pub(crate) fn left(&self) -> usize {
        (TIMES * self.received).saturating_sub(self.sent)
    }
}
