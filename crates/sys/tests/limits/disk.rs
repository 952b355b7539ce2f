//! The disk limits of a host: page cache within the memory limit, and traffic at the requested rate.

use std::fs;
use std::time::Duration;

use fathometer_model::Bytes;
use fathometer_sys::cgroup::{self, BlockDevice, DiskLimit, Group, Limits};
use fathometer_sys::page_cache::Mapped;

use crate::host::{ColdFile, Shell, cold_file, group};

/// The maximum number of attempts; one of them must reach the rate of the limit.
const ATTEMPTS: u64 = 8;

fn unlimited(file: &ColdFile) -> DiskLimit {
    DiskLimit {
        device: BlockDevice::of_path(&file.path).unwrap(),
        read_bytes_per_s: None,
        write_bytes_per_s: None,
        read_ops_per_s: None,
        write_ops_per_s: None,
    }
}

#[test]
fn page_cache_counts_against_the_memory_limit() {
    const LIMIT: u64 = 16 << 20;
    const FILE: u64 = 48 << 20;
    let Some(file) = cold_file("cache", FILE) else {
        return;
    };
    let limits = Limits {
        memory: Some(Bytes(LIMIT)),
        // Counts reads even without a disk limit.
        counts_disk: Some(BlockDevice::of_path(&file.path).unwrap()),
        ..Limits::default()
    };
    let Some(group) = group("cache", &limits) else {
        return;
    };
    let mut shell = Shell::start(&group);
    let pid = shell.child.id();
    if group.disk_usage().is_none() {
        // In version 2, the kernel counts reads only in a group whose parent has no processes.
        let disk = cgroup::controllers()
            .into_iter()
            .find(|known| known.name == "disk");
        let version = disk.and_then(|known| Some(known.interface?.0));
        assert_ne!(version, Some(1), "the group's reads are not counted");
        return eprintln!("SKIPPED, no control group counts reads here");
    }
    let charged = |group: &Group| group.disk_usage().unwrap().read.0;
    let mut of_group = vec![charged(&group)];
    let line = format!("cat '{}' > /dev/null", file.path.display());
    let mut read = vec![disk_reads(pid)];
    for _ in 0..2 {
        shell.run(&line);
        read.push(disk_reads(pid));
        of_group.push(charged(&group));
        let cached = group.memory_usage().page_cache.unwrap();
        assert!(Bytes(0) < cached && cached <= Bytes(LIMIT), "{cached}");
    }
    assert!(read[1] - read[0] >= FILE, "a cold cache: {read:?}");
    assert!(
        read[2] - read[1] >= FILE - LIMIT,
        "pages beyond the limit are read again: {read:?}"
    );
    assert!(of_group[1] - of_group[0] >= FILE, "{of_group:?}");
    assert!(of_group[2] - of_group[1] >= FILE - LIMIT, "{of_group:?}");
    let traffic = group.disk_usage().unwrap();
    let most = traffic.read.0 / 4096;
    assert!((1..=most).contains(&traffic.reads), "{traffic:?}");
    let usage = group.memory_usage();
    assert!(usage.peak.unwrap() <= Bytes(LIMIT), "{usage:?}");
    assert!(usage.limit_hits.unwrap() > 0, "{usage:?}");
    assert_eq!(usage.killed.unwrap_or(0), 0);
    // Members that wait for the disk count as stalled, if the kernel has pressure stall information.
    let pressure = group.usage_probe().pressure();
    assert_ne!(pressure.io_some, Some(Duration::ZERO), "{pressure:?}");
    println!("{read:?} {of_group:?} {usage:?} {pressure:?}");
}

#[test]
fn a_mapping_elsewhere_keeps_no_page_from_the_limit() {
    const LIMIT: u64 = 16 << 20;
    const FILE: u64 = 48 << 20;
    let Some(file) = cold_file("mapped", FILE) else {
        return;
    };
    let limits = Limits {
        memory: Some(Bytes(LIMIT)),
        ..Limits::default()
    };
    let Some(group) = group("mapped", &limits) else {
        return;
    };
    let mapped = Mapped::new(&fs::File::open(&file.path).unwrap());
    let mapped = mapped.unwrap().unwrap();
    let mut shell = Shell::start(&group);
    let pid = shell.child.id();
    // SAFETY: reads a constant of the system.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let mut room = Vec::new();
    let mut read = vec![disk_reads(pid)];
    for _ in 0..3 {
        // Reads the file in twelve parts, so that pages are mapped while the group is at its limit.
        for piece in 0..12 {
            let copy = format!(
                "dd if='{}' of=/dev/null bs=4M count=1 skip={piece} 2>&1",
                file.path.display()
            );
            shell.run(&copy);
            let pages = mapped.follow(&mut room).unwrap();
            assert!(pages * page <= LIMIT, "{pages} pages are in memory");
        }
        read.push(disk_reads(pid));
    }
    for pass in read.windows(2) {
        assert!(pass[1] - pass[0] >= FILE - LIMIT, "{read:?}");
    }
    let usage = group.memory_usage();
    assert!(usage.peak.unwrap() <= Bytes(LIMIT), "{usage:?}");
    assert!(usage.limit_hits.unwrap() > 0, "{usage:?}");
    assert_eq!(usage.killed.unwrap_or(0), 0);
}

/// Repeats a copy by `dd` in a group with this limit until its rate is within 5 % of the limit. Other load on the
/// machine can slow a copy down, but cannot make it faster than the limit.
///
/// The kernel does not throttle the first 0.1 to 0.2 s, so the copy must be long.
fn rate_within_5_percent(name: &str, file: &ColdFile, disk: DiskLimit, copy: &Copy) {
    let limits = Limits {
        disk: Some(disk),
        ..Limits::default()
    };
    let Some(group) = group(name, &limits) else {
        return;
    };
    let mut shell = Shell::start(&group);
    let line = copy.line(file);
    let mut rates = Vec::new();
    for attempt in 0..ATTEMPTS {
        // Other users of the disk need time to finish.
        std::thread::sleep(Duration::from_secs(attempt));
        let before = group.disk_usage().unwrap();
        let said = shell.run(&line);
        let moved = group.disk_usage().unwrap().since(&before).unwrap();
        let (bytes, operations) = if copy.reads {
            (moved.read, moved.reads)
        } else {
            (moved.written, moved.writes)
        };
        let wanted = copy.block * copy.count;
        assert!(bytes >= Bytes(wanted), "{moved:?}, not {wanted}");
        assert!(operations >= copy.count, "{moved:?}, not {}", copy.count);
        let rate = copy.amount() / seconds(&said);
        rates.push(rate);
        assert!(
            rate <= 1.05 * copy.rate,
            "{rates:.1?} per second, the limit is {} per second",
            copy.rate
        );
        if rate >= 0.95 * copy.rate {
            return println!("{name}: {rates:.1?} of {}", copy.rate);
        }
    }
    let freely = copy.amount() / seconds(&Shell::start_outside().run(&line));
    panic!(
        "{rates:.1?} per second, the limit is {} per second; {freely:.1} without a limit{}",
        copy.rate,
        if freely < 4.0 * copy.rate {
            " (the disk is too busy to judge: repeat this test without other load)"
        } else {
            ""
        }
    );
}

/// A copy by `dd` that bypasses the page cache.
struct Copy {
    /// Whether the copy reads the file; otherwise it writes the file.
    reads: bool,
    block: u64,
    count: u64,
    /// The limit, per second.
    rate: f64,
    /// Whether the limit counts operations; otherwise it counts bytes.
    operations: bool,
}

impl Copy {
    fn line(&self, file: &ColdFile) -> String {
        let file = file.path.display();
        let ends = match self.reads {
            true => format!("if='{file}' of=/dev/null iflag=direct"),
            false => format!("if=/dev/zero of='{file}' oflag=direct conv=notrunc"),
        };
        let size = format!("bs={} count={}", self.block, self.count);
        format!("LC_ALL=C dd {ends} {size} 2>&1")
    }

    fn amount(&self) -> f64 {
        let each = if self.operations { 1 } else { self.block };
        (each * self.count) as f64
    }
}

/// Parses `16777216 bytes (17 MB, 16 MiB) copied, 4.0012 s, 4.2 MB/s`. `dd` counts from its first read to its
/// last write.
fn seconds(said: &str) -> f64 {
    let (_, rest) = said.split_once("copied, ").expect(said);
    let (seconds, _) = rest.split_once(" s").expect(said);
    seconds.parse().expect(said)
}

const RATE: u64 = 4 << 20;

#[test]
fn bytes_are_read_at_the_limit() {
    let Some(file) = cold_file("read-bytes", 16 << 20) else {
        return;
    };
    let limit = DiskLimit {
        read_bytes_per_s: Some(RATE),
        ..unlimited(&file)
    };
    let copy = Copy {
        reads: true,
        block: 64 << 10,
        count: 256,
        rate: RATE as f64,
        operations: false,
    };
    rate_within_5_percent("read-bytes", &file, limit, &copy);
}

#[test]
fn bytes_are_written_at_the_limit() {
    let Some(file) = cold_file("write-bytes", 16 << 20) else {
        return;
    };
    let limit = DiskLimit {
        write_bytes_per_s: Some(RATE),
        ..unlimited(&file)
    };
    let copy = Copy {
        reads: false,
        block: 64 << 10,
        count: 256,
        rate: RATE as f64,
        operations: false,
    };
    rate_within_5_percent("write-bytes", &file, limit, &copy);
}

#[test]
fn operations_are_done_at_the_limit() {
    let Some(file) = cold_file("read-operations", 8 << 20) else {
        return;
    };
    let limit = DiskLimit {
        read_ops_per_s: Some(200),
        ..unlimited(&file)
    };
    let copy = Copy {
        reads: true,
        block: 4 << 10,
        count: 1600,
        rate: 200.0,
        operations: true,
    };
    rate_within_5_percent("read-operations", &file, limit, &copy);
}

/// Returns the bytes that a process and its exited children have read from disks.
fn disk_reads(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix("read_bytes: "));
    line.unwrap().parse().unwrap()
}
