//! Tests of reports in a browser: the console has no errors, every figure is drawn, links have a target, and the
//! contrast is sufficient. Nothing is cut off in windows of any width or on paper.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the browser is a process, and reports are computed in parallel"
)]

pub mod devtools;
mod samples;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use fathometer_analysis::bottleneck::{self, Change, Observation, Resource, Signals, judge};
use fathometer_analysis::load::Slo;
use fathometer_analysis::load_page;
use fathometer_analysis::statistics::Intervals;
use fathometer_analysis::study::{StudyData, StudySources};
use fathometer_model::Validity;
use serde::Deserialize;

use crate::common::write_report;
use crate::load::sample;

/// Returns the path of Chromium; `None` if it is not installed. With `FATHOMETER_REQUIRE_TOOLS=1`, panics instead of
/// returning `None`.
pub fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join("chromium"))
        .find(|path| path.is_file());
    if found.is_none() {
        let required = std::env::var("FATHOMETER_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
        assert!(!required, "chromium is not installed");
        eprintln!("not tested: chromium is not installed");
    }
    found
}

/// Opens a page of a folder and returns the attribute `data-seen` that the page's script sets on the
/// body, and stderr.
pub fn open(chromium: &Path, folder: &Path, page: &str, more: &[&str]) -> (String, String) {
    let output = Command::new(chromium)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
        ])
        .args(["--no-first-run", "--disable-dev-shm-usage"])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
        ])
        .args(["--disable-sync", "--allow-file-access-from-files"])
        .arg(format!("--user-data-dir={}", folder.join("data").display()))
        .args(["--virtual-time-budget=600000", "--dump-dom"])
        .args(more)
        .arg(format!("file://{}/{page}", folder.display()))
        .output()
        .unwrap();
    let page = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let seen = page
        .split_once("data-seen=\"")
        .and_then(|(_, rest)| rest.split_once('"'));
    let (seen, _) = seen.unwrap_or_else(|| panic!("{page}\n{error}"));
    (seen.to_owned(), error)
}

/// The results of the browser's checks of one report.
#[derive(Debug, Deserialize)]
struct Seen {
    name: String,
    dark: bool,
    figures: usize,
    links: Vec<String>,
    problems: Vec<String>,
}

/// Writes the report of every published run that has records, each into its own folder.
fn publish(folder: &Path) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut names = Vec::new();
    let runs = fs::read_dir(root.join("runs/published")).unwrap();
    for run in runs.map(|run| run.unwrap().path()) {
        if !run.join("replicates.ndjson").exists() {
            continue;
        }
        let name = run.file_name().unwrap().to_str().unwrap().to_owned();
        copy(&run, &folder.join(&name));
        names.push(name);
    }
    names.sort();
    std::thread::scope(|scope| {
        for name in &names {
            let run = folder.join(name);
            let root = &root;
            scope.spawn(move || {
                let info = fs::read_to_string(run.join("run.json")).unwrap();
                let info: serde_json::Value = serde_json::from_str(&info).unwrap();
                let paper = root.join("papers").join(info["study"].as_str().unwrap());
                let text = |file: &str| fs::read_to_string(paper.join(file)).unwrap();
                let study = StudyData::parse(StudySources {
                    tables: &text("tables.toml"),
                    claims: &text("claims.toml"),
                    figures: &text("figures.csv"),
                });
                write_report(&run, &study.unwrap());
            });
        }
    });
    names
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

/// Checks reports in the light and in the dark colour scheme. All reports together must have more than `least` figures.
fn check(chromium: &Path, folder: &Path, names: &[String], least: usize) {
    let checks = include_str!("checks.js");
    let list = serde_json::to_string(names).unwrap();
    let page = format!(
        "<!doctype html><meta charset=utf-8><body><script>const REPORTS = {list};\n{checks}</script>"
    );
    fs::write(folder.join("checks.html"), page).unwrap();
    for (is_dark, scheme) in [(false, 1), (true, 0)] {
        let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
        let more = ["--enable-logging=stderr", scheme.as_str()];
        let (seen, error) = open(chromium, folder, "checks.html", &more);
        let messages: Vec<&str> = error.lines().filter(|l| l.contains("CONSOLE")).collect();
        assert!(messages.is_empty(), "{messages:#?}");
        let seen: Vec<Seen> = serde_json::from_slice(&from_base64(&seen)).unwrap();
        assert_eq!(seen.len(), names.len());
        let figures: usize = seen.iter().map(|report| report.figures).sum();
        assert!(figures > least, "{figures} figures in all reports");
        for report in &seen {
            let name = &report.name;
            assert_eq!(report.dark, is_dark, "the colour scheme differs");
            assert!(report.problems.is_empty(), "{name}: {:#?}", report.problems);
            for link in &report.links {
                let file = link.split('#').next().unwrap();
                assert!(folder.join(name).join(file).exists(), "{name}: no {link}");
            }
        }
    }
}

#[test]
fn reports_of_all_published_runs_are_whole_in_a_browser() {
    let Some(chromium) = chromium() else { return };
    // FATHOMETER_PUBLISHED_FOLDER sets a folder for the reports that is not deleted.
    let scratch = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("FATHOMETER_PUBLISHED_FOLDER");
    let folder = kept.as_deref().map_or(scratch.path(), Path::new);
    let names = publish(folder);
    assert!(names.len() >= 10, "{names:?}");
    check(&chromium, folder, &names, 50);
}

#[test]
fn pages_of_all_other_commands_are_whole_in_a_browser() {
    let Some(chromium) = chromium() else { return };
    let scratch = tempfile::tempdir().unwrap();
    let kept = std::env::var_os("FATHOMETER_PAGES_FOLDER");
    let folder = kept.as_deref().map_or(scratch.path(), Path::new);
    let slo: Slo = "p98<100ms,errors<0.1%".parse().unwrap();
    let mut pages: Vec<(String, String)> = sample::all()
        .iter()
        .map(|(name, result)| {
            let page = load_page::render(result, &slo.judge(result));
            (format!("load-{name}"), page)
        })
        .collect();
    let verdict = judge(&limited_by_workers(), Intervals::default());
    assert_eq!(verdict.named(), Some(Resource::Workers), "{verdict:#?}");
    let verdicts = [("workers".to_owned(), &verdict)];
    let page = bottleneck::html::page("What limited", &verdicts, None);
    pages.push(("bottleneck".to_owned(), page));
    pages.push(("capacity".to_owned(), samples::capacity()));
    pages.push(("content".to_owned(), samples::content()));
    for (name, page) in &pages {
        fs::create_dir_all(folder.join(name)).unwrap();
        fs::write(folder.join(name).join("report.html"), page).unwrap();
    }
    let names: Vec<String> = pages.into_iter().map(|(name, _)| name).collect();
    check(&chromium, folder, &names, 12);
}

/// Trials of a server whose throughput is in proportion to its workers, and independent of the offered load.
fn limited_by_workers() -> Vec<Observation> {
    let changes = [
        (None, 1.0),
        (Some((Resource::Load, 1.25)), 1.0),
        (Some((Resource::Workers, 2.0)), 2.0),
    ];
    let mut all = Vec::new();
    for replicate in 0..5u32 {
        for (change, gain) in changes {
            all.push(Observation {
                change: change.map(|(resource, factor)| Change { resource, factor }),
                replicate,
                throughput_per_s: (100.0 + f64::from(replicate)) * gain,
                goodput_bytes_per_s: 0.0,
                latency_mean: Duration::from_millis(10),
                latency_p98: Duration::from_millis(20),
                errors: 0.0,
                signals: Signals::default(),
                validity: Validity::default(),
            });
        }
    }
    all
}

/// Decodes base64 (RFC 4648 section 4).
fn from_base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u32> = text
        .bytes()
        .filter(|b| *b != b'=')
        .map(|b| digit(b).into())
        .collect();
    let mut bytes = Vec::new();
    for group in digits.chunks(4) {
        let word = group.iter().fold(0, |word, digit| word << 6 | digit) << (6 * (4 - group.len()));
        bytes.extend(&word.to_be_bytes()[1..group.len()]);
    }
    bytes
}
