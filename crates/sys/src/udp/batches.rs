//! Counters of the calls that send and receive datagrams.

use super::Received;

/// The numbers of system calls, buffers and datagrams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Batches {
    /// Calls that sent datagrams.
    pub send_calls: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Calls that received datagrams.
    pub receive_calls: u64,
    /// Buffers filled, each with one datagram or with several datagrams that arrived together.
    pub receive_buffers: u64,
    /// Datagrams received.
    pub received: u64,
}

impl Batches {
    /// Returns the sum of both values.
    #[must_use]
    pub fn and(self, other: Batches) -> Batches {
        Batches {
            send_calls: self.send_calls + other.send_calls,
            sent: self.sent + other.sent,
            receive_calls: self.receive_calls + other.receive_calls,
            receive_buffers: self.receive_buffers + other.receive_buffers,
            received: self.received + other.received,
        }
    }

    /// Returns the difference to an `earlier` value.
    #[must_use]
    pub fn since(self, earlier: Batches) -> Batches {
        Batches {
            send_calls: self.send_calls - earlier.send_calls,
            sent: self.sent - earlier.sent,
            receive_calls: self.receive_calls - earlier.receive_calls,
            receive_buffers: self.receive_buffers - earlier.receive_buffers,
            received: self.received - earlier.received,
        }
    }

    /// Counts a filled buffer and its datagrams.
    pub fn note_received(&mut self, received: &Received<'_>) {
        self.receive_buffers += 1;
        self.received += received.bytes.len().div_ceil(received.segment.max(1)) as u64;
    }
}
