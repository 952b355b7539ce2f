//! A closed network fitted to light loads, and its exact solution.
//!
//! The network has a delay (the path, connection set-up, and all else that does not queue), the link, and the processor: a
//! station of several servers, and of less than a core one server that is slower by the quota.

use fathometer_model::Bandwidth;
use fathometer_queueing::closed::{Network, Servers, Solution, Station};
use fathometer_queueing::{PerSecond, Seconds};

use crate::PredictError;
use crate::law::{Law, LawFit, LawKind};
use crate::scenario::Scenario;
use crate::series::{Load, Series};

/// The name of the processor's station.
pub const PROCESSOR: &str = "processor";
/// The name of the link's station.
pub const LINK: &str = "link";

/// The parameters of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// The processor time of an exchange.
    pub law: Law,
    /// What speaks against that law ([`LawFit::misfit`]).
    pub misfit: f64,
    /// The mean number of exchanges at a core at each fitted load.
    pub queues: Vec<f64>,
    /// The time of an exchange outside of the processor and the link.
    pub delay: Seconds,
    /// The time of a user between exchanges, from the response time law Z = N/X - R.
    pub think: Seconds,
    /// The server's processor, in cores.
    pub cores: f64,
    /// The time of an exchange on the link.
    pub link_time: Seconds,
    /// The rate of the link, if known.
    pub link: Option<Bandwidth>,
    /// The lowest fitted throughput; below it, the background counts as at it.
    pub lowest: PerSecond,
}

impl Fitted {
    /// Fits a network with a law of this kind; `None` when the loads do not determine it. `share` is assumed of the
    /// wake-ups, as [`crate::law::WAKE_UP_SHARE`].
    ///
    /// # Errors
    /// When the network has no solution.
    pub fn of(
        kind: LawKind,
        loads: &[Load],
        series: &Series,
        share: f64,
    ) -> Result<Option<Fitted>, PredictError> {
        let count = loads.len() as f64;
        let bytes: Option<Vec<f64>> = loads
            .iter()
            .flat_map(|load| &load.readings)
            .map(|reading| reading.wire_bytes)
            .collect();
        let link_time = match (series.link, bytes) {
            (Some(rate), Some(bytes)) => {
                8.0 * bytes.iter().sum::<f64>()
                    / bytes.len() as f64
                    / rate.as_bits_per_second() as f64
            }
            _ => 0.0,
        };
        let pause = |load: &Load| f64::from(load.users) / load.throughput().0 - load.response().0;
        let think = loads.iter().map(pause).sum::<f64>() / count;
        let rates = loads.iter().map(|load| load.throughput().0);
        let mut fitted = Fitted {
            law: Law::Constant { demand_s: 0.0 },
            misfit: 0.0,
            queues: Vec::new(),
            delay: Seconds(0.0),
            think: Seconds(think.max(0.0)),
            cores: series.cores,
            link_time: Seconds(link_time),
            link: series.link,
            lowest: PerSecond(rates.fold(f64::INFINITY, f64::min)),
        };
        fitted.fit_delay(loads)?;
        Ok(kind
            .fit(loads, &fitted.queues, share)
            .map(|LawFit { law, misfit }| Fitted {
                law,
                misfit,
                ..fitted
            }))
    }

    /// Finds the delay with which the network has the measured latency, and the queues, both with the measured processor
    /// times. Latency is the delay and what the stations add, which depends little on the delay: a few steps converge. The
    /// mean of relative deviations becomes zero.
    fn fit_delay(&mut self, loads: &[Load]) -> Result<(), PredictError> {
        for _ in 0..6 {
            let (mut deviation, mut weights) = (0.0, 0.0);
            self.queues.clear();
            for load in loads {
                let network = self.network(&Scenario::default(), demand(load));
                let solution = network.solve(load.users)?;
                let measured = load.response().0;
                deviation += (measured - solution.response.0) / measured;
                weights += 1.0 / measured;
                self.queues.push(queue(&solution, &network));
            }
            self.delay.0 = (self.delay.0 + deviation / weights).max(0.0);
        }
        Ok(())
    }

    /// The number of servers of the processor's station, and the service time of an exchange that takes this processor
    /// time.
    pub fn processor(&self, scenario: &Scenario, demand: Seconds) -> (u32, Seconds) {
        let cores = scenario.cores(self.cores);
        let servers = cores.floor().max(1.0);
        (servers as u32, Seconds(demand.0 * servers / cores))
    }

    /// The time of an exchange on the link.
    pub fn on_link(&self, scenario: &Scenario) -> Seconds {
        Seconds(scenario.link_s(self.link_time.0, self.link))
    }

    /// The network in which an exchange takes this processor time.
    pub fn network(&self, scenario: &Scenario, demand: Seconds) -> Network {
        let (servers, service) = self.processor(scenario, demand);
        Network {
            think: self.think,
            stations: vec![
                Station::delay("delay", self.delay),
                Station::queue(LINK, self.on_link(scenario), 1),
                Station::queue(PROCESSOR, service, servers),
            ],
        }
    }

    /// The exact solution for a number of users, and the processor time of an exchange: that at which the network has the
    /// throughput and the queue of which the law makes the same processor time.
    ///
    /// # Errors
    /// When the number is out of range.
    pub fn solve(
        &self,
        scenario: &Scenario,
        users: u32,
    ) -> Result<(Solution, Seconds), PredictError> {
        // A longer processor time means a lower throughput and a longer queue. Where the background is small, that makes the
        // processor time of the law shorter, so that there is one solution.
        let mut low = self.law.least().0;
        let mut high = self.law.demand(self.lowest, 0.0).0;
        let mut demand = low;
        for _ in 0..MOST_STEPS {
            demand = (low * high).sqrt();
            let network = self.network(scenario, Seconds(demand));
            let solution = network.solve(users)?;
            let rate = PerSecond(solution.throughput.0.max(self.lowest.0));
            match self.law.demand(rate, queue(&solution, &network)).0 > demand {
                true => low = demand,
                false => high = demand,
            }
            if high - low <= PRECISION * high {
                break;
            }
        }
        let demand = Seconds(demand);
        Ok((self.network(scenario, demand).solve(users)?, demand))
    }
}

/// The measured processor time of an exchange.
pub(crate) fn demand(load: &Load) -> Seconds {
    Seconds(load.mean(|reading| reading.busy) / load.throughput().0)
}

/// Steps of the search for a processor time at most, and the relative precision at which it ends.
const MOST_STEPS: u32 = 60;
const PRECISION: f64 = 1e-5;

/// The mean number of exchanges at a core of the processor.
fn queue(solution: &Solution, network: &Network) -> f64 {
    let stations = solution.stations.iter().zip(&network.stations);
    let each = stations.filter_map(|(solved, station)| match station.servers {
        Servers::Count(count) if station.name == PROCESSOR => {
            Some(solved.customers / f64::from(count))
        }
        _ => None,
    });
    each.sum()
}
