//! One connection of a retrieval: its machine, and the driver's state for it.

use std::collections::{HashMap, VecDeque};

use fathometer_model::{ConnectionRecord, Instant};

use super::action::Action;
use super::machine::{Hosted, Machine};
use super::options::Options;
use super::policy::Policy;
use crate::client::{Config, Connection, RequestId};
use crate::protocol::Protocol;

/// The most requests on one multiplexing connection at a time if the policy does not give a number. Servers
/// allow fewer.
const MOST_STREAMS: u32 = 1000;

/// One connection: the machine, and the driver's state for it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) machine: Machine,
    pub(super) state: LinkState,
    /// The index of the page's host to which it leads.
    pub(super) host: u16,
    /// Its protocol.
    pub(super) protocol: Protocol,
    /// The port of the host's alternative service, if it leads to that.
    pub(super) service: Option<u16>,
    /// The exchange of each request, by its number on the connection.
    pub(super) exchanges: Vec<usize>,
    /// The exchange of each push that was accepted.
    pub(super) pushes: HashMap<RequestId, usize>,
    /// Number of requests whose first byte was handed to the transport.
    pub(super) sent: usize,
    /// The sizes of flushes not completely handed over yet: each is offered separately. With a multiplexing
    /// machine all output may be sent together.
    pub(super) flushes: VecDeque<usize>,
    /// The deadline for sending held bytes.
    pub(super) flush_by: Option<Instant>,
    /// Whether held bytes include a request other than one for the rest of a file.
    pub(super) holds_primary: bool,
    pub(super) holds_base: bool,
    /// Not to be pipelined on before its first response.
    pub(super) cautious: bool,
    /// Whether a response on it was cancelled because of its content: no reason to distrust other connections.
    pub(super) gives_up: bool,
    /// The action to take when the machine's last bytes have been handed over.
    pub(super) parting: Option<Action>,
    pub(super) record: ConnectionRecord,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkState {
    Connecting {
        until: Option<Instant>,
    },
    Open,
    /// Finished; waiting for the server's close.
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

    /// Whether it counts towards the policy's number of connections. A multiplexing connection that the server
    /// is draining, and that accepts no more requests, makes room for another one.
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

/// The machine of a new connection.
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
