//! The time of a page by cause: every exchange of a replicate is divided into segments, each with its cause.
//!
//! The segments are computed from the client's records:
//!
//! | phase | part | cause |
//! |---|---|---|
//! | planned to sent | while its connection is being opened | [`Cause::RoundTrip`] |
//! | | while its connection has another response outstanding | [`Cause::HeadOfLine`] |
//! | | the remaining time | [`Cause::Client`] |
//! | sent to first byte | while its connection delivers another response | [`Cause::HeadOfLine`] |
//! | | then at most one round trip of the path | [`Cause::RoundTrip`] |
//! | | the remaining time, if the path dropped nothing and no other connection was receiving | [`Cause::Server`] |
//! | | the remaining time otherwise, or if the round trip is unknown | [`Cause::Unknown`] |
//! | first to last byte | a gap of the sender | the cause of the gap ([`sender`]) |
//! | | the remaining time | [`Cause::Transfer`] |
//! | first to last byte, replaces every cause except a loss | while a window of HTTP/2 or HTTP/3 is exhausted (`window`) | [`Cause::FlowControl`] |
//!
//! Without a capture, gaps of the sender are not visible. In that case, the time that exceeds the transmission time at
//! the path's rate is [`Cause::Unknown`].

pub mod sender;
mod window;

use fathometer_model::{ConnectionRecord, ExchangeRecord, Instant};

/// The cause of a part of an exchange: the reason for a wait, or the transfer of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Bytes of the response arrive.
    Transfer,
    /// A handshake, or the propagation time of the request and of the first byte.
    RoundTrip,
    /// The sender has data, but its congestion window is full.
    CongestionWindow,
    /// The sender has data, but a window of the receiver is full: the TCP window, or a window of HTTP/2 or HTTP/3.
    FlowControl,
    /// Another exchange on the connection must finish first.
    HeadOfLine,
    /// A lost packet is retransmitted.
    Loss,
    /// The server has not sent data that it could send.
    Server,
    /// The client has not sent a request that it could send.
    Client,
    /// The records do not determine the cause.
    Unknown,
}

impl Cause {
    /// All causes, in the order of legends.
    pub const ALL: [Cause; 9] = [
        Cause::Transfer,
        Cause::RoundTrip,
        Cause::CongestionWindow,
        Cause::FlowControl,
        Cause::HeadOfLine,
        Cause::Loss,
        Cause::Server,
        Cause::Client,
        Cause::Unknown,
    ];

    /// The name in legends and tables.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Transfer => "transfer",
            Cause::RoundTrip => "round trip",
            Cause::CongestionWindow => "congestion window",
            Cause::FlowControl => "flow control",
            Cause::HeadOfLine => "head of line",
            Cause::Loss => "loss",
            Cause::Server => "server",
            Cause::Client => "client",
            Cause::Unknown => "unknown",
        }
    }
}

/// A part of an exchange with one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The start of the segment.
    pub from: Instant,
    /// The end of the segment, later than its start.
    pub to: Instant,
    /// The cause of the segment.
    pub cause: Cause,
}

/// The known properties of a replicate's path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Path {
    /// Propagation time in both directions, in nanoseconds; `None` if the profile is unknown.
    pub round_trip_ns: Option<u64>,
    /// The rate towards the client, in bytes per second; `None` if it is unlimited or unknown.
    pub rate_down: Option<f64>,
    /// Whether any packet was dropped in the replicate.
    pub has_drops: bool,
}

/// The gaps of each connection's sender, by connection number, in the client's time; `None` without a capture.
pub type SenderGaps = std::collections::BTreeMap<u32, Vec<Segment>>;

/// Returns the segments of each exchange, in the order of the exchanges. The segments are in order, do not overlap, and cover
/// the time from the planned instant to the last byte that was read. An exchange that was not sent has no segments.
pub fn blame(
    exchanges: &[ExchangeRecord],
    connections: &[ConnectionRecord],
    path: &Path,
    gaps: Option<&SenderGaps>,
) -> Vec<Vec<Segment>> {
    let one = |exchange: &ExchangeRecord| {
        let others = || {
            exchanges
                .iter()
                .filter(|other| other.exchange != exchange.exchange)
        };
        let same = || others().filter(|other| other.connection == exchange.connection);
        let connection = connections
            .iter()
            .find(|c| c.connection == exchange.connection);
        let mut segments = Vec::new();
        let Some(sent) = exchange.sent else {
            return segments;
        };
        let opening = connection.map(|c| (c.opened, c.established.unwrap_or(sent)));
        let outstanding: Vec<Span> = same()
            .filter_map(|o| Some((o.sent?, o.last_byte?)))
            .collect();
        let receiving: Vec<Span> = same()
            .filter_map(|o| Some((o.first_byte?, o.last_byte?)))
            .collect();
        let elsewhere: Vec<Span> = others()
            .filter(|other| other.connection != exchange.connection)
            .filter_map(|other| Some((other.first_byte?, other.last_byte?)))
            .collect();

        // Phase from planned to sent.
        for (span, is_opening) in cut((exchange.planned, sent), opening.as_slice()) {
            if is_opening {
                push(&mut segments, span, Cause::RoundTrip);
                continue;
            }
            for (span, is_outstanding) in cut(span, &outstanding) {
                let cause = if is_outstanding {
                    Cause::HeadOfLine
                } else {
                    Cause::Client
                };
                push(&mut segments, span, cause);
            }
        }
        // Phase from sent to first byte.
        let Some(first) = exchange.first_byte else {
            return segments;
        };
        let mut trip = path.round_trip_ns;
        for (span, is_receiving) in cut((sent.max(exchange.planned), first), &receiving) {
            if is_receiving {
                push(&mut segments, span, Cause::HeadOfLine);
                continue;
            }
            let Some(left) = trip else {
                push(&mut segments, span, Cause::Unknown);
                continue;
            };
            let travelled = left.min(length(span));
            trip = Some(left - travelled);
            let middle = Instant::from_nanos(span.0.as_nanos() + travelled);
            push(&mut segments, (span.0, middle), Cause::RoundTrip);
            let is_quiet = !path.has_drops;
            for (span, is_busy) in cut((middle, span.1), &elsewhere) {
                let cause = if is_quiet && !is_busy {
                    Cause::Server
                } else {
                    Cause::Unknown
                };
                push(&mut segments, span, cause);
            }
        }
        // Phase from first to last byte.
        let Some(last) = exchange.last_byte else {
            return segments;
        };
        match gaps.map(|gaps| gaps.get(&exchange.connection)) {
            Some(Some(gaps)) => of_gaps(&mut segments, (first, last), gaps),
            // A connection without gaps of the sender.
            Some(None) => push(&mut segments, (first, last), Cause::Transfer),
            None => {
                let bytes = exchange.response_head.0 + exchange.response_body.0;
                let needed = path
                    .rate_down
                    .map_or(0, |rate| (bytes as f64 / rate * 1e9) as u64);
                let end = Instant::from_nanos(first.as_nanos() + needed.min(length((first, last))));
                push(&mut segments, (first, end), Cause::Transfer);
                push(&mut segments, (end, last), Cause::Unknown);
            }
        }
        let waits = connection.map_or(&[][..], |c| &c.window_waits);
        let waits = window::spans(waits, exchange.exchange, path.round_trip_ns);
        window::overlay(&segments, (first, last), &waits)
    };
    exchanges.iter().map(one).collect()
}

/// The time of the page by cause, in nanoseconds. An instant counts as [`Cause::Transfer`] if bytes of any response
/// arrive. Otherwise it has the cause of the exchange that was planned earliest among those in progress. So the sum is
/// the time in which at least one exchange was in progress.
pub fn page_time(bars: &[Vec<Segment>]) -> Vec<(Cause, u64)> {
    let mut edges: Vec<Instant> = bars.iter().flatten().flat_map(|s| [s.from, s.to]).collect();
    edges.sort();
    edges.dedup();
    let mut sums = Cause::ALL.map(|cause| (cause, 0));
    for pair in edges.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let mut active = bars
            .iter()
            .flatten()
            .filter(|segment| segment.from <= from && segment.to >= to)
            .map(|segment| segment.cause);
        let Some(first) = active.next() else {
            continue;
        };
        let arrives = first == Cause::Transfer || active.any(|cause| cause == Cause::Transfer);
        let cause = if arrives { Cause::Transfer } else { first };
        let place = Cause::ALL.iter().position(|known| *known == cause);
        sums[place.unwrap_or(0)].1 += length((from, to));
    }
    sums.into_iter().filter(|(_, nanos)| *nanos > 0).collect()
}

type Span = (Instant, Instant);

fn length((from, to): Span) -> u64 {
    to.as_nanos().saturating_sub(from.as_nanos())
}

fn push(segments: &mut Vec<Segment>, (from, to): Span, cause: Cause) {
    if to <= from {
        return;
    }
    match segments.last_mut() {
        Some(last) if last.cause == cause && last.to == from => last.to = to,
        _ => segments.push(Segment { from, to, cause }),
    }
}

/// Splits a span at the ends of `others`. Each part is returned with whether it lies in one of `others`.
fn cut(span: Span, others: &[Span]) -> Vec<(Span, bool)> {
    let mut others: Vec<Span> = others
        .iter()
        .copied()
        .filter(|o| o.1 > span.0 && o.0 < span.1)
        .collect();
    others.sort();
    let mut parts = Vec::new();
    let mut at = span.0;
    for (from, to) in others {
        let (from, to) = (from.max(at), to.min(span.1));
        if from > at {
            parts.push(((at, from), false));
        }
        if to > from {
            parts.push(((from, to), true));
            at = to;
        }
    }
    if span.1 > at {
        parts.push(((at, span.1), false));
    }
    parts
}

/// Adds the gaps of the sender within a span. The remaining time of the span is [`Cause::Transfer`].
fn of_gaps(segments: &mut Vec<Segment>, span: Span, gaps: &[Segment]) {
    let mut at = span.0;
    for gap in gaps
        .iter()
        .filter(|gap| gap.to > span.0 && gap.from < span.1)
    {
        let (from, to) = (gap.from.max(at), gap.to.min(span.1));
        push(segments, (at, from), Cause::Transfer);
        push(segments, (from, to), gap.cause);
        at = at.max(to);
    }
    push(segments, (at, span.1), Cause::Transfer);
}

#[cfg(test)]
mod tests;
