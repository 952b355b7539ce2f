//! The types of a result.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use fathometer_model::{Bytes, Failure, Seed, Validity};
use serde::{Deserialize, Serialize};

use super::server::ServerProbes;
use super::{Datagrams, Distribution, Frames, Handshakes, Numbers, RankFigures};

/// The result of a load test.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadResult {
    /// The settings of the test.
    pub setup: Setup,
    /// The measured window; all figures describe this window.
    pub measured: Window,
    /// The warm-up before the measured window, if there was one.
    pub warm_up: Option<Window>,
    /// The drain: exchanges in flight at the end of the measured window, until they completed or were abandoned.
    pub drain: Option<Window>,
    /// The timeline of the test, from the start of the warm-up to the end of the drain.
    pub timeline: Vec<Interval>,
    /// Exchanges of the measured window by target. Empty with one target, or if this output was not requested.
    pub targets: Vec<TargetCount>,
    /// Lines or entries of the workload's source that are not requested, counted by reason.
    pub skipped: BTreeMap<String, u64>,
    /// The use of the workload's sequence of pages; `None` if the workload has no sequence.
    pub sequence: Option<SequenceUse>,
    /// The time of the users of a closed loop, which must agree with their number (Little's law).
    pub user_time: Option<UserTime>,
    /// The state of the generator itself.
    pub generator: Generator,
    /// Each rank of a test on several machines; empty for a test on one machine.
    pub ranks: Vec<RankFigures>,
    /// Measurements of probes on the server's machine; `None` without probes. Not serialized.
    #[serde(skip)]
    pub server: Option<ServerProbes>,
    /// Whether the figures are valid.
    pub validity: Validity,
}

/// Mean numbers of busy and pausing users of a closed loop in the measured window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct UserTime {
    /// The number of users of the test.
    pub users: f64,
    /// Mean number of pages in progress. A user has one page in progress, or up to `slots` pages with pipelines or
    /// streams.
    pub busy: f64,
    /// Mean number of pausing users.
    pub paused: f64,
    /// The largest number of pages that a user has in progress at the same time.
    pub slots: u32,
    /// The largest valid difference, as a share of the users. Causes are the edges of the window and the generator's
    /// time between pages.
    pub tolerance: f64,
}

/// The settings of a load test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The URL of the server, as in `http://127.0.0.1:8080/`.
    pub url: String,
    /// The workload's name; the path for a single URL.
    pub workload: String,
    /// The connection policy, as in `h1.1-pipeline16`.
    pub policy: String,
    /// How requests are generated.
    pub kind: LoopKind,
    /// Threads of the generator, each with an event loop.
    pub threads: u32,
    /// Requested length of the warm-up.
    pub warm_up: Duration,
    /// Requested length of the measured window, if a time was requested.
    pub duration: Option<Duration>,
    /// Requested number of exchanges, if a count was requested.
    pub exchanges: Option<u64>,
    /// The time limit of an exchange.
    pub timeout: Duration,
    /// Longest time that the generator delays a wake-up so that several responses are read at once; zero is off.
    pub wake_up_coalescing: Duration,
    /// The seed of all random choices.
    pub seed: Seed,
    /// Settings that the command line did not set, with their default values. So the result contains every setting.
    pub defaults: Vec<(String, String)>,
    /// The command line, program first.
    pub command: Vec<String>,
    /// The version of the program.
    pub version: String,
    /// Facts about the machine, as in the record of a run.
    pub machine: BTreeMap<String, String>,
    /// Start time, in seconds since the Unix epoch.
    pub started: f64,
}

/// How requests are generated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum LoopKind {
    /// Users that wait for their responses, and pause between pages as planned.
    Closed {
        /// Number of users.
        users: u32,
    },
    /// Requests at instants that do not depend on responses.
    Open {
        /// The arrival process in words, as in `constant 1000/s`.
        arrivals: String,
        /// The mean rate of arrivals over the measured window. The unit is sessions per second, or exchanges per second
        /// if the plan has one target.
        rate: f64,
        /// The largest number of connections.
        connections: u32,
        /// The number of requests that arrive at the same instant; `None` if each request arrives separately.
        batch: Option<NonZeroU32>,
    },
}

/// The events within a window. An exchange belongs to the window in which it was planned, even if it ended in another
/// window.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Window {
    /// The length of the window.
    pub duration: Duration,
    /// Counts of exchanges, connections, pages and sessions.
    pub counts: Counts,
    /// Bytes on the connections.
    pub bytes: ByteCounts,
    /// The duration of each phase.
    pub latency: Latency,
    /// The exchanges that ended within the window, and the connections that were established within it.
    pub ended: Ended,
    /// The connections within the window.
    pub connections: Connections,
    /// TLS handshakes that completed within the window.
    pub handshakes: Handshakes,
    /// HTTP/2 frames on connections within the window.
    pub frames: Frames,
    /// QUIC datagrams within the window.
    pub datagrams: Datagrams,
    /// Total time for which users of a closed loop paused in the window. Two users that pause for the whole window
    /// count twice its length.
    pub paused: Duration,
}

/// Connections within a window. They may have been established earlier; the number established in the window is
/// [`Ended::connected`].
///
/// A connection's lifetime lasts from its establishment until this side closes it or detects that it is closed. If most
/// connections outlive the test, `life` does not contain their lifetimes, but `open` and `idle` contain the part in the
/// window. If the window is much longer than a lifetime, the mean lifetime is `open` divided by the number of
/// established connections (Little's law).
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Connections {
    /// Connections closed by this side: it had no more requests, or its policy required it.
    pub closed_by_client: u64,
    /// Connections closed by the server, or by this side because the server had announced it.
    pub closed_by_server: u64,
    /// Connections that ended by a failure: a reset, a time-out, or an invalid response.
    pub failed: u64,
    /// Total time for which connections were open. Two connections that are open for the whole window count twice its
    /// length.
    pub open: Duration,
    /// The part of that time in which no request was in flight on the connection.
    pub idle: Duration,
    /// The lifetimes of the connections that ended.
    pub life: Distribution,
    /// The number of completed exchanges on each connection that ended.
    pub exchanges: Numbers,
}

impl Connections {
    /// Number of connections that ended, for any reason.
    pub fn ended(&self) -> u64 {
        self.closed_by_client + self.closed_by_server + self.failed
    }

    /// The share of the open time in which no request was in flight, 0 to 1; `None` if no connection was open.
    pub fn idle_share(&self) -> Option<f64> {
        (!self.open.is_zero()).then(|| self.idle.as_secs_f64() / self.open.as_secs_f64())
    }

    /// Adds the figures of another thread for the same window.
    pub fn merge(&mut self, other: &Connections) {
        self.closed_by_client += other.closed_by_client;
        self.closed_by_server += other.closed_by_server;
        self.failed += other.failed;
        self.open += other.open;
        self.idle += other.idle;
        self.life.merge(&other.life);
        self.exchanges.merge(&other.exchanges);
    }
}

/// The exchanges that ended within a window, even if they were planned before it. Rates use these numbers. Under
/// overload, fewer exchanges end in a window than are planned in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Exchanges whose response was completed, with any status.
    pub completed: u64,
    /// Completed exchanges with a status of 400 and above.
    pub status_errors: u64,
    /// Exchanges that failed.
    pub failed: u64,
    /// Response bytes of the completed exchanges, headers and content as transferred.
    pub received: Bytes,
    /// Response content of completed exchanges with a status below 400, without transfer coding: the bytes of goodput.
    pub useful: Bytes,
    /// Connections established.
    pub connected: u64,
    /// The time of the last complete response, from the start of the window, if the server stopped responding. After
    /// this time, all exchanges that ended failed, or no exchange ended for a long time.
    pub silent_from: Option<Duration>,
}

/// Counts of a window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Planned exchanges; in a closed loop, exchanges that users began.
    pub planned: u64,
    /// Exchanges whose request was passed to the transport.
    pub sent: u64,
    /// Exchanges whose response was completed, with any status.
    pub completed: u64,
    /// Final status codes of the completed exchanges.
    pub statuses: BTreeMap<u16, u64>,
    /// Exchanges that failed, by reason.
    pub failures: BTreeMap<Failure, u64>,
    /// Exchanges neither completed nor failed at the end of the drain.
    pub unfinished: u64,
    /// Responses whose content length differs from the plan.
    pub wrong_size: u64,
    /// Requests that were retried because their connection ended before a response.
    pub retried: u64,
    /// Connections attempted.
    pub connects: u64,
    /// Connections established.
    pub connected: u64,
    /// Connections that could not be established, by reason.
    pub connect_failures: BTreeMap<Failure, u64>,
    /// Pages of which every exchange completed.
    pub pages: u64,
    /// Connections that users of a closed loop established for completed pages.
    pub page_connections: u64,
    /// Pages with a failed exchange.
    pub pages_failed: u64,
    /// Sessions that finished.
    pub sessions: u64,
}

impl Counts {
    /// Number of failed exchanges.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Number of complete responses with a status of 400 and above.
    pub fn status_errors(&self) -> u64 {
        self.statuses.range(400..).map(|(_, count)| count).sum()
    }

    /// A warning if most responses with status 200 have a content length that differs from the plan, because the server
    /// has other files. `None` if at least half of them have the planned length.
    pub fn size_mismatch(&self) -> Option<String> {
        let sound = self.statuses.get(&200).copied().unwrap_or(0);
        (2 * self.wrong_size > sound && self.wrong_size > 0).then(|| {
            format!(
                "{} of {sound} responses with status 200 have another size than in the workload: the server has \
                 other files. Use the same workload and the same --seed on both sides, as in `serve --site W --seed S` \
                 and `load --workload W --seed S`",
                self.wrong_size
            )
        })
    }

    /// Number of failures, and of responses with a status of 400 and above.
    pub fn errors(&self) -> u64 {
        self.failed() + self.status_errors()
    }
}

/// Bytes above TCP, and above TLS if it is used; for HTTP/3, bytes of QUIC streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteCounts {
    /// Request header sections as transferred; for HTTP/2 and HTTP/3, the frames that carry them, including frame
    /// headers.
    pub request_heads: Bytes,
    /// Names and values of request header fields before compression; equal to `request_heads` without compression.
    pub request_fields: Bytes,
    /// Request content.
    pub request_bodies: Bytes,
    /// Response header sections as transferred, including interim responses.
    pub response_heads: Bytes,
    /// Names and values of response header fields before compression; equal to `response_heads` without compression.
    pub response_fields: Bytes,
    /// Response content with its transfer coding.
    pub response_bodies: Bytes,
    /// Response content without its transfer coding.
    pub content: Bytes,
    /// Received bytes of the responses of failed exchanges, headers and content as transferred. All other members count
    /// only complete responses.
    pub failed_responses: Bytes,
}

impl ByteCounts {
    /// The savings from header compression, for requests and for responses: 1 minus the ratio of transferred bytes to
    /// uncompressed bytes. A negative value means that the headers grew. `None` if headers are not compressed.
    pub fn savings(&self) -> Option<(f64, f64)> {
        let heads = (self.request_heads, self.response_heads);
        let fields = (self.request_fields, self.response_fields);
        let saved = |heads: Bytes, fields: Bytes| match fields.0 {
            0 => 0.0,
            before => 1.0 - heads.0 as f64 / before as f64,
        };
        (heads != fields).then(|| (saved(heads.0, fields.0), saved(heads.1, fields.1)))
    }
}

/// The duration of each phase. Failed exchanges count in `corrected` and `uncorrected` with the time until they failed,
/// so a time-out counts as a long response time.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Latency {
    /// From the planned instant to the last byte.
    pub corrected: Distribution,
    /// From the request's first byte to the response's last byte.
    pub uncorrected: Distribution,
    /// From the planned instant until a connection was free.
    pub queue: Distribution,
    /// From a free connection until the first byte was passed to the transport: the delay of the generator.
    pub send_lag: Distribution,
    /// From the connection attempt to the established connection, without TLS.
    pub connect: Distribution,
    /// From the established connection to the end of its TLS handshake.
    pub tls: Distribution,
    /// From the request's first byte to the response's first byte.
    pub first_byte: Distribution,
    /// From the response's first byte to its last byte.
    pub transfer: Distribution,
    /// From the start of a page to its last byte, including connecting.
    pub page: Distribution,
    /// From the planned instant to the failure, for failed exchanges.
    pub failed: Distribution,
}

/// An interval of the timeline, initially one second long.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The start of the interval, from the start of the test.
    pub start: Duration,
    /// The length of the interval.
    pub length: Duration,
    /// Exchanges planned in the interval.
    pub planned: u64,
    /// Exchanges completed in the interval.
    pub completed: u64,
    /// Exchanges that failed in the interval, and responses with a status of 400 and above.
    pub errors: u64,
    /// Response bytes in the interval.
    pub received: Bytes,
    /// Corrected latency of the exchanges that ended in the interval: median, 90th and 99th percentile, maximum.
    pub latency: [Option<Duration>; 4],
    /// Connections open at the end of the interval.
    pub connections: u64,
    /// 99th percentile of the send lag in the interval.
    pub send_lag_p99: Option<Duration>,
}

/// Numbers of requests for a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetCount {
    /// The method and the request target, as in `GET /a.html`.
    pub target: String,
    /// Complete responses with a status below 400.
    pub completed: u64,
    /// Requests that failed, or whose response had a status of 400 and above.
    pub failed: u64,
}

/// The use of a workload's sequence of pages, counted from the start of the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceUse {
    /// The length of the sequence in pages.
    pub pages: u64,
    /// Number of requested pages. If it exceeds the length, the sequence was repeated.
    pub requested: u64,
}

impl SequenceUse {
    /// The number of times that the whole sequence was requested.
    pub fn times(&self) -> f64 {
        self.requested as f64 / self.pages.max(1) as f64
    }
}

/// The state of the generator itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// CPU time in user mode, over the measured window.
    pub cpu_user: Duration,
    /// CPU time in the kernel, over the measured window.
    pub cpu_system: Duration,
    /// The state of each thread.
    pub workers: Vec<WorkerHealth>,
    /// The peak memory use.
    pub peak_memory: Bytes,
    /// The largest number of open descriptors, and the limit on it.
    pub descriptors: (u64, u64),
    /// Connections that failed because no local port was free.
    pub ports_exhausted: u64,
    /// Share of the machine's CPU time that the hypervisor gave to other guests, 0 to 1.
    pub steal: f64,
    /// Number of earlier windows that were repeated, because they were INVALID due to noise on this machine.
    pub repeated: u32,
}

impl Generator {
    /// CPU time spent busy-waiting before planned instants, over all threads.
    pub fn busy_waited(&self) -> Duration {
        self.workers.iter().map(|worker| worker.busy_waited).sum()
    }
}

/// The state of one thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerHealth {
    /// Share of the measured window in which the thread was not waiting, 0 to 1.
    pub busy: f64,
    /// Longest time between two waits. An event may have waited for the thread for this time.
    pub longest_turn: Duration,
    /// Share of the measured window in which the thread delayed wake-ups so that several responses are read at once, 0
    /// to 1. It counts as waiting.
    pub rested: f64,
    /// The mean latency with delayed wake-ups divided by the mean latency without, in the last comparison; `None`
    /// without a comparison.
    pub rest_latency_ratio: Option<f64>,
    /// Time of the measured window in which the thread busy-waited before planned instants. It counts as waiting,
    /// because it serves no exchange.
    pub busy_waited: Duration,
    /// Median time by which a sleep exceeded its requested length; `None` if no exchange had a planned instant.
    pub wake_up_latency: Option<Duration>,
}
