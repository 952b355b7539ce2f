//! The load engine: applies a plan to a server and measures the result.
//!
//! [`run`] starts a thread for each event loop. Threads share only a few counters (the next page, the remaining
//! exchanges to plan). Their histograms are merged at the end. A loop runs the protocol state machines of
//! [`fathometer_http::client`] on kernel sockets. Sockets are polled edge-triggered and never re-armed. A request is
//! sent by one write, in the step that read the previous response. Requests of one step are written together. Once a
//! loop is warm, no exchange allocates memory.
//!
//! # Closed loop A user requests all members of a page, pauses for the time in the plan, and continues with the next
//! page. Connections belong to the user. Each is opened when it is first needed, up to the number that the [`Policy`]
//! allows. It stays open for the session unless the policy or the server closes it. The user closes its connections at
//! the end of the session (after its last pause).
//!
//! The base is fetched completely before any other member. The other members are requested in order, each when the
//! member that refers to it is complete. Without pipelining, a free connection takes the next member. With pipelining,
//! all members are written at once and distributed round-robin over the connections. A member is not requested if the
//! member that refers to it failed. A page cannot fill a pipeline if pages have one member, sessions do not end and
//! there are no pauses. A user of a pipelining policy then keeps every pipeline full, and each exchange is a page.
//!
//! If a connection cannot be established, the user waits [`CONNECT_PAUSE`] before it continues. (WebStone continues at
//! once, so it sends many attempts to a server that refuses connections.)
//!
//! By default no step is delayed: a response wakes the loop and is read, and the next request is sent. Wake-up
//! coalescing ([`Options::coalescing`]) changes that, and is off by default. With wake-up coalescing, an idle loop
//! sleeps for a bounded time instead of being woken by the next response, so that several responses are read together.
//! The delay is at most [`Options::coalescing`] and at most half of the mean latency. The loop does not delay if it
//! expects fewer than two responses during the delay. With a delay, responses are read late by up to its length, and
//! sixteen responses are read before the next requests are written. On a saturated server the mean latency does not
//! change, by Little's law, but the percentiles do. On other servers delays would over-report latencies, so periods
//! with and without delays are compared. Delays that raise the mean latency by more than 2 % are not started; delays
//! that raise it by more than 4 % are stopped.
//!
//! # Who closes connections
//! The server may close at any time. This side closes a connection:
//!
//! - when a session is over;
//! - at the end of each page under a policy with `early-close`;
//! - when the connection has carried [`Options::max_requests`];
//! - when it was idle for [`Options::keep_alive`], at that time and not at its next use.
//!
//! The next request opens another connection. Its latencies include the time to connect (as *queue*), because a user
//! also waits for the connection. Closing a connection is not a failure.
//!
//! # Open loop
//! Sessions begin at the instants of [`Arrivals`]. Thread *i* mod *threads* runs arrival *i*. All arrivals of a
//! thread share its connections; the most recently used connection is taken first. An arrival that finds no
//! free connection waits, and its latency still counts from its planned instant. A session that the plan
//! does not end is one page.
//!
//! # TLS and HTTP/2 If the policy has TLS, a connection is established when its handshake is complete. The handshake's
//! duration is a separate phase, after connecting. HTTP/2 uses streams instead of a pipeline. A user assigns the
//! members of a page to streams of its connection, within both sides' limits. It keeps the policy's number of streams
//! busy if the policy sets a number and users have nothing to wait for. An exchange that times out ends its stream; the
//! connection continues, unless no byte has arrived on it since the request. A request that the server reports as not
//! processed (GOAWAY, REFUSED_STREAM) is retried. With several hosts the members of a page are distributed over them
//! round-robin; the base goes to the first.
//!
//! # HTTP/3 HTTP/3 works like HTTP/2, but over QUIC, and each connection has its own socket. Connecting includes the
//! TLS handshake, so one time covers both. If a loop is too slow to read datagrams, the kernel discards them. The path
//! did not cause these losses, so they make a result INVALID.
//!
//! # Which instants count
//! *planned* is the plan's instant: in a closed loop the end of the pause, or the end of the response that referred to
//! the member. *due* is the first instant at which the exchange was planned and a connection was free. *sent* is the
//! instant at which its first byte was handed to the kernel. An exchange belongs to the window that it was planned in.
//! At the end of the measured window planning stops, and the test waits up to [`Options::drain`] for exchanges in
//! flight. Exchanges that are still in flight after that are *unfinished*. The latencies include unfinished exchanges
//! with the time that they have waited, and failed exchanges with the time until they failed. [`Options::timeout`]
//! counts from *planned* and includes every wait: for a connection, a stream, the window of a connection, or the
//! response. A wait that the server causes (no stream allowed, bytes not read) moves *due* and is not counted as send
//! lag.
//!
//! A request is retried if its connection, which has served other requests, is closed before the first byte of the
//! response, and if the request is safe to repeat. Its instants remain the instants of the first attempt.

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
pub use run::{most_by_open_files, run};
pub use share::Share;
pub use shared::cannot;

use fathometer_quic_sockets::UdpOffload;

/// The time that a user of a closed loop waits after a failure to connect.
pub const CONNECT_PAUSE: Duration = Duration::from_millis(10);

/// The maximum number of intervals of a timeline; if there are more, adjacent intervals are merged.
pub const MOST_INTERVALS: usize = 1024;

/// The quantiles of [`Live::corrected`]; the last one is the maximum.
pub const LIVE_QUANTILES: [f64; 6] = [0.5, 0.9, 0.95, 0.99, 0.999, 1.0];

/// The options of a load test.
pub struct Options {
    /// The server's address.
    pub address: SocketAddr,
    /// The server's name, for TLS. It is also the `Host` field if [`Options::host_field`] is not set.
    pub host: String,
    /// The `Host` field (`:authority`), if it differs from the server's name.
    pub host_field: Option<String>,
    /// The plan of requests.
    pub plan: Arc<Plan>,
    /// The users of a closed loop or the arrivals of an open loop.
    pub users: Users,
    /// The use of connections. The engine refuses policies that it does not support (pushes, ranges; several hosts in
    /// an open loop).
    pub policy: Policy,
    /// The certificates to trust and the parameters to negotiate; required if the policy has TLS.
    pub tls: Option<Arc<ClientSettings>>,
    /// The flow-control windows that the client grants to servers in HTTP/2 and HTTP/3.
    pub windows: Windows,
    /// The UDP offloads that HTTP/3 uses.
    pub udp_offload: UdpOffload,
    /// Additional fields of every request.
    pub fields: Vec<(String, String)>,
    /// Time limit of an exchange, from its planned instant to the last byte received.
    pub timeout: Duration,
    /// Time limit for connecting.
    pub connect_timeout: Duration,
    /// Time before the measured window, with the same load; its exchanges are counted separately.
    pub warm_up: Duration,
    /// The end of the measured window.
    pub limit: Limit,
    /// Time limit of the wait for exchanges in flight at the end of a timed window. With a limit on exchanges, the test
    /// waits until each exchange is complete or has failed.
    pub drain: Duration,
    /// The number of event loops, one thread each; at most the number of users or connections.
    pub threads: usize,
    /// Pins each thread to its own processor, starting with this one. The value is an index from 0 (modulo their
    /// number) into the processors that the process may use.
    pub pin: Option<usize>,
    /// Whether the threads of an open loop get a higher priority (niceness -20) if the system allows it, so that other
    /// programs on this host do not delay requests. Closed loops ignore this, because their users wait for the server.
    pub before_others: bool,
    /// The longest time that a loop may busy-wait before a planned instant. A loop busy-waits at most for the median
    /// wake-up latency, and not while threads of this machine wait for a processor (`spin.rs`). Zero: the loop only
    /// sleeps, and the send lag includes the wake-up latency.
    pub spin: Duration,
    /// Wake-up coalescing of a closed loop: the longest time by which a wake-up is delayed so that several
    /// responses are read together, see the [module](self). Zero, the default: each response wakes the loop.
    pub coalescing: Duration,
    /// The limit of the send lag's 99th percentile; a larger value makes the result INVALID. A send lag of up to a
    /// tenth of the median latency is always accepted.
    pub send_lag: Duration,
    /// The seed of all random decisions.
    pub seed: Seed,
    /// The part of the test that this process runs. All other options describe the whole test: users,
    /// connections and a limit on exchanges are split over the ranks.
    pub share: Share,
    /// The number of requests after which the client closes a connection, as soon as all of them are answered; `None`:
    /// no limit.
    pub max_requests: Option<u32>,
    /// The idle time after which the client closes a connection; `None`: unlimited.
    pub keep_alive: Option<Duration>,
    /// Socket options.
    pub sockets: SocketOptions,
    /// Whether the client resets connections instead of closing them, so that no local port stays in TIME_WAIT.
    pub reset_on_close: bool,
    /// Whether exchanges are counted per target.
    pub count_targets: bool,
    /// The length of an interval of the timeline.
    pub interval: Duration,
    /// Receives a row for every exchange.
    pub recorder: Option<Box<dyn Recorder>>,
    /// The other ranks, if there are any.
    pub ensemble: Option<Box<dyn Ensemble>>,
}

/// The interface of one rank to the other ranks of a test.
pub trait Ensemble: Send {
    /// Called when all loops of this rank are ready. Waits for the other ranks, and returns the start of the test by
    /// this rank's clock. The start should be in the future.
    ///
    /// # Errors
    ///
    /// The reason if the test does not start.
    fn start(&mut self) -> Result<Instant, String>;

    /// Receives this rank's figures of one interval. Called in the order of the intervals.
    fn interval(&mut self, part: &timeline::Part);
}

impl Options {
    /// Creates a closed loop of ten users over persistent connections, for ten seconds.
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
    /// The window of a stream; at most 2^31 − 1.
    pub stream: u32,
    /// The window of a connection; 65 535 to 2^31 − 1.
    pub connection: u32,
}

/// Both windows are 2^30 − 1, as in h2load, so that flow control does not limit the throughput.
impl Default for Windows {
    fn default() -> Windows {
        Windows {
            stream: (1 << 30) - 1,
            connection: (1 << 30) - 1,
        }
    }
}

/// The users of a closed loop or the arrivals of an open loop.
#[derive(Debug, Clone)]
pub enum Users {
    /// Closed loop: each user waits for its responses.
    Closed {
        /// The number of users at the start.
        users: u32,
        /// The time between the starts of two consecutive users.
        start_interval: Duration,
        /// Changes of the number of users: the time of the change since the start of the test, and the new number.
        /// Surplus users stop after their page; new users start `start_interval` apart.
        steps: Vec<(Duration, u32)>,
    },
    /// Open loop: sessions begin at planned instants, independently of the server.
    Open {
        /// The instants at which sessions begin.
        arrivals: Arrivals,
        /// The maximum number of connections.
        connections: u32,
    },
}

impl Users {
    /// Creates a closed loop with this number of users, all of which start at once.
    pub fn closed(users: u32) -> Users {
        Users::Closed {
            users,
            start_interval: Duration::ZERO,
            steps: Vec::new(),
        }
    }
}

/// The end of the measured window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// After this time.
    Time(Duration),
    /// After this number of planned exchanges have completed or failed.
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
    /// Time since the start of the test, at the end of the last interval.
    pub elapsed: Duration,
    /// The phase at that time.
    pub phase: Phase,
    /// The last interval.
    pub last: Interval,
    /// Counts of the measured window until now; during the warm-up, counts of the warm-up.
    pub so_far: Counts,
    /// Corrected latency since the start of the test, at [`LIVE_QUANTILES`].
    pub corrected: [Option<Duration>; LIVE_QUANTILES.len()],
}

/// The reason why a load test has no result.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A system call that every test needs failed.
    #[error("{0}")]
    System(#[from] fathometer_sys::Error),
    /// A thread could not be started.
    #[error("failed to start a thread: {0}")]
    Thread(io::Error),
    /// The plan has no requests.
    #[error("the plan has no {0}")]
    EmptyPlan(&'static str),
    /// A policy that load tests do not support.
    #[error("a load test cannot use the policy {policy}: {why}")]
    Policy {
        /// The policy.
        policy: Policy,
        /// The reason.
        why: &'static str,
    },
    /// A request of the plan is invalid.
    #[error("{method} {target:?} cannot be sent: {error}")]
    BadRequest {
        /// The method of the request.
        method: String,
        /// The target of the request.
        target: String,
        /// The error.
        error: SendError,
    },
    /// The test needs more file descriptors than the limit allows.
    #[error(
        "{needed} descriptors are needed and {limit} are allowed: use fewer users or connections, or raise the \
         limit (`ulimit -n`)"
    )]
    Descriptors {
        /// The number of descriptors needed.
        needed: u64,
        /// The number of descriptors allowed.
        limit: u64,
    },
    /// There are neither users nor connections.
    #[error("there must be at least one user or connection for each machine of the test")]
    NoUsers,
    /// The interval of the timeline is too short.
    #[error("an interval of the timeline must be at least 10 ms long")]
    Interval,
    /// The QUIC settings are invalid.
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
    /// Returns whether the options are at fault, and not the machine.
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
