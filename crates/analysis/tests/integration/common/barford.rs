//! A synthetic run of barford98: cells as in the study, and figures of a system with known costs, for which every claim
//! holds. The title of the run states that no figure was measured.

use std::collections::BTreeMap;

use fathometer_analysis::run::{EraInfo, Mode, PathInfo, RunInfo, ServerInfo};
use fathometer_analysis::study::{StudyData, StudySources};
use fathometer_model::{CellKey, ReplicateRecord, Seed, Validity};
use serde::Deserialize;

use super::{Fixture, certificate, run_info};

pub const SOURCES: StudySources<'_> = StudySources {
    tables: include_str!("../../../../../papers/barford98/tables.toml"),
    claims: include_str!("../../../../../papers/barford98/claims.toml"),
    figures: include_str!("../../../../../papers/barford98/figures.csv"),
};
/// The study's own design.
pub const DESIGN: &str = include_str!("../../../../../papers/barford98/study.toml");
const FIXED_DESIGN: &str = include_str!("barford.toml");

/// The factors that every cell of every block has.
const KEY_FACTORS: [&str; 6] = ["policy", "coding", "visit", "path", "era", "server"];

/// Returns the study's own data.
pub fn study() -> StudyData {
    StudyData::parse(SOURCES).unwrap()
}

/// The part of the study's design that determines its cells.
#[derive(Deserialize)]
struct Design {
    defaults: BTreeMap<String, String>,
    block: Vec<Block>,
}

#[derive(Deserialize)]
struct Block {
    name: String,
    factors: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    quick: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    exclude: Vec<BTreeMap<String, String>>,
    #[serde(default)]
    exclude_quick: Vec<BTreeMap<String, String>>,
}

impl Block {
    fn leaves_out(&self, cell: &BTreeMap<String, String>, mode: Mode) -> bool {
        let excluded = self.exclude_quick.iter().filter(|_| mode == Mode::Quick);
        excluded.chain(&self.exclude).any(|excluded| {
            excluded
                .iter()
                .all(|(factor, levels)| levels.split('|').any(|l| l == cell[factor]))
        })
    }
}

/// Returns all cells of a design, each with the name of its block.
pub fn cells(design: &str, mode: Mode) -> Vec<(String, CellKey)> {
    let design: Design = toml::from_str(design).unwrap();
    let mut all = Vec::new();
    for block in design.block {
        let key = |factor: &&str| ((*factor).to_owned(), design.defaults[*factor].clone());
        let mut cells: Vec<BTreeMap<String, String>> = vec![KEY_FACTORS.iter().map(key).collect()];
        for (factor, levels) in &block.factors {
            let quick = block.quick.get(factor).filter(|_| mode == Mode::Quick);
            let levels = quick.unwrap_or(levels);
            cells = cells
                .into_iter()
                .flat_map(|cell| {
                    levels.iter().map(move |level| {
                        let mut cell = cell.clone();
                        cell.insert(factor.clone(), level.clone());
                        cell
                    })
                })
                .collect();
        }
        cells.retain(|cell| !block.leaves_out(cell, mode));
        let cells = cells.into_iter().map(CellKey);
        all.extend(cells.map(|cell| (block.name.clone(), cell)));
    }
    all
}

/// Returns a run of all blocks.
pub fn run(mode: Mode, replicates: u32) -> Fixture {
    let mut records = Vec::new();
    for (block, cell) in cells(FIXED_DESIGN, mode) {
        for replicate in 0..replicates {
            let seed = Seed(1998).child(u64::from(replicate));
            let words: Vec<&str> = cell.0.values().map(String::as_str).collect();
            records.push(ReplicateRecord {
                replicate,
                seed: seed.0,
                order: records.len() as u32,
                started: 1_795_289_940.0,
                metrics: metrics(&block, &cell, seed),
                path: certificate(seed.stream(&cell.to_string())),
                validity: Validity::default(),
                folder: format!("cells/{block}/{}/r{replicate}", words.join("-")),
                block: block.clone(),
                cell: cell.clone(),
            });
        }
    }
    let mut info = info(mode);
    info.replicates_planned = Some(records.len() as u64);
    Fixture { info, records }
}

fn info(mode: Mode) -> RunInfo {
    let server = |name: &str, version: &str| ServerInfo {
        name: name.to_owned(),
        version: version.to_owned(),
        description: String::new(),
    };
    let path = |name: &str| PathInfo {
        name: name.to_owned(),
        profile: format!("name = {name:?}\n"),
    };
    let base = run_info(mode);
    RunInfo {
        study: "barford98".to_owned(),
        command: ["fathometer", "study", "barford98"]
            .map(str::to_owned)
            .to_vec(),
        eras: base
            .eras
            .iter()
            .map(|era| EraInfo {
                settings: Vec::new(),
                ..era.clone()
            })
            .collect(),
        paths: vec![path("lan100"), path("lan")],
        servers: vec![
            server("httpd-prefork", "2.4.62"),
            server("httpd", "2.4.62"),
            server("nginx", "1.22.1"),
            server("embedded", "0.1.0"),
        ],
        ..base
    }
}

/// Number of files per page, and of pages per persistent connection.
pub const FILES: f64 = 1.5;
pub const PAGES: f64 = 3.87;
/// The memory cost of a connection for a server with one process per connection, in kB.
pub const IDLE_KB: f64 = 81.0;
pub const ACTIVE_KB: f64 = 378.0;

/// Returns the metrics of a cell. Throughput grows linearly with the users until a resource is exhausted: the processor
/// above 250 users, or a memory that is too small for the files and the connections.
fn metrics(block: &str, cell: &CellKey, seed: Seed) -> BTreeMap<String, f64> {
    let level = |factor: &str| cell.level(factor).unwrap_or_default();
    let noise = |name: &str, size: f64| {
        let own = seed.stream(name).stream(&cell.to_string()).uniform(0) - 0.5;
        let shared = seed.stream(name).stream("shared").uniform(0) - 0.5;
        1.0 + size * (own + shared)
    };
    let (policy, server) = (level("policy"), level("server"));
    let users: f64 = level("ues").parse().unwrap_or(40.0);
    let is_process = server == "httpd-prefork";
    let is_kept = policy.starts_with("h1.1") && policy != "h1.1-early-close";
    // Connections per exchange.
    let opened = match policy {
        "h1.0" => 1.0,
        "h1.1-early-close" => 1.0 / FILES,
        _ => 1.0 / (FILES * PAGES),
    };
    let slow = if is_process { 1.0 } else { 0.8 };
    let cost = (850.0 + 40.0 * opened) * slow;
    let mut cap = 1e9;
    let quota = if block == "cpu" { 0.2 } else { 1.0 };
    if block == "cpu" {
        cap = quota * 1e6 / cost;
    }
    let mut starved = 0.0;
    if let Some(mega) = level("memory")
        .strip_suffix('M')
        .and_then(|m| m.parse::<f64>().ok())
    {
        let held = if is_kept { users * 0.9 } else { 3.0 };
        let each = if is_process { 0.2 } else { 0.08 };
        let two = if policy == "h1.1x2" { 1.8 } else { 1.0 };
        let lacks = (60.0 + held * two * each - mega).max(0.0);
        starved = (lacks / 60.0).min(0.95);
    }
    let offered = match level("loop") {
        "idle" => 0.5,
        "webstone" => users * 60.0,
        _ => users * 0.9,
    };
    let rate = offered.min(cap) * (1.0 - starved) * noise("rate", 0.02);
    let waits = (users * 0.9 / rate).max(1.0);
    let response = if policy == "h1.0" { 5.0 } else { 4.6 } * waits * noise("response", 0.02);
    let busy = (100.0 * rate * cost / 1e6 / quota).min(100.0);
    // With many files per page, a pipeline can fill its packets.
    let files: f64 = match level("workload").split_once("microscape:files=") {
        Some((_, files)) => files.parse().unwrap(),
        None => FILES,
    };
    let full = match policy {
        "h1.1-pipeline" if block == "files" => 1.0 + 0.014 * (files - 1.0),
        "h1.1-pipeline" => 1.016,
        _ => 1.0,
    };
    let payload = 10_700.0 * noise("payload", 0.01);
    let per_packet = 1190.0 * full * noise("filling", 0.004);
    let data = payload / per_packet;
    let (syn, fin) = (opened, 2.0 * opened);
    let acknowledged = data * 0.38 + 2.4 * opened;
    let packets = data + acknowledged + 2.0 * syn + fin;
    let seconds = 60.0;
    let count = |each: f64| (each * rate * seconds).round();
    let established = match (level("loop"), is_kept) {
        ("idle" | "webstone", _) => users,
        (_, true) => users * 0.9 * if policy == "h1.1x2" { 1.9 } else { 1.0 },
        (_, false) => rate * opened * (response + 9.0) / 1000.0,
    } * noise("established", 0.01);
    let duration = established / (rate * opened);
    let each = match (is_process, level("loop")) {
        (true, "idle") => IDLE_KB,
        (true, _) => ACTIVE_KB,
        (false, _) => 9.0,
    };
    let start = level("initcwnd").parse().unwrap_or(match level("era") {
        "1997" => 2.0,
        _ => 10.0,
    });
    let grown = if is_kept { 14.0 } else { 0.6 };
    let share = |limit: f64| {
        // An exponential distribution above the initial window.
        let beyond = limit - start;
        let at_most = 1.0 - (-(beyond + 1.0) / grown).exp();
        if beyond < 0.0 { 0.0 } else { 100.0 * at_most }
    };
    let memory = 20_000.0 + each * established * noise("memory", 0.01);
    let reading = 900.0 * starved;
    let kernel = busy * 0.55;
    let mut metrics: BTreeMap<String, f64> = [
        ("ues", users),
        ("throughput_kB_per_s", rate * payload / 1e3),
        ("connections_per_s", rate * opened * noise("opened", 0.004)),
        ("exchanges_per_s", rate),
        ("pages_per_s", rate / FILES),
        ("response_mean_ms", response),
        ("response_p50_ms", response * 0.7),
        ("response_p98_ms", response * 4.0),
        ("littles_load_factor", rate * response / 1e3),
        ("error_pct", 0.0),
        ("errors_per_s", 0.0),
        ("cpu_total_pct", busy),
        ("cpu_server_user_pct", busy * 0.25),
        ("cpu_server_system_pct", kernel),
        ("cpu_server_process_pct", busy * 0.8),
        ("cpu_interrupt_pct", busy * 0.2),
        ("cpu_idle_pct", 100.0 - busy),
        ("cpu_ms_per_MB", cost / payload * 1e3 * noise("cpu", 0.01)),
        ("cpu_us_per_exchange", cost * noise("cpu", 0.01)),
        ("interrupts_per_s", rate * packets * 0.4),
        ("packets_per_s", rate * packets),
        ("segments_out_per_s", rate * packets * 0.6),
        ("segments_in_per_s", rate * packets * 0.4),
        ("retransmitted_pct", 0.02),
        ("context_switches_per_s", rate * 2.0),
        ("memory_rss_kB", memory * 1.4),
        ("memory_unbacked_kB", memory - 1000.0),
        ("memory_pss_kB", memory),
        ("memory_anonymous_kB", memory * 0.8),
        ("socket_memory_kB", 40.0 + 2.5 * established),
        ("page_cache_kB", 24_000.0 * (1.0 - starved)),
        ("page_ins_per_s", reading / 4.0),
        ("page_outs_per_s", 0.0),
        ("disk_read_kB_per_s", reading),
        ("disk_reads_per_s", reading / 22.0),
        ("major_faults_per_s", reading / 60.0),
        ("listen_overflows_per_s", 0.0),
        ("psi_cpu_pct", busy * 0.5),
        ("psi_memory_pct", 10.0 * starved),
        ("psi_io_pct", 70.0 * starved),
        ("packets_total", count(packets)),
        ("packets_data", count(data)),
        ("packets_syn", count(syn)),
        ("packets_syn_ack", count(syn)),
        ("packets_ack", count(acknowledged)),
        ("packets_fin", count(fin)),
        ("packets_rst", 0.0),
        ("packets_per_exchange", packets),
        ("data_packets_per_exchange", data),
        ("wire_bytes_per_exchange", payload + 52.0 * packets),
        ("packets_per_MB", packets / payload * 1e6),
        ("data_bytes_per_data_packet", per_packet),
        ("wire_MB", (payload + 52.0 * packets) * rate * seconds / 1e6),
        ("data_MB", payload * rate * seconds / 1e6),
        ("cwnd_mean", (start + grown) * noise("window", 0.02)),
        ("cwnd_max", (start + 7.0 * grown).round()),
        ("cwnd_p50", start + 0.69 * grown),
        ("connections_established_mean", established),
        (
            "connections_time_wait_mean",
            if is_kept { 3.0 } else { rate },
        ),
        ("connection_seconds", established * seconds),
        ("connection_duration_mean_s", duration),
        ("connection_life_mean_s", duration * 1.02),
        ("connection_idle_pct", if is_kept { 96.0 } else { 8.0 }),
        ("littles_law_ratio", noise("law", 0.01)),
        ("generator_busy_pct", 12.0),
        ("generator_send_lag_p99_us", 90.0),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    for limit in [1, 2, 4, 8, 16, 32, 64, 128] {
        let share = share(f64::from(limit)) * noise("share", 0.01);
        metrics.insert(format!("cwnd_le_{limit}_pct"), share.min(100.0));
    }
    metrics
}
