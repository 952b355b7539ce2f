//! The figures are the truth: they agree with what the server did, with other tools, and with
//! Little's law.

use std::fs;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::peer::{run_well, tool};
use crate::server::{Answer, Server};
use crate::support::{Ended, load, valid_if_possible};

/// A server that takes this long for each request, far above what a scheduler adds.
fn slow(delay: Duration) -> Server {
    Server::start(move |_| {
        std::thread::sleep(delay);
        Answer::Whole(100)
    })
}

fn url(server: &Server) -> String {
    format!("http://{}/", server.address)
}

fn assert_near(what: &str, found: f64, wanted: f64, share: f64) {
    assert!(
        (found - wanted).abs() <= share * wanted,
        "{what}: {found} is not within {share} of {wanted}"
    );
}

const DELAY: Duration = Duration::from_millis(40);
const CONNECTIONS: &str = "64";

#[test]
fn the_median_is_the_servers_delay_and_that_of_wrk_and_h2load() {
    let server = slow(DELAY);
    let wanted = DELAY.as_secs_f64() * 1e3;
    let ended = load(
        &url(&server),
        &["-c", CONNECTIONS, "-d", "1500ms", "--json"],
    );
    let phases = ended.ended_with(0).measured.phases;
    for (name, phase) in [
        ("corrected", phases.corrected),
        ("uncorrected", phases.uncorrected),
    ] {
        assert_near(name, phase.unwrap().p50_ms, wanted, 0.1);
    }
    if let Some(wrk) = tool("wrk") {
        let report = run_well(
            Command::new(wrk)
                .args(["--threads", "1", "--connections", CONNECTIONS])
                .args(["--duration", "2s", "--latency"])
                .arg(url(&server)),
        );
        let report = String::from_utf8(report).unwrap();
        let median = report
            .lines()
            .find_map(|line| line.trim().strip_prefix("50%"))
            .and_then(|median| median.trim().strip_suffix("ms"))
            .unwrap_or_else(|| panic!("{report}"));
        assert_near("wrk", median.parse().unwrap(), wanted, 0.1);
    }
    match h2load() {
        Some(h2load) => {
            let folder = tempfile::tempdir().unwrap();
            let log = folder.path().join("log");
            run_well(
                Command::new(h2load)
                    .args(["--h1", "--threads", "1", "--clients", CONNECTIONS])
                    .args(["--requests", "1920", "--log-file"])
                    .arg(&log)
                    .arg(url(&server)),
            );
            // Start, status and microseconds of each request.
            let text = fs::read_to_string(log).unwrap();
            let mut times: Vec<u64> = text
                .lines()
                .map(|line| line.split('\t').nth(2).unwrap().parse().unwrap())
                .collect();
            assert_eq!(times.len(), 1920);
            times.sort_unstable();
            let median = times[times.len() / 2] as f64 / 1e3;
            assert_near("h2load", median, wanted, 0.1);
        }
        None => eprintln!("SKIPPED: h2load is not installed (Debian: nghttp2-client)"),
    }
}

/// No test needs it, so that it is missed without harm.
fn h2load() -> Option<std::path::PathBuf> {
    let folders = std::env::var("PATH").unwrap_or_default();
    folders
        .split(':')
        .map(|folder| std::path::Path::new(folder).join("h2load"))
        .find(|path| path.is_file())
}

const RATE: f64 = 200.0;
const SECONDS: f64 = 4.0;
const STALL: f64 = 1.4;

/// An open loop against a server that stalls once, a second from the start.
fn stalled(slo: &str) -> Ended {
    let until: Mutex<Option<Instant>> = Mutex::default();
    let server = Server::start(move |seen| {
        let end = {
            let mut until = until.lock().unwrap();
            if seen.number == RATE as u64 {
                *until = Some(Instant::now() + Duration::from_secs_f64(STALL));
            }
            *until
        };
        if let Some(end) = end {
            std::thread::sleep(end.saturating_duration_since(Instant::now()));
        }
        Answer::Whole(100)
    });
    load(
        &url(&server),
        &[
            "--rate", "200", "-c", "4", "-d", "4s", "--json", "--slo", slo,
        ],
    )
}

#[test]
fn a_stall_breaks_the_promise_that_users_would_hear() {
    let ended = valid_if_possible(|| stalled("p99<100ms"));
    let summary = ended.ended_with(4);
    let [promise] = &summary.promises[..] else {
        panic!("{:?}", summary.promises);
    };
    assert!(!promise.kept);
    let measured = &summary.measured;
    assert_eq!(measured.counts.planned, (RATE * SECONDS) as u64);
    assert_eq!(measured.counts.completed, measured.counts.planned);
    let corrected = measured.phases.corrected.as_ref().unwrap();
    for (found, quantile) in [
        (corrected.p90_ms, 0.9),
        (corrected.p95_ms, 0.95),
        (corrected.p99_ms, 0.99),
    ] {
        // A request planned a time t into the stall waits for what is left of it.
        let wanted = 1e3 * (STALL - (1.0 - quantile) * SECONDS);
        let apart = (found - wanted).abs();
        assert!(apart < 0.02 * 1e3 * STALL, "{quantile}: {found} {wanted}");
    }
    // Four of 800 requests were on their way.
    let uncorrected = measured.phases.uncorrected.as_ref().unwrap();
    assert_eq!(uncorrected.count, corrected.count);
    assert!(uncorrected.p99_ms < 140.0, "{}", uncorrected.p99_ms);
    assert!(uncorrected.max_ms > 1300.0, "{}", uncorrected.max_ms);
}

#[test]
fn a_stall_keeps_the_promise_that_is_blind_to_it() {
    let ended = valid_if_possible(|| stalled("uncorrected.p50<1s"));
    let summary = ended.ended_with(0);
    assert_eq!(summary.promises[0].kept, summary.validity.valid);
}

#[test]
fn littles_load_factor_is_the_number_of_users_below_saturation() {
    let server = slow(Duration::from_millis(10));
    for users in [1, 4, 16] {
        let ended = load(
            &url(&server),
            &["-c", &users.to_string(), "-d", "2s", "--json"],
        );
        let factor = ended.ended_with(0).measured.littles_load_factor.unwrap();
        assert_near("load factor", factor, f64::from(users), 0.01);
    }
}
