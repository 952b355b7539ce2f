//! The state of one connection while a capture is read.
//!
//! Both directions are tracked from the point of view of the tap: only packets captured at that tap count as sent.
//! Sequence numbers are unwrapped to 64 bits. The work per packet does not grow with the connection. Memory grows only
//! with the packets in flight and with the holes in the observed sequence.

use std::collections::VecDeque;

use fathometer_model::{Bytes, Instant};
use serde::{Deserialize, Serialize};

use super::class::Class;
use super::connection_summary::{ConnectionSummary, Direction, DirectionSummary, Ending};
use super::parse::{Endpoint, Flags, IpPacket, Segment};
use super::quantiles::Quantiles;
use super::sequence::{SequenceSet, first_reference, unwrap};
use super::summary::PacketSummary;

/// Maximum number of tracked segments in flight; no window allows more. Beyond the maximum, the oldest segment gives no
/// round-trip time.
const FLIGHT_LIMIT: usize = 65_536;

/// The relation between the sequence numbers of a segment and the numbers seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SegmentRelation {
    /// The segment occupies no sequence numbers.
    Nothing,
    /// All sequence numbers of the segment are above the highest seen.
    New,
    /// The segment is new, but has lower sequence numbers than the highest seen.
    OutOfOrder,
    /// Part of the segment was seen before.
    Repeated,
    /// The segment is a keep-alive or a window probe.
    Probe,
}

/// The effect of one packet on its connection, in unwrapped sequence numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observed {
    pub(super) novelty: SegmentRelation,
    /// The first sequence number of the packet.
    pub(super) start: u64,
    /// The sequence number after the packet's last; SYN and FIN count.
    pub(super) end: u64,
    /// The acknowledgement number, in the peer's sequence space.
    pub(super) acknowledged: Option<u64>,
    /// The announced window in bytes, after scaling.
    pub(super) window: Option<u64>,
    /// Whether the packet is a duplicate acknowledgement.
    pub(super) duplicate: bool,
    /// Time since the connection's previous packet, and a description of that packet.
    pub(super) gap: Option<(u64, PacketSummary)>,
    /// A round-trip time of the opposite direction, measured when this packet acknowledged a segment.
    pub(super) rtt: Option<u64>,
}

/// One connection.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Connection {
    client: Endpoint,
    server: Endpoint,
    opening_seen: bool,
    first: u64,
    last: u64,
    last_packet: Option<PacketSummary>,
    idle_max: u64,
    reset_by: Option<Direction>,
    sides: [Side; 2],
    /// Number of packets of the current train.
    pub(super) train: u64,
    /// Number of trains before the current train.
    pub(super) trains: u64,
}

/// The state of one end of a connection.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Side {
    figures: DirectionSummary,
    /// A recent sequence number of this end in 64 bits: the reference for unwrapping.
    reference: Option<u64>,
    initial: Option<u32>,
    seen: SequenceSet,
    lowest: u64,
    /// The sequence number after the highest sequence number seen.
    highest: Option<u64>,
    /// The highest acknowledgement number that this end sent, in the peer's sequence space.
    acknowledged: Option<u64>,
    window: Option<u16>,
    offered_scale: Option<u8>,
    fin: bool,
    /// Unacknowledged segments: the sequence number after the last, and the time of the segment.
    flight: VecDeque<(u64, u64)>,
    /// Acknowledgements give no round-trip time until all sequence numbers below this number are acknowledged.
    ambiguous_until: u64,
    rtt: Quantiles,
}

impl Connection {
    /// Creates a connection without packets.
    pub(super) fn new(client: Endpoint, server: Endpoint) -> Connection {
        Connection {
            client,
            server,
            opening_seen: false,
            first: 0,
            last: 0,
            last_packet: None,
            idle_max: 0,
            reset_by: None,
            sides: [Side::default(), Side::default()],
            train: 0,
            trains: 0,
        }
    }

    /// Returns the direction of a packet from `source`.
    #[inline]
    pub(super) fn direction(&self, source: Endpoint) -> Direction {
        match source == self.client {
            true => Direction::Up,
            false => Direction::Down,
        }
    }

    /// Whether a segment opens a new connection between the same ports. A retransmitted SYN and the second SYN of a
    /// simultaneous open do not open a new connection.
    #[inline]
    pub(super) fn is_succeeded_by(
        &self,
        direction: Direction,
        class: Class,
        sequence: u32,
    ) -> bool {
        if class != Class::Syn {
            return false;
        }
        let own = &self.sides[direction as usize];
        match own.initial {
            Some(initial) => initial != sequence,
            None => own.highest.is_some() || self.ending() != Ending::Open,
        }
    }

    /// Records the initial sequence number of an end from a packet at an uncounted tap.
    pub(super) fn note_opening(&mut self, direction: Direction, class: Class, sequence: u32) {
        if matches!(class, Class::Syn | Class::SynAck) {
            self.sides[direction as usize]
                .initial
                .get_or_insert(sequence);
        }
    }

    /// Counts a packet. `time` is in nanoseconds since the capture's origin.
    pub(super) fn observe(
        &mut self,
        time: u64,
        direction: Direction,
        ip: &IpPacket,
        segment: &Segment,
        class: Class,
    ) -> Observed {
        let gap = self.last_packet.map(|packet| {
            let gap = time.saturating_sub(self.last);
            self.idle_max = self.idle_max.max(gap);
            (gap, packet)
        });
        if gap.is_none() {
            self.first = time;
            self.last = time;
        }
        self.last = self.last.max(time);
        self.opening_seen |= class == Class::Syn;
        let scaled = self.sides.iter().all(|side| side.offered_scale.is_some());
        let closed_before = self.sides.iter().all(|side| side.fin);

        let [up, down] = &mut self.sides;
        let (own, peer) = match direction {
            Direction::Up => (up, down),
            Direction::Down => (down, up),
        };
        own.count(time, ip, segment, class);
        if class == Class::Rst {
            if !closed_before {
                self.reset_by.get_or_insert(direction);
            }
            self.last_packet = Some(PacketSummary {
                direction,
                class,
                retransmission: false,
            });
            let at = own.unwrapped(segment.sequence);
            return Observed {
                novelty: SegmentRelation::Nothing,
                start: at,
                end: at,
                acknowledged: None,
                window: None,
                duplicate: false,
                gap,
                rtt: None,
            };
        }
        let mut observed = own.send(peer, time, segment, class);
        observed.gap = gap;
        observed.window = own.announce(segment, class, scaled);
        if segment.flags.contains(Flags::ACK) {
            own.acknowledge(peer, time, segment, class, &mut observed);
        }
        own.window = Some(segment.window);
        self.last_packet = Some(PacketSummary {
            direction,
            class,
            retransmission: observed.novelty == SegmentRelation::Repeated,
        });
        observed
    }

    /// Whether any packet was counted.
    pub(super) fn is_counted(&self) -> bool {
        self.last_packet.is_some()
    }

    /// Whether windows may have a scale factor that the capture does not show.
    pub(super) fn is_scale_unknown(&self) -> bool {
        self.sides.iter().any(|side| side.initial.is_none())
    }

    /// Returns the approximate heap memory, in bytes.
    pub(super) fn memory(&self) -> u64 {
        let side = |side: &Side| {
            let flight = (side.flight.capacity() * size_of::<(u64, u64)>()) as u64;
            flight + side.seen.memory() + side.rtt.memory()
        };
        self.sides.iter().map(side).sum()
    }

    /// Returns the figures at the end of the capture.
    pub(super) fn summary(mut self) -> ConnectionSummary {
        let ending = self.ending();
        let trains = self.trains + u64::from(self.train > 0);
        let [up, down] = &mut self.sides;
        up.figures.rtt = up.rtt.summary();
        down.figures.rtt = down.rtt.summary();
        ConnectionSummary {
            client: self.client.into(),
            server: self.server.into(),
            opening_seen: self.opening_seen,
            first: Instant::from_nanos(self.first),
            last: Instant::from_nanos(self.last),
            ending,
            idle_max_ns: self.idle_max,
            trains,
            up: std::mem::take(&mut up.figures),
            down: std::mem::take(&mut down.figures),
        }
    }

    fn ending(&self) -> Ending {
        match (self.reset_by, self.sides[0].fin, self.sides[1].fin) {
            (Some(by), _, _) => Ending::Reset(by),
            (None, true, true) => Ending::Closed,
            (None, true, false) => Ending::HalfClosed(Direction::Up),
            (None, false, true) => Ending::HalfClosed(Direction::Down),
            (None, false, false) => Ending::Open,
        }
    }
}

impl Side {
    /// Updates the counts that apply to every packet.
    #[inline]
    fn count(&mut self, time: u64, ip: &IpPacket, segment: &Segment, class: Class) {
        let figures = &mut self.figures;
        let at = Instant::from_nanos(time);
        figures.first.get_or_insert(at);
        figures.last = figures.last.max(Some(at));
        figures.classes.count(class);
        figures.ip_bytes += Bytes(u64::from(ip.length));
        figures.header_bytes += Bytes(u64::from(ip.length - segment.payload_length));
        figures.payload_bytes += Bytes(u64::from(segment.payload_length));
        figures.timestamps |= segment.options.timestamps;
    }

    #[inline]
    fn unwrapped(&mut self, sequence: u32) -> u64 {
        let reference = *self
            .reference
            .get_or_insert_with(|| first_reference(sequence));
        unwrap(reference, sequence)
    }

    /// Processes the sequence numbers that the segment occupies.
    #[inline]
    fn send(&mut self, peer: &Side, time: u64, segment: &Segment, class: Class) -> Observed {
        let payload = u64::from(segment.payload_length);
        let syn = segment.flags.contains(Flags::SYN);
        let fin = segment.flags.contains(Flags::FIN);
        if syn {
            self.offer(segment);
        }
        self.fin |= fin;
        let start = self.unwrapped(segment.sequence);
        let end = start + payload + u64::from(syn) + u64::from(fin);
        let mut observed = Observed {
            novelty: SegmentRelation::Nothing,
            start,
            end,
            acknowledged: None,
            window: None,
            duplicate: false,
            gap: None,
            rtt: None,
        };
        if !syn && !fin && payload <= 1 && self.is_probe(peer, start, payload, class) {
            observed.novelty = SegmentRelation::Probe;
            return observed;
        }
        if start == end {
            return observed;
        }
        observed.novelty = match self.highest {
            Some(highest) if start < highest => {
                let from = start + u64::from(syn);
                let seen = self.seen.covered(from, from + payload);
                let anything = self.seen.covered(start, end) > 0;
                self.figures.retransmitted_bytes += Bytes(seen);
                self.figures.unique_payload_bytes += Bytes(payload - seen);
                // Karn's rule: an acknowledgement of retransmitted data may be for either transmission.
                self.ambiguous_until = highest.max(end);
                self.flight.clear();
                if anything {
                    self.figures.retransmitted_packets += 1;
                    SegmentRelation::Repeated
                } else {
                    self.figures.out_of_order_packets += 1;
                    SegmentRelation::OutOfOrder
                }
            }
            _ => {
                self.figures.unique_payload_bytes += Bytes(payload);
                if self.flight.len() >= FLIGHT_LIMIT {
                    self.flight.pop_front();
                }
                self.flight.push_back((end, time));
                SegmentRelation::New
            }
        };
        self.seen.insert(start, end);
        if self.highest.is_none() {
            self.lowest = start;
        }
        let highest = self.highest.map_or(end, |highest| highest.max(end));
        self.highest = Some(highest);
        self.reference = self.reference.max(Some(highest));
        let unacknowledged = peer.acknowledged.unwrap_or(self.lowest);
        let outstanding = highest.saturating_sub(unacknowledged);
        self.figures.outstanding_max = self.figures.outstanding_max.max(Bytes(outstanding));
        observed
    }

    /// Recognises and counts keep-alives and zero-window probes.
    fn is_probe(&mut self, peer: &Side, start: u64, payload: u64, class: Class) -> bool {
        let Some(highest) = self.highest else {
            return false;
        };
        let closed = peer.window == Some(0);
        let acknowledged = peer.acknowledged.is_some_and(|number| number >= highest);
        let repeats = start + 1 == highest && (payload == 0 || acknowledged);
        let tries = start == highest && payload == 1;
        if closed && (repeats || tries) {
            self.figures.zero_window_probes += 1;
            return true;
        }
        // If no data is outstanding, an ordinary pure ACK carries the next sequence number, not the number before it.
        if repeats && matches!(class, Class::PureAck | Class::Data) {
            self.figures.keep_alives += 1;
            return true;
        }
        false
    }

    fn offer(&mut self, segment: &Segment) {
        self.initial.get_or_insert(segment.sequence);
        self.offered_scale = segment.options.window_scale;
        let figures = &mut self.figures;
        figures.mss = segment.options.maximum_segment_size;
        figures.window_scale = segment.options.window_scale;
        figures.sack_permitted = segment.options.sack_permitted;
    }

    /// Records the announced window and returns it in bytes.
    #[inline]
    fn announce(&mut self, segment: &Segment, class: Class, scaled: bool) -> Option<u64> {
        if matches!(class, Class::Syn | Class::SynAck) {
            // Excluded from the figures: the window of a SYN is never scaled, and the next segment replaces it.
            return Some(u64::from(segment.window));
        }
        let shift = match scaled {
            true => self.offered_scale.unwrap_or(0),
            false => 0,
        };
        let window = u64::from(segment.window) << shift;
        let figures = &mut self.figures;
        if window == 0 && !segment.flags.contains(Flags::FIN) {
            figures.zero_windows += 1;
        }
        let bytes = Bytes(window);
        figures.window_max = figures.window_max.max(Some(bytes));
        figures.window_min = Some(figures.window_min.map_or(bytes, |least| least.min(bytes)));
        Some(window)
    }

    /// Processes the acknowledgement of the peer's data in the segment.
    #[inline]
    fn acknowledge(
        &mut self,
        peer: &mut Side,
        time: u64,
        segment: &Segment,
        class: Class,
        observed: &mut Observed,
    ) {
        let number = peer.unwrapped(segment.acknowledgement);
        peer.reference = peer.reference.max(Some(number));
        observed.acknowledged = Some(number);
        match self.acknowledged {
            Some(before) if number == before => {
                let outstanding = peer.highest.is_some_and(|highest| highest > number);
                let unchanged = self.window == Some(segment.window);
                if class == Class::PureAck
                    && observed.novelty != SegmentRelation::Probe
                    && outstanding
                    && (unchanged || segment.options.sack_blocks > 0)
                {
                    self.figures.duplicate_acks += 1;
                    observed.duplicate = true;
                }
            }
            Some(before) if number < before => {}
            before => {
                self.acknowledged = Some(number);
                let unambiguous = before.unwrap_or(0) >= peer.ambiguous_until;
                let mut sent = None;
                while let Some((end, at)) = peer.flight.front().copied() {
                    if end > number {
                        break;
                    }
                    peer.flight.pop_front();
                    sent = (end == number).then_some(at);
                }
                if let Some(at) = sent.filter(|_| unambiguous) {
                    let rtt = time.saturating_sub(at);
                    peer.rtt.add(rtt);
                    observed.rtt = Some(rtt);
                }
            }
        }
    }
}
