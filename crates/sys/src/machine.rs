//! The properties of the machine that are needed to judge a measurement.
//!
//! Confidential properties are excluded: host name, addresses, users.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use fathometer_model::Bytes;
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

/// The properties of a machine. A property that could not be read is empty, 0 or `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The kernel's release, as in `6.18.44`.
    pub kernel: String,
    /// The architecture, as in `x86_64`.
    pub architecture: String,
    /// The distribution, as in `Debian GNU/Linux 12 (bookworm)`.
    pub distribution: String,
    /// The processor's model name.
    pub processor: String,
    /// The number of processors that this program may use.
    pub processors: usize,
    /// The size of the main memory.
    pub memory: Bytes,
    /// The kernel's clock source, as in `tsc`. With other sources than `tsc` (or `arch_sys_counter`), reading the clock is
    /// slow.
    pub clock_source: String,
    /// The hypervisor or its vendor, if the machine reports that it is a guest.
    pub hypervisor: Option<String>,
    /// The share of CPU time stolen by the hypervisor since boot, 0 to 1.
    pub steal: f64,
    /// The versions of control groups in use, as in `v1 cpu,memory; v2`.
    pub control_groups: String,
    /// The congestion controls that are available in a namespace.
    pub congestion_controls: Vec<String>,
    /// The soft and the hard limit of open files, sockets included.
    pub open_files: (u64, u64),
}

/// The CPU time of the whole machine since boot, summed over all processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Time in user mode, including `nice` time and guests.
    pub user: Duration,
    /// Time in the kernel, including interrupts.
    pub system: Duration,
    /// Idle time, including waiting for a disk.
    pub idle: Duration,
    /// Time stolen by the hypervisor.
    pub steal: Duration,
}

impl Machine {
    /// Reads the properties.
    pub fn read() -> Machine {
        let uname = rustix::system::uname();
        let (soft, hard) = open_files();
        let processors = std::thread::available_parallelism();
        Machine {
            kernel: uname.release().to_string_lossy().into_owned(),
            architecture: uname.machine().to_string_lossy().into_owned(),
            distribution: distribution(&text("/etc/os-release")),
            processor: processor(&text("/proc/cpuinfo")),
            processors: processors.map_or(0, |n| n.get()),
            memory: memory(&text("/proc/meminfo")),
            clock_source: text("/sys/devices/system/clocksource/clocksource0/current_clocksource")
                .trim()
                .to_owned(),
            hypervisor: hypervisor(),
            steal: CpuTimes::read().map_or(0.0, CpuTimes::steal_share),
            control_groups: control_groups(&text("/proc/self/mountinfo")),
            congestion_controls: text("/proc/sys/net/ipv4/tcp_available_congestion_control")
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
            open_files: (soft, hard),
        }
    }

    /// Returns the properties as text, by their names in run records.
    pub fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = BTreeMap::new();
        let mut put = |name: &str, value: String| {
            facts.insert(name.to_owned(), value);
        };
        put("cpu", self.processor.clone());
        put("cores", self.processors.to_string());
        put("memory", self.memory.to_string());
        put("kernel", self.kernel.clone());
        put("architecture", self.architecture.clone());
        put("os", self.distribution.clone());
        put("clock_source", self.clock_source.clone());
        put("steal_pct", format!("{:.2}", 100.0 * self.steal));
        if let Some(hypervisor) = &self.hypervisor {
            put("hypervisor", hypervisor.clone());
        }
        facts
    }
}

impl CpuTimes {
    /// Reads the times of all processors together; `None` if `/proc/stat` cannot be parsed.
    pub fn read() -> Option<CpuTimes> {
        parse_cpu_times(&text("/proc/stat"), "cpu")
    }

    /// Reads the times of one processor; `None` also if there is no processor with that number.
    pub fn read_processor(number: usize) -> Option<CpuTimes> {
        parse_cpu_times(&text("/proc/stat"), &format!("cpu{number}"))
    }

    /// Returns the times since an earlier reading.
    pub fn since(self, earlier: CpuTimes) -> CpuTimes {
        CpuTimes {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            idle: self.idle.saturating_sub(earlier.idle),
            steal: self.steal.saturating_sub(earlier.steal),
        }
    }

    /// Returns the share of steal time, 0 to 1.
    pub fn steal_share(self) -> f64 {
        let total = self.user + self.system + self.idle + self.steal;
        if total.is_zero() {
            return 0.0;
        }
        self.steal.as_secs_f64() / total.as_secs_f64()
    }
}

/// Returns the soft and the hard limit of open files.
pub fn open_files() -> (u64, u64) {
    let limit = getrlimit(Resource::Nofile);
    let number = |limit: Option<u64>| limit.unwrap_or(u64::MAX);
    (number(limit.current), number(limit.maximum))
}

/// Raises the soft limit of open files to the hard limit, and returns the new limit.
pub fn raise_open_files() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // On failure, the old limit remains and is returned.
    let _ = rustix::process::setrlimit(Resource::Nofile, limit);
    open_files().0
}

/// Returns the number of online processors, including those that this program may not use.
pub fn processors_online() -> usize {
    let stat = text("/proc/stat");
    let numbered = |line: &&str| {
        line.strip_prefix("cpu")
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    stat.lines().filter(numbered).count().max(1)
}

/// The contention for processors on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contention {
    /// The time since boot during which at least one thread waited for a processor, from the kernel's pressure stall
    /// information (PSI).
    Waited(Duration),
    /// The number of currently runnable threads, if the kernel has no PSI.
    Runnable(u32),
}

impl Contention {
    /// Reads the contention; `None` if the kernel reports neither figure.
    pub fn read() -> Option<Contention> {
        contention(&text("/proc/pressure/cpu"), || text("/proc/loadavg"))
    }
}

fn contention(pressure: &str, loadavg: impl FnOnce() -> String) -> Option<Contention> {
    let some = pressure.lines().find(|line| line.starts_with("some "));
    let total = some.and_then(|line| line.split(' ').find_map(|word| word.strip_prefix("total=")));
    if let Some(micros) = total.and_then(|total| total.parse().ok()) {
        return Some(Contention::Waited(Duration::from_micros(micros)));
    }
    // 0.20 0.18 0.12 1/80 11206: the fourth field is runnable threads / all threads.
    let loadavg = loadavg();
    let (runnable, _) = loadavg.split(' ').nth(3)?.split_once('/')?;
    runnable.parse().ok().map(Contention::Runnable)
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn distribution(os_release: &str) -> String {
    os_release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map(|name| name.trim_matches('"').to_owned())
        .unwrap_or_default()
}

fn processor(cpuinfo: &str) -> String {
    // x86 has "model name"; many ARM kernels only have the implementer.
    ["model name", "Model", "CPU implementer"]
        .into_iter()
        .find_map(|key| field(cpuinfo, key))
        .unwrap_or_default()
}

fn field(text: &str, key: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim().to_owned())
}

fn memory(meminfo: &str) -> Bytes {
    let kibibytes = field(meminfo, "MemTotal")
        .and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok());
    Bytes(kibibytes.unwrap_or(0) * 1024)
}

fn hypervisor() -> Option<String> {
    let named = [
        text("/sys/hypervisor/type"),
        text("/sys/class/dmi/id/sys_vendor"),
    ];
    let guest = text("/proc/cpuinfo").lines().any(|line| {
        line.starts_with("flags") && line.split_whitespace().any(|f| f == "hypervisor")
    });
    if !guest && named[0].is_empty() {
        return None;
    }
    let name = named.iter().map(|name| name.trim()).find(|n| !n.is_empty());
    Some(name.unwrap_or("unnamed").to_owned())
}

fn control_groups(mountinfo: &str) -> String {
    let mut versions = Vec::new();
    let mut controllers = Vec::new();
    for line in mountinfo.lines() {
        let Some((_, rest)) = line.split_once(" - ") else {
            continue;
        };
        let mut fields = rest.split_whitespace();
        match fields.next() {
            Some("cgroup2") => versions.push("v2".to_owned()),
            Some("cgroup") => controllers.extend(
                fields
                    .nth(1)
                    .unwrap_or_default()
                    .split(',')
                    .filter(|option| !matches!(*option, "rw" | "ro" | "xattr"))
                    .map(str::to_owned),
            ),
            _ => {}
        }
    }
    controllers.sort();
    controllers.dedup();
    if !controllers.is_empty() {
        versions.insert(0, format!("v1 {}", controllers.join(",")));
    }
    versions.dedup();
    versions.join("; ")
}

fn parse_cpu_times(stat: &str, name: &str) -> Option<CpuTimes> {
    let fields = stat
        .lines()
        .map(str::split_whitespace)
        .find_map(|mut fields| (fields.next() == Some(name)).then_some(fields))?;
    let ticks: Vec<u64> = fields.map(|n| n.parse().ok()).collect::<Option<_>>()?;
    // user nice system idle iowait irq softirq steal, in hundredths of a second; guest time is included in
    // user.
    let time = |places: &[usize]| {
        let sum = places.iter().filter_map(|&n| ticks.get(n)).sum::<u64>();
        Duration::from_millis(sum * 10)
    };
    Some(CpuTimes {
        user: time(&[0, 1]),
        system: time(&[2, 5, 6]),
        idle: time(&[3, 4]),
        steal: time(&[7]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_as_the_kernel_writes_it() {
        let stat = "cpu  100 10 50 800 20 5 15 250 7 0\ncpu1 1 2 3 4 5 6 7 8\ncpu10 1\n";
        let times = parse_cpu_times(stat, "cpu").unwrap();
        assert_eq!(times.user, Duration::from_millis(1100));
        assert_eq!(times.system, Duration::from_millis(700));
        assert_eq!(times.idle, Duration::from_millis(8200));
        assert_eq!(times.steal_share(), 0.2);
        assert_eq!(times.since(times), CpuTimes::default());
        let one = parse_cpu_times(stat, "cpu1").unwrap();
        assert_eq!(one.steal, Duration::from_millis(80));
        assert!(parse_cpu_times(stat, "cpu0").is_none());
        assert!(parse_cpu_times("intr 5", "cpu").is_none());
    }

    #[test]
    fn control_groups_of_a_hybrid_machine_are_both_named() {
        let mounts = "30 25 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
                      31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      32 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        assert_eq!(control_groups(mounts), "v1 cpu,cpuacct; v2");
        assert_eq!(control_groups(""), "");
    }

    #[test]
    fn this_machine_has_a_kernel_processors_and_memory() {
        let machine = Machine::read();
        assert!(machine.kernel.starts_with(|c: char| c.is_ascii_digit()));
        assert!(machine.processors >= 1);
        assert!(machine.memory.0 > 1 << 20);
        assert!(machine.congestion_controls.contains(&"reno".to_owned()));
        assert!(machine.open_files.0 <= machine.open_files.1);
        assert!((0.0..=1.0).contains(&machine.steal));
    }

    #[test]
    fn contention_is_pressure_or_without_it_the_number_of_runnable_threads() {
        let loadavg = || "0.20 0.18 0.12 3/80 11206\n".to_owned();
        let pressure = "some avg10=89.31 avg60=83.67 avg300=66.46 total=464172317\n\
                        full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        let waited = Duration::from_micros(464_172_317);
        assert_eq!(
            contention(pressure, loadavg),
            Some(Contention::Waited(waited))
        );
        assert_eq!(contention("", loadavg), Some(Contention::Runnable(3)));
        assert_eq!(contention("", String::new), None);
        assert!(processors_online() >= 1);
    }
}
