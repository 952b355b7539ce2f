//! What happened on one side of a connection.

/// What happened on one side of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Segments sent again, for whatever reason, SYN included.
    pub retransmissions: u64,
    /// Expiries of the retransmission time-out.
    pub timeouts: u64,
    /// Probes of a tail.
    pub probes: u64,
    /// Segments that were taken for lost because later ones were delivered.
    pub losses: u64,
    /// Recoveries that turned out to be needless.
    pub undone: u64,
}
