//! The resource use of a group.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathometer_model::Bytes;
use serde::{Deserialize, Serialize};

use super::Part;
use super::layout::Version;
use super::limits::BlockDevice;
use super::stacks::Stacks;
use crate::error::{Doing, Error, Result};
use crate::pressure::{OfWhom, Pressure};

/// CPU time of a group since it was created, including exited processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuUsage {
    /// The total. The resolution is a nanosecond in version 1 and a microsecond in version 2.
    pub total: Duration,
    /// Time in user mode. If the kernel samples at every tick (without `CONFIG_VIRT_CPU_ACCOUNTING_GEN`), the split into
    /// user and kernel mode is an estimate; the total is exact.
    pub user: Duration,
    /// Time in kernel mode.
    pub system: Duration,
    /// The time that runnable members waited for the next period, summed over all processors. `None` without the `cpu`
    /// controller.
    pub throttled: Option<Duration>,
    /// The number of quota periods with at least one runnable member.
    pub periods: Option<u64>,
    /// The number of periods in which the quota was used up.
    pub throttled_periods: Option<u64>,
}

impl CpuUsage {
    /// Returns the usage since an earlier reading.
    pub fn since(&self, earlier: &CpuUsage) -> CpuUsage {
        let count = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
        CpuUsage {
            total: self.total.saturating_sub(earlier.total),
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            throttled: self
                .throttled
                .zip(earlier.throttled)
                .and_then(|(now, then)| now.checked_sub(then)),
            periods: count(self.periods, earlier.periods),
            throttled_periods: count(self.throttled_periods, earlier.throttled_periods),
        }
    }
}

/// The memory charged to a group. A figure that the kernel does not report is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUsage {
    /// The total: programs, page cache, and kernel memory for them.
    pub current: Option<Bytes>,
    /// The largest value of `current` so far.
    pub peak: Option<Bytes>,
    /// Memory of programs that is not backed by a file.
    pub anonymous: Option<Bytes>,
    /// Page cache.
    pub page_cache: Option<Bytes>,
    /// TCP send and receive buffers (`memory.kmem.tcp.usage_in_bytes` in version 1, `sock` of `memory.stat` in version 2),
    /// including memory that the kernel reserves for them. In version 1 they are not part of `current`.
    pub sockets: Option<Bytes>,
    /// Memory without a backing file: memory of programs, and kernel memory for them (page tables, stacks, descriptors).
    /// Socket buffers are not included.
    #[serde(default)]
    pub unbacked: Option<Bytes>,
    /// The number of times that the limit was reached, so that memory had to be reclaimed.
    pub limit_hits: Option<u64>,
    /// The number of processes killed because no memory could be reclaimed.
    pub killed: Option<u64>,
    /// Refaults: file pages that were evicted and read again.
    pub refaults: Option<u64>,
    /// Page faults that waited for a disk (`pgmajfault`).
    pub major_faults: Option<u64>,
    /// Page faults of all kinds (`pgfault`).
    #[serde(default)]
    pub faults: Option<u64>,
    /// Pages charged to the group (`pgpgin`): memory allocated by programs, and file pages added to the page cache, read
    /// from a disk or written. Only in version 1. The machine's counter of the same name counts disk reads instead; the
    /// bytes that the group read from disks are [`DiskUsage::read`].
    #[serde(default)]
    pub pages_charged: Option<u64>,
    /// Pages that the group freed or that were reclaimed from it (`pgpgout`). Only in version 1.
    #[serde(default)]
    pub pages_uncharged: Option<u64>,
}

/// The disk traffic of a group since it was created, summed over all disks
/// (`blkio.throttle.io_service_bytes_recursive` and `io_serviced_recursive` in version 1, `io.stat` in version 2). In
/// version 1 the kernel only counts on disks with a limit of any group ([`super::Limits::counts_disk`]). In version 2 it
/// counts at each device of a stack (LVM, LUKS, MD); each stack is included once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskUsage {
    /// Bytes read.
    pub read: Bytes,
    /// Bytes written.
    pub written: Bytes,
    /// Read operations.
    pub reads: u64,
    /// Write operations.
    pub writes: u64,
}

impl DiskUsage {
    /// Returns the traffic since an earlier reading; `None` if the counters were reset.
    pub fn since(&self, earlier: &DiskUsage) -> Option<DiskUsage> {
        Some(DiskUsage {
            read: Bytes(self.read.0.checked_sub(earlier.read.0)?),
            written: Bytes(self.written.0.checked_sub(earlier.written.0)?),
            reads: self.reads.checked_sub(earlier.reads)?,
            writes: self.writes.checked_sub(earlier.writes)?,
        })
    }
}

/// All resource use of a group up to one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time.
    pub cpu: Option<CpuUsage>,
    /// Memory.
    pub memory: MemoryUsage,
    /// Disk traffic.
    pub disk: Option<DiskUsage>,
    /// The time for which members were stalled (`cpu.pressure` and similar files of version 2). A field is `None` if the
    /// kernel does not provide it.
    #[serde(default)]
    pub pressure: Pressure,
}

impl Usage {
    /// Returns the difference to an earlier reading. Memory figures that are not counters are copied from `self`.
    pub fn since(&self, earlier: &Usage) -> Usage {
        let count = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
        let (memory, before) = (&self.memory, &earlier.memory);
        Usage {
            cpu: self
                .cpu
                .zip(earlier.cpu)
                .map(|(now, then)| now.since(&then)),
            memory: MemoryUsage {
                limit_hits: count(memory.limit_hits, before.limit_hits),
                killed: count(memory.killed, before.killed),
                refaults: count(memory.refaults, before.refaults),
                major_faults: count(memory.major_faults, before.major_faults),
                faults: count(memory.faults, before.faults),
                pages_charged: count(memory.pages_charged, before.pages_charged),
                pages_uncharged: count(memory.pages_uncharged, before.pages_uncharged),
                ..self.memory
            },
            disk: self
                .disk
                .zip(earlier.disk)
                .and_then(|(now, then)| now.since(&then)),
            pressure: self.pressure.since(&earlier.pressure),
        }
    }
}

/// Reads the resource use of a group, from any thread.
#[derive(Debug, Clone)]
pub struct UsageProbe {
    /// The version and the directory of each active controller.
    places: BTreeMap<String, (Version, PathBuf)>,
    /// The directory in version 2 for figures that need no controller: CPU time and pressure. If several
    /// controllers have their own groups, the first of these groups.
    unified: Option<PathBuf>,
    /// The stacks of the devices in `io.stat`.
    stacks: Stacks,
    /// Whether socket memory is accounted for.
    counts_sockets: bool,
}

impl UsageProbe {
    pub(super) fn new(parts: &[Part]) -> UsageProbe {
        let mut probe = UsageProbe {
            places: BTreeMap::new(),
            unified: None,
            stacks: Stacks::default(),
            counts_sockets: false,
        };
        for part in parts {
            probe.counts_sockets |= part.has("memory") && part.counts_sockets;
            if part.tree.version == Version::Two {
                probe.unified.get_or_insert_with(|| part.path.clone());
            }
            for controller in &part.controllers {
                let place = (part.tree.version, part.path.clone());
                probe.places.insert(controller.clone(), place);
            }
        }
        if probe.places.contains_key("io") {
            probe.stacks = Stacks::read(Path::new("/sys/block"));
        }
        probe
    }

    /// Returns the directory in version 2 with the figures of a controller.
    fn in_version_2(&self, controller: &str) -> Option<&Path> {
        match self.places.get(controller) {
            Some((Version::Two, path)) => Some(path),
            _ => self.unified.as_deref(),
        }
    }

    /// Reads all figures that are available.
    pub fn read(&self) -> Usage {
        Usage {
            cpu: self.cpu().ok(),
            memory: self.memory(),
            disk: self.disk(),
            pressure: self.pressure(),
        }
    }

    /// Reads CPU time.
    pub fn cpu(&self) -> Result<CpuUsage> {
        let read =
            |path: PathBuf| fs::read_to_string(&path).doing(format!("read {}", path.display()));
        let unknown = || Error::BadAnswer {
            what: "CPU time of a control group",
        };
        if let Some((Version::One, account)) = self.places.get("cpuacct") {
            let total = read(account.join("cpuacct.usage"))?;
            let split = read(account.join("cpuacct.stat"))?;
            let throttling = match self.places.get("cpu") {
                Some((Version::One, path)) => read(path.join("cpu.stat"))?,
                _ => String::new(),
            };
            return cpu_v1(&total, &split, &throttling).ok_or_else(unknown);
        }
        let Some(path) = self.in_version_2("cpu") else {
            return Err(Error::NoLimit {
                what: "account of CPU time",
                reason: "no control group accounts for it".to_owned(),
            });
        };
        cpu_v2(&read(path.join("cpu.stat"))?).ok_or_else(unknown)
    }

    /// Reads memory.
    pub fn memory(&self) -> MemoryUsage {
        let Some((version, path)) = self.places.get("memory") else {
            return MemoryUsage::default();
        };
        let text = |file: &str| fs::read_to_string(path.join(file)).unwrap_or_default();
        let number = |file: &str| text(file).trim().parse::<u64>().ok();
        match version {
            Version::One => {
                let stat = text("memory.stat");
                let find = |key: &str| value(&stat, key);
                let current = number("memory.usage_in_bytes");
                MemoryUsage {
                    unbacked: current
                        .zip(find("total_cache"))
                        .map(|(all, files)| Bytes(all.saturating_sub(files))),
                    current: current.map(Bytes),
                    peak: number("memory.max_usage_in_bytes").map(Bytes),
                    anonymous: find("total_rss").map(Bytes),
                    page_cache: find("total_cache").map(Bytes),
                    sockets: number("memory.kmem.tcp.usage_in_bytes")
                        .filter(|_| self.counts_sockets)
                        .map(Bytes),
                    limit_hits: number("memory.failcnt"),
                    killed: value(&text("memory.oom_control"), "oom_kill"),
                    refaults: find("workingset_refault_file"),
                    major_faults: find("total_pgmajfault"),
                    faults: find("total_pgfault"),
                    pages_charged: find("total_pgpgin"),
                    pages_uncharged: find("total_pgpgout"),
                }
            }
            Version::Two => {
                let stat = text("memory.stat");
                let find = |key: &str| value(&stat, key);
                let events = text("memory.events");
                let current = number("memory.current");
                MemoryUsage {
                    unbacked: current
                        .zip(find("file").zip(find("sock")))
                        .map(|(all, (files, sockets))| Bytes(all.saturating_sub(files + sockets))),
                    current: current.map(Bytes),
                    peak: number("memory.peak").map(Bytes),
                    anonymous: find("anon").map(Bytes),
                    page_cache: find("file").map(Bytes),
                    sockets: find("sock").map(Bytes),
                    limit_hits: value(&events, "max"),
                    killed: value(&events, "oom_kill"),
                    refaults: find("workingset_refault_file"),
                    major_faults: find("pgmajfault"),
                    faults: find("pgfault"),
                    pages_charged: None,
                    pages_uncharged: None,
                }
            }
        }
    }

    /// Reads the time for which members were stalled.
    pub fn pressure(&self) -> Pressure {
        let text = |controller: &str| {
            let directory = self.in_version_2(controller);
            let path = directory.map(|path| path.join(format!("{controller}.pressure")));
            path.and_then(|path| fs::read_to_string(path).ok())
                .unwrap_or_default()
        };
        Pressure::parse(OfWhom::Group, &text("cpu"), &text("memory"), &text("io"))
    }

    /// Reads disk traffic.
    pub fn disk(&self) -> Option<DiskUsage> {
        let read = |path: PathBuf| fs::read_to_string(path).ok();
        if let Some((Version::One, path)) = self.places.get("blkio") {
            return disk_v1(
                &read(path.join("blkio.throttle.io_service_bytes_recursive"))?,
                &read(path.join("blkio.throttle.io_serviced_recursive"))?,
            );
        }
        let (_, path) = self.places.get("io")?;
        Some(disk_v2(&read(path.join("io.stat"))?, &self.stacks))
    }
}

/// Returns the value of a line like `key value`.
fn value(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(' ')?;
        (name == key).then(|| value.trim().parse().ok())?
    })
}

fn cpu_v1(total: &str, split: &str, throttling: &str) -> Option<CpuUsage> {
    // The unit is always 10 ms, for any tick of the kernel.
    let ticks = |key| value(split, key).map(|ticks| Duration::from_millis(ticks * 10));
    Some(CpuUsage {
        total: Duration::from_nanos(total.trim().parse().ok()?),
        user: ticks("user")?,
        system: ticks("system")?,
        throttled: value(throttling, "throttled_time").map(Duration::from_nanos),
        periods: value(throttling, "nr_periods"),
        throttled_periods: value(throttling, "nr_throttled"),
    })
}

fn cpu_v2(stat: &str) -> Option<CpuUsage> {
    let time = |key| value(stat, key).map(Duration::from_micros);
    Some(CpuUsage {
        total: time("usage_usec")?,
        user: time("user_usec")?,
        system: time("system_usec")?,
        throttled: time("throttled_usec"),
        periods: value(stat, "nr_periods"),
        throttled_periods: value(stat, "nr_throttled"),
    })
}

/// Parses lines like `254:0 Read 4096`. Returns `None` without such a line: then the kernel counts on no disk.
fn disk_v1(bytes: &str, operations: &str) -> Option<DiskUsage> {
    let is_count = |line: &str| line.split(' ').nth(1) == Some("Read");
    if !bytes.lines().any(is_count) {
        return None;
    }
    let sum = |text: &str, kind: &str| {
        let matching = text.lines().filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            (words.next() == Some(kind)).then(|| words.next()?.parse::<u64>().ok())?
        });
        matching.sum::<u64>()
    };
    Some(DiskUsage {
        read: Bytes(sum(bytes, "Read")),
        written: Bytes(sum(bytes, "Write")),
        reads: sum(operations, "Read"),
        writes: sum(operations, "Write"),
    })
}

/// Parses lines like `254:0 rbytes=4096 wbytes=0 rios=1 wios=0 dbytes=0 dios=0`. Some kernels print several devices on a
/// line, of which only the last has figures.
fn disk_v2(stat: &str, stacks: &Stacks) -> DiskUsage {
    let sum = |key: &str| {
        let mut device = None;
        let figures = stat.split_whitespace().filter_map(move |word| {
            let Some((name, value)) = word.split_once('=') else {
                device = BlockDevice::parse(word);
                return None;
            };
            (name == key).then(|| Some((device?, value.parse().ok()?)))?
        });
        stacks.sum(figures)
    };
    DiskUsage {
        read: Bytes(sum("rbytes")),
        written: Bytes(sum("wbytes")),
        reads: sum("rios"),
        writes: sum("wios"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::Tree;
    use super::*;

    #[test]
    fn processor_time_of_both_versions() {
        let stat = "nr_periods 11\nnr_throttled 10\nthrottled_time 750000000\nnr_bursts 0\n";
        let usage = cpu_v1("250123456\n", "user 20\nsystem 5\n", stat).unwrap();
        assert_eq!(usage.total, Duration::from_nanos(250_123_456));
        assert_eq!(usage.user, Duration::from_millis(200));
        assert_eq!(usage.throttled, Some(Duration::from_millis(750)));
        assert_eq!(
            (usage.periods, usage.throttled_periods),
            (Some(11), Some(10))
        );
        let unlimited = cpu_v1("5\n", "user 0\nsystem 0\n", "").unwrap();
        assert_eq!(unlimited.throttled, None, "no figure, not zero");

        let stat = "usage_usec 250123\nuser_usec 200000\nsystem_usec 50123\nnice_usec 0\n\
                    core_sched.force_idle_usec 0\nnr_periods 11\nnr_throttled 10\n\
                    throttled_usec 750000\nnr_bursts 0\nburst_usec 0\n";
        let usage = cpu_v2(stat).unwrap();
        assert_eq!(usage.total, Duration::from_micros(250_123));
        assert_eq!(usage.throttled, Some(Duration::from_millis(750)));
        // Without the controller, the group still counts CPU time.
        let usage = cpu_v2("usage_usec 7\nuser_usec 4\nsystem_usec 3\n").unwrap();
        assert_eq!((usage.throttled, usage.periods), (None, None));
        assert_eq!(cpu_v2("nothing 1\n"), None);
        assert_eq!(usage.since(&usage).total, Duration::ZERO);
        assert_eq!(usage.since(&usage).periods, None);
    }

    #[test]
    fn disk_traffic_of_both_versions() {
        let bytes = "254:0 Read 8192\n254:0 Write 4096\n254:0 Sync 0\n254:0 Async 12288\n\
                     254:0 Discard 0\n254:0 Total 12288\n8:0 Read 1\n8:0 Write 0\nTotal 12289\n";
        let operations = "254:0 Read 2\n254:0 Write 1\n254:0 Total 3\nTotal 3\n";
        let usage = disk_v1(bytes, operations).unwrap();
        assert_eq!((usage.read, usage.written), (Bytes(8193), Bytes(4096)));
        assert_eq!((usage.reads, usage.writes), (2, 1));
        let stat = "254:0 rbytes=8192 wbytes=4096 rios=2 wios=1 dbytes=0 dios=0\n\
                    8:0 rbytes=1 wbytes=0 rios=0 wios=0 dbytes=0 dios=0\n";
        let alone = Stacks::default();
        assert_eq!(disk_v2(stat, &alone), usage);
        assert_eq!(disk_v2(&format!("7:0 7:1 {stat}"), &alone), usage);
        assert_eq!(disk_v2("", &alone), DiskUsage::default());
        assert_eq!(
            disk_v1("Total 0\n", "Total 0\n"),
            None,
            "no figure, not zero"
        );
    }

    #[test]
    fn each_controller_has_a_group_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        let groups = [("cpu", 1), ("memory", 2)].map(|(controller, figure)| {
            let path = root.path().join(controller);
            fs::create_dir(&path).unwrap();
            let file = |name: &str, text: String| fs::write(path.join(name), text).unwrap();
            file(
                "cpu.stat",
                format!("usage_usec {figure}\nuser_usec 0\nsystem_usec 0\n"),
            );
            file("memory.current", format!("{figure}\n"));
            for of in ["cpu", "memory", "io"] {
                let stalled = format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={figure}\n");
                file(&format!("{of}.pressure"), stalled);
            }
            Part {
                tree: Tree {
                    version: Version::Two,
                    controllers: vec!["cpu".to_owned(), "memory".to_owned()],
                    top: root.path().to_owned(),
                    own: path.clone(),
                },
                path,
                controllers: vec![controller.to_owned()],
                counts_sockets: false,
            }
        });
        let usage = UsageProbe::new(&groups).read();
        assert_eq!(usage.cpu.unwrap().total, Duration::from_micros(1));
        assert_eq!(usage.memory.current, Some(Bytes(2)));
        let pressure = [1, 2, 1].map(|micros| Some(Duration::from_micros(micros)));
        let found = &usage.pressure;
        assert_eq!([found.cpu_some, found.memory_some, found.io_some], pressure);
    }

    #[test]
    fn a_key_is_a_whole_word() {
        let stat = "total_cache 5\ncache 3\nanon 7\nanon_thp 9\n";
        assert_eq!(value(stat, "cache"), Some(3));
        assert_eq!(value(stat, "anon"), Some(7));
        assert_eq!(value(stat, "file"), None);
    }
}
