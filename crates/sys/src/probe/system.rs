//! The whole machine: processors, interrupts, paging, disks, pressure.
//!
//! All figures are of the whole machine, not of a host, because namespaces do not divide `/proc/stat`. On a machine without
//! other load both are the same.
//!
//! # The kernel's definition of these figures
//!
//! Without `CONFIG_IRQ_TIME_ACCOUNTING` and `CONFIG_VIRT_CPU_ACCOUNTING_GEN`, the kernel samples the CPU time in
//! `/proc/stat` at each tick (250 or 1000 per second). The result is accurate to some per cent over a second, but does not
//! contain work that runs in step with the tick. Softirq time is then also charged to the interrupted process. With
//! `CONFIG_IRQ_TIME_ACCOUNTING`, interrupt and softirq time are measured exactly and charged to no process.
//! [`super::charging`] detects which of the two applies.

use std::collections::BTreeMap;
use std::time::Duration;

use fathometer_model::Bytes;
use serde::{Deserialize, Serialize};

use super::kernel_file::{KernelFile, counted, text, value};
use crate::awake;
use crate::clock::process_cpu_time;
use crate::error::Result;
use crate::pressure::{OfWhom, Pressure};

/// CPU time by kind, since boot or between two readings (`/proc/stat`). The resolution is 10 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessorTimes {
    /// Time in user mode, including guests of virtual machines.
    pub user: Duration,
    /// Time in user mode of programs with lowered priority.
    pub nice: Duration,
    /// Time in the kernel for programs.
    pub system: Duration,
    /// Idle time.
    pub idle: Duration,
    /// Idle time while an operation waited for a disk. With several processors the assignment to a processor is not
    /// defined, so this value may decrease.
    pub iowait: Duration,
    /// Time in interrupts.
    pub irq: Duration,
    /// Time in softirqs, the deferred work of interrupts: received packets, timers, completed disk requests.
    pub softirq: Duration,
    /// Time stolen by the hypervisor. `None` before Linux 2.6.11.
    pub steal: Option<Duration>,
}

impl ProcessorTimes {
    /// Returns the sum of all kinds.
    pub fn total(&self) -> Duration {
        self.busy() + self.idle + self.iowait + self.steal.unwrap_or_default()
    }

    /// Returns the time that was neither idle nor stolen.
    pub fn busy(&self) -> Duration {
        self.user + self.nice + self.kernel()
    }

    /// Returns the time in the kernel: system, interrupts and softirqs. The division among these three depends on the build
    /// options of the kernel, but the sum does not.
    pub fn kernel(&self) -> Duration {
        self.system + self.irq + self.softirq
    }

    /// Returns a part as a share of the total, 0 to 1; `None` if no time has passed.
    pub fn share(&self, part: Duration) -> Option<f64> {
        let total = self.total();
        (!total.is_zero()).then(|| part.as_secs_f64() / total.as_secs_f64())
    }

    /// Returns the times since an earlier reading.
    pub fn since(&self, earlier: &ProcessorTimes) -> ProcessorTimes {
        ProcessorTimes {
            user: self.user.saturating_sub(earlier.user),
            nice: self.nice.saturating_sub(earlier.nice),
            system: self.system.saturating_sub(earlier.system),
            idle: self.idle.saturating_sub(earlier.idle),
            iowait: self.iowait.saturating_sub(earlier.iowait),
            irq: self.irq.saturating_sub(earlier.irq),
            softirq: self.softirq.saturating_sub(earlier.softirq),
            steal: self
                .steal
                .zip(earlier.steal)
                .map(|(now, then)| now.saturating_sub(then)),
        }
    }

    /// Parses the numbers after `cpu` or `cpu0`. The first seven numbers exist since Linux 2.6.0.
    fn parse(numbers: &str) -> Option<ProcessorTimes> {
        let mut numbers = numbers.split_whitespace();
        let mut next = || numbers.next()?.parse().ok().map(super::ticks);
        Some(ProcessorTimes {
            user: next()?,
            nice: next()?,
            system: next()?,
            idle: next()?,
            iowait: next()?,
            irq: next()?,
            softirq: next()?,
            steal: next(),
        })
    }
}

/// The figures of the machine since boot; from [`System::since`], between two readings. A figure that this kernel does not
/// report is `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct System {
    /// CPU time, summed over all processors (`/proc/stat`).
    pub processors: Option<ProcessorTimes>,
    /// The part of `processors` that this program's busy-waiting threads used ([`crate::awake`]). It was available to all
    /// other threads.
    #[serde(default)]
    pub kept_awake: Duration,
    /// CPU time of all threads of this program, including [`kept_awake`](Self::kept_awake). 0 in readings of older
    /// versions.
    #[serde(default)]
    pub own: Duration,
    /// CPU time of each online processor, by number.
    pub each_processor: BTreeMap<u32, ProcessorTimes>,
    /// Interrupts (`/proc/stat`, first number of `intr`).
    pub interrupts: Option<u64>,
    /// Softirqs by kind, summed over all processors (`/proc/softirqs`): `NET_RX`, `NET_TX`, `BLOCK`, …
    pub softirqs: BTreeMap<String, u64>,
    /// Context switches (`/proc/stat`).
    pub context_switches: Option<u64>,
    /// Processes and threads created (`/proc/stat`).
    pub forks: Option<u64>,
    /// The current number of runnable threads (`/proc/stat`).
    pub runnable: Option<u64>,
    /// The current number of threads that wait for a disk (`/proc/stat`).
    pub blocked: Option<u64>,
    /// Paging (`/proc/vmstat`).
    pub paging: Paging,
    /// The current size of the page cache (`/proc/meminfo`).
    pub page_cache: Option<Bytes>,
    /// The memory currently available to programs without swapping (`/proc/meminfo`).
    pub available: Option<Bytes>,
    /// Disks by name, without partitions and without disks that had no traffic (`/proc/diskstats`).
    pub disks: BTreeMap<String, Disk>,
    /// The time for which threads were stalled for lack of a resource (`/proc/pressure`).
    pub pressure: Pressure,
    /// The mean number of threads that run, are runnable or wait for a disk, over the last minute (`/proc/loadavg`).
    pub load: Option<f64>,
    /// Counters of received packets between the device and the protocol (`/proc/net/softnet_stat`).
    pub backlog: Option<Backlog>,
}

/// Traffic between memory and disks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paging {
    /// Bytes read from disks, files included.
    pub paged_in: Option<Bytes>,
    /// Bytes written to disks, files included.
    pub paged_out: Option<Bytes>,
    /// Pages read from swap.
    pub swapped_in: Option<u64>,
    /// Pages written to swap.
    pub swapped_out: Option<u64>,
    /// Page faults of all kinds.
    pub faults: Option<u64>,
    /// Page faults that waited for a disk.
    pub major_faults: Option<u64>,
    /// File pages that were evicted and soon read again (refaults): the page cache is too small.
    pub file_refaults: Option<u64>,
}

/// The traffic of one disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Read operations.
    pub reads: u64,
    /// Bytes read.
    pub read: Bytes,
    /// Write operations.
    pub writes: u64,
    /// Bytes written.
    pub written: Bytes,
    /// The time during which at least one operation was in flight.
    pub busy: Duration,
    /// The sum of the times in flight of all operations.
    pub waited: Duration,
    /// The sum of the times in flight of all reads. Readings of older versions do not have it.
    #[serde(default)]
    pub reading: Option<Duration>,
}

/// Received packets between the device and the protocol, summed over all processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backlog {
    /// Packets processed.
    pub processed: u64,
    /// Packets dropped because the queue was full (`net.core.netdev_max_backlog`).
    pub dropped: u64,
    /// The number of times that the time or packet budget ran out while packets were waiting.
    pub squeezed: u64,
}

/// Reads the figures of the machine. The files stay open between readings.
#[derive(Debug)]
pub struct SystemProbe {
    stat: KernelFile,
    softirqs: Option<KernelFile>,
    vmstat: Option<KernelFile>,
    meminfo: Option<KernelFile>,
    diskstats: Option<KernelFile>,
    loadavg: Option<KernelFile>,
    softnet: Option<KernelFile>,
    /// The files of CPU, memory and I/O pressure.
    pressure: [Option<KernelFile>; 3],
}

impl SystemProbe {
    /// Opens the files that this kernel has. Fails if there is no `/proc/stat`.
    pub fn open() -> Result<SystemProbe> {
        Ok(SystemProbe {
            stat: KernelFile::open("/proc/stat")?,
            softirqs: KernelFile::open_if_there("/proc/softirqs"),
            vmstat: KernelFile::open_if_there("/proc/vmstat"),
            meminfo: KernelFile::open_if_there("/proc/meminfo"),
            diskstats: KernelFile::open_if_there("/proc/diskstats"),
            loadavg: KernelFile::open_if_there("/proc/loadavg"),
            softnet: KernelFile::open_if_there("/proc/thread-self/net/softnet_stat"),
            pressure: ["cpu", "memory", "io"]
                .map(|kind| KernelFile::open_if_there(&format!("/proc/pressure/{kind}"))),
        })
    }

    /// Reads the figures of the machine.
    pub fn read(&mut self) -> System {
        let mut system = System {
            kept_awake: awake::spent(),
            own: process_cpu_time(),
            ..System::default()
        };
        system.take_stat(self.stat.read().unwrap_or_default());
        system.softirqs = parse_softirqs(text(&mut self.softirqs));
        system.paging = Paging::parse(text(&mut self.vmstat));
        let meminfo = text(&mut self.meminfo);
        let memory = |key| value_of_meminfo(meminfo, key);
        system.page_cache = memory("Cached");
        system.available = memory("MemAvailable");
        system.disks = parse_disks(text(&mut self.diskstats));
        let [cpu, memory, io] = &mut self.pressure;
        system.pressure = Pressure::parse(OfWhom::Machine, text(cpu), text(memory), text(io));
        let load = text(&mut self.loadavg).split(' ').next();
        system.load = load.and_then(|load| load.parse().ok());
        system.backlog = Backlog::parse(text(&mut self.softnet));
        system
    }
}

impl System {
    /// Reads the figures of the machine once.
    pub fn read() -> Result<System> {
        Ok(SystemProbe::open()?.read())
    }

    /// Returns the difference to an earlier reading. Figures that are not counters (`runnable`, `blocked`,
    /// `page_cache`, `available`, `load`) are copied from `self`.
    pub fn since(&self, earlier: &System) -> System {
        let each = |(number, now): (&u32, &ProcessorTimes)| {
            let then = earlier.each_processor.get(number)?;
            Some((*number, now.since(then)))
        };
        let softirq = |(kind, now): (&String, &u64)| {
            let then = earlier.softirqs.get(kind).copied();
            Some((kind.clone(), counted(Some(*now), then)?))
        };
        // The earlier reading omits a disk that had no traffic before it.
        let disk = |(name, now): (&String, &Disk)| {
            let then = earlier.disks.get(name).copied().unwrap_or_default();
            Some((name.clone(), now.since(&then)?))
        };
        System {
            processors: self
                .processors
                .zip(earlier.processors)
                .map(|(now, then)| now.since(&then)),
            kept_awake: self.kept_awake.saturating_sub(earlier.kept_awake),
            own: self.own.saturating_sub(earlier.own),
            each_processor: self.each_processor.iter().filter_map(each).collect(),
            interrupts: counted(self.interrupts, earlier.interrupts),
            softirqs: self.softirqs.iter().filter_map(softirq).collect(),
            context_switches: counted(self.context_switches, earlier.context_switches),
            forks: counted(self.forks, earlier.forks),
            runnable: self.runnable,
            blocked: self.blocked,
            paging: self.paging.since(&earlier.paging),
            page_cache: self.page_cache,
            available: self.available,
            disks: self.disks.iter().filter_map(disk).collect(),
            pressure: self.pressure.since(&earlier.pressure),
            load: self.load,
            backlog: self
                .backlog
                .zip(earlier.backlog)
                .and_then(|(now, then)| now.since(&then)),
        }
    }

    /// Returns the share of all processors' time that was available to other threads, 0 to 1: idle, or used by busy-waiting
    /// threads ([`crate::awake`]). `None` if no time has passed, or no times are available.
    pub fn spare(&self) -> Option<f64> {
        let times = self.processors?;
        let spare = times.idle + times.iowait + self.kept_awake;
        // Idle time is counted in ticks, the time of busy-waiting threads is not, so the sum may exceed 1.
        times.share(spare).map(|share| share.min(1.0))
    }

    /// Returns the share of all processors' time that other programs used, 0 to 1. `hosts` is the CPU time of the
    /// control groups that this program measures. `softirq_apart`: see
    /// [`Charging::softirq_apart`](super::Charging::softirq_apart). `None` if no time has passed, or no times are
    /// available.
    pub fn others(&self, hosts: Duration, softirq_apart: bool) -> Option<f64> {
        let times = self.processors?;
        let charged = match softirq_apart {
            true => times.user + times.nice + times.system,
            false => times.busy(),
        };
        times.share(charged.saturating_sub(self.own + hosts))
    }

    fn take_stat(&mut self, stat: &str) {
        for line in stat.lines() {
            let Some((key, rest)) = line.split_once(' ') else {
                continue;
            };
            // The other numbers of `intr` are counts per interrupt line.
            let number = || rest.split(' ').next()?.parse().ok();
            match key {
                "cpu" => self.processors = ProcessorTimes::parse(rest),
                "intr" => self.interrupts = number(),
                "ctxt" => self.context_switches = number(),
                "processes" => self.forks = number(),
                "procs_running" => self.runnable = number(),
                "procs_blocked" => self.blocked = number(),
                _ => {
                    let processor = key.strip_prefix("cpu").and_then(|n| n.parse().ok());
                    if let (Some(n), Some(times)) = (processor, ProcessorTimes::parse(rest)) {
                        self.each_processor.insert(n, times);
                    }
                }
            }
        }
    }
}

impl Paging {
    fn parse(vmstat: &str) -> Paging {
        // These two are in KiB, for any page size.
        let kibibytes = |key| value(vmstat, key).map(|kibibytes| Bytes(kibibytes * 1024));
        Paging {
            paged_in: kibibytes("pgpgin"),
            paged_out: kibibytes("pgpgout"),
            swapped_in: value(vmstat, "pswpin"),
            swapped_out: value(vmstat, "pswpout"),
            faults: value(vmstat, "pgfault"),
            major_faults: value(vmstat, "pgmajfault"),
            // A single counter until 5.8.
            file_refaults: value(vmstat, "workingset_refault_file")
                .or_else(|| value(vmstat, "workingset_refault")),
        }
    }

    fn since(&self, earlier: &Paging) -> Paging {
        let bytes = |now: Option<Bytes>, then: Option<Bytes>| {
            counted(now.map(|b| b.0), then.map(|b| b.0)).map(Bytes)
        };
        Paging {
            paged_in: bytes(self.paged_in, earlier.paged_in),
            paged_out: bytes(self.paged_out, earlier.paged_out),
            swapped_in: counted(self.swapped_in, earlier.swapped_in),
            swapped_out: counted(self.swapped_out, earlier.swapped_out),
            faults: counted(self.faults, earlier.faults),
            major_faults: counted(self.major_faults, earlier.major_faults),
            file_refaults: counted(self.file_refaults, earlier.file_refaults),
        }
    }
}

impl Disk {
    /// Returns the mean duration of a read, from the request to the device until its completion; `None` without reads. A
    /// delay by the limit of a control group comes before the request and is not included.
    pub fn read_time(&self) -> Option<Duration> {
        let reads = u32::try_from(self.reads).ok().filter(|reads| *reads > 0)?;
        Some(self.reading? / reads)
    }

    fn since(&self, earlier: &Disk) -> Option<Disk> {
        let is_first = *earlier == Disk::default();
        Some(Disk {
            reads: self.reads.checked_sub(earlier.reads)?,
            read: Bytes(self.read.0.checked_sub(earlier.read.0)?),
            writes: self.writes.checked_sub(earlier.writes)?,
            written: Bytes(self.written.0.checked_sub(earlier.written.0)?),
            busy: self.busy.checked_sub(earlier.busy)?,
            waited: self.waited.checked_sub(earlier.waited)?,
            reading: self
                .reading
                .zip(earlier.reading.or(is_first.then_some(Duration::ZERO)))
                .and_then(|(now, then)| now.checked_sub(then)),
        })
    }
}

impl Backlog {
    /// Parses one line per processor, with numbers in hexadecimal: processed, dropped, squeezed, …
    fn parse(softnet: &str) -> Option<Backlog> {
        let mut sum = Backlog::default();
        for line in softnet.lines() {
            let mut numbers = line.split(' ').map(|n| u64::from_str_radix(n, 16).ok());
            sum.processed += numbers.next()??;
            sum.dropped += numbers.next()??;
            sum.squeezed += numbers.next()??;
        }
        (!softnet.is_empty()).then_some(sum)
    }

    /// Returns the difference to an earlier reading. The counters of each processor have 32 bits; `None` if a counter
    /// has wrapped around.
    fn since(&self, earlier: &Backlog) -> Option<Backlog> {
        Some(Backlog {
            processed: self.processed.checked_sub(earlier.processed)?,
            dropped: self.dropped.checked_sub(earlier.dropped)?,
            squeezed: self.squeezed.checked_sub(earlier.squeezed)?,
        })
    }
}

/// Parses lines like `      NET_RX:    1496666    1191435`, below a line with the processors' names.
fn parse_softirqs(text: &str) -> BTreeMap<String, u64> {
    text.lines()
        .filter_map(|line| {
            let (kind, numbers) = line.split_once(':')?;
            let numbers = numbers.split_whitespace().map(|n| n.parse::<u64>().ok());
            Some((kind.trim().to_owned(), numbers.sum::<Option<u64>>()?))
        })
        .collect()
}

/// Parses lines like `254 0 vda reads merged sectors ms writes merged sectors ms in-flight ms ms …`. Later kernels append
/// more numbers; before 2.6.25 partitions had only four numbers.
fn parse_disks(text: &str) -> BTreeMap<String, Disk> {
    let mut disks: BTreeMap<String, Disk> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace().skip(2);
        let Some(name) = words.next() else { continue };
        let numbers: Option<Vec<u64>> = words.take(11).map(|n| n.parse().ok()).collect();
        let Some(n) = numbers.filter(|n| n.len() == 11) else {
            continue;
        };
        // A sector is 512 bytes here, for any sector size of the disk.
        let disk = Disk {
            reads: n[0],
            read: Bytes(n[2] * 512),
            writes: n[4],
            written: Bytes(n[6] * 512),
            busy: Duration::from_millis(n[9]),
            waited: Duration::from_millis(n[10]),
            reading: Some(Duration::from_millis(n[3])),
        };
        // A partition follows its disk, whose counts include it. Its name is the disk's and a number, with a `p` between
        // them if the disk's name ends with a digit (block/partitions/core.c): md127 is not a partition of md12.
        let part_of = |whole: &String| {
            let rest = name.strip_prefix(whole.as_str());
            let number = match whole.ends_with(|last: char| last.is_ascii_digit()) {
                true => rest.and_then(|rest| rest.strip_prefix('p')),
                false => rest,
            };
            number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        };
        let is_used = n.iter().any(|count| *count > 0);
        if is_used && !disks.keys().any(part_of) {
            disks.insert(name.to_owned(), disk);
        }
    }
    disks
}

fn value_of_meminfo(meminfo: &str, key: &str) -> Option<Bytes> {
    value(meminfo, key).map(|kibibytes| Bytes(kibibytes * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "\
        cpu  1079065 98261 205745 997493 6135 7 3954 5033 10 0\n\
        cpu0 526894 46276 100270 518646 1392 3 1496 2423 0 0\n\
        cpu1 552171 51984 105475 478846 4742 4 2457 2610 10 0\n\
        intr 17455373 0 0 9 0\nctxt 28283\nbtime 1700000000\nprocesses 97\n\
        procs_running 3\nprocs_blocked 1\nsoftirq 99 0 1\n";

    #[test]
    fn processor_time_adds_up() {
        let mut system = System::default();
        system.take_stat(STAT);
        let all = system.processors.unwrap();
        assert_eq!(all.user, Duration::from_millis(10_790_650));
        assert_eq!(all.softirq, Duration::from_millis(39_540));
        assert_eq!(all.steal, Some(Duration::from_millis(50_330)));
        assert_eq!(
            all.kernel(),
            Duration::from_millis((205_745 + 7 + 3954) * 10)
        );
        let ticks = 1_079_065 + 98_261 + 205_745 + 997_493 + 6135 + 7 + 3954 + 5033;
        assert_eq!(all.total(), Duration::from_millis(ticks * 10));
        assert_eq!(system.each_processor.len(), 2);
        assert_eq!(system.interrupts, Some(17_455_373));
        assert_eq!(system.context_switches, Some(28_283));
        assert_eq!((system.runnable, system.blocked), (Some(3), Some(1)));
        assert_eq!(system.forks, Some(97));
        let mut later = System::default();
        later.take_stat(&STAT.replace("cpu  1079065", "cpu  1079165"));
        let step = later.since(&system).processors.unwrap();
        assert_eq!(step.busy(), Duration::from_secs(1));
        assert_eq!(step.share(step.user), Some(1.0));
        assert_eq!(all.since(&all).share(Duration::ZERO), None);
    }

    #[test]
    fn time_of_neither_this_program_nor_its_hosts_is_that_of_others() {
        let seconds = Duration::from_secs;
        let system = System {
            processors: Some(ProcessorTimes {
                user: seconds(10),
                softirq: seconds(2),
                idle: seconds(8),
                ..ProcessorTimes::default()
            }),
            own: seconds(4),
            ..System::default()
        };
        assert_eq!(system.others(seconds(3), false), Some(0.25));
        assert_eq!(system.others(seconds(3), true), Some(0.15));
        // Times in ticks and exact times differ slightly.
        assert_eq!(system.others(seconds(9), false), Some(0.0));
        assert_eq!(System::default().others(seconds(1), false), None);
    }

    #[test]
    fn a_processor_that_is_kept_awake_counts_as_idle() {
        let times = |busy, idle| ProcessorTimes {
            user: Duration::from_secs(busy),
            idle: Duration::from_secs(idle),
            ..ProcessorTimes::default()
        };
        let spare = |busy, idle, kept_awake| {
            let system = System {
                processors: Some(times(busy, idle)),
                kept_awake: Duration::from_secs(kept_awake),
                ..System::default()
            };
            system.spare()
        };
        assert_eq!(spare(6, 2, 0), Some(0.25));
        assert_eq!(spare(8, 0, 6), Some(0.75));
        assert_eq!(spare(8, 0, 9), Some(1.0));
        assert_eq!(spare(0, 0, 0), None);
        assert_eq!(System::default().spare(), None);
    }

    #[test]
    fn values_that_old_kernels_lack_are_absent_and_not_zero() {
        let mut system = System::default();
        system.take_stat("cpu  1 2 3 4 5 6 7\nctxt 5\n");
        let times = system.processors.unwrap();
        assert_eq!(times.steal, None);
        assert_eq!(system.interrupts, None);
        system.take_stat("cpu  1 2\n");
        assert_eq!(system.processors, None);
        assert_eq!(Paging::parse("nr_free_pages 5\n"), Paging::default());
        assert_eq!(Backlog::parse(""), None);
        let refaults = Paging::parse("workingset_refault 3\n").file_refaults;
        assert_eq!(refaults, Some(3));
    }

    #[test]
    fn paging() {
        let paging = Paging::parse(
            "pgpgin 10\npgpgout 20\npswpin 1\npswpout 2\npgfault 300\npgmajfault 4\n\
             workingset_refault_anon 0\nworkingset_refault_file 7\n",
        );
        assert_eq!(paging.paged_in, Some(Bytes(10_240)));
        assert_eq!(paging.major_faults, Some(4));
        assert_eq!(paging.file_refaults, Some(7));
    }

    #[test]
    fn softirqs_are_summed_over_processors() {
        let text = "                    CPU0       CPU1       \n\
                    \x20         HI:          0          1\n\
                    \x20     NET_RX:    1496666    1191435\n";
        let found = parse_softirqs(text);
        assert_eq!(found["NET_RX"], 2_688_101);
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn partitions_are_counted_with_their_disk() {
        let text = "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\
             8       0 sda 100 5 2000 30 50 2 400 10 0 35 40\n\
             8       1 sda1 90 5 1900 29 50 2 400 10 0 34 39\n\
             259     0 nvme0n1 7 0 80 3 1 0 8 1 0 4 4 0 0 0 0 2 1\n\
             259     1 nvme0n1p1 7 0 80 3 1 0 8 1 0 4 4 0 0 0 0 2 1\n\
             9      12 md12 3 0 24 0 0 0 0 0 0 0 0\n\
             259     2 md12p1 3 0 24 0 0 0 0 0 0 0 0\n\
             9     127 md127 4 0 32 0 0 0 0 0 0 0 0\n\
             253     1 dm-1 1 0 8 1 0 0 0 0 0 1 1\n\
             253    10 dm-10 2 0 16 1 0 0 0 0 0 1 1\n\
             3       1 hda1 5 40 6 48\n";
        let disks = parse_disks(text);
        let names: Vec<&str> = disks.keys().map(String::as_str).collect();
        assert_eq!(names, ["dm-1", "dm-10", "md12", "md127", "nvme0n1", "sda"]);
        let disk = disks["sda"];
        assert_eq!((disk.reads, disk.read), (100, Bytes(1_024_000)));
        assert_eq!((disk.writes, disk.written), (50, Bytes(204_800)));
        assert_eq!(disk.busy, Duration::from_millis(35));
        assert_eq!(disk.waited, Duration::from_millis(40));
        assert_eq!(disk.reading, Some(Duration::from_millis(30)));
        let later = Disk {
            reads: 104,
            reading: Some(Duration::from_millis(42)),
            ..disk
        };
        let since = later.since(&disk).unwrap();
        assert_eq!(since.read_time(), Some(Duration::from_millis(3)));
        assert_eq!(disk.since(&disk).unwrap().read_time(), None, "no reads");
        let first = disk.since(&Disk::default()).unwrap();
        assert_eq!(first.reading, disk.reading);
    }

    #[test]
    fn the_backlog_is_in_hexadecimal_and_overflows() {
        let text = "00a896b0 00000000 00000001 0 0\n009800ff 00000002 00000000 0 0\n";
        let backlog = Backlog::parse(text).unwrap();
        assert_eq!(backlog.processed, 0xa8_96b0 + 0x98_00ff);
        assert_eq!((backlog.dropped, backlog.squeezed), (2, 1));
        let begun_anew = Backlog::default();
        assert_eq!(begun_anew.since(&backlog), None);
    }

    #[test]
    fn this_machine_reports_all_required_properties() {
        let mut probe = SystemProbe::open().unwrap();
        let before = probe.read();
        let after = probe.read();
        let step = after.since(&before);
        assert!(before.processors.unwrap().total() > Duration::ZERO);
        assert!(!before.each_processor.is_empty());
        assert!(step.interrupts.is_some() && step.context_switches.is_some());
        assert!(step.paging.paged_in.is_some() && step.paging.major_faults.is_some());
        assert!(before.softirqs.contains_key("NET_RX"));
        assert!(before.backlog.is_some() && before.load.is_some());
        assert!(before.available.unwrap() > Bytes(0));
    }
}
