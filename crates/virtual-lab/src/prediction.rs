//! The inputs, the results and the limitations of a prediction.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fathometer_http::driver::{Options, Policy, Retrieval};
use fathometer_http::origin::Origin;
use fathometer_http::{h1, h2};
use fathometer_model::Bytes;
use fathometer_path::Profile;
use fathometer_tcp::{Counters, Settings};

/// The inputs of a prediction.
#[derive(Debug, Clone)]
pub struct Scenario<'a> {
    /// The path.
    pub path: &'a Profile,
    /// The TCP settings of the client.
    pub client: Settings,
    /// The TCP settings of the server.
    pub server: Settings,
    /// The delays in the hosts.
    pub hosts: HostTimes,
    /// The connection policy.
    pub policy: Policy,
    /// The other options of the client.
    pub options: Options,
    /// The request target of the page.
    pub page: String,
    /// The origin that answers the requests.
    pub origin: Arc<Origin>,
    /// The server's HTTP/1 settings.
    pub http1: Arc<h1::server::ServerConfig>,
    /// The server's HTTP/2 settings.
    pub http2: Arc<h2::server::ServerConfig>,
    /// The time limit of the retrieval, in virtual time.
    pub deadline: Duration,
}

/// The delays that the hosts add to the delays of the path and the protocols.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostTimes {
    /// The time from the arrival of a packet at the client until the client program handles it.
    pub client_turn: Duration,
    /// The time from the arrival of a packet at the server until the server program handles it.
    pub server_turn: Duration,
    /// The time from a program's write until the packet reaches the link, plus the time from the end of the link until
    /// the receiver's TCP has the packet.
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
    /// The bytes of these packets, including IP and TCP headers.
    pub bytes: Bytes,
    /// The number of packets that the path dropped.
    pub dropped: u64,
}

/// The result of a prediction.
#[derive(Debug, Clone)]
pub struct Prediction {
    /// The client's records, in virtual time since the start.
    pub retrieval: Retrieval,
    /// The time from the start until the page was complete; `None` if the page was not complete by the deadline.
    pub page_time: Option<Duration>,
    /// Packets from the client to the server.
    pub up: Packets,
    /// Packets from the server to the client.
    pub down: Packets,
    /// The event counters of the client's TCP, summed over all connections.
    pub client: Counters,
    /// The event counters of the server's TCP, summed over all connections.
    pub server: Counters,
    /// The extrapolations of the prediction.
    pub extrapolations: Vec<Extrapolation>,
}

impl Prediction {
    /// Returns the number of packets in both directions.
    pub fn packets(&self) -> u64 {
        self.up.count + self.down.count
    }
}

/// A reason why a prediction is less certain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extrapolation {
    /// A queue dropped this number of packets. Loss recovery is modelled, but was not compared with kernels on real
    /// pages.
    Dropped(u64),
    /// This number of retransmission time-outs expired; undone time-outs are not counted. Their times depend on the
    /// unknown phase of the kernel's timers.
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

/// The reason why there is no prediction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unsupported {
    /// The path has random events, a drop list or compression.
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
