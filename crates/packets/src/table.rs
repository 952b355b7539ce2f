//! The accounting as tables for the terminal.

use std::fmt::{self, Write};

use fathometer_model::{Bytes, Instant};

use super::class::Class;
use super::connection_summary::{ConnectionSummary, Direction, DirectionSummary};
use super::quantiles::RttSummary;
use super::summary::Accounting;

/// Number of connections that the table lists; the others are only counted.
const CONNECTION_ROWS: usize = 1_000;

impl Accounting {
    /// Formats the accounting as text tables: the source of the figures, the partition by class, both directions, the
    /// totals of the connections and, if requested, each connection.
    pub fn table(&self, name: &str, connections: bool) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_table(&mut text, name, connections);
        text
    }

    fn write_table(&self, out: &mut String, name: &str, connections: bool) -> fmt::Result {
        self.write_source(out, name)?;
        self.write_partition(out)?;
        self.write_directions(out)?;
        self.write_totals(out)?;
        if connections {
            self.write_connections(out)?;
        }
        Ok(())
    }

    fn write_source(&self, out: &mut String, name: &str) -> fmt::Result {
        let seconds = match (self.first, self.last) {
            (Some(first), Some(last)) => last.since(first).as_secs_f64(),
            _ => 0.0,
        };
        let packets = self.packets();
        writeln!(out, "{name}: {packets} packets in {seconds:.6} s")?;
        let taken = |counted: bool| -> Vec<String> {
            // Several sections of a file may contain interfaces of the same name.
            let mut names = Vec::<(&str, u64)>::new();
            for interface in self.interfaces.iter().filter(|i| i.counted == counted) {
                let name = interface.name.as_deref().unwrap_or("unnamed");
                match names.iter_mut().find(|known| known.0 == name) {
                    Some(known) => known.1 += interface.packets,
                    None => names.push((name, interface.packets)),
                }
            }
            names
                .iter()
                .map(|(name, packets)| format!("{name} ({packets})"))
                .collect()
        };
        writeln!(out, "counted: {}", taken(true).join(", "))?;
        let left_out = taken(false);
        if !left_out.is_empty() {
            writeln!(out, "not counted: {}", left_out.join(", "))?;
        }
        for note in &self.notes {
            writeln!(out, "note: {note}")?;
        }
        Ok(())
    }

    fn write_partition(&self, out: &mut String) -> fmt::Result {
        let share = |count: u64| match self.packets() {
            0 => 0.0,
            all => 100.0 * count as f64 / all as f64,
        };
        writeln!(
            out,
            "\n{:24}{:>14}{:>14}{:>14}{:>9}",
            "packets", "up", "down", "all", "share"
        )?;
        let line = |out: &mut String, name: &str, up: u64, down: u64, all: u64| {
            writeln!(
                out,
                "  {name:22}{up:>14}{down:>14}{all:>14}{:>8.1}%",
                share(all)
            )
        };
        for class in Class::ALL {
            let [up, down] = Direction::BOTH.map(|d| self.direction(d).classes.of(class));
            line(out, &class.to_string(), up, down, self.classes.of(class))?;
        }
        line(
            out,
            "sum",
            self.up.packets(),
            self.down.packets(),
            self.packets(),
        )?;
        let other = &self.other;
        let parts = [
            ("UDP", other.udp),
            ("ICMP", other.icmp),
            ("fragments", other.fragments),
            ("odd TCP", other.odd_tcp),
            ("other IP", other.other_ip),
            ("not IP", other.not_ip),
            ("malformed", other.malformed),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|part| part.1 > 0)
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        if !parts.is_empty() {
            writeln!(out, "  other: {}", parts.join(", "))?;
        }
        Ok(())
    }

    fn write_directions(&self, out: &mut String) -> fmt::Result {
        writeln!(
            out,
            "\n{:24}{:>14}{:>14}{:>14}",
            "directions", "up", "down", "both"
        )?;
        let number = |out: &mut String, name: &str, figure: fn(&DirectionSummary) -> u64| {
            let [up, down] = Direction::BOTH.map(|d| figure(self.direction(d)));
            writeln!(out, "  {name:22}{up:>14}{down:>14}{:>14}", up + down)
        };
        number(out, "IP bytes", |d| d.ip_bytes.0)?;
        number(out, "payload bytes", |d| d.payload_bytes.0)?;
        number(out, "  each byte once", |d| d.unique_payload_bytes.0)?;
        number(out, "retransmitted packets", |d| d.retransmitted_packets)?;
        number(out, "retransmitted bytes", |d| d.retransmitted_bytes.0)?;
        number(out, "out of order", |d| d.out_of_order_packets)?;
        number(out, "duplicate ACKs", |d| d.duplicate_acks)?;
        number(out, "keep-alives", |d| d.keep_alives)?;
        number(out, "zero windows", |d| d.zero_windows)?;
        number(out, "zero-window probes", |d| d.zero_window_probes)?;
        let text = |out: &mut String, name: &str, figure: fn(&DirectionSummary) -> String| {
            let [up, down] = Direction::BOTH.map(|d| figure(self.direction(d)));
            writeln!(out, "  {name:22}{up:>14}{down:>14}")
        };
        text(out, "window, least", |d| known(d.window_min.map(|b| b.0)))?;
        text(out, "window, most", |d| known(d.window_max.map(|b| b.0)))?;
        text(out, "outstanding, most", |d| {
            d.outstanding_max.0.to_string()
        })?;
        text(out, "MSS", |d| known(d.mss))?;
        text(out, "options", options)?;
        let rtt = |out: &mut String, name: &str, figure: fn(&RttSummary) -> f64| {
            let [up, down] = Direction::BOTH.map(|d| {
                let rtt = self.direction(d).rtt.as_ref();
                rtt.map_or("-".to_owned(), |rtt| format!("{:.3}", figure(rtt) / 1e6))
            });
            writeln!(out, "  {name:22}{up:>14}{down:>14}")
        };
        text(out, "RTT samples", |d| known(d.rtt.map(|rtt| rtt.samples)))?;
        rtt(out, "  least, ms", |r| r.min_ns as f64)?;
        rtt(out, "  median, ms", |r| r.median_ns)?;
        rtt(out, "  mean, ms", |r| r.mean_ns)?;
        rtt(out, "  most, ms", |r| r.max_ns as f64)
    }

    fn write_totals(&self, out: &mut String) -> fmt::Result {
        writeln!(out, "\nconnections")?;
        let mut line = |name: &str, value: String| writeln!(out, "  {name:22}{value}");
        let endings = self.connections.totals().endings.iter();
        let endings: Vec<String> = endings
            .map(|(ending, count)| format!("{count} {ending}"))
            .collect();
        let count = self.connections.len();
        match endings.is_empty() {
            true => line("number", count.to_string())?,
            false => line("number", format!("{count}: {}", endings.join(", ")))?,
        }
        let mean = match count {
            0 => None,
            _ => Some(self.connection_packets() as f64 / count as f64),
        };
        let median = self.median_packets();
        line(
            "packets of each",
            format!("{} on average, {} median", figure(mean), figure(median)),
        )?;
        line(
            "packet trains",
            format!(
                "{}: {} packets on average, {} in the longest",
                self.trains.count,
                figure(self.trains.mean()),
                self.trains.longest
            ),
        )?;
        line(
            "unbroken runs",
            format!(
                "{}: {} packets on average, {} in the longest",
                self.runs.count,
                figure(self.runs.mean()),
                self.runs.longest
            ),
        )?;
        let metrics = self.metrics();
        let mean_size = metrics.get("mean_packet_bytes").copied();
        line("packet size", format!("{} B on average", figure(mean_size)))?;
        let percent = |share: Option<f64>| figure(share.map(|share| share * 100.0));
        line(
            "header overhead",
            format!(
                "{} % by the rule of 40 B per packet, {} % by the actual headers",
                percent(self.overhead_by_rule()),
                percent(self.overhead())
            ),
        )?;
        let idle = self.idle_max_ns().map(|gap| gap as f64 / 1e6);
        // The longest gap is not in the list if the list was full.
        let longest = self
            .idle_gaps
            .iter()
            .find(|gap| Some(gap.duration_ns) == self.idle_max_ns());
        let between = longest.map(|gap| {
            let begin = gap.start.as_secs_f64();
            let (after, until) = (gap.after, gap.ended_by);
            format!(", from {begin:.6} s, after {after}, until {until}")
        });
        let between = between.unwrap_or_default();
        line("longest idle gap", format!("{} ms{between}", figure(idle)))?;
        if let Some(sent) = &self.sent {
            let total = sent.total();
            if total.total() == 0 {
                return line("retransmissions", "none".to_owned());
            }
            let causes: Vec<String> = total
                .lost
                .iter()
                .map(|(cause, count)| format!("{count} dropped ({cause})"))
                .chain([format!("{} not dropped", total.spurious)])
                .collect();
            line(
                "retransmissions",
                format!(
                    "{} packets; their originals: {}",
                    total.total(),
                    causes.join(", ")
                ),
            )?;
        }
        Ok(())
    }

    fn write_connections(&self, out: &mut String) -> fmt::Result {
        let number = |out: &mut String, header: [&str; 11]| {
            let [a, b, c, d, e, f, g, h, i, j, k] = header;
            writeln!(
                out,
                "  {a:>5} {b:>11} {c:>11} {d:>6} {e:>6} {f:>11} {g:>11} {h:>5} {i:>9} {j:>9}  {k}"
            )
        };
        writeln!(out, "\neach connection")?;
        number(
            out,
            [
                "no.",
                "begin, s",
                "length, s",
                "up",
                "down",
                "B up",
                "B down",
                "again",
                "RTT, ms",
                "idle, ms",
                "how it ended",
            ],
        )?;
        for (n, connection) in self.connections.iter().take(CONNECTION_ROWS).enumerate() {
            let ConnectionSummary {
                ref up,
                ref down,
                first,
                last,
                ..
            } = connection;
            let rtt = connection.direction(self.rtt_direction()).rtt;
            let again = up.retransmitted_packets + down.retransmitted_packets;
            number(
                out,
                [
                    &n.to_string(),
                    &format!("{:.6}", first.since(Instant::ZERO).as_secs_f64()),
                    &format!("{:.6}", last.since(first).as_secs_f64()),
                    &up.packets().to_string(),
                    &down.packets().to_string(),
                    &unique(up),
                    &unique(down),
                    &again.to_string(),
                    &figure(rtt.map(|rtt| rtt.median_ns / 1e6)),
                    &figure(Some(connection.idle_max_ns as f64 / 1e6)),
                    &format!(
                        "{} {} -> {}",
                        connection.ending, connection.client, connection.server
                    ),
                ],
            )?;
        }
        match self.connections.len().checked_sub(CONNECTION_ROWS) {
            Some(left @ 1..) => writeln!(out, "  and {left} more (--json lists all)"),
            _ => Ok(()),
        }
    }
}

fn unique(direction: &DirectionSummary) -> String {
    let Bytes(bytes) = direction.unique_payload_bytes;
    bytes.to_string()
}

fn options(direction: &DirectionSummary) -> String {
    let scale = direction.window_scale.map(|shift| format!("WS{shift}"));
    let sack = direction.sack_permitted.then(|| "SACK".to_owned());
    let stamps = direction.timestamps.then(|| "TS".to_owned());
    let all: Vec<String> = [scale, sack, stamps].into_iter().flatten().collect();
    match all.is_empty() {
        true => "-".to_owned(),
        false => all.join(" "),
    }
}

fn known(value: Option<impl fmt::Display>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

fn figure(value: Option<f64>) -> String {
    match value {
        Some(value) if value >= 1_000.0 => format!("{value:.0}"),
        Some(value) if value >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
        None => "-".to_owned(),
    }
}
