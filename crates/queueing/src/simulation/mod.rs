//! A network by discrete events in virtual time, for what has no formula: percentiles, workers, a backlog, time-outs.
//!
//! An exchange visits the stations one after another, once or in several rounds. From one of them on it occupies a worker of the server; without a
//! free worker it waits in the backlog, and when that is full, its connection is attempted again later, as TCP repeats a
//! dropped SYN. A client whose time-out passes gives up, and the server finishes the work nevertheless.
//!
//! All draws come from a seed: the same seed gives the same result on every machine. Source: Law: "Simulation Modeling and
//! Analysis" (2015), chapters 1 (next-event time advance) and 9.5 (batch means).

mod distribution;
mod engine;
mod events;
mod gate;
mod service;
#[cfg(test)]
mod tests;

pub use distribution::Distribution;
use fathometer_model::Seed;

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
}

/// A station.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulatedStation {
    /// Its name.
    pub name: String,
    /// The service of one exchange.
    pub service: Distribution,
    /// How it serves.
    pub discipline: Discipline,
}

/// Workers, and the backlog in front of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Admission {
    /// The station before which a worker is needed; it is occupied until the exchange ends.
    pub before: usize,
    /// The number of workers; at least one.
    pub workers: u32,
    /// How many connections may wait for a worker.
    pub backlog: u32,
    /// After what time a connection that found the backlog full is attempted again; above zero. Linux repeats a SYN after
    /// 1 s (RFC 6298, 2.1).
    pub retry: Seconds,
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
    /// How often an exchange visits all stations in turn, one round trip after another: the probabilities of once, twice
    /// and so on. Empty: once.
    pub rounds: Vec<f64>,
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

/// The number of batches of which the intervals are computed.
pub const BATCHES: u32 = 20;

/// The 0.975 quantile of Student's t with 19 degrees of freedom, for [`BATCHES`] batches.
const STUDENT_19: f64 = 2.093;

/// A mean and half the width of its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// The mean.
    pub mean: f64,
    /// Half the width of the interval, from batch means.
    pub half_width: f64,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct SimulationResult {
    /// Exchanges per second that ended, time-outs excluded.
    pub throughput: Measured,
    /// The mean response time in seconds; a time-out counts with the time that its client waited.
    pub response: Measured,
    /// The share of exchanges that timed out.
    pub timed_out: f64,
    /// Connections that found the backlog full, per exchange.
    pub refused: f64,
    /// The mean share of busy servers of each station; of a quota, the share of it that is used; of a delay, the mean
    /// number present.
    pub utilisations: Vec<f64>,
    /// All response times in ascending order.
    sorted: Vec<f64>,
}

impl SimulationResult {
    /// The response time that a share of exchanges does not exceed: the smallest value with at least this share at or
    /// below it.
    pub fn quantile(&self, share: f64) -> Seconds {
        let rank = (share * self.sorted.len() as f64).ceil() as usize;
        Seconds(self.sorted[rank.clamp(1, self.sorted.len()) - 1])
    }
}

impl Simulation {
    /// Runs the simulation.
    ///
    /// # Errors
    /// When a parameter is out of its range.
    pub fn run(&self) -> Result<SimulationResult, ModelError> {
        self.check()?;
        Ok(summarised(engine::run(self)))
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
        let positive = |what: &str, value: f64| match value.is_finite() && value > 0.0 {
            true => Ok(()),
            false => Err(ModelError::Parameter {
                what: what.to_owned(),
                found: value,
                range: "finite and above 0",
            }),
        };
        let positive_quota = |quota: &Quota| {
            positive("the quota", quota.share)?;
            positive("the period of the quota", quota.period.0)
        };
        let mut mean = 0.0;
        for station in &self.stations {
            station.service.check(&station.name)?;
            mean += station.service.mean().0;
            if let Discipline::Quota(quota) = &station.discipline {
                positive_quota(quota)?;
            }
            if let Some(servers) = station.discipline.servers() {
                positive("the number of servers", f64::from(servers))?;
            }
        }
        let each_round = self.mean_rounds()?;
        match &self.source {
            Source::Users { count, think } => {
                think.check("the think time")?;
                positive("the number of users", f64::from(*count))?;
                positive("the time of an exchange", mean + think.mean().0)?;
            }
            Source::Arrivals(rate) => {
                positive("the arrival rate", rate.0)?;
                for station in &self.stations {
                    let load = each_round * (*rate * station.service.mean());
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
            }
        }
        if let Some(admission) = &self.admission {
            positive("the number of workers", f64::from(admission.workers))?;
            positive("the time before a retry", admission.retry.0)?;
        }
        if let Some(timeout) = self.timeout {
            positive("the time-out", timeout.0)?;
        }
        not_negative("the warm-up", f64::from(self.warm_up))?;
        match self.measured >= BATCHES {
            true => Ok(()),
            false => Err(ModelError::Parameter {
                what: "the number of measured exchanges".to_owned(),
                found: f64::from(self.measured),
                range: "at least 20",
            }),
        }
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

/// The figures of the measured exchanges.
fn summarised(log: engine::Log) -> SimulationResult {
    let batch = log.ended.len() / BATCHES as usize;
    let mut rates = Vec::new();
    let mut means = Vec::new();
    let mut from = log.started;
    for ended in log.ended.chunks_exact(batch).take(BATCHES as usize) {
        let until = ended[batch - 1].at;
        let good = ended.iter().filter(|exchange| !exchange.timed_out).count();
        rates.push(good as f64 / (until - from));
        means.push(ended.iter().map(|exchange| exchange.response).sum::<f64>() / batch as f64);
        from = until;
    }
    let count = log.ended.len() as f64;
    let timed_out = log
        .ended
        .iter()
        .filter(|exchange| exchange.timed_out)
        .count() as f64;
    let mut throughput = measured(&rates);
    // The mean of the batches' rates is biased when they take different times.
    throughput.mean = (count - timed_out) / (log.finished - log.started);
    let mut response = measured(&means);
    response.mean = log
        .ended
        .iter()
        .map(|exchange| exchange.response)
        .sum::<f64>()
        / count;
    let mut sorted: Vec<f64> = log.ended.iter().map(|exchange| exchange.response).collect();
    sorted.sort_by(f64::total_cmp);
    SimulationResult {
        throughput,
        response,
        timed_out: timed_out / count,
        refused: log.refused as f64 / count,
        utilisations: log.utilisations,
        sorted,
    }
}

/// The interval of a mean from its batches.
fn measured(batches: &[f64]) -> Measured {
    let n = batches.len() as f64;
    let mean = batches.iter().sum::<f64>() / n;
    let squares: f64 = batches.iter().map(|x| (x - mean) * (x - mean)).sum();
    Measured {
        mean,
        half_width: STUDENT_19 * (squares / (n - 1.0) / n).sqrt(),
    }
}
