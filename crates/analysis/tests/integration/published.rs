//! Recomputes the published runs from their raw records with a script that shares no code with the program, and counts
//! their packets with tshark.

#![expect(clippy::disallowed_types, reason = "other programs are processes")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/integration/published/recompute.py"
);

/// The seed of random selections.
const SEED: &str = "20";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns whether a program is installed. With `FATHOMETER_REQUIRE_TOOLS=1`, panics if it is not installed.
fn is_there(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    if output.is_ok_and(|output| output.status.success()) {
        return true;
    }
    let required = std::env::var("FATHOMETER_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
    assert!(!required, "this test needs {program} {arguments:?}");
    eprintln!("not tested: no {program} {arguments:?}");
    false
}

/// Returns whether Python 3.11 or later is installed.
fn has_python() -> bool {
    is_there("python3", &["-c", "import tomllib"])
}

fn script(run: &Path, options: &[&str]) -> Output {
    let mut command = Command::new("python3");
    command.arg(SCRIPT).arg(run).args(options);
    command.output().unwrap()
}

/// Runs the script on a run and returns its results. The exit code of the script is 1 if a figure differs.
fn recomputed(run: &Path, options: &[&str]) -> Value {
    let output = script(run, &[options, &["--json"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        matches!(output.status.code(), Some(0 | 1)) && said.is_empty(),
        "{}: {said}",
        run.display(),
    );
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output.status.success(), differences(&found).is_empty());
    found
}

fn differences(found: &Value) -> &[Value] {
    found["differ"].as_array().unwrap()
}

/// Returns the folders of all published runs of studies.
fn runs() -> Vec<PathBuf> {
    let folders = fs::read_dir(root().join("runs/published")).unwrap();
    let mut runs: Vec<PathBuf> = folders
        .map(|entry| entry.unwrap().path())
        .filter(|folder| folder.join("replicates.ndjson").is_file())
        .collect();
    runs.sort();
    runs
}

#[test]
fn every_entry_of_every_published_table_and_curve_is_what_the_records_say() {
    if !has_python() {
        return;
    }
    let runs = runs();
    assert!(runs.len() >= 10, "{runs:?}");
    let (mut compared, mut printed) = (0, 0);
    for run in &runs {
        let found = recomputed(run, &[]);
        let none: &[Value] = &[];
        assert_eq!(differences(&found), none, "{}", run.display());
        compared += found["compared"].as_u64().unwrap();
        printed += found["printed"].as_u64().unwrap();
    }
    assert!(
        compared > 5000 && printed > 3000,
        "{compared} compared, {printed} printed"
    );
}

#[test]
fn tshark_counts_the_packets_of_cells_drawn_at_random_as_their_records_do() {
    if !has_python() || !is_there("tshark", &["--version"]) {
        return;
    }
    let with_captures = |run: &PathBuf| run.join("captures").is_dir();
    let runs: Vec<PathBuf> = runs().into_iter().filter(with_captures).collect();
    assert!(!runs.is_empty(), "no published run has packets");
    for run in runs {
        let found = recomputed(&run, &["--draw", "10", "--packets", "10", "--seed", SEED]);
        let none: &[Value] = &[];
        assert_eq!(differences(&found), none, "{}", run.display());
        assert_eq!(found["compared"], 10);
        assert_eq!(found["cells"].as_array().unwrap().len(), 10);
    }
}

/// Copies some files of a small run to a temporary folder.
fn copy(files: &[&str]) -> tempfile::TempDir {
    let runs = runs();
    let is_small = |run: &&PathBuf| run.to_string_lossy().contains("barford98-packets");
    let run = runs.iter().find(is_small).unwrap();
    let copy = tempfile::tempdir().unwrap();
    for file in files {
        fs::copy(run.join(file), copy.path().join(file)).unwrap();
    }
    copy
}

#[test]
fn a_record_that_was_changed_after_its_summary_is_found() {
    if !has_python() {
        return;
    }
    let copy = copy(&["summary.json", "replicates.ndjson"]);
    let path = copy.path().join("replicates.ndjson");
    let records = fs::read_to_string(&path).unwrap();
    let differ = |records: &str| {
        fs::write(&path, records).unwrap();
        !differences(&recomputed(copy.path(), &[])).is_empty()
    };
    assert!(!differ(&records));
    // The test first removes a replicate. Then it increases the figures of one replicate by a factor of 1.0001.
    let (_, rest) = records.split_once('\n').unwrap();
    assert!(differ(rest));
    let mut first: Value = serde_json::from_str(records.lines().next().unwrap()).unwrap();
    for metric in first["metrics"].as_object_mut().unwrap().values_mut() {
        *metric = (metric.as_f64().unwrap() * 1.0001).into();
    }
    assert!(differ(&format!("{first}\n{rest}")));
}

#[test]
fn a_digit_that_was_changed_in_a_report_is_found() {
    if !has_python() {
        return;
    }
    let copy = copy(&["summary.json", "replicates.ndjson", "report.html"]);
    let path = copy.path().join("report.html");
    let page = fs::read_to_string(&path).unwrap();
    let found = recomputed(copy.path(), &[]);
    assert!(differences(&found).is_empty() && found["printed"].as_u64() > Some(0));
    // Changes the last digit of the first figure in the first table.
    let mark = "<td class=\"value first\"><a href=\"";
    let figure = page.find(mark).unwrap() + mark.len();
    let end = figure + page[figure..].find("</a>").unwrap();
    let last = page[end - 1..end].parse::<u8>().unwrap();
    let changed = format!("{}{}{}", &page[..end - 1], (last + 1) % 10, &page[end..]);
    fs::write(&path, changed).unwrap();
    let found = recomputed(copy.path(), &[]);
    assert_eq!(differences(&found).len(), 1, "{found}");
    let drawn = script(copy.path(), &["--draw", "3", "--seed", SEED]);
    let text = String::from_utf8(drawn.stdout).unwrap();
    assert_eq!(text.matches(" from the records\n").count(), 3, "{text}");
    assert!(text.contains("3 entries compared"), "{text}");
}
