//! `cargo xtask bench trace`: speed of packet accounting, against tshark.
//!
//! Both programs read the same capture. The benchmark writes it, so the correct counts are known: pages over many
//! connections, interleaved, with retransmissions. The benchmark compares the CPU time (user and system) of the
//! whole program. The programs alternate in rounds, and the fastest round of each program is used, because other
//! work on the machine disturbed it least. tshark computes its two cheapest summaries, each a small part of our
//! counts, and resolves no names.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Connections in the capture.
const CONNECTIONS: u32 = 20_000;
/// Number of connections that are active at the same time.
const AT_ONCE: u32 = 64;
/// Data segments per connection: about half of its packets.
const SEGMENTS: u32 = 24;
/// Bytes of each packet in the capture.
const KEPT: usize = 128;
/// Rounds; the fastest of each program is used.
const ROUNDS: usize = 5;
/// Minimum ratio of tshark's time to our time.
const BAR: f64 = 30.0;

/// The contents of the capture.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Truth {
    packets: u64,
    connections: u64,
    data: u64,
    pure_acks: u64,
    retransmissions: u64,
    payload_bytes: u64,
}

/// Builds the release binary, measures, prints the results, and fails when a count differs or the target is missed.
pub(crate) fn run(root: &Path) -> Result<ExitCode, String> {
    let ours = build(root)?;
    let scratch = Scratch::new()?;
    let capture = scratch.0.join("pages.pcapng");
    let truth = write_capture(&capture)
        .map_err(|error| format!("failed to write {}: {error}", capture.display()))?;
    let size = fs::metadata(&capture).map_or(0, |data| data.len());
    println!(
        "capture: {} packets of {} connections, {} MB",
        truth.packets,
        truth.connections,
        size / 1_000_000
    );

    let file = capture
        .to_str()
        .ok_or("the temporary folder is not UTF-8")?;
    let ours = ours.to_str().ok_or("the target folder is not UTF-8")?;
    check_ours(ours, file, truth)?;
    let programs: [(&str, Vec<&str>); 3] = [
        ("fathometer trace", vec![ours, "trace", file]),
        (
            "tshark -z io,stat",
            vec!["tshark", "-n", "-q", "-z", "io,stat,0", "-r", file],
        ),
        (
            "tshark -z conv,tcp",
            vec!["tshark", "-n", "-q", "-z", "conv,tcp", "-r", file],
        ),
    ];
    let mut best = [f64::INFINITY; 3];
    for _ in 0..ROUNDS {
        for (program, best) in programs.iter().zip(&mut best) {
            let (time, output) = timed(&program.1, &scratch.0)?;
            check_tshark(program.0, &output, truth)?;
            *best = best.min(time);
        }
    }
    println!(
        "\n{:22}{:>12}{:>16}{:>10}",
        "", "CPU, s", "packets/CPU s", "ratio"
    );
    for ((name, _), time) in programs.iter().zip(best) {
        println!(
            "{name:22}{time:>12.3}{:>16.0}{:>10.1}",
            truth.packets as f64 / time,
            time / best[0]
        );
    }
    let ratio = best[1].min(best[2]) / best[0];
    let met = ratio >= BAR;
    println!(
        "\ntarget: at least {BAR} times as fast as tshark, same counts: {} ({ratio:.1})",
        if met { "met" } else { "MISSED" }
    );
    Ok(match met {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

pub(crate) fn build(root: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--quiet", "--package", "fathometer"])
        .current_dir(root)
        .status()
        .map_err(|error| format!("failed to run cargo: {error}"))?;
    if !status.success() {
        return Err("failed to build the release binary".to_owned());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    Ok(target.join("release/fathometer"))
}

/// A folder that is removed when the bench ends.
pub(crate) struct Scratch(pub(super) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Result<Scratch, String> {
        let folder = std::env::temp_dir().join(format!("fathometer-bench-{}", std::process::id()));
        fs::create_dir_all(&folder)
            .map_err(|error| format!("failed to make {}: {error}", folder.display()))?;
        Ok(Scratch(folder))
    }
}

impl Scratch {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If removal fails, the system cleans the temporary folder.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a program; returns its CPU time in seconds and its output.
pub(super) fn timed(words: &[&str], scratch: &Path) -> Result<(f64, String), String> {
    // The shell reports the time of its children to the millisecond, user and system separately.
    let output = Command::new("bash")
        .args(["-c", "TIMEFORMAT='%U %S'; { time \"$@\" 2>\"$0\"; }"])
        .arg(scratch.join("errors"))
        .args(words)
        .env("LC_ALL", "C")
        .env("WIRESHARK_CONFIG_DIR", scratch)
        .output()
        .map_err(|error| format!("failed to run bash: {error}"))?;
    let name = words[0];
    if !output.status.success() {
        let errors = fs::read_to_string(scratch.join("errors")).unwrap_or_default();
        return Err(format!("{name} failed; is it installed? {errors}"));
    }
    let times = String::from_utf8_lossy(&output.stderr);
    let times: Option<Vec<f64>> = times.split_whitespace().map(|t| t.parse().ok()).collect();
    let times = times.ok_or_else(|| format!("cannot parse the time of {name}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((times.iter().sum(), text))
}

/// Returns the median of some measurements.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Compares our counts with the counts that were written.
fn check_ours(ours: &str, file: &str, truth: Truth) -> Result<(), String> {
    let output = Command::new(ours)
        .args(["trace", "--json", file])
        .output()
        .map_err(|error| format!("failed to run {ours}: {error}"))?;
    let value: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("the output of fathometer trace --json is not JSON: {error}"))?;
    let counted = |name: &str| value["metrics"][name].as_f64().unwrap_or(-1.0) as u64;
    let counted = Truth {
        packets: counted("packets"),
        connections: counted("connections"),
        data: counted("packets_data"),
        pure_acks: counted("packets_pure_ack"),
        retransmissions: counted("retransmissions"),
        payload_bytes: counted("payload_bytes"),
    };
    same("fathometer trace", &counted, &truth)
}

/// Compares tshark's counts with the counts that were written.
fn check_tshark(name: &str, output: &str, truth: Truth) -> Result<(), String> {
    match name {
        "tshark -z io,stat" => {
            // | 0.0 <> 99.9 | packets | bytes |
            let row = output
                .lines()
                .find(|line| line.contains("<>") && line.matches('|').count() > 2);
            let frames = row.and_then(|row| row.split('|').nth(2)?.trim().parse().ok());
            same(name, &frames.unwrap_or(0), &truth.packets)
        }
        "tshark -z conv,tcp" => {
            let rows = output.lines().filter(|line| line.contains(" <-> ")).count();
            same(name, &(rows as u64), &truth.connections)
        }
        _ => Ok(()),
    }
}

fn same<T: PartialEq + std::fmt::Debug>(name: &str, counted: &T, truth: &T) -> Result<(), String> {
    match counted == truth {
        true => Ok(()),
        false => Err(format!("{name} counts {counted:?} instead of {truth:?}")),
    }
}

/// Writes the capture: raw IPv4 on one interface, time stamps in nanoseconds.
fn write_capture(file: &Path) -> io::Result<Truth> {
    let mut writer = BufWriter::with_capacity(1 << 20, File::create(file)?);
    block(&mut writer, 0x0a0d_0d0a, &{
        let mut body = 0x1a2b_3c4du32.to_le_bytes().to_vec();
        body.extend([1, 0, 0, 0]);
        body.extend([0xff; 8]);
        body
    })?;
    // Link type raw IP, snap length, if_tsresol 9.
    let mut interface = vec![101, 0, 0, 0];
    interface.extend((KEPT as u32).to_le_bytes());
    interface.extend([9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    block(&mut writer, 1, &interface)?;

    let mut truth = Truth::default();
    let mut time = 1_500_000_000_000_000_000;
    for first in (0..CONNECTIONS).step_by(AT_ONCE as usize) {
        let mut group: Vec<Talk> = (first..CONNECTIONS.min(first + AT_ONCE))
            .map(Talk::new)
            .collect();
        while group.iter().any(|talk| !talk.over()) {
            // The connections alternate. Each connection sends a few packets in a row (a packet train), as in real
            // traffic.
            for talk in &mut group {
                for _ in 0..2 {
                    talk.turn(&mut truth, |packet| {
                        time += 3_000;
                        put(&mut writer, time, &packet)
                    })?;
                }
            }
        }
    }
    truth.connections = u64::from(CONNECTIONS);
    writer.flush()?;
    Ok(truth)
}

/// A connection that is being written.
struct Talk {
    number: u32,
    step: u32,
    client_next: u32,
    server_next: u32,
}

/// A packet before it is encoded.
struct Packet {
    up: bool,
    flags: u8,
    sequence: u32,
    acknowledgement: u32,
    payload: u16,
    number: u32,
}

impl Talk {
    const OPENING: u32 = 4;

    fn new(number: u32) -> Talk {
        // Pseudo-random sequence numbers, some of which wrap.
        let mixed = number.wrapping_mul(0x9e37_79b9);
        Talk {
            number,
            step: 0,
            client_next: mixed,
            server_next: !mixed,
        }
    }

    fn over(&self) -> bool {
        self.step > Talk::OPENING + SEGMENTS
    }

    /// Sends the next packets of the connection, and counts them.
    fn turn(
        &mut self,
        truth: &mut Truth,
        mut send: impl FnMut(Packet) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.over() {
            return Ok(());
        }
        let step = self.step;
        self.step += 1;
        let mut put = |talk: &mut Talk, up: bool, flags: u8, payload: u16| {
            truth.packets += 1;
            truth.payload_bytes += u64::from(payload);
            truth.data += u64::from(payload > 0);
            truth.pure_acks += u64::from(payload == 0 && flags == 0x10);
            let (next, other) = match up {
                true => (&mut talk.client_next, talk.server_next),
                false => (&mut talk.server_next, talk.client_next),
            };
            let sequence = *next;
            let length = u32::from(payload) + u32::from(flags & 3 != 0);
            *next = next.wrapping_add(length);
            send(Packet {
                up,
                flags,
                sequence,
                acknowledgement: if flags == 2 { 0 } else { other },
                payload,
                number: talk.number,
            })
        };
        match step {
            0 => put(self, true, 0x02, 0),
            1 => put(self, false, 0x12, 0),
            2 => put(self, true, 0x10, 0),
            3 => put(self, true, 0x18, 300),
            step if step < Talk::OPENING + SEGMENTS => {
                put(self, false, 0x10, 1_448)?;
                if self.number.is_multiple_of(8) && step == 10 {
                    // Retransmitted, because its acknowledgement is slow to arrive.
                    self.server_next = self.server_next.wrapping_sub(1_448);
                    put(self, false, 0x10, 1_448)?;
                    truth.retransmissions += 1;
                }
                put(self, true, 0x10, 0)
            }
            _ => {
                put(self, false, 0x11, 0)?;
                put(self, true, 0x11, 0)?;
                put(self, false, 0x10, 0)
            }
        }
    }
}

fn put(writer: &mut impl Write, time: u64, packet: &Packet) -> io::Result<()> {
    let length = 52 + packet.payload;
    let kept = KEPT.min(usize::from(length));
    let mut body = Vec::with_capacity(KEPT + 24);
    body.extend(0u32.to_le_bytes());
    body.extend(((time >> 32) as u32).to_le_bytes());
    body.extend((time as u32).to_le_bytes());
    body.extend((kept as u32).to_le_bytes());
    body.extend(u32::from(length).to_le_bytes());
    let [_, high, middle, low] = (packet.number / 50_000 + (10 << 16)).to_be_bytes();
    let client = [10, high, middle, low.wrapping_add(1)];
    let port = (10_000 + packet.number % 50_000) as u16;
    let ends = [(client, port), ([10, 99, 0, 1], 80)];
    let (source, destination) = match packet.up {
        true => (ends[0], ends[1]),
        false => (ends[1], ends[0]),
    };
    body.extend([0x45, 0]);
    body.extend(length.to_be_bytes());
    body.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    body.extend(source.0);
    body.extend(destination.0);
    body.extend(source.1.to_be_bytes());
    body.extend(destination.1.to_be_bytes());
    body.extend(packet.sequence.to_be_bytes());
    body.extend(packet.acknowledgement.to_be_bytes());
    body.extend([0x80, packet.flags, 0x80, 0, 0, 0, 0, 0]);
    // TCP time stamps, as in nearly every segment today.
    body.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1]);
    body.resize(20 + kept, 0);
    block(writer, 6, &body)
}

fn block(writer: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let padding = body.len().next_multiple_of(4) - body.len();
    let length = ((body.len() + padding + 12) as u32).to_le_bytes();
    writer.write_all(&kind.to_le_bytes())?;
    writer.write_all(&length)?;
    writer.write_all(body)?;
    writer.write_all(&[0; 3][..padding])?;
    writer.write_all(&length)
}
