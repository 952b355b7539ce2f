//! Delayed acknowledgements of 1997's hosts, emulated between the path and a kernel that does not support them.
//!
//! 4.4BSD and the TCPs derived from it do not acknowledge in-order data at once. They acknowledge at the next tick of a
//! 200 ms clock that all connections of the host share. Some events require an earlier acknowledgement (Wright and
//! Stevens, *TCP/IP Illustrated*, volume 2, chapters 25 to 29: `tcp_fasttimo`, `TF_DELACK`, `TF_ACKNOW`; RFC 1122,
//! section 4.2.3.2). Linux uses another timer and never delays by more than about 40 ms. Here the kernel is configured
//! to acknowledge every segment at once, and [`DelayedAck`] is between the host and the path. It forwards packets,
//! holds acknowledgements until the tick, and discards held acknowledgements that later packets supersede.
//!
//! A packet of the host is forwarded immediately if it
//!
//! - is not a pure acknowledgement: it carries data, SYN, FIN or RST, or cannot be parsed. It supersedes the held
//!   acknowledgement, unless its acknowledgement number is lower;
//! - is the first acknowledgement: the third packet of the handshake;
//! - acknowledges enough bytes since the last forwarded packet, or moves the right edge of the window by as many bytes.
//!   Enough is the smaller of 2 full segments and half the receive buffer. The receive buffer is assumed to be as large
//!   as the largest advertised window;
//! - repeats the previous acknowledgement number: the answer to an out-of-order segment, a duplicate, a keep-alive or a
//!   window probe;
//! - acknowledges data that fills a gap, or data after a filled gap;
//! - acknowledges the peer's FIN.
//!
//! The rule of two segments counts bytes, as in BSD: `tcp_output` sends when the right edge of the window would move by
//! two segments or by half the buffer. BSD evaluates this rule after each read of the application. Two segments that
//! are not full wait for the tick. Linux acknowledges before the application reads, so the right edge in its packets is
//! one segment behind; this module uses the acknowledged bytes instead. Both rules agree while the application reads
//! all data at once. If the application reads slowly, BSD acknowledges less often than this module.
//!
//! The length of a full segment is the smaller MSS of the two SYNs, less 12 bytes if both sides use time stamps. (BSD
//! did not subtract those 12 bytes, and so acknowledged every third segment with time stamps; this is not emulated.)
//!
//! Limits:
//!
//! - It does not delay the kernel's own reaction to a segment, which is complete before the acknowledgement is held.
//!   The delay is visible only to the peer.
//! - It does not change slow start: a Linux peer opens its window by the bytes acknowledged, not by one
//!   segment per acknowledgement.
//! - It never creates or changes a packet. A delayed acknowledgement echoes the latest segment's time stamp,
//!   where RFC 7323 requires the earliest segment's.
//! - Packets of connections whose SYN was not recorded are forwarded unchanged.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::mem;
use std::time::Duration;

use fathometer_model::{Instant, Seed};
use schemars::JsonSchema;
use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};

use connection::{Connection, Held};
use segment::{Endpoint, Offer, Segment};

mod connection;
mod segment;
#[cfg(test)]
mod tests;

/// The largest number of tracked connections; beyond it, the oldest connection is removed.
const CONNECTIONS: usize = 65_536;

/// The clock and the rule of a host's delayed acknowledgements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelayedAckClock {
    /// The time between two ticks: 200 ms in 4.4BSD.
    #[serde(
        serialize_with = "crate::duration::serialize",
        deserialize_with = "positive_duration"
    )]
    #[schemars(with = "crate::duration::DurationText")]
    pub tick: Duration,
    /// The number of full segments that are acknowledged without waiting for the tick: 2 in 4.4BSD.
    #[serde(deserialize_with = "positive_count")]
    #[schemars(range(min = 1))]
    pub segments: u32,
}

/// The decision about a packet of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outbound {
    /// Send the packet.
    Forward,
    /// Do not send the packet: a copy waits for the tick, or for a later packet that supersedes it.
    Held,
}

/// Delays the pure acknowledgements of a host.
///
/// The host calls [`DelayedAck::release`] until it returns `None`. It then calls [`DelayedAck::outbound`] for each
/// packet from the kernel, and [`DelayedAck::inbound`] for each packet just before the kernel receives it. Then it
/// waits until [`DelayedAck::next_due`] or the next packet. Packets are raw IP packets, version 4 or 6, one segment
/// each. Time must not run backwards between calls; a `now` below an earlier `now` counts as the earlier value.
///
/// Every acknowledgement is forwarded, released at a tick, or superseded by a later packet of its connection that
/// acknowledges at least the same data. The exception: when a connection is reset, its held acknowledgement is
/// discarded.
pub struct DelayedAck {
    clock: DelayedAckClock,
    /// The time from instant 0 to the first tick.
    phase: Duration,
    /// The latest instant that a caller passed.
    now: Instant,
    /// The largest number of tracked connections.
    bound: usize,
    connections: HashMap<Key, Connection>,
    /// The connections in order of age, oldest first.
    ages: BTreeMap<u64, Key>,
    next_age: u64,
    /// The connections with a held acknowledgement, with the tick that releases it. The order is the order in which
    /// holding began; ticks never decrease in this order.
    waiting: BTreeMap<u64, (Instant, Key)>,
    next_turn: u64,
    /// Held acknowledgements of connections that were removed; they are released at once.
    orphans: VecDeque<Vec<u8>>,
    /// The packet that was last released.
    released: Vec<u8>,
}

impl DelayedAck {
    /// Creates the state without connections. The clock's phase depends only on `seed`: use a different seed for
    /// each host.
    pub fn new(clock: DelayedAckClock, seed: Seed) -> DelayedAck {
        let clock = DelayedAckClock {
            tick: clock.tick.max(Duration::from_nanos(1)),
            segments: clock.segments.max(1),
        };
        let phase = seed.stream("path.delayed-ack").draw(0) % nanos(clock.tick);
        DelayedAck {
            clock,
            phase: Duration::from_nanos(phase),
            now: Instant::ZERO,
            bound: CONNECTIONS,
            connections: HashMap::new(),
            ages: BTreeMap::new(),
            next_age: 0,
            waiting: BTreeMap::new(),
            next_turn: 0,
            orphans: VecDeque::new(),
            released: Vec::new(),
        }
    }

    /// Decides whether to forward or hold a `packet` that the host sends at `now`.
    pub fn outbound(&mut self, now: Instant, packet: &[u8]) -> Outbound {
        self.now = self.now.max(now);
        let Some(segment) = Segment::parse(packet) else {
            return Outbound::Forward;
        };
        let key = Key {
            host: segment.source,
            peer: segment.destination,
        };
        if segment.rst {
            self.forget(key);
            return Outbound::Forward;
        }
        if let Some(offer) = segment.syn {
            self.open_from_host(key, &segment, offer);
        }
        let Some(connection) = self.connections.get_mut(&key) else {
            return Outbound::Forward;
        };
        if segment.fin {
            connection.host_finished(segment.end());
        }
        let Some(acknowledgement) = segment.acknowledgement else {
            return Outbound::Forward;
        };
        let ack = connection.ack_state(&segment, acknowledgement);
        let passes =
            !segment.is_pure_ack || connection.acknowledges_at_once(ack, self.clock.segments);
        connection.host_acknowledged(ack);
        if passes {
            connection.has_left(ack);
            if let Some(held) = connection.held
                && ack.covers(held.ack)
            {
                connection.held = None;
                self.waiting.remove(&held.turn);
            }
            if connection.is_over() {
                self.release_and_forget(key);
            }
            return Outbound::Forward;
        }
        connection.buffer.clear();
        connection.buffer.extend_from_slice(packet);
        if let Some(held) = &mut connection.held {
            held.ack = ack;
        } else {
            let turn = self.next_turn;
            self.next_turn += 1;
            connection.held = Some(Held { ack, turn });
            let tick = next_tick(self.now, self.phase, self.clock.tick);
            self.waiting.insert(turn, (tick, key));
        }
        Outbound::Held
    }

    /// Records a `packet` that the host is about to receive.
    pub fn inbound(&mut self, packet: &[u8]) {
        let Some(segment) = Segment::parse(packet) else {
            return;
        };
        let key = Key {
            host: segment.destination,
            peer: segment.source,
        };
        if let Some(offer) = segment.syn
            && !segment.rst
        {
            self.open_from_peer(key, &segment, offer);
        }
        let Some(connection) = self.connections.get_mut(&key) else {
            return;
        };
        if segment.rst {
            if connection.is_reset_by(&segment) {
                self.forget(key);
            }
            return;
        }
        if segment.syn.is_none() {
            connection.peer_sent(&segment);
        }
        if let Some(acknowledgement) = segment.acknowledgement {
            connection.peer_acknowledged(acknowledgement);
            if connection.is_over() {
                self.release_and_forget(key);
            }
        }
    }

    /// Returns the instant at which the host must call [`DelayedAck::release`] again; `None` if nothing is held.
    pub fn next_due(&self) -> Option<Instant> {
        if !self.orphans.is_empty() {
            return Some(self.now);
        }
        self.waiting.first_key_value().map(|(_, (tick, _))| *tick)
    }

    /// Returns the next acknowledgement whose tick is at or before `now`, in the order in which holding began. The
    /// bytes are valid until the next call.
    pub fn release(&mut self, now: Instant) -> Option<&[u8]> {
        self.now = self.now.max(now);
        if let Some(orphan) = self.orphans.pop_front() {
            self.released = orphan;
            return Some(&self.released);
        }
        let first = self.waiting.first_entry()?;
        let (tick, key) = *first.get();
        if tick > self.now {
            return None;
        }
        first.remove();
        let connection = self.connections.get_mut(&key)?;
        let held = connection.held.take()?;
        connection.has_left(held.ack);
        mem::swap(&mut self.released, &mut connection.buffer);
        Some(&self.released)
    }

    /// Returns the number of acknowledgements that are held.
    pub fn held(&self) -> usize {
        self.waiting.len() + self.orphans.len()
    }

    /// Records a SYN that the host sends, alone or with an acknowledgement.
    fn open_from_host(&mut self, key: Key, segment: &Segment, offer: Offer) {
        let known = self.connections.get(&key).and_then(Connection::host_first);
        if known.is_some_and(|first| first != segment.sequence) {
            self.forget(key);
        }
        self.connection(key).host_opened(segment.sequence, offer);
    }

    /// Records a SYN that the host is about to receive, alone or with an acknowledgement.
    fn open_from_peer(&mut self, key: Key, segment: &Segment, offer: Offer) {
        let known = self.connections.get(&key).and_then(Connection::peer_first);
        if let Some(first) = known {
            if first == segment.sequence {
                // A retransmitted or duplicated SYN; the host's answer repeats an acknowledgement.
                return;
            }
            self.release_and_forget(key);
        }
        self.connection(key).peer_opened(segment.sequence, offer);
    }

    /// Returns the connection; adds it if it is not tracked yet.
    fn connection(&mut self, key: Key) -> &mut Connection {
        if !self.connections.contains_key(&key) {
            if self.connections.len() >= self.bound
                && let Some((_, &oldest)) = self.ages.first_key_value()
            {
                self.release_and_forget(oldest);
            }
            self.ages.insert(self.next_age, key);
        }
        self.connections.entry(key).or_insert_with(|| {
            let age = self.next_age;
            self.next_age += 1;
            Connection::new(age)
        })
    }

    /// Removes a connection that may still be open, and releases its held acknowledgement at once.
    fn release_and_forget(&mut self, key: Key) {
        if let Some(packet) = self.forget(key) {
            self.orphans.push_back(packet);
        }
    }

    /// Removes a connection and returns its held acknowledgement.
    fn forget(&mut self, key: Key) -> Option<Vec<u8>> {
        let connection = self.connections.remove(&key)?;
        self.ages.remove(&connection.age);
        let held = connection.held?;
        self.waiting.remove(&held.turn);
        Some(connection.buffer)
    }
}

/// Writes the clock with its phase, and the numbers of connections and held acknowledgements.
impl fmt::Debug for DelayedAck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DelayedAck")
            .field("clock", &self.clock)
            .field("phase", &self.phase)
            .field("connections", &self.connections.len())
            .field("held", &self.held())
            .finish_non_exhaustive()
    }
}

/// The addresses and ports of a connection, from the host's view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    host: Endpoint,
    peer: Endpoint,
}

/// Returns the first tick after `now`.
fn next_tick(now: Instant, phase: Duration, tick: Duration) -> Instant {
    let (phase, tick) = (nanos(phase), nanos(tick));
    let Some(since_first) = now.as_nanos().checked_sub(phase) else {
        return Instant::from_nanos(phase);
    };
    let ticks = since_first / tick + 1;
    Instant::from_nanos(phase.saturating_add(ticks.saturating_mul(tick)))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn positive_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let duration = crate::duration::deserialize(deserializer)?;
    if duration.is_zero() {
        return Err(D::Error::custom("the time between two ticks must not be 0"));
    }
    Ok(duration)
}

fn positive_count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let count = u32::deserialize(deserializer)?;
    if count == 0 {
        let unexpected = Unexpected::Unsigned(0);
        return Err(D::Error::invalid_value(unexpected, &"1 segment or more"));
    }
    Ok(count)
}
