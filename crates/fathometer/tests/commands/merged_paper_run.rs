//! A merged run of a paper's study, as the reports and the ledger read it: the published run of nielsen97, divided into the
//! shares of two machines and merged again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::programs::{FATHOMETER, run_well};

const PAPER: &str = "nielsen97";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the folder of the newest published run of the paper.
fn published() -> PathBuf {
    let folders = fs::read_dir(repository().join("runs/published")).unwrap();
    let folders = folders.map(|entry| entry.unwrap().path());
    folders
        .filter(|path| path.to_str().unwrap().ends_with(&format!("-{PAPER}")))
        .max()
        .unwrap()
}

/// Reads the main block of the run: its facts, and its records.
fn main_block(folder: &Path) -> (Value, Vec<Value>) {
    let info = fs::read_to_string(folder.join("run.json")).unwrap();
    let records = fs::read_to_string(folder.join("replicates.ndjson")).unwrap();
    let records = records
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let is_main = |record: &Value| record["block"] == "main";
    (
        serde_json::from_str(&info).unwrap(),
        records.filter(is_main).collect(),
    )
}

fn write(folder: &Path, info: &Value, records: &[&Value]) {
    fs::create_dir(folder).unwrap();
    fs::write(folder.join("run.json"), info.to_string()).unwrap();
    let lines = records.iter().map(|record| format!("{record}\n"));
    fs::write(folder.join("replicates.ndjson"), lines.collect::<String>()).unwrap();
}

fn fathometer(arguments: &[&str], folders: &[&Path]) -> String {
    let mut command = Command::new(FATHOMETER);
    command
        .args(arguments)
        .args(folders)
        .current_dir(repository());
    String::from_utf8(run_well(&command)).unwrap()
}

/// Returns the claims that the ledger tests on a run, each with its era.
fn tested(run: &Path) -> Vec<String> {
    let ledger: Value = serde_json::from_str(&fathometer(&["ledger", "--json"], &[run])).unwrap();
    let rows = ledger["rows"].as_array().unwrap().iter();
    let tested = rows.filter(|row| row["verdict"] != "not-tested");
    tested
        .map(|row| format!("{} {}", row["claim"], row["era"]))
        .collect()
}

#[test]
fn the_ledger_and_the_report_read_a_merged_run_of_a_paper() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (mut info, records) = main_block(&published());
    info["replicates_planned"] = records.len().into();
    let all: Vec<&Value> = records.iter().collect();
    write(&path("one"), &info, &all);
    for rank in 0..2u64 {
        let is_own = |record: &&&Value| record["replicate"].as_u64().unwrap() % 2 == rank;
        let own: Vec<&Value> = all.iter().filter(is_own).copied().collect();
        let mut info = info.clone();
        info["share"] = json!({
            "rank": rank, "ranks": 2, "replicates": all.len(), "design": "the same", "boot_id": format!("kernel {rank}"),
        });
        info["machine"]["cpu"] = format!("processor {rank}").into();
        info["replicates_planned"] = own.len().into();
        write(&path(&format!("rank-{rank}")), &info, &own);
    }
    let merged = path("merged");
    let output = ["merge", "--output", merged.to_str().unwrap()];
    fathometer(&output, &[&path("rank-0"), &path("rank-1")]);

    let report = fathometer(&["report"], &[&merged]);
    for expected in [
        "Machines: ratio of each machine to the mean of all machines",
        "rank 1",
    ] {
        assert!(report.contains(expected), "{expected}: {report}");
    }
    let page = fs::read_to_string(merged.join("report.html")).unwrap();
    assert!(page.contains("processor 0") && page.contains("processor 1"));

    let (one, two) = (tested(&path("one")), tested(&merged));
    assert!(!one.is_empty());
    assert_eq!(one, two);

    // Compares the run with itself, machine by machine.
    let compared = fathometer(&["compare", "--json"], &[&merged, &merged]);
    let compared: Value = serde_json::from_str(&compared).unwrap();
    let pairs = [0, 1].map(|rank| json!({"before": rank, "after": rank, "same_kernel": true}));
    assert_eq!(compared["machines"], json!(pairs));
    let changes = compared["changes"].as_array().unwrap();
    assert!(!changes.is_empty() && changes.iter().all(|change| change["change"] == 0.0));
}
