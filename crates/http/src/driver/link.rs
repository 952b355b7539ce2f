//! One connection of a retrieval: its machine, and what the driver knows besides.

use std::collections::{HashMap, VecDeque};

use fathometer_model::{Bytes, CloseReason, ConnectionRecord, Instant};

use super::machine::{Hosted, Machine};
use super::options::{CloseManner, Options};
use super::page::{Action, ConnectionId, PageDriver};
use super::policy::{Policy, Protocol};
use crate::client::RequestId;
use crate::h1::client as h1;
use crate::h2;

/// The most requests on one multiplexing connection at a time when a policy does not say. Servers allow
/// fewer.
const MOST_STREAMS: u32 = 1000;

/// One connection: the machine, and what the driver knows besides.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) machine: Machine,
    pub(super) state: LinkState,
    /// Which of the page's hosts it leads to.
    pub(super) host: u16,
    /// What it speaks.
    pub(super) protocol: Protocol,
    /// The port of the host's alternative service, if it leads to that.
    pub(super) service: Option<u16>,
    /// The exchange of each request, by its number on the connection.
    pub(super) exchanges: Vec<usize>,
    /// The exchange of each push that was accepted.
    pub(super) pushes: HashMap<RequestId, usize>,
    /// How many requests have had their first octet handed to the transport.
    pub(super) sent: usize,
    /// The sizes of flushes not yet handed over whole: each is offered by itself. Of a machine that
    /// multiplexes, all there is may leave together.
    pub(super) flushes: VecDeque<usize>,
    /// When held octets leave at the latest.
    pub(super) flush_by: Option<Instant>,
    /// Whether held octets include a request that stands for itself and is no rest of a file.
    pub(super) holds_primary: bool,
    pub(super) holds_base: bool,
    /// Not to be pipelined on before its first answer.
    pub(super) cautious: bool,
    /// Whether a response on it was given up for what it said: no reason to mistrust another connection.
    pub(super) gives_up: bool,
    /// What is left to do when the machine's last octets have been handed over.
    pub(super) parting: Option<Action>,
    pub(super) record: ConnectionRecord,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkState {
    Connecting {
        until: Option<Instant>,
    },
    Open,
    /// Done with; waiting for the server's end.
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

    /// Whether it counts among the connections that a policy allows: one that a server is draining and
    /// that takes no more requests makes room for another, where requests are not tied to their order.
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
    if protocol == Protocol::Http3 {
        let streams = policy.streams.map_or(MOST_STREAMS, u32::from);
        return Machine::Hosted(Hosted::new(streams));
    }
    if let Protocol::Http1(_) = protocol {
        let config = h1::Config {
            depth: policy.pipeline.unwrap_or(1),
            limits: options.limits,
            timeouts: options.timeouts,
        };
        return Machine::Own(Box::new(h1::Connection::new(config).into()));
    }
    let config = h2::client::Config {
        streams: policy.streams.map_or(MOST_STREAMS, u32::from),
        scheme: match policy.tls {
            true => h2::client::Scheme::Https,
            false => h2::client::Scheme::Http,
        },
        settings: h2::settings::Settings {
            initial_window_size: options.http2.stream_window,
            header_table_size: options.http2.header_table,
            ..h2::client::Config::default().settings
        },
        connection_window: options.http2.connection_window,
        push: match policy.push {
            true => h2::client::Push::Accepted,
            false => h2::client::Push::Disabled,
        },
        limits: options.limits,
        timeouts: options.timeouts,
        ..h2::client::Config::default()
    };
    Machine::Own(Box::new(h2::client::Connection::new(config).into()))
}

impl PageDriver {
    /// Opens one more connection to a host.
    pub(super) fn open_link(&mut self, host: u16, now: Instant) -> usize {
        let place = self.links.len();
        let (protocol, service) = self.way_to(host, now);
        let limit = match service {
            // There is another way.
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
        // QUIC has no half of a connection to end.
        let hosted = link.machine.hosted_mut().is_some();
        let half = self.options.close == CloseManner::Half && was_open && !hosted;
        let action = match reason {
            CloseReason::Failed(_) => Some(Action::Abort(conn)),
            CloseReason::Finished if half => Some(Action::ShutdownWrite(conn)),
            _ if half => None,
            _ => Some(Action::Close(conn)),
        };
        // A machine may have a last word (GOAWAY) for the server.
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

    /// Does what was to be done when the last octets had left.
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
