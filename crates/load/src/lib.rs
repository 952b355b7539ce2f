//! The load engine: applies a plan to a server and measures the result.
//!
//! [`run`] starts a thread for each event loop. Threads share only a few counters (which page is next, how many
//! exchanges may still be planned); their histograms are merged at the end. A loop hosts the protocol machines
//! of [`fathometer_http::client`] on kernel sockets. Sockets are watched edge-triggered and never re-armed. A
//! request leaves with one write in the same step that read the previous response. Requests of one step leave
//! together. Once a loop is warm, no exchange allocates memory.
//!
//! # Closed loop
//! A user requests a page, then all members of it, then pauses as the plan says and continues. Connections
//! belong to the user. They are opened when first needed, as many as the [`Policy`] allows, and are kept
//! through the session unless the policy or the server ends them. They are closed when the session is over
//! (after its last pause).
//!
//! The base is fetched completely before anything else. The other members are requested in order, when the
//! member that names them is complete. Serially, each connection takes the next one when it is free; pipelined,
//! all are written at once, in turn over the connections. A member is not requested if the member that names it
//! failed. Where pages have one member, sessions do not end and there are no pauses, a pipelining policy would
//! have nothing to fill its pipelines with. Then a user keeps every pipeline full, and each exchange is a page
//! of its own.
//!
//! After a connection that could not be established a user waits [`CONNECT_PAUSE`] before it continues.
//! (WebStone continues at once, which makes a server that refuses connections look very busy.)
//!
//! A response wakes the loop, is read, and the next request leaves: nothing is delayed, and nothing waits for
//! others. Wake-up coalescing ([`Options::coalescing`]) changes that, and is off by default. With it an idle loop
//! sleeps for a bounded time instead of being woken by the next response, so that several responses are read
//! together. The delay is at most [`Options::coalescing`] and at most half of the mean latency. There is none where
//! fewer than two responses are expected in it. Responses are then noticed late by up to the delay, and the
//! requests that sixteen responses lead to are written after all sixteen were read. On a saturated server the
//! mean latency does not change, by Little's law, but the percentiles do. Elsewhere latencies are
//! over-reported: periods with and without delays are compared. Delays that raise the mean latency by more than
//! 2 % are not started; delays that raise it by more than 4 % are stopped.
//!
//! # Who closes connections
//! The server may close at any time. This side closes a connection:
//!
//! - when a session is over;
//! - at the end of each page under a policy with `early-close`;
//! - when the connection has carried [`Options::max_requests`];
//! - when it was idle for [`Options::keep_alive`], at that very time and not at its next use.
//!
//! The next request opens another connection. The time that takes is part of its latencies (as *queue*), as it
//! is for a user. None of that is a failure.
//!
//! # Open loop
//! Sessions begin when [`Arrivals`] says. Thread *i* mod *threads* carries out arrival *i*, over connections
//! that all arrivals of a thread share; the most recently used connection is taken first. An arrival that finds
//! no free connection waits, and its latency still counts from its planned instant. A session that the plan
//! does not end is one page.
//!
//! # TLS and HTTP/2
//! Where the policy has TLS, a connection is established when its handshake is complete. The handshake's
//! duration is a phase of its own beside connecting. Streams of HTTP/2 take the place of a pipeline. A user
//! assigns the members of a page to streams of its connection, within both sides' limits. It keeps a number of
//! streams full where the policy sets one and there is nothing to wait for. An exchange that times out ends its
//! stream; the connection continues, unless nothing at all has arrived on it since. A request that the server
//! reports as not processed (GOAWAY, REFUSED_STREAM) is retried. With several hosts the members of a page are
//! distributed over them in turn; the base goes to the first.
//!
//! # HTTP/3
//! The same over QUIC, each connection with a socket of its own. Connecting includes the TLS handshake, so
//! there is one time for both. If a loop is too slow to fetch datagrams, the kernel discards them. No path
//! caused these losses: they make a result INVALID.
//!
//! # Which instants count
//! *planned* is the plan's instant: in a closed loop the end of the pause, or of the response that named the
//! member. *due* is when the exchange was planned and a connection was free. *sent* is when its first byte was
//! handed to the kernel. An exchange belongs to the window that it was planned in. When the time is over
//! nothing more is planned, and exchanges in flight are waited for, up to [`Options::drain`]. Exchanges that
//! are then left are *unfinished* and enter the latencies with the time they have waited. Failures enter with
//! the time until they failed. [`Options::timeout`] counts from *planned*, whatever the exchange waits for: a
//! connection, a stream, the window of a connection, or the response. A wait that the server causes (no stream
//! allowed, bytes not read) moves *due* and is no send lag.
//!
//! A request is retried when a connection that has served before ends before the first byte of the response, if
//! the request may be repeated. Its instants stay those of the first attempt.

mod activity;
pub mod client;
mod coalescing;
pub mod connection_check;
mod connections;
mod context;
mod exchange;
mod frames;
mod health;
mod host_names;
pub mod http3_client;
pub mod interleaved;
mod nanos;
mod quic_plan;
mod recorder;
pub mod request_fields;
mod run;
pub mod secrets;
pub mod security;
pub mod server_probes;
mod sessions;
mod share;
mod shared;
mod spin;
mod tally;
pub mod timeline;
mod timers;
mod turns;
pub mod url;
pub mod user_steps;
mod waiting;
mod worker;
pub mod workload;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fathometer_analysis::load::{Counts, Interval};
use fathometer_http::driver::{Policy, Protocol};
use fathometer_http::h1::client::SendError;
use fathometer_model::{Instant, Seed};
use fathometer_sys::SocketOptions;
use fathometer_tls::ClientSettings;
use fathometer_workload::arrivals::Arrivals;
use fathometer_workload::plan::Plan;

pub use health::is_noise;
pub use host_names::without_port;
pub use recorder::{Recorder, RecorderError};
pub use run::run;
pub use share::Share;
pub use shared::cannot;

use fathometer_quic_sockets::UdpOffload;

/// How long a user of a closed loop waits after a connection could not be established.
pub const CONNECT_PAUSE: Duration = Duration::from_millis(10);

/// The most intervals of a timeline; beyond that, neighbours are merged.
pub const MOST_INTERVALS: usize = 1024;

/// The quantiles of [`Live::corrected`]; the last is the maximum.
pub const LIVE_QUANTILES: [f64; 6] = [0.5, 0.9, 0.95, 0.99, 0.999, 1.0];

/// The options of a load test.
pub struct Options {
    /// The server's address.
    pub address: SocketAddr,
    /// The server's name, for TLS, and for the `Host` field where [`Options::host_field`] is not set.
    pub host: String,
    /// The `Host` field (`:authority`), if it differs from the name.
    pub host_field: Option<String>,
    /// What is requested.
    pub plan: Arc<Plan>,
    /// The users of a closed loop or the arrivals of an open one.
    pub users: Users,
    /// How connections are used. Policies that the engine cannot carry out (pushes, ranges; several hosts in an
    /// open loop) are refused.
    pub policy: Policy,
    /// Which certificates to trust and what to negotiate; required where the policy has TLS.
    pub tls: Option<Arc<ClientSettings>>,
    /// Flow-control windows that servers get in HTTP/2 and HTTP/3.
    pub windows: Windows,
    /// The UDP offloads that HTTP/3 uses.
    pub udp_offload: UdpOffload,
    /// Additional fields of every request.
    pub fields: Vec<(String, String)>,
    /// The longest time for an exchange, from the planned instant to the last byte received.
    pub timeout: Duration,
    /// The longest time for connecting.
    pub connect_timeout: Duration,
    /// Time before the measured window, with the same load; its exchanges are counted apart.
    pub warm_up: Duration,
    /// How long the measured window is.
    pub limit: Limit,
    /// The longest wait for exchanges in flight at the end of a measured time. With a limit on exchanges, each
    /// one is waited for until it is complete or has failed.
    pub drain: Duration,
    /// The number of event loops, one thread each; at most the number of users or connections.
    pub threads: usize,
    /// Pins each thread to a processor of its own, the first thread to this one of those that the process may use
    /// (counted from 0, modulo their number).
    pub pin: Option<usize>,
    /// Whether the loops of an open loop run before other programs of this host (niceness -20) where the system
    /// allows it: a request is late by as long as another program keeps its processor. Closed loops ignore it,
    /// because their users wait for the server anyway.
    pub before_others: bool,
    /// The longest time that a loop may busy-wait before a planned instant. It busy-waits at most for the
    /// median wake-up latency, and not at all where threads of this machine wait for a processor (`spin.rs`).
    /// Zero: the loop only sleeps, and the send lag includes the wake-up latency.
    pub spin: Duration,
    /// Wake-up coalescing of a closed loop: the longest time by which a wake-up is delayed so that several
    /// responses are read together, see the [module](self). Zero, the default: each response wakes the loop.
    pub coalescing: Duration,
    /// The limit of the send lag's 99th percentile; above it the result is INVALID. A tenth of the median
    /// latency is accepted in any case.
    pub send_lag: Duration,
    /// The seed of all random decisions.
    pub seed: Seed,
    /// The part of the test that this process carries out. All other options describe the whole test: users,
    /// connections and a limit on exchanges are split over the ranks.
    pub share: Share,
    /// The number of requests after which this side closes a connection, as soon as all of them are answered;
    /// `None`: no limit.
    pub max_requests: Option<u32>,
    /// How long a connection may be idle before this side closes it; `None`: forever.
    pub keep_alive: Option<Duration>,
    /// The options of the sockets.
    pub sockets: SocketOptions,
    /// Whether this side resets connections instead of closing them, so that no local port stays in TIME_WAIT.
    pub reset_on_close: bool,
    /// Whether exchanges are counted for each target.
    pub count_targets: bool,
    /// The length of an interval of the timeline.
    pub interval: Duration,
    /// Receives a row for every exchange.
    pub recorder: Option<Box<dyn Recorder>>,
    /// The other ranks, where there are any.
    pub ensemble: Option<Box<dyn Ensemble>>,
}

/// The other ranks of a test, from the point of view of one of them.
pub trait Ensemble: Send {
    /// All loops of this rank are ready. Waits for the other ranks, and returns the instant of this rank's clock at
    /// which all of them start. It should be in the future.
    ///
    /// # Errors
    /// If the test does not start, with the reason.
    fn start(&mut self) -> Result<Instant, String>;

    /// The figures of this rank in one interval. Intervals come in their order.
    fn interval(&mut self, part: &timeline::Part);
}

impl Options {
    /// A closed loop of ten users over persistent connections for ten seconds.
    pub fn new(address: SocketAddr, host: impl Into<String>, plan: Arc<Plan>) -> Options {
        Options {
            address,
            host: host.into(),
            host_field: None,
            plan,
            users: Users::closed(10),
            policy: Policy::plain(Protocol::usual(false)),
            tls: None,
            windows: Windows::default(),
            udp_offload: UdpOffload::default(),
            fields: Vec::new(),
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
            warm_up: Duration::ZERO,
            limit: Limit::Time(Duration::from_secs(10)),
            drain: Duration::from_secs(5),
            threads: 1,
            pin: None,
            before_others: true,
            send_lag: health::LAG,
            spin: Duration::ZERO,
            coalescing: Duration::ZERO,
            seed: Seed(crate::workload::SEED),
            share: Share::WHOLE,
            max_requests: None,
            keep_alive: None,
            sockets: SocketOptions {
                no_delay: Some(true),
                ..SocketOptions::default()
            },
            reset_on_close: false,
            count_targets: false,
            interval: Duration::from_secs(1),
            recorder: None,
            ensemble: None,
        }
    }
}

/// The windows of HTTP/2 and HTTP/3 connections, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// A stream's; at most 2^31 − 1.
    pub stream: u32,
    /// A connection's; 65 535 to 2^31 − 1.
    pub connection: u32,
}

/// So large that the server and the path set the pace, as in h2load: 2^30 − 1.
impl Default for Windows {
    fn default() -> Windows {
        Windows {
            stream: (1 << 30) - 1,
            connection: (1 << 30) - 1,
        }
    }
}

/// The users of a closed loop or the arrivals of an open one.
#[derive(Debug, Clone)]
pub enum Users {
    /// Closed loop: users that wait for their responses.
    Closed {
        /// The number of users at the start.
        users: u32,
        /// The time between the starts of two consecutive users.
        start_interval: Duration,
        /// Changes: from each time on (from the start of the test) the number of users. Surplus users end with
        /// their page; new ones start `start_interval` apart.
        steps: Vec<(Duration, u32)>,
    },
    /// Open loop: sessions begin when the plan says, whatever the server does.
    Open {
        /// When sessions begin.
        arrivals: Arrivals,
        /// The most connections.
        connections: u32,
    },
}

impl Users {
    /// This number of users, all from the start on.
    pub fn closed(users: u32) -> Users {
        Users::Closed {
            users,
            start_interval: Duration::ZERO,
            steps: Vec::new(),
        }
    }
}

/// How long the measured window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// A length of time.
    Time(Duration),
    /// Until this number of exchanges have been planned and have ended.
    Exchanges(u64),
}

/// The phase of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before the measured window.
    WarmUp,
    /// In the measured window.
    Measured,
    /// After the measured window, waiting for exchanges in flight.
    Drain,
}

/// The progress of a test.
#[derive(Debug, Clone)]
pub struct Live {
    /// Time since its start, at the end of the last interval.
    pub elapsed: Duration,
    /// Its phase.
    pub phase: Phase,
    /// The last interval.
    pub last: Interval,
    /// Counts of the measured window so far; of the warm-up while that lasts.
    pub so_far: Counts,
    /// Corrected latency since the start of the test, at [`LIVE_QUANTILES`].
    pub corrected: [Option<Duration>; LIVE_QUANTILES.len()],
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A system call that every test needs failed.
    #[error("{0}")]
    System(#[from] fathometer_sys::Error),
    /// A thread could not be started.
    #[error("failed to start a thread: {0}")]
    Thread(io::Error),
    /// The plan has nothing to request.
    #[error("the plan has no {0}")]
    EmptyPlan(&'static str),
    /// A policy that load tests cannot carry out.
    #[error("a load test cannot use the policy {policy}: {why}")]
    Policy {
        /// The policy.
        policy: Policy,
        /// Why.
        why: &'static str,
    },
    /// A request of the plan is invalid.
    #[error("{method} {target:?} cannot be sent: {error}")]
    BadRequest {
        /// Its method.
        method: String,
        /// Its target.
        target: String,
        /// Why.
        error: SendError,
    },
    /// The test needs more descriptors than the limit allows.
    #[error(
        "{needed} descriptors are needed and {limit} are allowed: use fewer users or connections, or raise the \
         limit (`ulimit -n`)"
    )]
    Descriptors {
        /// The number needed.
        needed: u64,
        /// The number allowed.
        limit: u64,
    },
    /// There are neither users nor connections.
    #[error("there must be at least one user or connection for each machine of the test")]
    NoUsers,
    /// An interval of the timeline that is too short.
    #[error("an interval of the timeline must be at least 10 ms long")]
    Interval,
    /// QUIC settings that are not possible.
    #[error("these settings do not allow HTTP/3: {0}")]
    Quic(String),
    /// The test did not start on all machines.
    #[error("{0}")]
    Ensemble(String),
    /// The record could not be written.
    #[error("failed to write the record of exchanges: {0}")]
    Recorder(RecorderError),
}

impl LoadError {
    /// Whether the options are at fault, and not the machine.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            LoadError::Policy { .. } | LoadError::BadRequest { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use fathometer_workload::plan::Target;

    use super::*;

    #[test]
    fn wake_up_coalescing_is_off_by_default() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let plan = Plan::single(Target::get("/", None));
        assert_eq!(
            Options::new(address, "server", Arc::new(plan)).coalescing,
            Duration::ZERO
        );
    }
}
