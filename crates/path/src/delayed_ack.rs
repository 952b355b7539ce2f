//! Delayed acknowledgements as hosts of 1997 sent them, in front of a kernel that cannot.
//!
//! TCP derived from 4.4BSD acknowledges data in order not at once but at the next tick of a clock
//! of 200 ms that all connections of the host share, unless there is a reason to be quicker
//! (Wright and Stevens, *TCP/IP Illustrated*, volume 2, chapters 25 to 29: `tcp_fasttimo`,
//! `TF_DELACK`, `TF_ACKNOW`; RFC 1122, section 4.2.3.2). Linux delays by a timer of its own and
//! never for more than about 40 ms. So here the kernel is made to acknowledge every segment at
//! once, and [`DelayedAck`] stands between the host and the path. It lets packets pass, holds
//! acknowledgements back until the tick, and replaces those that later packets make needless.
//!
//! A packet of the host passes at once when it
//!
//! - is not a pure acknowledgement: data, SYN, FIN, RST, or anything that is not understood. It
//!   takes the place of a held one, unless it says less;
//! - is the first to acknowledge: the third packet of the handshake;
//! - acknowledges 2 full segments of octets since the last packet that left, or half the receive
//!   buffer, which is taken to be the largest window that was announced; or moves the right edge
//!   of the window so far;
//! - repeats the acknowledgement number before it: the answer to a segment out of order, to one
//!   that was there before, to a keep-alive or to a probe of the window;
//! - acknowledges data that fill a gap, or lie behind one that was filled;
//! - acknowledges the peer's FIN.
//!
//! The rule of two segments is one of octets, as in BSD, where it is a rule about the window:
//! `tcp_output` sends when the right edge would move by two segments or by half the buffer,
//! asked each time that the program has read. Two segments that are not full wait for the tick.
//! Linux acknowledges before the program reads, so that the edge in its packets is one segment
//! behind; the acknowledged octets stand for it here. They agree as long as the program keeps
//! pace. For a slow reader BSD acknowledges more rarely than this machine.
//!
//! A full segment is what the smaller of the two offers in SYN allows, less 12 octets where both
//! offer time stamps. (BSD forgot those 12 and so acknowledged every third segment with time
//! stamps; that is not imitated.)
//!
//! What this does not do:
//!
//! - It does not delay the kernel's own reaction: what the kernel does about a segment, it has done
//!   by the time its acknowledgement is held. Only the peer sees the delay.
//! - Slow start is untouched: a Linux peer opens its window by the octets acknowledged, and not by
//!   one segment an acknowledgement.
//! - It never makes a packet, and never changes one. The peer finds in a delayed acknowledgement
//!   the latest segment's time stamp, where RFC 7323 wants the earliest's.
//! - Connections whose SYN it has not seen pass unchanged.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::mem;
use std::time::Duration;

use fathometer_model::{Instant, Seed};
use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};

use connection::{Connection, Held};
use segment::{Endpoint, Offer, Segment};

mod connection;
mod segment;
#[cfg(test)]
mod tests;

/// The most connections to know of; beyond it the oldest is forgotten.
const CONNECTIONS: usize = 65_536;

/// When a host's acknowledgements leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayedAckClock {
    /// The time between two ticks: 200 ms in 4.4BSD.
    #[serde(
        serialize_with = "crate::duration::serialize",
        deserialize_with = "positive_duration"
    )]
    pub tick: Duration,
    /// So many full segments are acknowledged without waiting for the tick: 2 in 4.4BSD.
    #[serde(deserialize_with = "positive_count")]
    pub segments: u32,
}

/// What to do with a packet of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outbound {
    /// Send it.
    Forward,
    /// Do not: a copy waits for the tick, or for a later packet that says as much.
    Held,
}

/// Holds a host's pure acknowledgements back.
///
/// The host calls [`DelayedAck::release`] until it gives nothing, then [`DelayedAck::outbound`]
/// for each packet that comes from the kernel and [`DelayedAck::inbound`] for each packet just
/// before the kernel gets it, and waits until [`DelayedAck::next_due`] or the next packet. Packets
/// are raw IP packets, version 4 or 6, one segment each. Time must not run backwards between
/// calls; a `now` before an earlier one counts as the earlier one.
///
/// Every acknowledgement is forwarded, or released at a tick, or superseded by a later packet of
/// its connection that acknowledges as much; except that those held when a connection is reset
/// end with it.
pub struct DelayedAck {
    clock: DelayedAckClock,
    /// The first tick, after the origin of time.
    phase: Duration,
    /// The latest instant that a caller told.
    now: Instant,
    /// The most connections to know of.
    bound: usize,
    connections: HashMap<Key, Connection>,
    /// The connections by age.
    ages: BTreeMap<u64, Key>,
    next_age: u64,
    /// The connections that hold an acknowledgement, in the order in which they began to, with
    /// the tick that ends it. Ticks never decrease in this order.
    waiting: BTreeMap<u64, (Instant, Key)>,
    next_turn: u64,
    /// Acknowledgements of connections that were forgotten; they wait no longer.
    orphans: VecDeque<Vec<u8>>,
    /// The packet that was last released.
    released: Vec<u8>,
}

impl DelayedAck {
    /// A machine without connections. The clock's phase depends on `seed` alone: give each host
    /// its own.
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

    /// The host sends `packet` at `now`.
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
        let told = connection.told(&segment, acknowledgement);
        let passes =
            !segment.is_pure_ack || connection.acknowledges_at_once(told, self.clock.segments);
        connection.host_acknowledged(told);
        if passes {
            connection.has_left(told);
            if let Some(held) = connection.held
                && told.says_as_much_as(held.told)
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
            held.told = told;
        } else {
            let turn = self.next_turn;
            self.next_turn += 1;
            connection.held = Some(Held { told, turn });
            let tick = next_tick(self.now, self.phase, self.clock.tick);
            self.waiting.insert(turn, (tick, key));
        }
        Outbound::Held
    }

    /// The host is about to get `packet`.
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

    /// When the host must call [`DelayedAck::release`] again; `None` when nothing is held.
    pub fn next_due(&self) -> Option<Instant> {
        if !self.orphans.is_empty() {
            return Some(self.now);
        }
        self.waiting.first_key_value().map(|(_, (tick, _))| *tick)
    }

    /// The next acknowledgement to send whose tick came at or before `now`, in the order in which
    /// connections began to hold. Its octets stay until the next call.
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
        connection.has_left(held.told);
        mem::swap(&mut self.released, &mut connection.buffer);
        Some(&self.released)
    }

    /// Acknowledgements that are held.
    pub fn held(&self) -> usize {
        self.waiting.len() + self.orphans.len()
    }

    /// The host sends a SYN, alone or with an acknowledgement.
    fn open_from_host(&mut self, key: Key, segment: &Segment, offer: Offer) {
        let known = self.connections.get(&key).and_then(Connection::host_first);
        if known.is_some_and(|first| first != segment.sequence) {
            self.forget(key);
        }
        self.connection(key).host_opened(segment.sequence, offer);
    }

    /// The host is about to get a SYN, alone or with an acknowledgement.
    fn open_from_peer(&mut self, key: Key, segment: &Segment, offer: Offer) {
        let known = self.connections.get(&key).and_then(Connection::peer_first);
        if let Some(first) = known {
            if first == segment.sequence {
                // Sent or delivered twice; the answer repeats an acknowledgement.
                return;
            }
            self.release_and_forget(key);
        }
        self.connection(key).peer_opened(segment.sequence, offer);
    }

    /// The connection, which begins now if it is not known.
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

    /// Forgets a connection that may live on: what it holds leaves at once.
    fn release_and_forget(&mut self, key: Key) {
        if let Some(packet) = self.forget(key) {
            self.orphans.push_back(packet);
        }
    }

    /// Forgets a connection and says what it held.
    fn forget(&mut self, key: Key) -> Option<Vec<u8>> {
        let connection = self.connections.remove(&key)?;
        self.ages.remove(&connection.age);
        let held = connection.held?;
        self.waiting.remove(&held.turn);
        Some(connection.buffer)
    }
}

/// The clock with its phase, and how much is known and held.
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

/// A connection, as the host sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    host: Endpoint,
    peer: Endpoint,
}

/// The first tick after `now`.
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
