//! Opening and closing connections.

use std::collections::{HashMap, VecDeque};

use fathometer_model::{Bytes, CloseReason, ConnectionRecord, Instant};

use super::action::{Action, ConnectionId};
use super::link::{Link, LinkState, machine};
use super::options::CloseManner;
use super::page::PageDriver;

impl PageDriver {
    /// Opens one more connection to a host.
    pub(super) fn open_link(&mut self, host: u16, now: Instant) -> usize {
        let place = self.links.len();
        let (protocol, service) = self.way_to(host, now);
        let limit = match service {
            // If the alternative service fails, the origin itself can be used.
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
            cautious: self.avoid_pipelining,
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
                window_waits: Vec::new(),
            },
        });
        let conn = ConnectionId(place as u32);
        self.actions.push_back(Action::Connect(conn));
        place
    }

    /// Closes the transport after the machine has closed the connection.
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
        self.avoid_pipelining = match reason {
            CloseReason::ServerEarly => ended,
            CloseReason::Failed(_) if !link.gives_up => true,
            _ => self.avoid_pipelining,
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
        // A machine may still have to send a last frame (GOAWAY).
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

    /// Carries out the action that was delayed until the last bytes were sent.
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
