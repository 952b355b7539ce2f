//! Keys of TCP and UDP flows: their two ends.

use std::collections::HashMap;

use super::parse::{Endpoint, IpPacket};

/// The ends of a flow, in an order that does not depend on the packet's direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FlowKey {
    low: Endpoint,
    high: Endpoint,
}

impl FlowKey {
    /// Returns the key of a packet's flow.
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

    /// Whether `end` is the first end in the key.
    #[inline]
    pub(super) fn is_low(&self, end: Endpoint) -> bool {
        self.low == end
    }

    /// Returns the key as three 32-bit words, if both addresses are IPv4.
    #[inline]
    fn short(&self) -> Option<[u32; 3]> {
        let ports = u32::from(self.low.port()) << 16 | u32::from(self.high.port());
        Some([ports, self.low.ipv4()?, self.high.ipv4()?])
    }
}

/// A map from flows to values. IPv4 flows have shorter keys, because hashing and lookup take a large part of the
/// accounting's time.
#[derive(Debug, Default)]
pub(super) struct FlowMap<V> {
    /// Flows between IPv4 addresses: both ports and both addresses.
    short: HashMap<[u32; 3], V>,
    long: HashMap<FlowKey, V>,
}

impl<V: Copy> FlowMap<V> {
    pub(super) fn get(&self, key: &FlowKey) -> Option<V> {
        match key.short() {
            Some(short) => self.short.get(&short).copied(),
            None => self.long.get(key).copied(),
        }
    }

    pub(super) fn insert(&mut self, key: FlowKey, value: V) {
        match key.short() {
            Some(short) => self.short.insert(short, value),
            None => self.long.insert(key, value),
        };
    }

    /// Returns the approximate memory in bytes.
    pub(super) fn memory(&self) -> u64 {
        let entry = |key: usize| (key + size_of::<V>().next_multiple_of(4) + 1) as u64;
        // At its capacity, a hash table is 7/8 full.
        let room = |capacity: usize| capacity as u64 * 8 / 7;
        room(self.short.capacity()) * entry(size_of::<[u32; 3]>())
            + room(self.long.capacity()) * entry(size_of::<FlowKey>())
    }
}
