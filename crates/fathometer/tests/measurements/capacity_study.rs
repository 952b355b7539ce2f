//! A capacity study from its file to its records: one search in a laboratory.
//!
//! Needs a lab and control groups. Without them, the test prints a message and passes, unless
//! `FATHOMETER_REQUIRE_LAB=1` makes that a failure.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use fathometer_model::ReplicateRecord;
use serde_json::Value;

/// An open loop on a small share of a processor: latency exceeds its limit as soon as the processor is exhausted. The
/// interval is wide, so that the search is short.
const STUDY: &str = r#"
name = "small"
title = "A small capacity study"
kind = "capacity"
workload = "microscape:files=1"
side_by_side = {}
client = { host = "www", fields = [], first_range = 0 }

[defaults]
policy = "h1.1"
coding = "identity"
visit = "first"
path = "open-fast"
era = "today"
server = "embedded"

[capacity]
of = "rate"
slo = ["p90<200ms"]
width_pct = { quick = 95, full = 95 }
budget_s = { quick = 60, full = 60 }
longest_trial_s = 6
start = 100

[load]
duration_s = { quick = 1, full = 1 }
warm_up_s = { quick = 0.2, full = 0.2 }
timeout_s = 2
cpu_quota = 0.06
shed_at = 1
generator_busy_pct = 100
send_lag_p99_us = 1000000

[replicates.quick]
open-fast = 1

[limits]
open-fast = { lateness_p99_us = 1000000, lateness_max_us = 10000000, deadline_s = 120 }

[[block]]
name = "main"
purpose = "one cell"
[block.factors]
policy = ["h1.1"]
"#;

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_search_in_a_cell_leaves_its_ends_its_trials_and_nothing_that_was_not_tested() {
    let Some(_alone) = super::ground("capacity_study") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("small.toml");
    fs::write(&file, STUDY).unwrap();
    let run = folder.path().join("run");
    let output = Command::new(env!("CARGO_BIN_EXE_fathometer"))
        .arg("study")
        .arg(&file)
        .args(["--quick", "--quiet", "--output"])
        .arg(&run)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // Noise may have ended a search without a capacity (exit code 3). Such a replicate has a reason instead.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    let records: Vec<ReplicateRecord> = fs::read_to_string(run.join("replicates.ndjson"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(!records.is_empty(), "{said}");
    assert_eq!(
        output.status.code() == Some(0),
        records.iter().any(|record| record.validity.is_valid()),
        "{said}"
    );
    let report = Command::new(env!("CARGO_BIN_EXE_fathometer"))
        .arg("report")
        .arg(&run)
        .output()
        .unwrap();
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    let has_capacity = records.iter().any(|record| record.validity.is_valid());
    assert_eq!(
        report.contains("exhausted first: "),
        has_capacity,
        "{report}"
    );
    if has_capacity {
        let page = fs::read_to_string(run.join("report.html")).unwrap();
        assert!(page.contains("Exhausted first"));
        let summary = document(&run.join("summary.json"));
        assert_eq!(summary["gave_out"][0]["of"], 1, "{}", summary["gave_out"]);
    }
    for record in &records {
        let metrics = &record.metrics;
        let trials = lines(&run.join(&record.folder).join("trials.ndjson"));
        assert_eq!(trials.len() as f64, metrics["capacity_trials"], "{said}");
        let answer = &document(&run.join(&record.folder).join("capacity.json"));
        assert_eq!(answer["unit"], "per_s");
        let Some(capacity) = metrics.get("capacity") else {
            assert!(!record.validity.is_valid() && !metrics.contains_key("capacity_works"));
            assert!(answer["works"].is_null() && answer["reasons"][0].is_string());
            continue;
        };
        let (works, fails) = (metrics["capacity_works"], metrics["capacity_fails"]);
        assert!(works < *capacity && *capacity < fails, "{metrics:?}");
        assert!(fails <= 1.95 * works + 1e-6, "{metrics:?}");
        // Each end was tested by a separate trial.
        for (end, purpose) in [(works, "works"), (fails, "fails")] {
            let is_tested = |trial: &Value| trial["load"] == end && trial["purpose"] == purpose;
            assert!(trials.iter().any(is_tested), "{end} {purpose}: {trials:?}");
        }
        assert_eq!(
            (&answer["works"], &answer["fails"]),
            (&works.into(), &fails.into())
        );
        gave_out_agrees(metrics, &answer["gave_out"]);
    }
}

/// Checks that a replicate with an interval states the first exhausted resource, both as metrics and with its evidence.
fn gave_out_agrees(metrics: &BTreeMap<String, f64>, gave_out: &Value) {
    let ours = metrics.iter().filter_map(|(name, value)| {
        let resource = name.strip_prefix("capacity_gave_out_")?;
        (*value == 1.0).then(|| resource.replace('_', "-"))
    });
    let named: Vec<String> = ours.collect();
    let resource = gave_out["resource"].as_str().unwrap_or("nothing");
    assert_eq!(named, [resource], "{gave_out}");
    let figures = gave_out["figures"].as_array().unwrap();
    let figure = |start: &str| {
        let found = figures
            .iter()
            .find(|figure| figure["name"].as_str().unwrap().starts_with(start));
        found.and_then(|figure| figure["fails"].as_f64())
    };
    let quota = figure("CPU time of 0.06 cores").unwrap();
    assert!(quota > 0.0, "{gave_out}");
    // The link has no rate limit that could be exhausted, and the noise of other programs is not a limit of the host.
    if quota >= 0.95 {
        assert_eq!(resource, "cpu", "{gave_out}");
    }
    assert!(
        figure("disk busy").is_none_or(|busy| busy >= 0.0),
        "{gave_out}"
    );
}

fn document(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}
