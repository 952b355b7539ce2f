//! Pages over TLS by HTTP/1.1, HTTP/2 and HTTP/3 on an emulated path. Every file must arrive complete,
//! handshakes must be recorded, and the bytes of heads must equal those that tshark decrypts from the same
//! capture.
//!
//! Needs a lab, and nginx and tshark for some tests. If something is missing, a test prints a message and
//! skips, unless `FATHOMETER_REQUIRE_LAB` or `FATHOMETER_REQUIRE_TOOLS` is 1.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use fathometer_model::{ConnectionRecord, ExchangeRecord, Outcome, ReplicateRecord, Seed};
use serde::de::DeserializeOwned;

/// A round trip of 20 ms is enough to distinguish handshakes of one and of two round trips.
const STUDY: &str = r#"
name = "pages"
title = "Pages over TLS"
workload = "microscape"
side_by_side = {}
limits = { open = { lateness_p99_us = 10000000, lateness_max_us = 10000000, deadline_s = 600 } }
client = { host = "www.today.test", fields = [["Accept", "*/*"]], first_range = 256 }
[defaults]
policy = "h2"
coding = "identity"
visit = "first"
path = "open"
era = "today"
server = "embedded"
rtt = "20"
rate = "20"
tls = "1.3"
push = "all"
congestion = "era"
priority = "browser"
h3_window = "default"
[replicates.quick]
open = 1
[[block]]
name = "main"
purpose = "every policy"
[block.factors]
policy = ["h1.1x6-tls", "h1.1-pipeline-tls", "h2", "h2c", "h2-sharded", "h2-push", "h3"]
workload = ["microscape", "today"]
[[block]]
name = "visits"
purpose = "what is resumed and validated"
[block.factors]
policy = ["h1.1", "h2", "h3"]
visit = ["revalidate"]
[[block]]
name = "tls"
purpose = "handshakes"
[block.factors]
policy = ["h1.1x6-tls", "h2"]
tls = ["1.2", "1.2-resumed", "1.3", "1.3-resumed", "1.3-early"]
[[block]]
name = "windows"
purpose = "a window that stops the server"
[block.factors]
policy = ["h3"]
workload = ["today"]
h3_window = ["16384"]
[[block]]
name = "nginx"
purpose = "another server"
[block.factors]
policy = ["h1.1x6-tls", "h2"]
server = ["nginx"]
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

/// Returns the lengths of the files of a workload's page, by path.
fn files(workload: &str) -> BTreeMap<String, u64> {
    let loaded = fathometer_load::workload::load(workload, Seed(1), &mut |_, _| {}).unwrap();
    let site = loaded.site(Seed(1));
    let page = &site.pages[0];
    let members = std::iter::once(page.base).chain(page.embedded.iter().copied());
    members
        .map(|id| (site.file(id).path.clone(), site.file(id).body.len().0))
        .collect()
}

struct Retrieved {
    record: ReplicateRecord,
    exchanges: Vec<ExchangeRecord>,
    connections: Vec<ConnectionRecord>,
}

impl Retrieved {
    fn level(&self, factor: &str) -> &str {
        self.record.cell.level(factor).unwrap_or("")
    }

    fn name(&self) -> String {
        format!("{} {}", self.record.block, self.record.cell)
    }

    /// Asserts that every file arrived once and complete, by its length.
    fn assert_whole(&self) {
        let name = self.name();
        let workload = match self.level("workload") {
            "" => "microscape",
            workload => workload,
        };
        let files = files(workload);
        let targets: BTreeSet<&str> = self.exchanges.iter().map(|e| e.target.as_str()).collect();
        assert_eq!(targets.len(), self.exchanges.len(), "{name}: each once");
        let wanted: BTreeSet<&str> = files.keys().map(String::as_str).collect();
        assert_eq!(targets, wanted, "{name}");
        let visit = self.level("visit");
        for exchange in &self.exchanges {
            assert_eq!(
                exchange.outcome,
                Outcome::Complete,
                "{name} {}",
                exchange.target
            );
            let length = match visit {
                "revalidate" => 0,
                _ => files[&exchange.target],
            };
            let bytes = exchange.response_body.0;
            match self.level("policy") {
                // Each frame has a header of 9 bytes.
                policy if policy.starts_with("h2") => {
                    assert!(bytes >= length, "{name}: {bytes} of {length}");
                    assert_eq!((bytes - length) % 9, 0, "{name} {}", exchange.target);
                }
                policy if policy.starts_with("h3") => {
                    assert!(
                        (length..=length + 16 + length / 500).contains(&bytes),
                        "{name}"
                    );
                }
                _ => assert_eq!(bytes, length, "{name} {}", exchange.target),
            }
        }
    }

    /// Asserts that the server waits for a round trip at each end of a small HTTP/3 window, and never waits with a
    /// browser's window.
    fn assert_window_waits(&self) {
        if self.level("policy") != "h3" {
            return;
        }
        let name = self.name();
        let waits = || self.connections.iter().flat_map(|c| &c.window_waits);
        let Ok(window) = self.level("h3_window").parse::<u64>() else {
            assert_eq!(waits().count(), 0, "{name}");
            return;
        };
        for wait in waits() {
            // The new limit and the bytes that it allows together need a round trip of 20 ms.
            assert!(
                wait.to.since(wait.granted).as_millis() >= 20,
                "{name}: {wait:?}"
            );
            assert!(wait.from < wait.to, "{name}: {wait:?}");
        }
        // The windows of most streams stop files that are longer. For the other files, the limit is inside a packet, or
        // the window of the connection stops them.
        let long: Vec<_> = self
            .exchanges
            .iter()
            .filter(|e| e.response_body.0 > 2 * window)
            .collect();
        let is_stopped = |id| waits().any(|wait| wait.exchange == Some(id));
        let stopped = long.iter().filter(|e| is_stopped(e.exchange)).count();
        assert!(
            long.len() >= 3 && 2 * stopped >= long.len(),
            "{name}: {stopped} of {}",
            long.len()
        );
    }

    fn assert_handshakes(&self) {
        let name = self.name();
        let policy = self.level("policy");
        let protected =
            policy.ends_with("-tls") || matches!(policy, "h2" | "h3" | "h2-sharded" | "h2-push");
        for (n, connection) in self.connections.iter().enumerate() {
            let Some(tls) = &connection.tls else {
                assert!(!protected, "{name}");
                continue;
            };
            let protocol = if policy.starts_with("h1") {
                "http/1.1"
            } else {
                &policy[..2]
            };
            assert_eq!(connection.protocol.as_deref(), Some(protocol), "{name}");
            assert!(tls.sent.0 > 100 && tls.received.0 > 100, "{name}");
            let level = self.level("tls");
            assert_eq!(tls.resumed, level.contains('-'), "{name} {n}");
            assert_eq!(
                tls.early_data == Some(true),
                level == "1.3-early",
                "{name} {n}"
            );
            let trips = match level {
                "1.2" => 2,
                "1.3-early" => 0,
                _ => 1,
            };
            assert_eq!(tls.round_trips, trips, "{name}");
            // The handshakes of TCP and then TLS take at least the round trips of the path.
            let ready = connection.established.unwrap().since(connection.opened);
            let least = match policy {
                "h3" => 1,
                _ => 1 + trips,
            };
            assert!(
                ready.as_millis() >= u128::from(20 * least),
                "{name}: {ready:?}"
            );
        }
    }
}

#[test]
fn pages_come_whole_and_are_counted_as_tshark_decrypts_them() {
    let folder = tempfile::tempdir().unwrap();
    let study = folder.path().join("study.toml");
    fs::write(&study, STUDY).unwrap();
    let run = folder.path().join("run");
    let output = Command::new(env!("CARGO_BIN_EXE_fathometer"))
        .args([
            "study",
            study.to_str().unwrap(),
            "--seed",
            "1",
            "--quiet",
            "--output",
        ])
        .arg(&run)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if !matches!(output.status.code(), Some(0 | 3)) {
        assert!(
            !required("FATHOMETER_REQUIRE_LAB"),
            "the study failed: {said}"
        );
        eprintln!("SKIPPED: no study can be run here: {said}");
        return;
    }
    // An invalid replicate is repeated, but its page was retrieved, so the first record of each cell with figures
    // counts.
    let records: Vec<ReplicateRecord> = lines(&run.join("replicates.ndjson"));
    let mut firsts: BTreeMap<String, ReplicateRecord> = BTreeMap::new();
    for record in records {
        if record.metrics.is_empty() {
            eprintln!("{}: {:?}", record.cell, record.validity);
            continue;
        }
        let cell = format!("{} {}", record.block, record.cell);
        firsts.entry(cell).or_insert(record);
    }
    let ours = firsts.values().filter(|record| record.block != "nginx");
    assert_eq!(ours.count(), 14 + 3 + 10 + 1, "{said}");
    let mut decrypted = 0;
    for record in firsts.into_values() {
        let place = run.join(&record.folder);
        let retrieved = Retrieved {
            exchanges: lines(&place.join("exchanges.ndjson")),
            connections: lines(&place.join("connections.ndjson")),
            record,
        };
        retrieved.assert_whole();
        retrieved.assert_handshakes();
        retrieved.assert_window_waits();
        if matches!(retrieved.level("policy"), "h2" | "h2c" | "h2-sharded") {
            decrypted += usize::from(compare_with_tshark(&retrieved, &place));
        }
    }
    assert!(decrypted >= 8 || !required("FATHOMETER_REQUIRE_TOOLS"));
    // The report names only the small window as the cause.
    let report = fs::read_to_string(run.join("report.html")).unwrap();
    let waterfalls = report.split("<details class=\"waterfall\"").skip(1);
    let summaries: Vec<&str> = waterfalls
        .filter_map(|waterfall| {
            waterfall
                .split_once("<summary>")?
                .1
                .split_once("</summary>")
        })
        .map(|(summary, _)| summary)
        .collect();
    let (small, others): (Vec<&str>, Vec<&str>) =
        summaries.iter().partition(|s| s.starts_with("windows, "));
    assert!(
        small.len() == 1 && small[0].contains("flow control"),
        "{small:#?}"
    );
    let of_http3 = || {
        others
            .iter()
            .filter(|s| s.contains("h3") || s.contains("HTTP/3"))
    };
    assert!(of_http3().count() >= 2, "{others:#?}");
    assert!(
        of_http3().all(|s| !s.contains("flow control")),
        "{others:#?}"
    );
}

/// Compares the bytes of HEADERS and CONTINUATION frames in each direction with tshark's counts. Returns false without
/// tshark.
fn compare_with_tshark(retrieved: &Retrieved, place: &Path) -> bool {
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("SKIPPED: tshark is not installed");
        return false;
    }
    // The server's taps would add every segment a second time.
    let client = place.join("client.pcapng");
    let kept = Command::new("tshark")
        .args(["-n", "-r"])
        .arg(place.join("capture.pcapng"))
        .args([
            "-Y",
            r#"frame.interface_name == "client.tx" || frame.interface_name == "client.rx""#,
            "-w",
        ])
        .arg(&client)
        .output()
        .unwrap();
    assert!(
        kept.status.success(),
        "{}",
        String::from_utf8_lossy(&kept.stderr)
    );
    let keys = place.join("keys.log");
    let mut tshark = Command::new("tshark");
    tshark.args([
        "-n",
        "-2",
        "-d",
        "tcp.port==80,http2",
        "-o",
        "tcp.reassemble_out_of_order:TRUE",
    ]);
    if keys.exists() {
        tshark
            .arg("-o")
            .arg(format!("tls.keylog_file:{}", keys.display()));
    }
    let output = tshark
        .arg("-r")
        .arg(&client)
        .args(["-Y", "http2", "-T", "fields", "-E", "occurrence=a"])
        .args([
            "-e",
            "tcp.dstport",
            "-e",
            "http2.type",
            "-e",
            "http2.length",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let mut bytes = [0_u64; 2];
    for line in text.lines() {
        let mut columns = line.split('\t');
        let to: &str = columns.next().unwrap_or_default();
        let up = usize::from(!matches!(to.split(',').next(), Some("80" | "443")));
        let types = columns.next().unwrap_or_default().split(',');
        let lengths = columns.next().unwrap_or_default().split(',');
        for (kind, length) in types.zip(lengths) {
            if matches!(kind, "1" | "9") {
                bytes[up] += 9 + length.parse::<u64>().unwrap();
            }
        }
    }
    let metric = |name: &str| retrieved.record.metrics[name] as u64;
    let ours = [metric("header_bytes_up"), metric("header_bytes_down")];
    assert_eq!(ours, bytes, "{}", retrieved.name());
    true
}
