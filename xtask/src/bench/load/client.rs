//! The clients of the bench, and the parsers of their output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::place::{Place, installed};
use super::samples::{self, Samples, without_correction};

/// Connections that each client opens.
pub(super) const CONNECTIONS: u32 = 64;
/// Connections, and streams on each, of each HTTP/2 client.
const HTTP2: (u32, u32) = (16, 16);
/// A load generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    /// `fathometer load`.
    Ours {
        /// Requests in flight on each connection.
        pipeline: u32,
    },
    Wrk,
    Wrk2,
    /// A loop in C that calls epoll, send and recv for one request.
    Bare,
    H2load {
        /// Requests in flight on each connection.
        pipeline: u32,
    },
    Ab,
    Oha,
    /// `fathometer load` over TLS, HTTP/2.
    OursHttp2,
    /// h2load over TLS, HTTP/2.
    H2loadHttp2,
    /// `fathometer load`, HTTP/3.
    OursHttp3,
    /// A loop on quic-go's client, HTTP/3.
    QuicGo,
}

/// The cost of one run of a client.
#[derive(Debug, Clone, Default)]
pub(super) struct Cost {
    /// CPU time (user and system) in seconds.
    pub(super) cpu: f64,
    /// Wall time in seconds.
    pub(super) seconds: f64,
    /// The number of exchanges that the client reports; 0 if it reports none.
    pub(super) exchanges: u64,
    /// The latencies in seconds at [`samples::QUANTILES`] that the client reports; `None` if it reports none, or if
    /// none were requested.
    pub(super) latency: Option<[f64; 4]>,
}

impl Client {
    pub(super) fn name(self) -> String {
        match self {
            Client::Ours { pipeline: 1 } => "fathometer load".to_owned(),
            Client::Ours { pipeline } => format!("fathometer load, pipelined x{pipeline}"),
            Client::Wrk => "wrk".to_owned(),
            Client::Wrk2 => "wrk2".to_owned(),
            Client::Bare => "bare loop of epoll, send, recv in C".to_owned(),
            Client::H2load { pipeline: 1 } => "h2load --h1".to_owned(),
            Client::H2load { pipeline } => format!("h2load --h1 -m{pipeline}"),
            Client::Ab => "ab -k".to_owned(),
            Client::Oha => "oha".to_owned(),
            Client::OursHttp2 => "fathometer load, HTTP/2".to_owned(),
            Client::H2loadHttp2 => "h2load, HTTP/2".to_owned(),
            Client::OursHttp3 => "fathometer load, HTTP/3".to_owned(),
            Client::QuicGo => "quic-go, HTTP/3".to_owned(),
        }
    }

    /// Runs the client; `None` when it is not installed.
    pub(super) fn run(
        self,
        place: &Place,
        url: &str,
        seconds: u32,
    ) -> Result<Option<Cost>, String> {
        self.start(place, url, seconds, false)
    }

    /// Same as [`run`](Self::run), but also requests the latencies that the client measured. This may increase the
    /// client's CPU time.
    pub(super) fn run_timed(
        self,
        place: &Place,
        url: &str,
        seconds: u32,
    ) -> Result<Option<Cost>, String> {
        self.start(place, url, seconds, true)
    }

    fn start(
        self,
        place: &Place,
        url: &str,
        seconds: u32,
        is_timed: bool,
    ) -> Result<Option<Cost>, String> {
        let Some(words) = self.words(place, url, seconds, is_timed) else {
            return Ok(None);
        };
        let log = place.folder.join("requests.log");
        // h2load appends to an existing file.
        let _ = fs::remove_file(&log);
        let printed = place.folder.join("printed");
        // The shell reports the time of its children to the millisecond; taskset execs the client.
        let script = "TIMEFORMAT='%U %S %R'; file=$1; shift; \
                      { time taskset -c \"$0\" \"$@\" >\"$file\" 2>\"$file.err\"; }";
        let output = Command::new("bash")
            .args(["-c", script, &place.processor.to_string()])
            .arg(&printed)
            .args(&words)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("failed to run bash: {error}"))?;
        if place.interrupt.is_raised() {
            return Err("interrupted".to_owned());
        }
        let text = fs::read_to_string(&printed).unwrap_or_default();
        // Exit code 3: measured, but the generator was at its limit, so its latencies are invalid.
        if !matches!(output.status.code(), Some(0 | 3)) {
            let errors = fs::read_to_string(printed.with_extension("err")).unwrap_or_default();
            return Err(format!("{} failed: {errors}{text}", self.name()));
        }
        let times = String::from_utf8_lossy(&output.stderr);
        let times: Vec<f64> = times
            .split_whitespace()
            .filter_map(|time| time.parse().ok())
            .collect();
        let [user, system, wall] = times[..] else {
            return Err(format!("the time of {} cannot be read", self.name()));
        };
        Ok(Some(Cost {
            cpu: user + system,
            seconds: wall,
            exchanges: self.exchanges(&text).unwrap_or(0),
            latency: match is_timed {
                true => self.latency(&text, &log),
                false => None,
            },
        }))
    }

    /// Returns the command line of the client; `None` when it is not installed.
    fn words(self, place: &Place, url: &str, seconds: u32, is_timed: bool) -> Option<Vec<String>> {
        let program = match self {
            Client::Ours { .. } | Client::OursHttp2 | Client::OursHttp3 => {
                place.ours.display().to_string()
            }
            Client::QuicGo => place.quic_go.as_ref()?.display().to_string(),
            Client::Bare => place.bare.as_ref()?.display().to_string(),
            Client::Wrk => installed("wrk")?,
            Client::Wrk2 => installed("wrk2")?,
            Client::H2load { .. } | Client::H2loadHttp2 => installed("h2load")?,
            Client::Ab => installed("ab")?,
            Client::Oha => installed("oha")?,
        };
        let log = place.folder.join("requests.log").display().to_string();
        let rest = match self {
            Client::Ours { pipeline } => {
                let policy = match pipeline {
                    1 => "h1.1".to_owned(),
                    n => format!("h1.1-pipeline{n}"),
                };
                format!(
                    "load {url} -c {CONNECTIONS} -d {seconds}s --threads 1 --policy {policy} --json"
                )
            }
            Client::Wrk => {
                let script = match is_timed {
                    true => format!("-s {} ", write_script(&place.folder).ok()?),
                    false => String::new(),
                };
                format!("-t1 -c{CONNECTIONS} -d{seconds}s --latency {script}{url}")
            }
            Client::Bare => {
                let (address, target) = url.strip_prefix("http://")?.split_once('/')?;
                let (address, port) = address.rsplit_once(':')?;
                format!("{CONNECTIONS} {seconds} {address} {port} /{target}")
            }
            // A rate above wrk2's capacity: wrk2 sends as fast as it can.
            Client::Wrk2 => format!("-t1 -c{CONNECTIONS} -d{seconds}s -R 1000000 {url}"),
            Client::H2load { pipeline } => {
                // h2load prints no median; its log contains every request.
                let log = match is_timed {
                    true => format!("--log-file={log} "),
                    false => String::new(),
                };
                format!("{log}--h1 -t1 -c{CONNECTIONS} -m{pipeline} -D {seconds} {url}")
            }
            // In ab, `-t` also sets a number of requests, so it must precede `-n`.
            Client::Ab => format!("-q -k -c {CONNECTIONS} -t {seconds} -n 100000000 {url}"),
            Client::Oha => format!("--no-tui -c {CONNECTIONS} -z {seconds}s {url}"),
            Client::OursHttp2 => format!(
                "load {url} -c {} -m {} -d {seconds}s --threads 1 --policy h2 --insecure --json",
                HTTP2.0, HTTP2.1
            ),
            Client::H2loadHttp2 => {
                format!("-t1 -c{} -m{} -D {seconds} {url}", HTTP2.0, HTTP2.1)
            }
            Client::OursHttp3 => format!(
                "load {url} -c {} -m {} -d {seconds}s --threads 1 --policy h3 --insecure --json",
                HTTP2.0, HTTP2.1
            ),
            Client::QuicGo => format!("{} {} {seconds} {url}", HTTP2.0, HTTP2.1),
        };
        let rest = rest.split(' ').map(str::to_owned);
        Some(std::iter::once(program).chain(rest).collect())
    }

    /// Returns the number of completed exchanges that the client reports; only for clients that are used to measure
    /// servers.
    fn exchanges(self, text: &str) -> Option<u64> {
        match self {
            Client::Ours { .. } | Client::OursHttp2 | Client::OursHttp3 => {
                // CPU time includes the warm-up, so the exchanges must include it too.
                let json = json_of(text)?;
                let completed = |window: &str| json[window]["counts"]["completed"].as_u64();
                let others = ["warm_up", "drain"].into_iter().filter_map(completed);
                Some(completed("measured")? + others.sum::<u64>())
            }
            Client::Wrk => {
                let line = text.lines().find(|line| line.contains(" requests in "))?;
                line.split_whitespace().next()?.parse().ok()
            }
            Client::QuicGo | Client::Bare => text.trim().parse().ok(),
            Client::H2loadHttp2 => {
                // requests: 10 total, 10 started, 10 done, 10 succeeded, …
                let line = text.lines().find(|line| line.starts_with("requests: "))?;
                let succeeded = line
                    .split(", ")
                    .find_map(|part| part.strip_suffix(" succeeded"));
                succeeded?.parse().ok()
            }
            _ => None,
        }
    }

    /// Returns the latency in seconds that the client reports, at [`samples::QUANTILES`].
    fn latency(self, text: &str, log: &Path) -> Option<[f64; 4]> {
        let micros = match self {
            Client::Ours { .. } => {
                let json = json_of(text)?;
                let phase = &json["measured"]["phases"]["uncorrected"];
                let at = |name: &str| phase[name].as_f64().map(|millis| millis / 1e3);
                return Some([at("p50_ms")?, at("p90_ms")?, at("p99_ms")?, at("p99_9_ms")?]);
            }
            Client::Wrk => {
                let mut samples = Samples::new();
                let mut expected = None;
                for line in text.lines() {
                    let words: Vec<&str> = line.split_whitespace().collect();
                    match words[..] {
                        ["sample", value, count] => {
                            samples.insert(value.parse().ok()?, count.parse().ok()?);
                        }
                        // The duration in microseconds, and the number of requests. wrk's expected interval is the mean
                        // time between the exchanges of a connection.
                        ["expected", time, requests] => {
                            let time: u64 = time.parse().ok()?;
                            let requests: u64 = requests.parse().ok()?;
                            expected = time.checked_div(requests / u64::from(CONNECTIONS));
                        }
                        _ => {}
                    }
                }
                without_correction(&samples, expected?)
            }
            Client::H2load { .. } => {
                // Start, status and microseconds of each request.
                let log = fs::read_to_string(log).ok()?;
                let times = log
                    .lines()
                    .filter_map(|line| line.split_whitespace().nth(2)?.parse().ok());
                let mut samples = Samples::new();
                for time in times {
                    *samples.entry(time).or_default() += 1;
                }
                samples
            }
            _ => return None,
        };
        samples::quantiles(&micros).map(|results| results.map(|micros| micros / 1e6))
    }
}

fn json_of(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

/// Writes a script that makes wrk print all latencies in its histogram, and the figures that are needed to
/// remove the samples that wrk adds. Returns the path of the script.
fn write_script(folder: &Path) -> std::io::Result<String> {
    let file = folder.join("latencies.lua");
    let script = "done = function(summary, latency, requests)\n\
                  io.write(string.format(\"expected %d %d\\n\", summary.duration, summary.requests))\n\
                  for i = 1, #latency do\n\
                  local value, count = latency(i)\n\
                  io.write(string.format(\"sample %d %d\\n\", value, count))\n\
                  end\nend\n";
    fs::write(&file, script)?;
    Ok(file.display().to_string())
}

/// Builds the bare loop in `folder`; `None` without a C compiler.
pub(super) fn build_bare_loop(root: &Path, folder: &Path) -> Option<PathBuf> {
    let program = folder.join("bare-loop");
    let built = Command::new(installed("cc")?)
        .args(["-O2", "-o"])
        .arg(&program)
        .arg(root.join("xtask/src/bench/load/bare_loop.c"))
        .status();
    built
        .is_ok_and(|status| status.success())
        .then_some(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wrk_says_is_read() {
        let text = "  Latency Distribution\n     50%    1.05ms\n     75%    1.20ms\n\
                    \x20 43210 requests in 3.00s, 51.2MB read\nexpected 64000 6400\n\
                    sample 600 60\nsample 800 2\nsample 1440 2\n";
        assert_eq!(Client::Wrk.exchanges(text), Some(43_210));
        // Each connection has one exchange per 640 µs. wrk has therefore added a sample of 800 µs for each latency of
        // 1440 µs.
        let results = Client::Wrk.latency(text, Path::new("/none")).unwrap();
        assert_eq!(results, [600e-6, 600e-6, 1440e-6, 1440e-6]);
        assert_eq!(Client::Wrk.latency("sample 1 1", Path::new("/none")), None);
    }

    #[test]
    fn what_h2load_says_is_read() {
        let text = "finished in 3.00s, 14.40 req/s, 1.2KB/s\nrequests: 4500 total, 4510 started, \
                    4321 done, 4320 succeeded, 1 failed, 0 errored, 0 timeout\n";
        assert_eq!(Client::H2loadHttp2.exchanges(text), Some(4320));
        assert_eq!(Client::H2loadHttp2.exchanges(""), None);
    }

    #[test]
    fn what_quic_go_says_is_read() {
        assert_eq!(Client::QuicGo.exchanges("4321\n"), Some(4321));
        assert_eq!(Client::QuicGo.exchanges("panic"), None);
        assert_eq!(Client::Bare.exchanges("4321\n"), Some(4321));
    }

    #[test]
    fn what_we_say_is_read() {
        let text = "{\"warm_up\": {\"counts\": {\"completed\": 5}}, \"drain\": null, \"measured\": \
                    {\"counts\": {\"completed\": 70}, \"phases\": {\"uncorrected\": \
                    {\"p50_ms\": 2.5, \"p90_ms\": 3, \"p99_ms\": 4, \"p99_9_ms\": 5}}}}";
        let ours = Client::Ours { pipeline: 1 };
        assert_eq!(ours.exchanges(text), Some(75));
        let results = ours.latency(text, Path::new("/none"));
        assert_eq!(results, Some([2.5e-3, 3e-3, 4e-3, 5e-3]));
        assert_eq!(ours.exchanges("usage"), None);
    }

    #[test]
    fn the_percentiles_of_h2load_are_those_of_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        fs::write(&log, "1700\t200\t900\n1701\t200\t1100\n1702\t200\t1000\n").unwrap();
        let client = Client::H2load { pipeline: 1 };
        let results = client.latency("", &log).unwrap();
        assert_eq!(results, [1e-3, 1.1e-3, 1.1e-3, 1.1e-3]);
        assert_eq!(client.latency("", Path::new("/none")), None);
    }
}
