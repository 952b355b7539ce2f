//! Limits of hosts, each seen to bind on real programs. They need the right to make control groups;
//! without it they say so and pass, unless `FATHOMETER_REQUIRE_LAB=1` makes that a failure.
//!
//! A busy machine can make a program slower than its limit, never faster: what is asserted of
//! speed is an upper bound.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use fathometer_model::Bytes;
use fathometer_sys::cgroup::{
    BlockDevice, CpuLimit, DiskLimit, Group, Limits, remove_stale, thread_number,
};
use fathometer_sys::error::Error;

/// Longer than anything here takes, and no measure of anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// The group, or a word about why there is none.
fn group(name: &str, limits: &Limits) -> Option<Group> {
    match Group::create(name, limits) {
        Ok(group) => Some(group),
        Err(error) => {
            let required = std::env::var_os("FATHOMETER_REQUIRE_LAB").is_some_and(|v| v == "1");
            assert!(!required, "limits are required: {error}");
            eprintln!("SKIPPED, no such limit on this machine: {error}");
            None
        }
    }
}

/// A shell inside a group, which is killed when the test ends.
struct Shell {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Shell {
    fn start(group: &Group) -> Shell {
        let mut command = Command::new("sh");
        group.place(&mut command).unwrap();
        Shell::of(command)
    }

    fn start_outside() -> Shell {
        Shell::of(Command::new("sh"))
    }

    fn of(mut command: Command) -> Shell {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        Shell {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// Lets the shell run a line and returns the last line that it printed.
    fn run(&mut self, line: &str) -> String {
        writeln!(self.input, "{line}; echo '<done>'").unwrap();
        let mut last = String::new();
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it ended");
            if line == "<done>\n" {
                return last;
            }
            last = line.trim_end().to_owned();
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn cpu(quota: f64) -> Limits {
    Limits {
        cpu: Some(CpuLimit::cores(quota)),
        ..Limits::default()
    }
}

#[test]
fn a_quarter_of_a_processor_is_no_more_than_that() {
    let Some(group) = group("quarter", &cpu(0.25)) else {
        return;
    };
    let start = Instant::now();
    let mut shell = Shell::start(&group);
    writeln!(shell.input, "while :; do :; done").unwrap();
    let usage = loop {
        std::thread::sleep(Duration::from_millis(50));
        let usage = group.cpu_usage().unwrap();
        let enough = usage.total >= Duration::from_millis(250);
        assert!(start.elapsed() < PATIENCE, "{usage:?}");
        if enough && usage.throttled_periods.unwrap() > 0 {
            break usage;
        }
    };
    let share = usage.total.as_secs_f64() / start.elapsed().as_secs_f64();
    assert!(share <= 0.25 * 1.1, "{share} of a processor: {usage:?}");
    assert!(usage.throttled.unwrap() > Duration::ZERO);
    println!("a quarter came to {share:.3}: {usage:?}");
}

#[test]
#[expect(
    clippy::zombie_processes,
    reason = "it is reaped, for what it used, by wait4"
)]
fn what_ended_processes_used_is_in_the_account() {
    let Some(group) = group("account", &Limits::default()) else {
        return;
    };
    let mut command = Command::new("sh");
    command.args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]);
    group.place(&mut command).unwrap();
    let child = command.spawn().unwrap();
    // SAFETY: plain data, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let pid = child.id() as i32;
    // SAFETY: our own child, and a variable that outlives the call.
    let reaped = unsafe { libc::wait4(pid, std::ptr::null_mut(), 0, &raw mut usage) };
    assert_eq!(reaped, pid);
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    let truth = time(usage.ru_utime) + time(usage.ru_stime);
    let counted = group.cpu_usage().unwrap().total;
    assert!(truth > Duration::from_millis(20), "{truth:?}");
    // Outside of the account are the fork, before the group was entered, and the reaping.
    let slack = Duration::from_millis(20).max(truth / 20);
    assert!(
        counted.abs_diff(truth) <= slack,
        "{counted:?} counted, {truth:?} used"
    );
    println!("{counted:?} counted, {truth:?} used");
}

#[test]
fn a_thread_is_accounted_to_the_group_it_was_put_into() {
    let group = match Group::create_for_threads("deliveries", &Limits::default()) {
        Ok(group) => group,
        Err(error) => return eprintln!("SKIPPED, no groups for threads: {error}"),
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            group.add_thread(thread_number()).unwrap();
            let before = group.cpu_usage().unwrap().total;
            let start = thread_time();
            while thread_time() - start < Duration::from_millis(50) {
                std::hint::black_box((0..1000u64).sum::<u64>());
            }
            let used = thread_time() - start;
            let counted = group.cpu_usage().unwrap().total - before;
            let slack = Duration::from_millis(5);
            assert!(
                counted.abs_diff(used) <= slack,
                "{counted:?} against {used:?}"
            );
        });
    });
}

fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn a_program_sees_the_processors_it_was_given() {
    let last = *fathometer_sys::sched::processors().unwrap().last().unwrap();
    let limits = Limits {
        cores: Some(vec![last]),
        ..Limits::default()
    };
    let Some(group) = group("cores", &limits) else {
        return;
    };
    let mut shell = Shell::start(&group);
    let allowed = shell.run("grep Cpus_allowed_list /proc/self/status");
    assert_eq!(
        allowed.split_whitespace().last(),
        Some(last.to_string().as_str())
    );
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
        ..Limits::default()
    };
    let Some(group) = group("cache", &limits) else {
        return;
    };
    let mut shell = Shell::start(&group);
    let pid = shell.child.id();
    let line = format!("cat '{}' > /dev/null", file.path.display());
    let mut read = vec![disk_reads(pid)];
    for _ in 0..2 {
        shell.run(&line);
        read.push(disk_reads(pid));
    }
    assert!(read[1] - read[0] >= FILE, "a cold cache: {read:?}");
    assert!(
        read[2] - read[1] >= FILE - LIMIT,
        "what does not fit is read again: {read:?}"
    );
    let usage = group.memory_usage();
    assert!(usage.peak.unwrap() <= Bytes(LIMIT), "{usage:?}");
    assert!(usage.page_cache.unwrap() > Bytes(0), "{usage:?}");
    assert!(usage.limit_hits.unwrap() > 0, "{usage:?}");
    assert_eq!(usage.killed.unwrap_or(0), 0);
    println!("{read:?} {usage:?}");
}

#[test]
fn a_slow_disk_takes_its_time() {
    const FILE: u64 = 4 << 20;
    const RATE: u64 = 8 << 20;
    let Some(file) = cold_file("disk", FILE) else {
        return;
    };
    let limits = Limits {
        disk: Some(DiskLimit {
            device: BlockDevice::of_path(&file.path).unwrap(),
            read_bytes_per_s: Some(RATE),
            write_bytes_per_s: None,
            read_ops_per_s: None,
            write_ops_per_s: None,
        }),
        ..Limits::default()
    };
    let Some(group) = group("disk", &limits) else {
        return;
    };
    let mut shell = Shell::start(&group);
    let before = group.disk_usage().unwrap();
    let start = Instant::now();
    shell.run(&format!("cat '{}' > /dev/null", file.path.display()));
    let took = start.elapsed().as_secs_f64();
    let read = group.disk_usage().unwrap().read - before.read;
    let rate = read.as_f64() / took;
    assert!(read >= Bytes(FILE), "{read}");
    assert!(rate <= RATE as f64 * 1.05, "{rate} bytes/s of {RATE}");
    println!("{rate:.0} bytes/s of {RATE}");
}

/// A file that is on a disk and not in memory.
struct ColdFile {
    path: PathBuf,
}

fn cold_file(name: &str, size: u64) -> Option<ColdFile> {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    if let Err(error) = BlockDevice::of_path(directory) {
        eprintln!("SKIPPED, no disk: {error}");
        return None;
    }
    let path = directory.join(format!("cold-{name}-{}", std::process::id()));
    let mut file = File::create(&path).unwrap();
    let cold = ColdFile { path };
    for n in 0..size >> 20 {
        file.write_all(&vec![n as u8; 1 << 20]).unwrap();
    }
    // What is not on the disk yet cannot be dropped from memory.
    file.sync_all().unwrap();
    // SAFETY: a call on an open descriptor.
    let dropped = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    assert_eq!(dropped, 0);
    Some(cold)
}

impl Drop for ColdFile {
    fn drop(&mut self) {
        fs::remove_file(&self.path).unwrap();
    }
}

/// Bytes that a process and its ended children had fetched from disks.
fn disk_reads(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix("read_bytes: "));
    line.unwrap().parse().unwrap()
}

#[test]
fn a_group_leaves_nothing_and_kills_nobody() {
    let Some(group) = group("gone", &cpu(0.5)) else {
        return;
    };
    let directories: Vec<PathBuf> = group.directories().map(Path::to_owned).collect();
    assert!(!directories.is_empty());
    let mut shell = Shell::start(&group);
    let count = "grep -c -- '-gone$' /proc/self/cgroup; true";
    assert_ne!(shell.run(count), "0");
    let mut late = Shell::start_outside();
    group.add_process(late.child.id()).unwrap();
    assert_ne!(late.run(count), "0");
    drop(group);
    for directory in directories {
        assert!(!directory.exists(), "{}", directory.display());
    }
    assert_eq!(shell.run("echo alive"), "alive");
    assert_eq!(shell.run(count), "0");
}

#[test]
fn groups_of_a_program_that_was_killed_are_removed_by_the_next() {
    if group("try", &cpu(0.5)).is_none() {
        return;
    }
    // This very executable, told by the environment to be the program.
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "owner_that_will_be_killed", "--nocapture"])
        .env("FATHOMETER_TEST_OWNER", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    let mut told = |key: &str| {
        lines
            .find_map(|line| line.unwrap().strip_prefix(key).map(str::to_owned))
            .unwrap()
    };
    let directory = PathBuf::from(told("directory "));
    let member: i32 = told("member ").parse().unwrap();
    remove_stale();
    assert!(directory.exists(), "its owner is alive");
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(directory.exists(), "nobody has removed it yet");
    remove_stale();
    assert!(!directory.exists());
    // SAFETY: the process was started by the owner for this test, and is still there.
    assert_eq!(unsafe { libc::kill(member, libc::SIGKILL) }, 0);
}

/// Not a test by itself: the owner in the test above.
#[test]
#[expect(clippy::zombie_processes, reason = "it is to outlive this process")]
fn owner_that_will_be_killed() {
    if std::env::var_os("FATHOMETER_TEST_OWNER").is_none() {
        return;
    }
    let group = group("killed", &cpu(0.5)).unwrap();
    let mut command = Command::new("sleep");
    command.arg("1000").stdout(Stdio::null());
    group.place(&mut command).unwrap();
    let child = command.spawn().unwrap();
    // A line of its own, whatever the harness has printed.
    println!(
        "\ndirectory {}",
        group.directories().next().unwrap().display()
    );
    println!("member {}", child.id());
    std::thread::park();
}

#[test]
fn what_cannot_be_limited_is_said_with_the_reason() {
    let error = Group::create("a/b", &Limits::default()).unwrap_err();
    assert!(matches!(error, Error::BadName { .. }), "{error}");
    let error = Group::create("tiny", &cpu(0.001)).unwrap_err();
    assert!(error.to_string().contains("at least 1 ms"), "{error}");
    let limits = Limits {
        cores: Some(vec![100_000]),
        ..Limits::default()
    };
    let error = Group::create("cores", &limits).unwrap_err();
    assert!(!error.to_string().is_empty());
}

#[test]
fn the_report_for_the_doctor_names_every_limit_once() {
    let abilities = fathometer_sys::cgroup::available();
    let names: Vec<&str> = abilities.iter().map(|a| a.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "cpu limit",
            "memory limit",
            "disk bytes limit",
            "disk operations limit",
            "processor choice",
            "cpu account"
        ]
    );
    for ability in &abilities {
        println!("{}: {:?}", ability.name, ability.state);
        assert!(!ability.required);
    }
}
