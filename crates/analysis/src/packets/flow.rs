//! What tells connections apart: their two ends.

use std::hash::{Hash, Hasher};

use super::parse::{Endpoint, IpPacket};

/// The ends of a connection in an order that does not depend on the packet's direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FlowKey {
    low: Endpoint,
    high: Endpoint,
}

impl FlowKey {
    /// The key of a packet's connection.
    #[inline]
    pub(super) fn of(ip: &IpPacket) -> FlowKey {
        let (one, other) = (ip.source, ip.destination);
        match one <= other {
            true => FlowKey {
                low: one,
                high: other,
            },
            false => FlowKey {
                low: other,
                high: one,
            },
        }
    }
}

/// What is certain to differ, in as few words as possible: hashing is a good part of the work.
impl Hash for FlowKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [low, high] = [self.low, self.high].map(Endpoint::without_port);
        state.write_u32(u32::from(self.low.port()) << 16 | u32::from(self.high.port()));
        match (low.ipv4(), high.ipv4()) {
            (Some(low), Some(high)) => state.write_u64(u64::from(low) << 32 | u64::from(high)),
            _ => (low, high).hash(state),
        }
    }
}
