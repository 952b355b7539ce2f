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

/// The format version of the summary; it changes when a member changes its meaning or is removed.
pub const FORMAT: u32 = 1;

/// What a load test found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The form of this summary: 1. It changes when a member changes its meaning or goes; members may
    /// be added without.
    pub format: u32,
    /// The validity of the figures.
    pub validity: ValiditySummary,
    /// What stands out of it, a sentence each: that every response was an error, for one.
    pub findings: Vec<String>,
    /// The URL, workload and policy of the test.
    pub setup: SetupSummary,
    /// The steady state: what the figures are about.
    pub measured: WindowSummary,
    /// What came before it, when there was a warm-up.
    pub warm_up: Option<WindowSummary>,
    /// What was still under way when it ended.
    pub drain: Option<WindowSummary>,
    /// What the users of a closed loop did, which must agree with their number by Little's law. `null` for an open loop,
    /// for a number of users that changes, and where exchanges failed.
    pub user_time: Option<UserTimeSummary>,
    /// The generator itself.
    pub generator: GeneratorSummary,
    /// What probes saw of the server's machine, when they were asked to look.
    pub server: Option<ServerProbes>,
    /// Resources that this makes suspect, the strongest first.
    pub suspected: Vec<SuspicionSummary>,
    /// The course, from the start of the warm-up to the end of the drain.
    pub timeline: Vec<IntervalSummary>,
    /// Exchanges of the measured window by target, when they were asked for.
    pub targets: Vec<TargetSummary>,
    /// Lines or entries of the workload's source that are not requested: how many, by reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub skipped: BTreeMap<String, u64>,
    /// How much of the workload's sequence of pages was requested, when it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<SequenceSummary>,
    /// Each rank of a test on several machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<RankFigures>,
    /// What was promised, and whether it was kept.
    pub promises: Vec<Verdict>,
}

/// What the users of a closed loop did in the measured window, as mean numbers of users.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UserTimeSummary {
    /// The users that the test had.
    pub users: f64,
    /// Pages that were under way: by Little's law their rate times their mean time.
    pub busy: f64,
    /// Users that paused.
    pub paused: f64,
    /// The most pages that a user has under way at the same time.
    pub slots: u32,
    /// The largest difference between users and their sum that is valid, as a share of the users.
    pub tolerance_share: f64,
}

/// How much of a workload's sequence of pages was requested, from the start of the warm-up on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SequenceSummary {
    /// Its length in pages.
    pub pages: u64,
    /// Pages requested.
    pub requested: u64,
    /// How often the whole sequence was requested; above 1 it was begun again.
    pub times: f64,
}

/// The validity of the figures, with the reasons where they are INVALID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ValiditySummary {
    /// Whether the figures are valid.
    pub valid: bool,
    /// Why they are INVALID: one sentence for each reason.
    pub reasons: Vec<String>,
}

/// The URL, workload and policy of the test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetupSummary {
    /// Where the load went.
    pub url: String,
    /// The workload's name; the path for a single URL.
    pub workload: String,
    /// How connections were used.
    pub policy: String,
    /// How requests came about.
    #[serde(rename = "loop")]
    pub kind: LoopSummary,
    /// Threads of the generator.
    pub threads: u32,
    /// Time before the measured window, as asked for.
    pub warm_up_s: f64,
    /// Length of the measured window, when a time was asked for.
    pub duration_s: Option<f64>,
    /// Exchanges, when a count was asked for.
    pub exchanges: Option<u64>,
    /// How long an exchange might take.
    pub timeout_s: f64,
    /// Longest time that a wake-up of the generator was delayed so that several responses were read at once; 0 is off.
    pub wake_up_coalescing_ms: f64,
    /// Where everything random came from.
    pub seed: u64,
    /// Settings that were not given, with their default values.
    pub defaults: BTreeMap<String, String>,
    /// The command line, program first.
    pub command: Vec<String>,
    /// The program's version.
    pub version: String,
    /// Facts about the machine.
    pub machine: BTreeMap<String, String>,
    /// Start, in seconds since the Unix epoch.
    pub started_s: f64,
}

/// How requests came about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum LoopSummary {
    /// Users that waited for their answers.
    Closed {
        /// How many.
        users: u32,
    },
    /// Requests that came when they came.
    Open {
        /// Their process in words.
        arrivals: String,
        /// Its mean rate: sessions a second, single exchanges when the plan has one target.
        arrivals_per_s: f64,
        /// The most connections.
        connections: u32,
        /// How many requests arrive at the same instant; absent: each by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        batch: Option<NonZeroU32>,
    },
}

/// What happened in a stretch of time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WindowSummary {
    /// Its length.
    pub duration_s: f64,
    /// Exchanges planned in it, and what became of them in whichever window they ended.
    pub counts: CountsSummary,
    /// Bytes above TCP.
    // Results of older versions say octets.
    #[serde(alias = "octets")]
    pub bytes: ByteCountsSummary,
    /// What came to its end while it lasted, a second.
    pub rates: RatesSummary,
    /// Little's Load Factor: the sum of corrected response times over the length. How many
    /// exchanges were under way on average.
    pub littles_load_factor: Option<f64>,
    /// The same of whole pages, when some have more than one file: how many users were busy.
    pub littles_load_factor_of_pages: Option<f64>,
    /// What became of connections while it lasted.
    pub connections: ConnectionsSummary,
    /// TLS handshakes that were completed while it lasted; `null` when there were none.
    pub tls: Option<HandshakesSummary>,
    /// What HTTP/2 put on connections while it lasted; `null` when nothing.
    pub http2: Option<FramesSummary>,
    /// What QUIC put on the wire beneath HTTP/3 while it lasted; `null` when nothing.
    pub quic: Option<DatagramsSummary>,
    /// How long everything took.
    pub phases: PhasesSummary,
}

/// What became of connections while a window lasted, whenever they were established. A life is from
/// being established to being closed; those of connections that outlived the window are in `open_s`
/// and `idle_s` with the part that lies in it, and not in `life`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConnectionsSummary {
    /// Established in it.
    pub established: u64,
    /// Ended in it.
    pub ended: u64,
    /// Of those, closed by the generator.
    pub closed_by_client: u64,
    /// Closed by the server, or because it had announced that.
    pub closed_by_server: u64,
    /// Ended by a failure.
    pub failed: u64,
    /// The time that connections were open in it, all together.
    pub open_s: f64,
    /// The part of that in which nothing was asked.
    pub idle_s: f64,
    /// The same as a share, 0 to 1.
    pub idle_share: Option<f64>,
    /// How many were open on average.
    pub mean_open: Option<f64>,
    /// Lives of those that ended.
    pub life: Option<Phase>,
    /// Exchanges on each of those that ended.
    pub exchanges: Option<NumbersSummary>,
}

/// A distribution of whole numbers. Percentiles are exact up to 255, and have two digits beyond.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names say it all")]
pub struct NumbersSummary {
    /// How many numbers.
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
    /// Those whose request was handed to the transport.
    pub sent: u64,
    /// Those whose response came whole, whatever its status.
    pub completed: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those neither completed nor failed when the drain was over.
    pub unfinished: u64,
    /// Complete responses with a status of 400 and above.
    pub status_errors: u64,
    /// Final status codes of the completed.
    pub statuses: BTreeMap<String, u64>,
    /// The failed, by reason.
    pub failures: BTreeMap<String, u64>,
    /// Responses whose content had another length than planned.
    pub wrong_size: u64,
    /// Requests retried because their connection closed before a response.
    pub retried: u64,
    /// Connections attempted.
    pub connects: u64,
    /// Connections established.
    pub connected: u64,
    /// Connections that could not be established, by reason.
    pub connect_failures: BTreeMap<String, u64>,
    /// Pages of which every exchange completed.
    pub pages: u64,
    /// Pages of which one failed.
    pub pages_failed: u64,
    /// Sessions that came to their end.
    pub sessions: u64,
}

/// Bytes above TCP, and above TLS where there is TLS.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ByteCountsSummary {
    /// Request heads as transferred: of HTTP/2 the frames that carry them, their own heads included.
    pub request_heads_bytes: u64,
    /// Names and values of their fields before compression; the same where nothing is compressed.
    pub request_fields_bytes: u64,
    /// What compression saved of them, at most 1; `null` where nothing is compressed.
    pub request_savings_share: Option<f64>,
    /// Request content.
    pub request_bodies_bytes: u64,
    /// Response heads as transferred, interim responses included.
    pub response_heads_bytes: u64,
    /// Names and values of their fields before compression.
    pub response_fields_bytes: u64,
    /// What compression saved of them, at most 1.
    pub response_savings_share: Option<f64>,
    /// Response content with its transfer coding.
    pub response_bodies_bytes: u64,
    /// Response content without its transfer coding.
    pub content_bytes: u64,
    /// Responses of exchanges that failed, as far as they came, heads and content as transferred; in none of the
    /// other figures.
    pub failed_responses_bytes: u64,
}

/// Rates over a window's length; `null` when it has none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RatesSummary {
    /// Exchanges planned in it.
    pub offered_per_s: Option<f64>,
    /// Exchanges whose response came whole while it lasted, whenever they were planned.
    pub achieved_per_s: Option<f64>,
    /// Response bytes of those, heads and content.
    pub throughput_bytes_per_s: Option<f64>,
    /// Content of those with a status below 400, without transfer coding.
    pub goodput_bytes_per_s: Option<f64>,
    /// Connections established while it lasted.
    pub connected_per_s: Option<f64>,
    /// Errors over everything that ended or was given up: failures, statuses of 400 and above, and
    /// the unfinished. 0 to 1.
    pub errors_share: Option<f64>,
}

/// How long everything took; `null` where nothing was recorded. Failed exchanges are in `corrected`
/// and `uncorrected` with the time until they failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PhasesSummary {
    /// From the plan's instant to the last byte.
    pub corrected: Option<Phase>,
    /// From the request's first byte to the response's last.
    pub uncorrected: Option<Phase>,
    /// From the plan's instant until a connection was free.
    pub queue: Option<Phase>,
    /// From then until the first byte was handed to the transport: the generator's own lateness.
    pub send_lag: Option<Phase>,
    /// From asking for a connection to having it, TLS left out.
    pub connect: Option<Phase>,
    /// From having a connection to being able to ask over TLS on it.
    pub tls: Option<Phase>,
    /// From the request's first byte to the response's first.
    pub first_byte: Option<Phase>,
    /// From the response's first byte to its last.
    pub transfer: Option<Phase>,
    /// From the start of a page to its last byte.
    pub page: Option<Phase>,
    /// From the plan's instant to the failure, of those that failed.
    pub failed: Option<Phase>,
}

/// A distribution of times. Extremes, mean and deviation are exact; percentiles have a relative
/// error below 10^-3.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "the names say it all")]
pub struct Phase {
    /// How many times.
    pub count: u64,
    pub min_ms: f64,
    pub max_ms: f64,
    pub mean_ms: f64,
    /// Standard deviation.
    pub sd_ms: f64,
    /// Share of them within a standard deviation of the mean, 0 to 1.
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

/// How the generator itself fared over the measured window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GeneratorSummary {
    /// Processor time in its own code.
    pub cpu_user_s: f64,
    /// Processor time in the kernel on its behalf.
    pub cpu_system_s: f64,
    /// Both, for an exchange that ended.
    pub cpu_per_exchange_us: Option<f64>,
    /// The part of the processor time that was spent busy-waiting before planned instants (`--spin`), all threads.
    pub busy_wait_s: f64,
    /// Share of the window that the busiest thread was not waiting, 0 to 1.
    pub busiest_thread_share: Option<f64>,
    /// Longest time that anything could have waited for a thread.
    pub longest_turn_ms: Option<f64>,
    /// Each thread.
    pub threads: Vec<ThreadSummary>,
    /// The most memory it ever held.
    pub peak_memory_bytes: u64,
    /// The most descriptors it had open.
    pub descriptors: u64,
    /// How many it might have had.
    pub descriptors_limit: u64,
    /// Connections that failed because no local address and port was left.
    pub ports_exhausted: u64,
    /// Share of the machine's processor time that the hypervisor gave to others, 0 to 1.
    pub steal_share: f64,
}

/// How one thread fared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThreadSummary {
    /// Share of the window that it was not waiting, 0 to 1.
    pub busy_share: f64,
    /// Longest time between two waits.
    pub longest_turn_ms: f64,
    /// Share of the window in which it delayed wake-ups so that responses came together, 0 to 1.
    pub rested_share: f64,
    /// The mean latency with delayed wake-ups in units of that without, as the thread compared it; null where
    /// nothing was compared.
    pub rest_latency_ratio: Option<f64>,
    /// Time that it busy-waited before planned instants.
    pub busy_wait_s: f64,
    /// Median time by which a sleep lasted longer than asked for; null where nothing was planned for an instant.
    pub wake_up_latency_ms: Option<f64>,
}

/// A stretch of the course.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IntervalSummary {
    /// Its start, from the start of the test.
    pub start_s: f64,
    /// Its length.
    pub length_s: f64,
    /// Exchanges planned in it.
    pub planned: u64,
    /// Exchanges completed in it.
    pub completed: u64,
    /// Exchanges that failed in it, and responses of status 400 and above.
    pub errors: u64,
    /// Response bytes in it.
    pub received_bytes: u64,
    /// Connections open at its end.
    pub connections: u64,
    /// Corrected latency of what ended in it.
    pub p50_ms: Option<f64>,
    /// Its 90th percentile.
    pub p90_ms: Option<f64>,
    /// Its 99th percentile.
    pub p99_ms: Option<f64>,
    /// Its maximum.
    pub max_ms: Option<f64>,
    /// 99th percentile of the send lag.
    pub send_lag_p99_ms: Option<f64>,
}

/// How often a target was fetched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetSummary {
    /// Method and request target.
    pub target: String,
    /// Responses that came whole, with a status below 400.
    pub completed: u64,
    /// Requests that failed, or whose response had a status of 400 and above.
    pub failed: u64,
}

impl Summary {
    /// Adds the verdicts on thresholds to the summary.
    pub fn with_promises(mut self, promises: Vec<Verdict>) -> Summary {
        self.promises = promises;
        self
    }

    /// The summary as JSON, one member per line, with a line end.
    pub fn to_json(&self) -> String {
        let mut text =
            serde_json::to_string_pretty(self).expect("names are strings and numbers finite");
        text.push('\n');
        text
    }

    /// The JSON Schema of every summary in this format.
    pub fn schema() -> String {
        let mut schema = schemars::schema_for!(Summary);
        schema.insert("title".to_owned(), "Fathometer load summary".into());
        let mut text = serde_json::to_string_pretty(&schema).expect("a schema is JSON");
        text.push('\n');
        text
    }
}
