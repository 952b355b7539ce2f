//! What probes measured on the server's machine under load.
//!
//! It is a part of a result, already in the form for JSON output. Names carry their units (`_s`, `_bytes`,
//! `_share` of 0 to 1). Counts are of the watched time. A value that the kernel does not report is `null` and
//! never zero.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bottleneck::Suspicion;

/// What probes saw of the server, its machine and its network.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerProbes {
    /// How long was watched: the measured window, and up to a period more at either end. Counts and
    /// times below are of this time.
    pub watched_s: f64,
    /// Programs that were named, each with all that it has started.
    pub programs: Vec<ProgramProbes>,
    /// The whole machine, the generator included when it runs there.
    pub machine: MachineProbes,
    /// Network namespaces that the programs are in.
    pub networks: Vec<NetworkProbes>,
    /// Control groups that limit the programs: services of systemd, containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupProbes>,
    /// What watching cost.
    pub cost: ProbeCost,
    /// What could not be read, and why.
    pub failures: Vec<String>,
}

/// A program and all that it has started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramProbes {
    /// Its name and process number.
    pub name: String,
    /// Processes at the end.
    pub processes: u64,
    /// Threads at the end.
    pub threads: u64,
    /// Processor time: of existing processes in nanoseconds, up to the kernel's last tick for threads that run; of
    /// exited children to 10 ms.
    pub cpu_s: f64,
    /// The part of it in programs: the time above, split in the ratio of counts of 10 ms.
    pub cpu_user_s: f64,
    /// The part of it in the kernel.
    pub cpu_system_s: f64,
    /// The busiest thread's, as a share of one processor.
    pub busiest_thread_share: Option<f64>,
    /// Resident memory at the end (RSS); pages shared by several processes count for each.
    pub resident_bytes: u64,
    /// Resident memory at the end, shared pages shared out (PSS).
    pub proportional_bytes: Option<u64>,
    /// Page faults that waited for a disk.
    pub major_faults: u64,
    /// Page faults served from memory.
    pub minor_faults: u64,
    /// Times that a thread waited for something.
    pub voluntary_switches: Option<u64>,
    /// Times that a thread had to make way.
    pub involuntary_switches: Option<u64>,
    /// Fetched from disks.
    pub read_bytes: Option<u64>,
    /// Sent to disks.
    pub written_bytes: Option<u64>,
    /// Open descriptors at the end.
    pub descriptors: Option<u64>,
}

/// The whole machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachineProbes {
    /// Processors that are on.
    pub processors: Option<u64>,
    /// Share of their time spent in programs.
    pub user_share: Option<f64>,
    /// Spent in the kernel for programs.
    pub system_share: Option<f64>,
    /// Spent on interrupts.
    pub irq_share: Option<f64>,
    /// Spent on work put off by interrupts: packets received, mostly.
    pub softirq_share: Option<f64>,
    /// With nothing to do.
    pub idle_share: Option<f64>,
    /// With nothing to do while something waited for a disk.
    pub iowait_share: Option<f64>,
    /// Given to others by the hypervisor.
    pub steal_share: Option<f64>,
    /// Page cache at the end.
    pub page_cache_bytes: Option<u64>,
    /// Memory that programs could have had at the end.
    pub available_bytes: Option<u64>,
    /// Read from disks into memory.
    pub paged_in_bytes: Option<u64>,
    /// Written from memory to disks.
    pub paged_out_bytes: Option<u64>,
    /// Page faults that waited for a disk.
    pub major_faults: Option<u64>,
    /// Pages of files read again that had been thrown out of memory.
    pub refaults: Option<u64>,
    /// Operations of all disks that read, and their bytes.
    pub disk_reads: Option<u64>,
    /// See `disk_reads`.
    pub disk_read_bytes: Option<u64>,
    /// Operations of all disks that wrote.
    pub disk_writes: Option<u64>,
    /// See `disk_writes`.
    pub disk_written_bytes: Option<u64>,
    /// Share of the time in which the busiest disk had something to do.
    pub disk_busy_share: Option<f64>,
    /// Changes from one thread to another.
    pub context_switches: Option<u64>,
    /// Interrupts.
    pub interrupts: Option<u64>,
    /// Share of the time in which something waited for a processor (PSI, some).
    pub cpu_pressure_share: Option<f64>,
    /// For memory.
    pub memory_pressure_share: Option<f64>,
    /// For a disk.
    pub io_pressure_share: Option<f64>,
}

/// A network namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkProbes {
    /// Which.
    pub name: String,
    /// Whether the generator is in it too: then its own ends of the connections are counted as well.
    pub has_generator: bool,
    /// TCP segments received.
    pub segments_in: Option<u64>,
    /// TCP segments sent, those sent again left out.
    pub segments_out: Option<u64>,
    /// TCP segments sent again.
    pub retransmitted: Option<u64>,
    /// Connections that found the accept queue full.
    pub listen_overflows: Option<u64>,
    /// Connections that were dropped for that or another reason before they were accepted.
    pub listen_drops: Option<u64>,
    /// TCP connections by state, on average over the watched time; none where the kernel does not
    /// tell.
    pub states: std::collections::BTreeMap<String, f64>,
    /// Connections that waited to be accepted, on average.
    pub to_be_accepted: Option<f64>,
}

/// A control group with a processor quota or a memory limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GroupProbes {
    /// Its path, as in `/system.slice/nginx.service`.
    pub name: String,
    /// The quota of processor time, in cores.
    pub cpu_quota_cores: Option<f64>,
    /// Processor time of its members.
    pub cpu_s: Option<f64>,
    /// Share of the quota's periods in which it was used up.
    pub throttled_share: Option<f64>,
    /// The memory limit.
    pub memory_limit_bytes: Option<u64>,
    /// Memory of its members at the end, page cache included.
    pub memory_bytes: Option<u64>,
    /// File pages that were evicted and read again.
    pub refaults: Option<u64>,
    /// Share of the time in which a member waited for a processor (PSI, some).
    pub cpu_pressure_share: Option<f64>,
}

/// What watching cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeCost {
    /// The time between two readings.
    pub period_s: f64,
    /// Readings taken.
    pub readings: u64,
    /// Processor time that they took, from the first to the last.
    pub cpu_s: f64,
    /// The longest that one took.
    pub longest_s: f64,
    /// The time from the first to the last.
    pub from_first_to_last_s: f64,
}

/// A resource that the figures make suspect. They do not prove it: what is full may be the victim of
/// what is short elsewhere.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SuspicionSummary {
    /// Which.
    pub resource: String,
    /// How strongly: possibly, likely, strongly.
    pub confidence: String,
    /// What was seen.
    pub evidence: Vec<String>,
    /// What would confirm it.
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
    /// The share of the processors' time in which they were busy on this machine.
    pub fn busy_share(&self) -> Option<f64> {
        Some(self.user_share? + self.system_share? + self.irq_share? + self.softirq_share?)
    }
}
