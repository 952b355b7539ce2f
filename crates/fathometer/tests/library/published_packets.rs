//! The packets that published runs keep: Wireshark counts the same in them as the records say.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::programs::{run_well, tool};

/// How many cells of each run are counted again.
const CELLS: usize = 10;

/// Published runs with packets.
fn runs() -> Vec<PathBuf> {
    let published = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runs/published");
    let entries = fs::read_dir(published).unwrap();
    let mut runs: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|run| run.join("captures").is_dir())
        .collect();
    runs.sort();
    runs
}

/// The record of the first valid replicate of each cell that has a published capture, with that capture.
fn counted(run: &Path) -> Vec<(serde_json::Value, PathBuf)> {
    let text = fs::read_to_string(run.join("replicates.ndjson")).unwrap();
    let mut first: BTreeMap<String, serde_json::Value> = BTreeMap::new();
    for line in text.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let is_valid = record["validity"]["reasons"]
            .as_array()
            .is_none_or(Vec::is_empty);
        let folder = record["folder"].as_str().unwrap();
        let cell = folder.rsplit_once('/').unwrap().0;
        let cell = cell.strip_prefix("cells/").unwrap_or(cell).to_owned();
        if !is_valid {
            continue;
        }
        let order = |record: &serde_json::Value| record["replicate"].as_u64();
        match first.get(&cell) {
            Some(earlier) if order(earlier) <= order(&record) => {}
            _ => {
                first.insert(cell, record);
            }
        }
    }
    let with_capture = |(cell, record): (String, serde_json::Value)| {
        let capture = run.join("captures").join(format!("{cell}.pcapng.zst"));
        capture.is_file().then_some((record, capture))
    };
    first.into_iter().filter_map(with_capture).collect()
}

/// Packets and bytes of IP in a capture, by tshark.
fn by_tshark(tshark: &Path, capture: &Path) -> (u64, u64) {
    let mut command = Command::new(tshark);
    command
        .args(["-n", "-T", "fields", "-e", "ip.len", "-r"])
        .arg(capture);
    let text = String::from_utf8(run_well(&command)).unwrap();
    let lengths: Vec<u64> = text
        .lines()
        .map(|line| line.trim().parse().unwrap())
        .collect();
    (lengths.len() as u64, lengths.iter().sum())
}

#[test]
fn tshark_counts_the_packets_of_published_captures_as_their_records_do() {
    let Some(tshark) = tool("tshark") else { return };
    let runs = runs();
    assert!(!runs.is_empty(), "no published run has packets");
    for run in runs {
        let counted = counted(&run);
        assert!(counted.len() >= CELLS, "{}", run.display());
        // Spread over all cells, in the order of their names.
        for (record, capture) in counted.iter().step_by(counted.len() / CELLS).take(CELLS) {
            let metric = |name: &str| record["metrics"][name].as_f64().unwrap() as u64;
            assert_eq!(
                by_tshark(&tshark, capture),
                (metric("packets"), metric("ip_bytes")),
                "{}",
                capture.display()
            );
        }
    }
}
