//! `cargo xtask bench capacity`: 200 searches on simulated servers whose capacity is known, with the ordinary
//! command `fathometer capacity --self-test`. All times are virtual: the time of the trials, not of the machine
//! that simulates them.

use std::path::Path;
use std::process::{Command, ExitCode};

use serde_json::Value;

use super::trace::build;

const SEARCHES: &str = "200";
/// The largest median time of a search.
const LONGEST_S: f64 = 180.0;
/// The largest median time of a search, relative to bisection with the same guarantee.
const OF_BISECTION: f64 = 0.6;
/// The largest median width of the intervals. The tolerance is for rounding, because each end is computed from the
/// other end.
const WIDTH: f64 = 0.02 + 1e-9;
/// The least share of the intervals that contain the capacity.
const CONTAIN: f64 = 0.95;

/// Measures, prints the results, and fails when a target is missed.
pub(crate) fn run(root: &Path) -> Result<ExitCode, String> {
    let ours = build(root)?;
    let output = Command::new(ours)
        .args([
            "capacity",
            "--self-test",
            "--searches",
            SEARCHES,
            "--quiet",
            "--json",
        ])
        .output()
        .map_err(|error| format!("failed to run fathometer capacity: {error}"))?;
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("the output of fathometer capacity is not JSON: {error}"))?;
    let all = rows.last().ok_or("the self-test has no rows")?;
    let figure = |value: &Value| {
        value
            .as_f64()
            .ok_or_else(|| format!("{value} is not a number"))
    };
    let seconds = figure(&all["seconds"][0])?;
    let bisection = figure(&all["bisection_seconds"])?;
    let width = figure(&all["width"][0])?;
    let answered = figure(&all["answered"])?;
    let contain = figure(&all["contain"])? / answered;
    let ramp = figure(&all["ramp_seconds"])?;
    let ramp_right = figure(&all["ramp_contain"])? / figure(&all["searches"])?;
    let mut all_met = true;
    for (what, figure, bar, met) in [
        (
            "median search, virtual time",
            format!("{seconds:.0} s"),
            format!("at most {LONGEST_S:.0} s"),
            seconds <= LONGEST_S,
        ),
        (
            "of bisection",
            format!("{:.2}", seconds / bisection),
            format!("at most {OF_BISECTION:.2}"),
            seconds <= OF_BISECTION * bisection,
        ),
        (
            "median width",
            format!("{:.2} %", 100.0 * width),
            "at most 2 %".to_owned(),
            width <= WIDTH,
        ),
        (
            "intervals that contain the capacity",
            format!("{:.1} % of {answered:.0}", 100.0 * contain),
            format!("at least {:.0} %", 100.0 * CONTAIN),
            contain >= CONTAIN,
        ),
    ] {
        println!("{what:36}{figure:>16}  target {bar}");
        all_met &= met;
    }
    // A step ramp gives no guarantee, so its time has no target.
    println!(
        "{:36}{:>16}  and {:.0} % of the ramps contain the capacity",
        "of a step ramp",
        format!("{:.2}", seconds / ramp),
        100.0 * ramp_right
    );
    println!("{}", if all_met { "met" } else { "MISSED" });
    Ok(if all_met {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
