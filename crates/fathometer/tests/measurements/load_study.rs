//! A study of loads from its file to its records, run by the command.
//!
//! Needs a lab and control groups. Without them, the test prints a message and passes, unless
//! `FATHOMETER_REQUIRE_LAB=1` makes that a failure.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output};

use fathometer_model::ReplicateRecord;
use fathometer_sys::{Namespace, Tun, cgroup};

use crate::support::alone::alone;

/// A study of two policies, each on a host with limited CPU and memory.
const STUDY: &str = r#"
name = "small"
title = "A small study"
kind = "load"
workload = "surge:files=50,requests=20000"

[defaults]
policy = "h1.1"
coding = "identity"
visit = "first"
path = "lan100"
era = "today"
server = "embedded"
workload = "surge:files=50,requests=20000"
loop = "surge"
ues = "30"
cpu = "100"
memory = "64M"
disk = "none"
cache = "warm"
initcwnd = "2"
backlog = "system"
workers = "none"
shed = "off"
keep_alive_s = "15"
keep_alive_requests = "150"
beside = "none"
udp_offload = "on"

[scale]
paper_ues = 2.5
rule = "a rule"

[load]
duration_s = { quick = 2, full = 2 }
warm_up_s = { quick = 0.5, full = 0.5 }
timeout_s = 5
cpu_quota = 0.05
shed_at = 16
generator_busy_pct = 100
send_lag_p99_us = 1000000

[replicates.quick]
lan100 = 1

[side_by_side]

[limits]
lan100 = { lateness_p99_us = 1000000, lateness_max_us = 10000000, deadline_s = 120 }

[client]
host = "surge"
fields = []
first_range = 0

[[block]]
name = "main"
purpose = "two policies"
[block.factors]
policy = ["h1.0", "h1.1"]

[[block]]
name = "held"
purpose = "connections without requests"
[block.factors]
loop = ["idle"]
# Long enough for each to have been used once, however busy the machine is.
[block.load]
warm_up_s = { quick = 3, full = 3 }

[[block]]
name = "beside"
purpose = "two loads at once, each on a server of its own"
[block.factors]
beside = ["h1.0@embedded"]

[[block]]
name = "quic"
purpose = "connections that are not in the kernel's tables"
[block.factors]
policy = ["h3"]
udp_offload = ["on", "off"]
[block.load]
cpu_quota = 0.5
"#;

fn ground() -> bool {
    let lab = Namespace::new()
        .and_then(|namespace| namespace.run(|| Tun::create("probe0", 1500, 100).map(drop))?)
        .map_err(|error| error.to_string());
    let limits = cgroup::available().into_iter();
    let lacking = limits
        .filter(|ability| matches!(ability.name.as_str(), "cpu limit" | "memory limit"))
        .find_map(|ability| ability.state.err());
    match (lab, lacking) {
        (Ok(()), None) => true,
        (lab, lacking) => {
            let reason = lacking.unwrap_or_else(|| lab.unwrap_err());
            assert!(
                std::env::var_os("FATHOMETER_REQUIRE_LAB").is_none_or(|v| v != "1"),
                "a lab with limits is required, but not available: {reason}"
            );
            eprintln!("SKIPPED: a lab with limits is not available: {reason}");
            false
        }
    }
}

fn study(folder: &Path, text: &str, only: &[&str]) -> Output {
    let file = folder.join("small.toml");
    fs::write(&file, text).unwrap();
    Command::new(env!("CARGO_BIN_EXE_fathometer"))
        .arg("study")
        .arg(&file)
        .args(["--quick", "--quiet", "--output"])
        .arg(folder.join("run"))
        .args(only.iter().flat_map(|level| ["--only", level]))
        .output()
        .unwrap()
}

/// A program that keeps a processor busy, until it is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Busy {
        let mut command = Command::new("sh");
        Busy(command.args(["-c", "while :; do :; done"]).spawn().unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn records(run: &Path) -> Vec<ReplicateRecord> {
    fs::read_to_string(run.join("replicates.ndjson"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn classes(metrics: &BTreeMap<String, f64>) -> f64 {
    ["data", "syn", "syn_ack", "ack", "fin", "rst"]
        .iter()
        .map(|class| metrics[&format!("packets_{class}")])
        .sum()
}

#[test]
fn other_programs_make_a_replicate_invalid() {
    let _alone = alone();
    if !ground() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let limited = STUDY.replace(
        "shed_at = 16",
        "shed_at = 16\nothers_busy_pct = { quick = 20, full = 20 }",
    );
    let processors = std::thread::available_parallelism().unwrap().get();
    let others: Vec<Busy> = (0..processors).map(|_| Busy::start()).collect();
    let output = study(folder.path(), &limited, &["block=main", "policy=h1.1"]);
    drop(others);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    let records = records(&folder.path().join("run"));
    // Invalid replicates are repeated.
    assert!(records.len() > 1, "{said}");
    for record in &records {
        let reasons = &record.validity.reasons;
        let is_said = |reason: &String| reason.starts_with("other programs used");
        assert!(reasons.iter().any(is_said), "{reasons:?}");
        assert!(record.metrics["others_busy_pct"] > 20.0);
    }
}

#[test]
fn a_replicate_records_what_the_wire_the_host_and_the_clients_saw() {
    let _alone = alone();
    if !ground() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = study(folder.path(), STUDY, &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let run = folder.path().join("run");
    // Noise may have made a replicate invalid (exit code 3), but its figures exist.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    let text = fs::read_to_string(run.join("run.json")).unwrap();
    assert!(text.contains("paper_ues = ues x 2.5: a rule"), "{text}");
    let records = records(&run);
    let with = |block: &str, factor: &str, level: &str| -> &ReplicateRecord {
        records
            .iter()
            // A failed replicate has no figures, and was repeated.
            .find(|r| {
                r.block == block && r.cell.level(factor) == Some(level) && !r.metrics.is_empty()
            })
            .unwrap_or_else(|| panic!("{block} {level}: {said}"))
    };
    let of = |block: &str, policy: &str| with(block, "policy", policy);
    let (old, new) = (of("main", "h1.0"), of("main", "h1.1"));
    for record in [old, new] {
        let metrics = &record.metrics;
        assert_eq!(metrics["ues"], 30.0);
        // Only TCP crosses the path, so the classes add up to all packets.
        assert_eq!(classes(metrics), metrics["packets_total"]);
        assert!(metrics["exchanges_per_s"] > 0.0);
        assert!(metrics["wire_MB"] > metrics["data_MB"]);
        assert!(metrics["data_bytes_per_data_packet"] <= 1460.0);
        assert!(metrics["cpu_total_pct"] > 0.0 && metrics["cpu_us_per_exchange"] > 0.0);
        assert!(metrics["memory_anonymous_kB"] > 0.0);
        assert!(metrics["connections_established_mean"] <= 31.0);
        reads_are_counted(metrics);
        for file in ["load.json", "probes.ndjson", "windows.json"] {
            assert!(run.join(&record.folder).join(file).exists(), "{file}");
        }
    }
    the_whole_site_is_in_memory(folder.path(), [old, new]);
    // h1.0 opens a connection for every exchange, h1.1 opens one for each session.
    assert!(old.metrics["packets_syn"] > new.metrics["packets_syn"]);
    assert!(
        old.metrics["connections_established_mean"] < new.metrics["connections_established_mean"]
    );
    assert!(new.metrics["connection_idle_pct"] > 50.0);
    // Thirty connections, each used once before the measured window.
    let held = &of("held", "h1.1").metrics;
    assert_eq!(held["exchanges_per_s"], 0.0);
    assert!((29.0..=30.0).contains(&held["connections_established_mean"]));
    assert!(!held.contains_key("response_mean_ms"));
    assert!(!held.contains_key("packets_per_exchange"));
    two_loads_at_once(of("beside", "h1.1"), &run);
    connections_of_quic(of("quic", "h3"));
    let offloaded = |level: &str| &with("quic", "udp_offload", level).metrics;
    datagrams_of_quic(offloaded("on"), offloaded("off"));
}

/// Asserts that reads are counted without a limit of the disk. With control groups v2, this needs a group without other
/// processes.
fn reads_are_counted(metrics: &BTreeMap<String, f64>) {
    let disk = cgroup::controllers()
        .into_iter()
        .find(|known| known.name == "disk");
    let version = disk.and_then(|known| Some(known.interface?.0));
    let is_on_disk = cgroup::BlockDevice::of_path(&std::env::temp_dir()).is_ok();
    if !is_on_disk || version != Some(1) {
        return eprintln!("SKIPPED: the reads of a host may not be counted here");
    }
    let each = |figure: &str| metrics[&format!("disk_{figure}_per_exchange")];
    // The smallest read is a sector.
    assert!(
        each("read_kB") >= 0.512 * each("reads") && each("reads") >= 0.0,
        "{metrics:?}"
    );
}

/// Asserts that the page cache has the whole site, although memory is limited: every file was requested before.
fn the_whole_site_is_in_memory(folder: &Path, records: [&ReplicateRecord; 2]) {
    // The page cache figure excludes files of a tmpfs.
    const TMPFS: i64 = 0x0102_1994;
    let temporary = std::env::temp_dir();
    if rustix::fs::statfs(&temporary).unwrap().f_type == TMPFS {
        return eprintln!("SKIPPED: {} is in memory", temporary.display());
    }
    let site = folder.join("site");
    let made = Command::new(env!("CARGO_BIN_EXE_fathometer"))
        .args(["site", "surge:files=50,requests=20000"])
        .arg(&site)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let bytes = bytes_below(&site);
    for record in records {
        let cached = 1e3 * record.metrics["page_cache_kB"];
        assert!(cached >= bytes as f64, "{cached} of {bytes}");
        let metrics = &record.metrics;
        assert!(metrics["memory_host_kB"] >= metrics["memory_unbacked_kB"]);
        assert!(metrics["memory_unbacked_kB"] >= metrics["memory_anonymous_kB"]);
    }
}

fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| match entry.metadata().unwrap() {
            metadata if metadata.is_dir() => bytes_below(&entry.path()),
            metadata => metadata.len(),
        })
        .sum()
}

/// Asserts that each load has its own figures, and that the figures of the host and the wire cover both loads.
fn two_loads_at_once(record: &ReplicateRecord, run: &Path) {
    let metrics = &record.metrics;
    assert_eq!(metrics["ues"], 30.0);
    let (own, others) = (
        metrics["exchanges_per_s"],
        metrics["beside_exchanges_per_s"],
    );
    assert!(own > 0.0 && others > 0.0, "{own} {others}");
    assert!(metrics["beside_response_mean_ms"] > 0.0);
    assert!(metrics["beside_generator_busy_pct"] > 0.0);
    assert_eq!(classes(metrics), metrics["packets_total"]);
    // The packets of two seconds of both loads together.
    let exchanges = metrics["packets_total"] / metrics["packets_per_exchange"];
    assert!(
        (exchanges - 2.0 * (own + others)).abs() < 0.01,
        "{exchanges}"
    );
    // The socket table does not show the load of a connection.
    assert!(!metrics.contains_key("connections_established_mean"));
    let read = |name: &str| fs::read_to_string(run.join(&record.folder).join(name)).unwrap();
    assert!(read("load.json").contains("\"h1.1\""));
    assert!(read("load-beside.json").contains("\"h1.0\""));
}

/// Asserts that, without offloads, each datagram needs its own send call and its own receive buffer.
fn datagrams_of_quic(on: &BTreeMap<String, f64>, off: &BTreeMap<String, f64>) {
    for (datagrams, pieces) in [
        ("client_udp_sent", "client_udp_send_calls"),
        ("client_udp_received", "client_udp_receive_buffers"),
    ] {
        assert!(on[datagrams] > 0.0 && on[pieces] > 0.0);
        // Datagrams in flight at the edges of the measured window may be counted on one side only.
        let ratio = off[pieces] / off[datagrams];
        assert!((0.95..1.05).contains(&ratio), "{pieces}: {ratio}");
    }
}

/// Asserts that heads are compressed, and that figures of TCP sockets are missing for QUIC connections.
fn connections_of_quic(record: &ReplicateRecord) {
    let metrics = &record.metrics;
    assert!(metrics["exchanges_per_s"] > 0.0);
    assert!(metrics["head_bytes_per_exchange"] < metrics["field_bytes_per_exchange"]);
    assert!(metrics["wire_MB"] > 0.0 && metrics["cpu_total_pct"] > 0.0);
    assert_eq!(metrics["packets_syn"], 0.0);
    for name in [
        "connections_established_mean",
        "connect_min_ms",
        "cwnd_mean",
    ] {
        assert!(!metrics.contains_key(name), "{name}");
    }
}
