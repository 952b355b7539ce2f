//! One connection of a retrieval: its state machine, and the driver's state for it.

use std::collections::{HashMap, VecDeque};

use fathometer_model::{ConnectionRecord, Instant};

use super::action::Action;
use super::machine::{Hosted, Machine};
use super::options::Options;
use super::policy::Policy;
use crate::client::{Config, Connection, RequestId};
use crate::protocol::Protocol;

/// The maximum number of requests in flight on a multiplexed connection if the policy gives no number. Servers usually
/// permit fewer.
const MOST_STREAMS: u32 = 1000;

/// One connection: its state machine, and the driver's state for it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) machine: Machine,
    pub(super) state: LinkState,
    /// The index of the page's host to which the connection leads.
    pub(super) host: u16,
    /// The protocol of the connection.
    pub(super) protocol: Protocol,
    /// The port of the host's alternative service, if the connection leads to that service.
    pub(super) service: Option<u16>,
    /// The exchange of each request, by its number on the connection.
    pub(super) exchanges: Vec<usize>,
    /// The exchange of each push that was accepted.
    pub(super) pushes: HashMap<RequestId, usize>,
    /// The number of requests whose first byte was passed to the transport.
    pub(super) sent: usize,
    /// The sizes in bytes of the flushes that the transport has not taken completely. Each flush is offered separately;
    /// a multiplexed connection offers all output together.
    pub(super) flushes: VecDeque<usize>,
    /// The time at which held bytes are sent at the latest.
    pub(super) flush_by: Option<Instant>,
    /// Whether the held bytes include a request for a complete file or for the first part of a file.
    pub(super) holds_primary: bool,
    pub(super) holds_base: bool,
    /// Whether pipelining must wait for the first response.
    pub(super) cautious: bool,
    /// Whether a response on the connection was cancelled because of its content. Other connections may still
    /// be pipelined.
    pub(super) gives_up: bool,
    /// The action to take when the machine's last bytes have been passed on.
    pub(super) parting: Option<Action>,
    pub(super) record: ConnectionRecord,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkState {
    Connecting {
        until: Option<Instant>,
    },
    Open,
    /// The connection is finished and waits for the server's close.
    Draining {
        until: Instant,
    },
    Closed,
}

impl Link {
    pub(super) fn is_live(&self) -> bool {
        matches!(self.state, LinkState::Connecting { .. } | LinkState::Open)
    }

    pub(super) fn multiplexes(&self) -> bool {
        self.machine.multiplexes()
    }

    /// Whether the connection counts towards the policy's number of connections. A multiplexed connection that the
    /// server drains accepts no more requests and does not count.
    pub(super) fn takes_a_place(&self) -> bool {
        match self.multiplexes() {
            true => self.is_live() && self.machine.accepts_requests(),
            false => self.state != LinkState::Closed,
        }
    }

    /// The exchange of a request or an accepted push.
    pub(super) fn exchange(&self, request: RequestId) -> Option<usize> {
        match request.is_pushed() {
            true => self.pushes.get(&request).copied(),
            false => self.exchanges.get(request.0 as usize).copied(),
        }
    }
}

/// Creates the state machine of a new connection.
pub(super) fn machine(protocol: Protocol, policy: &Policy, options: &Options) -> Machine {
    let config = Config {
        depth: policy.depth().map_or(MOST_STREAMS, u32::from),
        tls: policy.tls,
        push: policy.push,
        stream_window: options.http2.stream_window,
        connection_window: options.http2.connection_window,
        record_window_waits: true,
        header_table: options.http2.header_table,
        limits: options.limits,
        timeouts: options.timeouts,
        ..Config::default()
    };
    match Connection::new(protocol, &config) {
        Some(connection) => Machine::Own(Box::new(connection)),
        None => Machine::Hosted(Hosted::new(config.depth)),
    }
}
