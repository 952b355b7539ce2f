//! The servers under attack, the well-behaved clients, and the measurements of both.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Phase, Sample};

/// The header of the table.
pub(super) const HEAD: &str =
    "time     phase     memory  fds |  h1 p99  failed |  h2 p99  failed |  h3 p99  failed";

/// Names and sizes of the files, in bytes.
const FILES: [(&str, usize); 2] = [("small.html", 4 * 1024), ("big.bin", 32 * 1024 * 1024)];

/// Creates the folder that is served.
pub(super) fn write_site(scratch: &Path) -> Result<PathBuf, String> {
    let site = scratch.join("site");
    let write = || -> std::io::Result<()> {
        std::fs::create_dir_all(&site)?;
        for (name, size) in FILES {
            std::fs::write(site.join(name), vec![b'0'; size])?;
        }
        Ok(())
    };
    write().map_err(|error| format!("failed to write {}: {error}", site.display()))?;
    Ok(site)
}

/// A running `fathometer serve`, killed on drop.
pub(super) struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    pub(super) fn start(program: &Path, site: &Path, more: &[&str]) -> Result<Server, String> {
        let mut child = Command::new(program)
            .arg("serve")
            .arg(site)
            .args(["--listen", "127.0.0.1:0", "--drain", "1s"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("failed to start {}: {error}", program.display()))?;
        let mut line = String::new();
        if let Some(output) = child.stdout.as_mut() {
            // If the line cannot be read, the code below reports that the address is missing.
            let _ = BufReader::new(output).read_line(&mut line);
        }
        let address = line
            .split_once("://")
            .and_then(|(_, rest)| rest.trim().trim_end_matches('/').parse().ok());
        let Some(address) = address else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("the server did not report its address: {line:?}"));
        };
        Ok(Server { child, address })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Resident memory.
    pub(super) fn memory_kib(&self) -> Result<u64, String> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))
            .map_err(|error| format!("the server exited: {error}"))?;
        status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
            .ok_or_else(|| "the server exited".to_owned())
    }

    pub(super) fn descriptors(&self) -> Result<usize, String> {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id()))
            .map(Iterator::count)
            .map_err(|error| format!("failed to count descriptors: {error}"))
    }

    /// Stops the server; returns its stderr.
    pub(super) fn end(mut self) -> Result<String, String> {
        let id = self.child.id().to_string();
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .map_err(|error| format!("failed to stop the server: {error}"))?;
        let mut output = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            errors
                .read_to_string(&mut output)
                .map_err(|error| format!("failed to read the output of the server: {error}"))?;
        }
        let _ = self.child.wait();
        Ok(output)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Results of the well-behaved clients in one sample.
pub(super) struct Honest {
    pub(super) protocol: &'static str,
    pub(super) p99_ms: Option<f64>,
    pub(super) completed: u64,
    pub(super) failed: u64,
}

/// Loads both servers with all protocols at once, for `time`.
pub(super) fn ask(
    program: &Path,
    clear: &Server,
    secure: &Server,
    time: Duration,
) -> Result<Vec<Honest>, String> {
    let protocols = [
        ("h1", "http", clear, "h1.1"),
        ("h2", "http", clear, "h2c"),
        ("h3", "https", secure, "h3"),
    ];
    let mut running = Vec::new();
    for (protocol, scheme, server, policy) in protocols {
        let child = Command::new(program)
            .arg("load")
            .arg(format!("{scheme}://{}/small.html", server.address))
            .args(["--policy", policy, "-c", "8", "--rate", "100"])
            .args((scheme == "https").then_some("--insecure"))
            .args(["-d", &format!("{}s", time.as_secs()), "--timeout", "10s"])
            .args(["--format", "json", "-q"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("failed to start {}: {error}", program.display()))?;
        running.push((protocol, child));
    }
    running
        .into_iter()
        .map(|(protocol, child)| {
            let output = child
                .wait_with_output()
                .map_err(|error| format!("failed to wait for the well-behaved clients: {error}"))?;
            let summary: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
                format!("{protocol}: no summary of the well-behaved clients: {error}")
            })?;
            let measured = &summary["measured"];
            let count = |name: &str| measured["counts"][name].as_u64().unwrap_or_default();
            Ok(Honest {
                protocol,
                p99_ms: measured["phases"]["corrected"]["p99_ms"].as_f64(),
                completed: count("completed"),
                failed: count("failed") + count("unfinished") + count("status_errors"),
            })
        })
        .collect()
}

/// Returns one line of the table.
pub(super) fn line(sample: &Sample) -> String {
    let honest: Vec<String> = sample
        .honest
        .iter()
        .map(|one| match one.p99_ms {
            Some(p99) => format!("{p99:7.2} {:7}", one.failed),
            None => format!("{:>7} {:7}", "-", one.failed),
        })
        .collect();
    format!(
        "{:7.0}s {:7} {:6.1}MB {:4} | {}",
        sample.at.as_secs_f64(),
        sample.phase.name(),
        sample.memory_kib as f64 / 1024.0,
        sample.descriptors,
        honest.join(" | ")
    )
}

/// Returns one sample as JSON.
pub(super) fn json_of(sample: &Sample) -> Value {
    let honest: Vec<Value> = sample
        .honest
        .iter()
        .map(|one| {
            json!({
                "protocol": one.protocol,
                "p99_ms": one.p99_ms,
                "completed": one.completed,
                "failed": one.failed,
            })
        })
        .collect();
    json!({
        "at_s": sample.at.as_secs_f64(),
        "phase": sample.phase.name(),
        "memory_kib": sample.memory_kib,
        "descriptors": sample.descriptors,
        "honest": honest,
    })
}

/// Returns a summary of one phase.
pub(super) fn of_phase(phase: Phase, samples: &[Sample]) -> Value {
    let samples: Vec<&Sample> = samples.iter().filter(|one| one.phase == phase).collect();
    let p99s: Vec<Value> = ["h1", "h2", "h3"]
        .into_iter()
        .map(|protocol| {
            let mut all: Vec<f64> = samples
                .iter()
                .flat_map(|sample| &sample.honest)
                .filter(|one| one.protocol == protocol)
                .filter_map(|one| one.p99_ms)
                .collect();
            all.sort_by(f64::total_cmp);
            json!({
                "protocol": protocol,
                "median_of_p99_ms": all.get(all.len() / 2),
                "greatest_p99_ms": all.last(),
            })
        })
        .collect();
    json!({
        "phase": phase.name(),
        "samples": samples.len(),
        "greatest_memory_kib": samples.iter().map(|one| one.memory_kib).max(),
        "last_memory_kib": samples.last().map(|one| one.memory_kib),
        "greatest_descriptors": samples.iter().map(|one| one.descriptors).max(),
        "honest": p99s,
    })
}
