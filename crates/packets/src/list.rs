//! The connections of an accounting in a packed form, because there may be millions of connections.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use fathometer_model::{Bytes, Instant};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::connection_summary::{ConnectionSummary, Direction, DirectionSummary, Ending};
use super::packed::{packed, unpacked};

/// Summaries of connections, in one fifth of the memory of a `Vec`. They are unpacked one at a time and returned by
/// value.
#[derive(Clone, Default, PartialEq)]
pub struct ConnectionList {
    items: Vec<Box<[u8]>>,
    totals: Totals,
}

/// Totals over all connections, which can be read without unpacking.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Totals {
    /// Number of connections by ending.
    pub(super) endings: BTreeMap<Ending, u64>,
    /// Bytes of IP packets in both directions.
    pub(super) ip_bytes: Bytes,
    /// The longest time between two packets of one connection, in nanoseconds.
    pub(super) idle_max_ns: Option<u64>,
    /// Number of packets of each connection in both directions.
    pub(super) packets: Vec<u64>,
}

/// The packed form of a summary. A separate type is needed because the packed encoding cannot represent the JSON form
/// of `Ending`.
#[derive(Serialize, Deserialize)]
struct Item {
    client: SocketAddr,
    server: SocketAddr,
    opening_seen: bool,
    first: Instant,
    last: Instant,
    how: u8,
    idle_max_ns: u64,
    trains: u64,
    up: DirectionSummary,
    down: DirectionSummary,
}

const ENDINGS: [Ending; 6] = [
    Ending::Open,
    Ending::Closed,
    Ending::HalfClosed(Direction::Up),
    Ending::HalfClosed(Direction::Down),
    Ending::Reset(Direction::Up),
    Ending::Reset(Direction::Down),
];

impl ConnectionList {
    /// Returns the number of connections.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are no connections.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the connection with an index.
    pub fn get(&self, index: usize) -> Option<ConnectionSummary> {
        self.items.get(index).map(|item| summary(item))
    }

    /// Returns all connections in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ConnectionSummary> + '_ {
        self.items.iter().map(|item| summary(item))
    }

    /// Totals over all connections.
    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Adds a connection.
    pub fn push(&mut self, connection: ConnectionSummary) {
        let totals = &mut self.totals;
        *totals.endings.entry(connection.ending).or_default() += 1;
        totals.ip_bytes += connection.up.ip_bytes + connection.down.ip_bytes;
        totals.idle_max_ns = totals.idle_max_ns.max(Some(connection.idle_max_ns));
        totals.packets.push(connection.packets());
        let how = ENDINGS.iter().position(|how| *how == connection.ending);
        self.items.push(packed(&Item {
            client: connection.client,
            server: connection.server,
            opening_seen: connection.opening_seen,
            first: connection.first,
            last: connection.last,
            how: how.unwrap_or_default() as u8,
            idle_max_ns: connection.idle_max_ns,
            trains: connection.trains,
            up: connection.up,
            down: connection.down,
        }));
    }
}

fn summary(item: &[u8]) -> ConnectionSummary {
    let item: Item = unpacked(item);
    ConnectionSummary {
        client: item.client,
        server: item.server,
        opening_seen: item.opening_seen,
        first: item.first,
        last: item.last,
        ending: ENDINGS[usize::from(item.how)],
        idle_max_ns: item.idle_max_ns,
        trains: item.trains,
        up: item.up,
        down: item.down,
    }
}

impl fmt::Debug for ConnectionList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl FromIterator<ConnectionSummary> for ConnectionList {
    fn from_iter<I: IntoIterator<Item = ConnectionSummary>>(connections: I) -> ConnectionList {
        let mut list = ConnectionList::default();
        for connection in connections {
            list.push(connection);
        }
        list
    }
}

/// Serialises the list as a sequence of [`ConnectionSummary`].
impl Serialize for ConnectionList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for ConnectionList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ConnectionList, D::Error> {
        struct Summaries;
        impl<'de> Visitor<'de> for Summaries {
            type Value = ConnectionList;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a sequence of connections")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<ConnectionList, A::Error> {
                let mut list = ConnectionList::default();
                while let Some(connection) = all.next_element()? {
                    list.push(connection);
                }
                Ok(list)
            }
        }
        deserializer.deserialize_seq(Summaries)
    }
}
