//! A program and all its descendants.
//!
//! The processes are found by `/proc/PID/task/*/children`, or by the parent of every process on kernels without these
//! files. When a process exits, its usage is added to its parent's usage, but only *after the parent has waited for
//! it*. A child that outlives its parent is adopted by the nearest init. If that init is outside the tree, the child's
//! usage is lost. A [`HostProcess`](crate::HostProcess) has its own init, so it loses no usage. The usage of a [control
//! group](crate::cgroup) is always complete.
//!
//! A reading is not atomic: processes start and exit while it is taken. If the tree changed during the reading, it is
//! repeated, up to three attempts. [`ProcessTree::settled`] is true if the tree did not change in the last attempt.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use fathometer_model::Bytes;
use serde::{Deserialize, Serialize};

use super::kernel_file::{counted, value};
use crate::error::{Doing, Result};

/// The largest number of attempts to read an unchanged tree.
const ATTEMPTS: usize = 3;

/// The number of busiest threads that are reported individually.
const BUSIEST: usize = 8;

/// The expensive details to read of each process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detail {
    /// Whether to read context switches and the busiest threads. This reads two files for each *thread* (about 40 µs).
    pub switches: bool,
    /// Whether to read proportional memory ([`ProcessTree::proportional`]). The kernel walks through all pages: about
    /// 100 µs for each process, and milliseconds for a large process. Meanwhile the process can neither map nor unmap
    /// memory.
    pub proportional: bool,
}

/// One thread's CPU time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTime {
    /// The thread's number, unique while the thread exists.
    pub thread: u32,
    /// The thread's CPU time. From `schedstat`, to the nanosecond, up to the kernel's last tick if the thread runs. On
    /// kernels without `CONFIG_SCHED_INFO`, from `stat`, to 10 ms.
    pub cpu: Duration,
}

/// The sums over a process and its descendants. A figure is `None` if it could not be read for any of the processes: the
/// kernel was built without it, or the processes belong to another user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessTree {
    /// The number of existing processes, including zombies.
    pub processes: u64,
    /// The number of existing threads.
    pub threads: u64,
    /// CPU time of existing processes and of exited children that were waited for (`CLOCK_PROCESS_CPUTIME` and `stat`).
    /// The resolution is 1 ns for existing processes; for running threads, the time is up to the kernel's last tick.
    /// For exited children, the resolution is 10 ms for each process that waited for them.
    pub cpu: Duration,
    /// The part of `cpu` in user mode (`stat`), to 20 ms per existing process. If the kernel samples at every tick, the
    /// split is an estimate.
    pub user: Duration,
    /// The part of `cpu` in the kernel.
    pub system: Duration,
    /// Resident memory (`stat`). Pages shared by several processes count for each process. The kernel's count is inexact by
    /// up to 64 pages per processor.
    pub resident: Bytes,
    /// Proportional resident memory (`smaps_rollup`, PSS): a page shared by *n* processes counts 1/*n* for each, so this is
    /// the memory that the tree uses as a whole.
    pub proportional: Option<Bytes>,
    /// Page faults served from memory, including those of exited children.
    pub minor_faults: u64,
    /// Page faults that waited for a disk, including those of exited children.
    pub major_faults: u64,
    /// Voluntary context switches of existing threads (`task/*/status`).
    pub voluntary_switches: Option<u64>,
    /// Involuntary context switches of existing threads.
    pub involuntary_switches: Option<u64>,
    /// The existing threads with the most CPU time (`task/*/schedstat`), in descending order; filled with `None` if
    /// there are fewer threads.
    pub busiest: [Option<ThreadTime>; BUSIEST],
    /// Bytes read from disks (`io`), including those of exited children.
    pub read: Option<Bytes>,
    /// Bytes written to disks, including bytes in the page cache that will be written back.
    pub written: Option<Bytes>,
    /// The number of open descriptors (`fd`).
    pub descriptors: Option<u64>,
    /// Whether the tree was the same before and after the reading. If not, the usage of a process that exited during the
    /// reading may be counted twice or not at all.
    pub settled: bool,
}

impl ProcessTree {
    /// Reads a process and its descendants. Takes about 30 µs per process without details.
    ///
    /// Fails if the process itself does not exist.
    pub fn read(root: u32, detail: Detail) -> Result<ProcessTree> {
        let mut members = descendants(root);
        let mut tree = ProcessTree::default();
        for _ in 0..ATTEMPTS {
            tree = ProcessTree::of(&members, detail);
            let now = descendants(root);
            tree.settled = now == members;
            if tree.settled {
                break;
            }
            members = now;
        }
        if tree.processes == 0 {
            return Err(io::Error::from_raw_os_error(libc::ESRCH))
                .doing(format!("read the usage of process {root}"));
        }
        Ok(tree)
    }

    /// Returns the difference to an earlier reading. Figures that are not counters are copied from `self`. If a counter
    /// has decreased because a process has left the tree, the difference is 0 for times and faults, and `None` for
    /// other counters.
    pub fn since(&self, earlier: &ProcessTree) -> ProcessTree {
        let bytes = |now: Option<Bytes>, then: Option<Bytes>| {
            counted(now.map(|b| b.0), then.map(|b| b.0)).map(Bytes)
        };
        ProcessTree {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            voluntary_switches: counted(self.voluntary_switches, earlier.voluntary_switches),
            involuntary_switches: counted(self.involuntary_switches, earlier.involuntary_switches),
            busiest: busiest_since(&self.busiest, &earlier.busiest),
            read: bytes(self.read, earlier.read),
            written: bytes(self.written, earlier.written),
            settled: self.settled && earlier.settled,
            ..*self
        }
    }

    fn of(members: &[u32], detail: Detail) -> ProcessTree {
        let mut tree = ProcessTree::default();
        for &pid in members {
            // A process that exited after the tree was listed now counts as an exited child of its parent.
            let Some(stat) = read(pid, "stat").and_then(|text| Stat::parse(&text)) else {
                continue;
            };
            tree.add(pid, &stat, detail);
        }
        tree
    }

    fn add(&mut self, pid: u32, stat: &Stat, detail: Detail) {
        self.processes += 1;
        self.threads += stat.threads;
        self.cpu += stat.cpu_time(pid);
        self.user += super::ticks(stat.user + stat.ended_user);
        self.system += super::ticks(stat.system + stat.ended_system);
        self.resident += Bytes(stat.resident_pages * super::page_size());
        self.minor_faults += stat.minor_faults;
        self.major_faults += stat.major_faults;
        if let Some(io) = read(pid, "io") {
            add(&mut self.read, value(&io, "read_bytes").map(Bytes));
            add(&mut self.written, value(&io, "write_bytes").map(Bytes));
        }
        add(&mut self.descriptors, descriptors(pid));
        if detail.proportional {
            add(&mut self.proportional, proportional_of(pid));
        }
        if detail.switches {
            for thread in numbers_in(&format!("/proc/{pid}/task")) {
                let status = read(pid, &format!("task/{thread}/status")).unwrap_or_default();
                add(
                    &mut self.voluntary_switches,
                    value(&status, "voluntary_ctxt_switches"),
                );
                add(
                    &mut self.involuntary_switches,
                    value(&status, "nonvoluntary_ctxt_switches"),
                );
                if let Some(cpu) = thread_cpu_time(pid, thread) {
                    keep_busiest(&mut self.busiest, ThreadTime { thread, cpu });
                }
            }
        }
    }
}

/// Returns the PSS of a process and its descendants ([`ProcessTree::proportional`]).
pub(super) fn proportional(root: u32) -> Option<Bytes> {
    let mut sum = None;
    for pid in descendants(root) {
        add(&mut sum, proportional_of(pid));
    }
    sum
}

fn proportional_of(pid: u32) -> Option<Bytes> {
    let kibibytes = value(&read(pid, "smaps_rollup")?, "Pss")?;
    Some(Bytes(kibibytes * 1024))
}

/// Returns the CPU time of a thread.
fn thread_cpu_time(pid: u32, thread: u32) -> Option<Duration> {
    let precise = read(pid, &format!("task/{thread}/schedstat"));
    precise.and_then(|text| on_cpu(&text)).or_else(|| {
        let stat = Stat::parse(&read(pid, &format!("task/{thread}/stat"))?)?;
        Some(super::ticks(stat.user + stat.system))
    })
}

/// Parses the first field of `schedstat`: nanoseconds on a processor. Kernels without this figure have only zeros in the
/// line.
fn on_cpu(schedstat: &str) -> Option<Duration> {
    let mut fields = schedstat.split_whitespace().map(str::parse::<u64>);
    let (time, waited, turns) = (
        fields.next()?.ok()?,
        fields.next()?.ok()?,
        fields.next()?.ok()?,
    );
    (time + waited + turns > 0).then(|| Duration::from_nanos(time))
}

/// Inserts a thread into the sorted list of the busiest threads, if it is busy enough.
fn keep_busiest(busiest: &mut [Option<ThreadTime>; BUSIEST], mut thread: ThreadTime) {
    for place in busiest {
        match place {
            Some(there) if there.cpu >= thread.cpu => {}
            Some(there) => std::mem::swap(there, &mut thread),
            None => {
                *place = Some(thread);
                return;
            }
        }
    }
}

/// Returns the CPU time of threads between two readings. If the earlier list is full and does not contain a thread,
/// the thread may have existed without being among the busiest. Its earlier time is unknown, so it is left out.
fn busiest_since(
    now: &[Option<ThreadTime>; BUSIEST],
    earlier: &[Option<ThreadTime>; BUSIEST],
) -> [Option<ThreadTime>; BUSIEST] {
    let all_known = earlier.iter().any(Option::is_none);
    let mut busiest = [None; BUSIEST];
    for thread in now.iter().flatten() {
        let before = earlier.iter().flatten().find(|t| t.thread == thread.thread);
        let before = match before {
            Some(before) => before.cpu,
            None if all_known => Duration::ZERO,
            None => continue,
        };
        let cpu = thread.cpu.saturating_sub(before);
        keep_busiest(&mut busiest, ThreadTime { cpu, ..*thread });
    }
    busiest
}

/// Returns the CPU time of a process and its descendants, as in [`ProcessTree::cpu`]; 0 if the process does not
/// exist. Takes about 50 µs per process.
pub fn cpu_time(root: u32) -> Duration {
    let members = descendants(root).into_iter();
    members
        .filter_map(|pid| Some(Stat::parse(&read(pid, "stat")?)?.cpu_time(pid)))
        .sum()
}

/// Returns a process and all its descendants, parents first.
pub fn descendants(root: u32) -> Vec<u32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        next += 1;
        for thread in numbers_in(&format!("/proc/{pid}/task")) {
            let path = format!("task/{thread}/children");
            match read(pid, &path) {
                Some(children) => found.extend(
                    children
                        .split_whitespace()
                        .filter_map(|pid| pid.parse::<u32>().ok()),
                ),
                // The file is missing because the kernel was built without `CONFIG_PROC_CHILDREN`, and not because
                // a thread has just exited.
                None if pid == root
                    && fs::exists("/proc/thread-self/children").ok() != Some(true) =>
                {
                    return descendants_by_parent(root);
                }
                None => {}
            }
        }
    }
    found
}

fn descendants_by_parent(root: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> = numbers_in("/proc")
        .into_iter()
        .filter_map(|pid| Some((pid, Stat::parse(&read(pid, "stat")?)?.parent)))
        .collect();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        next += 1;
        let children = parents.iter().filter(|(_, parent)| *parent == pid);
        found.extend(children.map(|(child, _)| child));
    }
    found
}

/// Adds a term to a sum. The sum is `Some` if any of its terms is `Some`.
fn add<T: std::ops::Add<Output = T> + Copy>(sum: &mut Option<T>, more: Option<T>) {
    *sum = match (*sum, more) {
        (Some(sum), Some(more)) => Some(sum + more),
        (sum, more) => sum.or(more),
    };
}

fn read(pid: u32, file: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/{file}")).ok()
}

/// Returns the names in a directory that are numbers.
fn numbers_in(path: &str) -> Vec<u32> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Returns the number of open descriptors. Since Linux 6.2 it is the size of the directory; before, the size was 0.
fn descriptors(pid: u32) -> Option<u64> {
    let path = format!("/proc/{pid}/fd");
    match fs::metadata(&path).ok()?.size() {
        0 => fs::read_dir(&path)
            .ok()
            .map(|entries| entries.count() as u64),
        count => Some(count),
    }
}

/// Reads the CPU-time clock of a process, for all its threads, including exited threads.
fn live_cpu_time(pid: u32) -> Option<Duration> {
    let mut clock = 0;
    // SAFETY: two plain variables that outlive the calls; zero is a value of both.
    unsafe {
        if libc::clock_getcpuclockid(pid as i32, &raw mut clock) != 0 {
            return None;
        }
        let mut time: libc::timespec = std::mem::zeroed();
        if libc::clock_gettime(clock, &raw mut time) != 0 {
            return None;
        }
        Some(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }
}

/// The fields of `/proc/PID/stat` that are used. Times are in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    parent: u32,
    minor_faults: u64,
    major_faults: u64,
    user: u64,
    system: u64,
    ended_user: u64,
    ended_system: u64,
    threads: u64,
    resident_pages: u64,
}

impl Stat {
    fn parse(text: &str) -> Option<Stat> {
        // The name, in parentheses, may contain any characters. The first field after the name is field 3.
        let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
        let number = |n: usize| fields.get(n - 3)?.parse::<u64>().ok();
        Some(Stat {
            parent: number(4)? as u32,
            minor_faults: number(10)? + number(11)?,
            major_faults: number(12)? + number(13)?,
            user: number(14)?,
            system: number(15)?,
            ended_user: number(16)?,
            ended_system: number(17)?,
            threads: number(20)?,
            resident_pages: number(24)?,
        })
    }

    /// Returns the CPU time of the process and of the exited children that it has waited for.
    fn cpu_time(&self, pid: u32) -> Duration {
        // A zombie has no clock any more, but still has its ticks.
        let living = live_cpu_time(pid).unwrap_or_else(|| super::ticks(self.user + self.system));
        living + super::ticks(self.ended_user + self.ended_system)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_may_hold_anything() {
        let text = "17 (a) b (c) R 3 17 17 0 -1 4194560 100 20 7 8 150 50 30 40 20 0 4 0 99 \
                    1000000 250 18446744073709551615 1 1 0\n";
        let stat = Stat::parse(text).unwrap();
        assert_eq!(
            stat,
            Stat {
                parent: 3,
                minor_faults: 120,
                major_faults: 15,
                user: 150,
                system: 50,
                ended_user: 30,
                ended_system: 40,
                threads: 4,
                resident_pages: 250,
            }
        );
        assert_eq!(Stat::parse("17 (a) R 3"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn both_ways_to_find_a_tree_agree() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sleep 1000 & echo; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0];
        let mut output = child.stdout.take().unwrap();
        io::Read::read_exact(&mut output, &mut ready).unwrap();
        let mut tree = descendants(child.id());
        let mut by_parent = descendants_by_parent(child.id());
        tree.sort_unstable();
        by_parent.sort_unstable();
        let count = tree.len();
        for pid in tree.iter().rev() {
            // SAFETY: this test's own shell and its child, none of which was waited for.
            unsafe { libc::kill(*pid as i32, libc::SIGKILL) };
        }
        child.wait().unwrap();
        assert_eq!(tree, by_parent);
        assert_eq!(count, 2);
    }

    #[test]
    fn a_thread_has_its_processor_time_in_nanoseconds_or_in_ticks() {
        assert_eq!(
            on_cpu("1234567 89 3\n"),
            Some(Duration::from_nanos(1_234_567))
        );
        // Such kernels print a line of zeros.
        assert_eq!(on_cpu("0 0 0\n"), None);
        assert_eq!(on_cpu(""), None);
        let own = std::process::id();
        // SAFETY: returns the number of the calling thread.
        let thread = unsafe { libc::gettid() } as u32;
        let before = thread_cpu_time(own, thread).unwrap();
        let clock = crate::clock::thread_cpu_time();
        let mut after = before;
        // Reading the file takes CPU time, which the figure must show.
        while after < before + Duration::from_millis(20) {
            after = thread_cpu_time(own, thread).unwrap();
        }
        assert!(crate::clock::thread_cpu_time() - clock >= Duration::from_millis(5));
        assert_eq!(thread_cpu_time(own, u32::MAX), None);
    }

    #[test]
    fn the_busiest_threads_are_those_that_used_most_in_between() {
        let reading = |times: &[(u32, u64)]| {
            let mut busiest = [None; BUSIEST];
            for &(thread, ms) in times {
                let cpu = Duration::from_millis(ms);
                keep_busiest(&mut busiest, ThreadTime { thread, cpu });
            }
            busiest
        };
        let numbers = |busiest: [Option<ThreadTime>; BUSIEST]| {
            let threads = busiest.into_iter().flatten();
            threads
                .map(|t| (t.thread, t.cpu.as_millis() as u64))
                .collect::<Vec<_>>()
        };
        let first = reading(&[(1, 500), (2, 40)]);
        assert_eq!(numbers(first), [(1, 500), (2, 40)]);
        let then = reading(&[(1, 510), (2, 140), (3, 30)]);
        assert_eq!(
            numbers(busiest_since(&then, &first)),
            [(2, 100), (3, 30), (1, 10)]
        );
        let many: Vec<(u32, u64)> = (1..=12).map(|n| (n, u64::from(n) * 10)).collect();
        let full = reading(&many);
        assert_eq!(numbers(full)[0], (12, 120));
        assert_eq!(numbers(full).len(), BUSIEST);
        // Thread 1 was not among the busiest in the earlier reading, so its earlier time is unknown.
        let later = reading(&[(1, 900), (12, 130)]);
        assert_eq!(numbers(busiest_since(&later, &full)), [(12, 10)]);
    }

    #[test]
    fn sums_are_there_when_anything_of_them_is() {
        let mut sum = None;
        add(&mut sum, None::<u64>);
        assert_eq!(sum, None);
        add(&mut sum, Some(0));
        assert_eq!(sum, Some(0));
        add(&mut sum, None);
        add(&mut sum, Some(5));
        assert_eq!(sum, Some(5));
    }

    #[test]
    fn a_missing_process_has_no_tree() {
        let error = ProcessTree::read(u32::MAX / 2, Detail::default()).unwrap_err();
        assert_eq!(error.errno(), Some(libc::ESRCH));
    }
}
