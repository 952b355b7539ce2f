//! What is predicted, from what, and how far to believe it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fathometer_http::driver::{Options, Policy, Retrieval};
use fathometer_http::origin::Origin;
use fathometer_http::{h1, h2};
use fathometer_model::Bytes;
use fathometer_path::Profile;
use fathometer_tcp::{Counters, Settings};

/// Everything that a prediction depends on.
#[derive(Debug, Clone)]
pub struct Scenario<'a> {
    /// The path.
    pub path: &'a Profile,
    /// TCP at the client.
    pub client: Settings,
    /// TCP at the server.
    pub server: Settings,
    /// The times of the hosts' programs.
    pub hosts: HostTimes,
    /// The connection policy.
    pub policy: Policy,
    /// The client's other options.
    pub options: Options,
    /// The target of the page.
    pub page: String,
    /// What the server answers.
    pub origin: Arc<Origin>,
    /// The server's settings of HTTP/1.
    pub http1: Arc<h1::server::ServerConfig>,
    /// The server's settings of HTTP/2.
    pub http2: Arc<h2::server::ServerConfig>,
    /// How long the retrieval may take, in virtual time.
    pub deadline: Duration,
}

/// The times that the hosts add to those of path and protocols.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostTimes {
    /// From the arrival of a packet at the client to its program's turn.
    pub client_turn: Duration,
    /// The same at the server.
    pub server_turn: Duration,
    /// From a program's write to the packet's arrival at the link, and from its delivery to the receiver's TCP, together.
    pub packet: Duration,
}

impl HostTimes {
    /// The times of the laboratory on a virtual machine of two cores: medians of captures over the path `lan`, of pages
    /// that no comparison uses (docs/predicted-seconds.md).
    pub const LABORATORY: HostTimes = HostTimes {
        client_turn: Duration::from_micros(70),
        server_turn: Duration::from_micros(100),
        packet: Duration::from_micros(50),
    };
}

/// The packets of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Packets {
    /// Packets that entered the path.
    pub count: u64,
    /// Their bytes, with headers of IP and TCP.
    pub bytes: Bytes,
    /// Those that the path dropped.
    pub dropped: u64,
}

/// The result.
#[derive(Debug, Clone)]
pub struct Prediction {
    /// The client's records, in virtual time from its start.
    pub retrieval: Retrieval,
    /// From the start until the page was complete; `None` if it was not complete by the deadline.
    pub page_time: Option<Duration>,
    /// Packets from the client to the server.
    pub up: Packets,
    /// Packets from the server to the client.
    pub down: Packets,
    /// What happened to the client's TCP, all connections together.
    pub client: Counters,
    /// The same for the server's.
    pub server: Counters,
    /// Where the prediction extrapolates.
    pub extrapolations: Vec<Extrapolation>,
}

impl Prediction {
    /// Packets of both directions.
    pub fn packets(&self) -> u64 {
        self.up.count + self.down.count
    }
}

/// Why a prediction is less certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extrapolation {
    /// Packets were dropped by a queue: recovery is modelled, and was not compared with kernels on real pages.
    Dropped(u64),
    /// Retransmission time-outs expired that were not needless. Their instants depend on the phase of the kernel's
    /// timers, which is unknown.
    TimedOut(u64),
    /// The page was not complete by the deadline.
    Unfinished,
}

impl fmt::Display for Extrapolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extrapolation::Dropped(count) => {
                write!(f, "packets dropped by the path's queue: {count}")
            }
            Extrapolation::TimedOut(count) => {
                write!(f, "retransmissions after a time-out: {count}")
            }
            Extrapolation::Unfinished => f.write_str("the page is not complete by the deadline"),
        }
    }
}

/// Why there is no prediction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// The path does something at random, or compresses.
    #[error(
        "the path {path} has {feature}, which is not in the model; choose a path without it, or measure"
    )]
    Path {
        /// Its name.
        path: String,
        /// What it has.
        feature: &'static str,
    },
    /// The policy needs a protocol that is not in the model.
    #[error(
        "the policy {policy} uses {feature}, which is not in the model; choose a policy in cleartext over TCP"
    )]
    Policy {
        /// The policy.
        policy: String,
        /// What it uses.
        feature: &'static str,
    },
}

/// Checks whether the model covers a scenario.
pub(crate) fn check(scenario: &Scenario<'_>) -> Result<(), Unsupported> {
    let policy = |feature| {
        Err(Unsupported::Policy {
            policy: scenario.policy.to_string(),
            feature,
        })
    };
    if scenario.policy.first_protocol().is_over_quic() || scenario.policy.alt_svc {
        return policy("QUIC");
    }
    if scenario.policy.tls {
        return policy("TLS");
    }
    for direction in [&scenario.path.up, &scenario.path.down] {
        let feature = [
            (direction.compression.is_some(), "compression by modems"),
            (direction.loss.is_some(), "random loss"),
            (!direction.drop_list.is_empty(), "a drop list"),
            (direction.jitter.is_some(), "jitter"),
            (direction.reorder.is_some(), "reordering"),
            (direction.duplicate.value() > 0.0, "duplication"),
        ];
        if let Some((_, feature)) = feature.into_iter().find(|(present, _)| *present) {
            return Err(Unsupported::Path {
                path: scenario.path.name.clone(),
                feature,
            });
        }
    }
    Ok(())
}
