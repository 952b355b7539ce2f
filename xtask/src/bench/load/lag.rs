//! How late requests of an open loop leave: the send lag of `fathometer load` at half of what one
//! processor of it and one of `fathometer serve` can do together.
//!
//! A round begins with a closed loop, which finds out how much that is at the moment; what else the
//! machine has to do changes it by a factor. The lag is what the program says of itself: it is the one
//! figure that nobody else can take.

use std::process::{Command, Stdio};

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

/// What the rounds of one kind of arrivals said.
#[derive(Default)]
struct Lags {
    offered: Vec<f64>,
    /// Microseconds.
    p50: Vec<f64>,
    p99: Vec<f64>,
    max: Vec<f64>,
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
        }
    }
    Ok(judged(&kinds))
}

fn judged(kinds: &[Lags]) -> Judgement {
    println!(
        "\nsend lag of fathometer load at half of the capacity, in µs, bar for the p99 {MOST}"
    );
    println!(
        "{:12}{:>14}{:>10}{:>10}{:>20}{:>10}",
        "arrivals", "exchanges/s", "median", "p99", "least to most", "max"
    );
    let mut all_met = true;
    let mut told = Vec::new();
    for (name, lags) in ARRIVALS.into_iter().zip(kinds) {
        let middle = |values: &[f64]| median(values.to_vec());
        let p99 = middle(&lags.p99);
        let least = lags.p99.iter().copied().fold(f64::INFINITY, f64::min);
        let most = lags.p99.iter().copied().fold(0.0, f64::max);
        let met = p99 <= MOST;
        all_met &= met;
        println!(
            "{name:12}{:>14.0}{:>10.1}{p99:>10.1}{:>20}{:>10.0}  {}",
            middle(&lags.offered),
            middle(&lags.p50),
            format!("{least:.1} to {most:.1}"),
            middle(&lags.max),
            if met { "met" } else { "MISSED" }
        );
        told.push(json!({
            "arrivals": name,
            "offered_per_s": lags.offered,
            "p50_us": lags.p50,
            "p99_us": lags.p99,
            "p99_us_median": p99,
            "max_us": lags.max,
            "bar_us": MOST,
            "met": met,
        }));
    }
    (all_met, Value::Array(told))
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
    }

    #[test]
    fn figures_are_found_by_their_names() {
        let measured = json!({ "phases": { "send_lag": { "p99_ms": 0.04 } } });
        let found = figure(&measured, &["phases", "send_lag", "p99_ms"]);
        assert_eq!(found, Ok(0.04));
        assert!(figure(&measured, &["rates", "achieved_per_s"]).is_err());
    }
}
