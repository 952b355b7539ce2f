//! The event loop of a simulation.

use std::collections::VecDeque;

use super::admission::Admission;
use super::distribution::{Distribution, Draws};
use super::events::{Agenda, Event, ExchangeId};
use super::service::Service;
use super::{Simulation, Source};
use crate::Seconds;

/// How an exchange ended for its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The client received a response.
    Completed,
    /// The client gave up.
    TimedOut,
    /// The backlog was full, and the connection was refused at once or after all retries.
    Refused,
}

/// An exchange that ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    /// The end of the exchange, in seconds.
    pub(super) at: f64,
    /// The time that the client waited, in seconds.
    pub(super) response: f64,
    pub(super) end: End,
}

/// The recorded figures of a simulation.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) started: f64,
    pub(super) finished: f64,
    pub(super) ended: Vec<Ended>,
    /// The number of attempts that found the backlog full.
    pub(super) overflows: u64,
    /// The mean share of busy workers.
    pub(super) workers: f64,
    /// The mean number of connections in the backlog.
    pub(super) waiting: f64,
    pub(super) utilisations: Vec<f64>,
}

/// An exchange in flight.
#[derive(Debug, Clone, Copy)]
struct Exchange {
    use_number: u64,
    began: f64,
    station: usize,
    /// The number of rounds after the current round.
    rounds_left: usize,
    /// The number of times that the SYN, and later the request, found the backlog full.
    retries: u32,
    /// Whether the SYN found room.
    has_connection: bool,
    has_worker: bool,
    /// Whether the client still waits.
    is_awaited: bool,
}

/// The workers and the backlog.
#[derive(Debug, Default)]
struct Workers {
    busy: u32,
    backlog: VecDeque<ExchangeId>,
    /// The integrals of the busy workers and of the backlog over time, until `counted`.
    busy_s: f64,
    waiting_s: f64,
    counted: f64,
}

impl Workers {
    /// Accounts for the time until `now`, in which nothing has changed.
    fn advance(&mut self, now: f64) {
        let passed = now - self.counted;
        self.busy_s += f64::from(self.busy) * passed;
        self.waiting_s += self.backlog.len() as f64 * passed;
        self.counted = now;
    }
}

struct Engine<'a> {
    simulation: &'a Simulation,
    agenda: Agenda,
    now: f64,
    services: Vec<Service>,
    exchanges: Vec<Exchange>,
    free_places: Vec<usize>,
    uses: u64,
    workers: Workers,
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
        engine.workers.advance(at);
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
            workers: Workers::default(),
            draws: Draws::new(simulation.seed, "queueing.source", 0),
            round_draws: Draws::new(simulation.seed, "queueing.rounds", 0),
            seen: 0,
            log: Log::default(),
        }
    }

    /// Schedules the first events: all users think, or the first exchange arrives.
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

    /// Schedules the next exchange of a user, or the next arrival.
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
            Event::Retry(exchange) => self.retry(exchange),
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
            retries: 0,
            has_connection: false,
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

    /// Returns an exchange in flight; `None` if it has ended.
    fn exchange(&mut self, id: ExchangeId) -> Option<&mut Exchange> {
        let exchange = &mut self.exchanges[id.place];
        (exchange.use_number == id.use_number).then_some(exchange)
    }

    /// Moves the exchange to its next station, if it has a worker or needs no worker there.
    fn visit(&mut self, id: ExchangeId) {
        let Exchange {
            station,
            has_worker,
            ..
        } = self.exchanges[id.place];
        if let Some(admission) = self.simulation.admission
            && station == admission.before
            && !has_worker
            && !self.admit(id, admission)
        {
            return;
        }
        match station < self.services.len() {
            true => self.services[station].arrive(self.now, id, &mut self.agenda),
            false => self.finish(id),
        }
    }

    /// Gives the exchange a worker and returns true; otherwise the exchange waits, is retried or is refused.
    fn admit(&mut self, id: ExchangeId, admission: Admission) -> bool {
        let is_busy = self.workers.busy >= admission.workers;
        let is_full = is_busy && self.workers.backlog.len() >= admission.backlog as usize;
        let exchange = &mut self.exchanges[id.place];
        if is_full {
            self.log.overflows += 1;
            match admission.retries(exchange.has_connection) {
                None => self.refuse(id),
                Some(retries) => {
                    exchange.retries += 1;
                    let wait = retries.wait(exchange.retries);
                    self.agenda.add(self.now + wait.0, Event::Retry(id));
                }
            }
            return false;
        }
        if let Some(handshake) = admission.handshake
            && !exchange.has_connection
        {
            (exchange.has_connection, exchange.retries) = (true, 0);
            let ack = self.now + handshake.round_trip.0;
            self.agenda.add(ack, Event::Retry(id));
            return false;
        }
        match is_busy {
            true => self.workers.backlog.push_back(id),
            false => {
                self.workers.busy += 1;
                exchange.has_worker = true;
            }
        }
        !is_busy
    }

    /// Retries a connection, unless its client has given up or the maximum number of retries is reached.
    fn retry(&mut self, id: ExchangeId) {
        let Some(exchange) = self.exchange(id).copied() else {
            return;
        };
        let admission = self.simulation.admission;
        let retries = admission.and_then(|admission| admission.retries(exchange.has_connection));
        match exchange.is_awaited {
            false => self.forget(id),
            true if retries.is_some_and(|r| exchange.retries > r.most) => self.refuse(id),
            true => self.visit(id),
        }
    }

    /// Refuses the connection.
    fn refuse(&mut self, id: ExchangeId) {
        let exchange = self.exchanges[id.place];
        self.forget(id);
        // The exchange of a client that has given up is already counted.
        if exchange.is_awaited {
            self.record(exchange.began, End::Refused);
        }
    }

    fn leave_station(&mut self, id: ExchangeId) {
        let exchange = &mut self.exchanges[id.place];
        exchange.station += 1;
        if exchange.station == self.services.len() && exchange.rounds_left > 0 {
            exchange.rounds_left -= 1;
            exchange.station = self.simulation.rounds_from;
        }
        self.visit(id);
    }

    /// Handles an exchange that leaves the last station.
    fn finish(&mut self, id: ExchangeId) {
        let exchange = self.exchanges[id.place];
        if exchange.is_awaited {
            self.record(exchange.began, End::Completed);
        }
        self.forget(id);
        if exchange.has_worker {
            self.free_worker();
        }
    }

    /// Frees a worker, which takes the next connection of the backlog. Connections whose clients have given up are
    /// closed at once.
    fn free_worker(&mut self) {
        self.workers.busy -= 1;
        while let Some(next) = self.workers.backlog.pop_front() {
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
            self.record(began, End::TimedOut);
        }
    }

    /// Records an exchange whose client has a response or an error.
    fn record(&mut self, began: f64, end: End) {
        self.seen += 1;
        if self.seen > self.simulation.warm_up {
            self.log.ended.push(Ended {
                at: self.now,
                response: self.now - began,
                end,
            });
        } else if self.seen == self.simulation.warm_up {
            self.log.started = self.now;
            self.log.overflows = 0;
            (self.workers.busy_s, self.workers.waiting_s) = (0.0, 0.0);
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
        if let Some(admission) = self.simulation.admission {
            self.log.workers = self.workers.busy_s / length / f64::from(admission.workers);
            self.log.waiting = self.workers.waiting_s / length;
        }
        self.log
    }
}
