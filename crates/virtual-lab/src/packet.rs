//! What travels on the path.

use fathometer_tcp::Segment;

/// A segment of a connection.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) connection: usize,
    pub(crate) segment: Segment,
}

impl AsRef<[u8]> for Packet {
    /// Only a link that compresses reads the bytes, and such a path is not in the model.
    fn as_ref(&self) -> &[u8] {
        &[]
    }
}
