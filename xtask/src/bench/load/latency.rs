//! Checks the latencies that clients report for a saturated server: they must agree with each other and with the
//! server's own clock.
//!
//! All clients measure latency from just before the call that sends a request to the end of its response. Known
//! differences between their reports are removed:
//! - wrk adds samples that it did not measure. For each latency of more than twice the mean time between a
//!   connection's exchanges, it counts the latencies of the requests that it did not send meanwhile. It computes
//!   these samples from the latency alone, so they can be removed exactly
//!   ([`without_correction`](super::samples::without_correction)). wrk's figures here contain only its
//!   measurements.
//! - h2load prints no percentiles; they are computed from its log of all requests.
//! - A server that reports the time of a request (nginx's `$request_time`) counts from when it reads the request, in
//!   milliseconds. A saturated server reads a request long after its arrival. Therefore the server's clock here is the
//!   kernel's clock at the server's interface: a capture shows when each request arrived there and when the last packet
//!   of its response left. The capturing program takes CPU time from server and clients, so the kernel passes only
//!   every fourth exchange of each connection to this program ([`Sampling`]). A capture is used when it lost no packet
//!   and contains a fourth of the exchanges that nginx counted.
//!
//! A client that is slower than the server measures its own queue. nginx therefore opens the file for every request
//! here. Still, every client that reads many responses in a row reads the last response late. Therefore there are two
//! servers: one serves a file, and clients are busy most of the time. The other serves a page that takes several times
//! as much CPU time on the server as on a client, and clients wait most of the time. Both have the same target.
//!
//! In a closed loop the clients determine the load. A client that writes many requests in a row, as wrk does, wakes the
//! server less often. The server then completes more requests, and the true latencies differ, by a tenth on some
//! machines. Therefore the figures of clients that run one after another are reported, not judged. The benchmark
//! divides each client's report by the capture of the same run. It judges our ratio, and our ratio divided by each
//! peer's ratio. Differences between two runs then cancel. The median over rounds is judged by its 95 % interval from
//! order statistics. The target is met if the whole interval is within the limit, and missed if the whole interval is
//! outside the limit. Otherwise more rounds run. After the last round the result is undecided, which counts as not met.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::super::trace::median;
use super::client::{CONNECTIONS, Client};
use super::held_back;
use super::place::{Place, installed};
use super::samples::{Samples, quantiles};
use super::server::{self, Server, Tuning};
use super::{FILE, Judgement, SECONDS, SIZE};

const NAMES: [&str; 4] = ["p50", "p90", "p99", "p99.9"];
/// Largest relative difference of percentiles.
const AGREEMENT: f64 = 0.03;
/// Minimum number of rounds, and maximum number of rounds while the result is undecided.
const ROUNDS: (usize, usize) = (9, 25);
/// Seconds that a capture lasts: the run of a client, the time to start it, and the time to write the last
/// packets.
const CAPTURED: u32 = SECONDS + 3;
/// Least share of the sampled exchanges that a capture must contain: exchanges at its end may lack an answer.
const HELD: f64 = 0.99;
/// Bytes captured of each packet: the headers.
const KEPT: &str = "96";
const CLIENTS: [Client; 3] = [
    Client::Ours { pipeline: 1 },
    Client::Wrk,
    Client::H2load { pipeline: 1 },
];

/// Ratios of two figures minus 1, one per round.
#[derive(Default)]
struct Ratios(Vec<f64>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Met,
    Missed,
    Undecided,
}

impl Ratios {
    /// The 95 % interval of the median, from order statistics, for any distribution.
    fn interval(&self) -> Option<(f64, f64)> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        // The probability that at most this number of n fair coins show heads (binomial distribution).
        let (mut term, mut below, mut rank) = (0.5_f64.powi(n as i32), 0.0, 0);
        while rank < n / 2 && below + term <= 0.025 {
            below += term;
            term *= (n - rank) as f64 / (rank + 1) as f64;
            rank += 1;
        }
        let least = rank.checked_sub(1)?;
        Some((sorted[least], sorted[n - 1 - least]))
    }

    fn verdict(&self) -> Verdict {
        match self.interval() {
            Some((low, high)) if low >= -AGREEMENT && high <= AGREEMENT => Verdict::Met,
            Some((low, high)) if low > AGREEMENT || high < -AGREEMENT => Verdict::Missed,
            _ => Verdict::Undecided,
        }
    }
}

/// One comparison of two sources: its name, and the ratios of each percentile.
struct Comparison {
    name: String,
    /// Whether the comparison has a target; otherwise it is only reported.
    is_judged: bool,
    ratios: [Ratios; 4],
}

impl Comparison {
    fn new(name: String, is_judged: bool) -> Comparison {
        Comparison {
            name,
            is_judged,
            ratios: Default::default(),
        }
    }

    fn add(&mut self, ours: [f64; 4], peer: [f64; 4]) {
        for ((ratios, ours), peer) in self.ratios.iter_mut().zip(ours).zip(peer) {
            ratios.0.push(ours / peer - 1.0);
        }
    }

    fn is_there(&self) -> bool {
        !self.ratios[0].0.is_empty()
    }

    fn is_decided(&self) -> bool {
        let decided = |ratios: &Ratios| ratios.verdict() != Verdict::Undecided;
        !self.is_judged || !self.is_there() || self.ratios.iter().all(decided)
    }
}

/// A saturated server: its name in the results, and the page that nginx serves.
struct Saturated {
    key: &'static str,
    name: &'static str,
    file: &'static str,
}

const SATURATED: [Saturated; 2] = [
    Saturated {
        key: "of_a_file",
        name: "a file; clients are busy most of the time",
        file: FILE,
    },
    Saturated {
        key: "of_includes",
        name: "a page of server-side includes; clients wait most of the time",
        file: server::PAGE_OF_INCLUDES,
    },
];

/// Measures, prints the results and judges them.
pub(super) fn measure(place: &Place, processor: usize) -> Result<Judgement, String> {
    let (mut is_met, held_back) = held_back::compare(place, processor)?;
    let mut results = serde_json::Map::new();
    results.insert("held_back".to_owned(), held_back);
    for saturated in &SATURATED {
        let (is_this_met, figures) = measure_one(place, processor, saturated)?;
        is_met &= is_this_met;
        results.insert(saturated.key.to_owned(), figures);
    }
    Ok((is_met, results.into()))
}

fn measure_one(
    place: &Place,
    processor: usize,
    saturated: &Saturated,
) -> Result<Judgement, String> {
    server::write_site(&place.folder, &[(FILE, SIZE)])?;
    server::write_page_of_includes(&place.folder)?;
    let nginx = Server::nginx(&place.folder, processor, Tuning::None)?;
    let url = nginx.url(saturated.file);
    let mut alone: Vec<Comparison> = CLIENTS[1..]
        .iter()
        .map(|peer| Comparison::new(format!("of {}, in turns", peer.name()), false))
        .collect();
    let mut beside: Vec<Comparison> = CLIENTS[1..]
        .iter()
        .map(|peer| {
            Comparison::new(
                format!("of {}, each by the server's clock", peer.name()),
                true,
            )
        })
        .collect();
    let mut captured: Vec<Comparison> = CLIENTS
        .iter()
        .enumerate()
        .map(|(place, client)| {
            let name = format!("{}, of the server's clock", client.name());
            Comparison::new(name, place == 0)
        })
        .collect();
    let mut lost = 0;
    let mut sampling = [None; CLIENTS.len()];
    for (client, sampling) in CLIENTS.into_iter().zip(&mut sampling) {
        let Some(capture) = Capture::start(&place.folder, nginx.address(), None)? else {
            continue;
        };
        client.run_timed(place, &url, 1)?;
        *sampling = capture.sampling()?;
    }
    for round in 0..ROUNDS.1 {
        let is_decided = beside.iter().chain(&captured).all(Comparison::is_decided);
        if round >= ROUNDS.0 && is_decided {
            break;
        }
        let mut results = Vec::new();
        for client in CLIENTS {
            let cost = client.run_timed(place, &url, SECONDS)?;
            results.push(cost.and_then(|cost| cost.latency));
        }
        let ours = results[0].ok_or("fathometer load reports no percentiles")?;
        for (comparison, peer) in alone.iter_mut().zip(&results[1..]) {
            if let Some(peer) = peer {
                comparison.add(ours, *peer);
            }
        }
        let mut by_clock = [None; CLIENTS.len()];
        for (((client, comparison), by_clock), sampling) in CLIENTS
            .into_iter()
            .zip(&mut captured)
            .zip(&mut by_clock)
            .zip(sampling)
        {
            if sampling.is_none() {
                continue;
            }
            let Some(capture) = Capture::start(&place.folder, nginx.address(), sampling)? else {
                continue;
            };
            let before = nginx.requests()?;
            let cost = client.run_timed(place, &url, SECONDS)?;
            let served = nginx.requests()?.saturating_sub(before + 1);
            let Some(of_client) = cost.and_then(|cost| cost.latency) else {
                continue;
            };
            // The last sampled exchange of a connection has no request after it that shows its end.
            let held = |samples: &Samples| {
                let ended = samples.values().sum::<u64>() + u64::from(CONNECTIONS);
                ended as f64 * f64::from(EVERY)
            };
            let samples = capture.finish()?;
            let samples = samples.filter(|samples| held(samples) >= HELD * served as f64);
            let Some(of_wire) = samples.as_ref().and_then(quantiles) else {
                lost += 1;
                continue;
            };
            let of_wire = of_wire.map(|nanos| nanos / 1e9);
            comparison.add(of_client, of_wire);
            *by_clock = Some(std::array::from_fn(|n| of_client[n] / of_wire[n]));
        }
        if let Some(ours) = by_clock[0] {
            for (comparison, peer) in beside.iter_mut().zip(&by_clock[1..]) {
                if let Some(peer) = peer {
                    comparison.add(ours, *peer);
                }
            }
        }
    }
    captured.extend(beside);
    println!("\nserver: nginx, {}", saturated.name);
    Ok(judged(&alone, &captured, lost))
}

fn judged(alone: &[Comparison], captured: &[Comparison], lost: usize) -> Judgement {
    println!(
        "\nlatency of a saturated server, 64 connections: ratio to the peer's percentile, less 1, in %, with the 95 % \
         interval of the median over rounds; target ±{:.0} %",
        100.0 * AGREEMENT
    );
    println!(
        "wrk's figures without the samples that it adds; h2load's from its log of requests; the server's clock is \
         the time of packets on its interface"
    );
    let mut is_met = true;
    let mut results = Vec::new();
    for comparison in alone.iter().chain(captured) {
        let Comparison {
            name,
            is_judged,
            ratios,
        } = comparison;
        if !comparison.is_there() {
            println!(
                "{name:44}  not measured: the client or dumpcap is not installed, or captures are not allowed"
            );
            // A target without measurements is not met.
            is_met &= !is_judged;
            results.push(json!({ "of": name, "met": null }));
            continue;
        }
        for (quantile, ratios) in NAMES.iter().zip(ratios) {
            let verdict = ratios.verdict();
            is_met &= !is_judged || verdict == Verdict::Met;
            let middle = median(ratios.0.clone());
            let interval = ratios.interval().map_or_else(
                || "no interval".to_owned(),
                |(low, high)| format!("{:.1} to {:.1}", 100.0 * low, 100.0 * high),
            );
            println!(
                "{name:44}{quantile:>6}{:>8.1}{:>18}{:>4} rounds  {}",
                100.0 * middle,
                interval,
                ratios.0.len(),
                match (is_judged, verdict) {
                    (false, _) => "not judged",
                    (true, Verdict::Met) => "met",
                    (true, Verdict::Missed) => "MISSED",
                    (true, Verdict::Undecided) => "UNDECIDED, so not met",
                }
            );
            results.push(json!({
                "of": name,
                "percentile": quantile,
                "apart": ratios.0,
                "median": middle,
                "interval": ratios.interval(),
                "bar": is_judged.then_some(AGREEMENT),
                "met": is_judged.then_some(verdict == Verdict::Met),
            }));
        }
    }
    if lost > 0 {
        println!("{lost} captures lost packets or exchanges, and are not used");
    }
    let results = json!({ "agreement": results, "captures_lost": lost, "met": is_met });
    (is_met, results)
}

/// One of this number of exchanges is captured; a power of two.
const EVERY: u32 = 4;

/// Selects the exchanges of a connection that are captured. If all requests have the same length, the sequence
/// number of a request divided by that length is the request's number in its connection. The acknowledgement number
/// of each packet of the response, divided by the same length, is the next number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sampling {
    request_bytes: u32,
}

impl Sampling {
    /// Returns the capture filter (pcap-filter(7)) of every fourth request to a port and of its response.
    fn filter(self, port: u16) -> String {
        let (bytes, mask) = (self.request_bytes, EVERY - 1);
        format!(
            "(tcp dst port {port} and tcp[4:4] / {bytes} & {mask} = 0) or \
             (tcp src port {port} and tcp[8:4] / {bytes} & {mask} = 1)"
        )
    }
}

/// A running capture of the server's interface.
struct Capture {
    child: Child,
    messages: BufReader<std::process::ChildStderr>,
    file: std::path::PathBuf,
    server: SocketAddr,
}

impl Capture {
    /// Starts a capture that stops by itself, of all exchanges or of a sample; `None` when capturing is not
    /// possible.
    fn start(
        folder: &Path,
        server: SocketAddr,
        sampling: Option<Sampling>,
    ) -> Result<Option<Capture>, String> {
        let Some(program) = installed("dumpcap") else {
            return Ok(None);
        };
        let file = folder.join("latency.pcap");
        let mut child = Command::new(program)
            .args(["-i", "lo", "-P", "-s", KEPT, "-B", "256", "-f"])
            .arg(sampling.map_or_else(
                || format!("tcp port {}", server.port()),
                |sampling| sampling.filter(server.port()),
            ))
            .args(["-a", &format!("duration:{CAPTURED}"), "-w"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("failed to run dumpcap: {error}"))?;
        let mut messages = BufReader::new(child.stderr.take().ok_or("dumpcap has no stderr")?);
        let mut line = String::new();
        // dumpcap prints the name of its file when the capture starts. Without permission, it exits without this line.
        while !line.starts_with("File: ") {
            line.clear();
            if messages.read_line(&mut line).unwrap_or(0) == 0 {
                let _ = child.wait();
                return Ok(None);
            }
        }
        Ok(Some(Capture {
            child,
            messages,
            file,
            server,
        }))
    }

    /// Waits for the end of the capture. Returns the sampling for exchanges with the lengths of the captured exchanges;
    /// `None` if no exchange was captured.
    fn sampling(self) -> Result<Option<Sampling>, String> {
        let (port, file) = (self.server.port(), self.file.clone());
        if self.finish()?.is_none() {
            return Ok(None);
        }
        let bytes = fs::read(&file)
            .map_err(|error| format!("failed to read {}: {error}", file.display()))?;
        let mut sampling = None;
        packets(&bytes, |_, packet| {
            if packet.to == port && packet.payload > 0 {
                sampling = sampling.or(Some(Sampling {
                    request_bytes: packet.payload as u32,
                }));
            }
        })?;
        Ok(sampling)
    }

    /// Waits for the end of the capture. Returns its latencies in nanoseconds, or `None` if packets were lost.
    fn finish(mut self) -> Result<Option<Samples>, String> {
        let mut text = String::new();
        while self.messages.read_line(&mut text).unwrap_or(0) > 0 {}
        let _ = self.child.wait();
        if !kept_all(&text) {
            return Ok(None);
        }
        let bytes = fs::read(&self.file)
            .map_err(|error| format!("failed to read {}: {error}", self.file.display()))?;
        exchanges(&bytes, self.server.port()).map(Some)
    }
}

/// Whether dumpcap reports no loss: `Packets received/dropped on interface 'Loopback: lo': 8/0 (…`.
fn kept_all(messages: &str) -> bool {
    let counts = messages
        .lines()
        .find_map(|line| line.strip_prefix("Packets received/dropped on interface "))
        .and_then(|line| line.rsplit_once("': "))
        .and_then(|(_, counts)| counts.split([' ', '\n']).next()?.split_once('/'));
    counts.is_some_and(|(_, dropped)| dropped == "0")
}

/// Returns the latency of each exchange in a capture: from the packet with its request to the last packet of its
/// response.
fn exchanges(bytes: &[u8], port: u16) -> Result<Samples, String> {
    let mut samples = Samples::new();
    // For each connection, by client port: time of its request, and time of the last packet of the response.
    let mut open: HashMap<u16, (u64, Option<u64>)> = HashMap::new();
    packets(bytes, |time, packet| {
        if packet.payload == 0 {
            return;
        }
        if packet.to == port {
            if let Some((begun, Some(ended))) = open.insert(packet.from, (time, None)) {
                *samples.entry(ended.saturating_sub(begun)).or_default() += 1;
            }
        } else if let Some((_, ended)) = open.get_mut(&packet.to) {
            *ended = Some(time);
        }
    })?;
    Ok(samples)
}

/// Passes each TCP packet of a capture (pcap format, Ethernet, IPv4) to `each`, with its time in nanoseconds.
fn packets(bytes: &[u8], mut each: impl FnMut(u64, Packet)) -> Result<(), String> {
    let word = |at: usize| -> Option<u32> {
        let word = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(word.try_into().ok()?))
    };
    let unit = match word(0) {
        Some(0xa1b2_c3d4) => 1_000,
        Some(0xa1b2_3c4d) => 1,
        _ => return Err("dumpcap wrote no pcap file of this machine's byte order".to_owned()),
    };
    let mut at = 24;
    while let (Some(seconds), Some(fraction), Some(kept)) = (word(at), word(at + 4), word(at + 8)) {
        let time = u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * unit;
        let packet = bytes.get(at + 16..at + 16 + kept as usize);
        at += 16 + kept as usize;
        if let Some(packet) = packet.and_then(Packet::read) {
            each(time, packet);
        }
    }
    Ok(())
}

struct Packet {
    from: u16,
    to: u16,
    payload: usize,
}

impl Packet {
    /// Reads the needed fields of Ethernet, IPv4 (RFC 791) and TCP (RFC 9293).
    fn read(bytes: &[u8]) -> Option<Packet> {
        let pair = |at: usize| Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
        if pair(12)? != 0x0800 || *bytes.get(23)? != 6 {
            return None;
        }
        let head = usize::from(bytes.get(14)? & 0xf) * 4;
        let tcp = 14 + head;
        let tcp_head = usize::from(bytes.get(tcp + 12)? >> 4) * 4;
        Some(Packet {
            from: pair(tcp)?,
            to: pair(tcp + 2)?,
            payload: usize::from(pair(16)?).checked_sub(head + tcp_head)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_met_when_the_whole_interval_lies_in_it() {
        let verdict = |ratios: &[f64]| Ratios(ratios.to_vec()).verdict();
        let around = |middle: f64| -> Vec<f64> {
            let steps = (-4..=4).map(f64::from);
            steps.map(|step| middle + 0.001 * step).collect()
        };
        assert_eq!(verdict(&around(0.0)), Verdict::Met);
        assert_eq!(verdict(&around(-0.08)), Verdict::Missed);
        assert_eq!(verdict(&around(0.08)), Verdict::Missed);
        assert_eq!(verdict(&around(0.03)), Verdict::Undecided);
        // For nine rounds the interval is the second to the eighth value; the two extremes do not matter.
        let mut wild = around(0.0);
        (wild[0], wild[8]) = (-5.0, 9.0);
        assert_eq!(verdict(&wild), Verdict::Met);
        assert_eq!(Ratios(vec![0.0; 5]).interval(), None);
        assert_eq!(verdict(&[0.0; 5]), Verdict::Undecided);
    }

    #[test]
    fn a_bar_without_a_measurement_is_not_met() {
        let mut alone = Comparison::new("of wrk, each by the server's clock".to_owned(), true);
        for _ in 0..9 {
            alone.add([1.0; 4], [1.0; 4]);
        }
        let captured = Comparison::new("fathometer load, of the server's clock".to_owned(), true);
        let (met, results) = judged(&[alone], &[captured], 0);
        assert!(!met);
        assert_eq!(results["agreement"][0]["met"], true);
        assert!(results["agreement"][4]["met"].is_null());
    }

    #[test]
    fn latencies_are_read_from_a_capture() {
        let mut capture = 0xa1b2_3c4d_u32.to_le_bytes().to_vec();
        capture.resize(24, 0);
        let mut packet = |nanos: u32, from: u16, to: u16, payload: u16| {
            let mut bytes = vec![0; 12];
            bytes.extend([8, 0, 0x45, 0]);
            bytes.extend((52 + payload).to_be_bytes());
            bytes.extend([0, 0, 0, 0, 64, 6, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
            bytes.extend(from.to_be_bytes());
            bytes.extend(to.to_be_bytes());
            bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x80]);
            bytes.resize(66, 0);
            let length = bytes.len() as u32;
            for word in [1_u32, nanos, length, length + u32::from(payload)] {
                capture.extend(word.to_le_bytes());
            }
            capture.extend(bytes);
        };
        packet(1_000, 4000, 80, 0);
        packet(2_000, 4000, 80, 100);
        packet(2_500, 4001, 80, 100);
        packet(3_000, 80, 4000, 1000);
        packet(3_500, 80, 4000, 200);
        packet(3_600, 4000, 80, 0);
        packet(4_000, 4000, 80, 100);
        packet(9_000, 80, 4001, 200);
        packet(9_500, 4001, 80, 100);
        let samples = exchanges(&capture, 80).unwrap();
        assert_eq!(samples, [(1_500, 1), (6_500, 1)].into());
        assert!(exchanges(&[1, 2, 3, 4], 80).is_err());
        let messages = "Packets captured: 8\nPackets received/dropped on interface 'Loopback: lo': 8/0 (pcap:0/dumpcap:0)\n";
        assert!(kept_all(messages) && !kept_all(&messages.replace("8/0", "8/3")) && !kept_all(""));
    }
}
