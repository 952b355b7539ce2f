//! The arguments of `load`.

use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum, value_parser};
use fathometer_analysis::load::Slo;
use fathometer_http::driver::Policy;
use fathometer_load::Windows;
use fathometer_load::server_probes::Target;
use fathometer_load::workload::SEED;
use fathometer_quic_sockets::UdpOffload;

use super::output::Format;
use super::rank_arguments::RankArguments;
use super::security::SecurityArguments;
use crate::command::arguments::{factor, some_time, time};
use crate::command::compare::Limits;

/// Default number of users of a closed loop, and of connections of an open loop.
pub(super) const USERS: u32 = 50;

/// Default length of the measured window.
pub(super) const TIME: Duration = Duration::from_secs(10);

/// Default of the longest busy-wait before a planned send time.
pub(super) const SPIN: Duration = Duration::from_micros(50);

/// The largest flow-control window of HTTP/2.
const MOST_WINDOW: i64 = (1 << 31) - 1;

const EXAMPLES: &str = "Examples:
  fathometer load http://127.0.0.1:8080/                        50 users for 10 s
  fathometer load http://127.0.0.1:8080/ -c 64 -d 30s --slo 'p98<100ms,errors<0.1%'
  fathometer load http://127.0.0.1:8080/ --rate 2000 --arrivals poisson
  fathometer load http://127.0.0.1:8080/ --workload webstone -c 40 --policy h1.0 --format webstone
  fathometer load http://127.0.0.1:8080/ --workload surge --ue 200 -d 10m
  fathometer load http://127.0.0.1:8080/ -c 200 --probe $(pgrep -o nginx)
  fathometer load https://127.0.0.1:8443/ -c 16 -m 16 --insecure    16 connections, 16 streams each

Exit codes: 0 success, 1 failed, interrupted, or no exchange succeeded (each failed, or had a
status of 400 or above), 2 usage error, 3 measured but INVALID (SLOs are then inconclusive),
4 an SLO is violated, or the server stopped answering before the end.";

/// Arguments of `load`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct LoadArguments {
    /// The server: http[s]://host[:port]/path; with --workload the path is ignored
    pub(super) url: String,
    /// Number of closed-loop users, which wait for their responses; in an open loop, the maximum number of
    /// connections [default: 50]
    #[arg(short = 'c', long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(super) connections: Option<u32>,
    /// Number of users with the pauses and sessions of the workload (SURGE's user equivalents), instead of -c
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    #[arg(conflicts_with_all = ["connections", "rate"])]
    pub(super) ue: Option<u32>,
    /// Change the number of users at given times: 10@0s,50@30s sets 10 users at the start and 50 after 30 s
    #[arg(long, value_name = "STEPS", conflicts_with = "rate")]
    pub(super) steps: Option<String>,
    /// Length of the measured window [default: 10s; for --rate with durations, all of its parts; for --steps, until 10s
    /// after the last step; for a replay, until 1s after the last request]
    #[arg(short = 'd', long, value_name = "TIME", value_parser = some_time)]
    pub(super) duration: Option<Duration>,
    /// Stop after N measured requests, instead of after a duration
    #[arg(short = 'n', long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    #[arg(conflicts_with = "duration")]
    pub(super) requests: Option<u64>,
    /// Open loop: send this many requests (pages, sessions) per second, whether or not the server keeps up: a rate
    /// (1000), a ramp (100..1000) or steps (100x30s,200x30s)
    #[arg(long, value_name = "RATE")]
    pub(super) rate: Option<String>,
    /// Arrival process of an open loop [default: constant; recorded for a workload with recorded times, unless
    /// --rate or -c is given]
    #[arg(long, value_enum, value_name = "PROCESS")]
    pub(super) arrivals: Option<ArrivalsChoice>,
    /// Batch size of an open loop: requests (pages, sessions) that arrive at the same instant; the mean rate stays
    /// the same [default: 1]
    #[arg(long, value_name = "N", requires = "rate")]
    pub(super) batch: Option<NonZeroU32>,
    /// Replay speed factor for recorded times: 2 is twice as fast
    #[arg(long, value_name = "FACTOR", value_parser = factor, default_value = "1")]
    pub(super) speed: f64,
    /// Connection policy: h1.0, h1.0xN, h1.0-keepalive, h1.1, h1.1xN, h1.1-pipelineN, h1.1-early-close, h2,
    /// h2c, h2xN, h2-sharded, h3 [default: h1.1; over TLS h2 if the server supports it]
    #[arg(long)]
    pub(super) policy: Option<Policy>,
    /// Requests in flight per connection: concurrent streams of HTTP/2 and HTTP/3, pipeline depth of HTTP/1.1
    #[arg(short = 'm', long, value_name = "N", value_parser = value_parser!(u16).range(1..))]
    pub(super) max_streams: Option<u16>,
    /// Flow-control window of each HTTP/2 or HTTP/3 stream, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Windows::default().stream)]
    #[arg(value_parser = value_parser!(u32).range(0..=MOST_WINDOW))]
    pub(super) h2_window: u32,
    /// Flow-control window of each HTTP/2 or HTTP/3 connection, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = Windows::default().connection)]
    #[arg(value_parser = value_parser!(u32).range(65_535..=MOST_WINDOW))]
    pub(super) h2_connection_window: u32,
    /// UDP offloads that HTTP/3 uses: on (both), send (GSO), receive (GRO) or off
    #[arg(long, value_name = "WHICH", default_value_t = UdpOffload::On)]
    pub(super) udp_offload: UdpOffload,
    /// The workload to request: webstone, almeida-a, specweb96, today …, or webstone:FILE, wsesslog:FILE,
    /// log:FILE, har:FILE (see `fathometer list`). Files may be compressed with gzip or zstd; log:- reads
    /// standard input
    #[arg(long, value_name = "W")]
    pub(super) workload: Option<String>,
    /// Seed of the workload and of all random choices; use the same seed for the server's site
    #[arg(long, default_value_t = SEED)]
    pub(super) seed: u64,
    /// Request header field, as in 'Accept: text/html'; may be given several times
    #[arg(short = 'H', long = "header", value_name = "FIELD")]
    pub(super) headers: Vec<String>,
    /// Request method
    #[arg(short = 'X', long, default_value = "GET", conflicts_with = "workload")]
    pub(super) method: String,
    /// Request body, or @FILE to read it from a file
    #[arg(long, value_name = "TEXT", conflicts_with = "workload")]
    pub(super) body: Option<String>,
    /// Timeout of an exchange
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "30s")]
    pub(super) timeout: Duration,
    /// Timeout of a connection attempt
    #[arg(long, value_name = "TIME", value_parser = some_time, default_value = "10s")]
    pub(super) connect_timeout: Duration,
    /// Length of the warm-up before the measured window; it is excluded from the results
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0s")]
    pub(super) warmup: Duration,
    /// Longest time to wait at the end for requests in flight
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "5s")]
    pub(super) drain: Duration,
    /// Connect to this host:port instead of the URL's host
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) connect_to: Option<String>,
    /// Number of event-loop threads [default: one for every two processors]
    #[arg(short = 't', long, value_name = "N")]
    #[arg(value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(super) threads: Option<usize>,
    /// Pin each thread to its own processor
    #[arg(long)]
    pub(super) pin: bool,
    /// Longest busy-wait before a planned send time (0s: off). It is never longer than the measured wake-up latency,
    /// and it is off while threads of this machine wait for a processor
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "50us")]
    pub(super) spin: Duration,
    /// Longest time to delay a wake-up of a closed loop so that several responses are read at once (wake-up coalescing;
    /// 0s: off). It affects the results: percentiles change, and the mean latency may grow by up to 4 %
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0s", conflicts_with = "rate")]
    pub(super) rest: Duration,
    /// Close each connection after N requests
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..))]
    pub(super) max_requests_per_connection: Option<u32>,
    /// Close connections that are idle for this time [default: never]
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub(super) keep_alive: Option<Duration>,
    /// Close connections with RST instead of FIN, so that no port stays in TIME_WAIT
    #[arg(long)]
    pub(super) reset: bool,
    /// Leave Nagle's algorithm enabled (do not set TCP_NODELAY)
    #[arg(long)]
    pub(super) nagle: bool,
    /// Monitor the server during the test, if it runs on this machine: a process ID or a systemd unit
    /// (nginx.service), with the limits of its control group. "here" monitors only the machine. May be given several
    /// times
    #[arg(long, value_name = "PID|UNIT|here")]
    pub(super) probe: Vec<Target>,
    /// Also count the requests of each target (URL path)
    #[arg(long)]
    pub(super) targets: bool,
    /// SLOs to check, as in 'p98<100ms,errors<0.1%'; exit code 4 if an SLO is violated
    #[arg(long, value_name = "LIST")]
    pub(super) slo: Option<Slo>,
    /// Compare with the server at this URL: slices of both tests are interleaved (ABBA), so that drift of the machine
    /// cancels out. The default duration is then 40s; several --probe may name both servers. With the same URL, this
    /// is an A/A test: it tests for false alarms. Options without effect on the comparison are rejected
    #[arg(long, value_name = "BASELINE_URL")]
    pub(super) against: Option<String>,
    /// Length of the measured window of each slice of --against [default: 50 response times, at least 40ms, at most
    /// 400ms]
    #[arg(long, value_name = "TIME", value_parser = some_time, requires = "against")]
    pub(super) slice: Option<Duration>,
    #[command(flatten)]
    pub(super) limits: Limits,
    /// Output format
    #[arg(long, value_enum, default_value = "screen")]
    pub(super) format: Format,
    /// Show all figures: also bytes, errors with their meanings, the generator's cost and every default
    #[arg(long)]
    pub(super) details: bool,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub(super) json: bool,
    /// Also write the result to a file; the file name extension selects the format: .json, .csv, .hlog
    /// (HdrHistogram), .prom, .txt, .html, or .parquet (one row per exchange; at most one); may be given several times
    #[arg(long, value_name = "FILE")]
    pub(super) save: Vec<PathBuf>,
    /// Also write an HTML page with charts of the test: a single file without scripts
    #[arg(long, value_name = "FILE.html", value_parser = page)]
    pub(super) report: Option<PathBuf>,
    /// Repeat the measured window up to N times if only noise of this machine (late wake-ups, a hypervisor that takes
    /// the processors) made it INVALID [default: 2; 0 with --requests]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(..=100))]
    pub(super) repeats: Option<u32>,
    /// Show no progress
    #[arg(short = 'q', long)]
    pub(super) quiet: bool,
    #[command(flatten)]
    pub(super) security: SecurityArguments,
    #[command(flatten)]
    pub(super) ranks: RankArguments,
}

/// The arrival process of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ArrivalsChoice {
    /// At constant intervals
    Constant,
    /// At random, independently of each other
    Poisson,
    /// At the times recorded in the workload
    Recorded,
}

/// Prints the value of `--arrivals`.
impl fmt::Display for ArrivalsChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ArrivalsChoice::Constant => "constant",
            ArrivalsChoice::Poisson => "poisson",
            ArrivalsChoice::Recorded => "recorded",
        })
    }
}

/// Parses the file name of an HTML page.
fn page(text: &str) -> Result<PathBuf, String> {
    match text.ends_with(".html") {
        true => Ok(PathBuf::from(text)),
        false => Err("expected a name that ends in .html".to_owned()),
    }
}
