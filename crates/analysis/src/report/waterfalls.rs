//! Page waterfalls: every exchange of a replicate as a bar with its causes, and the time of the page by cause.

use std::time::Duration;

use fathometer_model::digits::{significant, trimmed};
use fathometer_model::{Bandwidth, Instant, quantity};
use maud::{Markup, html};
use serde::Deserialize;

use super::embed::reference;
use super::evidence;
use super::sequences::{self, SequenceGraph};
use crate::Error;
use crate::digest::Digest;
use crate::retrieval_trace::{Retrieval, retrievals};
use crate::svg::{Scale, xy};
use crate::waterfall::sender::{self, Sender};
use crate::waterfall::{Cause, Path, Segment, SenderGaps, blame, page_time};

const LABELS: f64 = 230.0;
const WIDTH: f64 = 620.0;
const ROW: f64 = 11.0;
const TOP: f64 = 18.0;
/// The largest number of bars in all waterfalls of a report. Waterfalls beyond it show only the sums.
const MOST_BARS: usize = 1500;

/// The largest number of points in all time-sequence graphs of a report. Graphs beyond it are left out.
const MOST_POINTS: usize = 300_000;

/// The content of a replicate's capture at the server's end of the path.
#[derive(Debug, Clone)]
pub struct Captured {
    /// The segments that the servers sent, in the order in which their connections were opened. Times count from the
    /// first packet at any tap: the client sends it to open the first connection.
    pub senders: Vec<Sender>,
    /// The connections as a time-sequence graph; `None` without a TCP connection.
    pub graph: Option<SequenceGraph>,
}

/// Reads the capture in a replicate's folder; `None` without a readable capture.
pub type Captures<'a> = &'a dyn Fn(&std::path::Path) -> Option<Captured>;

/// The remaining numbers of bars and points that a report may contain.
struct Room {
    bars: usize,
    points: usize,
    waterfalls_left_out: usize,
    graphs_left_out: usize,
}

/// The section; empty if no replicate recorded its exchanges.
///
/// # Errors
/// When the records of a replicate cannot be read.
pub(super) fn section(digest: &Digest<'_>, captures: Captures<'_>) -> Result<Markup, Error> {
    let retrievals = retrievals(&digest.run)?;
    if retrievals.is_empty() {
        return Ok(html! {});
    }
    let mut room = Room {
        bars: MOST_BARS,
        points: MOST_POINTS,
        waterfalls_left_out: 0,
        graphs_left_out: 0,
    };
    let drawn: Vec<Markup> = retrievals
        .iter()
        .enumerate()
        .map(|(number, retrieval)| one(digest, retrieval, number, captures, &mut room))
        .collect();
    Ok(html! {
        p.lead {
            "The first valid replicate of each cell that recorded its exchanges. A bar is an exchange from the moment the "
            "client needed the file to its last byte; its colours are the causes of its waiting. The time of the page "
            "counts each instant once: as transfer when any byte arrives, otherwise by the cause of the exchange that "
            "was planned earliest among those in progress. If the run has a capture of the replicate, its packets follow as a "
            "time-sequence graph, recorded at the server's end of the path."
        }
        (legend())
        @for markup in drawn { (markup) }
        @if room.waterfalls_left_out > 0 {
            p.footnote {
                "Bars of " (room.waterfalls_left_out) " waterfalls are left out: a report draws at most " (MOST_BARS) " exchanges. "
                code { "fathometer report RUN --trace FILE.json" } " writes all of them for Perfetto."
            }
        }
        @if room.graphs_left_out > 0 {
            p.footnote {
                (room.graphs_left_out) " time-sequence graphs are left out: a report has at most " (MOST_POINTS)
                " points. " code { "fathometer trace REPLICATE/taps.pcapng --tap server --report FILE.html" }
                " draws any of them."
            }
        }
        (rules())
        @if room.points < MOST_POINTS { (sequences::rules()) }
    })
}

fn legend() -> Markup {
    html! {
        div.legend {
            @for cause in Cause::ALL {
                span { i class={ "swatch " (class(cause)) } {} (cause.name()) }
            }
        }
    }
}

/// The explanation of the rules in `crate::waterfall`.
fn rules() -> Markup {
    html! {
        details {
            summary { "How a cause is found" }
            dl.facts {
                dt { "Client" } dd { "The file is planned, but its request is not sent, although its connection is open and idle, or no connection is being opened." }
                dt { "Round trip" } dd { "The connection is being opened, or the request and the first byte are on the path: at most one round trip per exchange." }
                dt { "Head of line" } dd { "Another response on the same connection is outstanding before the request is sent, or arrives before this response." }
                dt { "Server" } dd { "The first byte arrives later than one round trip, although the path dropped nothing and no other connection was receiving; or, in the capture, the sender had room in both windows but sent nothing." }
                dt { "Congestion window" } dd { "In the capture, a pause longer than half a round trip that an acknowledgement ended, with room in the receiver's window." }
                dt { "Flow control" } dd { "A pause as for the congestion window, but without room for a full segment in the receiver's window; or the server had used up an HTTP/2 or HTTP/3 window (of the stream or of the connection), until one round trip after the client granted more." }
                dt { "Loss" } dd { "A pause of the sender that ended with a retransmitted segment." }
                dt { "Transfer" } dd { "Bytes arrive." }
                dt { "Unknown" } dd { "The records do not determine the cause. Without a capture, it is the time that exceeds the transmission time of the response at the path's rate." }
            }
        }
    }
}

fn one(
    digest: &Digest<'_>,
    retrieval: &Retrieval<'_>,
    number: usize,
    captures: Captures<'_>,
    room: &mut Room,
) -> Markup {
    let exchanges = retrieval.exchanges.len();
    let is_drawn = exchanges <= room.bars;
    if is_drawn {
        room.bars -= exchanges;
    } else {
        room.waterfalls_left_out += 1;
    }
    let path = path(digest, retrieval);
    let folder = digest.run.folder.join(&retrieval.replicate.folder);
    let connections: Vec<_> = retrieval.connections.values().cloned().collect();
    let opened = connections.iter().map(|c| c.opened).min();
    let (senders, graph) = match captures(&folder) {
        Some(Captured { senders, graph }) => (Some(senders), graph),
        None => (None, None),
    };
    let graph = graph.filter(|graph| {
        let fits = graph.points <= room.points;
        match fits {
            true => room.points -= graph.points,
            false => room.graphs_left_out += 1,
        }
        fits
    });
    let gaps = path.round_trip_ns.zip(opened).and_then(|(trip, opened)| {
        // If the capture contains a different set of connections than the records, the two cannot be matched.
        let senders = senders.filter(|senders| senders.len() == connections.len())?;
        let mut in_order: Vec<_> = connections.iter().collect();
        in_order.sort_by_key(|c| (c.opened, c.connection));
        let moved = |at: Instant| at_client(at, opened, trip);
        let of_one = |sender: &Sender| -> Vec<Segment> {
            let gaps = sender::gaps(sender, trip).into_iter();
            gaps.map(|gap| Segment {
                from: moved(gap.from),
                to: moved(gap.to),
                ..gap
            })
            .collect()
        };
        let numbers = in_order.iter().map(|c| c.connection);
        Some(
            numbers
                .zip(senders.iter().map(of_one))
                .collect::<SenderGaps>(),
        )
    });
    let bars = blame(&retrieval.exchanges, &connections, &path, gaps.as_ref());
    let sums = page_time(&bars);
    let whole: u64 = sums.iter().map(|(_, nanos)| nanos).sum();
    let cell = digest.run.cells.iter().find(|cell| {
        cell.replicates
            .iter()
            .any(|replicate| std::ptr::eq(replicate, retrieval.replicate))
    });
    html! {
        details.waterfall id={ "waterfall-" (number) } {
            summary {
                (retrieval.name) ": " (significant(whole as f64 / 1e6)) " ms"
                span.causes {
                    @for (cause, nanos) in &sums {
                        " · " (cause.name()) " " (significant(*nanos as f64 / 1e6))
                    }
                }
            }
            p.footnote {
                "Replicate " (retrieval.replicate.replicate) " of "
                @match cell {
                    Some(cell) => a href={ "#" (evidence::anchor(digest, cell)) } { "its cell" },
                    None => "its cell",
                }
                ": " a href=(reference(&format!("{}/exchanges.ndjson", retrieval.replicate.folder))) { "exchanges" }
                @if folder.join("capture.pcapng").exists() {
                    ", " a href=(reference(&format!("{}/capture.pcapng", retrieval.replicate.folder))) { "packets" }
                }
                @if gaps.is_none() { ". There is no capture at the server's end, or it contains other connections: pauses of the sender are unknown" }
                "."
            }
            @if is_drawn { (drawing(retrieval, &bars)) }
            @if let Some(graph) = &graph { (sequences::figure(graph)) }
        }
    }
}

fn drawing(retrieval: &Retrieval<'_>, bars: &[Vec<Segment>]) -> Markup {
    let all = || bars.iter().flatten();
    let (Some(first), Some(last)) = (all().map(|s| s.from).min(), all().map(|s| s.to).max()) else {
        return html! {};
    };
    let millis = |at: Instant| (at.as_nanos() - first.as_nanos()) as f64 / 1e6;
    let scale = Scale::linear(0.0, millis(last), LABELS, LABELS + WIDTH);
    let height = TOP + ROW * bars.len() as f64 + 4.0;
    html! {
        div.scroll {
            svg viewBox={ "0 0 " (xy(LABELS + WIDTH + 20.0)) " " (xy(height)) } role="img"
                style="min-width:40rem;max-width:68rem"
                aria-label={ "Waterfall of " (retrieval.name) ". The times are in exchanges.ndjson." } {
                @for tick in scale.ticks(6) {
                    line.grid x1=(xy(scale.place(tick))) x2=(xy(scale.place(tick))) y1=(xy(TOP - 3.0)) y2=(xy(height)) {}
                    text.tick x=(xy(scale.place(tick))) y="10" text-anchor="middle" { (trimmed(tick)) " ms" }
                }
                @for (place, (bar, exchange)) in bars.iter().zip(&retrieval.exchanges).enumerate() {
                    @let y = TOP + ROW * place as f64;
                    text.tick x=(xy(LABELS - 6.0)) y=(xy(y + 8.5)) text-anchor="end" {
                        (shortened(&exchange.target)) " " (exchange.connection)
                    }
                    @for segment in bar {
                        @let (from, to) = (scale.place(millis(segment.from)), scale.place(millis(segment.to)));
                        rect class=(class(segment.cause)) x=(xy(from)) y=(xy(y)) width=(xy((to - from).max(0.2)))
                            height=(xy(ROW - 2.0)) {
                            title {
                                (exchange.target) ": " (segment.cause.name()) ", "
                                (significant(millis(segment.from))) " to " (significant(millis(segment.to))) " ms"
                            }
                        }
                    }
                }
            }
        }
        p.footnote { "The number after a name is the number of its connection." }
    }
}

/// The time at which the client receives a segment that the server sends at `at`. Capture times count from the first
/// connection attempt of the client, and the segment needs half a round trip.
fn at_client(at: Instant, opened: Instant, round_trip_ns: u64) -> Instant {
    Instant::from_nanos(opened.as_nanos() + at.as_nanos() + round_trip_ns / 2)
}

/// The end of a long target, because the ends of targets differ more than their starts.
fn shortened(target: &str) -> String {
    const LONGEST: usize = 30;
    let count = target.chars().count();
    match count > LONGEST {
        true => format!(
            "…{}",
            target.chars().skip(count - LONGEST).collect::<String>()
        ),
        false => target.to_owned(),
    }
}

fn class(cause: Cause) -> &'static str {
    match cause {
        Cause::Transfer => "cause-transfer",
        Cause::RoundTrip => "cause-trip",
        Cause::CongestionWindow => "cause-cwnd",
        Cause::FlowControl => "cause-flow",
        Cause::HeadOfLine => "cause-line",
        Cause::Loss => "cause-loss",
        Cause::Server => "cause-server",
        Cause::Client => "cause-client",
        Cause::Unknown => "cause-unknown",
    }
}

/// The parts of a path profile that waterfalls use.
#[derive(Debug, Default, Deserialize)]
struct Profile {
    #[serde(default)]
    both: Way,
    #[serde(default)]
    up: Way,
    #[serde(default)]
    down: Way,
}

#[derive(Debug, Default, Deserialize)]
struct Way {
    rate: Option<String>,
    propagation: Option<String>,
}

fn path(digest: &Digest<'_>, retrieval: &Retrieval<'_>) -> Path {
    let ways = [&retrieval.replicate.path.up, &retrieval.replicate.path.down];
    let has_drops = ways
        .iter()
        .any(|way| way.unasked_drops + way.drops.values().sum::<u64>() > 0);
    let name = retrieval.replicate.cell.level("path");
    let mut paths = digest.run.info.paths.iter();
    let profile = paths.find(|path| Some(path.name.as_str()) == name);
    let (round_trip_ns, rate_down) = profile.map_or((None, None), |path| of_profile(&path.profile));
    Path {
        round_trip_ns,
        rate_down,
        has_drops,
    }
}

/// The round-trip time in nanoseconds, and the rate towards the client in bytes per second.
fn of_profile(text: &str) -> (Option<u64>, Option<f64>) {
    let Ok(profile) = toml::from_str::<Profile>(text) else {
        return (None, None);
    };
    let propagation = |way: &Way| -> Option<Duration> {
        let text = way
            .propagation
            .as_ref()
            .or(profile.both.propagation.as_ref())?;
        quantity::time(text).ok()
    };
    let trip = propagation(&profile.up).zip(propagation(&profile.down));
    let rate = profile.down.rate.as_ref().or(profile.both.rate.as_ref());
    let rate = rate.and_then(|rate| rate.parse::<Bandwidth>().ok());
    (
        trip.map(|(up, down)| (up + down).as_nanos() as u64),
        rate.map(|rate| rate.as_bits_per_second() as f64 / 8.0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_rate_are_those_of_the_profile() {
        let text = "mtu = 1500\n[both]\nrate = \"10Mbit/s\"\npropagation = \"45ms\"\n[down]\nrate = \"2Mbit/s\"\n";
        assert_eq!(of_profile(text), (Some(90_000_000), Some(250_000.0)));
        assert_eq!(of_profile("[both]\npropagation = \"soon\"\n"), (None, None));
        assert_eq!(of_profile("not a profile"), (None, None));
    }

    #[test]
    fn a_segment_of_the_server_reaches_the_client_half_a_round_trip_later() {
        let millis = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        // The SYN leaves at 10 ms of the replicate's time, which is time 0 of the capture. The server answers after 45
        // ms.
        assert_eq!(at_client(millis(45), millis(10), 90_000_000), millis(100));
    }

    #[test]
    fn a_long_target_keeps_its_end() {
        assert_eq!(shortened("/a.gif"), "/a.gif");
        let short = shortened("/a/very/long/folder/of/many/pictures/0042.gif");
        assert!(short.starts_with('…') && short.ends_with("0042.gif"));
    }
}
