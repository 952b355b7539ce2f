//! The inputs, the results and the limits of a prediction.

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
    /// The delays in the hosts.
    pub hosts: HostTimes,
    /// The connection policy.
    pub policy: Policy,
    /// The client's other options.
    pub options: Options,
    /// The request target of the page.
    pub page: String,
    /// The origin that answers the requests.
    pub origin: Arc<Origin>,
    /// The server's HTTP/1 settings.
    pub http1: Arc<h1::server::ServerConfig>,
    /// The server's HTTP/2 settings.
    pub http2: Arc<h2::server::ServerConfig>,
    /// The longest duration of the retrieval, in virtual time.
    pub deadline: Duration,
}

/// The delays that the hosts add to those of path and protocols.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostTimes {
    /// The time from the arrival of a packet at the client until the client program handles it.
    pub client_turn: Duration,
    /// The time from the arrival of a packet at the server until the server program handles it.
    pub server_turn: Duration,
    /// The time from a program's write until its packet reaches the link, plus the time from the end of the link to the
    /// receiver's TCP.
    pub packet: Duration,
}

impl HostTimes {
    /// The delays of the laboratory on a virtual machine with two cores: medians from captures over the path `lan`. The
    /// captured pages are not used in any comparison (docs/predicted-seconds.md).
    pub const LABORATORY: HostTimes = HostTimes {
        client_turn: Duration::from_micros(70),
        server_turn: Duration::from_micros(100),
        packet: Duration::from_micros(50),
    };
}

/// The packets of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Packets {
    /// The number of packets that entered the path.
    pub count: u64,
    /// The bytes of these packets, with IP and TCP headers.
    pub bytes: Bytes,
    /// The number of packets that the path dropped.
    pub dropped: u64,
}

/// The result of a prediction.
#[derive(Debug, Clone)]
pub struct Prediction {
    /// The client's records, in virtual time from its start.
    pub retrieval: Retrieval,
    /// The time from the start until the page was complete; `None` if it was not complete by the deadline.
    pub page_time: Option<Duration>,
    /// Packets from the client to the server.
    pub up: Packets,
    /// Packets from the server to the client.
    pub down: Packets,
    /// The event counters of the client's TCP, summed over all connections.
    pub client: Counters,
    /// The event counters of the server's TCP, summed over all connections.
    pub server: Counters,
    /// Where the prediction extrapolates.
    pub extrapolations: Vec<Extrapolation>,
}

impl Prediction {
    /// Returns the number of packets in both directions.
    pub fn packets(&self) -> u64 {
        self.up.count + self.down.count
    }
}

/// Why a prediction is less certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extrapolation {
    /// A queue dropped packets. Loss recovery is modelled, but was not compared with kernels on real pages.
    Dropped(u64),
    /// Retransmission time-outs expired, without those that were undone. Their times depend on the phase of the kernel's
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
    /// The path has random events, a drop list, or compression.
    #[error(
        "the path {path} has {feature}, which is not in the model; choose a path without it, or measure"
    )]
    Path {
        /// The name of the path.
        path: String,
        /// The feature that is not in the model.
        feature: &'static str,
    },
    /// The policy uses a protocol that is not in the model.
    #[error(
        "the policy {policy} uses {feature}, which is not in the model; choose a policy in cleartext over TCP"
    )]
    Policy {
        /// The policy.
        policy: String,
        /// The feature that is not in the model.
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
