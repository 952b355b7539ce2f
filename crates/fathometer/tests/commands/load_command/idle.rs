//! Ten thousand users with a think time.

use std::process::{Command, Stdio};
use std::time::Duration;

use fathometer_analysis::load::Summary;
use rustix::process::{Resource, getrlimit};

use super::support::{Ended, Origin, written};
use crate::support::programs::FATHOMETER;

const USERS: u64 = 10_000;
/// Upper bound of the generator's memory for these users, in bytes.
const MOST: u64 = 64 << 20;

#[test]
fn ten_thousand_idle_users_are_small() {
    let hard = getrlimit(Resource::Nofile).maximum;
    if hard.is_some_and(|hard| hard < USERS + 500) {
        eprintln!(
            "SKIPPED ten_thousand_idle_users_are_small: only {hard:?} descriptors are available \
             (ulimit -Hn)"
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // Each user sends one request, keeps its connection, and thinks for longer than the test lasts.
    let sessions = written(&folder, "sessions", "/a.html think=600\n/b.html\n");
    let workload = format!("wsesslog:{sessions}");
    let origin = Origin::of(&workload, 1);
    // All users connect at once; a busy machine needs more time to accept them.
    let all_came = |(summary, _): &(Summary, u64)| {
        let counts = &summary.measured.counts;
        (counts.completed, counts.connected) == (USERS, USERS)
    };
    let (summary, most) = ["3s", "15s", "75s"]
        .into_iter()
        .find_map(|time| Some(idle(&origin, &workload, time)).filter(all_came))
        .expect("every user gets a response");
    let counts = &summary.measured.counts;
    assert_eq!(counts.failed, 0, "{:?}", counts.failures);
    let open = summary.timeline.iter().map(|i| i.connections).max();
    assert_eq!(open, Some(USERS));
    assert!(most > 0 && most < MOST, "{most} B");
    // The program must report its own peak memory, not the peak of this test. Writing the report takes a little more
    // memory.
    let reported = summary.generator.peak_memory_bytes;
    assert!(
        reported > most / 2 && reported < MOST,
        "{reported} B, {most} B"
    );
}

/// Runs a load of length `time`. Returns the result, and the peak resident memory of the process in bytes.
fn idle(origin: &Origin, workload: &str, time: &str) -> (Summary, u64) {
    let mut child = Command::new(FATHOMETER)
        .args(["load", "--quiet", &origin.url(), "--workload", workload])
        .args(["-c", &USERS.to_string(), "-d", time, "--json"])
        .args(["--connect-timeout", "2m", "--timeout", "2m"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        most = most.max(high_water_mark(child.id()).unwrap_or(0));
        std::thread::sleep(Duration::from_millis(50));
    }
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let ended = Ended {
        code: output.status.code(),
        out: text(&output.stdout),
        err: text(&output.stderr),
    };
    (ended.ended_with(0), most)
}

/// Reads the peak resident memory of a process, in bytes.
fn high_water_mark(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1024)
}
