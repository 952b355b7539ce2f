//! The connections of a capture in memory: recently used connections unpacked, all others packed.
//!
//! The state of a connection takes at least 1.5 kB. A capture may hold millions of connections, and any packet may
//! belong to any of them, even the oldest. The least recently used connections are therefore packed into an encoded
//! form of about 200 bytes, and unpacked at their next packet.

use serde::{Deserialize, Serialize};

use super::connection::Connection;
use super::packed::{packed, unpacked};
use super::sent::Transmissions;

/// Maximum number of unpacked connections. When it is reached, the least recently used half is packed.
const UNPACKED_LIMIT: usize = 16_384;

/// Approximate overhead of an allocation, in bytes.
const ALLOCATION: u64 = 16;

/// A connection and the transmissions of its two ends.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Tracked {
    pub(super) connection: Connection,
    pub(super) transmissions: Option<Box<[Transmissions; 2]>>,
    /// The value of the store's clock at the last access.
    #[serde(skip)]
    touched: u64,
}

impl Tracked {
    /// Returns the approximate memory of the unpacked form, in bytes.
    fn memory(&self) -> u64 {
        let transmissions = self.transmissions.iter().flat_map(|both| both.iter());
        let transmissions: u64 = transmissions.map(Transmissions::memory).sum();
        size_of::<Tracked>() as u64 + self.connection.memory() + transmissions
    }
}

/// All connections, by index.
#[derive(Debug, Default)]
pub(super) struct Store {
    slots: Vec<Slot>,
    /// Indices of the unpacked connections.
    unpacked: Vec<u32>,
    /// Total bytes of the packed connections.
    packed: u64,
    clock: u64,
}

#[derive(Debug)]
enum Slot {
    Unpacked(Box<Tracked>),
    Packed(Box<[u8]>),
}

impl Store {
    /// Returns the number of connections.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Adds a connection and returns its index.
    pub(super) fn add(&mut self, connection: Connection) -> u32 {
        self.make_room();
        let index = self.slots.len() as u32;
        self.clock += 1;
        self.slots.push(Slot::Unpacked(Box::new(Tracked {
            connection,
            transmissions: None,
            touched: self.clock,
        })));
        self.unpacked.push(index);
        index
    }

    /// Returns the connection with an index from [`Store::add`], and unpacks it if necessary.
    #[inline]
    pub(super) fn at(&mut self, index: u32) -> &mut Tracked {
        if let Slot::Packed(_) = self.slots[index as usize] {
            self.unpack(index);
        }
        self.clock += 1;
        match &mut self.slots[index as usize] {
            Slot::Unpacked(tracked) => {
                tracked.touched = self.clock;
                tracked
            }
            Slot::Packed(_) => unreachable!("the connection was just unpacked"),
        }
    }

    /// Returns the connection of the last call of [`Store::add`] or [`Store::at`].
    #[inline]
    pub(super) fn just_used(&mut self, index: u32) -> &mut Tracked {
        match &mut self.slots[index as usize] {
            Slot::Unpacked(tracked) => tracked,
            Slot::Packed(_) => unreachable!("the connection used last is never packed"),
        }
    }

    /// Returns the approximate memory of all connections, in bytes.
    pub(super) fn memory(&self) -> u64 {
        let unpacked = self
            .unpacked
            .iter()
            .map(|index| match &self.slots[*index as usize] {
                Slot::Unpacked(tracked) => tracked.memory(),
                Slot::Packed(_) => 0,
            });
        let packed = (self.slots.len() - self.unpacked.len()) as u64;
        let slots = (self.slots.capacity() * size_of::<Slot>()) as u64;
        slots + self.packed + packed * ALLOCATION + unpacked.sum::<u64>()
    }

    /// Returns the connections in the order of their indices.
    pub(super) fn drain(self) -> impl Iterator<Item = Tracked> {
        self.slots.into_iter().map(|slot| match slot {
            Slot::Unpacked(tracked) => *tracked,
            Slot::Packed(bytes) => unpacked(&bytes),
        })
    }

    #[cold]
    fn unpack(&mut self, index: u32) {
        self.make_room();
        let slot = &mut self.slots[index as usize];
        if let Slot::Packed(bytes) = slot {
            self.packed -= bytes.len() as u64;
            *slot = Slot::Unpacked(Box::new(unpacked(bytes)));
            self.unpacked.push(index);
        }
    }

    fn make_room(&mut self) {
        if self.unpacked.len() < UNPACKED_LIMIT {
            return;
        }
        let slots = &mut self.slots;
        let touched = |slots: &[Slot], index: u32| match &slots[index as usize] {
            Slot::Unpacked(tracked) => tracked.touched,
            Slot::Packed(_) => 0,
        };
        let half = self.unpacked.len() / 2;
        self.unpacked
            .select_nth_unstable_by_key(half, |index| touched(slots, *index));
        for index in self.unpacked.drain(..half) {
            let slot = &mut slots[index as usize];
            if let Slot::Unpacked(tracked) = slot {
                let bytes = packed(&**tracked);
                self.packed += bytes.len() as u64;
                *slot = Slot::Packed(bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::net::SocketAddr;

    use super::super::class::Class;
    use super::super::connection_summary::Direction;
    use super::super::parse::{Parsed, Transport};
    use super::super::synthetic::{Conversation, SegmentPlan};

    /// Passes a packet to the store's connection and to an unpacked copy.
    fn show(time: u64, plan: &SegmentPlan, connections: [&mut Connection; 2]) {
        let packet = plan.ip_packet();
        let parsed = Parsed::parse(&packet, packet.len() as u32);
        let class = Class::of(&parsed);
        let Parsed::Ip(ip) = parsed else {
            panic!("no IP packet")
        };
        let Transport::Tcp(segment) = &ip.transport else {
            panic!("no TCP segment")
        };
        for connection in connections {
            let direction = connection.direction(ip.source);
            connection.observe(time, direction, &ip, segment, class);
        }
    }

    #[test]
    fn connections_stored_in_packed_form_continue_unchanged() {
        let (mut store, mut twins) = (Store::default(), Vec::new());
        let count = 2 * UNPACKED_LIMIT as u32;
        let mut talks: Vec<Conversation> = (0..count)
            .map(|n| {
                let client = SocketAddr::from(([10, 0, (n >> 8) as u8, n as u8], 1_025));
                Conversation::new(client, ([10, 1, 0, 1], 80).into(), (n, n * 7))
            })
            .collect();
        let ack = super::super::parse::Flags::ACK;
        for round in 0..4 {
            for (n, talk) in talks.iter_mut().enumerate() {
                let plans = match round {
                    0 => talk.open().to_vec(),
                    1 => vec![talk.up(ack, 100), talk.down(ack, 1_460)],
                    // Creates a hole and then sends the segment that fills it.
                    2 => {
                        let (first, second) = (talk.down(ack, 10), talk.down(ack, 10));
                        vec![second, first]
                    }
                    _ => vec![talk.up(ack, 0)],
                };
                for plan in plans {
                    let end = |end| {
                        let packet = plan.ip_packet();
                        match Parsed::parse(&packet, packet.len() as u32) {
                            Parsed::Ip(ip) if end == Direction::Up => (ip.source, ip.destination),
                            Parsed::Ip(ip) => (ip.destination, ip.source),
                            _ => panic!("no IP packet"),
                        }
                    };
                    if twins.len() == n {
                        let (client, server) = end(Direction::Up);
                        assert_eq!(store.add(Connection::new(client, server)), n as u32);
                        twins.push(Connection::new(client, server));
                    }
                    let stored = &mut store.at(n as u32).connection;
                    show(round * 1_000 + n as u64, &plan, [stored, &mut twins[n]]);
                }
            }
            assert!(store.unpacked.len() <= UNPACKED_LIMIT);
        }
        let each = store.memory() / u64::from(count);
        assert!(
            each < 1_500,
            "{each} bytes per connection, half of the connections packed"
        );
        let each = store.packed / (u64::from(count) - store.unpacked.len() as u64);
        assert!(each < 400, "{each} bytes per packed connection");
        let summaries = store.drain().map(|tracked| tracked.connection.summary());
        assert!(summaries.eq(twins.into_iter().map(Connection::summary)));
    }
}
