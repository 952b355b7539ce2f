//! `cargo xtask bench predict`: six servers at light loads and at loads to and past the knee, with the ordinary commands
//! `fathometer study` and `fathometer predict`. The model is fitted to loads with at most 60 % of the highest throughput,
//! and predicts the others. A second study has a server that its threads limit. Takes about 15 minutes; nothing else may run
//! on the machine.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use serde_json::Value;

use super::trace::{Scratch, build};

/// Each study, and what `predict` has to know of it.
const STUDIES: [(&str, &[&str]); 2] = [
    ("xtask/src/bench/predict/study.toml", &[]),
    (
        "xtask/src/bench/predict/workers.toml",
        &["--timeout", "500ms"],
    ),
];
const FIT_UP_TO: &str = "60%";

/// A figure, and the largest errors that are accepted; the shares of all measured loads that were not fitted.
struct Bar {
    what: &'static str,
    key: &'static str,
    /// The median error.
    median: f64,
    /// The largest error.
    largest: f64,
    /// Measured means within their 90 % prediction interval.
    within: f64,
}

const BARS: [Bar; 3] = [
    Bar {
        what: "throughput",
        key: "throughput_compared",
        median: 0.03,
        largest: 0.06,
        within: 0.0,
    },
    Bar {
        what: "mean latency",
        key: "mean_compared",
        median: 0.09,
        largest: f64::INFINITY,
        within: 0.0,
    },
    // Studies record p98 and not p99.
    Bar {
        what: "p98",
        key: "tail_compared",
        median: f64::INFINITY,
        largest: f64::INFINITY,
        within: 0.9,
    },
];

/// Errors of one figure.
#[derive(Debug, PartialEq)]
struct Errors {
    median: f64,
    largest: f64,
    within: f64,
    count: usize,
}

/// Measures, predicts, prints, and fails when a bar is missed.
pub(crate) fn run(root: &Path) -> Result<ExitCode, String> {
    let ours = build(root)?;
    let mut all_met = true;
    for (study, more) in STUDIES {
        all_met &= of(root, &ours, study, more)?;
    }
    Ok(match all_met {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Whether the predictions of a study meet the bars.
fn of(root: &Path, ours: &Path, study: &str, more: &[&str]) -> Result<bool, String> {
    let scratch = Scratch::new()?;
    let folder = scratch.path().join("run");
    // Exit code 3: cells without a valid replicate are not used, and a series of which too few are left fails below.
    let measured = Command::new(ours)
        .args(["study", study, "--quick", "--output"])
        .arg(&folder)
        .current_dir(root)
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("failed to run fathometer study: {error}"))?;
    if !matches!(measured.code(), Some(0 | 3)) {
        return Err(format!("fathometer study failed: {measured}"));
    }
    let predict = |format: &[&str]| {
        Command::new(ours)
            .arg("predict")
            .arg(&folder)
            .args(["--fit-up-to", FIT_UP_TO])
            .args(more)
            .args(format)
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("failed to run fathometer predict: {error}"))
    };
    for format in [&["--markdown"][..], &[]] {
        println!("{}", String::from_utf8_lossy(&predict(format)?.stdout));
    }
    let output: Value = serde_json::from_slice(&predict(&["--json"])?.stdout)
        .map_err(|error| format!("the output of fathometer predict is not JSON: {error}"))?;
    let mut all_met = output["unpredicted"].as_array().is_some_and(Vec::is_empty);
    for bar in BARS {
        let Some(found) = errors(&output, bar.key) else {
            println!("{}: no load that was not fitted: MISSED", bar.what);
            all_met = false;
            continue;
        };
        let met = found.median <= bar.median
            && found.largest <= bar.largest
            && found.within >= bar.within;
        all_met &= met;
        println!(
            "{} of {} loads: median error {:.1} % (bar {}), largest {:.1} % (bar {}), within the interval {:.0} % (bar {}): {}",
            bar.what,
            found.count,
            100.0 * found.median,
            percent(bar.median),
            100.0 * found.largest,
            percent(bar.largest),
            100.0 * found.within,
            percent(bar.within),
            if met { "met" } else { "MISSED" }
        );
    }
    Ok(all_met)
}

fn percent(share: f64) -> String {
    match share.is_finite() && share > 0.0 {
        true => format!("{:.0} %", 100.0 * share),
        false => "none".to_owned(),
    }
}

/// The errors of a figure over the measured loads that were not fitted; `None` without any.
fn errors(output: &Value, key: &str) -> Option<Errors> {
    let rows = output["predictions"]
        .as_array()?
        .iter()
        .filter_map(|prediction| prediction["rows"].as_array())
        .flatten();
    let compared: Vec<(f64, bool)> = rows
        .filter(|row| row["fitted"] == false)
        .filter_map(|row| {
            let compared = row.get(key)?;
            Some((
                compared["error_share"].as_f64()?.abs(),
                compared["within"].as_bool()?,
            ))
        })
        .collect();
    let mut sizes: Vec<f64> = compared.iter().map(|(size, _)| *size).collect();
    sizes.sort_by(f64::total_cmp);
    let count = sizes.len();
    let within = compared.iter().filter(|(_, within)| *within).count();
    Some(Errors {
        median: *sizes.get(count / 2)?,
        largest: *sizes.last()?,
        within: within as f64 / count as f64,
        count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_measured_loads_that_were_not_fitted() {
        let row = |fitted: bool, error: f64, within: bool| {
            serde_json::json!({
                "fitted": fitted,
                "throughput_compared": {"measured": 1.0, "error_share": error, "within": within},
            })
        };
        let output = serde_json::json!({"predictions": [
            {"rows": [row(true, 0.9, false), row(false, -0.3, false), row(false, 0.1, true)]},
            {"rows": [row(false, 0.2, true), {"fitted": false}]},
        ]});
        let found = errors(&output, "throughput_compared").unwrap();
        assert_eq!((found.median, found.largest, found.count), (0.2, 0.3, 3));
        assert!((found.within - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(errors(&output, "tail_compared"), None);
    }
}
