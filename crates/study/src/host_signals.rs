//! Extracts the signals of a server's host in a laboratory from the readings of the probes and the packets of the path.
//!
//! The search for a bottleneck and capacity studies use the same signals, so that both apply the same rules to a host.
//! The clients' figures are added elsewhere. Figures that were not measured are absent. Paging is measured for the
//! whole machine and attributed to the host: the generator, the other part of a trial, does not cause paging.

use std::time::Duration;

use fathometer_analysis::bottleneck::Signals;
use fathometer_lab::wire::PacketCounts;
use fathometer_model::Bytes;
use fathometer_path::{Direction, DirectionProfile, Profile};
use fathometer_sys::cgroup::BlockDevice;
use fathometer_sys::probe::{Sample, Samples, Step};

/// The limits of a host, with which its signals are compared. `None` means no limit.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct KnownLimits {
    /// The CPU time that the host may use, in cores. It is the quota or, without a quota, the number of processors.
    pub(crate) cores: f64,
    /// Whether `cores` is a quota. Without a quota, the kernel's throttling counters have no meaning.
    pub(crate) has_quota: bool,
    /// The memory, including the page cache.
    pub(crate) memory: Option<Bytes>,
    /// The disk of the site; `None` if the site is not on a disk.
    pub(crate) disk: Option<BlockDevice>,
    /// The read operations of the disk, per second.
    pub(crate) disk_operations: Option<u64>,
    /// The bytes read from the disk, per second.
    pub(crate) disk_bytes: Option<u64>,
    /// The listen backlog: the maximum number of connections that wait in the kernel for `accept`.
    pub(crate) backlog: Option<u32>,
    /// The maximum number of connections that are served at a time.
    pub(crate) workers: Option<u32>,
}

/// Adds the signals of the probes in the window `step`. `signals` already contains the clients' figures, because the
/// achieved rate is needed for the CPU time per exchange.
pub(crate) fn of_probes(
    signals: &mut Signals,
    limits: &KnownLimits,
    samples: &Samples,
    step: &Step,
) {
    let change = &step.change;
    let group = change.groups.first().and_then(Option::as_ref);
    let tree = change.trees.first().and_then(Option::as_ref);
    let network = change.networks.first().and_then(Option::as_ref);
    let rate = |count: Option<u64>| count.and_then(|count| step.per_second(count));
    signals.cpu_quota_cores = Some(limits.cores);
    signals.machine_idle = change.system.as_ref().and_then(|system| system.spare());
    if let Some(cpu) = group.and_then(|group| group.cpu.as_ref()) {
        let used = step.share(cpu.total);
        signals.cpu_of_quota = used.map(|cores| cores / limits.cores);
        signals.throttled_periods = limits
            .has_quota
            .then_some(cpu.throttled_periods.zip(cpu.periods))
            .flatten()
            .and_then(|(throttled, periods)| share(throttled, periods));
        let each = used.zip(signals.achieved_per_s);
        signals.cpu_per_exchange =
            each.and_then(|(used, rate)| Duration::try_from_secs_f64(used / rate).ok());
    }
    signals.busiest_thread = tree
        .and_then(|tree| tree.busiest[0])
        .and_then(|thread| step.share(thread.cpu));
    if let Some(memory) = group.map(|group| &group.memory) {
        signals.memory_limit = limits.memory;
        signals.memory_of_limit = limits
            .memory
            .zip(memory.current)
            .map(|(limit, current)| current.as_f64() / limit.as_f64());
        signals.refaults_per_s = rate(memory.refaults);
        signals.major_faults_per_s = rate(memory.major_faults);
    }
    if let Some(pressure) = group.map(|group| &group.pressure) {
        let held_up = |time: Option<Duration>| time.and_then(|time| step.share(time));
        signals.cpu_pressure = held_up(pressure.cpu_some);
        signals.memory_pressure = held_up(pressure.memory_some);
        signals.io_pressure = held_up(pressure.io_some);
    }
    if let Some(disk) = group.and_then(|group| group.disk.as_ref()) {
        signals.disk_read_bytes_per_s = rate(Some(disk.read.0));
        signals.disk_reads_per_s = rate(Some(disk.reads));
    }
    signals.disk_bytes_limit_per_s = limits.disk_bytes.map(|limit| limit as f64);
    signals.disk_reads_limit_per_s = limits.disk_operations.map(|limit| limit as f64);
    if let Some(system) = &change.system {
        signals.page_in_bytes_per_s = rate(system.paging.paged_in.map(|bytes| bytes.0));
        let name = limits.disk.and_then(BlockDevice::name);
        signals.disk_busy = name.and_then(|name| step.share(system.disks.get(&name)?.busy));
    }
    if let Some(network) = network {
        let tcp = &network.tcp;
        signals.listen_overflows_per_s = rate(tcp.listen_overflows);
        signals.retransmitted = tcp
            .retransmitted
            .zip(tcp.segments_out)
            .and_then(|(again, sent)| share(again, again + sent));
    }
    of_connections(signals, limits, samples, step);
}

/// Adds the numbers of the host's connections, averaged over the readings of the window.
fn of_connections(signals: &mut Signals, limits: &KnownLimits, samples: &Samples, step: &Step) {
    let inside = |reading: &&Sample| (step.from..=step.to).contains(&reading.at);
    let tables = || {
        let readings = samples.readings.iter().filter(inside);
        readings.filter_map(|reading| reading.networks.first()?.as_ref()?.table.as_ref())
    };
    signals.accept_queue = mean(tables().map(|table| table.to_be_accepted as f64));
    // In the kernel's table, connections that wait for `accept` are also established.
    signals.established =
        mean(tables().map(|table| table.established.saturating_sub(table.to_be_accepted) as f64));
    signals.backlog = limits.backlog.map(f64::from);
    signals.worker_limit = limits.workers.map(f64::from);
}

/// Adds the signals of the path: the round-trip time, and the utilisation of both links, computed from the packets of
/// the window.
pub(crate) fn of_path(
    signals: &mut Signals,
    profile: &Profile,
    packets: Option<&PacketCounts>,
    window: Duration,
) {
    signals.round_trip = Some(profile.round_trip());
    let Some(packets) = packets else {
        return;
    };
    let carried = |direction: Direction| {
        let total = packets.direction(direction).total();
        let profile = profile.direction(direction);
        utilisation(profile, total.packets, total.bytes, window.as_secs_f64())
    };
    signals.link_up = carried(Direction::Up);
    signals.link_down = carried(Direction::Down);
}

/// Returns the share of time in which a link was sending. Returns `None` if the link has no rate, or if its modems
/// compress: the number of bytes on the link is then unknown.
fn utilisation(
    profile: &DirectionProfile,
    packets: u64,
    bytes: Bytes,
    seconds: f64,
) -> Option<f64> {
    if profile.compression.is_some() {
        return None;
    }
    let rate = profile.rate?.as_bits_per_second() as f64;
    let each = u32::try_from(bytes.0.checked_div(packets)?).ok()?;
    // The framing bytes are those of a packet of mean length. This is exact if framing adds a constant, and approximate
    // if framing pads.
    let on_link = profile.framing.on_link(each) * packets;
    Some(on_link as f64 * 8.0 / rate / seconds)
}

/// Returns a part as a share of the whole; `None` if the whole is 0.
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0);
    for value in values {
        sum += value;
        count += 1;
    }
    (count > 0).then(|| sum / f64::from(count))
}
