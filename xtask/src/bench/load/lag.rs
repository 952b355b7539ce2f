//! The send lag of `fathometer load` in an open loop, at half of the capacity of two processors: one for
//! `fathometer load` and one for `fathometer serve`.
//!
//! A round begins with a closed loop that measures the capacity, because other load on the machine can change the
//! capacity several-fold. The program itself reports the lag: no other program can measure it.
//!
//! No program can send on time while a hypervisor gives its processor to other guests. Steal time of 1 % determines the
//! 99th percentile. A round with more stolen time than `MOST_STOLEN` is therefore reported, not judged, and repeated.
//! The kernel reports the stolen time; the lag has no influence on this decision.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fathometer_sys::machine::CpuTimes;
use serde_json::{Value, json};

use super::super::trace::median;
use super::place::Place;
use super::server::Server;
use super::{FILE, Judgement};

/// Undisturbed rounds of each kind of arrivals.
const ROUNDS: usize = 5;
/// Fewest undisturbed rounds for a verdict.
const FEWEST: usize = 3;
/// The maximum number of rounds run to get `ROUNDS` undisturbed rounds.
const MOST_ROUNDS: usize = 25;
/// Offered rate as a share of the capacity.
const SHARE: f64 = 0.5;
/// Upper bound of the 99th percentile, in microseconds.
const MOST: f64 = 100.0;
/// Largest share of a round that a hypervisor may take from either processor: half of the 1 % above the percentile.
const MOST_STOLEN: f64 = 0.005;
const ARRIVALS: [&str; 2] = ["constant", "poisson"];

/// The figures of one round.
struct Round {
    /// Requests per second.
    offered: f64,
    /// The send lag in microseconds, as in the next two fields.
    p50: f64,
    p99: f64,
    max: f64,
    /// The share of the round that a hypervisor took from a processor; the larger share of the two processors.
    stolen: f64,
}

/// The rounds of one kind of arrivals.
#[derive(Default)]
struct Lags(Vec<Round>);

impl Lags {
    fn undisturbed(&self) -> impl Iterator<Item = &Round> {
        self.0.iter().filter(|round| round.stolen <= MOST_STOLEN)
    }

    fn is_complete(&self) -> bool {
        self.undisturbed().count() >= ROUNDS || self.0.len() >= MOST_ROUNDS
    }

    /// Returns the median of a figure over the undisturbed rounds.
    fn middle(&self, of: impl Fn(&Round) -> f64) -> f64 {
        median(self.undisturbed().map(of).collect())
    }

    /// Whether the target is met; `None` when the hypervisor disturbed too many rounds to judge.
    fn met(&self) -> Option<bool> {
        let is_judged = self.undisturbed().count() >= FEWEST;
        is_judged.then(|| self.middle(|round| round.p99) <= MOST)
    }
}

/// Measures, prints and judges.
pub(super) fn measure(place: &Place, processor: usize) -> Result<Judgement, String> {
    let server = Server::ours(place, processor)?;
    let url = server.url(FILE);
    let mut kinds = ARRIVALS.map(|_| Lags::default());
    while !kinds.iter().all(Lags::is_complete) {
        for (arrivals, lags) in ARRIVALS.into_iter().zip(&mut kinds) {
            if !lags.is_complete() {
                let stolen = Stolen::watch([place.processor, processor]);
                let mut round = round(place, &url, arrivals)?;
                round.stolen = stolen.share();
                lags.0.push(round);
            }
        }
    }
    Ok(judged(&kinds))
}

fn round(place: &Place, url: &str, arrivals: &str) -> Result<Round, String> {
    let closed = load(place, url, &["-d", "1s"])?;
    let capacity = figure(&closed, &["rates", "achieved_per_s"])?;
    let offered = (SHARE * capacity).max(1.0).floor();
    let rate = offered.to_string();
    let open = ["-d", "2s", "--warmup", "200ms", "--arrivals", arrivals];
    let open = load(place, url, &[&open[..], &["--rate", &rate]].concat())?;
    let lag = |name| figure(&open, &["phases", "send_lag", name]).map(|ms| ms * 1e3);
    Ok(Round {
        offered,
        p50: lag("p50_ms")?,
        p99: lag("p99_ms")?,
        max: lag("max_ms")?,
        stolen: 0.0,
    })
}

fn judged(kinds: &[Lags]) -> Judgement {
    println!(
        "\nsend lag of fathometer load at half of the capacity, in µs; target for the p99: at most {MOST}"
    );
    println!(
        "{:12}{:>14}{:>10}{:>10}{:>20}{:>10}{:>18}",
        "arrivals", "exchanges/s", "median", "p99", "least to most", "max", "rounds disturbed"
    );
    let mut all_met = true;
    let mut results = Vec::new();
    for (name, lags) in ARRIVALS.into_iter().zip(kinds) {
        let all = |of: fn(&Round) -> f64| lags.0.iter().map(of).collect::<Vec<f64>>();
        let counted = lags.undisturbed().count();
        let met = lags.met();
        all_met &= met != Some(false);
        let disturbed = format!("{} of {}", lags.0.len() - counted, lags.0.len());
        match counted {
            0 => println!("{name:12}{:>64}{disturbed:>18}", ""),
            _ => {
                let values = || lags.undisturbed().map(|round| round.p99);
                let (least, most) = (
                    values().fold(f64::INFINITY, f64::min),
                    values().fold(0.0, f64::max),
                );
                println!(
                    "{name:12}{:>14.0}{:>10.1}{:>10.1}{:>20}{:>10.0}{disturbed:>18}  {}",
                    lags.middle(|round| round.offered),
                    lags.middle(|round| round.p50),
                    lags.middle(|round| round.p99),
                    format!("{least:.1} to {most:.1}"),
                    lags.middle(|round| round.max),
                    match met {
                        Some(true) => "met",
                        Some(false) => "MISSED",
                        None => "not judged",
                    }
                );
            }
        }
        if met.is_none() {
            println!(
                "            not judged: a hypervisor took more than {:.1} % of a processor in all but \
                 {counted} rounds ({FEWEST} required)",
                100.0 * MOST_STOLEN
            );
        }
        results.push(json!({
            "arrivals": name,
            "offered_per_s": all(|round| round.offered),
            "p50_us": all(|round| round.p50),
            "p99_us": all(|round| round.p99),
            "max_us": all(|round| round.max),
            "stolen_share": all(|round| round.stolen),
            "most_stolen_share": MOST_STOLEN,
            "p99_us_median": (counted > 0).then(|| lags.middle(|round| round.p99)),
            "bar_us": MOST,
            "met": met,
        }));
    }
    (all_met, Value::Array(results))
}

/// Time that a hypervisor has taken from two processors since an instant.
struct Stolen {
    processors: [usize; 2],
    begin: Instant,
    before: [Duration; 2],
}

impl Stolen {
    fn watch(processors: [usize; 2]) -> Stolen {
        Stolen {
            processors,
            begin: Instant::now(),
            before: processors.map(stolen),
        }
    }

    /// The stolen share of the time since the start; the larger share of the two processors.
    fn share(&self) -> f64 {
        let time = self.begin.elapsed().as_secs_f64();
        let shares = self.processors.iter().zip(self.before);
        shares
            .map(|(&processor, before)| {
                stolen(processor).saturating_sub(before).as_secs_f64() / time
            })
            .fold(0.0, f64::max)
    }
}

/// Time taken from a processor since the system started; zero where the kernel does not report it.
fn stolen(processor: usize) -> Duration {
    CpuTimes::read_processor(processor).map_or(Duration::ZERO, |times| times.steal)
}

/// Runs a load on the clients' processor; returns its measured window.
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
            // Every window counts, also those marked INVALID because of noise.
            "--repeats",
            "0",
        ])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("failed to run taskset: {error}"))?;
    if place.interrupt.is_raised() {
        return Err("interrupted".to_owned());
    }
    // Exit code 3: the program reports that it was late, or at its limit. The bench measures this lateness.
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
        .ok_or_else(|| format!("fathometer load does not report {}", path.join(".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns rounds with these 99th percentiles and this stolen share.
    fn lags(p99: &[f64], stolen: f64) -> Lags {
        Lags(
            p99.iter()
                .map(|&p99| Round {
                    offered: 30_000.0,
                    p50: 1.0,
                    p99,
                    max: 900.0,
                    stolen,
                })
                .collect(),
        )
    }

    #[test]
    fn the_median_of_the_rounds_is_judged_for_each_kind_of_arrivals() {
        let (met, results) = judged(&[
            lags(&[20.0, 30.0, 5000.0], 0.0),
            lags(&[99.0, 98.0, 97.0], 0.0),
        ]);
        assert!(met);
        assert_eq!(results[0]["p99_us_median"], 30.0);
        let (met, results) = judged(&[lags(&[20.0; 3], 0.004), lags(&[101.0, 200.0, 90.0], 0.004)]);
        assert!(!met);
        assert_eq!(
            (results[0]["met"].as_bool(), results[1]["met"].as_bool()),
            (Some(true), Some(false))
        );
    }

    #[test]
    fn rounds_that_a_hypervisor_disturbed_are_reported_and_not_judged() {
        let mut mixed = lags(&[900.0; 20], 0.03);
        assert_eq!((mixed.met(), mixed.is_complete()), (None, false));
        mixed.0.extend(lags(&[50.0, 60.0], 0.0).0);
        assert_eq!((mixed.met(), mixed.is_complete()), (None, false));
        mixed.0.extend(lags(&[70.0, 120.0, 130.0], 0.0).0);
        assert_eq!((mixed.met(), mixed.is_complete()), (Some(true), true));
        let (met, results) = judged(&[mixed, lags(&[5.0; MOST_ROUNDS], 0.01)]);
        assert!(met);
        assert_eq!(results[0]["p99_us"].as_array().map(Vec::len), Some(25));
        assert!(results[1]["met"].is_null() && results[1]["p99_us_median"].is_null());
        // If undisturbed rounds are late, the target is missed, without further rounds.
        let late = lags(&[150.0; ROUNDS], 0.0);
        assert_eq!((late.met(), late.is_complete()), (Some(false), true));
    }

    #[test]
    fn figures_are_found_by_their_names() {
        let measured = json!({ "phases": { "send_lag": { "p99_ms": 0.04 } } });
        let found = figure(&measured, &["phases", "send_lag", "p99_ms"]);
        assert_eq!(found, Ok(0.04));
        assert!(figure(&measured, &["rates", "achieved_per_s"]).is_err());
    }
}
