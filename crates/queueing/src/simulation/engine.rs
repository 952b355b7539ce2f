//! The loop over events.

use std::collections::VecDeque;

use super::distribution::{Distribution, Draws};
use super::events::{Agenda, Event, ExchangeId};
use super::service::Service;
use super::{Simulation, Source};
use crate::Seconds;

/// An exchange that ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    /// When, in seconds.
    pub(super) at: f64,
    /// The time that the client waited.
    pub(super) response: f64,
    /// The client gave up.
    pub(super) timed_out: bool,
}

/// What was recorded.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) started: f64,
    pub(super) finished: f64,
    pub(super) ended: Vec<Ended>,
    pub(super) refused: u64,
    pub(super) utilisations: Vec<f64>,
}

/// An exchange in flight.
#[derive(Debug, Clone, Copy)]
struct Exchange {
    use_number: u64,
    began: f64,
    station: usize,
    /// Visits of all stations that follow this one.
    rounds_left: usize,
    has_worker: bool,
    /// The client still waits.
    is_awaited: bool,
}

struct Engine<'a> {
    simulation: &'a Simulation,
    agenda: Agenda,
    now: f64,
    services: Vec<Service>,
    exchanges: Vec<Exchange>,
    free_places: Vec<usize>,
    uses: u64,
    busy_workers: u32,
    backlog: VecDeque<ExchangeId>,
    draws: Draws,
    round_draws: Draws,
    seen: u32,
    log: Log,
}

/// Runs a simulation whose parameters have been checked.
pub(super) fn run(simulation: &Simulation) -> Log {
    let mut engine = Engine::new(simulation);
    engine.begin();
    while engine.log.ended.len() < simulation.measured as usize {
        // Users never leave and arrivals never end, so there is always an event.
        let Some((at, event)) = engine.agenda.next() else {
            break;
        };
        engine.now = at;
        engine.handle(event);
    }
    engine.close()
}

impl Engine<'_> {
    fn new(simulation: &Simulation) -> Engine<'_> {
        let stations = simulation.stations.iter().enumerate();
        Engine {
            simulation,
            agenda: Agenda::default(),
            now: 0.0,
            services: stations
                .map(|(place, station)| {
                    let draws = Draws::new(simulation.seed, "queueing.service", place);
                    Service::new(place, station, draws)
                })
                .collect(),
            exchanges: Vec::new(),
            free_places: Vec::new(),
            uses: 0,
            busy_workers: 0,
            backlog: VecDeque::new(),
            draws: Draws::new(simulation.seed, "queueing.source", 0),
            round_draws: Draws::new(simulation.seed, "queueing.rounds", 0),
            seen: 0,
            log: Log {
                started: 0.0,
                finished: 0.0,
                ended: Vec::new(),
                refused: 0,
                utilisations: Vec::new(),
            },
        }
    }

    /// The first events: all users think, or the first exchange arrives.
    fn begin(&mut self) {
        match &self.simulation.source {
            Source::Users { count, .. } => {
                for _ in 0..*count {
                    self.next_of_source();
                }
            }
            Source::Arrivals(_) => self.next_of_source(),
        }
    }

    /// Schedules the next exchange of a user, or of the arrivals.
    fn next_of_source(&mut self) {
        let pause = match &self.simulation.source {
            Source::Users { think, .. } => self.draws.draw(think),
            Source::Arrivals(rate) => self
                .draws
                .draw(&Distribution::Exponential(Seconds(1.0 / rate.0))),
        };
        self.agenda.add(self.now + pause, Event::Begin);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Begin => {
                if matches!(self.simulation.source, Source::Arrivals(_)) {
                    self.next_of_source();
                }
                let exchange = self.new_exchange();
                self.visit(exchange);
            }
            Event::Served(station, exchange) => {
                self.services[station].served(self.now, &mut self.agenda);
                self.leave_station(exchange);
            }
            Event::SharedServed(station, epoch) => {
                let service = &mut self.services[station];
                if let Some(exchange) = service.shared_served(self.now, epoch, &mut self.agenda) {
                    self.leave_station(exchange);
                }
            }
            Event::Retry(exchange) => match self.exchange(exchange).is_some_and(|e| e.is_awaited) {
                true => self.visit(exchange),
                false => self.forget(exchange),
            },
            Event::Timeout(exchange) => self.time_out(exchange),
        }
    }

    fn new_exchange(&mut self) -> ExchangeId {
        self.uses += 1;
        let exchange = Exchange {
            use_number: self.uses,
            began: self.now,
            station: 0,
            rounds_left: match self.simulation.rounds.as_slice() {
                [] => 0,
                probabilities => self.round_draws.place(probabilities),
            },
            has_worker: false,
            is_awaited: true,
        };
        let place = match self.free_places.pop() {
            Some(place) => {
                self.exchanges[place] = exchange;
                place
            }
            None => {
                self.exchanges.push(exchange);
                self.exchanges.len() - 1
            }
        };
        let id = ExchangeId {
            place,
            use_number: self.uses,
        };
        if let Some(timeout) = self.simulation.timeout {
            self.agenda.add(self.now + timeout.0, Event::Timeout(id));
        }
        id
    }

    /// An exchange in flight; `None` when it is over.
    fn exchange(&mut self, id: ExchangeId) -> Option<&mut Exchange> {
        let exchange = &mut self.exchanges[id.place];
        (exchange.use_number == id.use_number).then_some(exchange)
    }

    /// The exchange enters its next station, if it has a worker or needs none.
    fn visit(&mut self, id: ExchangeId) {
        let Exchange {
            station,
            has_worker,
            ..
        } = self.exchanges[id.place];
        if let Some(admission) = self.simulation.admission
            && station == admission.before
            && !has_worker
        {
            if self.busy_workers >= admission.workers {
                if self.backlog.len() < admission.backlog as usize {
                    self.backlog.push_back(id);
                } else {
                    self.log.refused += 1;
                    self.agenda
                        .add(self.now + admission.retry.0, Event::Retry(id));
                }
                return;
            }
            self.busy_workers += 1;
            self.exchanges[id.place].has_worker = true;
        }
        match station < self.services.len() {
            true => self.services[station].arrive(self.now, id, &mut self.agenda),
            false => self.finish(id),
        }
    }

    fn leave_station(&mut self, id: ExchangeId) {
        let exchange = &mut self.exchanges[id.place];
        exchange.station += 1;
        if exchange.station == self.services.len() && exchange.rounds_left > 0 {
            exchange.rounds_left -= 1;
            exchange.station = 0;
        }
        self.visit(id);
    }

    /// The last station is left.
    fn finish(&mut self, id: ExchangeId) {
        let exchange = self.exchanges[id.place];
        if exchange.is_awaited {
            self.record(exchange.began, false);
        }
        self.forget(id);
        if exchange.has_worker {
            self.free_worker();
        }
    }

    /// A worker takes the next connection of the backlog; those whose client gave up are closed at once.
    fn free_worker(&mut self) {
        self.busy_workers -= 1;
        while let Some(next) = self.backlog.pop_front() {
            if self.exchanges[next.place].is_awaited {
                self.visit(next);
                return;
            }
            self.forget(next);
        }
    }

    fn time_out(&mut self, id: ExchangeId) {
        let Some(exchange) = self.exchange(id) else {
            return;
        };
        if exchange.is_awaited {
            exchange.is_awaited = false;
            let began = exchange.began;
            self.record(began, true);
        }
    }

    /// The client has its response, or has given up.
    fn record(&mut self, began: f64, timed_out: bool) {
        self.seen += 1;
        if self.seen > self.simulation.warm_up {
            self.log.ended.push(Ended {
                at: self.now,
                response: self.now - began,
                timed_out,
            });
        } else if self.seen == self.simulation.warm_up {
            self.log.started = self.now;
            self.log.refused = 0;
            for service in &mut self.services {
                service.advance(self.now);
                service.reset();
            }
        }
        if matches!(self.simulation.source, Source::Users { .. }) {
            self.next_of_source();
        }
    }

    fn forget(&mut self, id: ExchangeId) {
        if let Some(exchange) = self.exchange(id) {
            exchange.use_number = 0;
            self.free_places.push(id.place);
        }
    }

    fn close(mut self) -> Log {
        self.log.finished = self.now;
        let length = self.now - self.log.started;
        for service in &mut self.services {
            service.advance(self.now);
        }
        let services = self.services.iter();
        self.log.utilisations = services
            .map(|service| service.utilisation(length))
            .collect();
        self.log
    }
}
