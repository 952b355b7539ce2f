//! The causes of gaps between the segments of a TCP sender, from the packets at the sender's end.
//!
//! A gap is a time between two data segments of the server that is longer than half a round trip and longer than
//! [`PROMPT_NS`]. The segment before the gap leaves at time `a`, the segment after the gap at time `b`. The first rule
//! that applies determines the cause:
//!
//! 1. The segment at `b` repeats bytes: [`Cause::Loss`].
//! 2. All bytes were acknowledged more than [`PROMPT_NS`] before `b`: the sender had nothing to send,
//!    [`Cause::Server`].
//! 3. An acknowledgement of new bytes arrived at most [`PROMPT_NS`] before `b` and released the segment. The cause is
//!    [`Cause::FlowControl`] if the receiver's window had no room for a full segment at `a`, otherwise
//!    [`Cause::CongestionWindow`].
//! 4. Bytes were outstanding and no acknowledgement released the segment: the program wrote late, [`Cause::Server`].
//!
//! If the capture lacks the acknowledgements, the cause is [`Cause::Unknown`].

use fathometer_model::Instant;

use super::{Cause, Segment};

/// The longest time from an acknowledgement to the segment that it releases, in nanoseconds. A busy host needs up to 2
/// ms to run its TCP code.
pub const PROMPT_NS: u64 = 2_000_000;
/// The payload of a full segment on Ethernet, in bytes. A window with less room does not permit a full segment.
const FULL_SEGMENT: u64 = 1460;

/// One data segment at the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// The time at which the segment left.
    pub at: Instant,
    /// The sequence number after the last byte of the segment.
    pub end: u64,
    /// Whether the segment repeats bytes that were already sent.
    pub repeats: bool,
}

/// The segments that one end of a connection sent, and the acknowledgements and windows that it received. Sequence
/// numbers are relative to the initial sequence number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sender {
    /// Data segments in order.
    pub segments: Vec<Sent>,
    /// Acknowledgements: the time, and the first number that is not acknowledged.
    pub acknowledgements: Vec<(Instant, u64)>,
    /// The right edge of the peer's window: the time, and the first number beyond the edge.
    pub window_edges: Vec<(Instant, u64)>,
}

/// Returns the gaps of a sender, in the sender's time.
pub fn gaps(sender: &Sender, round_trip_ns: u64) -> Vec<Segment> {
    let mut highest = 0;
    let mut gaps = Vec::new();
    for pair in sender.segments.windows(2) {
        let [before, after] = [pair[0], pair[1]];
        highest = highest.max(before.end);
        let length = after.at.as_nanos().saturating_sub(before.at.as_nanos());
        if length > (round_trip_ns / 2).max(PROMPT_NS) {
            gaps.push(Segment {
                from: before.at,
                to: after.at,
                cause: cause(sender, before, after, highest),
            });
        }
    }
    gaps
}

fn cause(sender: &Sender, before: Sent, after: Sent, highest: u64) -> Cause {
    if after.repeats {
        return Cause::Loss;
    }
    if sender.acknowledgements.is_empty() {
        return Cause::Unknown;
    }
    let acknowledged = up_to(&sender.acknowledgements, after.at);
    let is_prompt = |at: Instant| after.at.as_nanos() - at.as_nanos() <= PROMPT_NS;
    let all = acknowledged.iter().find(|(_, number)| *number >= highest);
    if all.is_some_and(|(at, _)| !is_prompt(*at)) {
        return Cause::Server;
    }
    let mut known = up_to(&sender.acknowledgements, before.at)
        .iter()
        .map(|(_, number)| *number)
        .max()
        .unwrap_or(0);
    let released = acknowledged.iter().any(|(at, number)| {
        let is_new = *number > known;
        known = known.max(*number);
        is_new && *at > before.at && is_prompt(*at)
    });
    if !released {
        return Cause::Server;
    }
    let edges = up_to(&sender.window_edges, before.at);
    match edges.iter().map(|(_, edge)| *edge).max() {
        Some(edge) if edge.saturating_sub(highest) < FULL_SEGMENT => Cause::FlowControl,
        _ => Cause::CongestionWindow,
    }
}

/// The entries up to an instant.
fn up_to(list: &[(Instant, u64)], at: Instant) -> &[(Instant, u64)] {
    &list[..list.partition_point(|(time, _)| *time <= at)]
}
