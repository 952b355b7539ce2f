//! Extracts the metrics of a replicate from a trial, by name.
//!
//! A figure that neither the kernel nor the trial reports is absent, never zero. Rates cover the measured window.
//! States, such as memory, are values at the end of the window, unless their names say that they are means.
//!
//! With two loads at a time, the clients' figures belong to the cell's own load. The names of the second load's figures
//! start with `beside_`. Figures of the host and the path, including figures per exchange, cover both loads. Memory
//! figures belong to the first server.

mod disk;

use std::collections::BTreeMap;
use std::time::Duration;

use fathometer_analysis::load::{Datagrams, Distribution, LoadResult, Window};
use fathometer_model::Validity;
use fathometer_packets::Class;
use fathometer_sys::cgroup::Usage;
use fathometer_sys::probe::{Network, ProcessTree, Sample, Step};

use super::levels::Levels;
use super::{memory, others};
use crate::spec::Load;
use fathometer_lab::trial::Measured;
use fathometer_lab::wire::PacketCounts;

/// The size of a memory page in bytes. The paper counts paging in pages.
const PAGE: f64 = 4096.0;

/// The maximum ratio of the time between the probes' readings to the measured window. With a larger ratio, the probes'
/// rates would describe a different period.
const MOST_OF_WINDOW: f64 = 1.25;

/// The sizes of a congestion window, in segments, for which the share of connections up to this size is reported.
const WINDOW_STEPS: [u32; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Metrics by name.
#[derive(Default)]
struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    fn put(&mut self, name: &str, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into().filter(|value| value.is_finite()) {
            self.0.insert(name.to_owned(), value);
        }
    }
}

/// Extracts all metrics of a trial. Adds problems to the validity of the trial.
pub(super) fn of(measured: &mut Measured, levels: &Levels<'_>) -> BTreeMap<String, f64> {
    let mut metrics = Metrics::default();
    if let Some((factor, count)) = levels.users {
        metrics.put(factor, f64::from(count));
    }
    clients(&mut metrics, &measured.result);
    connections_of_clients(&mut metrics, &measured.result);
    heads_and_handshakes(&mut metrics, &measured.result.measured);
    datagrams(&mut metrics, &measured.result.measured.datagrams);
    if !levels.is_quic {
        metrics.put("connect_min_ms", quickest_connection(&measured.result));
    }
    if let Some(beside) = &measured.beside {
        others(&mut metrics, beside);
    }
    if let Some(packets) = &measured.packets {
        on_the_wire(&mut metrics, packets, completed(measured));
    }
    match measured.samples.between(measured.from, measured.to) {
        Some(step) => {
            let window = measured.to.since(measured.from);
            if step.length() > window.mul_f64(MOST_OF_WINDOW) {
                measured.validity.invalidate(format!(
                    "the probes were late: they cover {:.1?} for a measured window of {window:.1?} \
                     (limit {MOST_OF_WINDOW} times)",
                    step.length()
                ));
            }
            let pace = Pace::of(measured);
            processor(&mut metrics, &step, levels.quota(), &pace);
            metrics.0.extend(levels.quota_times(&measured.limits));
            memory_of_host(&mut metrics, &step);
            disk::put(&mut metrics, &step, &levels.limits, &pace);
            if levels.limits.memory.is_some()
                && let Some(reason) = memory::taken_by_others(&measured.samples, &step)
            {
                measured.validity.invalidate(reason);
            }
            let others = others::busy_pct(&step);
            metrics.put("others_busy_pct", others);
            if let Some((busy, limit)) = others.zip(levels.others_limit)
                && let Some(reason) = others::reason(busy, limit)
            {
                measured.validity.invalidate(reason);
            }
            network(&mut metrics, &step);
            over_time(&mut metrics, measured);
            if !levels.is_quic && measured.beside.is_none() {
                // Socket tables cover only TCP, and do not show the load to which a connection belongs.
                connections_over_time(&mut metrics, measured, &step);
            }
        }
        None => measured
            .validity
            .invalidate("the probes do not cover the measured window"),
    }
    metrics.0
}

/// The rates of completed work.
struct Pace {
    exchanges_per_s: f64,
    /// Bytes of payload per second, in both directions together.
    payload_per_s: Option<f64>,
}

impl Pace {
    fn of(measured: &Measured) -> Pace {
        let seconds = measured.result.measured.duration.as_secs_f64();
        let packets = measured.packets.as_ref();
        Pace {
            exchanges_per_s: completed(measured) as f64 / seconds,
            payload_per_s: packets.map(|packets| packets.total().payload.as_f64() / seconds),
        }
    }
}

/// Returns the number of exchanges of all loads that were completed in the measured window.
fn completed(measured: &Measured) -> u64 {
    let results = [Some(&measured.result), measured.beside.as_ref()];
    let windows = results.into_iter().flatten().map(|result| &result.measured);
    windows.map(|window| window.ended.completed).sum()
}

/// Returns the shortest time to establish a TCP connection, including the warm-up, in milliseconds. This time is close
/// to the round-trip time.
fn quickest_connection(result: &LoadResult) -> Option<f64> {
    let windows = [Some(&result.measured), result.warm_up.as_ref()];
    let shortest = windows
        .into_iter()
        .flatten()
        .filter_map(|window| window.latency.connect.min())
        .min()?;
    Some(shortest.as_secs_f64() * 1e3)
}

/// Adds the client-side figures of the second load.
fn others(metrics: &mut Metrics, result: &LoadResult) {
    let mut own = Metrics(of_clients(result));
    heads_and_handshakes(&mut own, &result.measured);
    for name in [
        "exchanges_per_s",
        "response_mean_ms",
        "response_p98_ms",
        "page_mean_ms",
        "error_pct",
        "generator_busy_pct",
    ] {
        metrics.put(&format!("beside_{name}"), own.0.get(name).copied());
    }
}

/// Returns the client-side figures of a load test.
pub(super) fn of_clients(result: &LoadResult) -> BTreeMap<String, f64> {
    let mut metrics = Metrics::default();
    clients(&mut metrics, result);
    metrics.0
}

/// Adds the client-side figures. Rates count exchanges that ended in the measured window. Response times (`response_`)
/// cover completed exchanges and include connecting, as in WebStone. Latencies (`latency_`) cover all exchanges: a
/// failed exchange counts with its time until the failure.
fn clients(metrics: &mut Metrics, result: &LoadResult) {
    let window = &result.measured;
    let seconds = window.duration.as_secs_f64();
    let ended = &window.ended;
    let attempts = ended.completed + ended.failed;
    let errors = ended.failed + ended.status_errors;
    metrics.put(
        "throughput_kB_per_s",
        ended.received.as_f64() / 1e3 / seconds,
    );
    metrics.put("connections_per_s", ended.connected as f64 / seconds);
    metrics.put("exchanges_per_s", ended.completed as f64 / seconds);
    metrics.put("errors_per_s", errors as f64 / seconds);
    metrics.put("error_pct", 100.0 * errors as f64 / attempts as f64);
    let latency = &window.latency;
    let successes = latency.corrected.count() - latency.failed.count();
    let spent = latency.corrected.sum().saturating_sub(latency.failed.sum());
    metrics.put(
        "response_mean_ms",
        spent.as_secs_f64() * 1e3 / successes as f64,
    );
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    for (name, quantile) in [
        ("response_p50_ms", 0.5),
        ("response_p98_ms", 0.98),
        ("response_p99_ms", 0.99),
    ] {
        let time = quantile_without(&latency.corrected, &latency.failed, quantile);
        metrics.put(name, time.map(milliseconds));
    }
    metrics.put(
        "latency_mean_ms",
        latency.corrected.mean().map(milliseconds),
    );
    for (name, quantile) in [
        ("latency_p50_ms", 0.5),
        ("latency_p98_ms", 0.98),
        ("latency_p99_ms", 0.99),
    ] {
        metrics.put(name, latency.corrected.quantile(quantile).map(milliseconds));
    }
    metrics.put(
        "littles_load_factor",
        latency.corrected.sum().as_secs_f64() / seconds,
    );
    let workers = &result.generator.workers;
    let busiest = workers.iter().map(|worker| worker.busy).fold(0.0, f64::max);
    metrics.put("generator_busy_pct", 100.0 * busiest);
    let lag = latency.send_lag.quantile(0.99);
    metrics.put(
        "generator_send_lag_p99_us",
        lag.map(|lag| lag.as_secs_f64() * 1e6),
    );
}

/// Returns a quantile, to three digits, of the times in `all` without the times in `part`; `None` if no time remains.
fn quantile_without(all: &Distribution, part: &Distribution, quantile: f64) -> Option<Duration> {
    if part.is_empty() {
        return all.quantile(quantile);
    }
    // Both distributions have the same buckets.
    let excluded: BTreeMap<u64, u64> = part.recorded().collect();
    let rest = all.recorded().map(|(nanos, count)| {
        let excluded = excluded.get(&nanos).copied().unwrap_or(0);
        (nanos, count.saturating_sub(excluded))
    });
    let rest: Vec<(u64, u64)> = rest.filter(|(_, count)| *count > 0).collect();
    let total: u64 = rest.iter().map(|(_, count)| count).sum();
    let rank = ((quantile * total as f64).ceil() as u64).clamp(1, total.max(1));
    let mut so_far = 0;
    rest.into_iter()
        .find(|(_, count)| {
            so_far += count;
            so_far >= rank
        })
        .map(|(nanos, _)| Duration::from_nanos(nanos))
}

/// Adds client-side figures of connections.
fn connections_of_clients(metrics: &mut Metrics, result: &LoadResult) {
    let window = &result.measured;
    let connections = &window.connections;
    metrics.put(
        "connections_per_page",
        window.counts.page_connections as f64 / window.counts.pages as f64,
    );
    metrics.put(
        "connection_life_mean_s",
        connections.life.sum().as_secs_f64() / connections.life.count() as f64,
    );
    metrics.put(
        "connection_idle_pct",
        connections.idle_share().map(|share| 100.0 * share),
    );
}

/// Adds figures of pages, of TLS handshakes, and of the header sections per exchange: their size on the wire and before
/// compression. HTTP/1 does not compress header sections, so its two sizes are equal.
fn heads_and_handshakes(metrics: &mut Metrics, window: &Window) {
    let (bytes, counts) = (&window.bytes, &window.counts);
    let exchanges = counts.completed as f64;
    for (name, requests, responses) in [
        ("head", bytes.request_heads, bytes.response_heads),
        ("field", bytes.request_fields, bytes.response_fields),
    ] {
        let [requests, responses] = [requests, responses].map(|bytes| bytes.as_f64() / exchanges);
        metrics.put(&format!("request_{name}_bytes_per_exchange"), requests);
        metrics.put(&format!("response_{name}_bytes_per_exchange"), responses);
        metrics.put(&format!("{name}_bytes_per_exchange"), requests + responses);
    }
    let seconds = window.duration.as_secs_f64();
    metrics.put("pages_per_s", counts.pages as f64 / seconds);
    let mean_ms = |times: &Distribution| times.sum().as_secs_f64() * 1e3 / times.count() as f64;
    metrics.put("page_mean_ms", mean_ms(&window.latency.page));
    let handshakes = &window.handshakes;
    let number = handshakes.count() as f64;
    if number > 0.0 {
        metrics.put("handshakes_per_s", number / seconds);
        metrics.put("handshake_mean_ms", mean_ms(&window.latency.tls));
        let bytes = handshakes.sent + handshakes.received;
        metrics.put("handshake_bytes", bytes.as_f64() / number);
    }
}

/// Adds the clients' UDP datagrams, and the system calls that sent and received them. They are absent without QUIC.
fn datagrams(metrics: &mut Metrics, datagrams: &Datagrams) {
    if datagrams.is_empty() {
        return;
    }
    for (name, count) in [
        ("sent", datagrams.sent),
        ("send_calls", datagrams.send_calls),
        ("received", datagrams.received),
        ("receive_buffers", datagrams.receive_buffers),
    ] {
        metrics.put(&format!("client_udp_{name}"), count as f64);
    }
}

/// Adds the packets of the measured window in both directions.
fn on_the_wire(metrics: &mut Metrics, packets: &PacketCounts, exchanges: u64) {
    let count = |class: Class| packets.of(class).packets as f64;
    let total = packets.total();
    let data = packets.with_payload();
    let exchanges = exchanges as f64;
    metrics.put("packets_total", total.packets as f64);
    metrics.put("packets_data", data.packets as f64);
    metrics.put("packets_syn", count(Class::Syn));
    metrics.put("packets_syn_ack", count(Class::SynAck));
    metrics.put("packets_ack", count(Class::PureAck));
    metrics.put("packets_fin", count(Class::BareFin));
    metrics.put("packets_rst", count(Class::Rst));
    metrics.put("packets_per_exchange", total.packets as f64 / exchanges);
    metrics.put("data_packets_per_exchange", data.packets as f64 / exchanges);
    metrics.put("wire_bytes_per_exchange", total.bytes.as_f64() / exchanges);
    metrics.put(
        "packets_per_MB",
        total.packets as f64 * 1e6 / total.payload.as_f64(),
    );
    metrics.put(
        "data_bytes_per_data_packet",
        data.payload.as_f64() / data.packets as f64,
    );
    metrics.put("wire_MB", total.bytes.as_f64() / 1e6);
    metrics.put("data_MB", total.payload.as_f64() / 1e6);
}

/// Adds the CPU time of the server's host in percent of its quota, and its breakdown.
fn processor(metrics: &mut Metrics, step: &Step, quota: f64, pace: &Pace) {
    let percent = |time: Duration| step.share(time).map(|share| 100.0 * share / quota);
    let host = group(&step.change).and_then(|group| group.cpu.as_ref());
    let total = host.and_then(|cpu| percent(cpu.total));
    metrics.put("cpu_total_pct", total);
    // The scheduler enforces a quota only with the granularity of a time slice, so the total may exceed 100 %.
    metrics.put("cpu_idle_pct", total.map(|total| (100.0 - total).max(0.0)));
    let used = host.and_then(|cpu| step.share(cpu.total));
    metrics.put(
        "cpu_us_per_exchange",
        used.map(|used| used * 1e6 / pace.exchanges_per_s),
    );
    metrics.put(
        "cpu_ms_per_MB",
        used.zip(pace.payload_per_s)
            .map(|(used, payload)| used * 1e3 / (payload / 1e6)),
    );
    let servers: Option<Vec<&ProcessTree>> = step.change.trees.iter().map(Option::as_ref).collect();
    let Some(servers) = servers.filter(|servers| !servers.is_empty()) else {
        return;
    };
    let sum = |part: fn(&ProcessTree) -> Duration| -> Duration {
        servers.iter().map(|server| part(server)).sum()
    };
    let (all, user, system) = (
        sum(|server| server.cpu),
        sum(|server| server.user),
        sum(|server| server.system),
    );
    metrics.put("cpu_server_process_pct", percent(all));
    // The system counts user and system time in ticks of 10 ms, so only their ratio is used. Their sum is exact.
    let ticks = (user + system).as_secs_f64();
    let part = |time: Duration| Some(percent(all)? * time.as_secs_f64() / ticks);
    metrics.put("cpu_server_user_pct", part(user));
    metrics.put("cpu_server_system_pct", part(system));
    // The CPU time of the host in excess of its processes' CPU time was spent on receiving packets.
    let receiving = host.map(|cpu| cpu.total.saturating_sub(all));
    metrics.put("cpu_interrupt_pct", receiving.and_then(percent));
    let switches: Option<u64> = servers
        .iter()
        .map(|server| Some(server.voluntary_switches? + server.involuntary_switches?))
        .sum();
    metrics.put(
        "context_switches_per_s",
        switches.and_then(|switches| step.per_second(switches)),
    );
}

fn memory_of_host(metrics: &mut Metrics, step: &Step) {
    let tree = step.change.trees.first().and_then(Option::as_ref);
    let group = group(&step.change);
    if let Some(tree) = tree {
        metrics.put("memory_rss_kB", tree.resident.as_f64() / 1e3);
        metrics.put(
            "memory_pss_kB",
            tree.proportional.map(|bytes| bytes.as_f64() / 1e3),
        );
        metrics.put("major_faults_per_s", step.per_second(tree.major_faults));
    }
    if let Some(group) = group {
        let memory = &group.memory;
        metrics.put(
            "page_cache_kB",
            memory.page_cache.map(|bytes| bytes.as_f64() / 1e3),
        );
        let rate = |count: Option<u64>| count.and_then(|count| step.per_second(count));
        metrics.put("memory_limit_hits_per_s", rate(memory.limit_hits));
        metrics.put("refaults_per_s", rate(memory.refaults));
        let pressure = &group.pressure;
        for (name, time) in [
            ("psi_cpu_pct", pressure.cpu_some),
            ("psi_memory_pct", pressure.memory_some),
            ("psi_io_pct", pressure.io_some),
        ] {
            metrics.put(
                name,
                time.and_then(|time| step.share(time))
                    .map(|share| 100.0 * share),
            );
        }
    }
}

fn network(metrics: &mut Metrics, step: &Step) {
    let Some(network) = host_network(&step.change) else {
        return;
    };
    let tcp = &network.tcp;
    let rate = |count: Option<u64>| count.and_then(|count| step.per_second(count));
    metrics.put("listen_overflows_per_s", rate(tcp.listen_overflows));
    metrics.put("segments_in_per_s", rate(tcp.segments_in));
    metrics.put("segments_out_per_s", rate(tcp.segments_out));
    // The device delivers packets one by one, so each packet causes an interrupt.
    metrics.put("interrupts_per_s", rate(tcp.segments_in));
    let packets = tcp.segments_in.zip(tcp.segments_out);
    metrics.put("packets_per_s", rate(packets.map(|(in_, out)| in_ + out)));
    let sent_again = tcp.retransmitted.zip(tcp.segments_out);
    metrics.put(
        "retransmitted_pct",
        sent_again.map(|(again, sent)| 100.0 * again as f64 / (again + sent) as f64),
    );
    if let Some(windows) = &network.windows {
        metrics.put("cwnd_mean", windows.mean());
        metrics.put("cwnd_max", windows.greatest().map(f64::from));
        metrics.put("cwnd_p50", windows.quantile(0.5).map(f64::from));
        for most in WINDOW_STEPS {
            metrics.put(
                &format!("cwnd_le_{most}_pct"),
                windows.share_at_most(most).map(|share| 100.0 * share),
            );
        }
    }
}

/// Adds means and integrals of sampled values.
fn over_time(metrics: &mut Metrics, measured: &Measured) {
    let (from, to) = (measured.from, measured.to);
    let mean = |figure: fn(&Sample) -> Option<f64>| measured.samples.mean_of(from, to, figure);
    metrics.put(
        "memory_anonymous_kB",
        mean(|sample| Some(group(sample)?.memory.anonymous?.as_f64() / 1e3)),
    );
    metrics.put(
        "memory_unbacked_kB",
        mean(|sample| Some(group(sample)?.memory.unbacked?.as_f64() / 1e3)),
    );
    metrics.put(
        "memory_host_kB",
        mean(|sample| Some(group(sample)?.memory.current?.as_f64() / 1e3)),
    );
    metrics.put(
        "socket_memory_kB",
        mean(|sample| {
            let table = host_network(sample)?.table.as_ref()?;
            Some((table.receive_memory + table.send_memory).as_f64() / 1e3)
        }),
    );
    metrics.put(
        "connections_time_wait_mean",
        mean(|sample| Some(host_network(sample)?.table.as_ref()?.time_wait as f64)),
    );
    metrics.put(
        "connections_opening_mean",
        mean(|sample| Some(host_network(sample)?.table.as_ref()?.syn_received as f64)),
    );
    metrics.put(
        "connections_closing_mean",
        mean(|sample| {
            let table = host_network(sample)?.table.as_ref()?;
            let ours = table.fin_wait_1 + table.fin_wait_2;
            let theirs = table.close_wait + table.last_ack;
            Some((ours + theirs + table.closing) as f64)
        }),
    );
}

/// Adds the number and the duration of connections, for a single load over TCP.
fn connections_over_time(metrics: &mut Metrics, measured: &Measured, step: &Step) {
    let (from, to) = (measured.from, measured.to);
    let established = measured.samples.mean_of(from, to, established);
    metrics.put("connections_established_mean", established);
    metrics.put(
        "connection_seconds",
        established.map(|mean| mean * to.since(from).as_secs_f64()),
    );
    let opened = host_network(&step.change).and_then(|network| network.tcp.passive_opens);
    let rate = opened
        .and_then(|opened| step.per_second(opened))
        .filter(|rate| *rate > 0.0);
    let duration = established.zip(rate).map(|(mean, rate)| mean / rate);
    metrics.put("connection_duration_mean_s", duration);
    // Little's Law is a valid check only if its figures are independent. The number and the arrival rate of connections
    // come from the server's kernel, and their duration from the clients.
    let life = metrics.0.get("connection_life_mean_s").copied();
    metrics.put(
        "littles_law_ratio",
        duration.zip(life).map(|(duration, life)| duration / life),
    );
}

fn established(sample: &Sample) -> Option<f64> {
    Some(host_network(sample)?.table.as_ref()?.established as f64)
}

fn group(sample: &Sample) -> Option<&Usage> {
    sample.groups.first()?.as_ref()
}

fn host_network(sample: &Sample) -> Option<&Network> {
    sample.networks.first()?.as_ref()
}

/// Invalidates the trial if the generator was the bottleneck.
pub(super) fn judge(result: &LoadResult, load: &Load, validity: &mut Validity) {
    for (n, worker) in result.generator.workers.iter().enumerate() {
        let busy = 100.0 * worker.busy;
        if busy > load.generator_busy_pct.value() {
            validity.invalidate(format!(
                "the generator's thread {n} was busy for {busy:.0} % of the time (limit {} %)",
                load.generator_busy_pct.value()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_completed_exchanges_leave_the_failed_ones_out() {
        let milliseconds = |times: &[u64]| {
            let mut distribution = Distribution::new();
            for time in times {
                distribution.record(Duration::from_millis(*time));
            }
            distribution
        };
        let all = milliseconds(&[10, 20, 30, 5000, 5000, 5000, 5000]);
        let failed = milliseconds(&[5000, 5000, 5000, 5000]);
        let near = |found: Option<Duration>, expected: u64| {
            let found = found.unwrap().as_secs_f64() * 1e3;
            assert!((found / expected as f64 - 1.0).abs() < 2e-3, "{found}");
        };
        near(quantile_without(&all, &failed, 0.5), 20);
        near(quantile_without(&all, &failed, 0.98), 30);
        near(all.quantile(0.5), 5000);
        let none = Distribution::new();
        assert_eq!(quantile_without(&all, &none, 0.98), all.quantile(0.98));
        assert_eq!(quantile_without(&failed, &failed, 0.5), None);
    }
}
