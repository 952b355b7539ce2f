//! The measurements of clients and probes, as input for the bottleneck search.

use std::time::Duration;

use fathometer_model::{Bytes, Failure};

use super::server::{GroupProbes, ServerProbes};
use super::{LoadResult, LoopKind};
use crate::bottleneck::{Signals, Suspicion, suspect};

/// The suspected resources of a result with probes, the strongest suspicion first; empty without probes.
pub(super) fn suspicions(result: &LoadResult) -> Vec<Suspicion> {
    match &result.server {
        Some(server) => suspect(&signals(result, server)),
        None => Vec::new(),
    }
}

/// The measurements of probes and clients; `None` without probes.
pub fn signals_of(result: &LoadResult) -> Option<Signals> {
    let server = result.server.as_ref()?;
    Some(signals(result, server))
}

fn signals(result: &LoadResult, server: &ServerProbes) -> Signals {
    let machine = &server.machine;
    let watched = server.watched_s;
    let per_second = |count: Option<u64>| Some(count? as f64 / watched).filter(|r| r.is_finite());
    let network = server.networks.first();
    let cpu: f64 = server.programs.iter().map(|program| program.cpu_s).sum();
    let each = cpu / watched * seconds_an_exchange(result);
    let busiest = server
        .programs
        .iter()
        .filter_map(|p| p.busiest_thread_share);
    let retransmitted = network.and_then(|network| {
        let again = network.retransmitted? as f64;
        Some(again / (again + network.segments_out? as f64)).filter(|share| share.is_finite())
    });
    let signals = Signals {
        cpu_quota_cores: machine.processors.map(|number| number as f64),
        cpu_of_quota: machine.busy_share(),
        busiest_thread: busiest.reduce(f64::max),
        machine_idle: machine.idle_share,
        cpu_per_exchange: Duration::try_from_secs_f64(each)
            .ok()
            .filter(|_| !server.programs.is_empty()),
        cpu_pressure: machine.cpu_pressure_share,
        refaults_per_s: per_second(machine.refaults),
        page_in_bytes_per_s: per_second(machine.paged_in_bytes),
        major_faults_per_s: per_second(machine.major_faults),
        memory_pressure: machine.memory_pressure_share,
        disk_read_bytes_per_s: per_second(machine.disk_read_bytes),
        disk_reads_per_s: per_second(machine.disk_reads),
        disk_busy: machine.disk_busy_share,
        io_pressure: machine.io_pressure_share,
        retransmitted,
        listen_overflows_per_s: network.and_then(|network| per_second(network.listen_overflows)),
        accept_queue: network.and_then(|network| network.to_be_accepted),
        // If the generator is in the same namespace, both ends of each connection count.
        established: network.and_then(|network| {
            let ends = if network.has_generator { 2.0 } else { 1.0 };
            Some(network.states.get("established")? / ends)
        }),
        ..signals_of_clients(result)
    };
    match server.groups.first() {
        Some(group) => limited(signals, group, server, cpu),
        None => signals,
    }
}

/// The signals of a server whose control group has limits. Values of the group replace values of the machine.
fn limited(signals: Signals, group: &GroupProbes, server: &ServerProbes, cpu: f64) -> Signals {
    let cores = group.cpu_quota_cores.or(signals.cpu_quota_cores);
    let used = group.cpu_s.unwrap_or(cpu) / server.watched_s;
    let memory_of_limit = group.memory_bytes.zip(group.memory_limit_bytes);
    let refaults = group.refaults.map(|count| count as f64 / server.watched_s);
    Signals {
        cpu_quota_cores: cores,
        cpu_of_quota: cores
            .map(|cores| used / cores)
            .filter(|share| share.is_finite()),
        throttled_periods: group.throttled_share,
        cpu_pressure: group.cpu_pressure_share.or(signals.cpu_pressure),
        memory_limit: group.memory_limit_bytes.map(Bytes),
        memory_of_limit: memory_of_limit.map(|(used, limit)| used as f64 / limit as f64),
        refaults_per_s: refaults.or(signals.refaults_per_s),
        ..signals
    }
}

/// The measurements of the clients, and the state of the generator, without probes.
pub fn signals_of_clients(result: &LoadResult) -> Signals {
    let window = &result.measured;
    let (counts, latency) = (&window.counts, &window.latency);
    let seconds = window.duration.as_secs_f64();
    let per_second = |number: f64| Some(number / seconds).filter(|rate| rate.is_finite());
    let exchanges = latency.corrected.count();
    let each = |sum: Duration| (exchanges > 0).then(|| sum.div_f64(exchanges as f64));
    let attempts = counts.completed + counts.failed();
    let failures = |kinds: &[Failure]| {
        let number: u64 = kinds
            .iter()
            .filter_map(|kind| counts.failures.get(kind))
            .sum();
        (attempts > 0).then(|| number as f64 / attempts as f64)
    };
    let workers = result.generator.workers.iter();
    Signals {
        // No response arrives in less than one round trip, so the shortest wait is an upper bound on the round-trip
        // time.
        round_trip: [latency.connect.min(), latency.first_byte.min()]
            .into_iter()
            .flatten()
            .min(),
        refused: failures(&[Failure::Refused, Failure::Reset]),
        timed_out: failures(&[Failure::TimedOut]),
        queue: each(latency.queue.sum().saturating_sub(latency.connect.sum())),
        connect: each(latency.connect.sum()),
        first_byte: latency.first_byte.mean(),
        transfer: latency.transfer.mean(),
        send_lag_p99: latency.send_lag.quantile(0.99),
        generator_busy: workers.map(|worker| worker.busy).reduce(f64::max),
        concurrency: per_second(latency.corrected.sum().as_secs_f64()),
        users: match result.setup.kind {
            LoopKind::Closed { users } => Some(f64::from(users)),
            LoopKind::Open { .. } => None,
        },
        offered_per_s: match result.setup.kind {
            LoopKind::Closed { .. } => None,
            LoopKind::Open { .. } => per_second(counts.planned as f64),
        },
        achieved_per_s: per_second(window.ended.completed as f64),
        ..Signals::default()
    }
}

/// The length of the measured window divided by the number of exchanges that ended in it; not finite if none ended.
pub(super) fn seconds_an_exchange(result: &LoadResult) -> f64 {
    let ended = &result.measured.ended;
    result.measured.duration.as_secs_f64() / (ended.completed + ended.failed) as f64
}
