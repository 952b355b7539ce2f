//! The parts of a result.

use std::collections::BTreeMap;
use std::time::Duration;

use fathometer_model::{Bytes, Failure, Seed, Validity};

use super::server::ServerProbes;
use super::{Datagrams, Distribution, Frames, Handshakes, Numbers};

/// All that a load test measured.
#[derive(Debug, Clone)]
pub struct LoadResult {
    /// What was asked of whom.
    pub setup: Setup,
    /// The steady state: what the figures are about.
    pub measured: Window,
    /// What happened before it, when there was a warm-up.
    pub warm_up: Option<Window>,
    /// What was still under way when it ended, until that was done or given up.
    pub drain: Option<Window>,
    /// The course of it all, from the start of the warm-up to the end of the drain.
    pub timeline: Vec<Interval>,
    /// Exchanges of the measured window by target, when there is more than one and they were asked for.
    pub targets: Vec<TargetCount>,
    /// Lines or entries of the workload's source that are not requested: how many, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// How much of the workload's sequence of pages was requested, when it has one.
    pub sequence: Option<SequenceUse>,
    /// How the generator itself fared.
    pub generator: Generator,
    /// What probes saw of the server's machine, when they were asked to look.
    pub server: Option<ServerProbes>,
    /// Whether the figures may be believed.
    pub validity: Validity,
}

/// What was asked of whom.
#[derive(Debug, Clone, PartialEq)]
pub struct Setup {
    /// Where the load went, as in `http://127.0.0.1:8080/`.
    pub url: String,
    /// The workload's name; the path for a single URL.
    pub workload: String,
    /// The connection policy, as in `h1.1-pipeline16`.
    pub policy: String,
    /// How requests come about.
    pub kind: LoopKind,
    /// Threads of the generator, an event loop each.
    pub threads: u32,
    /// Time before the measured window.
    pub warm_up: Duration,
    /// Length asked for, when it was a time that was asked for.
    pub duration: Option<Duration>,
    /// Exchanges asked for, when it was a count.
    pub exchanges: Option<u64>,
    /// How long an exchange may take.
    pub timeout: Duration,
    /// Longest time that a wake-up of the generator is delayed so that several responses are read at once; zero is off.
    pub wake_up_coalescing: Duration,
    /// Where everything random came from.
    pub seed: Seed,
    /// Settings nobody asked for, each with its value: every default is part of the result.
    pub defaults: Vec<(String, String)>,
    /// The command line, program first.
    pub command: Vec<String>,
    /// The program's version.
    pub version: String,
    /// Facts about the machine, as in a run.
    pub machine: BTreeMap<String, String>,
    /// Start, in seconds since the Unix epoch.
    pub started: f64,
}

/// How requests come about.
#[derive(Debug, Clone, PartialEq)]
pub enum LoopKind {
    /// Users that wait for their answers: `users` of them, each pausing between pages as the plan
    /// says.
    Closed {
        /// How many.
        users: u32,
    },
    /// Requests that come when they come.
    Open {
        /// Their process in words, as in `constant 1000/s`.
        arrivals: String,
        /// Their mean rate over the measured window, in sessions (single exchanges, when the plan
        /// has one target) a second.
        rate: f64,
        /// The most connections.
        connections: u32,
    },
}

/// What happened in a stretch of time. An exchange belongs to the window that it was planned in,
/// in whichever it ended.
#[derive(Debug, Clone, Default)]
pub struct Window {
    /// How long it was.
    pub duration: Duration,
    /// How much of what.
    pub counts: Counts,
    /// Octets on the connections.
    pub octets: Octets,
    /// How long everything took.
    pub latency: Latency,
    /// What came to its end while it lasted.
    pub ended: Ended,
    /// What became of connections while it lasted.
    pub connections: Connections,
    /// TLS handshakes that were completed while it lasted.
    pub handshakes: Handshakes,
    /// What HTTP/2 put on connections while it lasted.
    pub frames: Frames,
    /// What QUIC put on the wire while it lasted.
    pub datagrams: Datagrams,
}

/// What became of connections while a window lasted, whenever they were established. How many were
/// established in it is [`Ended::connected`].
///
/// A connection's life is from when it was established until this side has closed it, or has learnt
/// that it is gone. Most connections of a test may outlive it: their lives are not in `life`, but
/// `open` and `idle` have the part that lies in the window. By Little's law `open` over the number of
/// those established is their mean life, once the window is long against it.
#[derive(Debug, Clone, Default)]
pub struct Connections {
    /// Closed by this side: it had no more to ask, or its policy said so.
    pub closed_by_client: u64,
    /// Closed by the server, or by this side because the server had said that it would.
    pub closed_by_server: u64,
    /// Ended by a failure: reset, out of time, or an answer that cannot be followed.
    pub failed: u64,
    /// The time that connections were open, all together: two that are open for a whole window make
    /// twice its length.
    pub open: Duration,
    /// The part of that time in which nothing was asked on them.
    pub idle: Duration,
    /// The lives of those that ended.
    pub life: Distribution,
    /// How many exchanges were completed on each of those that ended.
    pub exchanges: Numbers,
}

impl Connections {
    /// How many ended, for whatever reason.
    pub fn ended(&self) -> u64 {
        self.closed_by_client + self.closed_by_server + self.failed
    }

    /// The share of the time of all connections in which nothing was asked on them, 0 to 1; `None`
    /// when none was open.
    pub fn idle_share(&self) -> Option<f64> {
        (!self.open.is_zero()).then(|| self.idle.as_secs_f64() / self.open.as_secs_f64())
    }

    /// Adds what happened elsewhere in the same window.
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

/// What came to its end while a window lasted, in whichever it was planned: what rates are made of.
/// Under overload that is less than what was planned in it and came later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ended {
    /// Exchanges whose response came whole, whatever its status.
    pub completed: u64,
    /// Those with a status of 400 and above.
    pub status_errors: u64,
    /// Exchanges that failed.
    pub failed: u64,
    /// Response octets of the completed, heads and content as transferred.
    pub received: Bytes,
    /// Response content of those with a status below 400, without transfer coding: goodput's octets.
    pub useful: Bytes,
    /// Connections established.
    pub connected: u64,
    /// When the last response came whole, from the start of the window, where everything that ended after it failed
    /// or was never answered, and that for long: the server had stopped answering.
    pub silent_from: Option<Duration>,
}

/// Counts of a window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Exchanges the plan asked for (in a closed loop: that users began).
    pub planned: u64,
    /// Exchanges whose request was handed to the transport.
    pub sent: u64,
    /// Exchanges whose response came whole, whatever its status.
    pub completed: u64,
    /// Final status codes of those.
    pub statuses: BTreeMap<u16, u64>,
    /// Exchanges that failed, by reason.
    pub failures: BTreeMap<Failure, u64>,
    /// Exchanges neither completed nor failed when the drain was over.
    pub unfinished: u64,
    /// Responses whose content had another length than the plan says.
    pub wrong_size: u64,
    /// Requests that were made once more because their connection ended before any answer.
    pub retried: u64,
    /// Connections asked for.
    pub connects: u64,
    /// Connections established.
    pub connected: u64,
    /// Connections that could not be established, by reason.
    pub connect_failures: BTreeMap<Failure, u64>,
    /// Pages of which every exchange completed.
    pub pages: u64,
    /// Connections that users of a closed loop established for those.
    pub page_connections: u64,
    /// Pages of which one failed.
    pub pages_failed: u64,
    /// Sessions that came to their end.
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

    /// What to say when responses have wholesale another length than planned: the server has other files. `None`
    /// when at least half of the responses with status 200 have the planned length.
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

/// Octets above TCP, and above TLS where there is TLS; of HTTP/3 those of QUIC's streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Octets {
    /// Request heads as transferred: of HTTP/2 and HTTP/3 the frames that carry them, their own
    /// heads included.
    pub request_heads: Bytes,
    /// Names and values of the fields of request heads before compression; the same as
    /// `request_heads` where nothing is compressed.
    pub request_fields: Bytes,
    /// Request content.
    pub request_bodies: Bytes,
    /// Response heads as transferred, interim responses included.
    pub response_heads: Bytes,
    /// As `request_fields`, of response heads.
    pub response_fields: Bytes,
    /// Response content with its transfer coding.
    pub response_bodies: Bytes,
    /// Response content without its transfer coding.
    pub content: Bytes,
    /// Responses of exchanges that failed, as far as they came: heads and content as transferred. The figures
    /// above are of responses that came whole.
    pub failed_responses: Bytes,
}

impl Octets {
    /// What compression saved of heads, requests' and responses': 1 less what was transferred over what
    /// there was before, each below 1, and negative where heads grew. `None` where heads are not
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

/// How long everything took. Failed exchanges are in `corrected` and `uncorrected` with the time
/// until they failed: a time-out is a long answer, not none.
#[derive(Debug, Clone, Default)]
pub struct Latency {
    /// From the plan's instant to the last octet.
    pub corrected: Distribution,
    /// From the request's first octet to the response's last.
    pub uncorrected: Distribution,
    /// From the plan's instant until a connection was free for it.
    pub queue: Distribution,
    /// From then until its first octet was handed to the transport: the generator's own lateness.
    pub send_lag: Distribution,
    /// From asking for a connection to having it, TLS left out.
    pub connect: Distribution,
    /// From having a connection to being able to ask over TLS on it.
    pub tls: Distribution,
    /// From the request's first octet to the response's first.
    pub first_byte: Distribution,
    /// From the response's first octet to its last.
    pub transfer: Distribution,
    /// From the start of a page to its last octet, connecting included.
    pub page: Distribution,
    /// From the plan's instant to the failure, of those that failed.
    pub failed: Distribution,
}

/// A stretch of the course, a second long at first.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Its start, from the start of the test.
    pub start: Duration,
    /// Its length.
    pub length: Duration,
    /// Exchanges planned in it.
    pub planned: u64,
    /// Exchanges completed in it.
    pub completed: u64,
    /// Exchanges that failed in it, and responses of status 400 and above.
    pub errors: u64,
    /// Response octets in it.
    pub received: Bytes,
    /// Corrected latency of what ended in it: median, 90th and 99th percentile, maximum.
    pub latency: [Option<Duration>; 4],
    /// Connections open at its end.
    pub connections: u64,
    /// 99th percentile of the send lag in it.
    pub send_lag_p99: Option<Duration>,
}

/// How often a target was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetCount {
    /// Method and request target, as in `GET /a.html`.
    pub target: String,
    /// Responses that came whole, with a status below 400.
    pub completed: u64,
    /// Requests that failed, or whose response had a status of 400 and above.
    pub failed: u64,
}

/// How much of a workload's sequence of pages was requested, from the start of the warm-up on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceUse {
    /// Its length in pages.
    pub pages: u64,
    /// Pages requested; beyond the length, the sequence was begun again.
    pub requested: u64,
}

impl SequenceUse {
    /// How often the whole sequence was requested.
    pub fn times(&self) -> f64 {
        self.requested as f64 / self.pages.max(1) as f64
    }
}

/// How the generator itself fared.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Generator {
    /// Processor time in its own code, over the measured window.
    pub cpu_user: Duration,
    /// Processor time in the kernel on its behalf, over the measured window.
    pub cpu_system: Duration,
    /// Each thread.
    pub workers: Vec<WorkerHealth>,
    /// The most memory it ever held.
    pub peak_memory: Bytes,
    /// The most descriptors it had open, and how many it may have.
    pub descriptors: (u64, u64),
    /// Connections that failed because no local address and port was left.
    pub ports_exhausted: u64,
    /// Share of the machine's processor time that the hypervisor gave to others, 0 to 1.
    pub steal: f64,
    /// Windows before this one that the noise of this machine made INVALID, and that were repeated for that.
    pub repeated: u32,
}

impl Generator {
    /// Processor time spent busy-waiting before planned instants, of all threads.
    pub fn busy_waited(&self) -> Duration {
        self.workers.iter().map(|worker| worker.busy_waited).sum()
    }
}

/// How one thread fared.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct WorkerHealth {
    /// Share of the measured window that it was not waiting, 0 to 1.
    pub busy: f64,
    /// Longest time between two waits: how long anything could have waited for it.
    pub longest_turn: Duration,
    /// Share of the measured window in which it delayed wake-ups so that responses came together, 0 to 1; part of
    /// what it was waiting.
    pub rested: f64,
    /// The mean latency with delayed wake-ups in units of that without, as it was compared last; `None` where nothing
    /// was compared.
    pub rest_latency_ratio: Option<f64>,
    /// Time of the measured window in which it busy-waited before planned instants: processor time that no exchange
    /// needed, and part of what it was waiting.
    pub busy_waited: Duration,
    /// Median time by which a sleep lasted longer than asked for; `None` where nothing was planned for an instant.
    pub wake_up_latency: Option<Duration>,
}
