//! `cargo xtask bench path`: throughput and lateness of the emulated path.
//!
//! The release binary runs `fathometer path` with a sender on the far side and a receiver on the near side. Both are
//! child processes of this program, so the traffic is real kernel TCP over real devices. In the bulk measurement the
//! path has a round-trip time of 20 ms and no rate limit, so that the processors are the limit. The target of this
//! measurement is a throughput without a drop. The target at 10 Mbit/s is a lateness. The median of the rounds is
//! judged.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::trace::{Scratch, build, median};

/// Rounds of each measurement.
const ROUNDS: usize = 3;
/// Time for which each round sends.
const TIME: Duration = Duration::from_secs(6);
/// Start of a round that is not counted, because TCP is opening its window.
const WARM_UP: Duration = Duration::from_secs(2);
/// Goodput in Gbit/s that the bulk measurement must reach.
const BULK_BAR: f64 = 3.5;
/// Upper bound of the 99th percentile of lateness at 10 Mbit/s, in milliseconds.
const LATENESS_BAR: f64 = 0.05;

/// Environment variable that sets the role of a child process: sender or receiver.
const ROLE: &str = "FATHOMETER_BENCH_ROLE";
const PORT: u16 = 5001;

const BULK: &str = "[both]\npropagation = \"10ms\"\n";
const SLOW: &str = "[both]\npropagation = \"10ms\"\nrate = \"10Mbit/s\"\nframing = \"ethernet\"\n\
                    queue = { packets = 1000 }\n";

/// CUBIC, and windows of about 8 MB: enough for 20 ms at 3 Gbit/s, and fewer bytes than the ring of a device can
/// contain.
const ERA: &str = "name = \"bench\"\ntitle = \"TCP with large windows\"\nsource = \"made for this bench\"\n\
                   [both.route]\ncongestion_control = \"cubic\"\n[both.sysctl]\n\
                   \"net.ipv4.tcp_rmem\" = \"4096 131072 16777216\"\n\
                   \"net.ipv4.tcp_wmem\" = \"4096 65536 16777216\"\n";

/// One round, as the receiver and the path report it.
struct Round {
    gigabits: f64,
    dropped: u64,
    unasked: u64,
    /// Lateness in the worse direction: 50th and 99th percentile and maximum, in milliseconds.
    late: [f64; 3],
}

/// Builds the release binary, measures, prints a table and a line of JSON, and fails when a target is missed.
pub(crate) fn run(root: &Path) -> Result<ExitCode, String> {
    match std::env::var(ROLE).as_deref() {
        Ok("send") => return send().map_err(|error| format!("failed to send: {error}")),
        Ok("receive") => return receive().map_err(|error| format!("failed to receive: {error}")),
        _ => {}
    }
    let binary = build(root)?;
    let scratch = Scratch::new()?;
    let era = write(&scratch.0.join("bench.toml"), ERA)?;
    let measure = |name: &str, path: &str| -> Result<Vec<Round>, String> {
        let text = format!("name = \"{name}\"\nsource = \"made for this bench\"\n{path}");
        let profile = write(&scratch.0.join(format!("{name}.toml")), &text)?;
        (0..ROUNDS)
            .map(|_| round(&binary, &profile, &era))
            .collect()
    };
    let bulk = measure("bulk", BULK)?;
    let slow = measure("slow", SLOW)?;

    println!(
        "{:28}{:>10}{:>9}{:>13}{:>11}{:>11}{:>11}",
        "", "Gbit/s", "dropped", "unrequested", "late p50", "p99", "max, ms"
    );
    for (name, rounds) in [("bulk, 20 ms", &bulk), ("10 Mbit/s, 20 ms", &slow)] {
        for round in rounds {
            println!(
                "{name:28}{:>10.4}{:>9}{:>13}{:>11.4}{:>11.4}{:>11.4}",
                round.gigabits,
                round.dropped,
                round.unasked,
                round.late[0],
                round.late[1],
                round.late[2]
            );
        }
    }
    let goodput = median(bulk.iter().map(|round| round.gigabits).collect());
    let lateness = median(slow.iter().map(|round| round.late[1]).collect());
    let lost: u64 = bulk
        .iter()
        .chain(&slow)
        .map(|round| round.dropped + round.unasked)
        .sum();
    let met = goodput >= BULK_BAR && lateness <= LATENESS_BAR && lost == 0;
    println!(
        "\nbulk {goodput:.3} Gbit/s (target {BULK_BAR}), {lost} packets lost (target 0), lateness p99 \
         {lateness:.4} ms (target {LATENESS_BAR}): {}",
        if met { "met" } else { "MISSED" }
    );
    let rounds = |rounds: &[Round]| -> Vec<Value> {
        rounds
            .iter()
            .map(|round| {
                json!({
                    "gbit_s": round.gigabits,
                    "dropped": round.dropped,
                    "unasked_drops": round.unasked,
                    "lateness_p50_ms": round.late[0],
                    "lateness_p99_ms": round.late[1],
                    "lateness_max_ms": round.late[2],
                })
            })
            .collect()
    };
    println!(
        "{}",
        json!({
            "bench": "path",
            "bulk": rounds(&bulk),
            "slow": rounds(&slow),
            "bulk_gbit_s": goodput,
            "lateness_p99_ms": lateness,
            "lost": lost,
            "met": met,
        })
    );
    Ok(if met {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn write(file: &Path, text: &str) -> Result<String, String> {
    std::fs::write(file, text)
        .map_err(|error| format!("failed to write {}: {error}", file.display()))?;
    let name = file.to_str().ok_or("the temporary folder is not UTF-8")?;
    Ok(name.to_owned())
}

fn round(binary: &Path, profile: &str, era: &str) -> Result<Round, String> {
    let own =
        std::env::current_exe().map_err(|error| format!("failed to find this program: {error}"))?;
    let own = own.to_str().ok_or("the target folder is not UTF-8")?;
    let output = Command::new(binary)
        .args(["path", profile, "--era", era, "--json"])
        .args(["--server", &format!("{ROLE}=send exec '{own}' bench path")])
        .args(["--", own, "bench", "path"])
        .env(ROLE, "receive")
        .output()
        .map_err(|error| format!("failed to run {}: {error}", binary.display()))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    // Exit code 3: the lateness is too high for a valid measurement. The bench measures this lateness.
    if !matches!(output.status.code(), Some(0 | 3)) {
        return Err(format!(
            "fathometer path failed ({}): {errors}",
            output.status
        ));
    }
    let report: Value = errors
        .lines()
        .last()
        .and_then(|line| serde_json::from_str(line).ok())
        .ok_or_else(|| format!("fathometer path wrote: {errors}"))?;
    let gigabits = String::from_utf8_lossy(&output.stdout)
        .trim()
        .parse()
        .map_err(|_| {
            format!(
                "the receiver wrote: {}",
                String::from_utf8_lossy(&output.stdout)
            )
        })?;
    let directions = [&report["path"]["up"], &report["path"]["down"]];
    let sum = |number: fn(&Value) -> u64| directions.into_iter().map(number).sum();
    Ok(Round {
        gigabits,
        dropped: sum(|direction| {
            let drops = direction["drops"].as_object();
            drops.map_or(0, |drops| drops.values().filter_map(Value::as_u64).sum())
        }),
        unasked: sum(|direction| direction["unasked_drops"].as_u64().unwrap_or(u64::MAX)),
        late: ["lateness_p50_ns", "lateness_p99_ns", "lateness_max_ns"].map(|key| {
            let nanos = directions.map(|direction| direction[key].as_f64().unwrap_or(f64::MAX));
            nanos[0].max(nanos[1]) / 1e6
        }),
    })
}

/// Far end: sends to the client that connects, for the length of a round.
fn send() -> io::Result<ExitCode> {
    let (mut stream, _) = TcpListener::bind(("0.0.0.0", PORT))?.accept()?;
    let data = vec![0x55; 128 * 1024];
    let start = Instant::now();
    while start.elapsed() < TIME {
        stream.write_all(&data)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Near end: prints the goodput in Gbit/s after the warm-up.
fn receive() -> io::Result<ExitCode> {
    let server = std::env::var("FATHOMETER_SERVER").map_err(io::Error::other)?;
    let mut stream = TcpStream::connect((server.as_str(), PORT))?;
    let mut buffer = vec![0; 512 * 1024];
    let start = Instant::now();
    let mut counted = 0u64;
    let mut from = None;
    let mut last = start;
    loop {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        last = Instant::now();
        match from {
            Some(_) => counted += length as u64,
            None if last - start >= WARM_UP => from = Some(last),
            None => {}
        }
    }
    let time = last - from.unwrap_or(last);
    println!("{}", counted as f64 * 8.0 / time.as_secs_f64() / 1e9);
    Ok(ExitCode::SUCCESS)
}
