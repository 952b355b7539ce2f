//! One direction of a path.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use fathometer_model::{Bandwidth, Instant, Seed};

use crate::Framing;
use crate::codel::Control;
use crate::fate::{Decisions, DropReason, Fate};
use crate::modem::Modem;
use crate::profile::{Direction, Profile, Queue};
use crate::queue::{Depth, Limit, Waiting, WaitingLine};

/// The initial capacity of the queues for packets that wait or are in propagation; the queues grow beyond it.
const ROOM: usize = 4096;

/// A link that carries payloads of type `P`, usually a packet's bytes.
///
/// The host calls [`Link::arrive`] for each packet that enters. It then calls [`Link::deliver`] until it returns
/// `None`, then [`Link::poll_drop`] until it returns `None`. It then waits until [`Link::next_due`] or the next packet.
/// Time must not run backwards between calls; a `now` below an earlier `now` counts as the earlier value.
#[derive(Debug)]
pub struct Link<P> {
    rate: Option<Bandwidth>,
    framing: Framing,
    /// The sending modem, if the link compresses.
    modem: Option<Box<Modem>>,
    bytes_of: fn(&P) -> &[u8],
    propagation: Duration,
    held_back_by: Duration,
    decisions: Decisions,
    log: Option<Vec<Fate>>,
    /// The latest instant that a caller passed.
    now: Instant,
    free: Free,
    line: WaitingLine<P>,
    limit: Limit,
    control: Option<Control>,
    travelling: Travelling<P>,
    /// The time of the latest delivery, which later packets must not overtake; `None` if they may overtake.
    not_before: Option<Instant>,
    dropped: VecDeque<Dropped<P>>,
}

/// The outcome of a packet's arrival.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival<P> {
    /// The packet waits for the link or is being serialised.
    Accepted {
        /// The packet's number in this direction, from 0.
        index: u64,
        /// The queue when the packet arrived, without this packet.
        depth: Depth,
    },
    /// The packet is dropped.
    Dropped(Dropped<P>),
}

/// A packet that was dropped.
#[derive(Debug, PartialEq, Eq)]
pub struct Dropped<P> {
    /// The packet's number in this direction, from 0.
    pub index: u64,
    /// The reason for the drop.
    pub reason: DropReason,
    /// The time of the drop: on arrival, or when the packet would have left the queue.
    pub at: Instant,
    /// The queue at the time of the drop, without this packet.
    pub depth: Depth,
    /// The bytes of the IP packet.
    pub length: u32,
    /// The packet's payload.
    pub payload: P,
}

/// A packet that is delivered at the far end.
#[derive(Debug, PartialEq, Eq)]
pub struct Delivery<P> {
    /// The packet's number in this direction, from 0.
    pub index: u64,
    /// The time at which the packet entered the link.
    pub arrived: Instant,
    /// The time at which the packet is due; the host may deliver it later.
    pub scheduled: Instant,
    /// The number of times to deliver the packet: 2 for a duplicated packet.
    pub copies: u8,
    /// The bytes of the IP packet.
    pub length: u32,
    /// The packet's payload.
    pub payload: P,
}

impl<P: AsRef<[u8]>> Link<P> {
    /// Creates an idle link. Only a link that compresses reads the bytes of the payloads.
    pub fn new(profile: &Profile, direction: Direction, seed: Seed) -> Link<P> {
        let one_way = profile.direction(direction);
        let may_reorder = one_way.jitter.is_some_and(|jitter| jitter.reorders);
        let (limit, control) = match one_way.queue {
            Queue::Packets(packets) => (Limit::Packets(packets as usize), None),
            Queue::Bytes(bytes) => (Limit::Bytes(bytes), None),
            Queue::Codel(codel) => (
                Limit::Packets(codel.packets as usize),
                Some(Control::new(codel, u64::from(profile.mtu))),
            ),
        };
        let room = match limit {
            Limit::Packets(packets) => packets.min(ROOM),
            Limit::Bytes(_) => ROOM,
        };
        Link {
            rate: one_way.rate,
            framing: one_way.framing,
            modem: one_way
                .compression
                .map(|compression| Box::new(Modem::new(compression))),
            bytes_of: P::as_ref,
            propagation: one_way.propagation,
            held_back_by: one_way
                .reorder
                .map_or(Duration::ZERO, |reorder| reorder.extra),
            decisions: Decisions::new(one_way, direction, seed),
            log: None,
            now: Instant::ZERO,
            free: Free::default(),
            line: WaitingLine::with_room(room),
            limit,
            control,
            travelling: if may_reorder || one_way.reorder.is_some() {
                Travelling::ByTime(BinaryHeap::with_capacity(ROOM))
            } else {
                Travelling::InOrder(VecDeque::with_capacity(ROOM))
            },
            not_before: (!may_reorder).then_some(Instant::ZERO),
            dropped: VecDeque::new(),
        }
    }
}

impl<P> Link<P> {
    /// Records every random decision from now on, for [`Link::log`].
    pub fn keep_log(&mut self) {
        self.log.get_or_insert_default();
    }

    /// Returns the recorded decisions, one per packet; empty unless [`Link::keep_log`] was called.
    pub fn log(&self) -> &[Fate] {
        self.log.as_deref().unwrap_or_default()
    }

    /// Takes a packet of `length` bytes (the IP packet, without framing) that enters at `now`. On a link that
    /// compresses, `payload` must begin with the packet's bytes; it may be a longer buffer.
    pub fn arrive(&mut self, now: Instant, length: u32, payload: P) -> Arrival<P> {
        self.advance(now);
        let now = self.now;
        let (index, fate) = self.decisions.decide();
        if let Some(log) = &mut self.log {
            log.push(fate);
        }
        let depth = self.line.depth();
        let reason = fate.lost.or_else(|| {
            let busy = self.rate.is_some() && !self.free.is_free(now);
            (busy && !self.limit.admits(&self.line, length)).then_some(DropReason::QueueFull)
        });
        if let Some(reason) = reason {
            return Arrival::Dropped(Dropped {
                index,
                reason,
                at: now,
                depth,
                length,
                payload,
            });
        }
        let packet = Waiting {
            index,
            arrived: now,
            length,
            fate,
            payload,
        };
        if self.rate.is_none() {
            self.send(now, packet);
        } else {
            self.line.push(packet);
            self.advance(now);
        }
        Arrival::Accepted { index, depth }
    }

    /// Returns the instant at which the host must call [`Link::deliver`] again; `None` if no packet is in transit. If
    /// packets may overtake each other, that call may return no packet.
    pub fn next_due(&self) -> Option<Instant> {
        let due = self.travelling.next_due();
        match &self.travelling {
            // Packets that still wait for the link are due after the packets that are already serialised.
            Travelling::InOrder(_) => due,
            Travelling::ByTime(_) if self.line.is_empty() => due,
            Travelling::ByTime(_) => {
                let free = self.free.rounded_up();
                Some(due.map_or(free, |due| due.min(free)))
            }
        }
    }

    /// Returns the next packet that is due at or before `now`.
    pub fn deliver(&mut self, now: Instant) -> Option<Delivery<P>> {
        self.advance(now);
        if self.travelling.next_due()? > self.now {
            return None;
        }
        self.travelling.pop()
    }

    /// Returns the next packet that the queue dropped after accepting it.
    pub fn poll_drop(&mut self) -> Option<Dropped<P>> {
        self.dropped.pop_front()
    }

    /// Returns the number of packets that wait or are in propagation.
    pub fn in_transit(&self) -> usize {
        self.line.len() + self.travelling.len()
    }

    /// Serialises the packets whose serialisation starts by `now`.
    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        while let Some(head) = self.line.front() {
            if !self.free.is_free(self.now) {
                return;
            }
            // The link takes its next packet when it becomes free, not when the host calls.
            let taken = self.free.no_earlier_than(head.arrived);
            let next = match &mut self.control {
                None => self.line.pop(),
                Some(control) => {
                    let dropped = &mut self.dropped;
                    control.dequeue(taken, &mut self.line, |packet, depth| {
                        dropped.push_back(Dropped {
                            index: packet.index,
                            reason: DropReason::Codel,
                            at: taken,
                            depth,
                            length: packet.length,
                            payload: packet.payload,
                        });
                    })
                }
            };
            let Some(packet) = next else { return };
            let rate = self.rate.expect("a link without a rate has no queue");
            let bits = match &mut self.modem {
                None => 8 * self.framing.on_link(packet.length),
                Some(modem) => {
                    let buffer = (self.bytes_of)(&packet.payload);
                    modem.bits_of(&buffer[..buffer.len().min(packet.length as usize)])
                }
            };
            let departed = self.free.occupy(packet.arrived, bits, rate);
            self.send(departed, packet);
        }
    }

    /// Starts a packet's propagation as its last bit leaves the link at `departed`.
    fn send(&mut self, departed: Instant, packet: Waiting<P>) {
        let base = departed + self.propagation;
        let jittered = if packet.fate.jitter_ns >= 0 {
            base + Duration::from_nanos(packet.fate.jitter_ns as u64)
        } else {
            let earlier = packet.fate.jitter_ns.unsigned_abs();
            Instant::from_nanos(base.as_nanos().saturating_sub(earlier)).max(departed)
        };
        let scheduled = if packet.fate.held_back {
            jittered + self.held_back_by
        } else if let Some(not_before) = &mut self.not_before {
            *not_before = jittered.max(*not_before);
            *not_before
        } else {
            jittered
        };
        self.travelling.push(Delivery {
            index: packet.index,
            arrived: packet.arrived,
            scheduled,
            copies: if packet.fate.duplicated { 2 } else { 1 },
            length: packet.length,
            payload: packet.payload,
        });
    }
}

/// The time at which the link becomes free: `whole` nanoseconds plus a fraction of a nanosecond, `part / rate`.
#[derive(Debug, Clone, Copy, Default)]
struct Free {
    whole: u64,
    part: u64,
}

impl Free {
    fn is_free(self, now: Instant) -> bool {
        self.whole < now.as_nanos() || (self.whole == now.as_nanos() && self.part == 0)
    }

    /// Returns the first whole nanosecond at which the link is free.
    fn rounded_up(self) -> Instant {
        Instant::from_nanos(self.whole + u64::from(self.part > 0))
    }

    fn no_earlier_than(self, arrived: Instant) -> Instant {
        self.rounded_up().max(arrived)
    }

    /// Serialises `bits` for a packet that arrived at `arrived`. Returns when the last bit left, rounded up
    /// to a nanosecond.
    fn occupy(&mut self, arrived: Instant, bits: u64, rate: Bandwidth) -> Instant {
        if self.is_free(arrived) {
            *self = Free {
                whole: arrived.as_nanos(),
                part: 0,
            };
        }
        // At most 300 000 bytes per packet (each byte escaped twice) and 10^15 bit/s: the sum stays below 2^63.
        let rate = rate.as_bits_per_second();
        let parts = bits * 1_000_000_000 + self.part;
        self.whole += parts / rate;
        self.part = parts % rate;
        self.rounded_up()
    }
}

/// The packets in propagation: in order, unless the profile permits overtaking.
#[derive(Debug)]
enum Travelling<P> {
    InOrder(VecDeque<Delivery<P>>),
    ByTime(BinaryHeap<Reverse<ByTime<P>>>),
}

impl<P> Travelling<P> {
    fn push(&mut self, packet: Delivery<P>) {
        match self {
            Travelling::InOrder(queue) => queue.push_back(packet),
            Travelling::ByTime(heap) => heap.push(Reverse(ByTime(packet))),
        }
    }

    fn next_due(&self) -> Option<Instant> {
        match self {
            Travelling::InOrder(queue) => queue.front().map(|packet| packet.scheduled),
            Travelling::ByTime(heap) => heap.peek().map(|packet| packet.0.0.scheduled),
        }
    }

    fn pop(&mut self) -> Option<Delivery<P>> {
        match self {
            Travelling::InOrder(queue) => queue.pop_front(),
            Travelling::ByTime(heap) => heap.pop().map(|packet| packet.0.0),
        }
    }

    fn len(&self) -> usize {
        match self {
            Travelling::InOrder(queue) => queue.len(),
            Travelling::ByTime(heap) => heap.len(),
        }
    }
}

/// Orders deliveries by time, then by number.
#[derive(Debug)]
struct ByTime<P>(Delivery<P>);

impl<P> ByTime<P> {
    fn key(&self) -> (Instant, u64) {
        (self.0.scheduled, self.0.index)
    }
}

impl<P> PartialEq for ByTime<P> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<P> Eq for ByTime<P> {}

impl<P> PartialOrd for ByTime<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for ByTime<P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}
