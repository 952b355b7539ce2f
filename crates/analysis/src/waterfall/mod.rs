//! Where the time of a page went: every exchange of a replicate as phases, each with its cause.
//!
//! The phases are those that the client's records show:
//!
//! | phase | of it | cause |
//! |---|---|---|
//! | planned to sent | while its connection is being opened | [`Cause::RoundTrip`] |
//! | | while its connection has another response outstanding | [`Cause::HeadOfLine`] |
//! | | the rest | [`Cause::Client`] |
//! | sent to first byte | while its connection delivers another response | [`Cause::HeadOfLine`] |
//! | | of the rest, as long as one round trip of the path | [`Cause::RoundTrip`] |
//! | | the rest, if the path dropped nothing and no other connection was receiving | [`Cause::Server`] |
//! | | the rest otherwise, or if the round trip is not known | [`Cause::Unknown`] |
//! | first to last byte | a gap of the sender, with its cause ([`sender`]) | |
//! | | the rest | [`Cause::Transfer`] |
//! | first to last byte, over all of these but a loss | the server had used up a window of HTTP/2 or HTTP/3 (`window`) | [`Cause::FlowControl`] |
//!
//! Without a capture, gaps of the sender are not visible. Then the time beyond the bytes at the path's rate is
//! [`Cause::Unknown`].

pub mod sender;
mod window;

use fathometer_model::{ConnectionRecord, ExchangeRecord, Instant};

/// Why an exchange waits, or that it does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// Bytes of the response arrive.
    Transfer,
    /// A handshake, or the way of the request and of the first byte.
    RoundTrip,
    /// The sender has data, and its congestion window is full.
    CongestionWindow,
    /// The sender has data, and a window of the receiver is full: that of TCP, or one of HTTP/2 or HTTP/3.
    FlowControl,
    /// Another exchange of the connection comes first.
    HeadOfLine,
    /// A lost packet is repeated.
    Loss,
    /// The server has not sent what it could send.
    Server,
    /// The client has not sent a request that it could send.
    Client,
    /// The records do not decide.
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

    /// Its name in legends and tables.
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
    /// When it begins.
    pub from: Instant,
    /// When it ends, later than it begins.
    pub to: Instant,
    /// Its cause.
    pub cause: Cause,
}

/// What is known of the path of a replicate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Path {
    /// Propagation both ways, in nanoseconds; `None` when the profile is not known.
    pub round_trip_ns: Option<u64>,
    /// The rate towards the client, in bytes per second; `None` when it has no limit or is not known.
    pub rate_down: Option<f64>,
    /// Whether any packet was dropped in the replicate.
    pub has_drops: bool,
}

/// The gaps of each connection's sender, by the number of the connection, in the client's time; `None` without a
/// capture.
pub type SenderGaps = std::collections::BTreeMap<u32, Vec<Segment>>;

/// The segments of each exchange, in the order of the exchanges. They are in order, do not overlap, and cover the time
/// from planned to the last byte that was read. An exchange that was not sent has none.
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

        // Planned to sent.
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
        // Sent to first byte.
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
        // First to last byte.
        let Some(last) = exchange.last_byte else {
            return segments;
        };
        match gaps.map(|gaps| gaps.get(&exchange.connection)) {
            Some(Some(gaps)) => of_gaps(&mut segments, (first, last), gaps),
            // A connection without gaps.
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

/// How long the page waited for each cause, in nanoseconds. An instant counts for the exchange of those in progress that
/// was planned first; it is [`Cause::Transfer`] if bytes of any response arrive then. So the sum is the time in which
/// an exchange was in progress.
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

/// The parts of a span that lie in any of `others`, and those that do not, in order.
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

/// Gaps of the sender within a span; a byte arrives in the rest.
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
