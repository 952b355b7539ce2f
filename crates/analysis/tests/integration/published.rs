//! The published runs, computed again from their raw records by a script that shares no code with the program.

#![expect(clippy::disallowed_types, reason = "other programs are processes")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/integration/published/recompute.py"
);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What the script finds in the run of a folder; `None` without Python 3.11, which `FATHOMETER_REQUIRE_TOOLS` requires.
fn recomputed(run: &Path, study: &str) -> Option<Value> {
    let python = Command::new("python3")
        .args(["-c", "import tomllib"])
        .output();
    if !python.is_ok_and(|output| output.status.success()) {
        let required = std::env::var("FATHOMETER_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
        assert!(!required, "this test needs python3, 3.11 or later");
        eprintln!("not tested: no python3 of 3.11 or later");
        return None;
    }
    let tables = root().join("papers").join(study).join("tables.toml");
    let output = Command::new("python3")
        .arg(SCRIPT)
        .args([run, tables.as_path()])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}: {}",
        run.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// The published runs of studies, with the names of the studies.
fn runs() -> Vec<(PathBuf, String)> {
    let folders = fs::read_dir(root().join("runs/published")).unwrap();
    let mut runs: Vec<(PathBuf, String)> = folders
        .map(|entry| entry.unwrap().path())
        .filter(|folder| folder.join("replicates.ndjson").is_file())
        .map(|folder| {
            let summary = fs::read(folder.join("summary.json")).unwrap();
            let summary: Value = serde_json::from_slice(&summary).unwrap();
            (folder, summary["study"].as_str().unwrap().to_owned())
        })
        .collect();
    runs.sort();
    runs
}

#[test]
fn every_entry_of_every_published_table_and_curve_is_what_the_records_say() {
    let runs = runs();
    assert!(runs.len() >= 10, "{runs:?}");
    let mut compared = 0;
    for (run, study) in &runs {
        let Some(found) = recomputed(run, study) else {
            return;
        };
        assert_eq!(
            found["differ"],
            Value::Array(Vec::new()),
            "{}",
            run.display()
        );
        compared += found["compared"].as_u64().unwrap();
    }
    assert!(compared > 5000, "{compared}");
}

#[test]
fn a_record_that_was_changed_after_its_summary_is_found() {
    let runs = runs();
    let is_small = |(run, _): &&(PathBuf, String)| run.to_string_lossy().contains("barford98-idle");
    let (run, study) = runs.iter().find(is_small).unwrap();
    let copy = tempfile::tempdir().unwrap();
    fs::copy(run.join("summary.json"), copy.path().join("summary.json")).unwrap();
    let records = fs::read_to_string(run.join("replicates.ndjson")).unwrap();
    let write = |records: &str| fs::write(copy.path().join("replicates.ndjson"), records).unwrap();
    write(&records);
    let Some(found) = recomputed(copy.path(), study) else {
        return;
    };
    assert_eq!(found["differ"], Value::Array(Vec::new()));
    // One replicate less, and then one figure that is a ten-thousandth larger.
    let (_, rest) = records.split_once('\n').unwrap();
    write(rest);
    assert!(
        !recomputed(copy.path(), study).unwrap()["differ"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    let mut first: Value = serde_json::from_str(records.lines().next().unwrap()).unwrap();
    for metric in first["metrics"].as_object_mut().unwrap().values_mut() {
        *metric = (metric.as_f64().unwrap() * 1.0001).into();
    }
    write(&format!("{first}\n{rest}"));
    assert!(
        !recomputed(copy.path(), study).unwrap()["differ"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}
