//! `cargo xtask predicted-seconds`: predicted against measured seconds of real pages.
//!
//! Fetches the packages of the published list of pages with apt-get, as files and without installing them, and runs the
//! example `predicted_seconds` of crates/study.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The pages: HTML of Debian's documentation packages, with the versions of the packages.
const LIST: &str = "runs/published/2026-11-25-debian-pages/pages.csv";

/// Compare predicted with measured seconds of real pages over the laboratory's paths. Needs root and apt-get.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Number of pages, at equal distances in the published list.
    #[arg(long, default_value_t = 100)]
    pages: usize,
    /// Paths, separated by commas.
    #[arg(long, default_value = "lan,wan,ppp")]
    paths: String,
    /// Connection policies, separated by commas.
    #[arg(long, default_value = "h1.1x6,h2c")]
    policies: String,
    /// Measurements of each retrieval on paths of 1 Mbit/s and more; their median is used.
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Retrievals at the same time on slower paths.
    #[arg(long, default_value_t = 8)]
    lanes: usize,
    /// Folder with the extracted packages; missing packages are downloaded.
    #[arg(long, default_value = "target/predicted-seconds/packages")]
    packages: PathBuf,
    /// Folder for the results.
    #[arg(long, default_value = "target/predicted-seconds")]
    output: PathBuf,
}

/// Downloads missing packages, and runs the comparison.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<ExitCode, String> {
    let list = root.join(LIST);
    let folder = root.join(&arguments.packages);
    fetch_packages(&list, &folder)?;
    let status = Command::new("cargo")
        .current_dir(root)
        .args([
            "run",
            "--quiet",
            "--release",
            "--package",
            "fathometer-study",
        ])
        .args(["--example", "predicted_seconds", "--"])
        .args([&root.join(&arguments.output), &list, &folder])
        .arg(format!("pages={}", arguments.pages))
        .arg(format!("paths={}", arguments.paths))
        .arg(format!("policies={}", arguments.policies))
        .arg(format!("repeat={}", arguments.repeat))
        .arg(format!("lanes={}", arguments.lanes))
        .status()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    Ok(match status.success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Downloads and extracts the packages of the list that are not in the folder. Prints the versions that are not
/// available.
fn fetch_packages(list: &Path, folder: &Path) -> Result<(), String> {
    let text = fs::read_to_string(list)
        .map_err(|error| format!("cannot read {}: {error}", list.display()))?;
    let packages: BTreeSet<(&str, &str)> = text
        .lines()
        .skip(1)
        .filter_map(|row| {
            let mut cells = row.split(',');
            Some((cells.next()?, cells.next()?))
        })
        .collect();
    let debs = folder.join("debs");
    fs::create_dir_all(&debs)
        .map_err(|error| format!("cannot make the folder {}: {error}", debs.display()))?;
    for (package, version) in packages {
        let extracted = folder.join(package);
        if extracted.is_dir() {
            continue;
        }
        let exact = format!("{package}={version}");
        if run_in(&debs, "apt-get", &["download", "--quiet", &exact]).is_err() {
            eprintln!(
                "{exact} is not available; using the newest version instead, whose pages may differ"
            );
            run_in(&debs, "apt-get", &["download", "--quiet", package])?;
        }
        let prefix = format!("{package}_");
        let entries = fs::read_dir(&debs).map_err(|error| error.to_string())?;
        let deb = entries
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .find(|path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with(&prefix)
            })
            .ok_or_else(|| format!("apt-get did not fetch {package}"))?;
        let (deb, target) = (deb.display().to_string(), extracted.display().to_string());
        run_in(&debs, "dpkg-deb", &["-x", &deb, &target])?;
    }
    Ok(())
}

fn run_in(folder: &Path, program: &str, arguments: &[&str]) -> Result<(), String> {
    let status = Command::new(program)
        .current_dir(folder)
        .args(arguments)
        .status()
        .map_err(|error| format!("cannot run {program}: {error}; install it"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!(
            "{program} {} failed: {status}",
            arguments.join(" ")
        )),
    }
}
