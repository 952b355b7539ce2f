//! A closed network fitted to light loads, and its residual check.
//!
//! The network has a delay (the path, connection set-up, and all else that does not queue), the link, and the processor: a
//! station of several servers, or a quota. The exact solution has a server that is slower by the quota, and serves for the
//! intervals; the figures themselves are those of a simulation with the quota and its period.

use fathometer_model::{Bandwidth, Seed};
use fathometer_queueing::closed::{Network, Servers, Solution, Station};
use fathometer_queueing::simulation::SimulationResult;
use fathometer_queueing::{PerSecond, Seconds};

use crate::PredictError;
use crate::law::{Law, LawFit, LawKind, WAKE_UP_SHARE, limit};
use crate::scenario::Scenario;
use crate::series::{Load, Series};
use crate::simulated::{Run, Shape};

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

/// What a fit may deviate and does, as shares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Residual {
    /// Root mean square over the fitted loads.
    pub found: f64,
    /// The largest that is accepted.
    pub limit: f64,
}

impl Residual {
    fn is_accepted(&self) -> bool {
        self.found <= self.limit
    }
}

/// The chosen network.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Its parameters.
    pub fitted: Fitted,
    /// The same for the exact solution, which has a slower processor instead of a quota.
    pub exact: Fitted,
    /// The period of the quota, if there is one.
    pub period: Option<Seconds>,
    /// How latency varies between exchanges.
    pub shape: Shape,
    /// The seed of the simulations for the fit.
    pub seed: Seed,
    /// All laws that pass the check, with their Akaike weights; the chosen one first.
    pub accepted: Vec<(LawKind, f64)>,
    /// Why other laws were rejected.
    pub rejected: Vec<String>,
    /// Of the processor time.
    pub busy: Residual,
    /// Of the throughput.
    pub throughput: Residual,
    /// Of the mean latency.
    pub response: Residual,
}

/// Figures of a network with a number of users.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Exchanges per second.
    pub throughput: PerSecond,
    /// The mean latency.
    pub response: Seconds,
    /// The processor time of an exchange.
    pub demand: Seconds,
    /// The exact solution, in which a quota is a slower processor.
    pub exact: Solution,
    /// The simulation.
    pub simulated: SimulationResult,
}

/// The smallest number of loads that a model is fitted to.
const LEAST_LOADS: usize = 3;

/// Exchanges of a simulation for the fit.
const FIT_EXCHANGES: u32 = 10_000;

impl Fitted {
    /// Fits a network with a law of this kind; `None` when the loads do not determine it. `share` is assumed of the
    /// wake-ups, as [`WAKE_UP_SHARE`].
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

impl Model {
    /// The network that passes the residual check on these loads and has the lowest information criterion: the law's misfit
    /// and 2 for each of its parameters (Akaike, IEEE Transactions on Automatic Control 19, 1974).
    ///
    /// # Errors
    /// When there is none.
    pub fn choose(loads: &[Load], series: &Series, seed: Seed) -> Result<Model, PredictError> {
        // With two loads, a cost that falls with the load cannot be told from noise.
        if loads.len() < LEAST_LOADS {
            return Err(PredictError::NoModel(format!(
                "there are {} loads; measure at least {LEAST_LOADS} different numbers of users below the knee",
                loads.len()
            )));
        }
        let mut passing: Vec<Model> = Vec::new();
        let mut rejected = Vec::new();
        for kind in LawKind::ALL {
            match checked(kind, loads, series, seed)? {
                Ok(model) => passing.push(model),
                Err(reason) => rejected.push(format!("{}: {reason}", kind.words())),
            }
        }
        passing.sort_by(|left, right| left.criterion().total_cmp(&right.criterion()));
        let Some(best) = passing.first() else {
            return Err(PredictError::NoModel(format!(
                "{}; the server's cost is not a smooth function of its load",
                rejected.join("; ")
            )));
        };
        let weight = |model: &Model| (0.5 * (best.criterion() - model.criterion())).exp();
        let sum: f64 = passing.iter().map(weight).sum();
        let accepted = passing
            .iter()
            .map(|model| (model.fitted.law.kind(), weight(model) / sum))
            .collect();
        Ok(Model {
            accepted,
            rejected,
            ..best.clone()
        })
    }

    fn criterion(&self) -> f64 {
        self.fitted.misfit + 2.0 * self.fitted.law.kind().parameters() as f64
    }

    /// The predicted figures for a number of users.
    ///
    /// # Errors
    /// When the number is out of range.
    pub fn at(
        &self,
        scenario: &Scenario,
        users: u32,
        exchanges: u32,
        seed: Seed,
    ) -> Result<Point, PredictError> {
        let run = Run {
            shape: &self.shape,
            period: self.period,
            exchanges,
            seed,
        };
        let (exact, demand) = self.exact.solve(scenario, users)?;
        let simulated = run.at(&self.fitted, scenario, users, demand)?;
        let (throughput, response) = match self.period {
            None => (exact.throughput, exact.response),
            Some(_) => (
                PerSecond(simulated.throughput.mean),
                Seconds(simulated.response.mean),
            ),
        };
        Ok(Point {
            throughput,
            response,
            demand,
            exact,
            simulated,
        })
    }

    /// The simulation of a fitted load, with its measured processor time.
    ///
    /// # Errors
    /// When it cannot be simulated.
    pub fn fitted_at(&self, load: &Load) -> Result<SimulationResult, PredictError> {
        let run = Run {
            shape: &self.shape,
            period: self.period,
            exchanges: FIT_EXCHANGES,
            seed: self.seed,
        };
        run.at(&self.fitted, &Scenario::default(), load.users, demand(load))
    }

    /// The deviation of the loads' throughput and latency from the network, as shares.
    fn deviations(&self, loads: &[Load], seed: Seed) -> Result<(f64, f64), PredictError> {
        let (mut rates, mut times) = (0.0, 0.0);
        for load in loads {
            let point = self.at(&Scenario::default(), load.users, FIT_EXCHANGES, seed)?;
            rates += (point.throughput.0 / load.throughput().0 - 1.0).powi(2);
            times += (point.response.0 / load.response().0 - 1.0).powi(2);
        }
        let freedom = loads.len().saturating_sub(1).max(1) as f64;
        Ok(((rates / freedom).sqrt(), (times / freedom).sqrt()))
    }
}

/// The network with a law of this kind, or why it does not pass.
fn checked(
    kind: LawKind,
    loads: &[Load],
    series: &Series,
    seed: Seed,
) -> Result<Result<Model, String>, PredictError> {
    let Some(exact) = Fitted::of(kind, loads, series, WAKE_UP_SHARE)? else {
        return Ok(Err(format!(
            "{} loads do not determine it, or its parameters make no sense",
            loads.len()
        )));
    };
    let Some(found) = exact.law.residual(loads, &exact.queues) else {
        return Ok(Err(format!(
            "{} loads do not suffice to check it",
            loads.len()
        )));
    };
    let shape = Shape::of(loads, series);
    let run = Run {
        shape: &shape,
        period: series.quota_period,
        exchanges: FIT_EXCHANGES,
        seed,
    };
    let fitted = match series.quota_period {
        None => exact.clone(),
        Some(_) => run.with_delay(exact.clone(), loads)?,
    };
    let residual = |found, limit| Residual { found, limit };
    let mut model = Model {
        fitted,
        exact,
        period: series.quota_period,
        shape,
        seed,
        accepted: Vec::new(),
        rejected: Vec::new(),
        busy: residual(found, limit(loads, |reading| reading.busy)),
        throughput: residual(0.0, limit(loads, |reading| reading.throughput.0)),
        response: residual(0.0, limit(loads, |reading| reading.response.0)),
    };
    (model.throughput.found, model.response.found) = model.deviations(loads, seed)?;
    let checks = [
        ("processor time", model.busy),
        ("throughput", model.throughput),
        ("mean latency", model.response),
    ];
    let failed = checks.iter().find(|(_, residual)| !residual.is_accepted());
    Ok(match failed {
        None => Ok(model),
        Some((what, residual)) => Err(format!(
            "the {what} deviates by {:.0} %, and {:.0} % is accepted",
            100.0 * residual.found,
            100.0 * residual.limit
        )),
    })
}
