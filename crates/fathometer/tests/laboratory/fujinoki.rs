//! Sets of files retrieved one by one, in packages and in archives, from a disk. Every file must arrive
//! complete, the server must open as many files as the policy implies, a cold page cache must be cold, and a
//! second visit must transfer only what has changed.
//!
//! Needs a lab. If something is missing, a test prints a message and skips, unless `FATHOMETER_REQUIRE_LAB` is
//! 1.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use fathometer_model::{Delivery, FileArrival, ReplicateRecord, Seed};
use serde::de::DeserializeOwned;

/// The lateness limits are high, so that a busy machine passes.
const STUDY: &str = r#"
name = "sets"
title = "Sets of files"
workload = "pareto:mean=4k"
accounts = true
snap_length = 128
alone = ["lan100"]
side_by_side = {}
limits = { lan100 = { lateness_p99_us = 10000000, lateness_max_us = 10000000, deadline_s = 600 } }
client = { host = "sets.test", fields = [["Accept", "*/*"]], first_range = 0 }
[defaults]
policy = "h1.1"
coding = "identity"
visit = "first"
path = "lan100"
era = "today"
server = "embedded"
sets = "1"
packages = "made"
page_cache = "warm"
changed = "0"
[replicates.quick]
lan100 = 1
[[block]]
name = "main"
purpose = "every policy"
[block.factors]
policy = ["h1.0", "h1.1", "h1.1-pipeline", "h2c", "h1.1-package", "h1.1-package-v1", "h2c-package", "h3-package", "h1.1-tar", "h1.1-tar-whole", "h1.1-zip"]
[[block]]
name = "cold"
purpose = "nothing in memory"
[block.factors]
policy = ["h1.1", "h1.1-package"]
page_cache = ["cold"]
[[block]]
name = "revisit"
purpose = "some files have changed"
[block.factors]
policy = ["h1.1", "h1.1-package", "h1.1-package-delta"]
visit = ["revisit"]
changed = ["0", "5"]
[[block]]
name = "five"
purpose = "sets back to back"
[block.factors]
policy = ["h1.1-package"]
sets = ["5"]
packages = ["on-the-fly"]
"#;

fn required(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| value == "1")
}

fn lines<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Returns the lengths of the files of the group, by path.
fn files() -> BTreeMap<String, u64> {
    let loaded =
        fathometer_load::workload::load("pareto:mean=4k", Seed(1), &mut |_, _| {}).unwrap();
    let site = loaded.site(Seed(1));
    let files = site.files.iter();
    files
        .map(|file| (file.path.clone(), file.body.len().0))
        .collect()
}

/// Runs a study; `None` if this machine cannot run studies.
fn run(study: &str, more: &[&str], folder: &Path) -> Option<Output> {
    let output = Command::new(env!("CARGO_BIN_EXE_fathometer"))
        .args(["study", study, "--seed", "1", "--quiet", "--output"])
        .arg(folder)
        .args(more)
        .output()
        .unwrap();
    if matches!(output.status.code(), Some(0 | 3)) {
        return Some(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !required("FATHOMETER_REQUIRE_LAB"),
        "the study failed: {said}"
    );
    eprintln!("SKIPPED: no study can be run here: {said}");
    None
}

/// One replicate and its files.
struct Retrieved {
    record: ReplicateRecord,
    arrivals: Vec<FileArrival>,
}

impl Retrieved {
    fn name(&self) -> String {
        format!("{} {}", self.record.block, self.record.cell)
    }

    fn level(&self, factor: &str) -> &str {
        self.record.cell.level(factor).unwrap_or("")
    }

    fn metric(&self, name: &str) -> f64 {
        let found = self.record.metrics.get(name);
        *found.unwrap_or_else(|| panic!("{} has no {name}: {:?}", self.name(), self.record))
    }

    fn by(&self, delivery: Delivery) -> usize {
        self.arrivals.iter().filter(|a| a.by == delivery).count()
    }

    /// Asserts that the files of these sets arrived, each once.
    fn assert_has(&self, sets: &[&str]) {
        let files = files();
        let wanted: BTreeSet<&str> = files
            .keys()
            .map(String::as_str)
            .filter(|path| sets.iter().any(|set| path.starts_with(set)))
            .collect();
        let got: BTreeSet<&str> = self.arrivals.iter().map(|a| a.target.as_str()).collect();
        assert_eq!(got, wanted, "{}", self.name());
        assert_eq!(self.arrivals.len(), wanted.len(), "{}", self.name());
    }

    /// Asserts that every fetched file has its correct length.
    fn assert_whole(&self) {
        let files = files();
        for arrival in &self.arrivals {
            let fetched = matches!(arrival.by, Delivery::Singly | Delivery::Bundled);
            // HTTP/2 and HTTP/3 add frame headers.
            let framed =
                self.level("policy").starts_with("h2") || self.level("policy").starts_with("h3");
            if fetched && !framed {
                assert_eq!(
                    arrival.bytes.0,
                    files[&arrival.target],
                    "{} {}",
                    self.name(),
                    arrival.target
                );
            }
            assert!(arrival.started <= arrival.usable, "{}", self.name());
        }
    }

    fn assert_times(&self) {
        let name = self.name();
        let usable = ["usable_1_s", "usable_10_s", "usable_50_s", "usable_all_s"];
        let usable = usable.map(|name| self.metric(name));
        assert!(usable.is_sorted(), "{name}: {usable:?}");
        assert!(usable[3] <= self.metric("elapsed_s"), "{name}");
        let elapsed = self.metric("elapsed_s");
        let response = self.metric("server_response_s");
        assert!(
            response > 0.0 && response < elapsed,
            "{name}: the server responded for {response} s of {elapsed} s"
        );
        assert!(self.metric("client_response_s") < elapsed, "{name}");
        for host in ["client", "server"] {
            let used = self.metric(&format!("{host}_cpu_s"));
            let program = self.metric(&format!("{host}_cpu_program_s"));
            let network = self.metric(&format!("{host}_cpu_network_s"));
            assert!(program > 0.0 && network > 0.0, "{name}");
            assert!((program + network - used).abs() < 1e-9, "{name}");
            // A reading of 1 % is 1 ms of CPU time. The readings add up to all CPU time used, except for gaps
            // before late readings.
            let read = self.metric(&format!("{host}_cpu_accumulated_pct")) / 1e3;
            assert!(
                read > 0.0 && read < used * 1.001 + 1e-6,
                "{name}: {host}: readings of {read} s, {used} s used"
            );
        }
    }

    fn assert_storage(&self) {
        let name = self.name();
        let opens = self.metric("disk_opens");
        let bundled = self.level("policy").contains('-') && self.level("policy") != "h1.1-pipeline";
        match (bundled, self.record.block.as_str()) {
            // Five packages of 100 files each, built from the single files.
            (_, "five") => assert!(opens >= 500.0, "{name}: {opens}"),
            (_, "revisit") => {}
            (true, _) => assert!(opens <= 5.0, "{name}: {opens}"),
            (false, _) => assert!((100.0..=110.0).contains(&opens), "{name}: {opens}"),
        }
        let is_cold = self.level("page_cache") == "cold";
        let in_memory = |reason: &String| reason.contains("file system in memory");
        if self.record.validity.reasons.iter().any(in_memory) {
            eprintln!("NOTE: the temporary folder is in memory: {name} cannot be cold");
        } else if is_cold && let Some(fetched) = self.record.metrics.get("disk_fetched_bytes") {
            let total: u64 = self.arrivals.iter().map(|arrival| arrival.bytes.0).sum();
            assert!(*fetched >= total as f64, "{name}: {fetched} of {total}");
        }
    }
}

#[test]
fn sets_come_whole_whatever_they_come_in_and_the_disk_is_accounted_for() {
    let folder = tempfile::tempdir().unwrap();
    let study = folder.path().join("study.toml");
    fs::write(&study, STUDY).unwrap();
    let place = folder.path().join("run");
    let Some(output) = run(study.to_str().unwrap(), &[], &place) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let mut last: BTreeMap<String, Retrieved> = BTreeMap::new();
    for record in lines::<ReplicateRecord>(&place.join("replicates.ndjson")) {
        if record.metrics.is_empty() {
            eprintln!("{}: {:?}", record.cell, record.validity);
            continue;
        }
        let arrivals = lines(&place.join(&record.folder).join("files.ndjson"));
        let retrieved = Retrieved { record, arrivals };
        last.insert(retrieved.name(), retrieved);
    }
    assert_eq!(last.len(), 11 + 2 + 6 + 1, "{said}");
    for retrieved in last.values() {
        let name = retrieved.name();
        let sets: &[&str] = match retrieved.level("sets") {
            "5" => &["/set0/", "/set1/", "/set2/", "/set3/", "/set4/"],
            _ => &["/set0/"],
        };
        retrieved.assert_has(sets);
        retrieved.assert_whole();
        retrieved.assert_times();
        retrieved.assert_storage();
        if retrieved.record.block == "revisit" {
            let changed: usize = retrieved.level("changed").parse().unwrap();
            let fetched = retrieved.by(Delivery::Singly) + retrieved.by(Delivery::Bundled);
            let wanted = match (retrieved.level("policy"), changed) {
                // A single changed file changes the whole package.
                ("h1.1-package", 5) => 100,
                _ => changed,
            };
            assert_eq!(fetched, wanted, "{name}");
        }
        let archive = ["tar-whole", "zip"];
        if archive
            .iter()
            .any(|kind| retrieved.level("policy").ends_with(kind))
        {
            assert_eq!(
                retrieved.metric("usable_1_s"),
                retrieved.metric("usable_all_s"),
                "{name}: no file is usable before it is complete"
            );
        }
    }
}

#[test]
fn the_papers_study_runs_and_is_judged() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("run");
    let only = [
        "block=published",
        "workload=pareto:mean=4k",
        "policy=h1.0",
        "policy=h1.1-package",
    ];
    let mut more: Vec<&str> = only.iter().flat_map(|only| ["--only", only]).collect();
    more.extend(["--replicates", "2"]);
    let Some(output) = run("fujinoki03", &more, &place) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("F01"), "{said}");
    let report = fs::read_to_string(place.join("report.html")).unwrap();
    for word in ["550", "Object package", "F01"] {
        assert!(report.contains(word), "the report has no {word}");
    }
}
