//! A network by discrete events in virtual time, for what has no formula: percentiles, workers, a backlog, time-outs.
//!
//! An exchange visits the stations one after another, once or in several rounds. From one of them on it occupies a worker of the server; without a
//! free worker it waits in the backlog, and when that is full, its connection is refused or attempted again later, as TCP
//! repeats a dropped SYN. A client whose time-out passes gives up, and the server finishes the work nevertheless.
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

/// How a station serves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Discipline {
    /// In the order of arrival, by this number of servers.
    InOrder(u32),
    /// All at once, each at an equal share of this number of servers and at most one server.
    Shared(u32),
    /// In the order of arrival, by a number of servers that together have a quota of time in each period, as control
    /// groups limit processor time (Linux, Documentation/scheduler/sched-bwc.rst): they work at full speed until the
    /// quota is used up, and then all of them wait for the next period.
    Quota(Quota),
    /// Without queueing.
    Delay,
}

/// A quota of processor time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quota {
    /// How many exchanges are served at a time.
    pub servers: u32,
    /// The server time per time, above 0.
    pub share: f64,
    /// The length of a period.
    pub period: Seconds,
    /// How much of the quota of earlier periods may be used later (`cpu.max.burst`).
    pub burst: Seconds,
}

/// A station.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedStation {
    /// Its name.
    pub name: String,
    /// The service of one visit.
    pub service: Distribution,
    /// How it serves.
    pub discipline: Discipline,
}

/// Where exchanges come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Users who think, send, wait for the response and begin again.
    Users {
        /// Their number.
        count: u32,
        /// Their think time.
        think: Distribution,
    },
    /// A Poisson process.
    Arrivals(PerSecond),
}

/// What to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulation {
    /// Where exchanges come from.
    pub source: Source,
    /// The stations in the order of the visits.
    pub stations: Vec<SimulatedStation>,
    /// How often an exchange visits the stations in turn, one round trip after another: the probabilities of once, twice
    /// and so on. Empty: once.
    pub rounds: Vec<f64>,
    /// The station with which each round after the first begins.
    pub rounds_from: usize,
    /// The server's limits; `None`: no limit.
    pub admission: Option<Admission>,
    /// After what time a client gives up.
    pub timeout: Option<Seconds>,
    /// Exchanges that end before the measurement starts.
    pub warm_up: u32,
    /// Exchanges that are measured; at least [`BATCHES`].
    pub measured: u32,
    /// The seed of all draws.
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
                what: "the station with which a round begins".to_owned(),
                found: self.rounds_from as f64,
                range: "the place of a station",
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
    /// How many exchanges are served at a time; `None`: all.
    pub(crate) fn servers(&self) -> Option<u32> {
        match self {
            Discipline::InOrder(servers) | Discipline::Shared(servers) => Some(*servers),
            Discipline::Quota(quota) => Some(quota.servers),
            Discipline::Delay => None,
        }
    }

    /// The server time per time that the station has at most; `None`: without limit.
    pub(crate) fn capacity(&self) -> Option<f64> {
        let servers = f64::from(self.servers()?);
        Some(match self {
            Discipline::Quota(quota) => quota.share.min(servers),
            _ => servers,
        })
    }
}
