//! One connection of a retrieval: its machine, and the driver's state for it.

use std::collections::{HashMap, VecDeque};

use fathometer_model::{Bytes, CloseReason, ConnectionRecord, Instant};

use super::machine::{Hosted, Machine};
use super::options::{CloseManner, Options};
use super::page::{Action, ConnectionId, PageDriver};
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
fn machine(protocol: Protocol, policy: &Policy, options: &Options) -> Machine {
    let config = Config {
        depth: policy.depth().map_or(MOST_STREAMS, u32::from),
        tls: policy.tls,
        push: policy.push,
        stream_window: options.http2.stream_window,
        connection_window: options.http2.connection_window,
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

impl PageDriver {
    /// Opens one more connection to a host.
    pub(super) fn open_link(&mut self, host: u16, now: Instant) -> usize {
        let place = self.links.len();
        let (protocol, service) = self.way_to(host, now);
        let limit = match service {
            // If this fails, the origin itself can be used.
            Some(_) => Some(self.options.service_timeout),
            None => self.options.connect_timeout,
        };
        let until = limit.map(|limit| now + limit);
        self.links.push(Link {
            machine: machine(protocol, &self.policy, &self.options),
            state: LinkState::Connecting { until },
            host,
            protocol,
            service,
            exchanges: Vec::new(),
            pushes: HashMap::new(),
            sent: 0,
            flushes: VecDeque::new(),
            flush_by: None,
            holds_primary: false,
            holds_base: false,
            cautious: self.distrust,
            gives_up: false,
            parting: None,
            record: ConnectionRecord {
                connection: place as u32,
                opened: now,
                established: None,
                closed: None,
                exchanges: 0,
                sent: Bytes(0),
                received: Bytes(0),
                close: CloseReason::Open,
                host: (self.policy.hosts > 1).then(|| self.host_names[usize::from(host)].clone()),
                protocol: None,
                tls: None,
            },
        });
        let conn = ConnectionId(place as u32);
        self.actions.push_back(Action::Connect(conn));
        place
    }

    /// Closes the transport when the machine is done with it.
    pub(super) fn after_pump(&mut self, place: usize, ended: bool, now: Instant) {
        let link = &mut self.links[place];
        let Some(reason) = link.machine.close_reason() else {
            return;
        };
        let conn = ConnectionId(place as u32);
        let was_open = link.state == LinkState::Open;
        link.record.close = reason;
        link.flush_by = None;
        if let CloseReason::Failed(failure) = reason {
            self.give_up_service(place, failure, now);
        }
        let link = &mut self.links[place];
        self.distrust = match reason {
            CloseReason::ServerEarly => ended,
            CloseReason::Failed(_) if !link.gives_up => true,
            _ => self.distrust,
        };
        if ended {
            return self.close(place, Action::Close(conn), now);
        }
        // A QUIC connection cannot be half-closed.
        let hosted = link.machine.hosted_mut().is_some();
        let half = self.options.close == CloseManner::Half && was_open && !hosted;
        let action = match reason {
            CloseReason::Failed(_) => Some(Action::Abort(conn)),
            CloseReason::Finished if half => Some(Action::ShutdownWrite(conn)),
            _ if half => None,
            _ => Some(Action::Close(conn)),
        };
        // A machine may have a last frame (GOAWAY) for the server.
        let link = &mut self.links[place];
        let has_last_word = was_open && !link.machine.transmit().is_empty();
        if half || has_last_word {
            let until = now + self.options.close_wait;
            link.state = LinkState::Draining { until };
            link.parting = action;
            if !has_last_word {
                self.part(place, now);
            }
        } else if let Some(action) = action {
            self.close(place, action, now);
        }
    }

    /// Takes the action that waited for the last bytes to be sent.
    pub(super) fn part(&mut self, place: usize, now: Instant) {
        match self.links[place].parting.take() {
            Some(action @ Action::ShutdownWrite(_)) => self.actions.push_back(action),
            Some(action) => self.close(place, action, now),
            None => {}
        }
    }

    pub(super) fn close(&mut self, place: usize, action: Action, now: Instant) {
        let link = &mut self.links[place];
        if link.state != LinkState::Closed {
            link.state = LinkState::Closed;
            link.record.closed = Some(now);
            self.actions.push_back(action);
        }
    }
}
