//! How late requests of an open loop leave: the send lag of `fathometer load` at half of what one
//! processor of it and one of `fathometer serve` can do together.
//!
//! A round begins with a closed loop, which finds out how much that is at the moment; what else the
//! machine has to do changes it by a factor. The lag is what the program says of itself: it is the one
//! figure that nobody else can take.
//!
//! No program is in time on a processor that the machine takes away. So each round also asks how late a thread
//! is that does nothing but read the clock, on the same processor; where its own 99th percentile is beyond the bar,
//! ours is told and not judged.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fathometer_sys::sched;
use serde_json::{Value, json};

use super::super::trace::median;
use super::client::Place;
use super::server::Server;
use super::{FILE, Judgement};

/// Rounds of each kind of arrivals.
const ROUNDS: usize = 5;
/// The share of the capacity that is offered.
const SHARE: f64 = 0.5;
/// What the 99th percentile may be, in microseconds.
const MOST: f64 = 100.0;
const ARRIVALS: [&str; 2] = ["constant", "poisson"];
/// How long a thread that only reads the clock does so.
const WATCH: Duration = Duration::from_secs(2);

/// What the rounds of one kind of arrivals said.
#[derive(Default)]
struct Lags {
    offered: Vec<f64>,
    /// Microseconds.
    p50: Vec<f64>,
    p99: Vec<f64>,
    max: Vec<f64>,
    /// The 99th percentile of a thread that only reads the clock.
    machine: Vec<f64>,
}

impl Lags {
    /// Whether the bar is met; `None` where nobody could meet it.
    fn met(&self) -> Option<bool> {
        match median(self.p99.clone()) <= MOST {
            true => Some(true),
            false => (median(self.machine.clone()) <= MOST).then_some(false),
        }
    }
}

/// Measures, prints and judges.
pub(super) fn measure(place: &Place, processor: usize) -> Result<Judgement, String> {
    let server = Server::ours(place, processor)?;
    let url = server.url(FILE);
    let mut kinds = ARRIVALS.map(|_| Lags::default());
    for _ in 0..ROUNDS {
        for (arrivals, lags) in ARRIVALS.into_iter().zip(&mut kinds) {
            let closed = load(place, &url, &["-d", "1s"])?;
            let capacity = figure(&closed, &["rates", "achieved_per_s"])?;
            let rate = (SHARE * capacity).max(1.0).floor();
            let rate = rate.to_string();
            let open = ["-d", "2s", "--warmup", "200ms", "--arrivals", arrivals];
            let open = load(place, &url, &[&open[..], &["--rate", &rate]].concat())?;
            let lag = |name| figure(&open, &["phases", "send_lag", name]).map(|ms| ms * 1e3);
            lags.offered.push(SHARE * capacity);
            lags.p50.push(lag("p50_ms")?);
            lags.p99.push(lag("p99_ms")?);
            lags.max.push(lag("max_ms")?);
            lags.machine.push(machine(place.processor)?);
        }
    }
    Ok(judged(&kinds))
}

fn judged(kinds: &[Lags]) -> Judgement {
    println!(
        "\nsend lag of fathometer load at half of the capacity, in µs, bar for the p99 {MOST}"
    );
    println!(
        "{:12}{:>14}{:>10}{:>10}{:>20}{:>10}{:>16}",
        "arrivals", "exchanges/s", "median", "p99", "least to most", "max", "machine's p99"
    );
    let mut all_met = true;
    let mut told = Vec::new();
    for (name, lags) in ARRIVALS.into_iter().zip(kinds) {
        let middle = |values: &[f64]| median(values.to_vec());
        let p99 = middle(&lags.p99);
        let least = lags.p99.iter().copied().fold(f64::INFINITY, f64::min);
        let most = lags.p99.iter().copied().fold(0.0, f64::max);
        let met = lags.met();
        all_met &= met != Some(false);
        println!(
            "{name:12}{:>14.0}{:>10.1}{p99:>10.1}{:>20}{:>10.0}{:>16.1}  {}",
            middle(&lags.offered),
            middle(&lags.p50),
            format!("{least:.1} to {most:.1}"),
            middle(&lags.max),
            middle(&lags.machine),
            match met {
                Some(true) => "met",
                Some(false) => "MISSED",
                None => "not judged: the machine is late itself",
            }
        );
        told.push(json!({
            "arrivals": name,
            "offered_per_s": lags.offered,
            "p50_us": lags.p50,
            "p99_us": lags.p99,
            "p99_us_median": p99,
            "max_us": lags.max,
            "machine_p99_us": lags.machine,
            "bar_us": MOST,
            "met": met,
        }));
    }
    (all_met, Value::Array(told))
}

/// How late a thread is that only reads the clock, on a processor: the 99th percentile, in microseconds.
fn machine(processor: usize) -> Result<f64, String> {
    let watched = std::thread::spawn(move || {
        sched::pin(processor)?;
        let (mut gaps, mut last) = (Vec::new(), Instant::now());
        let end = last + WATCH;
        while last < end {
            let now = Instant::now();
            let gap = now - last;
            // Reading the clock takes less.
            if gap > Duration::from_micros(5) {
                gaps.push(gap.as_secs_f64() * 1e6);
            }
            last = now;
        }
        Ok(gaps)
    });
    let gaps: fathometer_sys::Result<Vec<f64>> = watched.join().expect("it does not panic");
    let gaps = gaps.map_err(|error| format!("failed to keep to processor {processor}: {error}"))?;
    Ok(lateness(gaps, 0.01 * WATCH.as_secs_f64() * 1e6))
}

/// How late one is at most who is to be there at any instant but those of `allowed` microseconds, if nothing runs in
/// the gaps.
fn lateness(mut gaps: Vec<f64>, allowed: f64) -> f64 {
    gaps.sort_by(|a, b| b.total_cmp(a));
    let mut sum = 0.0;
    for (count, gap) in (1..).zip(&gaps) {
        sum += gap;
        // With so many gaps longer than it, as much of them lies beyond it as is allowed.
        let late = (sum - allowed) / f64::from(count);
        if late >= gaps.get(count as usize).copied().unwrap_or(0.0) {
            return late.max(0.0);
        }
    }
    0.0
}

/// The measured window of a load on the clients' processor.
fn load(place: &Place, url: &str, arguments: &[&str]) -> Result<Value, String> {
    let output = Command::new("taskset")
        .args(["-c", &place.processor.to_string()])
        .arg(&place.ours)
        .args([
            "load",
            url,
            "-c",
            "64",
            "--threads",
            "1",
            "--quiet",
            "--json",
        ])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("failed to run taskset: {error}"))?;
    if place.interrupt.is_raised() {
        return Err("interrupted".to_owned());
    }
    // 3: the program itself says that it was late, or at its limit. How late is what is asked.
    let summary: Option<Value> = match output.status.code() {
        Some(0 | 3) => serde_json::from_slice(&output.stdout).ok(),
        _ => None,
    };
    summary
        .map(|summary| summary["measured"].clone())
        .ok_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!("fathometer load failed: {errors}")
        })
}

fn figure(measured: &Value, path: &[&str]) -> Result<f64, String> {
    let value = path.iter().fold(measured, |value, name| &value[*name]);
    value
        .as_f64()
        .ok_or_else(|| format!("fathometer load does not tell {}", path.join(".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_the_rounds_is_judged_for_each_kind_of_arrivals() {
        let lags = |p99: &[f64]| Lags {
            offered: vec![30_000.0; p99.len()],
            p50: vec![1.0; p99.len()],
            p99: p99.to_vec(),
            max: vec![900.0; p99.len()],
            machine: vec![60.0; p99.len()],
        };
        // One round of three was disturbed.
        let (met, told) = judged(&[lags(&[20.0, 30.0, 5000.0]), lags(&[99.0])]);
        assert!(met);
        assert_eq!(told[0]["p99_us_median"], 30.0);
        let (met, told) = judged(&[lags(&[20.0]), lags(&[101.0, 200.0, 90.0])]);
        assert!(!met);
        assert_eq!(
            (told[0]["met"].as_bool(), told[1]["met"].as_bool()),
            (Some(true), Some(false))
        );
        // On a machine where nobody is in time.
        let mut late = lags(&[200.0]);
        late.machine = vec![150.0];
        let (met, told) = judged(&[lags(&[20.0]), late]);
        assert!(met && told[1]["met"].is_null());
    }

    #[test]
    fn the_lateness_of_a_machine_is_what_is_left_of_its_longest_gaps() {
        assert_eq!(lateness(vec![], 10.0), 0.0);
        assert_eq!(lateness(vec![5.0], 10.0), 0.0);
        assert_eq!(lateness(vec![20.0, 100.0], 10.0), 90.0);
        // 70 + 10 beyond 30.
        assert_eq!(lateness(vec![40.0, 20.0, 100.0], 80.0), 30.0);
        assert_eq!(lateness(vec![30.0, 30.0, 30.0], 30.0), 20.0);
    }

    #[test]
    fn figures_are_found_by_their_names() {
        let measured = json!({ "phases": { "send_lag": { "p99_ms": 0.04 } } });
        let found = figure(&measured, &["phases", "send_lag", "p99_ms"]);
        assert_eq!(found, Ok(0.04));
        assert!(figure(&measured, &["rates", "achieved_per_s"]).is_err());
    }
}
