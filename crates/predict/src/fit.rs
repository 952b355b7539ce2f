//! A closed network fitted to light loads, and its residual check.
//!
//! The network has a delay (the path, connection set-up, and all else that does not queue), the link, and the processor. A
//! processor of less than a core is one server that is slower by the quota; of more, it is a station of several servers.

use fathometer_model::Bandwidth;
use fathometer_queueing::closed::{Network, Solution, Station};
use fathometer_queueing::{PerSecond, Seconds, varying};

use crate::PredictError;
use crate::law::{Law, LawKind, limit};
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
    /// The lowest fitted throughput; below it, the processor time of an exchange is that at it.
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
    /// All laws that pass the check; the chosen one first.
    pub accepted: Vec<LawKind>,
    /// Why other laws were rejected.
    pub rejected: Vec<String>,
    /// Of the processor time.
    pub busy: Residual,
    /// Of the throughput.
    pub throughput: Residual,
    /// Of the mean latency.
    pub response: Residual,
}

impl Fitted {
    /// Fits a network with a law of this kind; `None` when the loads do not determine it.
    pub fn of(
        kind: LawKind,
        loads: &[Load],
        series: &Series,
    ) -> Result<Option<Fitted>, PredictError> {
        let Some(law) = kind.fit(loads) else {
            return Ok(None);
        };
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
            law,
            delay: Seconds(0.0),
            think: Seconds(think.max(0.0)),
            cores: series.cores,
            link_time: Seconds(link_time),
            link: series.link,
            lowest: PerSecond(rates.fold(f64::INFINITY, f64::min)),
        };
        // Latency is the delay and what the stations add, which depends little on the delay: a few steps converge. The
        // mean of relative deviations becomes zero.
        for _ in 0..6 {
            let (mut deviation, mut weights) = (0.0, 0.0);
            for load in loads {
                let network = fitted.network(&Scenario::default(), load.throughput());
                let modelled = network.solve(load.users)?.response.0;
                let measured = load.response().0;
                deviation += (measured - modelled) / measured;
                weights += 1.0 / measured;
            }
            fitted.delay.0 = (fitted.delay.0 + deviation / weights).max(0.0);
        }
        Ok(Some(fitted))
    }

    /// The number of servers of the processor's station, and the service time of an exchange at a throughput.
    pub fn processor(&self, scenario: &Scenario, rate: PerSecond) -> (u32, Seconds) {
        let cores = scenario.cores(self.cores);
        let servers = cores.floor().max(1.0);
        let rate = PerSecond(rate.0.max(self.lowest.0));
        (
            servers as u32,
            Seconds(self.law.demand(rate).0 * servers / cores),
        )
    }

    /// The time of an exchange on the link.
    pub fn on_link(&self, scenario: &Scenario) -> Seconds {
        Seconds(scenario.link_s(self.link_time.0, self.link))
    }

    /// The network at a throughput.
    pub fn network(&self, scenario: &Scenario, rate: PerSecond) -> Network {
        let (servers, service) = self.processor(scenario, rate);
        Network {
            think: self.think,
            stations: vec![
                Station::delay("delay", self.delay),
                Station::queue(LINK, self.on_link(scenario), 1),
                Station::queue(PROCESSOR, service, servers),
            ],
        }
    }

    /// The exact solution for a number of users.
    ///
    /// # Errors
    /// When the number is out of range.
    pub fn solve(&self, scenario: &Scenario, users: u32) -> Result<Solution, PredictError> {
        let network_at = |rate| self.network(scenario, rate);
        Ok(varying::solve(&network_at, users)?)
    }

    /// The deviation of the loads' throughput and latency from the network, as shares.
    fn deviations(&self, loads: &[Load]) -> Result<(f64, f64), PredictError> {
        let (mut rates, mut times) = (0.0, 0.0);
        for load in loads {
            let solution = self.solve(&Scenario::default(), load.users)?;
            rates += (solution.throughput.0 / load.throughput().0 - 1.0).powi(2);
            times += (solution.response.0 / load.response().0 - 1.0).powi(2);
        }
        let freedom = loads.len().saturating_sub(1).max(1) as f64;
        Ok(((rates / freedom).sqrt(), (times / freedom).sqrt()))
    }
}

impl Model {
    /// The simplest network that passes the residual check on these loads; of equally simple ones, the closest.
    ///
    /// # Errors
    /// When there is none.
    pub fn choose(loads: &[Load], series: &Series) -> Result<Model, PredictError> {
        let mut passing: Vec<Model> = Vec::new();
        let mut rejected = Vec::new();
        for kind in LawKind::ALL {
            match checked(kind, loads, series)? {
                Ok(model) => passing.push(model),
                Err(reason) => rejected.push(format!("{}: {reason}", kind.words())),
            }
        }
        passing.sort_by(|left, right| {
            let size = |model: &Model| model.fitted.law.kind().parameters();
            let by_size = size(left).cmp(&size(right));
            by_size.then(left.busy.found.total_cmp(&right.busy.found))
        });
        let accepted = passing
            .iter()
            .map(|model| model.fitted.law.kind())
            .collect();
        match passing.into_iter().next() {
            Some(model) => Ok(Model {
                accepted,
                rejected,
                ..model
            }),
            None => Err(PredictError::NoModel(format!(
                "{}; {}",
                rejected.join("; "),
                match loads.len() {
                    0..=2 => "measure at least 3 different numbers of users below the knee",
                    _ => "the server's cost is not a smooth function of its load",
                }
            ))),
        }
    }
}

/// The network with a law of this kind, or why it does not pass.
fn checked(
    kind: LawKind,
    loads: &[Load],
    series: &Series,
) -> Result<Result<Model, String>, PredictError> {
    let Some(fitted) = Fitted::of(kind, loads, series)? else {
        return Ok(Err(format!(
            "{} loads do not determine it, or its parameters make no sense",
            loads.len()
        )));
    };
    let Some(found) = fitted.law.residual(loads) else {
        return Ok(Err(format!(
            "{} loads do not suffice to check it",
            loads.len()
        )));
    };
    let (rates, times) = fitted.deviations(loads)?;
    let model = Model {
        fitted,
        accepted: Vec::new(),
        rejected: Vec::new(),
        busy: Residual {
            found,
            limit: limit(loads, |reading| reading.busy),
        },
        throughput: Residual {
            found: rates,
            limit: limit(loads, |reading| reading.throughput.0),
        },
        response: Residual {
            found: times,
            limit: limit(loads, |reading| reading.response.0),
        },
    };
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
