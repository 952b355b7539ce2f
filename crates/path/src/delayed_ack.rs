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

use segment::{Endpoint, Offer, Segment};

mod segment;
#[cfg(test)]
mod tests;

/// The most connections to know of; beyond it the oldest is forgotten.
const CONNECTIONS: usize = 65_536;

/// The largest segment of a side that does not say (RFC 9293, section 3.7.1), in octets.
const DEFAULT_LARGEST_SEGMENT: u16 = 536;

/// The octets that time stamps take from a full segment, padding included.
const TIMESTAMPS_LENGTH: u32 = 12;

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
            connection.host_fin = Some(segment.end());
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
        if let (Some(fin), Some(acknowledgement)) = (connection.host_fin, segment.acknowledgement)
            && is_at_or_after(acknowledgement, fin)
        {
            connection.host_fin_is_acknowledged = true;
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
        if let Some(connection) = self.connections.get(&key)
            && connection
                .host
                .is_some_and(|known| known.first != segment.sequence)
        {
            self.forget(key);
        }
        self.connection(key).host = Some(Opening {
            first: segment.sequence,
            offer,
        });
    }

    /// The host is about to get a SYN, alone or with an acknowledgement.
    fn open_from_peer(&mut self, key: Key, segment: &Segment, offer: Offer) {
        if let Some(known) = self.connections.get(&key).and_then(|known| known.peer) {
            if known.first == segment.sequence {
                // Sent or delivered twice; the answer repeats an acknowledgement.
                return;
            }
            self.release_and_forget(key);
        }
        let connection = self.connection(key);
        connection.peer = Some(Opening {
            first: segment.sequence,
            offer,
        });
        connection.next = segment.sequence.wrapping_add(1);
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

/// What a side opened with.
#[derive(Debug, Clone, Copy)]
struct Opening {
    /// The sequence number of its SYN.
    first: u32,
    offer: Offer,
}

/// What a packet tells the peer about what the host has received and has room for.
#[derive(Debug, Clone, Copy)]
struct Told {
    acknowledgement: u32,
    /// The right edge of the window: the first sequence number that there is no room for.
    edge: u32,
}

impl Told {
    /// Whether it makes `other` needless.
    fn says_as_much_as(self, other: Told) -> bool {
        is_after(self.acknowledgement, other.acknowledgement)
            || (self.acknowledgement == other.acknowledgement
                && is_at_or_after(self.edge, other.edge))
    }
}

/// An acknowledgement that waits; its octets are in the connection's buffer.
#[derive(Debug, Clone, Copy)]
struct Held {
    told: Told,
    /// Its place in [`DelayedAck::waiting`].
    turn: u64,
}

/// Data that came before others that belong in front of them.
#[derive(Debug, Clone, Copy)]
struct Gap {
    /// What the host lacks first.
    start: u32,
    /// The end of all that lies behind it.
    end: u32,
}

#[derive(Debug)]
struct Connection {
    age: u64,
    host: Option<Opening>,
    peer: Option<Opening>,
    /// What the host has been given without a gap, as far as packets and acknowledgements tell.
    next: u32,
    gap: Option<Gap>,
    /// The peer sent something that BSD answers at once with the acknowledgement that it had.
    provoked: bool,
    /// The sequence numbers after each side's FIN.
    host_fin: Option<u32>,
    peer_fin: Option<u32>,
    host_fin_is_acknowledged: bool,
    /// The largest window that the host announced, in octets.
    largest_window: u32,
    /// The last word that left.
    left: Option<Told>,
    held: Option<Held>,
    buffer: Vec<u8>,
}

impl Connection {
    fn new(age: u64) -> Connection {
        Connection {
            age,
            host: None,
            peer: None,
            next: 0,
            gap: None,
            provoked: false,
            host_fin: None,
            peer_fin: None,
            host_fin_is_acknowledged: false,
            largest_window: 0,
            left: None,
            held: None,
            buffer: Vec::new(),
        }
    }

    /// What a segment of the host tells.
    fn told(&mut self, segment: &Segment, acknowledgement: u32) -> Told {
        // The windows in SYN are never scaled.
        let shift = match (self.host, self.peer) {
            (Some(host), Some(peer))
                if segment.syn.is_none() && peer.offer.window_shift.is_some() =>
            {
                host.offer.window_shift.unwrap_or(0)
            }
            _ => 0,
        };
        let window = u32::from(segment.window) << shift;
        self.largest_window = self.largest_window.max(window);
        Told {
            acknowledgement,
            edge: acknowledgement.wrapping_add(window),
        }
    }

    /// Whether BSD would have sent a pure acknowledgement that tells this without waiting.
    fn acknowledges_at_once(&self, told: Told, segments: u32) -> bool {
        let (Some(left), Some(latest)) = (self.left, self.latest()) else {
            // The third packet of the handshake.
            return true;
        };
        if is_after(latest.acknowledgement, told.acknowledgement) {
            // Overtaken within the host: what is held says more, and goes on waiting.
            return true;
        }
        let repeats = told.acknowledgement == latest.acknowledgement;
        if repeats && (self.provoked || !is_after(told.edge, latest.edge)) {
            return true;
        }
        let fills_a_gap = self
            .gap
            .is_some_and(|gap| is_after(told.acknowledgement, gap.start));
        let acknowledges_fin = self
            .peer_fin
            .is_some_and(|fin| is_at_or_after(told.acknowledgement, fin));
        let enough = self.enough(segments);
        let acknowledged = told.acknowledgement.wrapping_sub(left.acknowledgement);
        let edge_moved =
            is_after(told.edge, left.edge) && told.edge.wrapping_sub(left.edge) >= enough;
        fills_a_gap || acknowledges_fin || acknowledged >= enough || edge_moved
    }

    /// The octets that are acknowledged without waiting.
    fn enough(&self, segments: u32) -> u32 {
        let offers = [self.host, self.peer].map(|side| side.map(|side| side.offer));
        let largest = offers
            .iter()
            .map(|offer| offer.and_then(|offer| offer.largest_segment))
            .map(|largest| largest.unwrap_or(DEFAULT_LARGEST_SEGMENT))
            .fold(u16::MAX, u16::min);
        let timestamps = offers
            .iter()
            .all(|offer| offer.is_some_and(|offer| offer.timestamps));
        let full = u32::from(largest)
            .saturating_sub(if timestamps { TIMESTAMPS_LENGTH } else { 0 })
            .max(1);
        full.saturating_mul(segments)
            .min(self.largest_window.div_ceil(2))
            .max(1)
    }

    /// The last word of the kernel, whether it left or is held.
    fn latest(&self) -> Option<Told> {
        self.held.map(|held| held.told).or(self.left)
    }

    /// The kernel acknowledges; it knows better than the packets seen here what it has.
    fn host_acknowledged(&mut self, told: Told) {
        if is_after(told.acknowledgement, self.next) {
            self.next = told.acknowledgement;
        }
        if self
            .gap
            .is_some_and(|gap| is_at_or_after(told.acknowledgement, gap.end))
        {
            self.gap = None;
        }
    }

    /// This is known to the peer as soon as the path has carried it.
    fn has_left(&mut self, told: Told) {
        if self.left.is_none_or(|left| told.says_as_much_as(left)) {
            self.left = Some(told);
        }
        self.provoked = false;
    }

    /// The host is about to get a segment that is neither SYN nor RST.
    fn peer_sent(&mut self, segment: &Segment) {
        let end = segment.end();
        if segment.fin {
            self.peer_fin = Some(end);
        }
        if end == segment.sequence && is_at_or_after(end, self.next) {
            // An acknowledgement: nothing to answer, even if it overtook data.
            return;
        }
        let is_beyond_window = self.latest().is_some_and(|told| is_after(end, told.edge));
        if is_after(segment.sequence, self.next) {
            self.provoked = true;
            let gap = self.gap.get_or_insert(Gap {
                start: self.next,
                end,
            });
            if is_after(end, gap.end) {
                gap.end = end;
            }
        } else if is_beyond_window || !is_after(end, self.next) {
            // A probe of the window, a keep-alive, or what was there before.
            self.provoked = true;
        } else {
            self.next = end;
        }
    }

    /// Whether the kernel takes an RST for genuine: once the handshake is over its sequence number
    /// must lie in the window (RFC 9293, section 3.10.7.4).
    fn is_reset_by(&self, segment: &Segment) -> bool {
        self.latest().is_none_or(|told| {
            is_at_or_after(segment.sequence, told.acknowledgement)
                && is_at_or_after(told.edge, segment.sequence)
        })
    }

    /// Whether both sides have finished, and each knows it of the other or soon will.
    fn is_over(&self) -> bool {
        let peer_fin_is_acknowledged = match (self.peer_fin, self.left) {
            (Some(fin), Some(left)) => is_at_or_after(left.acknowledgement, fin),
            _ => false,
        };
        self.host_fin_is_acknowledged && peer_fin_is_acknowledged
    }
}

/// Whether `sequence` comes after `other`, less than half the circle ahead.
fn is_after(sequence: u32, other: u32) -> bool {
    (sequence.wrapping_sub(other) as i32) > 0
}

fn is_at_or_after(sequence: u32, other: u32) -> bool {
    (sequence.wrapping_sub(other) as i32) >= 0
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
