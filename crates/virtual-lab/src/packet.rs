//! The packets on the path.

use fathometer_tcp::Segment;

/// A TCP segment and the index of its connection.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) connection: usize,
    pub(crate) segment: Segment,
}

impl AsRef<[u8]> for Packet {
    /// Returns no bytes. Only a link that compresses reads them, and such a path is not in the model.
    fn as_ref(&self) -> &[u8] {
        &[]
    }
}
