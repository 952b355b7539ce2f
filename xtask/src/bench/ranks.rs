//! `cargo xtask bench ranks`: what it costs a rank of a load test to be one of several, and whether two ranks measure what
//! one process measures.
//!
//! **Cost.** Two ranks with half of the users of a closed loop each, against two independent processes with the same
//! halves: they differ in the control connection, the clocks and the merging alone. The processor time is that of whole
//! processes. Both alternate in rounds, and the ratio is that of a round. A closed loop, because an open loop at a low rate
//! busy-waits for a time that differs between rounds by more than the bar.
//!
//! **Latency.** Two ranks against one process of two threads with the whole rate, alternating; `fathometer compare` judges
//! the saved results by its own method. Both have two event loops: a loop that busy-waits for its next request keeps a
//! processor awake, which shortens latencies.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::trace::{Scratch, build, median};

/// Rounds of each comparison, unless the command line says otherwise.
const ROUNDS: usize = 9;
/// Rounds of the comparison of processor time for each of these.
const COST_ROUNDS: usize = 2;
/// Length of each load.
const LENGTH: &str = "10s";
/// Length of each load whose processor time is measured.
const COST_LENGTH: &str = "6s";
/// Requests per second of the whole open loop, and the connections of either loop.
const RATE: u32 = 2000;
const CONNECTIONS: u32 = 32;
/// Bytes of a response: with large ones the copies would be most of the time.
const SIZE: usize = 1024;
/// The largest processor time per exchange of ranks, relative to independent processes.
const COST: f64 = 1.02;
/// The largest control traffic of a rank, in bytes per second.
const TRAFFIC: f64 = 20_000.0;
/// The largest start skew, in milliseconds.
const SKEW_MS: f64 = 1.0;
/// The metrics of `compare` that must not differ.
const LATENCIES: [&str; 3] = ["p50", "p90", "p99"];

/// A process that is killed when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the processes of a load measured together.
struct Load {
    /// Processor time of all of them for each exchange, in microseconds.
    micros: f64,
    /// Their results: that of each independent process, or that of rank 0.
    results: Vec<Value>,
}

/// Where loads run.
struct Place {
    ours: PathBuf,
    folder: PathBuf,
    url: String,
}

/// Measures, prints the results, and fails when a bar is missed. `rounds` instead of the usual number of rounds.
pub(crate) fn run(root: &Path, rounds: Option<usize>) -> Result<ExitCode, String> {
    let ours = build(root)?;
    let scratch = Scratch::new()?;
    let folder = scratch.path().to_owned();
    let site = folder.join("site");
    fs::create_dir(&site).map_err(|error| format!("failed to make {}: {error}", site.display()))?;
    write(&site.join("index.html"), &"x".repeat(SIZE))?;
    let (_server, url) = serve(&ours, &site)?;
    write(&folder.join("secret"), "a secret of this bench\n")?;
    let place = Place { ours, folder, url };
    let rounds = rounds.unwrap_or(ROUNDS).max(1);
    let cost_is_met = cost(&place, COST_ROUNDS * rounds)?;
    let latency_is_met = latency(&place, rounds)?;
    let all_met = cost_is_met && latency_is_met;
    println!("{}", if all_met { "met" } else { "MISSED" });
    Ok(if all_met {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Processor time, control traffic and start skew.
fn cost(place: &Place, rounds: usize) -> Result<bool, String> {
    let (mut ratios, mut ours, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let (mut traffic, mut skew) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        // Each goes first in every other round.
        let both = match round % 2 {
            0 => [place.ranks(Loop::Closed, None)?, place.independent()?],
            _ => {
                let independent = place.independent()?;
                [place.ranks(Loop::Closed, None)?, independent]
            }
        };
        let [ranks, independent] = both;
        ratios.push(ranks.micros / independent.micros);
        ours.push(ranks.micros);
        others.push(independent.micros);
        let of_ranks = &ranks.results[0]["ranks"];
        traffic.push(figure(&of_ranks[1]["control_bytes_per_s"])?);
        skew.push(figure(&of_ranks[1]["start_skew_ms"])?);
    }
    ratios.sort_by(f64::total_cmp);
    // The fifth of eighteen ratios and the fifth from the end enclose the median with 97 %, the second of nine with 96 %
    // (order statistics).
    let cut = match rounds {
        18.. => 4,
        8.. => 1,
        _ => 0,
    };
    let (low, high) = (ratios[cut], ratios[rounds - 1 - cut]);
    let ratio = median(ratios);
    println!(
        "two ranks against two processes, closed loop of {CONNECTIONS} connections in all, {rounds} rounds of {COST_LENGTH}\n\
         processor time per exchange    {:7.2} µs of ranks, {:7.2} µs of processes",
        median(ours),
        median(others)
    );
    println!(
        "ratio                          {ratio:7.3} ({low:.3} to {high:.3})  bar at most {COST}"
    );
    let (most_traffic, most_skew) = (largest(&traffic), largest(&skew));
    println!(
        "control traffic of a rank      {most_traffic:7.0} B/s, the largest      bar at most {TRAFFIC:.0} B/s\n\
         start skew                     {most_skew:7.3} ms, the largest       bar at most {SKEW_MS} ms"
    );
    Ok(ratio <= COST && most_traffic <= TRAFFIC && most_skew <= SKEW_MS)
}

/// Whether two ranks and one process with the same whole rate report the same latencies.
fn latency(place: &Place, rounds: usize) -> Result<bool, String> {
    let [one, two] = ["one-process", "two-ranks"].map(|name| place.folder.join(name));
    for folder in [&one, &two] {
        fs::create_dir_all(folder)
            .map_err(|error| format!("failed to make {}: {error}", folder.display()))?;
    }
    for round in 0..rounds {
        let file = format!("{round}.json");
        let solo = || {
            let mut words = place.load(Loop::Open, CONNECTIONS, 1, Some(&one.join(&file)));
            words.extend(["--threads", "2"].map(str::to_owned));
            place.together(&[words])
        };
        if round % 2 == 0 {
            solo()?;
            place.ranks(Loop::Open, Some(&two.join(&file)))?;
        } else {
            place.ranks(Loop::Open, Some(&two.join(&file)))?;
            solo()?;
        }
    }
    let output = Command::new(&place.ours)
        .args(["compare", "--json", "--allow-different"])
        .args([&one, &two])
        .output()
        .map_err(|error| format!("failed to run fathometer compare: {error}"))?;
    let compared: Value = serde_json::from_slice(&output.stdout).map_err(|error| {
        let errors = String::from_utf8_lossy(&output.stderr);
        format!("the output of fathometer compare is not JSON: {error}: {errors}")
    })?;
    println!("two ranks against one process, {RATE} requests/s, {rounds} rounds of {LENGTH}");
    for reason in compared["invalid"].as_array().into_iter().flatten() {
        println!("not compared: {reason}");
    }
    let changes = compared["changes"]
        .as_array()
        .ok_or("there are no changes")?;
    let is_valid = compared["invalid"].as_array().is_none_or(Vec::is_empty);
    let mut judged = 0;
    let mut is_met = is_valid;
    for change in changes {
        let metric = change["metric"].as_str().unwrap_or_default();
        if !LATENCIES.contains(&metric) {
            continue;
        }
        let percent = |name: &str| {
            let share = change[name].as_f64();
            share.map_or("?".to_owned(), |share| format!("{:+.1} %", 100.0 * share))
        };
        let verdict = change["verdict"].as_str().unwrap_or("none");
        println!(
            "{metric:30} {} ({} to {})  {verdict}",
            percent("change"),
            percent("low"),
            percent("high")
        );
        // Without an interval nothing is known.
        judged += usize::from(change["low"].is_number());
        is_met &= matches!(verdict, "equal" | "undecided");
    }
    Ok(is_met && judged == LATENCIES.len())
}

/// How requests are planned.
#[derive(Clone, Copy)]
enum Loop {
    /// [`RATE`] requests per second.
    Open,
    /// The next request of a connection follows its response.
    Closed,
}

impl Place {
    /// `fathometer load` on so many connections, without the number of its threads.
    fn load(&self, planned: Loop, connections: u32, seed: u32, save: Option<&Path>) -> Vec<String> {
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

    /// Two ranks.
    fn ranks(&self, planned: Loop, save: Option<&Path>) -> Result<Load, String> {
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
        self.together(&[rank(0), rank(1)])
    }

    /// Two processes with half of the load each, which do not know each other.
    fn independent(&self) -> Result<Load, String> {
        let half = |seed| {
            let mut words = self.load(Loop::Closed, CONNECTIONS / 2, seed, None);
            words.extend(["--threads", "1"].map(str::to_owned));
            words
        };
        self.together(&[half(1), half(2)])
    }

    /// Runs commands at the same time.
    fn together(&self, commands: &[Vec<String>]) -> Result<Load, String> {
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
            running.push((child, time));
        }
        let (mut seconds, mut results) = (0.0, Vec::new());
        for (child, time) in running {
            let output = child
                .wait_with_output()
                .map_err(|error| format!("failed to wait for fathometer load: {error}"))?;
            // 3: the result is INVALID, which a busy machine causes; its cost counts.
            if !matches!(output.status.code(), Some(0 | 3)) {
                let errors = fs::read_to_string(time.with_extension("err")).unwrap_or_default();
                return Err(format!(
                    "fathometer load failed: {}: {errors}",
                    output.status
                ));
            }
            seconds += seconds_of(&time)?;
            if !output.stdout.is_empty() {
                let result = serde_json::from_slice(&output.stdout).map_err(|error| {
                    format!("the output of fathometer load is not JSON: {error}")
                })?;
                results.push(result);
            }
        }
        let completed = |result: &Value| figure(&result["measured"]["counts"]["completed"]);
        let exchanges: f64 = results.iter().map(completed).sum::<Result<f64, String>>()?;
        Ok(Load {
            micros: 1e6 * seconds / exchanges,
            results,
        })
    }
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

fn figure(value: &Value) -> Result<f64, String> {
    value
        .as_f64()
        .ok_or_else(|| format!("{value} is no number"))
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("failed to write {}: {error}", path.display()))
}

fn free_address() -> Result<SocketAddr, String> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|socket| socket.local_addr())
        .map_err(|error| format!("no port is free: {error}"))
}

/// `fathometer serve` of a folder with one thread, and its URL.
fn serve(ours: &Path, site: &Path) -> Result<(Process, String), String> {
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
