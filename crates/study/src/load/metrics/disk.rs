//! The disk traffic of the server's host, and the time of a read.
//!
//! The numbers of operations and bytes come from the host's control group. A control group of version 1 counts them
//! only if [`Limits::counts_disk`](fathometer_sys::cgroup::Limits::counts_disk) is set. Otherwise, the number of bytes
//! comes from the server's processes (`/proc/PID/io`), and the number of operations is unknown. Older runs have
//! operations only in cells with a disk limit.

use std::time::Duration;

use fathometer_model::Bytes;
use fathometer_sys::cgroup::{BlockDevice, DiskLimit, Limits};
use fathometer_sys::probe::Step;

use super::{Metrics, PAGE, Pace, group};

/// Adds the disk metrics of the window `step`. `limits` are the limits of the host; `limits.counts_disk` is the disk of
/// the site.
pub(super) fn put(metrics: &mut Metrics, step: &Step, limits: &Limits, pace: &Pace) {
    let tree = step.change.trees.first().and_then(Option::as_ref);
    let disk = group(&step.change).and_then(|group| group.disk.as_ref());
    let rate = |bytes: Bytes| step.per_second(bytes.0);
    let counted = disk.and_then(|disk| rate(disk.read));
    let by_processes = tree.and_then(|tree| tree.read).and_then(rate);
    let operations = disk.and_then(|disk| step.per_second(disk.reads));
    let each = |per_second: f64| per_second / pace.exchanges_per_s;
    metrics.put("disk_reads_per_s", operations);
    metrics.put("disk_reads_per_exchange", operations.map(each));
    metrics.put("disk_busy_pct", busy_pct(operations, limits.disk.as_ref()));
    metrics.put("disk_read_kB_per_s", by_processes.map(|rate| rate / 1e3));
    metrics.put(
        "disk_read_kB_per_exchange",
        counted.or(by_processes).map(|rate| each(rate) / 1e3),
    );
    let time = read_time(step, limits.counts_disk);
    metrics.put("disk_read_ms", time.map(|time| 1e3 * time.as_secs_f64()));
    metrics.put(
        "page_ins_per_s",
        counted.or(by_processes).map(|rate| rate / PAGE),
    );
    let written = disk
        .map(|disk| disk.written)
        .or(tree.and_then(|tree| tree.written));
    metrics.put(
        "page_outs_per_s",
        written.and_then(rate).map(|rate| rate / PAGE),
    );
}

/// Returns the utilisation of the emulated disk in percent, by the utilisation law: reads per second, times the time of
/// a read. The time of a read follows from the host's limit of reads per second. The read time of the machine's real
/// disk is not used, because this disk is faster.
fn busy_pct(operations: Option<f64>, limit: Option<&DiskLimit>) -> Option<f64> {
    let limit = limit?.read_ops_per_s?;
    Some(100.0 * operations? / limit as f64)
}

/// Returns the mean time of a read of this disk, over the reads of all programs of the machine. The time excludes the
/// delay that a limit of the host adds before the read.
fn read_time(step: &Step, device: Option<BlockDevice>) -> Option<Duration> {
    let name = device?.name()?;
    step.change.system.as_ref()?.disks.get(&name)?.read_time()
}
