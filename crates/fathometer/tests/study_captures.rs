//! Every cell of the study, and every packet class of its captures against tshark's count.
//!
//! The quick study is run whole, as a user runs it; then tshark counts, on a capture of each cell, the packets
//! at the client's taps that each class's display filter lets through, and the counts must be those
//! that the run recorded. Needs a lab and tshark: without either it says so and passes, unless
//! `FATHOMETER_REQUIRE_LAB` or `FATHOMETER_REQUIRE_TOOLS` is 1.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use fathometer_analysis::packets::Class;
use fathometer_model::ReplicateRecord;

/// Programs that count at the same time.
const COUNTERS: usize = 2;

#[test]
fn every_class_of_every_capture_of_the_study_is_tsharks() {
    let required = |name: &str| std::env::var(name).is_ok_and(|value| value == "1");
    if Command::new("tshark").arg("--version").output().is_err() {
        assert!(
            !required("FATHOMETER_REQUIRE_TOOLS"),
            "tshark is not installed"
        );
        eprintln!("SKIPPED: tshark is not installed");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let output = Command::new(env!("CARGO_BIN_EXE_fathometer"))
        .args(["study", "nielsen97", "--quick", "--quiet", "--output"])
        .arg(&run)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // 3: cells are invalid because the machine is busy, which is no matter to counting.
    if !matches!(output.status.code(), Some(0 | 3)) {
        assert!(
            !required("FATHOMETER_REQUIRE_LAB"),
            "the study failed: {said}"
        );
        eprintln!("SKIPPED: no study can be run here: {said}");
        return;
    }
    let lines = fs::read_to_string(run.join("replicates.ndjson")).unwrap();
    let records: VecDeque<ReplicateRecord> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        // One repetition of each cell, valid or not. A server that did not start leaves no figures.
        .filter(|record: &ReplicateRecord| record.replicate == 0 && !record.metrics.is_empty())
        .collect();
    assert!(records.len() > 200, "{} replicates", records.len());
    let total = records.len();
    let waiting = Mutex::new(records);
    let differences = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..COUNTERS {
            scope.spawn(|| {
                loop {
                    let Some(record) = waiting.lock().unwrap().pop_front() else {
                        return;
                    };
                    let capture = run.join(&record.folder).join("capture.pcapng");
                    let theirs = tsharks_counts(&capture);
                    let ours: Vec<u64> = Class::ALL
                        .iter()
                        .map(|class| record.metrics[&format!("packets_{}", class.metric())] as u64)
                        .collect();
                    if ours != theirs {
                        let difference = format!("{}: {ours:?} against {theirs:?}", record.folder);
                        differences.lock().unwrap().push(difference);
                    }
                }
            });
        }
    });
    let differences = differences.into_inner().unwrap();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    println!("{total} captures, {} classes each", Class::ALL.len());
}

/// The packets of each class at the client's taps, in the order of [`Class::ALL`].
fn tsharks_counts(capture: &Path) -> Vec<u64> {
    let taps = r#"(frame.interface_name == "client.tx" || frame.interface_name == "client.rx")"#;
    let columns: Vec<String> = Class::ALL
        .iter()
        .map(|class| format!("{taps} && ({})", class.display_filter()))
        .collect();
    let output = Command::new("tshark")
        .args(["-q", "-n", "-o", "tcp.analyze_sequence_numbers:FALSE", "-r"])
        .arg(PathBuf::from(capture))
        .args(["-z", &format!("io,stat,0,{}", columns.join(","))])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // `| 0.000 <> 1.073 |     43 |  1892 |    191 | 195623 |`: frames and octets by turns.
    let row = text
        .lines()
        .find(|line| line.contains("<>"))
        .unwrap_or_else(|| panic!("tshark counts nothing in {}: {text}", capture.display()));
    row.split('|')
        .filter_map(|cell| cell.trim().parse::<u64>().ok())
        .step_by(2)
        .take(Class::ALL.len())
        .collect()
}
