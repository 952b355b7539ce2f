//! `cargo xtask publish`: copies a run of a study to `runs/published`, without files that can be regenerated.
//!
//! Publishes the packets of one valid replicate of each cell: captured at the client's tap, headers only, compressed.
//! Wireshark reads such files, so the packets can be counted again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Copy a run of a study to runs/published, with the packets of one replicate of each cell.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Folder of the run.
    run: PathBuf,
    /// Name of the new folder in runs/published, as in 2026-11-26-2-core-vm-nielsen97.
    name: String,
    /// Bytes of each packet to publish: the IP and TCP headers and the first line of a request.
    #[arg(long, value_name = "BYTES", default_value_t = 128)]
    heads: u32,
    /// Publish no packets.
    #[arg(long)]
    without_packets: bool,
}

/// Files and folders of a run that are published unchanged, if the run has them.
const KEPT: [&str; 8] = [
    "run.json",
    "replicates.ndjson",
    "summary.json",
    "report.html",
    "curves.csv",
    "plots.json",
    "plots",
    // The files of a study that was given by its path: reports need them.
    "study",
];

/// The fields that are read from a record.
#[derive(serde::Deserialize)]
struct Record {
    folder: String,
    replicate: u32,
    validity: Validity,
}

#[derive(serde::Deserialize)]
struct Validity {
    #[serde(default)]
    reasons: Vec<String>,
}

/// Copies the run, and writes the packet captures.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<ExitCode, String> {
    let from = &arguments.run;
    let to = root.join("runs/published").join(&arguments.name);
    if to.exists() {
        return Err(format!("{} exists already", to.display()));
    }
    let records = read(&from.join("replicates.ndjson"))?;
    create(&to)?;
    for name in KEPT {
        copy(&from.join(name), &to.join(name))?;
    }
    let mut written = 0;
    if !arguments.without_packets {
        for (cell, folder) in chosen(&records, &|folder| capture(from, folder).exists()) {
            let cell = cell.strip_prefix("cells/").unwrap_or(cell);
            let target = to.join("captures").join(format!("{cell}.pcapng"));
            compress(&capture(from, folder), &target, arguments.heads)?;
            written += 1;
        }
    }
    println!(
        "{}: {} records, packets of {written} cells; write its README.md",
        to.display(),
        records.len()
    );
    Ok(ExitCode::SUCCESS)
}

/// Returns the file with the packets at the client's tap.
fn capture(run: &Path, folder: &str) -> PathBuf {
    run.join(folder).join("capture.pcapng")
}

fn read(path: &Path) -> Result<Vec<Record>, String> {
    let text = fs::read_to_string(path)
        .map_err(|error| format!("failed to read {}: {error}", path.display()))?;
    text.lines()
        .map(|line| {
            serde_json::from_str(line).map_err(|error| format!("{}: {error}", path.display()))
        })
        .collect()
}

/// For each cell's folder, the folder of its first valid replicate that has packets.
fn chosen<'a>(
    records: &'a [Record],
    has_packets: &dyn Fn(&str) -> bool,
) -> BTreeMap<&'a str, &'a str> {
    let mut chosen: BTreeMap<&str, (u32, &str)> = BTreeMap::new();
    for record in records {
        let Some((cell, _)) = record.folder.rsplit_once('/') else {
            continue;
        };
        if !record.validity.reasons.is_empty() || !has_packets(&record.folder) {
            continue;
        }
        let entry = (record.replicate, record.folder.as_str());
        let best = chosen.entry(cell).or_insert(entry);
        *best = (*best).min(entry);
    }
    chosen
        .into_iter()
        .map(|(cell, (_, folder))| (cell, folder))
        .collect()
}

/// Writes the first bytes of each packet of `from` to `to`, compressed, with the suffix `.zst`.
fn compress(from: &Path, to: &Path, heads: u32) -> Result<(), String> {
    let folder = to.parent().ok_or("a capture has no folder")?;
    create(folder)?;
    finish(
        Command::new("editcap")
            .args(["-F", "pcapng", "-s", &heads.to_string()])
            .args([from, to]),
        "editcap (Debian package wireshark-common)",
    )?;
    finish(
        Command::new("zstd")
            .args(["-19", "--quiet", "--rm"])
            .arg(to),
        "zstd (Debian package zstd)",
    )
}

fn finish(command: &mut Command, name: &str) -> Result<(), String> {
    let status = command
        .status()
        .map_err(|error| format!("failed to run {name}: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{name} failed with {status}")),
    }
}

fn create(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder)
        .map_err(|error| format!("failed to create {}: {error}", folder.display()))
}

/// Copies a file, or the files of a folder; does nothing if `from` does not exist.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    if from.is_dir() {
        create(to)?;
        let entries = fs::read_dir(from).map_err(|error| format!("{}: {error}", from.display()))?;
        for entry in entries {
            let entry = entry.map_err(|error| format!("{}: {error}", from.display()))?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
    } else if from.exists() {
        fs::copy(from, to)
            .map_err(|error| format!("failed to copy {}: {error}", from.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(folder: &str, replicate: u32, reasons: &[&str]) -> Record {
        Record {
            folder: folder.to_owned(),
            replicate,
            validity: Validity {
                reasons: reasons.iter().map(|&reason| reason.to_owned()).collect(),
            },
        }
    }

    #[test]
    fn the_first_valid_replicate_with_packets_of_each_cell_is_published() {
        let records = [
            record("main/a/r2", 2, &[]),
            record("main/a/r0", 0, &["late"]),
            record("main/a/r1", 1, &[]),
            record("main/b/r0", 0, &[]),
            record("main/c/r0", 0, &["late"]),
        ];
        let all = chosen(&records, &|_| true);
        assert_eq!(
            all,
            [("main/a", "main/a/r1"), ("main/b", "main/b/r0")].into()
        );
        let some = chosen(&records, &|folder| folder == "main/a/r2");
        assert_eq!(some, [("main/a", "main/a/r2")].into());
    }
}
