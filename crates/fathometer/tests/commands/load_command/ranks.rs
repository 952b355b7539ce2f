//! One load test on several ranks: processes that connect over loopback.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use fathometer_analysis::load::Summary;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::support::{Ended, Origin, fathometer, load, merged};
use crate::support::ports::free_address;
use crate::support::programs::FATHOMETER;
use crate::support::waiting::wait_until;

/// The ranks of a test.
struct Ranks {
    children: Vec<Child>,
    meeting: SocketAddr,
    /// The secret of the ranks that are started next.
    secret: &'static str,
    /// The secrets and the spools.
    folder: TempDir,
}

impl Ranks {
    /// Starts only the ranks in `started` of a test of `ranks` ranks.
    fn start(url: &str, ranks: u32, started: &[u32], arguments: &[&str]) -> Ranks {
        let folder = tempfile::tempdir().unwrap();
        let meeting = free_address();
        let mut all = Ranks {
            children: Vec::new(),
            meeting,
            secret: "a secret of these tests\n",
            folder,
        };
        for &rank in started {
            let child = all.rank(url, rank, ranks, arguments);
            all.children.push(child);
        }
        all
    }

    fn rank(&self, url: &str, rank: u32, ranks: u32, arguments: &[&str]) -> Child {
        let secret = self.folder.path().join(format!("secret-{rank}"));
        fs::write(&secret, self.secret).unwrap();
        let mut command = Command::new("timeout");
        command
            .args(["--foreground", "--kill-after=5", "120", FATHOMETER])
            .args(["load", "--quiet", url, "--json", "--threads", "1"])
            .args(["--rank", &rank.to_string(), "--ranks", &ranks.to_string()])
            .args(["--rendezvous", &self.meeting.to_string()])
            .arg("--secret-file")
            .arg(secret)
            .arg("--spool")
            .arg(self.spools())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    fn spools(&self) -> PathBuf {
        self.folder.path().join("spool")
    }

    /// Waits until the spool of a rank contains an interval.
    fn wait_for_interval(&self, rank: u32) {
        let spool = self.spools().join(format!("rank-{rank:04}.spool"));
        // The spool is longer than its header, which has less than 100 bytes.
        wait_until("a rank reports an interval", || {
            fs::metadata(&spool).is_ok_and(|spool| spool.len() > 150)
        });
    }

    /// Waits until the spool of a rank has grown.
    fn wait_for_growth(&self, rank: u32) {
        let spool = self.spools().join(format!("rank-{rank:04}.spool"));
        let length = || fs::metadata(&spool).map_or(0, |spool| spool.len());
        let before = length();
        wait_until("a rank reports another interval", || length() > before);
    }

    /// Kills the program of a rank, not its parent process `timeout`.
    fn kill(&self, place: usize) {
        let children = format!("/proc/{0}/task/{0}/children", self.children[place].id());
        let child = fs::read_to_string(children).unwrap();
        let child: i32 = child.trim().parse().unwrap();
        kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
    }

    /// Waits for all ranks.
    fn end(&mut self) -> Vec<Ended> {
        let children = std::mem::take(&mut self.children);
        let ended = children
            .into_iter()
            .map(|child| Ended::from(child.wait_with_output().unwrap()));
        ended.collect()
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn two_and_three_ranks_send_what_one_sends_and_merge_gives_the_same_result() {
    let arguments = [
        "--workload",
        "almeida-a",
        "--rate",
        "600",
        "--arrivals",
        "poisson",
        "-n",
        "301",
        "-c",
        "12",
        "--targets",
    ];
    let origin = Origin::of("almeida-a", 1);
    let solo = [&arguments[..], &["--json", "--seed", "1"]].concat();
    let solo = load(&origin.url(), &solo).summary();
    let requests = origin.end_sorted();
    for count in [2, 3] {
        let origin = Origin::of("almeida-a", 1);
        let started: Vec<u32> = (0..count).collect();
        let more = [&arguments[..], &["--seed", "1"]].concat();
        let mut ranks = Ranks::start(&origin.url(), count, &started, &more);
        let ended = ranks.end();
        let whole = ended[0].ended_with(0);
        for other in &ended[1..] {
            assert_eq!((other.code, &*other.out), (Some(0), ""), "{}", other.err);
        }
        assert_eq!(whole.measured.counts.planned, 301);
        assert_eq!(whole.measured.counts.completed, 301);
        assert_eq!(whole.targets, solo.targets);
        let corrected = whole.measured.phases.corrected.as_ref().unwrap();
        assert_eq!(corrected.count, 301);
        assert_eq!(whole.ranks.len(), count as usize);
        let planned: Vec<u64> = whole.ranks.iter().map(|rank| rank.planned).collect();
        assert_eq!(planned.iter().sum::<u64>(), 301);
        assert!(
            planned
                .iter()
                .all(|&planned| planned.abs_diff(301 / u64::from(count)) <= 1)
        );
        // The ranks together sent the same requests as a single process.
        assert_eq!(origin.end_sorted(), requests);
        let merged = merged(&ranks.spools());
        assert_eq!(merged.out, ended[0].out);
        assert_eq!(merged.code, ended[0].code);
    }
}

#[test]
fn a_rank_that_is_killed_is_reported_lost_with_its_figures_and_the_others_end() {
    let origin = Origin::of("almeida-a", 1);
    let arguments = [
        "-d",
        "4s",
        "-c",
        "4",
        "--warmup",
        "0s",
        "--workload",
        "almeida-a",
    ];
    let mut ranks = Ranks::start(&origin.url(), 3, &[0, 1, 2], &arguments);
    // A rank writes an interval to its spool before it reports the interval to rank 0. Once the second interval is in
    // the spool, the first was reported.
    ranks.wait_for_interval(1);
    ranks.wait_for_growth(1);
    ranks.kill(1);
    let ended = ranks.end();
    assert_eq!(ended[0].code, Some(3), "{}", ended[0].err);
    assert_eq!(
        (ended[2].code, &*ended[2].out),
        (Some(0), ""),
        "{}",
        ended[2].err
    );
    assert!(ended[0].err.contains("rank 1 was lost"), "{}", ended[0].err);
    let whole = ended[0].summary();
    let reason = &whole.validity.reasons[0];
    assert!(
        reason.starts_with("rank 1 was lost") && reason.contains("1/3 of the plan"),
        "{reason}"
    );
    let lost = &whole.ranks[1];
    assert!(lost.lost.is_some() && lost.completed > 0 && lost.cpu_s.is_none());
    let sum: u64 = whole.ranks.iter().map(|rank| rank.completed).sum();
    assert_eq!(whole.measured.counts.completed, sum);
}

#[test]
fn without_rank_0_the_others_end_with_an_error_and_their_spools_can_be_merged() {
    let origin = Origin::of("almeida-a", 1);
    let arguments = [
        "-d",
        "60s",
        "-c",
        "4",
        "--workload",
        "almeida-a",
        "--drain",
        "1s",
    ];
    let mut ranks = Ranks::start(&origin.url(), 2, &[0, 1], &arguments);
    ranks.wait_for_interval(0);
    ranks.wait_for_interval(1);
    ranks.kill(0);
    let ended = ranks.end();
    let error = &ended[1].err;
    assert_eq!(ended[1].code, Some(1), "{error}");
    assert!(
        error.contains("rank 0 is lost") && error.contains("fathometer merge"),
        "{error}"
    );
    let merged = merged(&ranks.spools());
    assert_eq!(merged.code, Some(3), "{}", merged.err);
    let merged = merged.summary();
    assert!(
        merged
            .validity
            .reasons
            .iter()
            .any(|reason| reason.starts_with("rank 0 was lost"))
    );
    assert!(merged.ranks.iter().all(|rank| rank.completed > 0));
}

#[test]
fn fewer_ranks_than_declared_or_another_plan_or_secret_start_nothing() {
    let origin = Origin::of("almeida-a", 1);
    let url = origin.url();
    let short = ["--rendezvous-timeout", "1s", "-n", "10"];
    let mut ranks = Ranks::start(&url, 3, &[0, 2], &short);
    let ended = ranks.end();
    assert_eq!([ended[0].code, ended[1].code], [Some(1); 2]);
    assert!(
        ended[0].err.contains("only 2 of 3 ranks"),
        "{}",
        ended[0].err
    );
    assert!(ended[1].err.contains("did not start"), "{}", ended[1].err);
    // Ranks with different plans.
    let mut ranks = Ranks::start(&url, 2, &[0], &["-n", "10"]);
    ranks.children.push(ranks.rank(&url, 1, 2, &["-n", "11"]));
    for ended in ranks.end() {
        assert_eq!(ended.code, Some(1));
        assert!(ended.err.contains("another plan"), "{}", ended.err);
    }
    // Ranks with different secrets.
    let mut ranks = Ranks::start(&url, 2, &[0], &short);
    ranks.secret = "another secret of tests";
    ranks.children.push(ranks.rank(&url, 1, 2, &short));
    let ended = ranks.end();
    assert_eq!([ended[0].code, ended[1].code], [Some(1); 2]);
    assert!(ended[1].err.contains("another secret"), "{}", ended[1].err);
    // The server got only the connection of the check before a test.
    assert_eq!(origin.end(), Vec::<String>::new());
}

#[test]
fn garbage_silence_and_half_a_handshake_on_the_control_port_change_nothing() {
    let origin = Origin::of("almeida-a", 1);
    let arguments = ["-n", "50", "-c", "4"];
    let mut ranks = Ranks::start(&origin.url(), 2, &[0], &arguments);
    let connect = || {
        let mut found = None;
        wait_until("rank 0 listens", || {
            found = TcpStream::connect(ranks.meeting).ok();
            found.is_some()
        });
        found.unwrap()
    };
    let mut garbage = connect();
    let _silent = connect();
    // Sends only the headers of a TLS record of 512 bytes and of its ClientHello.
    let mut half = connect();
    half.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252]).unwrap();
    garbage
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    garbage
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    // Rank 0 closes the connection without a response. Unread bytes cause a reset.
    let mut answer = Vec::new();
    let _ = garbage.read_to_end(&mut answer);
    assert_eq!(answer, b"");
    ranks
        .children
        .push(ranks.rank(&origin.url(), 1, 2, &arguments));
    let ended = ranks.end();
    let whole = ended[0].ended_with(0);
    assert_eq!(whole.measured.counts.completed, 50);
    assert_eq!(ended[1].code, Some(0), "{}", ended[1].err);
}

#[test]
fn ranks_may_come_from_an_indexed_job_and_rank_without_secret_is_a_usage_error() {
    let origin = Origin::of("almeida-a", 1);
    let meeting = free_address().to_string();
    let pod = |index: &str, secret: Option<&str>| {
        let mut command = Command::new(FATHOMETER);
        command
            .args([
                "load",
                "--quiet",
                &origin.url(),
                "--json",
                "-n",
                "20",
                "-c",
                "2",
            ])
            .env("JOB_COMPLETION_INDEX", index)
            .env("FATHOMETER_RANKS", "2")
            .env("FATHOMETER_RENDEZVOUS", &meeting)
            .env_remove("FATHOMETER_SECRET");
        if let Some(secret) = secret {
            command.env("FATHOMETER_SECRET", secret);
        }
        command
    };
    let without = fathometer(&pod("0", None));
    assert_eq!(without.code, Some(2));
    assert!(without.err.contains("--secret-file"), "{}", without.err);
    let secret = Some("a secret of these tests");
    let mut hasty = pod("0", secret);
    let hasty = fathometer(hasty.args(["--rank-timeout", "1s"]));
    assert_eq!(hasty.code, Some(2));
    assert!(hasty.err.contains("at least 2s"), "{}", hasty.err);
    let second = std::thread::scope(|scope| {
        let second = scope.spawn(|| fathometer(&pod("1", secret)));
        let first: Summary = fathometer(&pod("0", secret)).ended_with(0);
        assert_eq!(first.measured.counts.completed, 20);
        second.join().unwrap()
    });
    assert_eq!(second.code, Some(0), "{}", second.err);
}
