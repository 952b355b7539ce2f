//! Discrete-event simulation of a queueing network in virtual time, for results without a closed form: percentiles, workers, a
//! backlog, time-outs.
//!
//! An exchange visits the stations one after another, once or in several rounds. From a given station on, it holds a worker of
//! the server. If no worker is free, it waits in the backlog. If the backlog is full, the connection is refused or retried
//! later, as TCP repeats a dropped SYN. A client gives up after its time-out, but the server still finishes the work.
//!
//! All draws come from a seed: the same seed gives the same result on every machine. Source: Law: "Simulation Modeling and
//! Analysis" (2015), chapters 1 (next-event time advance) and 9.5 (batch means).

mod admission;
#[cfg(test)]
mod admission_tests;
mod distribution;
mod engine;
mod events;
mod gate;
mod result;
mod service;
#[cfg(test)]
mod tests;

pub use admission::{Admission, Handshake, Overflow, Retries};
pub use distribution::Distribution;
use fathometer_model::Seed;
pub use result::{BATCHES, Measured, SimulationResult};

use crate::{ModelError, PerSecond, Seconds, not_negative};

/// The service discipline of a station.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Discipline {
    /// First come, first served, with this number of servers.
    InOrder(u32),
    /// Processor sharing: all exchanges are served at the same time. Each receives an equal share of this number of servers,
    /// but at most one server.
    Shared(u32),
    /// First come, first served, with servers that share a quota of time in each period, as control groups limit CPU
    /// time (Linux, Documentation/scheduler/sched-bwc.rst). The servers work at full speed until the quota is used up;
    /// all of them then wait for the next period.
    Quota(Quota),
    /// A delay without queueing.
    Delay,
}

/// A quota of CPU time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quota {
    /// The number of exchanges that are served at a time.
    pub servers: u32,
    /// The quota in servers: server time per unit of time, above 0.
    pub share: f64,
    /// The length of a period.
    pub period: Seconds,
    /// The unused quota of earlier periods that may be used later (`cpu.max.burst`).
    pub burst: Seconds,
}

/// A station.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedStation {
    /// The name of the station.
    pub name: String,
    /// The service time of a visit.
    pub service: Distribution,
    /// The service discipline.
    pub discipline: Discipline,
}

/// The source of exchanges.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// A closed loop: users think, send a request, wait for the response and begin again.
    Users {
        /// The number of users.
        count: u32,
        /// The think time of a user.
        think: Distribution,
    },
    /// An open loop: a Poisson process with this rate.
    Arrivals(PerSecond),
}

/// The parameters of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulation {
    /// The source of exchanges.
    pub source: Source,
    /// The stations, in the order of the visits.
    pub stations: Vec<SimulatedStation>,
    /// The probabilities that an exchange has 1, 2, 3, … rounds. A round visits the stations in their order. Empty for
    /// a single round.
    pub rounds: Vec<f64>,
    /// The index of the station with which each round after the first begins.
    pub rounds_from: usize,
    /// The server's limits; `None` for no limit.
    pub admission: Option<Admission>,
    /// The time-out of a client; `None` if clients do not give up.
    pub timeout: Option<Seconds>,
    /// The number of exchanges that end before the measurement starts.
    pub warm_up: u32,
    /// The number of measured exchanges; at least [`BATCHES`].
    pub measured: u32,
    /// The seed of all random numbers.
    pub seed: Seed,
}

impl Simulation {
    /// Runs the simulation.
    ///
    /// # Errors
    /// When a parameter is out of its range.
    pub fn run(&self) -> Result<SimulationResult, ModelError> {
        self.check()?;
        Ok(result::summarised(engine::run(self)))
    }

    /// The mean number of rounds of an exchange.
    fn mean_rounds(&self) -> Result<f64, ModelError> {
        if self.rounds.is_empty() {
            return Ok(1.0);
        }
        let (mut sum, mut mean) = (0.0, 0.0);
        for (place, probability) in self.rounds.iter().enumerate() {
            sum += not_negative("the probability of a number of rounds", *probability)?;
            mean += (place + 1) as f64 * probability;
        }
        match (sum - 1.0).abs() < 1e-9 {
            true => Ok(mean),
            false => Err(ModelError::Parameter {
                what: "the sum of the probabilities of rounds".to_owned(),
                found: sum,
                range: "1",
            }),
        }
    }

    fn check(&self) -> Result<(), ModelError> {
        for station in &self.stations {
            station.check()?;
        }
        let rounds = self.mean_rounds()?;
        if self.rounds_from > 0 && self.rounds_from >= self.stations.len() {
            return Err(ModelError::Parameter {
                what: "the index of the station with which a round begins".to_owned(),
                found: self.rounds_from as f64,
                range: "the index of a station",
            });
        }
        self.check_source(rounds)?;
        if let Some(admission) = &self.admission {
            let before = self.stations.iter().take(admission.before);
            let way: Seconds = before.map(|station| station.service.mean()).sum();
            let pause = match &self.source {
                Source::Users { think, .. } => think.mean(),
                Source::Arrivals(rate) => Seconds(1.0 / rate.0),
            };
            admission.check(self.stations.len(), pause + way)?;
        }
        if let Some(timeout) = self.timeout {
            positive("the time-out", timeout.0)?;
        }
        match self.measured >= BATCHES {
            true => Ok(()),
            false => Err(ModelError::Parameter {
                what: "the number of measured exchanges".to_owned(),
                found: f64::from(self.measured),
                range: "at least 20",
            }),
        }
    }

    fn check_source(&self, rounds: f64) -> Result<(), ModelError> {
        match &self.source {
            Source::Users { count, think } => {
                let services = self.stations.iter().map(|station| station.service.mean());
                let mean: Seconds = services.sum();
                think.check("the think time")?;
                positive("the number of users", f64::from(*count))?;
                positive("the time of an exchange", mean.0 + think.mean().0)
            }
            Source::Arrivals(rate) => {
                positive("the arrival rate", rate.0)?;
                for (place, station) in self.stations.iter().enumerate() {
                    let visits = match place < self.rounds_from {
                        true => 1.0,
                        false => rounds,
                    };
                    let load = visits * (*rate * station.service.mean());
                    if let Some(capacity) = station.discipline.capacity()
                        && self.admission.is_none()
                        && load >= capacity
                    {
                        return Err(ModelError::Saturated {
                            station: station.name.clone(),
                            offered: load / capacity,
                        });
                    }
                }
                Ok(())
            }
        }
    }
}

impl SimulatedStation {
    fn check(&self) -> Result<(), ModelError> {
        self.service.check(&self.name)?;
        if let Discipline::Quota(quota) = &self.discipline {
            positive("the quota", quota.share)?;
            positive("the period of the quota", quota.period.0)?;
            not_negative("the burst of the quota", quota.burst.0)?;
        }
        match self.discipline.servers() {
            Some(servers) => positive("the number of servers", f64::from(servers)),
            None => Ok(()),
        }
    }
}

/// Checks that a parameter is finite and above 0.
fn positive(what: &str, value: f64) -> Result<(), ModelError> {
    match value.is_finite() && value > 0.0 {
        true => Ok(()),
        false => Err(ModelError::Parameter {
            what: what.to_owned(),
            found: value,
            range: "finite and above 0",
        }),
    }
}

impl Discipline {
    /// The number of exchanges that are served at a time; `None` if all are.
    pub(crate) fn servers(&self) -> Option<u32> {
        match self {
            Discipline::InOrder(servers) | Discipline::Shared(servers) => Some(*servers),
            Discipline::Quota(quota) => Some(quota.servers),
            Discipline::Delay => None,
        }
    }

    /// The maximum server time of the station per unit of time; `None` if it has no limit.
    pub(crate) fn capacity(&self) -> Option<f64> {
        let servers = f64::from(self.servers()?);
        Some(match self {
            Discipline::Quota(quota) => quota.share.min(servers),
            _ => servers,
        })
    }
}
