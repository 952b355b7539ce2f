//! Probes: what an experiment costs the machine, read from the kernel while it runs.
//!
//! | reading | source | of whom | typical cost |
//! |---|---|---|---|
//! | [`System`] | `/proc/stat`, `softirqs`, `vmstat`, `meminfo`, `diskstats`, `pressure`, `loadavg`, `net/softnet_stat` | the machine | 0.2 ms |
//! | [`ProcessTree`] | `/proc/PID/{stat,io,fd,task}`, the process clock | a program and all it started | 30 µs a process, and 40 µs a thread with its switches |
//! | memory by share | `/proc/PID/smaps_rollup` | the same | 100 µs a process and more |
//! | [`Network`] | `/proc/net/{snmp,netstat,sockstat}` | a namespace | 30 µs |
//! | [`SocketTable`] | sock_diag | a namespace | 1 ms and more |
//! | [`Connection`], [`Windows`] | sock_diag | a namespace | 0.5 ms, and 2 µs a connection |
//! | [`Usage`](crate::cgroup::Usage) | control groups, their pressure | a host | 100 µs |
//!
//! Counters are read as the kernel keeps them, since boot or since their object was created. The method
//! `since` of a reading returns the difference of two. A figure that the kernel does not offer is `None`,
//! never zero. A [`Sampler`] takes readings at a steady period on its own thread and measures their cost,
//! which is bounded.
//!
//! This module draws no conclusions: analysis of the recorded readings decides what limits a cell.

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

/// The ticks of `/proc`: a hundredth of a second (`USER_HZ`) on every architecture that Rust's standard
/// library supports, whatever the kernel's own tick.
fn ticks(count: u64) -> Duration {
    Duration::from_millis(count * 10)
}

/// Bytes per page of memory.
fn page_size() -> u64 {
    // SAFETY: reads a constant of the system.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as u64
}
