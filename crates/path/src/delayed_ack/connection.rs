//! The state of one connection, and 4.4BSD's rule for immediate acknowledgements.

use super::segment::{Offer, Segment};

/// The MSS of a side that sends no MSS option (RFC 9293, section 3.7.1), in bytes.
const DEFAULT_LARGEST_SEGMENT: u16 = 536;

/// The bytes that the time stamps option takes from a full segment, padding included.
const TIMESTAMPS_LENGTH: u32 = 12;

/// The SYN of one side, with its options.
#[derive(Debug, Clone, Copy)]
struct Opening {
    /// The sequence number of the SYN.
    first: u32,
    offer: Offer,
}

/// The report of a packet to the peer: the data that the host has received, and its window.
#[derive(Debug, Clone, Copy)]
pub(super) struct AckState {
    acknowledgement: u32,
    /// The right edge of the window: the first sequence number after the window.
    edge: u32,
}

impl AckState {
    /// Whether this report makes `other` redundant.
    pub(super) fn covers(self, other: AckState) -> bool {
        is_after(self.acknowledgement, other.acknowledgement)
            || (self.acknowledgement == other.acknowledgement
                && is_at_or_after(self.edge, other.edge))
    }
}

/// An acknowledgement that is held; its bytes are in the connection's buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) ack: AckState,
    /// The key of this acknowledgement in the `waiting` queue of [`DelayedAck`](super::DelayedAck).
    pub(super) turn: u64,
}

/// Data that arrived out of order, with earlier data still missing.
#[derive(Debug, Clone, Copy)]
struct Gap {
    /// The first missing sequence number.
    start: u32,
    /// The end of the data that arrived after the gap.
    end: u32,
}

/// The state of a connection, from its packets in both directions.
#[derive(Debug)]
pub(super) struct Connection {
    /// The connection's rank by age among all connections.
    pub(super) age: u64,
    host: Option<Opening>,
    peer: Option<Opening>,
    /// The next sequence number that the host expects, derived from packets and acknowledgements.
    next: u32,
    gap: Option<Gap>,
    /// Whether the peer sent a segment that BSD answers at once with a duplicate acknowledgement.
    provoked: bool,
    /// The sequence numbers after each side's FIN.
    host_fin: Option<u32>,
    peer_fin: Option<u32>,
    host_fin_is_acknowledged: bool,
    /// The largest window that the host advertised, in bytes.
    largest_window: u32,
    /// The latest report that was forwarded.
    left: Option<AckState>,
    pub(super) held: Option<Held>,
    /// The bytes of the held packet, or an empty buffer for reuse.
    pub(super) buffer: Vec<u8>,
}

impl Connection {
    pub(super) fn new(age: u64) -> Connection {
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

    /// Returns the sequence number of the host's SYN.
    pub(super) fn host_first(&self) -> Option<u32> {
        self.host.map(|host| host.first)
    }

    /// Returns the sequence number of the peer's SYN.
    pub(super) fn peer_first(&self) -> Option<u32> {
        self.peer.map(|peer| peer.first)
    }

    /// Records a SYN that the host sends.
    pub(super) fn host_opened(&mut self, first: u32, offer: Offer) {
        self.host = Some(Opening { first, offer });
    }

    /// Records a SYN of the peer that is about to arrive.
    pub(super) fn peer_opened(&mut self, first: u32, offer: Offer) {
        self.peer = Some(Opening { first, offer });
        self.next = first.wrapping_add(1);
    }

    /// Records a FIN that the host sends; `end` is the sequence number after it.
    pub(super) fn host_finished(&mut self, end: u32) {
        self.host_fin = Some(end);
    }

    /// Records an acknowledgement by the peer.
    pub(super) fn peer_acknowledged(&mut self, acknowledgement: u32) {
        self.host_fin_is_acknowledged |= self
            .host_fin
            .is_some_and(|fin| is_at_or_after(acknowledgement, fin));
    }

    /// Returns the report in a segment of the host. Also records the largest window.
    pub(super) fn ack_state(&mut self, segment: &Segment, acknowledgement: u32) -> AckState {
        // The window of a SYN is never scaled.
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
        AckState {
            acknowledgement,
            edge: acknowledgement.wrapping_add(window),
        }
    }

    /// Whether BSD would at once send a pure acknowledgement with this report.
    pub(super) fn acknowledges_at_once(&self, ack: AckState, segments: u32) -> bool {
        let (Some(left), Some(latest)) = (self.left, self.latest()) else {
            // The third packet of the handshake.
            return true;
        };
        if is_after(latest.acknowledgement, ack.acknowledgement) {
            // The host's packets were reordered: the held acknowledgement reports more, and remains held.
            return true;
        }
        let repeats = ack.acknowledgement == latest.acknowledgement;
        if repeats && (self.provoked || !is_after(ack.edge, latest.edge)) {
            return true;
        }
        let fills_a_gap = self
            .gap
            .is_some_and(|gap| is_after(ack.acknowledgement, gap.start));
        let acknowledges_fin = self
            .peer_fin
            .is_some_and(|fin| is_at_or_after(ack.acknowledgement, fin));
        let enough = self.enough(segments);
        let acknowledged = ack.acknowledgement.wrapping_sub(left.acknowledgement);
        let edge_moved =
            is_after(ack.edge, left.edge) && ack.edge.wrapping_sub(left.edge) >= enough;
        fills_a_gap || acknowledges_fin || acknowledged >= enough || edge_moved
    }

    /// Returns the number of received bytes that makes BSD acknowledge at once.
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

    /// Returns the kernel's latest report, forwarded or held.
    fn latest(&self) -> Option<AckState> {
        self.held.map(|held| held.ack).or(self.left)
    }

    /// Records an acknowledgement by the kernel, which is more reliable than the state derived from packets.
    pub(super) fn host_acknowledged(&mut self, ack: AckState) {
        if is_after(ack.acknowledgement, self.next) {
            self.next = ack.acknowledgement;
        }
        if self
            .gap
            .is_some_and(|gap| is_at_or_after(ack.acknowledgement, gap.end))
        {
            self.gap = None;
        }
    }

    /// Records that the report was forwarded to the path.
    pub(super) fn has_left(&mut self, ack: AckState) {
        if self.left.is_none_or(|left| ack.covers(left)) {
            self.left = Some(ack);
        }
        self.provoked = false;
    }

    /// Records a segment, neither SYN nor RST, that the host is about to receive.
    pub(super) fn peer_sent(&mut self, segment: &Segment) {
        let end = segment.end();
        if segment.fin {
            self.peer_fin = Some(end);
        }
        if end == segment.sequence && is_at_or_after(end, self.next) {
            // A pure acknowledgement needs no answer, even if it overtook data.
            return;
        }
        let is_beyond_window = self.latest().is_some_and(|ack| is_after(end, ack.edge));
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
            // A window probe, a keep-alive, or data that had already arrived.
            self.provoked = true;
        } else {
            self.next = end;
        }
    }

    /// Whether the kernel accepts an RST. After the handshake, its sequence number must be in the window (RFC 9293,
    /// section 3.10.7.4).
    pub(super) fn is_reset_by(&self, segment: &Segment) -> bool {
        self.latest().is_none_or(|ack| {
            is_at_or_after(segment.sequence, ack.acknowledgement)
                && is_at_or_after(ack.edge, segment.sequence)
        })
    }

    /// Whether both sides have sent FIN, and both FINs are acknowledged or their acknowledgement was forwarded.
    pub(super) fn is_over(&self) -> bool {
        let peer_fin_is_acknowledged = match (self.peer_fin, self.left) {
            (Some(fin), Some(left)) => is_at_or_after(left.acknowledgement, fin),
            _ => false,
        };
        self.host_fin_is_acknowledged && peer_fin_is_acknowledged
    }
}

/// Whether `sequence` is after `other`, by less than half the sequence space.
fn is_after(sequence: u32, other: u32) -> bool {
    (sequence.wrapping_sub(other) as i32) > 0
}

fn is_at_or_after(sequence: u32, other: u32) -> bool {
    (sequence.wrapping_sub(other) as i32) >= 0
}
