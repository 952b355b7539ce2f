//! A synthetic load study: closed systems with a known knee. Tests of curves and of claims on curves therefore need no
//! network. The title of the run states that no figure was measured.

use std::collections::BTreeMap;

use fathometer_analysis::run::{EraInfo, Mode, PathInfo, RunInfo, ServerInfo};
use fathometer_analysis::study::{StudyData, StudySources};
use fathometer_model::{CellKey, ReplicateRecord, Seed, Validity};

use super::{Fixture, certificate, run_info};

pub const SOURCES: StudySources<'_> = StudySources {
    tables: include_str!("../../../../../papers/almeida96/tables.toml"),
    claims: include_str!("../../../../../papers/almeida96/claims.toml"),
    figures: include_str!("../../../../../papers/almeida96/figures.csv"),
};

/// Returns the study's own data.
pub fn study() -> StudyData {
    StudyData::parse(SOURCES).unwrap()
}

const QUICK: [&str; 7] = ["1", "2", "4", "8", "16", "32", "64"];
const FULL: [&str; 16] = [
    "1", "2", "5", "10", "15", "20", "25", "30", "35", "40", "45", "50", "55", "60", "80", "100",
];

/// Returns a run of all blocks of the study, with figures for which every claim holds.
pub fn run(mode: Mode, replicates: u32) -> Fixture {
    let mut fixture = Fixture {
        info: info(mode),
        records: Vec::new(),
    };
    let clients: &[&str] = match mode {
        Mode::Quick => &QUICK,
        Mode::Full | Mode::Published => &FULL,
    };
    let mut add = |block: &str, n: &str, levels: &[(&str, &str)]| {
        let mut cell = vec![
            ("policy", "h1.0"),
            ("coding", "identity"),
            ("visit", "first"),
            ("path", "campus"),
            ("era", "today"),
            ("server", "embedded"),
            ("clients", n),
        ];
        cell.retain(|(factor, _)| levels.iter().all(|(f, _)| f != factor));
        cell.extend_from_slice(levels);
        let cell = cell.iter().map(|(f, l)| ((*f).to_owned(), (*l).to_owned()));
        let cell = CellKey(cell.collect());
        for replicate in 0..replicates {
            fixture.records.push(record(block, &cell, replicate));
        }
    };
    for n in clients {
        for workload in ["almeida-a", "almeida-b"] {
            for server in ["embedded", "httpd", "nginx"] {
                add("main", n, &[("workload", workload), ("server", server)]);
            }
        }
        for cpu in ["75", "100"] {
            add("processor", n, &[("cpu", cpu)]);
        }
    }
    for n in ["8", "16", "20", "24", "32", "64"] {
        add(
            "backlog",
            n,
            &[("path", "ideal"), ("workers", "4"), ("backlog", "16")],
        );
    }
    for n in ["16", "32", "64"] {
        for shed in ["off", "on"] {
            add("shedding", n, &[("shed", shed)]);
        }
    }
    for n in ["4", "16", "64"] {
        for memory in ["none", "16M"] {
            add(
                "memory",
                n,
                &[("workload", "almeida-300k"), ("memory", memory)],
            );
        }
    }
    for n in ["15", "40", "60"] {
        for workload in ["almeida-a", "almeida-b"] {
            add(
                "disk",
                n,
                &[
                    ("workload", workload),
                    ("memory", "14M"),
                    ("disk", "100ops"),
                ],
            );
        }
    }
    for n in ["16", "64"] {
        for kind in ["webstone", "surge"] {
            add("users", n, &[("loop", kind)]);
        }
    }
    for (order, record) in fixture.records.iter_mut().enumerate() {
        record.order = order as u32;
    }
    fixture.info.replicates_planned = Some(fixture.records.len() as u64);
    fixture
}

fn info(mode: Mode) -> RunInfo {
    let server = |name: &str, version: &str| ServerInfo {
        name: name.to_owned(),
        version: version.to_owned(),
        description: String::new(),
    };
    RunInfo {
        study: "almeida96".to_owned(),
        command: ["fathometer", "study", "almeida96"]
            .map(str::to_owned)
            .to_vec(),
        eras: vec![EraInfo {
            name: "today".to_owned(),
            description: "What this kernel does by default.".to_owned(),
            limits: Vec::new(),
            settings: Vec::new(),
        }],
        paths: vec![PathInfo {
            name: "campus".to_owned(),
            profile: "name = \"campus\"\n".to_owned(),
        }],
        servers: vec![
            server("embedded", "0.1.0"),
            server("httpd", "2.4.62"),
            server("nginx", "1.22.1"),
        ],
        ..run_info(mode)
    }
}

fn record(block: &str, cell: &CellKey, replicate: u32) -> ReplicateRecord {
    let seed = Seed(1996).child(u64::from(replicate));
    let words: Vec<&str> = cell.0.values().map(String::as_str).collect();
    ReplicateRecord {
        block: block.to_owned(),
        replicate,
        seed: seed.0,
        order: 0,
        started: 1_795_289_940.0,
        metrics: metrics(block, cell, seed),
        path: certificate(seed.stream(&cell.to_string())),
        validity: Validity::default(),
        folder: format!("cells/{block}/{}/r{replicate}", words.join("-")),
        cell: cell.clone(),
    }
}

/// Returns the number of clients that saturate a server.
pub fn saturation(server: &str) -> f64 {
    match server {
        "httpd" => 7.6,
        "nginx" => 15.5,
        _ => 15.2,
    }
}

/// Returns the metrics of a closed system. Throughput grows linearly with the clients until the processor is saturated.
/// Each further client reduces the throughput slightly.
fn metrics(block: &str, cell: &CellKey, seed: Seed) -> BTreeMap<String, f64> {
    let level = |factor: &str| cell.level(factor).unwrap_or_default();
    let noise = |name: &str, size: f64| {
        let own = seed.stream(name).stream(&cell.to_string()).uniform(0) - 0.5;
        1.0 + size * own
    };
    let n: f64 = level("clients").parse().unwrap();
    let is_b = level("workload") == "almeida-b";
    let speed = if level("cpu") == "75" { 0.75 } else { 1.0 };
    let knee = saturation(level("server")) * speed;
    // nginx is faster than the other servers under workload A, and slower under workload B.
    let alone = match (level("server"), is_b) {
        ("nginx", false) => 105.0,
        ("nginx", true) => 60.0,
        (_, false) => 92.0,
        (_, true) => 74.0,
    };
    let busy = (n / knee).min(1.0);
    let excess = (n / knee - 1.0).max(0.0);
    let kilobytes = if is_b { 28.0 } else { 10.0 };
    let mut rate = alone * knee * busy * (1.0 - 0.01 * excess) * noise("rate", 0.01);
    let mut response = 1000.0 * n / rate;
    let (mut errors, mut factor, mut read) = (0.0, n * noise("factor", 0.006), 0.0);
    match block {
        "backlog" if n > 20.0 => {
            errors = 2.0 * (n - 20.0) * noise("errors", 0.1);
            factor = 20.0;
        }
        "shedding" if level("shed") == "on" => {
            response = 1000.0 * 16.0 / rate;
            errors = 30.0 * (n - 16.0);
        }
        "memory" if level("memory") == "16M" => read = 900.0 * n.sqrt() * noise("read", 0.1),
        "disk" if is_b => read = 14.0 * n * noise("read", 0.1),
        "memory" => read = if noise("cold", 1.0) > 1.0 { 2.0 } else { 0.0 },
        "users" if level("loop") == "surge" => {
            rate = 0.9 * n * noise("rate", 0.1);
            response = 9.0;
        }
        _ => {}
    }
    let total = 100.0 * busy * (1.0 - 0.002 * noise("cpu", 1.0));
    let share = 0.7 - 0.08 * (1.0 + excess).ln();
    let process = total * share * noise("share", 0.01);
    [
        ("clients", n),
        ("throughput_kB_per_s", rate * kilobytes),
        ("connections_per_s", rate),
        ("exchanges_per_s", rate),
        ("response_mean_ms", response * noise("response", 0.01)),
        ("response_p50_ms", response * 0.9),
        ("response_p98_ms", response * 2.1),
        ("littles_load_factor", factor),
        ("error_pct", 100.0 * errors / (errors + rate)),
        ("errors_per_s", errors),
        ("cpu_total_pct", total),
        ("cpu_server_user_pct", process * 0.3),
        ("cpu_server_system_pct", process * 0.7),
        ("cpu_server_process_pct", process),
        ("cpu_interrupt_pct", total - process),
        ("interrupts_per_s", rate * 4.0),
        ("packets_per_s", rate * kilobytes),
        ("context_switches_per_s", rate * 1.5),
        ("memory_rss_kB", 5200.0 + 12.0 * n),
        ("memory_pss_kB", 3100.0 + 12.0 * n),
        ("page_cache_kB", if is_b { 5120.0 } else { 298.0 }),
        ("disk_read_kB_per_s", read),
        ("disk_reads_per_s", read / 16.0),
        ("disk_busy_pct", read / 16.0),
        ("major_faults_per_s", 0.0),
        ("listen_overflows_per_s", errors),
        ("generator_busy_pct", 20.0 * busy),
        ("generator_send_lag_p99_us", 90.0 * noise("lag", 0.3)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
