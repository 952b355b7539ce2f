//! The result of a load test as JSON.
//!
//! Names carry their units: `_s`, `_ms`, `_us`, `_bytes`, `_per_s`, `_share` (0 to 1). A value that could not
//! be measured is `null`. The JSON Schema is `docs/load.schema.json`.

mod taken;

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::protocols::{DatagramsSummary, FramesSummary, HandshakesSummary};
use super::server::{ServerProbes, SuspicionSummary};
use super::{RankFigures, Verdict};

/// The format version of the summary. It changes when the meaning of a member changes or a member is removed.
///
/// Format 2 has `slos` with the members `slo` and `met`. Format 1 has `promises` with `promise` and `kept`. This
/// version reads both.
pub const FORMAT: u32 = 2;

/// The result of a load test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The format version of this summary: 2. It changes when the meaning of a member changes or a member is removed,
    /// but not when a member is added.
    pub format: u32,
    /// The validity of the figures.
    pub validity: ValiditySummary,
    /// Notable facts, one sentence each, for example that every response was an error.
    pub findings: Vec<String>,
    /// The URL, workload and policy of the test.
    pub setup: SetupSummary,
    /// The measured window, which the figures describe.
    pub measured: WindowSummary,
    /// The warm-up before the measured window, if there was one.
    pub warm_up: Option<WindowSummary>,
    /// The drain: exchanges in flight at the end of the measured window.
    pub drain: Option<WindowSummary>,
    /// The time of the users of a closed loop, which must agree with their number by Little's law. `null` for an open
    /// loop, for a variable number of users, and if exchanges failed.
    pub user_time: Option<UserTimeSummary>,
    /// The state of the generator itself.
    pub generator: GeneratorSummary,
    /// Measurements of probes on the server's machine, if they were requested.
    pub server: Option<ServerProbes>,
    /// Resources that are suspected from the figures, the strongest suspicion first.
    pub suspected: Vec<SuspicionSummary>,
    /// The timeline, from the start of the warm-up to the end of the drain.
    pub timeline: Vec<IntervalSummary>,
    /// Exchanges of the measured window by target, if they were requested.
    pub targets: Vec<TargetSummary>,
    /// Lines or entries of the workload's source that are not requested: numbers by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub skipped: BTreeMap<String, u64>,
    /// The use of the workload's sequence of pages; absent if the workload has no sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<SequenceSummary>,
    /// Each rank of a test on several machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankFigures>,
    /// The thresholds (SLOs) of the test, and the verdicts on them.
    #[serde(alias = "promises")]
    pub slos: Vec<Verdict>,
}

/// Mean numbers of busy and pausing users of a closed loop in the measured window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserTimeSummary {
    /// The number of users of the test.
    pub users: f64,
    /// Mean number of pages in progress: by Little's law, their rate times their mean time.
    pub busy: f64,
    /// Mean number of pausing users.
    pub paused: f64,
    /// The largest number of pages that a user has in progress at the same time.
    pub slots: u32,
    /// The largest valid difference between `users` and `busy` plus `paused`, as a share of the users.
    pub tolerance_share: f64,
}

/// The use of a workload's sequence of pages, counted from the start of the warm-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SequenceSummary {
    /// The length of the sequence in pages.
    pub pages: u64,
    /// Pages requested.
    pub requested: u64,
    /// The number of times that the whole sequence was requested; above 1, the sequence was repeated.
    pub times: f64,
}

/// The validity of the figures, with the reasons if they are INVALID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ValiditySummary {
    /// Whether the figures are valid.
    pub valid: bool,
    /// The reasons why the figures are INVALID, one sentence each.
    pub reasons: Vec<String>,
}

/// The URL, workload and policy of the test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetupSummary {
    /// The URL of the server.
    pub url: String,
    /// The workload's name; the path for a single URL.
    pub workload: String,
    /// The connection policy, as in `h1.1-pipeline16`.
    pub policy: String,
    /// How requests were generated.
    #[serde(rename = "loop")]
    pub kind: LoopSummary,
    /// Threads of the generator.
    pub threads: u32,
    /// Requested length of the warm-up.
    pub warm_up_s: f64,
    /// Requested length of the measured window, if a time was requested.
    pub duration_s: Option<f64>,
    /// Requested number of exchanges, if a count was requested.
    pub exchanges: Option<u64>,
    /// The time limit of an exchange.
    pub timeout_s: f64,
    /// Longest time that a wake-up of the generator was delayed so that several responses were read at once; 0 is off.
    pub wake_up_coalescing_ms: f64,
    /// The seed of all random choices.
    pub seed: u64,
    /// Settings that were not given, with their default values.
    pub defaults: BTreeMap<String, String>,
    /// The command line, program first.
    pub command: Vec<String>,
    /// The program's version.
    pub version: String,
    /// Facts about the machine.
    pub machine: BTreeMap<String, String>,
    /// Start time, in seconds since the Unix epoch.
    pub started_s: f64,
}

/// How requests were generated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum LoopSummary {
    /// Users that waited for their responses.
    Closed {
        /// Number of users.
        users: u32,
    },
    /// Requests at times that did not depend on responses.
    Open {
        /// The arrival process in words, as in `constant 1000/s`.
        arrivals: String,
        /// The mean rate of arrivals: sessions per second, or single exchanges if the plan has one target.
        arrivals_per_s: f64,
        /// The largest number of connections.
        connections: u32,
        /// The number of requests that arrive at the same instant; absent if each request arrives separately.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch: Option<NonZeroU32>,
    },
}

/// The events within a span of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowSummary {
    /// The length of the window.
    pub duration_s: f64,
    /// Exchanges planned in the window, with their outcomes, even if they ended in another window.
    pub counts: CountsSummary,
    /// Bytes above TCP.
    // Results of older versions use this name.
    #[serde(alias = "octets")]
    pub bytes: ByteCountsSummary,
    /// Rates per second of exchanges and connections within the window.
    pub rates: RatesSummary,
    /// Little's Load Factor: the sum of corrected response times divided by the window's length. It is the mean number
    /// of exchanges in flight.
    pub littles_load_factor: Option<f64>,
    /// The load factor of whole pages, if some have more than one file: the mean number of busy users.
    pub littles_load_factor_of_pages: Option<f64>,
    /// The connections within the window.
    pub connections: ConnectionsSummary,
    /// TLS handshakes that completed within the window; `null` if there were none.
    pub tls: Option<HandshakesSummary>,
    /// HTTP/2 frames on connections within the window; `null` if there were none.
    pub http2: Option<FramesSummary>,
    /// QUIC datagrams below HTTP/3 within the window; `null` if there were none.
    pub quic: Option<DatagramsSummary>,
    /// The duration of each phase.
    pub phases: PhasesSummary,
}

/// Connections within a window; they may have been established earlier. A connection's lifetime lasts from its
/// establishment until it is closed. If a connection outlives the window, its lifetime is not in `life`, but `open_s`
/// and `idle_s` contain the part in the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConnectionsSummary {
    /// Connections established in the window.
    pub established: u64,
    /// Connections that ended in the window.
    pub ended: u64,
    /// Ended connections that the generator closed.
    pub closed_by_client: u64,
    /// Ended connections that the server closed, or that the generator closed because the server had announced the end.
    pub closed_by_server: u64,
    /// Ended connections that failed.
    pub failed: u64,
    /// Total time that connections were open in the window.
    pub open_s: f64,
    /// The part of that time in which no request was in flight on the connection.
    pub idle_s: f64,
    /// `idle_s` as a share of `open_s`, 0 to 1.
    pub idle_share: Option<f64>,
    /// Mean number of open connections.
    pub mean_open: Option<f64>,
    /// Lifetimes of the connections that ended.
    pub life: Option<Phase>,
    /// Number of completed exchanges on each connection that ended.
    pub exchanges: Option<NumbersSummary>,
}

/// A distribution of whole numbers. Percentiles are exact up to 255, and have two significant digits above.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names say it all")]
pub struct NumbersSummary {
    /// Number of values.
    pub count: u64,
    pub min: u64,
    pub max: u64,
    pub mean: f64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
}

/// Counts of a window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountsSummary {
    /// Planned exchanges.
    pub planned: u64,
    /// Exchanges whose request was passed to the transport.
    pub sent: u64,
    /// Exchanges whose response was completed, with any status.
    pub completed: u64,
    /// Exchanges that failed.
    pub failed: u64,
    /// Exchanges that had neither completed nor failed at the end of the drain.
    pub unfinished: u64,
    /// Complete responses with a status of 400 and above.
    pub status_errors: u64,
    /// Final status codes of the completed exchanges.
    pub statuses: BTreeMap<String, u64>,
    /// Reasons of the failed exchanges.
    pub failures: BTreeMap<String, u64>,
    /// Responses whose content length differs from the plan.
    pub wrong_size: u64,
    /// Requests that were retried because their connection ended before a response.
    pub retried: u64,
    /// Connections attempted.
    pub connects: u64,
    /// Connections established.
    pub connected: u64,
    /// Connections that could not be established, by reason.
    pub connect_failures: BTreeMap<String, u64>,
    /// Pages of which every exchange completed.
    pub pages: u64,
    /// Pages with a failed exchange.
    pub pages_failed: u64,
    /// Sessions that finished.
    pub sessions: u64,
}

/// Bytes above TCP, and above TLS if it is used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ByteCountsSummary {
    /// Request header sections as transferred; for HTTP/2 and HTTP/3, the frames that carry them, including frame
    /// headers.
    pub request_heads_bytes: u64,
    /// Names and values of request header fields before compression; the same as transferred without compression.
    pub request_fields_bytes: u64,
    /// The saving by compression, as a share of the request headers, at most 1; `null` without compression.
    pub request_savings_share: Option<f64>,
    /// Request content.
    pub request_bodies_bytes: u64,
    /// Response header sections as transferred, including interim responses.
    pub response_heads_bytes: u64,
    /// Names and values of response header fields before compression.
    pub response_fields_bytes: u64,
    /// The saving by compression, as a share of the response headers, at most 1.
    pub response_savings_share: Option<f64>,
    /// Response content with its transfer coding.
    pub response_bodies_bytes: u64,
    /// Response content without its transfer coding.
    pub content_bytes: u64,
    /// Received bytes of the responses of failed exchanges, headers and content as transferred; not contained in the
    /// other figures.
    pub failed_responses_bytes: u64,
}

/// Rates over a window's length; `null` if the window has no length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RatesSummary {
    /// Exchanges planned in the window.
    pub offered_per_s: Option<f64>,
    /// Exchanges whose response was completed within the window, even if they were planned earlier.
    pub achieved_per_s: Option<f64>,
    /// Response bytes of these exchanges, headers and content.
    pub throughput_bytes_per_s: Option<f64>,
    /// Response content of these exchanges with a status below 400, without transfer coding.
    pub goodput_bytes_per_s: Option<f64>,
    /// Connections established within the window.
    pub connected_per_s: Option<f64>,
    /// Errors divided by all exchanges that ended or were abandoned, 0 to 1. Errors are failures, statuses of 400 and
    /// above, and unfinished exchanges.
    pub errors_share: Option<f64>,
}

/// The duration of each phase; `null` if nothing was recorded. Failed exchanges count in `corrected` and `uncorrected`
/// with the time until they failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PhasesSummary {
    /// From the planned instant to the last byte.
    pub corrected: Option<Phase>,
    /// From the request's first byte to the response's last byte.
    pub uncorrected: Option<Phase>,
    /// From the planned instant until a connection was free.
    pub queue: Option<Phase>,
    /// From a free connection until the first byte was passed to the transport: the delay of the generator.
    pub send_lag: Option<Phase>,
    /// From the connection attempt to the established connection, without TLS.
    pub connect: Option<Phase>,
    /// From the established connection to the end of its TLS handshake.
    pub tls: Option<Phase>,
    /// From the request's first byte to the response's first byte.
    pub first_byte: Option<Phase>,
    /// From the response's first byte to its last byte.
    pub transfer: Option<Phase>,
    /// From the start of a page to its last byte.
    pub page: Option<Phase>,
    /// From the planned instant to the failure, for failed exchanges.
    pub failed: Option<Phase>,
}

/// A distribution of times. Extremes, mean and standard deviation are exact; percentiles have a relative error below
/// 10^-3.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names say it all")]
pub struct Phase {
    /// Number of times.
    pub count: u64,
    pub min_ms: f64,
    pub max_ms: f64,
    pub mean_ms: f64,
    /// Standard deviation.
    pub sd_ms: f64,
    /// Share of the times within one standard deviation of the mean, 0 to 1.
    pub within_sd_share: f64,
    pub p50_ms: f64,
    pub p75_ms: f64,
    pub p90_ms: f64,
    pub p95_ms: f64,
    pub p98_ms: f64,
    pub p99_ms: f64,
    /// The 99.9th percentile.
    pub p99_9_ms: f64,
    /// The 99.99th percentile.
    pub p99_99_ms: f64,
}

/// The state of the generator itself over the measured window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GeneratorSummary {
    /// CPU time in user mode.
    pub cpu_user_s: f64,
    /// CPU time in the kernel.
    pub cpu_system_s: f64,
    /// CPU time (user and kernel) per exchange that ended.
    pub cpu_per_exchange_us: Option<f64>,
    /// CPU time spent busy-waiting before planned instants (`--spin`), over all threads.
    pub busy_wait_s: f64,
    /// Share of the window in which the busiest thread was not waiting, 0 to 1.
    pub busiest_thread_share: Option<f64>,
    /// The longest time that an event may have waited for a thread.
    pub longest_turn_ms: Option<f64>,
    /// The state of each thread.
    pub threads: Vec<ThreadSummary>,
    /// The peak memory use.
    pub peak_memory_bytes: u64,
    /// The largest number of open descriptors.
    pub descriptors: u64,
    /// The limit on open descriptors.
    pub descriptors_limit: u64,
    /// Connections that failed because no local address and port was left.
    pub ports_exhausted: u64,
    /// Share of the machine's CPU time that the hypervisor gave to other guests, 0 to 1.
    pub steal_share: f64,
}

/// The state of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThreadSummary {
    /// Share of the window in which the thread was not waiting, 0 to 1.
    pub busy_share: f64,
    /// Longest time between two waits.
    pub longest_turn_ms: f64,
    /// Share of the window in which the thread delayed wake-ups so that several responses are read at once, 0 to 1.
    pub rested_share: f64,
    /// The mean latency with delayed wake-ups divided by the mean latency without, in the last comparison; `null`
    /// without a comparison.
    pub rest_latency_ratio: Option<f64>,
    /// Time in which the thread busy-waited before planned instants.
    pub busy_wait_s: f64,
    /// Median time by which a sleep exceeded its requested length; `null` if no exchange had a planned instant.
    pub wake_up_latency_ms: Option<f64>,
}

/// An interval of the timeline.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IntervalSummary {
    /// The start of the interval, from the start of the test.
    pub start_s: f64,
    /// The length of the interval.
    pub length_s: f64,
    /// Exchanges planned in the interval.
    pub planned: u64,
    /// Exchanges completed in the interval.
    pub completed: u64,
    /// Exchanges that failed in the interval, and responses with a status of 400 and above.
    pub errors: u64,
    /// Response bytes in the interval.
    pub received_bytes: u64,
    /// Connections open at the end of the interval.
    pub connections: u64,
    /// Median of the corrected latency of the exchanges that ended in the interval.
    pub p50_ms: Option<f64>,
    /// 90th percentile of the corrected latency.
    pub p90_ms: Option<f64>,
    /// 99th percentile of the corrected latency.
    pub p99_ms: Option<f64>,
    /// Maximum of the corrected latency.
    pub max_ms: Option<f64>,
    /// 99th percentile of the send lag.
    pub send_lag_p99_ms: Option<f64>,
}

/// Numbers of requests for a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetSummary {
    /// Method and request target, as in `GET /a.html`.
    pub target: String,
    /// Complete responses with a status below 400.
    pub completed: u64,
    /// Requests that failed, or whose response had a status of 400 and above.
    pub failed: u64,
}

impl Summary {
    /// Adds the verdicts on thresholds to the summary.
    pub fn with_slos(mut self, slos: Vec<Verdict>) -> Summary {
        self.slos = slos;
        self
    }

    /// The summary as JSON, one member per line, with a line end at the end.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("names are strings and numbers finite");
        text.push('\n');
        text
    }

    /// The JSON Schema of summaries in this format.
    pub fn schema() -> String {
        let mut schema = schemars::schema_for!(Summary);
        schema.insert("title".to_owned(), "Fathometer load summary".into());
        let mut text = serde_json::to_string_pretty(&schema).expect("a schema is JSON");
        text.push('\n');
        text
    }
}
