//! Packets on the link of rank 0.

use fathometer_model::Instant;
use fathometer_path::{Arrival, Link};

/// Bytes of payload in a full packet, and bytes of its headers (IPv4, and TCP with time stamps).
const SEGMENT: usize = 1448;
pub const HEADERS: u32 = 52;
/// The content of a packet.
#[derive(Debug)]
pub enum Content {
    /// A connection request, or its answer.
    Open,
    /// Bytes of messages.
    Bytes(Vec<u8>),
}

/// A packet of a rank's connection.
#[derive(Debug)]
pub struct Packet {
    /// The rank.
    pub rank: u32,
    /// The content.
    pub content: Content,
}

/// Only links with compression read the bytes of a packet; the simulated links have none.
impl AsRef<[u8]> for Packet {
    fn as_ref(&self) -> &[u8] {
        match &self.content {
            Content::Open => &[],
            Content::Bytes(bytes) => bytes,
        }
    }
}

/// Sends the bytes of a rank's connection in packets.
pub fn send(link: &mut Link<Packet>, now: Instant, rank: u32, bytes: &[u8]) {
    for segment in bytes.chunks(SEGMENT) {
        let packet = Packet {
            rank,
            content: Content::Bytes(segment.to_vec()),
        };
        let length = HEADERS + segment.len() as u32;
        let arrival = link.arrive(now, length, packet);
        debug_assert!(
            !matches!(arrival, Arrival::Dropped(_)),
            "the queue is never full"
        );
    }
}
