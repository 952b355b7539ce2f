//! A sweep study from its file to a prediction: one replicate in a laboratory.
//!
//! Needs a lab and control groups. Without them, the test prints a message and passes, unless
//! `FATHOMETER_REQUIRE_LAB=1` makes that a failure.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use fathometer_model::ReplicateRecord;
use serde_json::Value;

/// Three numbers of users on a tenth of a processor; the largest number exhausts the CPU quota. Noise in one of five
/// rounds hardly changes a pseudo-median.
const STUDY: &str = r#"
name = "small"
title = "A small sweep study"
kind = "sweep"
workload = "microscape:files=1"
side_by_side = {}
client = { host = "www", fields = [], first_range = 0 }

[defaults]
policy = "h1.0"
coding = "identity"
visit = "first"
path = "campus"
era = "today"
server = "embedded"

[sweep]
users = [1, 4, 40]
rounds = { quick = 5, full = 5 }
pause = { after = [40], s = 0.2 }
batches = { sizes = [20], per_s = 50 }

[load]
duration_s = { quick = 0.6, full = 0.6 }
warm_up_s = { quick = 0.1, full = 0.1 }
timeout_s = 5
cpu_quota = 0.1
shed_at = 1
generator_busy_pct = 100
send_lag_p99_us = 1000000

[replicates.quick]
campus = 1

[limits]
campus = { lateness_p99_us = 1000000, lateness_max_us = 10000000, deadline_s = 120 }

[[block]]
name = "main"
purpose = "one cell"
[block.factors]
policy = ["h1.0"]
"#;

#[test]
fn a_sweep_has_figures_for_each_number_of_users_and_can_be_predicted_from() {
    let Some(_alone) = crate::ground("a sweep study") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (file, run) = (folder.path().join("study.toml"), folder.path().join("run"));
    fs::write(&file, STUDY).unwrap();
    let program = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_fathometer"))
            .args(arguments)
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    let output = program(&["study", "study.toml", "--plan"]);
    let plan = String::from_utf8(output.stdout).unwrap();
    // Fifteen slices of 0.75 s, five pauses of 0.2 s, and five slices of two batches that take 1.15 s.
    assert!(plan.contains("18 s"), "{plan}");
    let output = program(&["study", "study.toml", "--quiet", "--output", "run"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("fathometer predict run"), "{said}");
    // Noise may have made the replicate invalid (exit code 3), but its figures exist.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");

    let text = fs::read_to_string(run.join("replicates.ndjson")).unwrap();
    // The last record counts; earlier attempts were INVALID.
    let record: ReplicateRecord = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let of = |metric: &str, users: u32| record.metrics[&format!("{metric}_of_{users}_users")];
    for users in [1, 4, 40] {
        assert!(of("exchanges_per_s", users) > 0.0, "{said}");
        assert!(of("cpu_us_per_exchange", users) > 0.0);
        assert!(of("response_p98_ms", users) >= of("response_p50_ms", users));
        // The number of users by Little's law, within the noise.
        assert!(
            (80.0..120.0).contains(&of("users_seen_pct", users)),
            "{said}"
        );
    }
    // Forty exchanges in two intervals of 0.4 s.
    let of_batches = |metric: &str| record.metrics[&format!("{metric}_of_batches_of_20")];
    assert!((of_batches("exchanges_per_s") - 50.0).abs() < 1e-9);
    assert!(of_batches("cpu_us_per_exchange") > 0.0);
    assert!(of("exchanges_per_s", 4) > 2.0 * of("exchanges_per_s", 1));
    assert!(of("cpu_total_pct", 40) > of("cpu_total_pct", 1));
    // A slice takes at least 0.7 s, and the pause after it at least 0.2 s.
    let duty_cycle = of("duty_cycle_pct", 40);
    assert!((50.0..95.0).contains(&duty_cycle), "{duty_cycle}");
    assert!(!record.metrics.contains_key("duty_cycle_pct_of_4_users"));

    let slices = fs::read_to_string(run.join(&record.folder).join("slices.ndjson")).unwrap();
    let slices: Vec<Value> = slices
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut count: BTreeMap<u64, u32> = BTreeMap::new();
    for slice in &slices {
        let load = slice["users"].as_u64().or(slice["batch"].as_u64());
        *count.entry(load.unwrap()).or_default() += 1;
    }
    assert_eq!(count, [(1, 5), (4, 5), (20, 5), (40, 5)].into());
    // The slices follow each other, each with the length of its window.
    let time = |slice: &Value, end: &str| slice[end].as_f64().unwrap();
    for pair in slices.windows(2) {
        assert!(
            time(&pair[0], "to_s") < time(&pair[1], "from_s"),
            "{pair:?}"
        );
    }
    let of_users = slices.iter().find(|slice| slice["batch"].is_null());
    let first = of_users.unwrap();
    assert!((time(first, "to_s") - time(first, "from_s") - 0.6).abs() < 0.1);

    // The report shows each load as a cell with one replicate.
    let output = program(&["report", "run"]);
    let report = String::from_utf8(output.stdout).unwrap();
    for users in [1, 4, 40] {
        assert!(report.contains(&format!("clients={users} ")), "{report}");
    }
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("clients=40") && page.contains("clients=batch-20"));
    assert!(!page.contains("5 replicates"));

    if record.validity.is_valid() {
        let output = program(&["predict", "run", "--fit=1,4", "--bursts=40", "--json"]);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        let series = found["predictions"].as_array().unwrap().iter();
        // Two light loads may be too noisy for any law; the output then states this.
        for prediction in series {
            assert_eq!(prediction["fitted_users"], serde_json::json!([1, 4]));
            assert_eq!(prediction["burst_users"], serde_json::json!([40]));
        }
        let output = program(&["predict", "run", "--fit=1,4", "--batches=20", "--json"]);
        let of_batches: Value = serde_json::from_slice(&output.stdout).unwrap();
        for prediction in of_batches["predictions"].as_array().unwrap() {
            assert_eq!(prediction["batch_sizes"], serde_json::json!([20]));
        }
        let answers =
            ["predictions", "unpredicted"].map(|key| found[key].as_array().unwrap().len());
        assert_eq!(answers.iter().sum::<usize>(), 1, "{found}");
    }
}
