//! The choice of a network, and its residual check.
//!
//! The exact solution models a quota as a slower processor; it is used for the intervals. The figures of a server with a
//! quota, or with fewer workers than users, come from a simulation of the quota and the workers.

use fathometer_model::Seed;
use fathometer_queueing::closed::Solution;
use fathometer_queueing::simulation::SimulationResult;
use fathometer_queueing::{PerSecond, Seconds};

use crate::PredictError;
use crate::law::{ACCEPTED, LawKind, WAKE_UP_SHARE, limit};
use crate::network::{Fitted, demand};
use crate::scenario::Scenario;
use crate::series::{FitData, Load, QuotaTimes, Series, pooled_deviation};
use crate::simulated::{Run, SERVICE_VARIATIONS, Shape};

/// The residual of a fit and its limit, as shares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Residual {
    /// The root mean square of the deviations of the fitted loads.
    pub found: f64,
    /// The largest accepted residual.
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
    /// The parameters of the network.
    pub fitted: Fitted,
    /// The parameters for the exact solution, which has a slower processor instead of a quota.
    pub exact: Fitted,
    /// The quota, if the server has one.
    pub quota: Option<QuotaTimes>,
    /// How latency varies between exchanges.
    pub shape: Shape,
    /// Networks with larger variations of the CPU time that also fit the mean latencies of the fitted loads. They widen
    /// the intervals. Empty without a quota.
    pub larger_variations: Vec<(Fitted, Shape)>,
    /// The seed of the simulations for the fit.
    pub seed: Seed,
    /// All laws that pass the check, with their Akaike weights; the chosen law is the first.
    pub accepted: Vec<(LawKind, f64)>,
    /// The reasons why other laws were rejected.
    pub rejected: Vec<String>,
    /// The residual of the CPU time.
    pub busy: Residual,
    /// The residual of the throughput.
    pub throughput: Residual,
    /// The residual of the mean latency.
    pub response: Residual,
}

/// The figures of a network for a number of users.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The throughput.
    pub throughput: PerSecond,
    /// The mean latency.
    pub response: Seconds,
    /// The CPU time of an exchange.
    pub demand: Seconds,
    /// The exact solution, in which a quota is a slower processor and workers are a flow-equivalent server.
    pub exact: Solution,
    /// The result of the simulation.
    pub simulated: SimulationResult,
}

/// The minimum number of loads for which noise may explain a deviation. With fewer loads, a CPU time that falls with
/// the load cannot be distinguished from noise.
const TREND_LOADS: usize = 3;

/// The number of exchanges of a simulation for the fit.
const FIT_EXCHANGES: u32 = 10_000;

impl Model {
    /// Returns the network that passes the residual check on these loads and has the lowest information criterion: the law's
    /// misfit plus 2 for each of its parameters (Akaike, IEEE Transactions on Automatic Control 19, 1974).
    ///
    /// # Errors
    /// When no network passes the check.
    pub fn choose(data: &FitData, series: &Series, seed: Seed) -> Result<Model, PredictError> {
        if !series.has_processor_time {
            return Err(PredictError::NoModel(
                "the results have no CPU time of the server: measure with --probe PID".to_owned(),
            ));
        }
        let mut passing: Vec<Model> = Vec::new();
        let mut rejected = Vec::new();
        for &kind in LawKind::tried(!data.bursts.is_empty()) {
            match checked(kind, data, series, seed)? {
                Ok(model) => passing.push(model),
                Err(reason) => rejected.push(format!("{}: {reason}", kind.words())),
            }
        }
        passing.sort_by(|left, right| left.criterion().total_cmp(&right.criterion()));
        let Some(best) = passing.first() else {
            return Err(PredictError::NoModel(format!(
                "{}; {}",
                rejected.join("; "),
                match data.loads.len() {
                    ..TREND_LOADS => "measure at least 3 different numbers of users below the knee",
                    _ => "the CPU time per exchange is not a smooth function of the load",
                }
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
        self.fitted.misfit + 2.0 * self.fitted.law.parameters() as f64
    }

    /// Returns the predicted figures for a number of users.
    ///
    /// # Errors
    /// When the number of users is out of range.
    pub fn at(
        &self,
        scenario: &Scenario,
        users: u32,
        exchanges: u32,
        seed: Seed,
    ) -> Result<Point, PredictError> {
        self.with(&self.fitted, &self.shape, scenario, users, exchanges, seed)
    }

    /// Returns the predicted figures for each of the larger variations of the CPU time.
    ///
    /// # Errors
    /// When the number of users is out of range.
    pub fn at_larger_variations(
        &self,
        scenario: &Scenario,
        users: u32,
        exchanges: u32,
        seed: Seed,
    ) -> Result<Vec<Point>, PredictError> {
        let each = self.larger_variations.iter();
        each.map(|(fitted, shape)| self.with(fitted, shape, scenario, users, exchanges, seed))
            .collect()
    }

    fn with(
        &self,
        fitted: &Fitted,
        shape: &Shape,
        scenario: &Scenario,
        users: u32,
        exchanges: u32,
        seed: Seed,
    ) -> Result<Point, PredictError> {
        let run = Run {
            shape,
            quota: self.quota,
            exchanges,
            seed,
        };
        let (exact, demand) = self.exact.solve(scenario, users)?;
        let simulated = run.at(fitted, scenario, users, demand)?;
        let is_limited = fitted.admission.limits(scenario, users).is_some();
        let (throughput, response) = match self.quota.is_some() || is_limited {
            false => (exact.throughput, exact.response),
            true => (
                PerSecond(simulated.throughput.mean),
                Seconds(simulated.completed.mean),
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

    /// Returns the simulation of a fitted load, with its measured CPU time.
    ///
    /// # Errors
    /// When the load cannot be simulated.
    pub fn fitted_at(&self, load: &Load) -> Result<SimulationResult, PredictError> {
        let run = Run {
            shape: &self.shape,
            quota: self.quota,
            exchanges: FIT_EXCHANGES,
            seed: self.seed,
        };
        run.at(&self.fitted, &Scenario::default(), load.users, demand(load))
    }

    /// Returns the deviations of the loads' throughput and mean latency from the network, as shares.
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

/// Returns the difference that noise may cause between two sums of squared deviations of the mean latencies: the square
/// of a load's standard error (the one-standard-error rule; Breiman and others, "Classification and Regression Trees",
/// 1984, 3.4.3). The standard error is at least 1 % (a judgement): a server also works after it has sent the response,
/// and this CPU time is not part of the latency.
fn noise_of_response(loads: &[Load]) -> f64 {
    let readings: usize = loads.iter().map(|load| load.readings.len()).sum();
    let each = (readings as f64 / loads.len() as f64).sqrt();
    let error = pooled_deviation(loads, |reading| reading.response.0) / each;
    error.max(0.01).powi(2)
}

/// Returns the network with a law of this kind, or the reason why it does not pass the check.
fn checked(
    kind: LawKind,
    data: &FitData,
    series: &Series,
    seed: Seed,
) -> Result<Result<Model, String>, PredictError> {
    let loads = &data.loads;
    // Without a load, the delay cannot be fitted.
    if loads.is_empty() {
        return Ok(Err("no load in a steady state is left to fit".to_owned()));
    }
    let all = data.all();
    let Some(exact) = Fitted::of(kind, data, series, WAKE_UP_SHARE)? else {
        return Ok(Err(format!(
            "{} loads do not determine the law, or its parameters are not plausible",
            all.len()
        )));
    };
    let Some(found) = exact.law.residual(&all, &exact.presences) else {
        return Ok(Err(format!(
            "{} loads do not suffice to check the law",
            all.len()
        )));
    };
    let mut shape = Shape::of(loads, series);
    let mut fitted = exact.clone();
    let mut larger_variations = Vec::new();
    if let Some(quota) = series.quota {
        let mut tried = Vec::new();
        for service_variation in SERVICE_VARIATIONS {
            let varied = Shape {
                service_variation,
                ..shape.clone()
            };
            let run = Run {
                shape: &varied,
                quota: Some(quota),
                exchanges: FIT_EXCHANGES,
                seed,
            };
            let (found, misfit) = run.with_delay(exact.clone(), loads)?;
            tried.push((misfit, found, varied));
            // A single load does not separate the variation from the delay.
            if loads.len() == 1 {
                break;
            }
        }
        let least = tried.iter().map(|(misfit, ..)| *misfit);
        let enough = least.fold(f64::INFINITY, f64::min) + noise_of_response(loads);
        let mut fitting = tried
            .into_iter()
            .filter(|(misfit, ..)| *misfit <= enough)
            .map(|(_, found, varied)| (found, varied));
        if let Some(smallest) = fitting.next() {
            (fitted, shape) = smallest;
        }
        larger_variations.extend(fitting);
    }
    let residual = |found, limit| Residual { found, limit };
    let mut model = Model {
        fitted,
        exact,
        quota: series.quota,
        shape,
        larger_variations,
        seed,
        accepted: Vec::new(),
        rejected: Vec::new(),
        busy: residual(
            found,
            match all.len() {
                ..TREND_LOADS => ACCEPTED,
                // The busy time of a saturated processor is constant: its replicates differ only in the time per exchange.
                _ => limit(&all, |reading| reading.busy)
                    .max(limit(&all, |reading| reading.busy / reading.throughput.0)),
            },
        ),
        throughput: residual(0.0, limit(loads, |reading| reading.throughput.0)),
        response: residual(0.0, limit(loads, |reading| reading.response.0)),
    };
    (model.throughput.found, model.response.found) = model.deviations(loads, seed)?;
    let checks = [
        ("CPU time", model.busy),
        ("throughput", model.throughput),
        ("mean latency", model.response),
    ];
    let failed = checks.iter().find(|(_, residual)| !residual.is_accepted());
    Ok(match failed {
        None => Ok(model),
        Some((what, residual)) => Err(format!(
            "the {what} deviates by {:.0} %; at most {:.0} % is accepted",
            100.0 * residual.found,
            100.0 * residual.limit
        )),
    })
}
