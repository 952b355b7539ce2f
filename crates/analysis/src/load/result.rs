//! The parts of a result.

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
    /// The steady state, which the figures describe.
    pub measured: Window,
    /// The time before it, when there was a warm-up.
    pub warm_up: Option<Window>,
    /// The exchanges in flight at its end, until they were completed or given up.
    pub drain: Option<Window>,
    /// The timeline of the test, from the start of the warm-up to the end of the drain.
    pub timeline: Vec<Interval>,
    /// Exchanges of the measured window by target, when there is more than one and the output was requested.
    pub targets: Vec<TargetCount>,
    /// Lines or entries of the workload's source that are not requested: their number by reason.
    pub skipped: BTreeMap<String, u64>,
    /// How much of the workload's sequence of pages was requested, when it has one.
    pub sequence: Option<SequenceUse>,
    /// What the users of a closed loop did, which must agree with their number.
    pub user_time: Option<UserTime>,
    /// The state of the generator itself.
    pub generator: Generator,
    /// Each rank of a test on several machines; empty for a test on one.
    pub ranks: Vec<RankFigures>,
    /// What probes measured on the server's machine, when they were requested. Not serialized.
    #[serde(skip)]
    pub server: Option<ServerProbes>,
    /// Whether the figures are valid.
    pub validity: Validity,
}

/// What the users of a closed loop did in the measured window, as mean numbers of users.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct UserTime {
    /// The users that the test had.
    pub users: f64,
    /// Pages that were under way. A user has one at a time, or up to `slots` if it fills pipelines or streams.
    pub busy: f64,
    /// Users that paused.
    pub paused: f64,
    /// The most pages that a user has under way at the same time.
    pub slots: u32,
    /// The largest difference that the edges of the window and the generator's own time explain, as a share of the
    /// users.
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
    /// Time before the measured window.
    pub warm_up: Duration,
    /// The requested length, when a time was requested.
    pub duration: Option<Duration>,
    /// The requested number of exchanges, when a count was requested.
    pub exchanges: Option<u64>,
    /// The time limit of an exchange.
    pub timeout: Duration,
    /// Longest time that a wake-up of the generator is delayed so that several responses are read at once; zero is off.
    pub wake_up_coalescing: Duration,
    /// The seed of all random choices.
    pub seed: Seed,
    /// Settings that were not requested, each with its value: every default is part of the result.
    pub defaults: Vec<(String, String)>,
    /// The command line, program first.
    pub command: Vec<String>,
    /// The program's version.
    pub version: String,
    /// Facts about the machine, as in a run.
    pub machine: BTreeMap<String, String>,
    /// Start time, in seconds since the Unix epoch.
    pub started: f64,
}

/// How requests are generated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum LoopKind {
    /// Users that wait for their responses: `users` of them. Each user pauses between pages as the plan says.
    Closed {
        /// Number of users.
        users: u32,
    },
    /// Requests whose times do not depend on responses.
    Open {
        /// The arrival process in words, as in `constant 1000/s`.
        arrivals: String,
        /// Its mean rate over the measured window, in sessions per second (in single exchanges when the plan
        /// has one target).
        rate: f64,
        /// The largest number of connections.
        connections: u32,
        /// How many requests arrive at the same instant; `None`: each by itself.
        batch: Option<NonZeroU32>,
    },
}

/// The events within a stretch of time. An exchange belongs to the window in which it was planned, whichever
/// window it ended in.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Window {
    /// Its length.
    pub duration: Duration,
    /// Counts of exchanges, connections, pages and sessions.
    pub counts: Counts,
    /// Bytes on the connections.
    pub bytes: ByteCounts,
    /// The duration of each phase.
    pub latency: Latency,
    /// The exchanges and connections that ended or were established within it.
    pub ended: Ended,
    /// The connections within it.
    pub connections: Connections,
    /// TLS handshakes that completed within it.
    pub handshakes: Handshakes,
    /// HTTP/2 frames on connections within it.
    pub frames: Frames,
    /// QUIC datagrams within it.
    pub datagrams: Datagrams,
    /// Time in it for which users of a closed loop paused: two that pause for all of it make twice its length.
    pub paused: Duration,
}

/// Connections within a window, whenever they were established. The number established in it is
/// [`Ended::connected`].
///
/// A connection's life lasts from its establishment until this side closes it or learns that it is closed. Most
/// connections may outlive a test. Their lives are not in `life`, but `open` and `idle` include the part that
/// lies in the window. By Little's law, `open` over the number of established connections is their mean life,
/// if the window is long against it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Connections {
    /// Closed by this side: it had no more requests, or its policy required it.
    pub closed_by_client: u64,
    /// Closed by the server, or by this side because the server had announced it.
    pub closed_by_server: u64,
    /// Ended by a failure: a reset, a time-out, or an invalid response.
    pub failed: u64,
    /// The total time that connections were open: two that are open for a whole window make twice its length.
    pub open: Duration,
    /// The part of that time in which no request was in flight on them.
    pub idle: Duration,
    /// The lives of those that ended.
    pub life: Distribution,
    /// The number of completed exchanges on each of those that ended.
    pub exchanges: Numbers,
}

impl Connections {
    /// Number of connections that ended, for whatever reason.
    pub fn ended(&self) -> u64 {
        self.closed_by_client + self.closed_by_server + self.failed
    }

    /// The share of the open time in which no request was in flight, 0 to 1; `None` when no connection was
    /// open.
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

/// The exchanges that ended within a window, whenever they were planned; the rates are based on these. Under
/// overload they are fewer than those planned in the window, because some end later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Exchanges whose response was completed, whatever its status.
    pub completed: u64,
    /// Exchanges of those with a status of 400 and above.
    pub status_errors: u64,
    /// Exchanges that failed.
    pub failed: u64,
    /// Response bytes of the completed exchanges, heads and content as transferred.
    pub received: Bytes,
    /// Response content of those with a status below 400, without transfer coding: the bytes of goodput.
    pub useful: Bytes,
    /// Connections established.
    pub connected: u64,
    /// The time of the last complete response, from the start of the window, if the server then stopped
    /// responding: for a long time, everything that ended later failed or got no response.
    pub silent_from: Option<Duration>,
}

/// Counts of a window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Exchanges in the plan (in a closed loop: exchanges that users began).
    pub planned: u64,
    /// Exchanges whose request was passed to the transport.
    pub sent: u64,
    /// Exchanges whose response was completed, whatever its status.
    pub completed: u64,
    /// Final status codes of those.
    pub statuses: BTreeMap<u16, u64>,
    /// Exchanges that failed, by reason.
    pub failures: BTreeMap<Failure, u64>,
    /// Exchanges neither completed nor failed at the end of the drain.
    pub unfinished: u64,
    /// Responses whose content length differs from the plan.
    pub wrong_size: u64,
    /// Requests that were retried because their connection ended before any response.
    pub retried: u64,
    /// Connections requested.
    pub connects: u64,
    /// Connections established.
    pub connected: u64,
    /// Connections that could not be established, by reason.
    pub connect_failures: BTreeMap<Failure, u64>,
    /// Pages of which every exchange completed.
    pub pages: u64,
    /// Connections that users of a closed loop established for those pages.
    pub page_connections: u64,
    /// Pages with a failed exchange.
    pub pages_failed: u64,
    /// Sessions that ended.
    pub sessions: u64,
}

impl Counts {
    /// Exchanges that failed.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Complete responses with a status of 400 and above.
    pub fn status_errors(&self) -> u64 {
        self.statuses.range(400..).map(|(_, count)| count).sum()
    }

    /// A warning when most responses have another length than planned: the server has other files. `None` when
    /// at least half of the responses with status 200 have the planned length.
    pub fn size_mismatch(&self) -> Option<String> {
        let sound = self.statuses.get(&200).copied().unwrap_or(0);
        (2 * self.wrong_size > sound && self.wrong_size > 0).then(|| {
            format!(
                "{} of {sound} responses with status 200 have another size than the workload says: the server serves \
                 other files. Use the same workload and the same --seed on both sides, as in `serve --site W --seed S` \
                 and `load --workload W --seed S`",
                self.wrong_size
            )
        })
    }

    /// Failures, and responses with a status of 400 and above.
    pub fn errors(&self) -> u64 {
        self.failed() + self.status_errors()
    }
}

/// Bytes above TCP, and above TLS where there is TLS; for HTTP/3, bytes of QUIC's streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteCounts {
    /// Request heads as transferred; for HTTP/2 and HTTP/3, the frames that carry them, frame headers included.
    pub request_heads: Bytes,
    /// Names and values of the fields of request heads before compression; equal to `request_heads` without
    /// compression.
    pub request_fields: Bytes,
    /// Request content.
    pub request_bodies: Bytes,
    /// Response heads as transferred, interim responses included.
    pub response_heads: Bytes,
    /// The same for response heads.
    pub response_fields: Bytes,
    /// Response content with its transfer coding.
    pub response_bodies: Bytes,
    /// Response content without its transfer coding.
    pub content: Bytes,
    /// Responses of failed exchanges, as far as they arrived: heads and content as transferred. The figures
    /// above are of complete responses.
    pub failed_responses: Bytes,
}

impl ByteCounts {
    /// The savings by compression of heads, for requests and for responses: 1 minus the ratio of transferred
    /// bytes to uncompressed bytes. Each is below 1, and negative where heads grew. `None` when heads are not
    /// compressed.
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

/// The duration of each phase. Failed exchanges are in `corrected` and `uncorrected`, with the time until they
/// failed: a time-out counts as a long response time.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Latency {
    /// From the planned instant to the last byte.
    pub corrected: Distribution,
    /// From the request's first byte to the response's last byte.
    pub uncorrected: Distribution,
    /// From the planned instant until a connection was free for it.
    pub queue: Distribution,
    /// From then until its first byte was passed to the transport: the generator's own delay.
    pub send_lag: Distribution,
    /// From the request for a connection to its establishment, without TLS.
    pub connect: Distribution,
    /// From the established connection to the end of the TLS handshake on it.
    pub tls: Distribution,
    /// From the request's first byte to the response's first byte.
    pub first_byte: Distribution,
    /// From the response's first byte to its last byte.
    pub transfer: Distribution,
    /// From the start of a page to its last byte, connecting included.
    pub page: Distribution,
    /// From the planned instant to the failure, for failed exchanges.
    pub failed: Distribution,
}

/// A stretch of the timeline, one second long at first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its start, from the start of the test.
    pub start: Duration,
    /// Its length.
    pub length: Duration,
    /// Exchanges planned in it.
    pub planned: u64,
    /// Exchanges completed in it.
    pub completed: u64,
    /// Exchanges that failed in it, and responses with a status of 400 and above.
    pub errors: u64,
    /// Response bytes in it.
    pub received: Bytes,
    /// Corrected latency of the exchanges that ended in it: median, 90th and 99th percentile, maximum.
    pub latency: [Option<Duration>; 4],
    /// Connections open at its end.
    pub connections: u64,
    /// 99th percentile of the send lag in it.
    pub send_lag_p99: Option<Duration>,
}

/// Number of requests for a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetCount {
    /// Method and request target, as in `GET /a.html`.
    pub target: String,
    /// Complete responses with a status below 400.
    pub completed: u64,
    /// Requests that failed, or whose response had a status of 400 and above.
    pub failed: u64,
}

/// How much of a workload's sequence of pages was requested, from the start of the warm-up on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SequenceUse {
    /// Its length in pages.
    pub pages: u64,
    /// Pages requested. If this exceeds the length, the sequence was started again.
    pub requested: u64,
}

impl SequenceUse {
    /// How often the whole sequence was requested.
    pub fn times(&self) -> f64 {
        self.requested as f64 / self.pages.max(1) as f64
    }
}

/// The state of the generator itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Generator {
    /// Processor time in its own code, over the measured window.
    pub cpu_user: Duration,
    /// Processor time in the kernel on its behalf, over the measured window.
    pub cpu_system: Duration,
    /// Each thread.
    pub workers: Vec<WorkerHealth>,
    /// The largest memory use.
    pub peak_memory: Bytes,
    /// The largest number of open descriptors, and their limit.
    pub descriptors: (u64, u64),
    /// Connections that failed because no local address and port was left.
    pub ports_exhausted: u64,
    /// Share of the machine's processor time that the hypervisor gave to other guests, 0 to 1.
    pub steal: f64,
    /// Number of earlier windows that were INVALID because of noise on this machine, and were therefore
    /// repeated.
    pub repeated: u32,
}

impl Generator {
    /// Processor time spent busy-waiting before planned instants, over all threads.
    pub fn busy_waited(&self) -> Duration {
        self.workers.iter().map(|worker| worker.busy_waited).sum()
    }
}

/// The state of one thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerHealth {
    /// Share of the measured window that it was not waiting, 0 to 1.
    pub busy: f64,
    /// Longest time between two waits: the longest time that an event could have waited for the thread.
    pub longest_turn: Duration,
    /// Share of the measured window in which it delayed wake-ups so that several responses are read at once, 0
    /// to 1; this counts as waiting.
    pub rested: f64,
    /// The mean latency with delayed wake-ups over that without, as last compared; `None` when nothing was
    /// compared.
    pub rest_latency_ratio: Option<f64>,
    /// Time of the measured window in which it busy-waited before planned instants. This processor time serves
    /// no exchange, and counts as waiting.
    pub busy_waited: Duration,
    /// Median time by which a sleep exceeded its requested length; `None` when nothing was planned for an
    /// instant.
    pub wake_up_latency: Option<Duration>,
}
