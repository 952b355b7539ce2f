//! Tests that limits of hosts take effect on real programs. They need the privilege to create control groups. Without
//! it they print a message and pass; with `FATHOMETER_REQUIRE_LAB=1` they fail.
//!
//! A busy machine can make a program slower than its limit, never faster. Assertions about speed are
//! therefore upper bounds, or are retried.
//!
//! A separate test program: creating a control group may move this process into another group, and the busy loops here
//! would disturb the times that other tests measure.

#![expect(
    unsafe_code,
    reason = "the tests call libc where this crate has no wrapper"
)]

mod descriptors;
mod disk;
mod host;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fathometer_sys::cgroup::{CpuLimit, Group, Limits, remove_stale, test_limits};
use fathometer_sys::error::Error;

use host::{PATIENCE, Shell, group};

/// The tick of the clock in `/proc`.
const TICK: Duration = Duration::from_millis(10);

/// The period of the kernel's processor quota.
const PERIOD: Duration = Duration::from_millis(100);

/// The maximum number of attempts to compare two times that are read one after the other. An interrupt or steal time of
/// the hypervisor can occur between the two readings.
const ATTEMPTS: usize = 5;

fn cpu(quota: f64) -> Limits {
    Limits {
        cpu: Some(CpuLimit::cores(quota)),
        ..Limits::default()
    }
}

#[test]
fn a_quota_of_a_quarter_of_a_processor_is_kept() {
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
        // The kernel adds a throttled time when it ends; the period is counted earlier.
        let was_throttled = usage.throttled.unwrap() > Duration::ZERO;
        if enough && was_throttled {
            break usage;
        }
    };
    // The period of the quota is 0.1 s. The quota of the last period may be used up when the period has just begun.
    // Quota that is assigned to a processor is returned only some time after the process has left that processor.
    let share = usage.total.as_secs_f64() / start.elapsed().as_secs_f64();
    let most = (start.elapsed() + PERIOD).mul_f64(0.25) + TICK;
    assert!(usage.total <= most, "{share} of a processor: {usage:?}");
    assert!(usage.throttled_periods.unwrap() > 0, "{usage:?}");
    // If the kernel has pressure stall information, it shows that a runnable thread did not run.
    let pressure = group.usage_probe().pressure();
    assert_ne!(pressure.cpu_some, Some(Duration::ZERO), "{pressure:?}");
    println!("quota 0.25, used {share:.3}: {usage:?}");
}

#[test]
fn what_ended_processes_used_is_in_the_account() {
    let mut results = Vec::new();
    for _ in 0..ATTEMPTS {
        let Some(group) = group("account", &Limits::default()) else {
            return;
        };
        let (counted, truth) = used_by_a_process(&group);
        // The fork and the reaping are accounted outside the group.
        let slack = TICK.max(truth * 3 / 100);
        if counted.abs_diff(truth) <= slack {
            return println!("{counted:?} counted, {truth:?} used");
        }
        results.push((counted, truth));
    }
    panic!("counted usage, used time: {results:?}");
}

/// Returns the usage of a process in the group, from the group's counters and from `wait4`.
#[expect(
    clippy::zombie_processes,
    reason = "wait4 reaps it and returns its usage"
)]
fn used_by_a_process(group: &Group) -> (Duration, Duration) {
    let mut command = Command::new("sh");
    command.args(["-c", "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"]);
    group.place(&mut command).unwrap();
    let child = command.spawn().unwrap();
    // SAFETY: plain data, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    let pid = child.id() as i32;
    // SAFETY: the test's own child, and a variable that outlives the call.
    let reaped = unsafe { libc::wait4(pid, std::ptr::null_mut(), 0, &raw mut usage) };
    assert_eq!(reaped, pid);
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    let truth = time(usage.ru_utime) + time(usage.ru_stime);
    let counted = group.cpu_usage().unwrap().total;
    assert!(truth > Duration::from_millis(20), "{truth:?}");
    (counted, truth)
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
fn a_group_leaves_no_directory_and_kills_no_process() {
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
    // Starts this executable again; the environment variable selects its role as the program.
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "owner_that_will_be_killed", "--nocapture"])
        .env("FATHOMETER_TEST_OWNER", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    let mut value = |key: &str| {
        lines
            .find_map(|line| line.unwrap().strip_prefix(key).map(str::to_owned))
            .unwrap()
    };
    let directory = PathBuf::from(value("directory "));
    let member: i32 = value("member ").parse().unwrap();
    remove_stale();
    assert!(directory.exists(), "its owner is alive");
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(directory.exists(), "the group has not been removed yet");
    remove_stale();
    assert!(!directory.exists());
    // SAFETY: the owner started the process for this test, and it still exists.
    assert_eq!(unsafe { libc::kill(member, libc::SIGKILL) }, 0);
}

/// Not a test by itself: the owner process of the test above.
#[test]
#[expect(
    clippy::zombie_processes,
    reason = "the member must outlive this process"
)]
fn owner_that_will_be_killed() {
    if std::env::var_os("FATHOMETER_TEST_OWNER").is_none() {
        return;
    }
    let group = group("killed", &cpu(0.5)).unwrap();
    let mut command = Command::new("sleep");
    command.arg("1000").stdout(Stdio::null());
    group.place(&mut command).unwrap();
    let child = command.spawn().unwrap();
    // The first line break separates this line from the output of the test harness.
    println!(
        "\ndirectory {}",
        group.directories().next().unwrap().display()
    );
    println!("member {}", child.id());
    std::thread::park();
}

#[test]
fn limits_that_a_group_has_can_be_changed_and_others_cannot() {
    let Some(mut group) = group("changed", &cpu(0.5)) else {
        return;
    };
    group.change(&cpu(0.25)).unwrap();
    assert_eq!(group.limits(), &cpu(0.25));
    let applied = group.verify().unwrap();
    assert!(!applied.is_empty());
    assert!(applied.iter().all(|limit| limit.holds), "{applied:?}");
    // The kernel rejects a quota below the previous burst.
    let takes_bursts = group.directories().any(|directory| {
        let files = ["cpu.cfs_burst_us", "cpu.max.burst"];
        files.iter().any(|file| directory.join(file).exists())
    });
    let burst = match takes_bursts {
        true => Duration::from_micros(2_500),
        false => Duration::ZERO,
    };
    assert_eq!(CpuLimit::burst_of(&applied), burst);
    let descriptors = Limits {
        descriptors: Some(100),
        ..cpu(0.25)
    };
    for other in [Limits::default(), descriptors] {
        let error = group.change(&other).unwrap_err();
        assert!(
            error.to_string().contains("fixed when it is created"),
            "{error}"
        );
    }
    assert_eq!(group.limits(), &cpu(0.25));
}

#[test]
fn a_resource_that_cannot_be_limited_is_reported_with_the_reason() {
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

/// Uses a group like a trial and like `doctor`: with processes that are started in it and moved into it.
#[test]
fn a_host_is_tested_with_processes_and_leaves_nothing() {
    if group("rehearsed", &cpu(0.5)).is_none() {
        return;
    }
    let limits = Limits {
        descriptors: Some(64),
        ..cpu(0.5)
    };
    let place = test_limits(&limits).unwrap();
    assert!(place.contains("control groups version"), "{place}");
    let nowhere = Limits {
        cores: Some(vec![100_000]),
        ..Limits::default()
    };
    test_limits(&nowhere).unwrap_err();
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
