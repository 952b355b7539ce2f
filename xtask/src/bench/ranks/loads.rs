//! The loads that are compared, and their server.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

/// Length of each load whose latency is measured: short, so that few loads are disturbed.
pub(super) const LENGTH: &str = "5s";
/// Length of each load whose CPU time is measured.
pub(super) const COST_LENGTH: &str = "6s";
/// Requests per second of the whole open loop, and the connections of either loop.
pub(super) const RATE: u32 = 2000;
pub(super) const CONNECTIONS: u32 = 32;

/// A process that is killed on drop.
pub(super) struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The joint result of the processes of a load.
pub(super) struct Load {
    /// CPU time of all processes per exchange, in microseconds.
    pub(super) micros: f64,
    /// Whether all results are valid.
    pub(super) is_valid: bool,
    /// The results: one for each independent process, or the result of rank 0.
    pub(super) results: Vec<Value>,
}

/// The program, folder and URL of the loads.
pub(super) struct Place {
    pub(super) ours: PathBuf,
    pub(super) folder: PathBuf,
    pub(super) url: String,
}

/// The kind of loop.
#[derive(Clone, Copy)]
pub(super) enum Loop {
    /// [`RATE`] requests per second.
    Open,
    /// Each connection sends its next request after the response.
    Closed,
}

impl Place {
    /// Returns the command `fathometer load` with this number of connections, without the number of threads.
    pub(super) fn load(
        &self,
        planned: Loop,
        connections: u32,
        seed: u32,
        save: Option<&Path>,
    ) -> Vec<String> {
        let (rate, connections) = (RATE.to_string(), connections.to_string());
        let seed = seed.to_string();
        let planned = match planned {
            Loop::Open => ["--rate", &rate, "-d", LENGTH].to_vec(),
            Loop::Closed => ["-d", COST_LENGTH].to_vec(),
        };
        let mut words: Vec<String> = ["load", &self.url, "--json", "--quiet"]
            .iter()
            .chain(&["-c", &connections, "--repeats", "0", "--seed", &seed])
            .chain(&planned)
            .map(|word| (*word).to_owned())
            .collect();
        if let Some(file) = save {
            words.extend(["--save".to_owned(), file.display().to_string()]);
        }
        words
    }

    /// Returns the commands of two ranks.
    pub(super) fn ranks(
        &self,
        planned: Loop,
        save: Option<&Path>,
    ) -> Result<[Vec<String>; 2], String> {
        let meeting = free_address()?.to_string();
        let secret = self.folder.join("secret").display().to_string();
        let rank = |rank: u32| {
            let mut words = self.load(planned, CONNECTIONS, 1, save);
            let place = [
                "--threads",
                "1",
                "--rank",
                &rank.to_string(),
                "--ranks",
                "2",
            ];
            words.extend(place.map(str::to_owned));
            let meet = ["--rendezvous", &meeting, "--secret-file", &secret];
            words.extend(meet.map(str::to_owned));
            words
        };
        Ok([rank(0), rank(1)])
    }

    /// Returns the commands of two independent processes with half of the load each.
    pub(super) fn independent(&self, seed: u32) -> [Vec<String>; 2] {
        let half = |seed| {
            let mut words = self.load(Loop::Closed, CONNECTIONS / 2, seed, None);
            words.extend(["--threads", "1"].map(str::to_owned));
            words
        };
        [half(seed), half(seed + 1)]
    }

    /// Runs two commands at the same time as two independent processes, and returns the result of each pair.
    /// `is_first`: the two commands are started before the processes.
    pub(super) fn beside(
        &self,
        pair: [Vec<String>; 2],
        is_first: bool,
    ) -> Result<[Load; 2], String> {
        let independent = self.independent(1);
        let mut pairs = [pair, independent];
        if !is_first {
            pairs.reverse();
        }
        let running = self.start(&pairs.concat())?;
        let mut loads = Vec::new();
        let mut running = running.into_iter();
        while let (Some(one), Some(other)) = (running.next(), running.next()) {
            loads.push(finished(vec![one, other])?);
        }
        if !is_first {
            loads.reverse();
        }
        loads
            .try_into()
            .map_err(|_| "two pairs of loads do not have two results".to_owned())
    }

    /// Runs commands at the same time.
    pub(super) fn together(&self, commands: &[Vec<String>]) -> Result<Load, String> {
        finished(self.start(commands)?)
    }

    /// Starts commands.
    fn start(&self, commands: &[Vec<String>]) -> Result<Vec<Running>, String> {
        let mut running = Vec::new();
        for (number, words) in commands.iter().enumerate() {
            let time = self.folder.join(format!("time-{number}"));
            // The shell reports the time of its child, user and system separately.
            let child = Command::new("bash")
                .args([
                    "-c",
                    "TIMEFORMAT='%U %S'; { time \"$@\" 2>\"$0.err\"; } 2>\"$0\"",
                ])
                .arg(&time)
                .arg(&self.ours)
                .args(words)
                .env("LC_ALL", "C")
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|error| format!("failed to run bash: {error}"))?;
            running.push(Running { child, time });
        }
        Ok(running)
    }
}

/// A running load.
struct Running {
    child: Child,
    /// The file to which the shell writes the CPU time.
    time: PathBuf,
}

/// Waits for all loads; returns their joint result.
fn finished(running: Vec<Running>) -> Result<Load, String> {
    let (mut seconds, mut results, mut is_valid) = (0.0, Vec::new(), true);
    for one in running {
        let output = one
            .child
            .wait_with_output()
            .map_err(|error| format!("failed to wait for fathometer load: {error}"))?;
        // Exit code 3: the result is INVALID, because the machine is busy; its cost is used.
        if !matches!(output.status.code(), Some(0 | 3)) {
            let errors = fs::read_to_string(one.time.with_extension("err")).unwrap_or_default();
            return Err(format!(
                "fathometer load failed: {}: {errors}",
                output.status
            ));
        }
        is_valid &= output.status.success();
        seconds += seconds_of(&one.time)?;
        if !output.stdout.is_empty() {
            let result = serde_json::from_slice(&output.stdout)
                .map_err(|error| format!("the output of fathometer load is not JSON: {error}"))?;
            results.push(result);
        }
    }
    let completed = |result: &Value| figure(&result["measured"]["counts"]["completed"]);
    let exchanges: f64 = results.iter().map(completed).sum::<Result<f64, String>>()?;
    Ok(Load {
        micros: 1e6 * seconds / exchanges,
        is_valid,
        results,
    })
}

/// User and system time of a process, in seconds.
fn seconds_of(file: &Path) -> Result<f64, String> {
    let text = fs::read_to_string(file)
        .map_err(|error| format!("failed to read {}: {error}", file.display()))?;
    let times: Option<Vec<f64>> = text
        .split_whitespace()
        .map(|time| time.parse().ok())
        .collect();
    let times = times.ok_or_else(|| format!("the shell printed no time: {text}"))?;
    Ok(times.iter().sum())
}

pub(super) fn figure(value: &Value) -> Result<f64, String> {
    value
        .as_f64()
        .ok_or_else(|| format!("{value} is not a number"))
}

fn free_address() -> Result<SocketAddr, String> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|socket| socket.local_addr())
        .map_err(|error| format!("no port is free: {error}"))
}

/// Starts `fathometer serve` on a folder with one thread; returns the process and the URL.
pub(super) fn serve(ours: &Path, site: &Path) -> Result<(Process, String), String> {
    let address = free_address()?;
    let child = Command::new(ours)
        .args(["serve", "--threads", "1"])
        .arg(site)
        .arg("--listen")
        .arg(address.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("failed to run fathometer serve: {error}"))?;
    let server = Process(child);
    for _ in 0..100 {
        if TcpStream::connect(address).is_ok() {
            return Ok((server, format!("http://{address}/")));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err("fathometer serve does not listen".to_owned())
}
