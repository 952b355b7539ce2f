//! `cargo xtask bench ranks`: the cost of dividing a load test into ranks, and whether two ranks measure the same
//! as one process.
//!
//! **Cost.** Two ranks, each with half of the users of a closed loop, are compared with two independent processes with
//! the same halves. The pairs differ only in the control connection, the clocks and the merging. CPU time is measured
//! for whole processes. All four processes run at the same time against one server, so that changes of the processor's
//! speed affect both pairs. If the pairs ran one after another, the ratio of equal loads would vary between rounds by
//! several times the target. A control without ranks, two pairs of independent processes, shows the remaining
//! variation. The loop is closed, because an open loop at a low rate busy-waits for a time that differs between rounds
//! by more than the target.
//!
//! **Latency.** Two ranks alternate with one process of two threads at the same whole rate; `fathometer compare` judges
//! the saved results by its own method. A round with an INVALID result, because of other load on the machine, is
//! repeated. Both loads have two event loops: a loop that busy-waits for its next request keeps a processor from
//! idling, which shortens latencies.

mod loads;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use serde_json::Value;

use self::loads::{CONNECTIONS, COST_LENGTH, LENGTH, Loop, Place, RATE, figure, serve};
use super::trace::{Scratch, build, median};

/// Rounds of each comparison, unless the command line sets another number.
const ROUNDS: usize = 9;
/// The number of latency rounds for each cost round, and of attempts for each latency round.
const LATENCY_ROUNDS: usize = 2;
const ATTEMPTS: usize = 3;
/// Bytes of a response: with large responses, copying would take most of the time.
const SIZE: usize = 1024;
/// The largest CPU time per exchange of ranks, relative to independent processes.
const COST: f64 = 1.02;
/// The largest control traffic of a rank, in bytes per second.
const TRAFFIC: f64 = 20_000.0;
/// The largest start skew, in milliseconds.
const SKEW_MS: f64 = 1.0;
/// The metrics of `compare` that must not differ.
const LATENCIES: [&str; 3] = ["p50", "p90", "p99"];

/// Measures, prints the results, and fails when a target is missed. `rounds` replaces `ROUNDS`.
pub(crate) fn run(root: &Path, rounds: Option<usize>) -> Result<ExitCode, String> {
    let ours = build(root)?;
    let scratch = Scratch::new()?;
    let folder = scratch.path().to_owned();
    let site = folder.join("site");
    fs::create_dir(&site).map_err(|error| format!("failed to make {}: {error}", site.display()))?;
    write(&site.join("index.html"), &"x".repeat(SIZE))?;
    let (_server, url) = serve(&ours, &site)?;
    write(&folder.join("secret"), "a secret of this bench\n")?;
    let place = Place { ours, folder, url };
    let rounds = rounds.unwrap_or(ROUNDS).max(1);
    let cost_is_met = cost(&place, rounds)?;
    let latency_is_met = latency(&place, LATENCY_ROUNDS * rounds)?;
    let all_met = cost_is_met && latency_is_met;
    println!("{}", if all_met { "met" } else { "MISSED" });
    Ok(if all_met {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Measures CPU time, control traffic and start skew; returns whether all targets are met.
fn cost(place: &Place, rounds: usize) -> Result<bool, String> {
    let (mut ratios, mut control) = (Vec::new(), Vec::new());
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    let (mut traffic, mut skew) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let is_first = round % 2 == 0;
        let [ranks, independent] = place.beside(place.ranks(Loop::Closed, None)?, is_first)?;
        ratios.push(ranks.micros / independent.micros);
        ours.push(ranks.micros);
        others.push(independent.micros);
        let of_ranks = &ranks.results[0]["ranks"];
        traffic.push(figure(&of_ranks[1]["control_bytes_per_s"])?);
        skew.push(figure(&of_ranks[1]["start_skew_ms"])?);
        let [one, other] = place.beside(place.independent(3), is_first)?;
        control.push(one.micros / other.micros);
    }
    println!(
        "two ranks beside two processes, closed loops of {CONNECTIONS} connections each, {rounds} rounds of {COST_LENGTH}\n\
         CPU time per exchange    {:7.2} µs of ranks, {:7.2} µs of processes",
        median(ours),
        median(others)
    );
    let ratio = median(ratios.clone());
    println!(
        "ratio                          {}  target at most {COST}",
        with_interval(ratios)
    );
    println!("ratio of processes, control    {}", with_interval(control));
    let (most_traffic, most_skew) = (largest(&traffic), largest(&skew));
    println!(
        "control traffic of a rank      {most_traffic:7.0} B/s, the largest      target at most {TRAFFIC:.0} B/s\n\
         start skew                     {most_skew:7.3} ms, the largest       target at most {SKEW_MS} ms"
    );
    Ok(ratio <= COST && most_traffic <= TRAFFIC && most_skew <= SKEW_MS)
}

/// Returns the median of ratios with an interval: of nine ratios, the second and the eighth enclose the median with a
/// probability of 96 % (order statistics).
fn with_interval(mut ratios: Vec<f64>) -> String {
    ratios.sort_by(f64::total_cmp);
    let cut = usize::from(ratios.len() >= 8);
    let (low, high) = (ratios[cut], ratios[ratios.len() - 1 - cut]);
    format!("{:7.3} ({low:.3} to {high:.3})", median(ratios))
}

/// Compares the latencies of two ranks and of one process at the same total rate; returns whether they agree.
fn latency(place: &Place, rounds: usize) -> Result<bool, String> {
    let [one, two] = ["one-process", "two-ranks"].map(|name| place.folder.join(name));
    for folder in [&one, &two] {
        fs::create_dir_all(folder)
            .map_err(|error| format!("failed to make {}: {error}", folder.display()))?;
    }
    let (mut valid, mut attempts) = (0, 0);
    while valid < rounds && attempts < ATTEMPTS * rounds {
        let file = format!("{valid}.json");
        let solo = || {
            let mut words = place.load(Loop::Open, CONNECTIONS, 1, Some(&one.join(&file)));
            words.extend(["--threads", "2"].map(str::to_owned));
            place.together(&[words])
        };
        let ranks = || place.together(&place.ranks(Loop::Open, Some(&two.join(&file)))?);
        let is_valid = match attempts % 2 {
            0 => solo()?.is_valid & ranks()?.is_valid,
            _ => ranks()?.is_valid & solo()?.is_valid,
        };
        attempts += 1;
        valid += usize::from(is_valid);
    }
    if valid < rounds {
        // The last attempt was invalid, and no valid round has replaced its files.
        for folder in [&one, &two] {
            let file = folder.join(format!("{valid}.json"));
            fs::remove_file(&file)
                .map_err(|error| format!("failed to remove {}: {error}", file.display()))?;
        }
    }
    let output = Command::new(&place.ours)
        .args(["compare", "--json", "--allow-different"])
        .args([&one, &two])
        .output()
        .map_err(|error| format!("failed to run fathometer compare: {error}"))?;
    let compared: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
        let errors = String::from_utf8_lossy(&output.stderr);
        format!("the output of fathometer compare is not JSON: {error}: {errors}")
    })?;
    println!(
        "two ranks against one process, {RATE} requests/s, {valid} of {rounds} valid rounds of {LENGTH}, {attempts} attempts"
    );
    for reason in compared["invalid"].as_array().into_iter().flatten() {
        println!("not compared: {reason}");
    }
    let changes = compared["changes"]
        .as_array()
        .ok_or("there are no changes")?;
    let is_valid = compared["invalid"].as_array().is_none_or(Vec::is_empty);
    let mut judged = 0;
    let mut is_met = is_valid && valid == rounds;
    for change in changes {
        let metric = change["metric"].as_str().unwrap_or_default();
        if !LATENCIES.contains(&metric) {
            continue;
        }
        let percent = |name: &str| {
            let share = change[name].as_f64();
            share.map_or("?".to_owned(), |share| format!("{:+.1} %", 100.0 * share))
        };
        let verdict = change["verdict"].as_str().unwrap_or("none");
        println!(
            "{metric:30} {} ({} to {})  {verdict}",
            percent("change"),
            percent("low"),
            percent("high")
        );
        // A change without an interval is not judged.
        judged += usize::from(change["low"].is_number());
        is_met &= matches!(verdict, "equal" | "undecided");
    }
    Ok(is_met && judged == LATENCIES.len())
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("failed to write {}: {error}", path.display()))
}
