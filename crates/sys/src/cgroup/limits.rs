//! The limits of a host, and their settings in each version of the interface.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use fathometer_model::Bytes;
use serde::{Deserialize, Serialize};

use crate::applied_limit::AppliedLimit;
use crate::error::{Doing, Error, Result};

/// A limit of reads per second that no disk can reach.
const OUT_OF_REACH: u64 = 1 << 30;

/// The limits of a host. `None` means unlimited.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// The limit of CPU time.
    pub cpu: Option<CpuLimit>,
    /// The limit of memory, including page cache and, in version 2, socket buffers. Swap is not used.
    pub memory: Option<Bytes>,
    /// The limit of traffic with one disk.
    pub disk: Option<DiskLimit>,
    /// A disk whose traffic is counted ([`Group::disk_usage`](super::Group::disk_usage)), even without a limit. If `None`,
    /// some kernels count only disks with a limit. If the kernel cannot count, there is no figure and no error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts_disk: Option<BlockDevice>,
    /// The processors that may be used, by number.
    pub cores: Option<Vec<usize>>,
    /// The limit of open descriptors per process, sockets included (`RLIMIT_NOFILE`, soft and hard). It applies to *each*
    /// placed process and its descendants. A running process or thread that is moved into the group keeps its old limit.
    pub descriptors: Option<u64>,
}

/// A limit of CPU time, summed over all processors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuLimit {
    /// The number of processors: 0.25 is a quarter of a processor.
    pub quota: f64,
    /// The period of the quota: when the quota is used up, threads wait for the next period. The period is from 1 ms to
    /// 1 s; the kernel's default is 100 ms. A shorter period is smoother, but has more overhead.
    pub period: Duration,
    /// The unused quota of earlier periods that may be used later, at most one quota (Linux 5.14 and later; earlier kernels
    /// ignore it).
    ///
    /// Linux assigns quotas to processors in slices of 5 ms. If the quota is smaller, the first processor in a period
    /// gets all of it. A thread on another processor cannot use the unused part, which is lost: the thread waits for
    /// the next period. A saturated server on two processors used 92 to 98 % of a quota of 0.2 cores; with a burst of
    /// one quota, 99 to 101 %.
    #[serde(default)]
    pub burst: Duration,
}

/// The names of the burst's setting in versions 1 and 2 of the interface.
const BURSTS: [&str; 2] = ["cpu.cfs_burst_us", "cpu.max.burst"];

impl CpuLimit {
    /// Returns a quota over periods of 10 ms, with a burst of one quota. With such short periods, the host behaves like a
    /// host with a slow processor rather than a host that alternates between running and stopping.
    pub fn cores(quota: f64) -> CpuLimit {
        CpuLimit::over(quota, Duration::from_millis(10))
    }

    /// Returns a quota over periods of this length, with a burst of one quota.
    pub fn over(quota: f64, period: Duration) -> CpuLimit {
        // An invalid quota, which the kernel rejects later, has no burst.
        let burst = Duration::try_from_secs_f64(quota * period.as_secs_f64());
        CpuLimit {
            quota,
            period,
            burst: burst.unwrap_or_default(),
        }
    }

    /// Returns the burst that the kernel has accepted, from the settings read back.
    pub fn burst_of(applied: &[AppliedLimit]) -> Duration {
        let found = applied
            .iter()
            .find(|limit| BURSTS.contains(&limit.what.as_str()));
        let burst = found.and_then(|limit| limit.got.parse().ok());
        Duration::from_micros(burst.unwrap_or(0))
    }

    /// Returns two settings of the burst: 0, which must be written before the quota, because the kernel rejects a quota
    /// below the current burst; and the wanted burst, if it is not 0.
    fn burst_settings(&self, file: &'static str) -> (Setting, Option<Setting>) {
        let none = setting("cpu", file, "0", Kind::Before);
        let burst = self.burst.as_micros();
        let wanted = (burst > 0).then(|| setting("cpu", file, burst.to_string(), Kind::Optional));
        (none, wanted)
    }

    /// Returns quota and period in microseconds.
    pub(super) fn microseconds(&self) -> Result<(u64, u64)> {
        let period = self.period.as_micros() as u64;
        let quota = (self.quota * period as f64).round();
        // The kernel's minimum is 1 ms for both.
        if !(1_000..=1_000_000).contains(&period) || !(1_000.0..1e12).contains(&quota) {
            return Err(Error::NoLimit {
                what: "CPU time",
                reason: format!(
                    "{} processors over {:?} is {quota} µs; quota and period must be at least \
                     1 ms, the period at most 1 s",
                    self.quota, self.period
                ),
            });
        }
        Ok((quota as u64, period))
    }
}

/// A limit of traffic with one disk. `None` means unlimited.
///
/// In version 1 of control groups, only writes that bypass the page cache (`O_DIRECT`) or wait for the disk are throttled;
/// write-back by the kernel is not. Reads that miss the page cache are throttled in both versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskLimit {
    /// The disk.
    pub device: BlockDevice,
    /// Bytes read per second.
    pub read_bytes_per_s: Option<u64>,
    /// Bytes written per second.
    pub write_bytes_per_s: Option<u64>,
    /// Read operations per second.
    pub read_ops_per_s: Option<u64>,
    /// Write operations per second.
    pub write_ops_per_s: Option<u64>,
}

impl DiskLimit {
    /// Returns the limits in the order of the fields.
    pub(super) fn rates(&self) -> [Option<u64>; 4] {
        [
            self.read_bytes_per_s,
            self.write_bytes_per_s,
            self.read_ops_per_s,
            self.write_ops_per_s,
        ]
    }
}

/// A whole disk, identified by its device numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BlockDevice {
    /// The driver's (major) number.
    pub major: u32,
    /// The disk's (minor) number for that driver.
    pub minor: u32,
}

impl BlockDevice {
    /// Returns the disk that contains a file or directory; for a partition, the whole disk.
    ///
    /// Fails for file systems that are not on a single disk: tmpfs, overlay, network file systems, btrfs, ZFS.
    pub fn of_path(path: &Path) -> Result<BlockDevice> {
        let number = fs::metadata(path)
            .doing(format!("find the disk of {}", path.display()))?
            .dev();
        let (major, minor) = (libc::major(number), libc::minor(number));
        let reason = || Error::NoLimit {
            what: "disk traffic",
            reason: format!(
                "{} is not on a single disk (device {major}:{minor})",
                path.display()
            ),
        };
        let directory =
            fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).map_err(|_| reason())?;
        BlockDevice::of_directory(&directory).ok_or_else(reason)
    }

    /// Returns the disk with this directory in sysfs; for a partition, the whole disk.
    pub(super) fn of_directory(directory: &Path) -> Option<BlockDevice> {
        let disk = match directory.join("partition").exists() {
            true => directory.parent()?,
            false => directory,
        };
        let numbers = fs::read_to_string(disk.join("dev")).ok()?;
        BlockDevice::parse(numbers.trim())
    }

    /// Returns the kernel's name of the disk, as in `vda`; `None` if there is no such disk.
    pub fn name(self) -> Option<String> {
        let link = fs::read_link(Path::new("/sys/dev/block").join(self.to_string())).ok()?;
        Some(link.file_name()?.to_str()?.to_owned())
    }

    /// Parses device numbers like `254:0`.
    pub(super) fn parse(text: &str) -> Option<BlockDevice> {
        let (major, minor) = text.split_once(':')?;
        Some(BlockDevice {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }
}

impl std::fmt::Display for BlockDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// One setting: a file of one controller, the value to write, and the comparison with the value read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    /// The controller's name in the interface.
    pub(super) controller: &'static str,
    pub(super) file: &'static str,
    pub(super) value: String,
    pub(super) kind: Kind,
}

/// The comparison of a setting with the value read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The text must be the same.
    Same,
    /// The kernel rounds the value down to whole pages.
    Memory,
    /// The set of processors must be the same, but may be written differently.
    List,
    /// One line among the lines of other disks. The line may contain other limits too.
    Disk,
    /// A setting that is missing on some machines: swap without swap support, bursts before Linux 5.14.
    Optional,
    /// A setting that is written before another setting and changed afterwards, so it is not compared. It may be missing.
    Before,
    /// A limit that cannot be reached and only makes the kernel count. If it fails, there is no count.
    Count,
}

impl Limits {
    /// Returns the settings of version 1, in the order that the kernel requires.
    pub(super) fn settings_v1(&self) -> Result<Vec<Setting>> {
        let mut settings = Vec::new();
        if let Some(cpu) = &self.cpu {
            let (quota, period) = cpu.microseconds()?;
            let (no_burst, burst) = cpu.burst_settings(BURSTS[0]);
            settings.extend([
                no_burst,
                setting("cpu", "cpu.cfs_period_us", period.to_string(), Kind::Same),
                setting("cpu", "cpu.cfs_quota_us", quota.to_string(), Kind::Same),
            ]);
            settings.extend(burst);
        }
        if let Some(memory) = self.memory {
            let limit = memory.0.to_string();
            settings.extend([
                setting("memory", "memory.limit_in_bytes", limit, Kind::Memory),
                // At 0, reclaim within the limit never swaps. (A limit of memory and swap together would have the
                // same effect, but with it some kernels do not count hits of the limit.)
                setting("memory", "memory.swappiness", "0", Kind::Optional),
            ]);
        }
        if let Some(disk) = &self.disk {
            let names = [
                "blkio.throttle.read_bps_device",
                "blkio.throttle.write_bps_device",
                "blkio.throttle.read_iops_device",
                "blkio.throttle.write_iops_device",
            ];
            for (file, limit) in names.into_iter().zip(disk.rates()) {
                if let Some(limit) = limit {
                    let value = format!("{} {limit}", disk.device);
                    settings.push(setting("blkio", file, value, Kind::Disk));
                }
            }
        }
        settings.extend(self.count_setting_v1());
        settings.extend(self.cores_setting()?);
        Ok(settings)
    }

    /// Returns the settings of version 2.
    pub(super) fn settings_v2(&self) -> Result<Vec<Setting>> {
        let mut settings = Vec::new();
        if let Some(cpu) = &self.cpu {
            let (quota, period) = cpu.microseconds()?;
            let value = format!("{quota} {period}");
            let (no_burst, burst) = cpu.burst_settings(BURSTS[1]);
            settings.extend([no_burst, setting("cpu", "cpu.max", value, Kind::Same)]);
            settings.extend(burst);
        }
        if let Some(memory) = self.memory {
            settings.extend([
                setting("memory", "memory.max", memory.0.to_string(), Kind::Memory),
                setting("memory", "memory.swap.max", "0", Kind::Optional),
            ]);
        }
        if let Some(disk) = &self.disk {
            let mut value = disk.device.to_string();
            for (word, limit) in ["rbps", "wbps", "riops", "wiops"]
                .into_iter()
                .zip(disk.rates())
            {
                if let Some(limit) = limit {
                    write!(value, " {word}={limit}").expect("writing to a string cannot fail");
                }
            }
            settings.push(setting("io", "io.max", value, Kind::Disk));
        }
        settings.extend(self.cores_setting()?);
        Ok(settings)
    }

    /// Returns the setting that makes version 1 count traffic: the kernel counts on disks for which some group has a limit
    /// (`blk_throtl_activated` of block/blk-throttle.h). The value cannot be reached. If the disk has a limit already, no
    /// such setting is needed.
    fn count_setting_v1(&self) -> Option<Setting> {
        let device = self.counts_disk?;
        let is_limited = self.disk.as_ref().is_some_and(|disk| disk.device == device);
        let value = format!("{device} {OUT_OF_REACH}");
        let file = "blkio.throttle.read_iops_device";
        (!is_limited).then(|| setting("blkio", file, value, Kind::Count))
    }

    /// Returns the setting of the processors, which is the same in both versions.
    fn cores_setting(&self) -> Result<Option<Setting>> {
        let Some(cores) = &self.cores else {
            return Ok(None);
        };
        Ok(Some(setting(
            "cpuset",
            "cpuset.cpus",
            list(cores)?,
            Kind::List,
        )))
    }
}

fn setting(
    controller: &'static str,
    file: &'static str,
    value: impl Into<String>,
    kind: Kind,
) -> Setting {
    Setting {
        controller,
        file,
        value: value.into(),
        kind,
    }
}

impl Setting {
    /// Compares the setting with the current text of the file.
    pub(super) fn compare(&self, text: &str) -> AppliedLimit {
        let mut got = text.trim().to_owned();
        let holds = match self.kind {
            Kind::Same | Kind::Optional => got == self.value,
            Kind::Count | Kind::Before => true,
            Kind::Memory => rounded(&self.value, &got),
            Kind::List => match (processors(&self.value), processors(&got)) {
                (Some(wanted), Some(got)) => wanted == got,
                _ => false,
            },
            Kind::Disk => {
                let mut wanted = self.value.split(' ');
                let device = wanted.next().unwrap_or_default();
                let mut lines = text.lines();
                let line = lines.find(|line| line.split(' ').next() == Some(device));
                got = line.unwrap_or_default().to_owned();
                wanted.all(|word| got.split(' ').any(|found| found == word))
            }
        };
        AppliedLimit {
            what: self.file.to_owned(),
            wanted: self.value.clone(),
            got,
            holds,
        }
    }
}

/// Whether `got` is `wanted` rounded down to whole pages, of at most 64 KiB.
fn rounded(wanted: &str, got: &str) -> bool {
    match (wanted.parse::<u64>(), got.parse::<u64>()) {
        (Ok(wanted), Ok(got)) => got <= wanted && wanted - got < 65_536,
        _ => false,
    }
}

fn list(cores: &[usize]) -> Result<String> {
    if cores.is_empty() {
        return Err(Error::NoLimit {
            what: "choice of processors",
            reason: "the list is empty".to_owned(),
        });
    }
    let names: Vec<String> = cores.iter().map(usize::to_string).collect();
    Ok(names.join(","))
}

/// Parses a list of processors like `0-2,5`, and sorts it.
pub(super) fn processors(list: &str) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    for part in list.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        found.extend(first..=last);
    }
    found.sort_unstable();
    found.dedup();
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            cpu: Some(CpuLimit::cores(0.25)),
            memory: Some(Bytes(10_000_000)),
            disk: Some(DiskLimit {
                device: BlockDevice {
                    major: 254,
                    minor: 0,
                },
                read_bytes_per_s: Some(1_000_000),
                write_bytes_per_s: None,
                read_ops_per_s: None,
                write_ops_per_s: Some(50),
            }),
            counts_disk: None,
            cores: Some(vec![2, 0, 1]),
            descriptors: None,
        }
    }

    fn written(settings: &[Setting]) -> Vec<String> {
        settings
            .iter()
            .map(|setting| format!("{}={}", setting.file, setting.value))
            .collect()
    }

    #[test]
    fn both_interfaces_get_the_same_limits() {
        assert_eq!(
            written(&limits().settings_v1().unwrap()),
            [
                "cpu.cfs_burst_us=0",
                "cpu.cfs_period_us=10000",
                "cpu.cfs_quota_us=2500",
                "cpu.cfs_burst_us=2500",
                "memory.limit_in_bytes=10000000",
                "memory.swappiness=0",
                "blkio.throttle.read_bps_device=254:0 1000000",
                "blkio.throttle.write_iops_device=254:0 50",
                "cpuset.cpus=2,0,1",
            ]
        );
        assert_eq!(
            written(&limits().settings_v2().unwrap()),
            [
                "cpu.max.burst=0",
                "cpu.max=2500 10000",
                "cpu.max.burst=2500",
                "memory.max=10000000",
                "memory.swap.max=0",
                "io.max=254:0 rbps=1000000 wiops=50",
                "cpuset.cpus=2,0,1",
            ]
        );
        assert!(Limits::default().settings_v1().unwrap().is_empty());
    }

    #[test]
    fn a_disk_without_a_limit_is_counted_by_a_limit_out_of_reach() {
        let device = BlockDevice {
            major: 254,
            minor: 0,
        };
        let counted = Limits {
            counts_disk: Some(device),
            ..Limits::default()
        };
        let settings = counted.settings_v1().unwrap();
        assert_eq!(
            written(&settings),
            ["blkio.throttle.read_iops_device=254:0 1073741824"]
        );
        assert!(settings[0].compare("").holds, "nothing is limited");
        // Version 2 counts without such a setting.
        assert!(counted.settings_v2().unwrap().is_empty());
        let limited = Limits {
            counts_disk: Some(device),
            ..limits()
        };
        assert_eq!(
            limited.settings_v1().unwrap(),
            limits().settings_v1().unwrap()
        );
    }

    #[test]
    fn a_limit_is_known_again_however_the_kernel_writes_it() {
        let settings = limits().settings_v2().unwrap();
        let holds = |n: usize, text: &str| settings[n].compare(text).holds;
        assert!(holds(0, "2500\n"), "the burst is set afterwards");
        assert!(holds(1, "2500 10000\n"));
        assert!(!holds(1, "max 100000\n"));
        assert!(holds(2, "2500\n"));
        assert!(!holds(2, "0\n"));
        assert!(holds(3, "9998336\n"), "whole pages");
        assert!(!holds(3, "max\n"));
        assert!(!holds(3, "10004096\n"), "more than requested");
        assert!(holds(
            5,
            "8:0 rbps=max wbps=max riops=max wiops=max\n\
             254:0 rbps=1000000 wbps=max riops=max wiops=50\n"
        ));
        assert!(!holds(5, "8:0 rbps=1000000 wbps=max riops=max wiops=50\n"));
        assert!(!holds(5, ""));
        assert!(holds(6, "0-2\n"));
        assert!(!holds(6, "0-3\n"));
        let settings = limits().settings_v1().unwrap();
        assert!(settings[6].compare("254:0 1000000\n").holds);
        assert_eq!(settings[6].compare("8:0 7\n").got, "");
    }

    #[test]
    fn a_burst_is_what_the_kernel_has_taken() {
        let settings = limits().settings_v1().unwrap();
        let read_back = |text: &str| {
            let applied: Vec<AppliedLimit> = settings[1..]
                .iter()
                .map(|setting| setting.compare(text))
                .collect();
            CpuLimit::burst_of(&applied)
        };
        assert_eq!(read_back("2500\n"), Duration::from_micros(2_500));
        assert_eq!(CpuLimit::burst_of(&[]), Duration::ZERO);
    }

    #[test]
    fn quotas_that_the_kernel_does_not_take_are_refused_with_the_bounds() {
        for (quota, milliseconds) in [(0.05, 10), (0.0, 100), (f64::NAN, 100), (1.0, 2_000)] {
            let limit = CpuLimit::over(quota, Duration::from_millis(milliseconds));
            let error = limit.microseconds().unwrap_err().to_string();
            assert!(error.contains("at least 1 ms"), "{error}");
        }
        let smallest = CpuLimit::over(0.001, Duration::from_secs(1));
        assert_eq!(smallest.microseconds().unwrap(), (1_000, 1_000_000));
    }

    #[test]
    fn no_file_system_in_memory_has_a_disk() {
        let error = BlockDevice::of_path(Path::new("/proc")).unwrap_err();
        assert!(
            error.to_string().contains("not on a single disk"),
            "{error}"
        );
        assert!(BlockDevice::of_path(Path::new("/nonexistent/path")).is_err());
    }
}
