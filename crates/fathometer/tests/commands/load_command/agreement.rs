//! The figures must agree with the server's behaviour, with other tools, and with Little's law.

#![expect(clippy::disallowed_types, reason = "a test's time limits need a clock")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::support::{Ended, load, valid_if_possible};
use crate::support::programs::{run_well, tool};
use crate::support::quiet::{below, in_a_quiet_moment, near};
use crate::support::scripted_server::{Answer, Server};

/// Starts a server that delays each response by `delay`, which is far longer than scheduling delays.
fn slow(delay: Duration) -> Server {
    Server::start(move |_| {
        std::thread::sleep(delay);
        Answer::Whole(100)
    })
}

fn url(server: &Server) -> String {
    format!("http://{}/", server.address)
}

const DELAY: Duration = Duration::from_millis(40);
/// Largest relative difference between a median and the server's delay.
const NEAR: f64 = 0.1;
const CONNECTIONS: &str = "64";

#[test]
fn the_median_is_the_servers_delay_and_that_of_wrk_and_h2load() {
    let server = slow(DELAY);
    let wanted = DELAY.as_secs_f64() * 1e3;
    let noise = DELAY.mul_f64(NEAR);
    in_a_quiet_moment(noise, || {
        let ended = load(
            &url(&server),
            &["-c", CONNECTIONS, "-d", "1500ms", "--json"],
        );
        let phases = ended.ended_with(0).measured.phases;
        for (name, phase) in [
            ("corrected", phases.corrected),
            ("uncorrected", phases.uncorrected),
        ] {
            let median = phase.unwrap().p50_ms;
            // No response can be faster than the delay, on any machine.
            assert!(median >= 0.99 * wanted, "{name}: {median}");
            near(name, median, wanted, NEAR)?;
        }
        Ok(())
    });
    if let Some(wrk) = tool("wrk") {
        in_a_quiet_moment(noise, || {
            near("wrk", wrks_median(&wrk, &server), wanted, NEAR)
        });
    }
    match h2load() {
        Some(h2load) => in_a_quiet_moment(noise, || {
            near("h2load", h2loads_median(&h2load, &server), wanted, NEAR)
        }),
        None => eprintln!("SKIPPED: h2load is not installed (Debian: nghttp2-client)"),
    }
}

/// Runs wrk; returns the median latency that wrk reports, in milliseconds.
fn wrks_median(wrk: &Path, server: &Server) -> f64 {
    let report = run_well(
        Command::new(wrk)
            .args(["--threads", "1", "--connections", CONNECTIONS])
            .args(["--duration", "2s", "--latency"])
            .arg(url(server)),
    );
    let report = String::from_utf8(report).unwrap();
    let median = report
        .lines()
        .find_map(|line| line.trim().strip_prefix("50%"))
        .map(str::trim)
        .unwrap_or_else(|| panic!("{report}"));
    match median.strip_suffix("ms") {
        Some(median) => median.parse().unwrap(),
        // On a very busy machine wrk prints seconds.
        None => 1e3 * median.strip_suffix('s').unwrap().parse::<f64>().unwrap(),
    }
}

/// Runs h2load; returns the median latency in its log, in milliseconds.
fn h2loads_median(h2load: &Path, server: &Server) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    run_well(
        Command::new(h2load)
            .args(["--h1", "--threads", "1", "--clients", CONNECTIONS])
            .args(["--requests", "1920", "--log-file"])
            .arg(&log)
            .arg(url(server)),
    );
    // Each line has the start, the status and the microseconds of a request.
    let text = fs::read_to_string(log).unwrap();
    let mut times: Vec<u64> = text
        .lines()
        .map(|line| line.split('\t').nth(2).unwrap().parse().unwrap())
        .collect();
    assert_eq!(times.len(), 1920);
    times.sort_unstable();
    times[times.len() / 2] as f64 / 1e3
}

/// Finds h2load, which is optional: no test fails without it.
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

/// Runs an open loop against a server that stalls once, one second after the start.
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
fn a_stall_violates_an_slo_on_corrected_latency() {
    let apart = 0.02 * STALL;
    in_a_quiet_moment(Duration::from_secs_f64(apart), || {
        let summary = stalled("p99<100ms").ended_with(4);
        let [slo] = &summary.slos[..] else {
            panic!("{:?}", summary.slos);
        };
        assert!(!slo.met);
        let measured = &summary.measured;
        assert_eq!(measured.counts.planned, (RATE * SECONDS) as u64);
        assert_eq!(measured.counts.completed, measured.counts.planned);
        let corrected = measured.phases.corrected.as_ref().unwrap();
        // Only 4 of the 800 requests were in flight during the stall.
        let uncorrected = measured.phases.uncorrected.as_ref().unwrap();
        assert_eq!(uncorrected.count, corrected.count);
        assert!(uncorrected.max_ms > 1300.0, "{}", uncorrected.max_ms);
        below("uncorrected", uncorrected.p99_ms, 140.0)?;
        for (found, quantile) in [
            (corrected.p90_ms, 0.9),
            (corrected.p95_ms, 0.95),
            (corrected.p99_ms, 0.99),
        ] {
            // A request that is planned during the stall waits until the stall ends.
            let wanted = 1e3 * (STALL - (1.0 - quantile) * SECONDS);
            near(&quantile.to_string(), found, wanted, 1e3 * apart / wanted)?;
        }
        Ok(())
    });
}

#[test]
fn a_stall_does_not_violate_an_slo_on_uncorrected_latency() {
    let ended = valid_if_possible(|| stalled("uncorrected.p50<1s"));
    let summary = ended.ended_with(0);
    assert_eq!(summary.slos[0].met, summary.validity.valid);
}

#[test]
fn littles_load_factor_is_the_number_of_users_below_saturation() {
    let server = slow(Duration::from_millis(10));
    for users in [1, 4, 16] {
        // 20 ms are 1 % of two seconds.
        in_a_quiet_moment(Duration::from_millis(20), || {
            let ended = load(
                &url(&server),
                &["-c", &users.to_string(), "-d", "2s", "--json"],
            );
            let factor = ended.ended_with(0).measured.littles_load_factor.unwrap();
            near("load factor", factor, f64::from(users), 0.01)
        });
    }
}
