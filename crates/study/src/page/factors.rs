//! The factors of page studies.

use std::time::Duration;

use fathometer_http::driver::{Flush, Priorities};
use fathometer_http::origin::packages::Making;
use fathometer_model::quantity::TimeSpan;
use fathometer_model::{Bandwidth, Probability};
use fathometer_tls::Version;

use crate::factor::{AnyFactor, Factor, parsed, unless};

/// All factors of page studies. The factors of all kinds of studies are not included.
pub(super) static FACTORS: &[&dyn AnyFactor] = &[
    &RTT,
    &RATE,
    &LOSS,
    &QUEUE,
    &INITIAL_WINDOW,
    &CONGESTION,
    &NODELAY,
    &QUICKACK,
    &TLS,
    &FLUSH,
    &BUFFER,
    &METHOD,
    &LIMIT,
    &CLOSE,
    &PACE,
    &PUSH,
    &HINTS,
    &PRIORITY,
    &H2_WINDOW,
    &H3_WINDOW,
    &RETRIEVE,
    &SCRIPT_MS,
    &SETS,
    &CHANGED,
    &PAGE_CACHE,
    &PACKAGES,
];

/// The highest rate of a path, in Mbit/s.
const MOST_MEGABITS: f64 = 1e6;

pub(super) static RTT: Factor<Option<Duration>> = Factor::text(
    "rtt",
    "Round-trip time of the path in milliseconds, half in each direction; `path`: as in the profile.",
    &["path"],
    |level| {
        let Some(ms) = number(level)? else {
            return Ok(None);
        };
        let time = TimeSpan::from_milliseconds(ms).map_err(|error| error.to_string())?;
        Ok(Some(time.into()))
    },
)
.or("path");

pub(super) static RATE: Factor<Option<Bandwidth>> = Factor::text(
    "rate",
    "Rate of the path in Mbit/s, in both directions; `path`: as in the profile.",
    &["path"],
    |level| {
        let Some(megabits) = number(level)? else {
            return Ok(None);
        };
        (megabits <= MOST_MEGABITS)
            .then(|| Bandwidth::bits_per_second((megabits * 1e6) as u64))
            .flatten()
            .map(Some)
            .ok_or_else(|| "it must be a number of Mbit/s above 0, up to 1000000".to_owned())
    },
)
.or("path");

pub(super) static LOSS: Factor<Option<Probability>> = Factor::text(
    "loss",
    "Independent loss of packets in each direction, in percent; `path`: as in the profile.",
    &["path"],
    |level| {
        let Some(percent) = number(level)? else {
            return Ok(None);
        };
        Probability::new(percent / 100.0)
            .map(Some)
            .ok_or_else(|| "it must be 0 to 100 percent".to_owned())
    },
)
.or("path");

/// The queue in front of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueLevel {
    /// The queue of the profile.
    Path,
    /// One bandwidth-delay product.
    BandwidthDelayProduct,
    /// A fixed number of packets.
    Packets(u32),
}

pub(super) static QUEUE: Factor<QueueLevel> = Factor::text(
    "queue",
    "Queue in each direction in packets; `path`: as in the profile; `bdp`: one bandwidth-delay product.",
    &["path", "bdp"],
    |level| match level {
        "path" => Ok(QueueLevel::Path),
        "bdp" => Ok(QueueLevel::BandwidthDelayProduct),
        packets => packets
            .parse()
            .map(QueueLevel::Packets)
            .map_err(|_| "it can be path, bdp or a number of packets".to_owned()),
    },
)
.or("path");

pub(super) static INITIAL_WINDOW: Factor<Option<u32>> = Factor::text(
    "iw",
    "Initial congestion window of both hosts in segments; `era`: as in the era.",
    &["era"],
    |level| unless("era", level),
)
.or("era");

pub(super) static CONGESTION: Factor<Option<String>> = Factor::text(
    "congestion",
    "Congestion control of both hosts; `era`: as in the era.",
    &["era", "cubic", "bbr", "reno"],
    |level| unless("era", level),
)
.or("era");

pub(super) static NODELAY: Factor<bool> = Factor::words(
    "nodelay",
    "TCP_NODELAY of the client and of the embedded origin.",
    &[("on", true), ("off", false)],
)
.or("on");

pub(super) static QUICKACK: Factor<Option<bool>> = Factor::words(
    "quickack",
    "Whether the client's kernel acknowledges every segment at once; `off`: as in the era.",
    &[("on", Some(true)), ("off", None)],
)
.or("off");

/// The TLS settings of connections; used if the policy has TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TlsLevel {
    pub(super) version: Version,
    /// Whether the client has a session of an earlier visit, which it can resume.
    pub(super) resumes: bool,
    /// Whether the client sends its first requests as early data (0-RTT).
    pub(super) early_data: bool,
}

impl TlsLevel {
    const fn new(version: Version, resumes: bool, early_data: bool) -> TlsLevel {
        TlsLevel {
            version,
            resumes,
            early_data,
        }
    }
}

pub(super) static TLS: Factor<TlsLevel> = Factor::words(
    "tls",
    "TLS version of policies with TLS, resumption of a session, and early data.",
    &[
        ("1.3", TlsLevel::new(Version::Tls13, false, false)),
        ("1.3-resumed", TlsLevel::new(Version::Tls13, true, false)),
        ("1.3-early", TlsLevel::new(Version::Tls13, true, true)),
        ("1.2", TlsLevel::new(Version::Tls12, false, false)),
        ("1.2-resumed", TlsLevel::new(Version::Tls12, true, false)),
    ],
)
.or("1.3");

pub(super) static FLUSH: Factor<Flush> = Factor::text(
    "flush",
    "When a pipelining client sends its request buffer.",
    &["explicit", "buffer", "timer-50ms"],
    parsed,
)
.or("explicit");

pub(super) static BUFFER: Factor<u64> = Factor::text(
    "buffer",
    "Size of the request buffer of a pipelining client, in bytes.",
    &[],
    parsed,
)
.or("1024");

/// The level `head`: clients with HTTP/1.0 validate embedded files with HEAD requests.
pub(super) static METHOD: Factor<bool> = Factor::words(
    "method",
    "How HTTP/1.0 validates: conditional GET, or HEAD of every embedded file.",
    &[("head", true), ("conditional", false)],
)
.or("conditional");

pub(super) static LIMIT: Factor<Option<u32>> = Factor::text(
    "limit",
    "Number of requests after which the server closes a connection.",
    &["none"],
    |level| unless("none", level),
)
.or("none");

/// The level `full`: the server closes both directions of a connection at the same time.
pub(super) static CLOSE: Factor<bool> = Factor::words(
    "close",
    "How the embedded origin closes a connection: one half after the other, or both at once.",
    &[("half", false), ("full", true)],
)
.or("half");

pub(super) static PACE: Factor<bool> = Factor::words(
    "pace",
    "`period`: the embedded origin imitates the service times in its definition.",
    &[("period", true), ("none", false)],
)
.or("none");

/// The files of a page that the embedded origin announces early, or pushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Companions {
    Nothing,
    Critical,
    All,
}

const COMPANIONS: &[(&str, Companions)] = &[
    ("none", Companions::Nothing),
    ("critical", Companions::Critical),
    ("all", Companions::All),
];

pub(super) static PUSH: Factor<Companions> = Factor::words(
    "push",
    "What the embedded origin pushes to policies with -push.",
    COMPANIONS,
)
.or("all");

pub(super) static HINTS: Factor<Companions> = Factor::words(
    "hints",
    "What the embedded origin announces by 103 (Early Hints).",
    COMPANIONS,
)
.or("none");

pub(super) static PRIORITY: Factor<Priorities> = Factor::words(
    "priority",
    "Priorities of requests.",
    &[
        ("none", Priorities::None),
        ("browser", Priorities::Browser),
        ("round-robin", Priorities::RoundRobin),
    ],
)
.or("none");

pub(super) static H2_WINDOW: Factor<Option<u32>> = Factor::text(
    "h2_window",
    "Window of each stream of the HTTP/2 client, in bytes.",
    &["default"],
    |level| unless("default", level),
)
.or("default");

pub(super) static H3_WINDOW: Factor<Option<u32>> = Factor::text(
    "h3_window",
    "Window of each stream of the HTTP/3 client, in bytes.",
    &["default"],
    |level| unless("default", level),
)
.or("default");

/// The level `html`: only the page's base file is retrieved.
pub(super) static RETRIEVE: Factor<bool> = Factor::words(
    "retrieve",
    "What is retrieved of a page: all its files, or only its base file.",
    &[("page", false), ("html", true)],
)
.or("page");

pub(super) static SCRIPT_MS: Factor<Duration> = Factor::text(
    "script_ms",
    "Time for which the client executes each script, in milliseconds.",
    &[],
    |level| {
        let time = TimeSpan::from_milliseconds(parsed(level)?);
        time.map(Duration::from).map_err(|error| error.to_string())
    },
)
.or("0");

pub(super) static SETS: Factor<usize> = Factor::text(
    "sets",
    "Workloads of sets: number of sets that a replicate retrieves, one after another.",
    &[],
    parsed,
)
.or("1");

pub(super) static CHANGED: Factor<u32> = Factor::text(
    "changed",
    "Number of files of each set that change between the earlier visit and the measured visit.",
    &[],
    parsed,
)
.or("0");

/// The level `cold`: none of the requested files is in the server's page cache.
pub(super) static PAGE_CACHE: Factor<bool> = Factor::words(
    "page_cache",
    "Workloads of sets: whether the requested files are in memory before the visit.",
    &[("cold", true), ("warm", false)],
)
.or("warm");

pub(super) static PACKAGES: Factor<Making> = Factor::words(
    "packages",
    "Whether packages and archives are made in advance or for each request.",
    &[("made", Making::Made), ("on-the-fly", Making::OnTheFly)],
)
.or("made");

/// Parses a level as a number. Returns `None` if the value of the profile is used.
fn number(level: &str) -> Result<Option<f64>, String> {
    match level {
        "path" => Ok(None),
        level => match level.parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(Some(number)),
            _ => Err("it can be path or a number".to_owned()),
        },
    }
}
