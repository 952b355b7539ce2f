//! The load engine: puts a plan on a server and tells the truth about what came of it.
//!
//! [`run`] starts a thread for each event loop; threads share nothing but a few counters (which page
//! is next, how many exchanges may still be planned) and their histograms are merged at the end. A
//! loop hosts the protocol machines of [`fathometer_http::client`] on kernel sockets: sockets are
//! watched edge-triggered and never re-armed, a request leaves with one write in the very step that
//! read the answer before it, requests of one step leave together, and nothing is allocated for an
//! exchange once a loop is warm.
//!
//! # Closed loop
//! A user asks for a page, then for all members of it, then pauses as the plan says and goes on.
//! Connections belong to the user: opened when first needed, as many as the [`Policy`] says, kept
//! through the session unless the policy or the server ends them, closed when the session is over
//! (after its last pause). The base is fetched whole before anything else; the other members are
//! asked for when the member that names them is complete, in order: serially each connection takes
//! the next one when it is free, pipelined all are written at once, in turn over the connections.
//! A member whose namer failed is never asked for. Where pages have one member, sessions do not end
//! and nobody pauses, a pipelining policy would have nothing to fill its pipelines with: then a user
//! keeps every pipeline full, each exchange a page of its own.
//!
//! After a connection that could not be established a user waits [`CONNECT_PAUSE`] before it goes on
//! (WebStone goes on at once, which makes a server that refuses look very busy).
//!
//! A response wakes the loop, is read, and the next request leaves: nothing is delayed, and nothing waits for
//! others. Wake-up coalescing ([`Options::rest`]) changes that, and so is off unless asked for. With it an idle loop
//! sleeps for a bounded time instead of being woken by the next response, so that several responses are read together.
//! The delay is at most [`Options::rest`], at most half of the mean latency, and there is none where fewer than two
//! responses are expected in it. Responses are then noticed late by up to the delay, and the requests
//! that sixteen responses lead to are written after all sixteen were read. On a saturated server the mean latency
//! stays what it was, by Little's law, but the percentiles move. Elsewhere latencies are over-reported: periods with and
//! without delays are compared, and delays that raise the mean latency by more than 2 % are not begun, by more than 4 %
//! ended.
//!
//! # Who closes connections
//! The server, when it likes. This side: when a session is over; at the end of each page under a
//! policy that says `early-close`; when a connection has carried [`Options::max_requests`]; and when
//! nothing was asked on it for [`Options::keep_alive`], at that very time and not when it is wanted
//! next. What is asked next opens another connection, and the time that takes is in its latencies
//! (as *queue*), as it is for a user. None of that is a failure.
//!
//! # Open loop
//! Sessions begin when [`Arrivals`] says. Arrival *i* is carried out by thread *i* mod *threads*,
//! over connections that all arrivals of a thread share, the one used last first. An arrival that
//! finds none free waits, and its latency counts from the plan's instant all the same. Without an
//! end of its own a session is one page.
//!
//! # TLS and HTTP/2
//! Where the policy has TLS a connection is there when its handshake is over; how long that took is a
//! phase of its own beside connecting. Streams of HTTP/2 take the place of a pipeline: a user gives the
//! members of a page to streams of its connection, as far as both sides' limits go, and keeps a number
//! of streams full where the policy names one and there is nothing to wait for. An exchange that runs
//! out of time ends its stream, and the connection goes on, unless nothing at all has come on it
//! since. A request that the server says it has not touched (GOAWAY, REFUSED_STREAM) is made once
//! more. With several hosts a page's members go to them in turn, the base to the first.
//!
//! # HTTP/3
//! The same over QUIC, each connection with a socket of its own. There connecting and the handshake of TLS
//! are one, and one time. Datagrams that the kernel throws away because a loop was too slow to fetch
//! them are losses that no path made: they make a result INVALID.
//!
//! # What counts from when
//! *planned* is the plan's instant: in a closed loop the end of the pause, or of the response that
//! named the member; *due* when it was planned and a connection was free; *sent* when its first
//! octet was handed to the kernel. An exchange belongs to the window that it was planned in. When
//! the time is over nothing more is planned, and what is under way is waited for, up to
//! [`Options::drain`]. What is then left is *unfinished* and enters the latencies with the time it
//! has waited. Failures enter with the time until they failed. [`Options::timeout`] counts from *planned*,
//! whatever is waited for: a connection, a stream, the window of a connection, the response. A wait that the
//! server causes (no stream allowed, octets not read) moves *due* and is no send lag.
//!
//! A request is made once more when a connection that has served before ends before any octet of
//! the answer (and the request may be repeated); its instants stay those of the first attempt.

mod connections;
mod exchanges;
mod frames;
mod health;
mod machine;
mod pool;
mod quic;
mod recorder;
mod rest;
mod run;
pub mod security;
mod shared;
mod slot;
mod spin;
mod tally;
pub mod timeline;
mod timers;
mod transfer;
mod turns;
mod user;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fathometer_analysis::load::{Counts, Interval};
use fathometer_http::driver::{Policy, Protocol};
use fathometer_http::h1::client::{SendError, Version};
use fathometer_model::Seed;
use fathometer_sys::SocketOptions;
use fathometer_tls::ClientSettings;
use fathometer_workload::arrivals::Arrivals;
use fathometer_workload::plan::Plan;

pub use health::is_noise;
pub use recorder::{Recorder, RecorderError};
pub use run::run;
pub use shared::cannot;

use crate::quic::UdpOffload;

/// How long a user of a closed loop waits after a connection could not be established.
pub const CONNECT_PAUSE: Duration = Duration::from_millis(10);

/// The most intervals a timeline has: beyond, neighbours are merged.
pub const MOST_INTERVALS: usize = 1024;

/// The quantiles of [`Live::corrected`]; the last is the maximum.
pub const LIVE_QUANTILES: [f64; 6] = [0.5, 0.9, 0.95, 0.99, 0.999, 1.0];

/// A load test to be run.
pub struct Options {
    /// Where the server is.
    pub address: SocketAddr,
    /// The server's name, for TLS, and for the `Host` field where that says nothing else.
    pub host: String,
    /// What the `Host` field (`:authority`) says instead.
    pub host_field: Option<String>,
    /// What is asked for.
    pub plan: Arc<Plan>,
    /// By whom, or when.
    pub users: Users,
    /// How connections are used. What the engine cannot carry out (pushes, ranges; several hosts in an
    /// open loop) is refused.
    pub policy: Policy,
    /// Whom to trust and what to agree on; needed where the policy has TLS.
    pub tls: Option<Arc<ClientSettings>>,
    /// What servers may send before they are told to go on, in HTTP/2 and HTTP/3.
    pub windows: Windows,
    /// The offloads of UDP that HTTP/3 uses.
    pub udp_offload: UdpOffload,
    /// Further fields of every request.
    pub fields: Vec<(String, String)>,
    /// How long an exchange may take, from the plan's instant to the last octet received.
    pub timeout: Duration,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// Time before the measured window, in which everything goes on but for counting.
    pub warm_up: Duration,
    /// How long the measured window is.
    pub limit: Limit,
    /// How long what is under way at the end of a measured time is waited for. A count of exchanges
    /// is waited for until each is complete or has failed.
    pub drain: Duration,
    /// Event loops, a thread each. No more are used than there are users or connections.
    pub threads: usize,
    /// Whether each thread is kept on a processor of its own.
    pub pin: bool,
    /// Whether the loops of an open loop run before other programs of this host (niceness -20) where
    /// the system allows it: a request is late by as long as another program keeps its processor.
    /// A closed loop, whose users wait for the server anyway, takes nothing from it.
    pub before_others: bool,
    /// The longest that a loop may busy-wait before a planned instant. It does so for no longer than the median time
    /// in which the system wakes it, and not at all where threads of this machine wait for a processor (`spin.rs`).
    /// Zero sleeps to the last: the send lag is then the time of waking.
    pub spin: Duration,
    /// Wake-up coalescing of a closed loop: the longest time by which a wake-up is delayed so that several responses
    /// are read together, see the [module](self). Zero, the default: each response wakes the loop.
    pub rest: Duration,
    /// What the send lag's 99th percentile may be before the result is INVALID; a tenth of the median
    /// latency is believed in any case.
    pub send_lag: Duration,
    /// Where everything random comes from.
    pub seed: Seed,
    /// Requests after which this side closes a connection, as soon as all of them are answered;
    /// `None`: never for that.
    pub max_requests: Option<u32>,
    /// How long a connection may be idle before this side closes it; `None`: for ever.
    pub keep_alive: Option<Duration>,
    /// What sockets are given.
    pub sockets: SocketOptions,
    /// Whether connections that this side ends are reset instead of closed, so that no local port
    /// stays behind in TIME_WAIT.
    pub reset_on_close: bool,
    /// Whether exchanges are counted for each target.
    pub count_targets: bool,
    /// The length of an interval of the timeline.
    pub interval: Duration,
    /// Who is to have a row for every exchange.
    pub recorder: Option<Box<dyn Recorder>>,
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
            policy: Policy::plain(Protocol::Http1(Version::Http11)),
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
            pin: false,
            before_others: true,
            send_lag: health::LAG,
            spin: Duration::ZERO,
            rest: Duration::ZERO,
            seed: Seed(crate::workload::SEED),
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
        }
    }
}

/// The windows of HTTP/2 and HTTP/3 connections, in octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// A stream's; at most 2^31 − 1.
    pub stream: u32,
    /// A connection's; 65 535 to 2^31 − 1.
    pub connection: u32,
}

/// So large that it is the server and the path that set the pace, as h2load has them: 2^30 − 1.
impl Default for Windows {
    fn default() -> Windows {
        Windows {
            stream: (1 << 30) - 1,
            connection: (1 << 30) - 1,
        }
    }
}

/// By whom, or when.
#[derive(Debug, Clone)]
pub enum Users {
    /// Users that wait for their answers.
    Closed {
        /// How many at the start.
        users: u32,
        /// The time between the start of one and of the next.
        start_interval: Duration,
        /// Changes: from each time (from the start of the test) on there are so many users. Those
        /// beyond end with their page; new ones start `start_interval` apart.
        steps: Vec<(Duration, u32)>,
    },
    /// Sessions that begin when they begin.
    Open {
        /// When.
        arrivals: Arrivals,
        /// The most connections.
        connections: u32,
    },
}

impl Users {
    /// So many users, all from the start on.
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
    /// A time.
    Time(Duration),
    /// Until so many exchanges have been planned and have ended.
    Exchanges(u64),
}

/// Where a test stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before the measured window.
    WarmUp,
    /// In it.
    Measured,
    /// After it, waiting for what is under way.
    Drain,
}

/// How a test is getting on.
#[derive(Debug, Clone)]
pub struct Live {
    /// Time since its start, at the end of the last interval.
    pub elapsed: Duration,
    /// Where it stands.
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
    /// The system refused something that every test needs.
    #[error("{0}")]
    System(#[from] fathometer_sys::Error),
    /// A thread could not be started.
    #[error("a thread could not be started: {0}")]
    Thread(io::Error),
    /// The plan asks for nothing.
    #[error("the plan has no {0}")]
    EmptyPlan(&'static str),
    /// A policy that load tests cannot carry out.
    #[error("the policy {policy} cannot be carried out by a load test: {why}")]
    Policy {
        /// Which.
        policy: Policy,
        /// Why.
        why: &'static str,
    },
    /// A request of the plan is none.
    #[error("{method} {target:?} cannot be asked for: {error}")]
    BadRequest {
        /// Its method.
        method: String,
        /// Its target.
        target: String,
        /// Why.
        error: SendError,
    },
    /// More connections than descriptors.
    #[error(
        "{needed} descriptors are needed and {limit} allowed: use fewer users or connections, or \
         raise the limit (`ulimit -n`)"
    )]
    Descriptors {
        /// How many.
        needed: u64,
        /// How many there may be.
        limit: u64,
    },
    /// Nobody to ask.
    #[error("there must be at least one user or connection")]
    Nobody,
    /// An interval that is none.
    #[error("an interval of the timeline must be at least 10 ms long")]
    Interval,
    /// Settings of QUIC that cannot be had.
    #[error("HTTP/3 cannot be spoken: {0}")]
    Quic(String),
    /// The record could not be written.
    #[error("the record of exchanges could not be written: {0}")]
    Recorder(RecorderError),
}

impl LoadError {
    /// Whether what was asked for is at fault, and not the machine.
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
    fn wake_up_coalescing_is_off_unless_asked_for() {
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let plan = Plan::single(Target::get("/", None));
        assert_eq!(
            Options::new(address, "server", Arc::new(plan)).rest,
            Duration::ZERO
        );
    }
}
