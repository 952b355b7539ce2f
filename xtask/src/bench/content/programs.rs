//! The encoders of `fathometer content` against the programs gzip, brotli and zstd.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::FILES;
use crate::bench::trace::{median, timed};

/// A treatment of `fathometer content`, the command that does the same, and the upper bound of our CPU time
/// relative to the command's.
struct Peer {
    treatment: &'static str,
    command: &'static str,
    most: f64,
}

/// The program brotli is in C, our encoder in Rust.
const PEERS: [Peer; 8] = [
    Peer::of("gzip 1", "gzip -1", 1.0),
    Peer::of("gzip 6", "gzip -6", 1.0),
    Peer::of("gzip 9", "gzip -9", 1.0),
    Peer::of("brotli 1", "brotli -q 1 -w 22", 1.5),
    Peer::of("brotli 5", "brotli -q 5 -w 22", 1.5),
    Peer::of("brotli 9", "brotli -q 9 -w 22", 1.5),
    Peer::of("zstd 3", "zstd -q -3 --single-thread", 1.1),
    Peer::of("zstd 9", "zstd -q -9 --single-thread", 1.1),
];

impl Peer {
    const fn of(treatment: &'static str, command: &'static str, most: f64) -> Peer {
        Peer {
            treatment,
            command,
            most,
        }
    }
}

/// CPU time in seconds and bytes of output, for our program and for the peer program.
type Round = [(f64, f64); 2];

/// Compares the programs; returns whether all targets are met.
pub(super) fn measure(
    ours: &Path,
    folder: &Path,
    site: &Path,
    rounds: usize,
) -> Result<bool, String> {
    let copy = copy_of(site, folder)?;
    let mut rows: [Vec<Round>; PEERS.len()] = Default::default();
    for _ in 0..rounds {
        let report = report(ours, site)?;
        for (row, peer) in rows.iter_mut().zip(&PEERS) {
            let script = format!(
                "cd {} && {} -k -f *.html && cat *.html.* | wc -c && rm *.html.*",
                copy.display(),
                peer.command
            );
            let (processor, printed) = timed(&["bash", "-c", &script], folder)?;
            let bytes = printed.trim().parse();
            let bytes = bytes.map_err(|_| format!("{script} printed {printed:?}"))?;
            row.push([treatment(&report, peer.treatment)?, (processor, bytes)]);
        }
    }
    println!(
        "\n{:10}{:>16}{:>16}{:>9}{:>14}{:>14}",
        "", "ours files/s", "program files/s", "CPU", "ours bytes", "program bytes"
    );
    let mut all_met = true;
    for (row, peer) in rows.iter().zip(&PEERS) {
        let figure = |of: fn(&Round) -> f64| median(row.iter().map(of).collect());
        let ratio = figure(|[ours, program]| ours.0 / program.0);
        let met = ratio <= peer.most;
        all_met &= met;
        println!(
            "{:10}{:>16.0}{:>16.0}{ratio:>9.2}{:>14.0}{:>14.0}  at most {}: {}",
            peer.treatment,
            FILES as f64 / figure(|[ours, _]| ours.0),
            FILES as f64 / figure(|[_, program]| program.0),
            figure(|[ours, _]| ours.1),
            figure(|[_, program]| program.1),
            peer.most,
            if met { "met" } else { "MISSED" }
        );
    }
    Ok(all_met)
}

/// Copies the site, because the programs write their output next to the input files.
fn copy_of(site: &Path, folder: &Path) -> Result<PathBuf, String> {
    let copy = folder.join("copy");
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(&copy)?;
        for entry in fs::read_dir(site)? {
            let entry = entry?;
            fs::copy(entry.path(), copy.join(entry.file_name()))?;
        }
        Ok(())
    };
    write().map_err(|error| format!("failed to write {}: {error}", copy.display()))?;
    Ok(copy)
}

/// Runs `fathometer content` and returns its report.
fn report(ours: &Path, site: &Path) -> Result<Value, String> {
    let output = Command::new(ours)
        .args(["content", "--json", "--repeat", "1"])
        .arg(site)
        .output()
        .map_err(|error| format!("failed to run {}: {error}", ours.display()))?;
    serde_json::from_slice(&output.stdout).map_err(|error| {
        format!(
            "the report of fathometer content cannot be read: {error}\n{}",
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

/// Returns the CPU time to encode all files, and the bytes of output.
fn treatment(report: &Value, name: &str) -> Result<(f64, f64), String> {
    let of = report["treatments"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|treatment| treatment["treatment"] == name);
    of.and_then(|of| Some((of["encode_s"][0].as_f64()?, of["bytes"].as_f64()?)))
        .ok_or_else(|| format!("fathometer content reports no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_treatment_is_found_by_its_name() {
        let report = serde_json::json!({ "treatments": [
            { "treatment": "gzip 1", "bytes": 10, "encode_s": [0.5] },
            { "treatment": "gzip 6", "bytes": 9, "encode_s": [0.75] },
        ]});
        assert_eq!(treatment(&report, "gzip 6"), Ok((0.75, 9.0)));
        assert!(treatment(&report, "gzip").is_err());
    }
}
