//! A synthetic run: every cell of the study with made-up figures near the published figures. Tests of tables, claims
//! and the report therefore need no network. The title of the run states that no figure was measured.

pub mod almeida;
pub mod barford;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fathometer_analysis::report::write_digest_with;
use fathometer_analysis::run::{
    EraInfo, Mode, PathInfo, Plot, RunInfo, ServerInfo, Setting, SettingState,
};
use fathometer_analysis::study::{StudyData, StudySources};
use fathometer_analysis::{digest::Digest, terminal};
use fathometer_model::{
    Bytes, CellKey, DirectionCertificate, PathCertificate, ReplicateRecord, Seed, Validity,
};

/// Returns the study's own data.
pub fn study() -> StudyData {
    StudyData::parse(StudySources {
        tables: include_str!("../../../../../papers/nielsen97/tables.toml"),
        claims: include_str!("../../../../../papers/nielsen97/claims.toml"),
        figures: include_str!("../../../../../papers/nielsen97/figures.csv"),
    })
    .unwrap()
}

/// Returns the content of `run.json` for the synthetic run.
pub fn run_info(mode: Mode) -> RunInfo {
    let setting = |name: &str, wanted: &str, state, detail: Option<&str>| Setting {
        name: name.to_owned(),
        wanted: wanted.to_owned(),
        state,
        detail: detail.map(str::to_owned),
    };
    RunInfo {
        format: RunInfo::FORMAT,
        study: "nielsen97".to_owned(),
        title: "SYNTHETIC FIGURES, not a measurement".to_owned(),
        mode,
        command: ["fathometer", "study", "nielsen97", "--full"]
            .map(str::to_owned)
            .to_vec(),
        version: "0.1.0".to_owned(),
        build: None,
        study_files: BTreeMap::new(),
        data: BTreeMap::new(),
        left_out: Vec::new(),
        stopping: None,
        share: None,
        machines: Vec::new(),
        machine: [
            ("cpu", "an imaginary processor"),
            ("cores", "2"),
            ("kernel", "Linux 6.1.0"),
            ("memory", "8 GB"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        seed: Seed(1997),
        started: 1_795_289_940.0,
        finished: Some(1_795_290_940.0),
        replicates_planned: None,
        eras: vec![
            EraInfo {
                name: "1997".to_owned(),
                limits: vec![],
                description: "The TCP of 1997: Reno, small windows, no time stamps, no SACK."
                    .to_owned(),
                settings: vec![
                    setting(
                        "net.ipv4.tcp_congestion_control",
                        "reno",
                        SettingState::Applied,
                        None,
                    ),
                    setting("net.ipv4.tcp_sack", "0", SettingState::Applied, None),
                    setting(
                        "delayed acknowledgement",
                        "200 ms",
                        SettingState::Impossible,
                        Some("this kernel's is 40 ms and not adjustable"),
                    ),
                ],
            },
            EraInfo {
                name: "today".to_owned(),
                limits: vec![],
                description: "What this kernel does by default.".to_owned(),
                settings: Vec::new(),
            },
        ],
        paths: ["lan", "wan", "ppp"]
            .map(|name| PathInfo {
                name: name.to_owned(),
                profile: format!("name = {name:?}\nrate = \"made up\"\n"),
            })
            .to_vec(),
        servers: [
            (
                "embedded-jigsaw",
                "0.1.0",
                "The embedded origin with Jigsaw's heads.",
            ),
            (
                "embedded-apache",
                "0.1.0",
                "The embedded origin with Apache's heads.",
            ),
            ("httpd", "2.4.62", "Apache httpd."),
        ]
        .map(|(name, version, description)| ServerInfo {
            name: name.to_owned(),
            version: version.to_owned(),
            description: description.to_owned(),
        })
        .to_vec(),
        notes: vec!["Every figure of this run is made up.".to_owned()],
    }
}

/// Writes the report of a run's folder, and returns its path.
pub fn write_report(folder: &Path, study: &StudyData) -> PathBuf {
    let digest = Digest::of(folder, study).unwrap();
    write_digest_with(&digest, &|_| None, &|path, text| fs::write(path, text)).unwrap()
}

/// Returns the text that a study prints for a run. Checks that no line has more than 110 columns.
pub fn printed(fixture: &Fixture, study: &StudyData) -> String {
    let folder = tempfile::tempdir().unwrap();
    fixture.write(folder.path());
    let text = terminal::render(&Digest::of(folder.path(), study).unwrap());
    for line in text.lines() {
        let width = line.chars().count();
        assert!(width <= 110, "{width} columns: {line}");
        assert_eq!(line.trim_end(), line, "trailing space");
    }
    text
}

/// The kind of a study's source text.
#[derive(Clone, Copy)]
pub enum Text {
    Claims,
    Tables,
}

/// Replaces the first `from` in one of the study's source texts by `to`, parses the study, and returns the error.
pub fn refusal(sources: StudySources<'_>, text: Text, from: &str, to: &str) -> String {
    let whole = match text {
        Text::Claims => sources.claims,
        Text::Tables => sources.tables,
    };
    assert!(whole.contains(from), "{from}");
    let broken = whole.replacen(from, to, 1);
    let sources = match text {
        Text::Claims => StudySources {
            claims: &broken,
            ..sources
        },
        Text::Tables => StudySources {
            tables: &broken,
            ..sources
        },
    };
    StudyData::parse(sources).unwrap_err().to_string()
}

/// A run under construction.
pub struct Fixture {
    pub info: RunInfo,
    pub records: Vec<ReplicateRecord>,
}

impl Fixture {
    /// Returns a run of all blocks of the study, with `replicates` replicates of each cell.
    pub fn whole(mode: Mode, replicates: u32) -> Fixture {
        let mut fixture = Fixture {
            info: run_info(mode),
            records: Vec::new(),
        };
        for era in ["1997", "today"] {
            fixture.main_block(era, replicates);
            fixture.side_blocks(era, replicates);
        }
        fixture.info.replicates_planned = Some(fixture.records.len() as u64);
        fixture
    }

    fn main_block(&mut self, era: &str, replicates: u32) {
        let policies = [
            ("h1.0x4", "identity"),
            ("h1.1", "identity"),
            ("h1.1-pipeline", "identity"),
            ("h1.1-pipeline", "deflate"),
            ("h1.0", "identity"),
            ("h1.1x4", "identity"),
            ("h1.1-pipeline-ranges", "identity"),
        ];
        for path in ["lan", "wan", "ppp"] {
            for server in ["embedded-jigsaw", "embedded-apache", "httpd"] {
                for visit in ["first", "revalidate"] {
                    for (index, (policy, coding)) in policies.into_iter().enumerate() {
                        if index >= 4 && server == "embedded-jigsaw" {
                            continue;
                        }
                        let cell = [
                            ("policy", policy),
                            ("coding", coding),
                            ("visit", visit),
                            ("path", path),
                            ("server", server),
                            ("era", era),
                            ("method", "head"),
                        ];
                        self.cell("main", &cell, replicates);
                    }
                }
            }
        }
    }

    fn side_blocks(&mut self, era: &str, replicates: u32) {
        let base = [
            ("policy", "h1.1-pipeline"),
            ("coding", "identity"),
            ("visit", "first"),
            ("server", "embedded-jigsaw"),
            ("era", era),
        ];
        let mut add = |block: &str, levels: &[(&str, &str)]| {
            let mut cell = base.to_vec();
            cell.retain(|(factor, _)| levels.iter().all(|(f, _)| f != factor));
            cell.extend_from_slice(levels);
            self.cell(block, &cell, replicates);
        };
        for path in ["lan", "wan"] {
            let validation = [
                ("policy", "h1.0x4"),
                ("visit", "revalidate"),
                ("method", "conditional"),
            ];
            add("validation", &[&validation[..], &[("path", path)]].concat());
            for nodelay in ["on", "off"] {
                for buffer in ["128", "512", "1024", "4096"] {
                    let levels = [("nodelay", nodelay), ("buffer", buffer), ("path", path)];
                    add("nagle", &[&levels[..], &[("visit", "revalidate")]].concat());
                }
            }
            for close in ["half", "full"] {
                add("close", &[("close", close), ("limit", "5"), ("path", path)]);
            }
            for iw in ["1", "2", "10"] {
                for coding in ["identity", "deflate"] {
                    add("window", &[("iw", iw), ("coding", coding), ("path", path)]);
                }
            }
        }
        for flush in ["explicit", "timer-0ms", "timer-50ms", "timer-1000ms"] {
            add("flush", &[("flush", flush), ("path", "lan")]);
        }
        for limit in ["5", "15", "43", "none"] {
            add("limit", &[("limit", limit), ("path", "wan")]);
        }
        for (server, path) in [
            ("embedded-apache", "wan"),
            ("embedded-apache", "ppp"),
            ("httpd", "ppp"),
        ] {
            for (policy, workload, coding) in [
                ("h1.0x4", "microscape", "identity"),
                ("h1.1-pipeline", "microscape", "deflate"),
                ("h1.1-pipeline", "microscape-css", "identity"),
                ("h1.1-pipeline", "microscape-png", "identity"),
                ("h1.1-pipeline", "microscape-css-png", "deflate"),
            ] {
                let levels = [
                    ("policy", policy),
                    ("workload", workload),
                    ("coding", coding),
                    ("path", path),
                    ("server", server),
                ];
                add("content", &levels);
            }
        }
    }

    /// Adds the replicates of a cell.
    pub fn cell(&mut self, block: &str, levels: &[(&str, &str)], replicates: u32) {
        let levels: BTreeMap<String, String> = levels
            .iter()
            .map(|(factor, level)| ((*factor).to_owned(), (*level).to_owned()))
            .collect();
        let cell = CellKey(levels);
        let words: Vec<&str> = cell.0.values().map(String::as_str).collect();
        for replicate in 0..replicates {
            let seed = Seed(1997).child(u64::from(replicate));
            let order = self.records.len() as u32;
            self.records.push(ReplicateRecord {
                block: block.to_owned(),
                replicate,
                seed: seed.0,
                order,
                started: 1_795_289_940.0 + f64::from(order),
                metrics: metrics(block, &cell, seed),
                path: certificate(seed.stream(&cell.to_string())),
                validity: Validity::default(),
                folder: format!("cells/{block}/{}/r{replicate}", words.join("-")),
                cell: cell.clone(),
            });
        }
    }

    /// Makes replicates of the main block invalid.
    pub fn invalidate(&mut self, levels: &[(&str, &str)], replicates: &[u32], reason: &str) {
        let mut found = 0;
        for record in &mut self.records {
            let agrees = levels.iter().all(|(f, l)| record.cell.level(f) == Some(l));
            if record.block == "main" && agrees && replicates.contains(&record.replicate) {
                record.validity.invalidate(reason);
                found += 1;
            }
        }
        assert!(found > 0, "no replicate to invalidate: {levels:?}");
    }

    /// Keeps the records for which `keep` is true.
    pub fn keep(&mut self, keep: impl Fn(&ReplicateRecord) -> bool) {
        self.records.retain(keep);
    }

    /// Writes the files of the run to `folder`.
    pub fn write(&self, folder: &Path) {
        let json = serde_json::to_string_pretty(&self.info).unwrap();
        fs::write(folder.join("run.json"), json).unwrap();
        let lines: String = self
            .records
            .iter()
            .map(|record| serde_json::to_string(record).unwrap() + "\n")
            .collect();
        fs::write(folder.join("replicates.ndjson"), lines).unwrap();
    }

    /// Writes two plots and their list.
    pub fn write_plots(folder: &Path) {
        fs::create_dir_all(folder.join("plots")).unwrap();
        let mut plots = Vec::new();
        for (file, title) in [
            ("h1.0x4", "HTTP/1.0, four connections"),
            ("pipeline", "Pipelined"),
        ] {
            let points: String = (0..120)
                .map(|i| {
                    let x = 60.0 + f64::from(i) * 5.4;
                    let y = 260.0 - f64::from(i) * 1.9 - f64::from(i % 7);
                    format!("<circle cx='{x:.1}' cy='{y:.1}' r='2' fill='#2b6c99'/>")
                })
                .collect();
            let svg = format!(
                "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 720 300'>\
                 <rect x='50' y='20' width='650' height='250' fill='none' stroke='#999'/>{points}\
                 <text x='60' y='290' font-size='12'>seconds (synthetic)</text></svg>"
            );
            let file = format!("plots/{file}.svg");
            fs::write(folder.join(&file), svg).unwrap();
            plots.push(Plot {
                title: title.to_owned(),
                caption: "Sequence numbers over time, made up.".to_owned(),
                file,
            });
        }
        let json = serde_json::to_string(&plots).unwrap();
        fs::write(folder.join("plots.json"), json).unwrap();
    }
}

pub fn certificate(seed: Seed) -> PathCertificate {
    let direction = |n: u64| DirectionCertificate {
        packets_in: 120,
        packets_out: 120,
        bytes_in: Bytes(9_000),
        bytes_out: Bytes(9_000),
        lateness_p50_ns: 4_000 + seed.draw(n) % 900,
        lateness_p99_ns: 30_000 + seed.draw(n + 1) % 20_000,
        lateness_max_ns: 90_000 + seed.draw(n + 2) % 300_000,
        ..DirectionCertificate::default()
    };
    PathCertificate {
        up: direction(0),
        down: direction(10),
    }
}

/// Returns made-up figures: the published figures of a policy, adjusted for path, server and era. Replicates with the
/// same number share a part of the noise.
fn metrics(block: &str, cell: &CellKey, seed: Seed) -> BTreeMap<String, f64> {
    let level = |factor: &str| cell.level(factor).unwrap_or_default();
    let is_first = level("visit") == "first";
    let deflate = level("coding") == "deflate";
    let (packets, bytes, wan, ppp, connections) = match (level("policy"), is_first) {
        ("h1.0x4", true) => (562.6, 251_913.0, 4.17, 69.0, 43.0),
        ("h1.0x4", false) => (389.7, 62_348.0, 2.96, 19.0, 43.0),
        ("h1.0", true) => (560.0, 251_913.0, 14.2, 92.0, 43.0),
        ("h1.0", false) => (388.0, 62_348.0, 9.4, 33.0, 43.0),
        ("h1.1", true) => (303.5, 193_595.0, 6.4, 63.8, 1.0),
        ("h1.1", false) => (137.2, 18_065.0, 4.6, 12.9, 1.0),
        ("h1.1x4", true) => (330.0, 193_700.0, 2.9, 57.0, 4.0),
        ("h1.1x4", false) => (150.0, 18_100.0, 1.6, 7.1, 4.0),
        ("h1.1-pipeline-ranges", true) => (228.0, 198_000.0, 2.5, 54.4, 1.0),
        (_, true) if deflate => (181.6, 161_698.0, 2.09, 47.4, 1.0),
        (_, true) => (212.5, 193_887.0, 2.33, 53.3, 1.0),
        (_, false) => (34.8, 18_233.0, 1.10, 5.4, 1.0),
    };
    let noise = |name: &str, size: f64| {
        let shared = seed.stream(name).uniform(0) - 0.5;
        let own = seed.stream(name).stream(&cell.to_string()).uniform(0) - 0.5;
        1.0 + size * (shared + 0.5 * own)
    };
    let today = level("era") == "today";
    let server = match level("server") {
        "embedded-jigsaw" => 1.0,
        "embedded-apache" => 0.985,
        _ => 1.06,
    };
    let mut packets = packets * noise("packets", 0.012) * if today { 0.88 } else { 1.0 };
    let mut seconds = match level("path") {
        "lan" => wan * 0.09,
        "wan" => wan,
        _ => ppp,
    };
    seconds *= noise("seconds", 0.03) * if today { 0.8 } else { 1.0 } * server;
    let mut bytes = bytes * server;
    let mut stalls = 0.0;
    let mut lost = 0.0;
    let mut second_batch: f64 = 0.19;
    match block {
        "nagle" if level("nodelay") == "off" && level("buffer") != "4096" => {
            stalls = (3.0 * noise("stalls", 0.8)).round();
            seconds += 0.04 * stalls;
        }
        "flush" => {
            seconds += match level("flush") {
                "timer-50ms" => 0.06,
                "timer-1000ms" => 1.01,
                _ => 0.0,
            };
        }
        "close" => lost = f64::from(u8::from(level("close") == "full")) * 2.0,
        "limit" if level("limit") == "5" => {
            packets *= 1.31;
            seconds *= 1.9;
        }
        // The savings that follow from the paper's file sizes. Over a modem, times are proportional to bytes.
        "content" => {
            let share = match level("workload") {
                "microscape-css" => 0.89,
                "microscape-png" => 0.9,
                "microscape-css-png" => 0.76,
                _ => 1.0,
            };
            bytes *= share;
            seconds *= share;
        }
        "window" => {
            let saved = if level("iw") == "10" { 0.001 } else { 0.045 };
            second_batch -= if deflate { saved } else { 0.0 };
        }
        _ => {}
    }
    let packets = packets.round();
    let html = 43_008.0;
    let coded = if deflate { 11_264.0 } else { html };
    [
        ("elapsed_s", seconds),
        ("packets", packets),
        ("packets_up", (packets * 0.42).round()),
        ("packets_down", packets - (packets * 0.42).round()),
        ("payload_bytes", bytes),
        (
            "overhead_pct",
            100.0 * 40.0 * packets / (bytes + 40.0 * packets),
        ),
        ("connections", connections),
        ("packets_per_connection", packets / connections),
        ("mean_packet_bytes", bytes / packets),
        ("stalls", stalls),
        ("responses_lost", lost),
        ("requests_retried", lost),
        ("sizes_known_s", seconds * 0.6),
        ("second_batch_s", second_batch * noise("batch", 0.02)),
        ("idle_max_ms", 40.0 + 100.0 * noise("idle", 0.2)),
        ("html_bytes", html),
        ("html_bytes_coded", coded),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Returns the page without scripts and script data.
pub fn without_scripts(page: &str) -> String {
    let mut parts = page.split("<script");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |text, part| {
        text + part.split_once("</script>").unwrap().1
    })
}
