//! Tests with an abnormal end: a server that never answers, a user who interrupts.

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::support::{Ended, load};
use crate::support::programs::FATHOMETER;
use crate::support::scripted_server::{Answer, Server};
use crate::support::waiting::wait_until;

#[test]
fn a_server_that_never_answers_shows_time_outs_and_not_nothing() {
    let server = Server::start(|_| Answer::Silence);
    let url = format!("http://{}/", server.address);
    let bounded = ["--timeout", "300ms", "-n", "20", "-c", "5"];
    let ended = load(&url, &[&bounded[..], &["--json"]].concat());
    let summary = ended.ended_with(1);
    let counts = &summary.measured.counts;
    assert_eq!((counts.planned, counts.sent), (20, 20));
    assert_eq!((counts.completed, counts.failed), (0, 20));
    assert_eq!(counts.failures["timed-out"], 20);
    // The server may not yet have read the last requests when the test ends.
    wait_until("the server has read every request", || {
        server.seen().len() == 20
    });
    // A timeout counts as a long latency.
    let phases = &summary.measured.phases;
    for phase in [&phases.corrected, &phases.failed] {
        let phase = phase.as_ref().unwrap();
        assert_eq!(phase.count, 20);
        assert!(phase.min_ms >= 295.0, "{}", phase.min_ms);
    }
    // The timeout starts at the planned instant. The uncorrected latency excludes the time to connect, so it may be
    // shorter than the timeout.
    assert_eq!(phases.uncorrected.as_ref().unwrap().count, 20);
    assert!(phases.first_byte.is_none());
    assert_eq!(summary.measured.rates.errors_share, Some(1.0));

    let slo = ["--slo", "errors<1%", "--details"];
    let ended = load(&url, &[&bounded[..], &slo].concat());
    assert!(matches!(ended.code, Some(3 | 4)), "{:?}", ended.code);
    let has = |words: &[&str]| {
        ended
            .out
            .lines()
            .any(|line| words.iter().all(|word| line.contains(word)))
    };
    assert!(has(&["timed-out", "20"]), "{}", ended.out);
    assert!(has(&["20 of 20 exchanges (100.0 %)"]), "{}", ended.out);
    assert!(has(&["20 planned, 20 sent, 0 completed, 20 failed"]));
    assert!(
        match ended.code {
            Some(4) => has(&["errors<1%", "BROKEN"]),
            _ => has(&["errors<1%", "inconclusive"]) && !has(&["BROKEN"]),
        },
        "{}",
        ended.out
    );
}

/// A wrong address is the most common mistake, and looks like a very fast server.
#[test]
fn a_result_with_only_error_responses_has_a_warning() {
    let server = Server::start(|_| Answer::Status(404));
    let url = format!("http://{}/nowhere", server.address);
    let bounded = ["-n", "50", "-c", "2"];
    let remark = "every response was 404 (Not Found): is the URL right?";
    // No exchange has succeeded.
    let summary = load(&url, &[&bounded[..], &["--json"]].concat()).ended_with(1);
    assert_eq!(summary.findings, [remark]);
    let ended = load(&url, &bounded);
    assert!(matches!(ended.code, Some(1 | 3)), "{:?}", ended.code);
    assert!(
        ended.out.contains(&format!("\nNOTE: {remark}\n")),
        "{}",
        ended.out
    );
    let ended = load(&url, &[&bounded[..], &["--slo", "errors<1%"]].concat());
    assert!(matches!(ended.code, Some(3 | 4)), "{:?}", ended.code);
}

/// A long-running load and its server.
struct UnderWay {
    child: Child,
    _server: Server,
    answered: Arc<AtomicU64>,
    folder: tempfile::TempDir,
}

impl UnderWay {
    fn start(arguments: &[&str]) -> UnderWay {
        let folder = tempfile::tempdir().unwrap();
        let answered: Arc<AtomicU64> = Arc::default();
        let count = Arc::clone(&answered);
        let server = Server::start(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(5));
            Answer::Whole(10)
        });
        let child = Command::new(FATHOMETER)
            .args(["load", &format!("http://{}/", server.address), "-c", "4"])
            .args(["--json", "--save", "it.csv", "--save", "it.hlog"])
            .args(["--save", "it.parquet", "--save", "it.txt"])
            .args(arguments)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        UnderWay {
            child,
            _server: server,
            answered,
            folder,
        }
    }

    /// Sends a signal after `after` responses; the load must exit promptly.
    fn interrupted(self, after: u64, signal: Signal) -> (Ended, tempfile::TempDir) {
        self.interrupted_by(after, &[signal])
    }

    /// Same as `interrupted`, with several signals at once.
    fn interrupted_by(mut self, after: u64, signals: &[Signal]) -> (Ended, tempfile::TempDir) {
        wait_until("the test has started", || {
            self.answered.load(Ordering::SeqCst) > after
        });
        for signal in signals {
            kill_process(Pid::from_child(&self.child), *signal).unwrap();
        }
        wait_until("the test ends", || self.child.try_wait().unwrap().is_some());
        let read = |stream: &mut dyn std::io::Read| {
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            text
        };
        let ended = Ended {
            code: self.child.wait().unwrap().code(),
            out: read(self.child.stdout.as_mut().unwrap()),
            err: read(self.child.stderr.as_mut().unwrap()),
        };
        let folder = std::mem::replace(&mut self.folder, tempfile::tempdir().unwrap());
        (ended, folder)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_interrupted_test_reports_it_and_keeps_its_figures() {
    for (arguments, signal) in [
        (&["-d", "10m"][..], Signal::INT),
        (&["-d", "10m", "--rate", "200"], Signal::INT),
        (&["-n", "100000000"], Signal::TERM),
    ] {
        let (ended, folder) = UnderWay::start(arguments).interrupted(100, signal);
        assert_eq!(ended.code, Some(1), "{arguments:?} {}", ended.err);
        assert!(ended.err.contains("interrupted: "), "{}", ended.err);
        let summary = ended.summary();
        let measured = &summary.measured;
        let counts = &measured.counts;
        assert!(counts.completed > 90, "{}", ended.out);
        assert_eq!(counts.failed, 0, "{:?}", counts.failures);
        // Requests in flight are reported, and are not failures of the server.
        assert_eq!(counts.planned, counts.completed + counts.unfinished);
        assert!(measured.duration_s < 300.0);
        let rows = super::outputs::parquet_rows(&folder.path().join("it.parquet"));
        assert_eq!(rows.len() as u64, counts.planned, "{arguments:?}");
        for name in ["it.csv", "it.hlog", "it.txt"] {
            let length = std::fs::metadata(folder.path().join(name)).unwrap().len();
            assert!(length > 100, "{name}");
        }
        let partial = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(partial, 4, "nothing else is left");
    }
}

/// `timeout` signals the program and then its whole group; a user may press Ctrl-C twice.
#[test]
fn two_signals_at_once_lose_nothing() {
    for signals in [
        [Signal::TERM; 2],
        [Signal::INT; 2],
        [Signal::INT, Signal::TERM],
    ] {
        let (ended, folder) = UnderWay::start(&["-d", "10m"]).interrupted_by(100, &signals);
        assert_eq!(ended.code, Some(1), "{signals:?} {}", ended.err);
        assert!(ended.summary().measured.counts.completed > 90);
        let rows = super::outputs::parquet_rows(&folder.path().join("it.parquet"));
        assert!(rows.len() > 90, "{signals:?}");
    }
}

/// With more arrivals than any loop can process or count in time, a signal must still stop the program.
#[test]
fn a_test_with_an_unreachable_rate_ends_when_it_is_stopped() {
    let (ended, _folder) =
        UnderWay::start(&["-d", "10m", "--rate", "1e7"]).interrupted(10, Signal::TERM);
    assert!(matches!(ended.code, Some(1 | 3)), "{}", ended.err);
}

#[test]
fn a_server_that_stops_answering_is_reported_with_the_time() {
    let server = Server::start(|seen| match seen.number {
        0..100 => {
            std::thread::sleep(Duration::from_millis(5));
            Answer::Whole(10)
        }
        _ => Answer::Silence,
    });
    let url = format!("http://{}/", server.address);
    let ended = load(&url, &["-c", "2", "-d", "3s", "--drain", "0s", "--json"]);
    let summary = ended.ended_with(4);
    assert_eq!(summary.measured.counts.completed, 100);
    let finding = &summary.findings[0];
    assert!(
        finding.starts_with("no response from ") && finding.contains("of 3.0 s"),
        "{finding}"
    );
}

#[test]
fn a_test_interrupted_before_the_measured_window_reports_it() {
    let arguments = ["--warmup", "10m", "-d", "1s"];
    let (ended, _folder) = UnderWay::start(&arguments).interrupted(20, Signal::INT);
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    assert!(ended.err.contains("interrupted: "), "{}", ended.err);
    let summary = ended.summary();
    assert_eq!(summary.measured.counts.planned, 0);
    assert!(summary.warm_up.unwrap().counts.completed > 10);
}

/// A server that never answers: most requests never get a connection, but are still counted and recorded.
#[test]
fn requests_that_never_had_a_connection_are_in_every_figure() {
    let server = Server::start(|_| Answer::Silence);
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("it.parquet");
    let ended = load(
        &format!("http://{}/", server.address),
        &[
            "--rate",
            "200",
            "-c",
            "2",
            "-d",
            "1s",
            "--drain",
            "100ms",
            "--json",
            "--save",
            record.to_str().unwrap(),
        ],
    );
    // On a busy machine the generator may have been late, and reports that.
    assert!(matches!(ended.code, Some(1 | 3)), "{}", ended.err);
    let measured = ended.summary().measured;
    let counts = &measured.counts;
    // A generator that got no CPU time until the end has no connection, and reports that it was late.
    let sent = if ended.code == Some(3) { 0..=2 } else { 2..=2 };
    assert!(sent.contains(&counts.sent), "{}", counts.sent);
    assert_eq!(counts.planned, 200);
    assert_eq!((counts.completed, counts.unfinished), (0, 200));
    assert_eq!(measured.rates.errors_share, Some(1.0));
    let corrected = measured.phases.corrected.unwrap();
    assert_eq!(corrected.count, 200);
    // Each latency ends at 1.1 s and starts at a planned instant within the first second.
    assert!(corrected.p50_ms > 500.0, "{}", corrected.p50_ms);
    let rows = super::outputs::parquet_rows(&record);
    assert_eq!(rows.len(), 200);
    let unsent = rows
        .iter()
        .filter(|row| row["sent_ns"] == parquet::record::Field::Null);
    assert_eq!(unsent.count() as u64, 200 - counts.sent);
}
