//! Closed networks of one class: a fixed number of users who think, visit the stations and begin again.
//!
//! The result is the exact solution of mean value analysis (Reiser and Lavenberg: "Mean-value analysis of closed
//! multichain queuing networks", JACM 27, 1980). The recursion of mean value analysis for multiserver stations computes
//! the probability of an empty station as 1 minus a sum near 1. It loses all digits if the station saturates (Chandy
//! and Sauer, CACM 23, 1980; Casale, "A note on stable flow-equivalent aggregation", QUESTA 60, 2008). Therefore the
//! same solution is computed by Buzen's convolution (CACM 16, 1973) in a form whose terms are all positive. With demand
//! D and c servers, the generating function of a station's factors f(k) = f(k-1) D / min(k, c) is
//!
//! ```text
//! F(z) = A(z) / (1 - D z / c),   A(z) = 1 + sum over 0 < k < c of f(k-1) D (1/k - 1/c) z^k
//! ```
//!
//! so that a convolution with F takes c steps for each population and has no subtraction.

use crate::wide::Wide;
use crate::{ModelError, PerSecond, Seconds, not_negative};

/// The largest number of users.
pub const MOST_USERS: u32 = 100_000;

/// The number of customers that a station serves at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Servers {
    /// This number; at least 1.
    Count(u32),
    /// All customers at the same time: a delay without queueing.
    Unlimited,
}

/// A station.
#[derive(Debug, Clone, PartialEq)]
pub struct Station {
    /// The name of the station.
    pub name: String,
    /// The total service time that an exchange needs at the station.
    pub demand: Seconds,
    /// The servers of the station.
    pub servers: Servers,
}

impl Station {
    /// Creates a station with this number of servers.
    pub fn queue(name: &str, demand: Seconds, servers: u32) -> Station {
        Station {
            name: name.to_owned(),
            demand,
            servers: Servers::Count(servers),
        }
    }

    /// Creates a station without queueing.
    pub fn delay(name: &str, demand: Seconds) -> Station {
        Station {
            name: name.to_owned(),
            demand,
            servers: Servers::Unlimited,
        }
    }

    /// The highest rate that the station can serve; infinite for a delay.
    pub fn capacity(&self) -> PerSecond {
        match self.servers {
            Servers::Count(count) => PerSecond(f64::from(count) / self.demand.0),
            Servers::Unlimited => PerSecond(f64::INFINITY),
        }
    }
}

/// A network and the users' think time.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// The mean time that a user thinks between exchanges.
    pub think: Seconds,
    /// The stations; their order has no effect.
    pub stations: Vec<Station>,
}

/// The solution of a network for a number of users.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    /// The number of users.
    pub users: u32,
    /// The throughput, in exchanges per second.
    pub throughput: PerSecond,
    /// The mean time of an exchange, without the think time.
    pub response: Seconds,
    /// The solution for each station, in the order of the network.
    pub stations: Vec<StationSolution>,
}

/// The solution for one station.
#[derive(Debug, Clone, PartialEq)]
pub struct StationSolution {
    /// The name of the station.
    pub name: String,
    /// The mean time that an exchange spends at the station, including waiting.
    pub residence: Seconds,
    /// The mean number of customers at the station, including those in service.
    pub customers: f64,
    /// The mean share of the station's servers that are busy, from 0 to 1; 0 for a delay.
    pub utilisation: f64,
}

impl Network {
    /// Returns the exact solution for a number of users.
    ///
    /// # Errors
    /// When a parameter is out of its range.
    pub fn solve(&self, users: u32) -> Result<Solution, ModelError> {
        self.check(users)?;
        let constants = self.constants(users, None);
        let throughput = ratio(&constants, users);
        let n = users as usize;
        let mut stations = Vec::new();
        for (place, station) in self.stations.iter().enumerate() {
            let (customers, utilisation) = match station.servers {
                Servers::Unlimited => (throughput * station.demand, 0.0),
                Servers::Count(servers) => {
                    let others = self.constants(users, Some(place));
                    let customers = mean_customers(station.demand, servers, &others, constants[n]);
                    let busy = throughput * station.demand / f64::from(servers);
                    (customers, busy.min(1.0))
                }
            };
            stations.push(StationSolution {
                name: station.name.clone(),
                residence: Seconds(customers / throughput.0),
                customers,
                utilisation,
            });
        }
        // The sum of the residences, because N/X - Z loses its digits if users mostly think.
        let response = stations.iter().map(|station| station.residence).sum();
        Ok(Solution {
            users,
            throughput,
            response,
            stations,
        })
    }

    /// Returns the exact throughput. This is faster than [`Network::solve`].
    ///
    /// # Errors
    /// When a parameter is out of its range.
    pub fn throughput(&self, users: u32) -> Result<PerSecond, ModelError> {
        self.check(users)?;
        Ok(ratio(&self.constants(users, None), users))
    }

    /// Returns the normalisation constants of populations 0 to `users`, without the station at `left_out`. The
    /// parameters must be in their range ([`Network::check`]).
    pub(crate) fn constants(&self, users: u32, left_out: Option<usize>) -> Vec<Wide> {
        let kept = || {
            let stations = self.stations.iter().enumerate();
            stations.filter(move |(place, _)| Some(*place) != left_out)
        };
        let delays = kept().filter(|(_, station)| station.servers == Servers::Unlimited);
        let delay = self.think.0 + delays.map(|(_, station)| station.demand.0).sum::<f64>();
        let mut constants = vec![Wide::new(1.0)];
        for n in 1..=users {
            let last = constants[n as usize - 1];
            constants.push(last * (delay / f64::from(n)));
        }
        for (_, station) in kept() {
            if let Servers::Count(servers) = station.servers {
                convolve(&mut constants, station.demand, servers);
            }
        }
        constants
    }

    pub(crate) fn check(&self, users: u32) -> Result<(), ModelError> {
        if !(1..=MOST_USERS).contains(&users) {
            return Err(ModelError::Parameter {
                what: "the number of users".to_owned(),
                found: f64::from(users),
                range: "from 1 to 100000",
            });
        }
        let mut total = not_negative("the think time", self.think.0)?;
        for station in &self.stations {
            total += not_negative(&format!("the demand at {}", station.name), station.demand.0)?;
            if station.servers == Servers::Count(0) {
                return Err(ModelError::Parameter {
                    what: format!("the number of servers of {}", station.name),
                    found: 0.0,
                    range: "at least 1",
                });
            }
        }
        match total > 0.0 {
            true => Ok(()),
            false => Err(ModelError::Parameter {
                what: "the time of an exchange and its think time".to_owned(),
                found: total,
                range: "above 0",
            }),
        }
    }
}

/// X(N) = G(N-1) / G(N).
fn ratio(constants: &[Wide], users: u32) -> PerSecond {
    let n = users as usize;
    PerSecond(constants[n - 1].over(constants[n]))
}

/// Multiplies the generating function of `constants` by a station's.
fn convolve(constants: &mut [Wide], demand: Seconds, servers: u32) {
    // With as many servers as users there is no queueing, so that more servers have no effect.
    let most = constants.len().saturating_sub(1).max(1);
    let c = (servers as usize).min(most);
    let mut numerator = vec![Wide::new(1.0)];
    let mut factor = Wide::new(1.0);
    for k in 1..c {
        numerator.push(factor * (demand.0 * (1.0 / k as f64 - 1.0 / c as f64)));
        factor = factor * (demand.0 / k as f64);
    }
    // From the largest population down, so that the constants of smaller populations do not yet include this station.
    for n in (0..constants.len()).rev() {
        let terms = numerator.iter().take(n + 1).enumerate();
        constants[n] = terms.fold(Wide::ZERO, |sum, (k, &a)| sum + a * constants[n - k]);
    }
    for n in 1..constants.len() {
        constants[n] = constants[n] + constants[n - 1] * (demand.0 / c as f64);
    }
}

/// Returns the mean number of customers at a station: the mean of the marginal distribution p(j | N) = f(j) G'(N - j) /
/// G(N), where G' is without the station.
pub(crate) fn mean_customers(demand: Seconds, servers: u32, others: &[Wide], whole: Wide) -> f64 {
    let users = others.len() - 1;
    let mut factor = Wide::new(1.0);
    let mut mean = 0.0;
    for j in 1..=users {
        factor = factor * (demand.0 / j.min(servers as usize) as f64);
        mean += j as f64 * (factor * others[users - j]).over(whole);
    }
    mean
}

#[cfg(test)]
mod tests;
