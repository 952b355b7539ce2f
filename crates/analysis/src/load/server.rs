//! Measurements of probes on the server's machine under load.
//!
//! These types are the JSON output of the probes. Names carry their units (`_s`, `_bytes`, `_share` of 0 to 1). Counts
//! cover the watched time. A value that the kernel does not report is `null`, never zero.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bottleneck::Suspicion;

/// Measurements of probes on the server, its machine and its network.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerProbes {
    /// The watched time: the measured window, and up to one period more at each end. Counts and times below cover
    /// this time.
    pub watched_s: f64,
    /// The programs on the command line, each with all processes that it started.
    pub programs: Vec<ProgramProbes>,
    /// The whole machine, including the generator if it runs on this machine.
    pub machine: MachineProbes,
    /// The network namespaces of the programs.
    pub networks: Vec<NetworkProbes>,
    /// Control groups that limit the programs: systemd services, containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupProbes>,
    /// The cost of the probes.
    pub cost: ProbeCost,
    /// The figures that could not be read, each with the reason.
    pub failures: Vec<String>,
}

/// A program with all processes that it started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramProbes {
    /// Name and process number of the program.
    pub name: String,
    /// Number of processes at the end.
    pub processes: u64,
    /// Number of threads at the end.
    pub threads: u64,
    /// CPU time: of existing processes in nanoseconds, up to the kernel's last tick for running threads; of
    /// exited children to 10 ms.
    pub cpu_s: f64,
    /// CPU time in user mode: `cpu_s`, split in the ratio of tick counts of 10 ms.
    pub cpu_user_s: f64,
    /// CPU time in the kernel.
    pub cpu_system_s: f64,
    /// CPU time of the busiest thread, as a share of one processor.
    pub busiest_thread_share: Option<f64>,
    /// Resident memory at the end (RSS); pages shared by several processes count for each.
    pub resident_bytes: u64,
    /// Resident memory at the end, with shared pages divided among their processes (PSS).
    pub proportional_bytes: Option<u64>,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
    /// Page faults served from memory.
    pub minor_faults: u64,
    /// Context switches because a thread waited (voluntary).
    pub voluntary_switches: Option<u64>,
    /// Context switches because a thread was preempted (involuntary).
    pub involuntary_switches: Option<u64>,
    /// Bytes read from disks.
    pub read_bytes: Option<u64>,
    /// Bytes written to disks.
    pub written_bytes: Option<u64>,
    /// Open descriptors at the end.
    pub descriptors: Option<u64>,
}

/// The whole machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachineProbes {
    /// Number of online processors.
    pub processors: Option<u64>,
    /// Share of the processors' time in user mode.
    pub user_share: Option<f64>,
    /// Share of the processors' time in the kernel on behalf of programs.
    pub system_share: Option<f64>,
    /// Share of the processors' time in interrupt handlers.
    pub irq_share: Option<f64>,
    /// Share of the processors' time in deferred interrupt work (softirq), mostly received packets.
    pub softirq_share: Option<f64>,
    /// Share of the processors' time that was idle.
    pub idle_share: Option<f64>,
    /// Share of the processors' time that was idle while a task waited for a disk.
    pub iowait_share: Option<f64>,
    /// Share of the processors' time that the hypervisor gave to other guests.
    pub steal_share: Option<f64>,
    /// Page cache at the end.
    pub page_cache_bytes: Option<u64>,
    /// Memory that was available to programs at the end.
    pub available_bytes: Option<u64>,
    /// Bytes read from disks into memory.
    pub paged_in_bytes: Option<u64>,
    /// Bytes written from memory to disks.
    pub paged_out_bytes: Option<u64>,
    /// Page faults that waited for a disk.
    pub major_faults: Option<u64>,
    /// File pages that were read again after eviction from memory (refaults).
    pub refaults: Option<u64>,
    /// Read operations of all disks.
    pub disk_reads: Option<u64>,
    /// Bytes that these operations read.
    pub disk_read_bytes: Option<u64>,
    /// Write operations of all disks.
    pub disk_writes: Option<u64>,
    /// Bytes that these operations wrote.
    pub disk_written_bytes: Option<u64>,
    /// Share of the time in which the busiest disk was busy.
    pub disk_busy_share: Option<f64>,
    /// Number of context switches.
    pub context_switches: Option<u64>,
    /// Number of interrupts.
    pub interrupts: Option<u64>,
    /// Share of the time in which a task waited for a processor (PSI, some).
    pub cpu_pressure_share: Option<f64>,
    /// Share of the time in which a task waited for memory (PSI, some).
    pub memory_pressure_share: Option<f64>,
    /// Share of the time in which a task waited for a disk (PSI, some).
    pub io_pressure_share: Option<f64>,
}

/// A network namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkProbes {
    /// The name of the namespace.
    pub name: String,
    /// Whether the generator is in the same namespace. Then both ends of its connections count.
    pub has_generator: bool,
    /// TCP segments received.
    pub segments_in: Option<u64>,
    /// TCP segments sent, without retransmissions.
    pub segments_out: Option<u64>,
    /// TCP segments retransmitted.
    pub retransmitted: Option<u64>,
    /// Connections that found the accept queue full.
    pub listen_overflows: Option<u64>,
    /// Connections that were dropped before they were accepted, for that or another reason.
    pub listen_drops: Option<u64>,
    /// Mean number of TCP connections in each state over the watched time; empty if the kernel does not report
    /// them.
    pub states: std::collections::BTreeMap<String, f64>,
    /// Mean number of connections that waited to be accepted.
    pub to_be_accepted: Option<f64>,
}

/// A control group with a processor quota or a memory limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupProbes {
    /// The path of the control group, as in `/system.slice/nginx.service`.
    pub name: String,
    /// The quota of CPU time, in cores.
    pub cpu_quota_cores: Option<f64>,
    /// CPU time of the group's members.
    pub cpu_s: Option<f64>,
    /// Share of the quota's periods in which the quota was used up.
    pub throttled_share: Option<f64>,
    /// The memory limit.
    pub memory_limit_bytes: Option<u64>,
    /// Memory of the group's members at the end, including page cache.
    pub memory_bytes: Option<u64>,
    /// File pages that were evicted and read again.
    pub refaults: Option<u64>,
    /// Share of the time in which a member waited for a processor (PSI, some).
    pub cpu_pressure_share: Option<f64>,
}

/// The cost of the probes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeCost {
    /// The time between two readings.
    pub period_s: f64,
    /// Number of readings.
    pub readings: u64,
    /// CPU time of the readings, from the first to the last.
    pub cpu_s: f64,
    /// The duration of the longest reading.
    pub longest_s: f64,
    /// The time from the first reading to the last.
    pub from_first_to_last_s: f64,
}

/// A resource that is suspected from the figures. Figures alone are no proof: a full resource may be the
/// consequence of a shortage elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SuspicionSummary {
    /// The name of the resource.
    pub resource: String,
    /// The strength of the suspicion: possibly, likely, strongly.
    pub confidence: String,
    /// The evidence.
    pub evidence: Vec<String>,
    /// The change that would confirm the suspicion.
    pub confirm: String,
}

impl From<Suspicion> for SuspicionSummary {
    fn from(suspicion: Suspicion) -> SuspicionSummary {
        SuspicionSummary {
            resource: suspicion.resource.name().to_owned(),
            confidence: suspicion.confidence.words().to_owned(),
            evidence: suspicion.evidence,
            confirm: suspicion.confirm,
        }
    }
}

impl MachineProbes {
    /// The share of this machine's processor time that was not idle.
    pub fn busy_share(&self) -> Option<f64> {
        Some(self.user_share? + self.system_share? + self.irq_share? + self.softirq_share?)
    }
}
