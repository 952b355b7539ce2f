//! `cargo xtask bench surge`: plans a site of a million files and a sequence of ten million requests with the ordinary
//! command `fathometer site`. Both are tested against their laws (the target distributions). Time is wall time,
//! including the start of the program. Memory is peak resident memory. The files are planned, not written.
//!
//! The requests of the sequence must meet all laws. The tests of this project also check the laws at the paper's size.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::trace::build;

const WORKLOAD: &str = "surge:files=1000000,requests=10000000";
/// Upper bounds of time and memory.
const LONGEST: Duration = Duration::from_millis(2500);
const MOST_KIB: u64 = 128 << 10;
/// Interval at which peak memory is read. A peak in the last interval may be missed.
const LOOK: Duration = Duration::from_millis(5);

/// Measures, prints the results, and fails when a target is missed.
pub(crate) fn run(root: &Path) -> Result<ExitCode, String> {
    let ours = build(root)?;
    let begin = Instant::now();
    let mut child = Command::new(ours)
        .args(["site", WORKLOAD, "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("failed to run fathometer site: {error}"))?;
    let mut output = child
        .stdout
        .take()
        .ok_or("fathometer site has no standard output")?;
    let reader = thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    let peak = watch(&mut child)?;
    let elapsed = begin.elapsed();
    let output = reader
        .join()
        .expect("it does not panic")
        .map_err(|error| format!("failed to read the output of fathometer site: {error}"))?;
    let output: Value = serde_json::from_str(&output)
        .map_err(|error| format!("the output of fathometer site is not JSON: {error}"))?;
    let failed = failed(&output)?;
    let met = elapsed < LONGEST && peak < MOST_KIB && failed.is_empty();
    println!("{WORKLOAD}");
    for (what, figure, bar) in [
        (
            "time",
            format!("{:.1} s", elapsed.as_secs_f64()),
            format!("below {} s", LONGEST.as_secs_f64()),
        ),
        (
            "memory",
            format!("{} MiB", peak >> 10),
            format!("below {} MiB", MOST_KIB >> 10),
        ),
    ] {
        println!("{what:14}{figure:>12}  target {bar}");
    }
    match failed.as_slice() {
        [] => println!("laws          all met"),
        failed => println!("laws not met  {}", failed.join(", ")),
    }
    println!("{}", if met { "met" } else { "MISSED" });
    println!(
        "{}",
        json!({ "bench": "surge", "seconds": elapsed.as_secs_f64(), "peak_kib": peak, "laws_not_met": failed, "met": met })
    );
    Ok(match met {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Returns the names of the stages whose test failed.
fn failed(output: &Value) -> Result<Vec<String>, String> {
    let stages = output["fit"]["stages"]
        .as_array()
        .filter(|stages| !stages.is_empty())
        .ok_or("fathometer site reports no stage")?;
    let failed = stages
        .iter()
        .filter(|stage| !matches!(stage["verdict"].as_str(), Some("passes" | "reported")));
    Ok(failed
        .map(|stage| {
            stage["name"]
                .as_str()
                .unwrap_or("a stage without a name")
                .to_owned()
        })
        .collect())
}

/// Waits for a program to exit; returns its peak resident memory, in KiB.
fn watch(child: &mut Child) -> Result<u64, String> {
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let value = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let value = value.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse().ok());
        peak = value.map_or(peak, |value: u64| value.max(peak));
        let ended = child.try_wait().map_err(|error| error.to_string())?;
        match ended {
            Some(status) if status.success() => return Ok(peak),
            Some(status) => return Err(format!("fathometer site failed: {status}")),
            None => thread::sleep(LOOK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_law_that_differs_is_named_and_no_stages_are_an_error() {
        let stage = |name, verdict| json!({ "name": name, "verdict": verdict });
        let stages = [
            stage("a", "passes"),
            stage("b", "differs"),
            stage("c", "reported"),
        ];
        let output = json!({ "fit": { "stages": stages } });
        assert_eq!(failed(&output), Ok(vec!["b".to_owned()]));
        assert!(failed(&json!({ "fit": { "stages": [] } })).is_err());
        assert!(failed(&json!({})).is_err());
    }
}
