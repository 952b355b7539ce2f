//! Probes: the resource use of an experiment, read from the kernel while the experiment runs.
//!
//! | reading | source | subject | typical CPU time |
//! |---|---|---|---|
//! | [`System`] | `/proc/stat`, `softirqs`, `vmstat`, `meminfo`, `diskstats`, `pressure`, `loadavg`, `net/softnet_stat` | the machine | 0.2 ms |
//! | [`ProcessTree`] | `/proc/PID/{stat,io,fd,task}`, the process clock | a program and its descendants | 30 µs per process, and 40 µs per thread with context switches |
//! | proportional memory (PSS) | `/proc/PID/smaps_rollup` | a program and its descendants | 100 µs or more per process |
//! | [`Network`] | `/proc/net/{snmp,netstat,sockstat}` | a namespace | 30 µs |
//! | [`SocketTable`] | sock_diag | a namespace | 1 ms or more |
//! | [`Connection`], [`Windows`] | sock_diag | a namespace | 0.5 ms, and 2 µs per connection |
//! | [`Usage`](crate::cgroup::Usage) | control groups, their pressure | a host | 100 µs |
//!
//! Counters have the kernel's values: the counts since boot, or since the counted object was created. The method
//! `since` of a reading returns the difference to an earlier reading. A figure that the kernel does not provide is
//! `None`, never 0. A [`Sampler`] takes readings at a constant period on its own thread. It measures their CPU time,
//! which is bounded.
//!
//! This module draws no conclusions: the analysis of the recorded readings finds the bottleneck of a cell.

mod aside;
mod charging;
mod kernel_file;
mod network;
mod process_tree;
mod sampler;
mod samples;
mod system;
#[cfg(test)]
mod withheld;

use std::time::Duration;

pub use crate::pressure::Pressure;
pub use charging::{Charging, charging};
pub use network::{
    Connection, Network, NetworkProbe, SocketCounts, SocketMemory, SocketTable, TcpCounts,
    TcpState, Windows,
};
pub use process_tree::{Detail, ProcessTree, ThreadTime, cpu_time, descendants};
pub use sampler::{Plan, Sampler};
pub use samples::{Cost, Names, Sample, Samples, Step};
pub use system::{Backlog, Disk, Paging, ProcessorTimes, System, SystemProbe};

/// Converts the ticks of `/proc`: 10 ms (`USER_HZ`) on every architecture that Rust's standard library supports, for any
/// tick of the kernel.
fn ticks(count: u64) -> Duration {
    Duration::from_millis(count * 10)
}

/// Returns the size of a memory page in bytes.
fn page_size() -> u64 {
    // SAFETY: reads a constant of the system.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as u64
}
