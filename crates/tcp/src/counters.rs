//! Event counters of one side of a connection.

/// Event counters of one side of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Retransmitted segments of any kind, SYN included.
    pub retransmissions: u64,
    /// Expiries of the retransmission time-out.
    pub timeouts: u64,
    /// Tail loss probes.
    pub probes: u64,
    /// Segments that were found lost by later deliveries (RACK) or by a tail loss probe.
    pub losses: u64,
    /// Recoveries that were undone because the retransmissions were spurious.
    pub undone: u64,
}
