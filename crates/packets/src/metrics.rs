//! The accounting as a flat list of named numbers, for a run's records.

use std::collections::BTreeMap;

use super::class::Class;
use super::connection_summary::{Direction, Ending};
use super::summary::Accounting;

impl Accounting {
    /// Returns all figures by name; the suffix of a name is the unit. A figure that could not be measured is absent.
    ///
    /// | name | meaning |
    /// |---|---|
    /// | `packets`, `packets_up`, `packets_down` | counted packets |
    /// | `packets_syn` … `packets_other` | by [`Class`]; they sum to `packets` |
    /// | `packets_tcp` | packets in connections |
    /// | `ip_bytes`, `ip_bytes_up`, `ip_bytes_down` | bytes of IP packets |
    /// | `payload_bytes` and `_up`, `_down` | bytes of TCP payload |
    /// | `unique_payload_bytes` and `_up`, `_down` | bytes of TCP payload without retransmissions |
    /// | `overhead_pct` | share of headers by the papers' rule, 40 bytes per packet |
    /// | `overhead_true_pct` | share of the actual headers |
    /// | `connections`, `connections_closed`, `connections_half_closed`, `connections_reset`, `connections_reset_up`, `connections_reset_down`, `connections_open` | connections by ending |
    /// | `packets_per_connection`, `packets_per_connection_median` | mean and median of the packets per connection |
    /// | `mean_packet_bytes` | IP bytes per packet of a connection |
    /// | `trains`, `train_packets_mean`, `train_packets_max` | packet trains |
    /// | `runs`, `run_packets_mean`, `run_packets_max` | consecutive packets of one connection |
    /// | `retransmissions` and `_up`, `_down` | at the sender's tap if captured, otherwise at the counted tap |
    /// | `retransmissions_lost`, `retransmissions_spurious` | retransmissions of packets that the path had dropped; all other retransmissions |
    /// | `retransmissions_seen`, `retransmitted_bytes` | at the counted tap |
    /// | `out_of_order`, `duplicate_acks`, `keep_alives`, `zero_windows`, `zero_window_probes` | packets |
    /// | `outstanding_max_bytes_up`, `_down` | maximum number of bytes in flight |
    /// | `rtt_min_ms`, `rtt_mean_ms`, `rtt_median_ms`, `rtt_max_ms`, `rtt_samples` | across the path ([`Accounting::rtt_direction`]) |
    /// | `idle_max_ms`, `idle_gaps` | longest idle gap, and number of gaps above the threshold |
    /// | `drops`, `drops_<cause>` | packets dropped by the path, in both directions, for any counted taps |
    /// | `duration_s` | from the first to the last counted packet |
    pub fn metrics(&self) -> BTreeMap<String, f64> {
        let mut metrics = Metrics(BTreeMap::new());
        self.put_totals(&mut metrics);
        self.put_connections(&mut metrics);
        self.put_repetitions(&mut metrics);
        self.put_times(&mut metrics);
        metrics.0
    }

    fn put_totals(&self, metrics: &mut Metrics) {
        metrics.put("packets", self.packets() as f64);
        for class in Class::ALL {
            let name = format!("packets_{}", class.metric());
            metrics.put(name, self.classes.of(class) as f64);
        }
        metrics.put("packets_tcp", self.connection_packets() as f64);
        let both = |figure: fn(&super::DirectionSummary) -> f64| {
            Direction::BOTH.map(|direction| figure(self.direction(direction)))
        };
        metrics.put_directions("packets", both(|d| d.packets() as f64));
        metrics.put_sum("ip_bytes", both(|d| d.ip_bytes.as_f64()));
        metrics.put_sum("payload_bytes", both(|d| d.payload_bytes.as_f64()));
        metrics.put_sum(
            "unique_payload_bytes",
            both(|d| d.unique_payload_bytes.as_f64()),
        );
        metrics.put_directions(
            "outstanding_max_bytes",
            both(|d| d.outstanding_max.as_f64()),
        );
        let percent = |share: Option<f64>| share.map(|share| 100.0 * share);
        metrics.put_known("overhead_pct", percent(self.overhead_by_rule()));
        metrics.put_known("overhead_true_pct", percent(self.overhead()));
    }

    fn put_connections(&self, metrics: &mut Metrics) {
        let connections = &self.connections;
        let endings = &connections.totals().endings;
        let count = |wanted: fn(&Ending) -> bool| {
            let counts = endings.iter().filter(|(ending, _)| wanted(ending));
            counts.map(|(_, count)| *count).sum::<u64>() as f64
        };
        metrics.put("connections", connections.len() as f64);
        metrics.put("connections_closed", count(|e| *e == Ending::Closed));
        metrics.put(
            "connections_half_closed",
            count(|e| matches!(e, Ending::HalfClosed(_))),
        );
        metrics.put(
            "connections_reset",
            count(|e| matches!(e, Ending::Reset(_))),
        );
        metrics.put(
            "connections_reset_up",
            count(|e| *e == Ending::Reset(Direction::Up)),
        );
        metrics.put(
            "connections_reset_down",
            count(|e| *e == Ending::Reset(Direction::Down)),
        );
        metrics.put("connections_open", count(|e| *e == Ending::Open));
        let packets = self.connection_packets() as f64;
        if !connections.is_empty() {
            let bytes = connections.totals().ip_bytes.as_f64();
            metrics.put("packets_per_connection", packets / connections.len() as f64);
            metrics.put("mean_packet_bytes", bytes / packets);
        }
        metrics.put_known("packets_per_connection_median", self.median_packets());
        metrics.put("trains", self.trains.count as f64);
        metrics.put_known("train_packets_mean", self.trains.mean());
        metrics.put("train_packets_max", self.trains.longest as f64);
        metrics.put("runs", self.runs.count as f64);
        metrics.put_known("run_packets_mean", self.runs.mean());
        metrics.put("run_packets_max", self.runs.longest as f64);
    }

    fn put_repetitions(&self, metrics: &mut Metrics) {
        let seen = Direction::BOTH.map(|d| self.direction(d).retransmitted_packets as f64);
        match &self.sent {
            Some(sent) => {
                let total = sent.total();
                metrics.put_sum(
                    "retransmissions",
                    [sent.up.total() as f64, sent.down.total() as f64],
                );
                metrics.put("retransmissions_lost", total.lost_total() as f64);
                metrics.put("retransmissions_spurious", total.spurious as f64);
                let mut drops = BTreeMap::<&str, u64>::new();
                for interface in &self.interfaces {
                    for (cause, count) in &interface.drops {
                        *drops.entry(cause).or_default() += count;
                    }
                }
                metrics.put("drops", drops.values().sum::<u64>() as f64);
                for (cause, count) in drops {
                    metrics.put(format!("drops_{}", cause.replace('-', "_")), count as f64);
                }
            }
            None => metrics.put_sum("retransmissions", seen),
        }
        metrics.put("retransmissions_seen", seen.iter().sum());
        let sum = |figure: fn(&super::DirectionSummary) -> u64| {
            (figure(&self.up) + figure(&self.down)) as f64
        };
        metrics.put("retransmitted_bytes", sum(|d| d.retransmitted_bytes.0));
        metrics.put("out_of_order", sum(|d| d.out_of_order_packets));
        metrics.put("duplicate_acks", sum(|d| d.duplicate_acks));
        metrics.put("keep_alives", sum(|d| d.keep_alives));
        metrics.put("zero_windows", sum(|d| d.zero_windows));
        metrics.put("zero_window_probes", sum(|d| d.zero_window_probes));
    }

    fn put_times(&self, metrics: &mut Metrics) {
        if let Some(rtt) = self.direction(self.rtt_direction()).rtt {
            metrics.put("rtt_samples", rtt.samples as f64);
            metrics.put("rtt_min_ms", rtt.min_ns as f64 / 1e6);
            metrics.put("rtt_mean_ms", rtt.mean_ns / 1e6);
            metrics.put("rtt_median_ms", rtt.median_ns / 1e6);
            metrics.put("rtt_max_ms", rtt.max_ns as f64 / 1e6);
        }
        metrics.put_known(
            "idle_max_ms",
            self.idle_max_ns().map(|gap| gap as f64 / 1e6),
        );
        let gaps = self.idle_gaps.len() as u64 + self.idle_gaps_unlisted;
        metrics.put("idle_gaps", gaps as f64);
        if let (Some(first), Some(last)) = (self.first, self.last) {
            metrics.put("duration_s", last.since(first).as_secs_f64());
        }
    }

    /// Returns the median number of packets of a connection; `None` if there are no connections.
    pub fn median_packets(&self) -> Option<f64> {
        let mut packets = self.connections.totals().packets.clone();
        packets.sort_unstable();
        let last = packets.len().checked_sub(1)?;
        Some((packets[last / 2] + packets[packets.len() / 2]) as f64 / 2.0)
    }
}

struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    fn put(&mut self, name: impl Into<String>, value: f64) {
        self.0.insert(name.into(), value);
    }

    fn put_known(&mut self, name: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    fn put_directions(&mut self, name: &str, [up, down]: [f64; 2]) {
        self.put(format!("{name}_up"), up);
        self.put(format!("{name}_down"), down);
    }

    fn put_sum(&mut self, name: &str, values: [f64; 2]) {
        self.put(name, values[0] + values[1]);
        self.put_directions(name, values);
    }
}
