//! Runs the cells of the study, and compares every packet class of their captures with tshark's count.
//!
//! Each cell runs once, as a user runs it. With `FATHOMETER_TEST_ALL`, all cells of the study run. Without it, the
//! block `content` and one of the two embedded servers are left out: their packets differ from those of the other cells
//! only in size. During the study, tshark counts in each capture the packets at the client's taps that pass the display
//! filter of each class. The counts must equal those that the run recorded. A test of lateness would need a quiet
//! machine, so this test sets lateness limits that a busy machine meets. Needs a lab and tshark. Without them, the test
//! prints a message and passes, unless `FATHOMETER_REQUIRE_LAB` or `FATHOMETER_REQUIRE_TOOLS` is 1.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use fathometer_model::ReplicateRecord;
use fathometer_packets::Class;

/// Number of simultaneous tshark processes.
const COUNTERS: usize = 2;

/// Returns the paper's study, with limits that only a stalled path exceeds.
fn lenient() -> String {
    let paper = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers/nielsen97/study.toml");
    let text = fs::read_to_string(paper).unwrap();
    let mut study: toml::Table = text.parse().unwrap();
    for (_, limits) in study["limits"].as_table_mut().unwrap() {
        let limits = limits.as_table_mut().unwrap();
        for lateness in ["lateness_p99_us", "lateness_max_us"] {
            limits.insert(lateness.to_owned(), 10_000_000.into());
        }
        limits.insert("deadline_s".to_owned(), 600.into());
    }
    if std::env::var_os("FATHOMETER_TEST_ALL").is_none_or(|value| value != "1") {
        let blocks = study["block"].as_array_mut().unwrap();
        // The cells of the block a-a are in the block main, too.
        blocks.retain(|block| !matches!(block["name"].as_str(), Some("content" | "a-a")));
        for block in blocks {
            let servers = block["factors"].get_mut("server");
            if let Some(servers) = servers.and_then(toml::Value::as_array_mut)
                && servers.len() > 1
            {
                servers.retain(|server| server.as_str() != Some("embedded-apache"));
            }
        }
    }
    toml::to_string(&study).unwrap()
}

#[test]
fn every_class_of_the_captures_of_the_study_is_tsharks() {
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
    let study = folder.path().join("study.toml");
    fs::write(&study, lenient()).unwrap();
    let run = folder.path().join("run");
    let said = folder.path().join("said");
    let child = Command::new(env!("CARGO_BIN_EXE_fathometer"))
        .arg("study")
        .arg(&study)
        .args(["--quick", "--replicates", "1", "--quiet", "--output"])
        .arg(&run)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&said).unwrap())
        .spawn()
        .unwrap();
    let course = Mutex::new(Course {
        child,
        records: run.join("replicates.ndjson"),
        read: 0,
        waiting: VecDeque::new(),
        taken: BTreeSet::new(),
        ended: None,
    });
    let differences = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..COUNTERS {
            scope.spawn(|| {
                while let Some(record) = next(&course) {
                    let capture = run.join(&record.folder).join("capture.pcapng");
                    let theirs = tsharks_counts(&capture);
                    let ours: Vec<u64> = Class::ALL
                        .iter()
                        .map(|class| record.metrics[&format!("packets_{}", class.metric())] as u64)
                        .collect();
                    if ours != theirs {
                        let difference =
                            format!("{}: run {ours:?}, tshark {theirs:?}", record.folder);
                        differences.lock().unwrap().push(difference);
                    }
                }
            });
        }
    });
    let course = course.into_inner().unwrap();
    // Exit code 3: cells are invalid because the machine is busy, which does not affect the counts.
    if !matches!(course.ended, Some(Some(0 | 3))) {
        let said = fs::read_to_string(&said).unwrap();
        assert!(
            !required("FATHOMETER_REQUIRE_LAB"),
            "the study failed: {said}"
        );
        eprintln!("SKIPPED: no study can be run here: {said}");
        return;
    }
    let total = course.taken.len();
    assert!(total > 150, "{total} cells");
    let differences = differences.into_inner().unwrap();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    println!("{total} captures, {} classes each", Class::ALL.len());
}

/// A running study, and the records taken from it.
struct Course {
    child: Child,
    records: PathBuf,
    /// Bytes of the records read so far.
    read: u64,
    waiting: VecDeque<ReplicateRecord>,
    /// The cells whose records were returned.
    taken: BTreeSet<String>,
    /// The exit code of the study, after its exit.
    ended: Option<Option<i32>>,
}

impl Course {
    /// Returns the next record, valid or not, of a cell that was not returned before. A record without figures (the
    /// server did not start) is skipped.
    fn take(&mut self) -> Option<ReplicateRecord> {
        self.read();
        while let Some(record) = self.waiting.pop_front() {
            let cell = format!("{} {}", record.block, record.cell);
            if !record.metrics.is_empty() && self.taken.insert(cell) {
                return Some(record);
            }
        }
        None
    }

    /// Reads the new records.
    fn read(&mut self) {
        // The file exists once the first cell is done.
        let Ok(mut file) = File::open(&self.records) else {
            return;
        };
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(self.read)).unwrap();
        file.read_to_end(&mut bytes).unwrap();
        // Bytes after the last line end are still being written.
        let whole = bytes.iter().rposition(|&byte| byte == b'\n');
        let whole = whole.map_or(0, |end| end + 1);
        self.read += whole as u64;
        let lines = std::str::from_utf8(&bytes[..whole]).unwrap().lines();
        let records = lines.map(|line| serde_json::from_str(line).unwrap());
        self.waiting.extend(records);
    }
}

impl Drop for Course {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the next record; waits for it while the study runs.
fn next(course: &Mutex<Course>) -> Option<ReplicateRecord> {
    loop {
        {
            let mut course = course.lock().unwrap();
            // Checks for the exit before it reads the records: after the exit, no record is added.
            if course.ended.is_none() {
                course.ended = course.child.try_wait().unwrap().map(|status| status.code());
            }
            let record = course.take();
            if record.is_some() || course.ended.is_some() {
                return record;
            }
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// Counts the packets of each class at the client's taps with tshark, in the order of [`Class::ALL`].
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
    // `| 0.000 <> 1.073 |     43 |  1892 |    191 | 195623 |`: frames and bytes alternate.
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
