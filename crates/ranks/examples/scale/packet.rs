//! Packets on the link of rank 0.

use fathometer_model::Instant;
use fathometer_path::{Arrival, Link};

/// Bytes of a message in a packet, and of its headers (IPv4, and TCP with time stamps).
const SEGMENT: usize = 1448;
pub const HEADERS: u32 = 52;
/// What a packet carries.
#[derive(Debug)]
pub enum Content {
    /// Asks for a connection, and the answer.
    Open,
    /// Bytes of messages.
    Bytes(Vec<u8>),
}

/// A packet of the connection of a rank.
#[derive(Debug)]
pub struct Packet {
    /// Whose connection.
    pub rank: u32,
    /// What it carries.
    pub content: Content,
}

/// Links that compress would read the bytes; these do not.
impl AsRef<[u8]> for Packet {
    fn as_ref(&self) -> &[u8] {
        match &self.content {
            Content::Open => &[],
            Content::Bytes(bytes) => bytes,
        }
    }
}

/// Sends bytes of a rank's connection in packets.
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
            "its queue has no limit"
        );
    }
}
