//! The measured self-test of comparisons: `load --against` must report known changes, and no changes between equal
//! servers.
//!
//! Two servers of the same program do the same work for each request, except for a planted change of the CPU time per
//! exchange. First, a calibration measures the CPU time per exchange at two amounts of work, which gives the CPU time
//! of a round of work. Then a separate `load --against` measures each planted change, several times.

mod servers;

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use fathometer_analysis::compare::{Comparison, Verdict};
use fathometer_analysis::load::Summary;
use fathometer_model::Validity;
use fathometer_sys::Clock;
use fathometer_sys::stderr::say;
use serde::Serialize;

use self::servers::{Server, site};

/// The planted changes of the CPU time per exchange in percent, each with a factor for its number of tests. Equal
/// servers have twice as many tests, because false alarms are rare.
const PLANTED: [(f64, u32); 4] = [(0.0, 2), (1.0, 1), (2.0, 1), (5.0, 1)];
/// The number of rounds of work per request of the baseline.
const WORK: u64 = 20_000;
/// The number of users of every test.
const USERS: &str = "4";
/// The length of a calibration test.
const CALIBRATION: &str = "2s";
/// The metrics of the table.
const METRICS: [&str; 4] = ["rate", "server-cpu", "p50", "p99"];
/// The half-width of an interval, as a fraction, above which the machine is too noisy to show a change of 1 %.
const TOO_WIDE: f64 = 0.01;

/// The reason why the self-test has no result.
#[derive(Debug, thiserror::Error)]
pub enum SelfTestError {
    /// A program or a file cannot be used.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The result of a load test is malformed.
    #[error("failed to read the result of a load test: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A server or a load test failed, or the machine is too noisy to calibrate.
    #[error("{0}")]
    Failed(String),
}

/// The settings of the self-test.
pub struct Options {
    /// The number of tests of each planted change. Equal servers have twice as many tests.
    pub tests: u32,
    /// The length of a test.
    pub length: Duration,
    /// Whether progress is hidden.
    pub is_quiet: bool,
}

/// The results for one metric over the tests of one planted change.
#[derive(Debug, Serialize)]
struct Found {
    metric: &'static str,
    worse: usize,
    better: usize,
    /// The medians over the tests, as fractions.
    change: f64,
    half_length: f64,
}

/// The results of the tests of one planted change.
#[derive(Debug, Serialize)]
struct Row {
    planted_percent: f64,
    tests: usize,
    invalid: usize,
    /// The reason why the first invalid test is invalid.
    reason: Option<String>,
    /// The number of tests with a verdict of change for any metric of the table.
    any: usize,
    found: Vec<Found>,
}

/// The result of the self-test.
#[derive(Debug, Serialize)]
pub struct Table {
    cpu_us_per_exchange: f64,
    work_ns_per_round: f64,
    users: &'static str,
    seconds_per_test: f64,
    validity: Validity,
    rows: Vec<Row>,
}

/// Runs all tests.
///
/// # Errors
/// When a server or a test cannot be started, or fails.
pub fn run(options: &Options, clock: Clock) -> Result<Table, SelfTestError> {
    let site = site()?;
    let (cost, each) = calibrate(site.path(), clock)?;
    let note = |text: &str| {
        if !options.is_quiet {
            say(format_args!("{text}"));
        }
    };
    note(&format!(
        "{cost:.1} µs per exchange, {:.2} ns per round of work",
        1e3 * each
    ));
    let mut rows = Vec::new();
    for (percent, times) in PLANTED {
        let extra = (percent / 100.0 * cost / each).round() as u64;
        let mut comparisons = Vec::new();
        for test in 1..=options.tests * times {
            note(&format!(
                "+{percent} %: test {test} of {}",
                options.tests * times
            ));
            // Each test starts new servers, so that random differences between two processes vary between tests.
            let baseline = Server::start(site.path(), WORK, clock)?;
            let changed = Server::start(site.path(), WORK + extra, clock)?;
            comparisons.push(against(&changed, &baseline, options.length)?);
        }
        rows.push(row(percent, &comparisons));
    }
    let validity = judge(&rows);
    Ok(Table {
        cpu_us_per_exchange: cost,
        work_ns_per_round: 1e3 * each,
        users: USERS,
        seconds_per_test: options.length.as_secs_f64(),
        validity,
        rows,
    })
}

impl Table {
    /// Formats the table as Markdown.
    pub fn text(&self) -> String {
        let mut text = match self.validity.is_valid() {
            true => String::new(),
            false => format!("INVALID: {}\n\n", self.validity.reasons.join("; ")),
        };
        text.push_str(&format!(
            "CPU time per exchange {:.1} µs; {} users; {} s per test. Entries: tests that found an increase, tests \
             that found a decrease; the median change ± half of the interval's width.\n\n",
            self.cpu_us_per_exchange, self.users, self.seconds_per_test
        ));
        text.push_str("| planted CPU time | tests | INVALID | any alarm |");
        METRICS
            .iter()
            .for_each(|metric| text.push_str(&format!(" {metric} |")));
        text.push_str("\n|---|---|---|---|---|---|---|---|\n");
        for row in &self.rows {
            text.push_str(&format!(
                "| +{} % | {} | {} | {} |",
                row.planted_percent, row.tests, row.invalid, row.any
            ));
            for found in &row.found {
                // A higher rate is better, but a longer time is worse.
                let (more, less) = match found.metric {
                    "rate" => (found.better, found.worse),
                    _ => (found.worse, found.better),
                };
                text.push_str(&format!(
                    " {more}, {less}; {:+.2} ± {:.2} % |",
                    100.0 * found.change,
                    100.0 * found.half_length
                ));
            }
            text.push('\n');
        }
        text
    }

    /// Whether the machine was quiet enough for a valid table.
    pub fn is_valid(&self) -> bool {
        self.validity.is_valid()
    }
}

/// Counts the verdicts of the valid tests.
fn row(percent: f64, comparisons: &[Comparison]) -> Row {
    let valid = || comparisons.iter().filter(|it| it.invalid.is_empty());
    let is_alarm = |verdict: Verdict| matches!(verdict, Verdict::Worse | Verdict::Better);
    let found = METRICS.map(|metric| {
        let changes =
            || valid().filter_map(|it| it.changes.iter().find(|change| change.metric == metric));
        let halves = changes().filter_map(|change| Some(0.5 * (change.high? - change.low?)));
        Found {
            metric,
            worse: changes().filter(|it| it.verdict == Verdict::Worse).count(),
            better: changes().filter(|it| it.verdict == Verdict::Better).count(),
            change: median(changes().map(|change| change.change).collect()),
            half_length: median(halves.collect()),
        }
    });
    Row {
        planted_percent: percent,
        tests: comparisons.len(),
        invalid: comparisons.len() - valid().count(),
        reason: comparisons
            .iter()
            .find_map(|it| it.invalid.first().cloned()),
        any: valid()
            .filter(|it| it.changes.iter().any(|change| is_alarm(change.verdict)))
            .count(),
        found: found.into(),
    }
}

/// Checks whether the machine was quiet enough.
fn judge(rows: &[Row]) -> Validity {
    let mut validity = Validity::default();
    let tests: usize = rows.iter().map(|row| row.tests).sum();
    let invalid: usize = rows.iter().map(|row| row.invalid).sum();
    if 2 * invalid > tests {
        let reason = rows.iter().find_map(|row| row.reason.as_deref());
        validity.invalidate(format!(
            "{invalid} of {tests} tests are INVALID (limit: half); the first: {}",
            reason.unwrap_or("noise")
        ));
    }
    for found in rows.iter().take(1).flat_map(|row| &row.found) {
        // If no test is valid, the half-width is NaN, which counts as too wide.
        let is_narrow = found.half_length <= TOO_WIDE;
        if ["rate", "server-cpu"].contains(&found.metric) && !is_narrow {
            validity.invalidate(format!(
                "the interval of {} is ±{:.2} % (limit {:.0} %): the machine is too noisy to show a change of 1 %, or \
                 the tests are too short (--length)",
                found.metric,
                100.0 * found.half_length,
                100.0 * TOO_WIDE
            ));
        }
    }
    validity
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n => 0.5 * (values[(n - 1) / 2] + values[n / 2]),
    }
}

/// Returns the CPU time of the baseline per exchange and of a round of work, in µs. The tests of both amounts of work
/// alternate, so that drift cancels out.
fn calibrate(site: &Path, clock: Clock) -> Result<(f64, f64), SelfTestError> {
    let baseline = Server::start(site, WORK, clock)?;
    let double = Server::start(site, 2 * WORK, clock)?;
    let (mut one, mut two) = (0.0, 0.0);
    for _ in 0..2 {
        one += 0.25 * cost(&baseline)?;
        two += 0.25 * (cost(&double)? + cost(&double)?);
        one += 0.25 * cost(&baseline)?;
    }
    let each = (two - one) / WORK as f64;
    match each > 0.0 {
        true => Ok((one, each)),
        false => Err(SelfTestError::Failed(
            "cannot calibrate: twice the work takes no longer; repeat on a quiet machine"
                .to_owned(),
        )),
    }
}

/// Returns a server's CPU time per exchange, in µs.
fn cost(server: &Server) -> Result<f64, SelfTestError> {
    let text = load(&[&server.url, "-d", CALIBRATION, "--probe", &server.pid()])?;
    let summary: Summary = serde_json::from_str(&text)?;
    let rate = summary.measured.rates.achieved_per_s.unwrap_or(0.0);
    let Some(watched) = summary.server else {
        return Err(SelfTestError::Failed(
            "the server was not probed".to_owned(),
        ));
    };
    let cpu: f64 = watched.programs.iter().map(|program| program.cpu_s).sum();
    Ok(1e6 * cpu / (rate * watched.watched_s))
}

/// Runs one test of a server against the baseline.
fn against(
    server: &Server,
    baseline: &Server,
    length: Duration,
) -> Result<Comparison, SelfTestError> {
    let length = format!("{}ms", length.as_millis());
    let (pid, other) = (server.pid(), baseline.pid());
    let text = load(&[
        &server.url,
        "--against",
        &baseline.url,
        "-d",
        &length,
        "--probe",
        &pid,
        "--probe",
        &other,
    ])?;
    Ok(serde_json::from_str(&text)?)
}

/// Runs a load test with this program. Returns its JSON, also if the test is INVALID (exit code 3).
fn load(arguments: &[&str]) -> Result<String, SelfTestError> {
    let output = Command::new(std::env::current_exe()?)
        .args(["load", "--json", "-c", USERS])
        .args(arguments)
        .stdin(Stdio::null())
        .output()?;
    match output.status.code() {
        Some(0 | 3) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        _ => Err(SelfTestError::Failed(format!(
            "a load test failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathometer_analysis::compare::{Better, Design, Metric, Side};

    /// Simulates ten rounds of a comparison in which one side's rate is lower by `percent`, with this noise.
    fn comparison(percent: f64, noise: f64) -> Comparison {
        let side = |factor: f64, sign: f64| {
            let samples = |centre: f64| -> Vec<f64> {
                let of = |i: i32| centre * (1.0 + sign * noise * f64::from(i % 3 - 1));
                (0..12).map(of).collect()
            };
            let metric = |name: &str, better, centre: f64| {
                Metric::ratio(name, "", better, samples(centre), "none")
            };
            Side {
                metrics: vec![
                    metric("rate", Better::Higher, 100.0 / factor),
                    metric("server-cpu", Better::Lower, 50.0 * factor),
                ],
                ..Side::default()
            }
        };
        let (a, b) = (side(1.0, 1.0), side(1.0 + percent / 100.0, -1.0));
        Comparison::of(&a, &b, Design::Paired, 0.03)
    }

    #[test]
    fn alarms_are_counted_by_direction_and_noise_makes_the_table_invalid() {
        let quiet = [row(0.0, &[comparison(0.0, 1e-3), comparison(0.0, 1e-3)]), {
            let mut invalid = comparison(2.0, 1e-3);
            invalid.invalid.push("late".to_owned());
            row(2.0, &[comparison(2.0, 1e-3), invalid])
        }];
        assert_eq!((quiet[0].any, quiet[0].invalid), (0, 0));
        assert_eq!(quiet[1].reason.as_deref(), Some("late"));
        assert_eq!((quiet[1].any, quiet[1].invalid, quiet[1].tests), (1, 1, 2));
        assert_eq!((quiet[1].found[0].worse, quiet[1].found[1].worse), (1, 1));
        assert!((quiet[1].found[1].change - 0.02).abs() < 1e-3, "{quiet:?}");
        assert!(judge(&quiet).is_valid(), "{:?}", judge(&quiet));
        let noisy = [row(0.0, &[comparison(0.0, 0.05)])];
        assert!(judge(&noisy).reasons[0].contains("too noisy to show a change of 1 %"));
        assert!(!judge(&[row(0.0, &[])]).is_valid());
    }
}
