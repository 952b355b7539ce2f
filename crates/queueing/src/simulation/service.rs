//! The state of a station.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use super::events::{Agenda, Event, ExchangeId};
use super::gate::{Gate, TOLERANCE_S};
use super::{Discipline, SimulatedStation};
use crate::simulation::distribution::Draws;

/// An exchange in a shared station, ordered by the work at which it is finished.
#[derive(Debug, PartialEq)]
struct Sharer {
    finished_at: f64,
    number: u64,
    exchange: ExchangeId,
}

impl Eq for Sharer {}

impl PartialOrd for Sharer {
    fn partial_cmp(&self, other: &Sharer) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sharer {
    fn cmp(&self, other: &Sharer) -> Ordering {
        let by_work = self.finished_at.total_cmp(&other.finished_at);
        by_work.then(self.number.cmp(&other.number))
    }
}

/// A station and the exchanges in it.
#[derive(Debug)]
pub(super) struct Service {
    place: usize,
    definition: SimulatedStation,
    draws: Draws,
    present: usize,
    /// The exchanges that wait for a server.
    queue: VecDeque<ExchangeId>,
    /// The exchanges that receive work at the same rate: all exchanges of a shared station, or the exchanges in service
    /// of a station with a quota. `work_each` is the work per exchange since the station was last empty.
    sharers: BinaryHeap<Reverse<Sharer>>,
    work_each: f64,
    /// The quota.
    gate: Option<Gate>,
    /// A number that changes when the next completion changes.
    epoch: u64,
    updated: f64,
    /// The integral of busy servers over time.
    busy_s: f64,
}

impl Service {
    pub(super) fn new(place: usize, definition: &SimulatedStation, draws: Draws) -> Service {
        Service {
            place,
            definition: definition.clone(),
            draws,
            present: 0,
            queue: VecDeque::new(),
            sharers: BinaryHeap::new(),
            work_each: 0.0,
            gate: match definition.discipline {
                Discipline::Quota(quota) => Some(Gate::new(quota)),
                _ => None,
            },
            epoch: 0,
            updated: 0.0,
            busy_s: 0.0,
        }
    }

    /// The number of busy servers; for a delay, the number of exchanges.
    fn busy(&self) -> f64 {
        let present = self.present as f64;
        match self.definition.discipline {
            Discipline::InOrder(servers) | Discipline::Shared(servers) => {
                present.min(f64::from(servers))
            }
            Discipline::Quota(_) if self.is_closed() => 0.0,
            Discipline::Quota(_) => self.sharers.len() as f64,
            Discipline::Delay => present,
        }
    }

    /// Whether the quota is used up.
    fn is_closed(&self) -> bool {
        self.gate.as_ref().is_some_and(Gate::is_closed)
    }

    /// The work that each exchange in service receives per unit of time.
    fn rate(&self) -> f64 {
        match (self.definition.discipline, self.is_closed()) {
            (Discipline::Quota(_), true) => 0.0,
            (Discipline::Quota(_), false) => 1.0,
            _ => self.busy() / self.present as f64,
        }
    }

    /// Accounts for the time until `now`, in which nothing has changed.
    pub(super) fn advance(&mut self, now: f64) {
        let busy = self.busy();
        let passed = now - self.updated;
        self.busy_s += busy * passed;
        if self.present > 0 {
            self.work_each += self.rate() * passed;
        }
        if let Some(gate) = &mut self.gate {
            gate.spend(busy * passed);
        }
        self.updated = now;
    }

    /// Returns the mean share of busy servers since the last [`Service::reset`].
    pub(super) fn utilisation(&self, length_s: f64) -> f64 {
        self.busy_s / length_s / self.definition.discipline.capacity().unwrap_or(1.0)
    }

    /// Starts a new measurement.
    pub(super) fn reset(&mut self) {
        self.busy_s = 0.0;
    }

    /// Handles the arrival of an exchange.
    pub(super) fn arrive(&mut self, now: f64, exchange: ExchangeId, agenda: &mut Agenda) {
        self.advance(now);
        self.present += 1;
        match self.definition.discipline {
            Discipline::Delay => self.start(now, exchange, agenda),
            Discipline::InOrder(servers) if self.present <= servers as usize => {
                self.start(now, exchange, agenda);
            }
            Discipline::InOrder(_) => self.queue.push_back(exchange),
            Discipline::Quota(quota) if self.present > quota.servers as usize => {
                self.queue.push_back(exchange);
            }
            Discipline::Shared(_) | Discipline::Quota(_) => {
                if let Some(gate) = &mut self.gate {
                    gate.renew(now);
                }
                self.share(exchange);
                self.schedule(now, agenda);
            }
        }
    }

    /// Starts the work on an exchange at a shared rate.
    fn share(&mut self, exchange: ExchangeId) {
        let work = self.draws.draw(&self.definition.service);
        self.epoch += 1;
        self.sharers.push(Reverse(Sharer {
            finished_at: self.work_each + work,
            number: self.epoch,
            exchange,
        }));
    }

    /// Handles the end of service of an exchange: the server takes the next exchange of the queue.
    pub(super) fn served(&mut self, now: f64, agenda: &mut Agenda) {
        self.advance(now);
        self.present -= 1;
        if let Some(next) = self.queue.pop_front() {
            self.start(now, next, agenda);
        }
    }

    /// Returns the exchange that a station with shared service or a quota has finished. `None` if the station's
    /// exchanges have changed since the event was scheduled, or if the event was a change of the quota.
    pub(super) fn shared_served(
        &mut self,
        now: f64,
        epoch: u64,
        agenda: &mut Agenda,
    ) -> Option<ExchangeId> {
        if epoch != self.epoch {
            return None;
        }
        self.advance(now);
        if let Some(gate) = &mut self.gate {
            gate.renew(now);
            let first = self.sharers.peek()?;
            if first.0.finished_at - self.work_each > TOLERANCE_S {
                self.epoch += 1;
                self.schedule(now, agenda);
                return None;
            }
        }
        let Reverse(finished) = self.sharers.pop()?;
        self.present -= 1;
        self.epoch += 1;
        // Set to the exact value, without rounding errors: the work that the finished exchange has received. An empty station
        // starts at zero again, so that the sum remains small.
        self.work_each = match self.present {
            0 => 0.0,
            _ => finished.finished_at,
        };
        if self.gate.is_some()
            && let Some(next) = self.queue.pop_front()
        {
            self.share(next);
        }
        self.schedule(now, agenda);
        Some(finished.exchange)
    }

    fn start(&mut self, now: f64, exchange: ExchangeId, agenda: &mut Agenda) {
        let length = self.draws.draw(&self.definition.service);
        agenda.add(now + length, Event::Served(self.place, exchange));
    }

    fn schedule(&self, now: f64, agenda: &mut Agenda) {
        if let Some(Reverse(first)) = self.sharers.peek() {
            let left = (first.finished_at - self.work_each).max(0.0);
            let finished = match self.rate() {
                rate if rate > 0.0 => left / rate,
                _ => f64::INFINITY,
            };
            let next = match &self.gate {
                Some(gate) => finished.min(gate.next_change(now, self.sharers.len())),
                None => finished,
            };
            agenda.add(now + next, Event::SharedServed(self.place, self.epoch));
        }
    }
}
