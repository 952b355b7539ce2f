//! Predicted figures with their prediction intervals.
//!
//! The intervals are those of the bootstrap (`bootstrap.rs`), with a deviation of the size of the residual and of a replicate.
//! Percentiles are those of a simulation of the fitted network.

use serde::Serialize;

use fathometer_model::Seed;
use fathometer_queueing::bounds::{asymptotic, crossing};

use crate::PredictError;
use crate::bootstrap::{Draw, draws};
use crate::fit::Model;
use crate::law::Law;
use crate::network::{Fitted, LINK, PROCESSOR};
use crate::scenario::Scenario;
use crate::series::{Load, Reading, Series, pooled_deviation};

/// The level of the prediction intervals.
pub const LEVEL: f64 = 0.9;

/// A station with at least this utilisation is called saturated.
const SATURATED: f64 = 0.95;

/// How to predict.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Fit loads whose throughput is at most this share of the highest measured one.
    pub fit_up_to: f64,
    /// The numbers of users; empty: the measured ones, and twice the largest.
    pub users: Vec<u32>,
    /// The number of bootstrap draws.
    pub draws: u32,
    /// Exchanges of each simulation.
    pub exchanges: u32,
    /// The seed of draws and simulations.
    pub seed: Seed,
}

/// A figure with its prediction interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figure {
    /// The prediction.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// What was measured at the same load, and the error of the prediction: predicted over measured minus one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Compared {
    /// The mean over the replicates.
    pub measured: f64,
    /// The error as a share.
    pub error_share: f64,
    /// Whether the measured mean lies within the prediction interval.
    pub within: bool,
}

/// The predictions for one number of users.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The number of users.
    pub users: u32,
    /// The load was used for the fit.
    pub fitted: bool,
    /// The throughput or the number of users is beyond all fitted loads.
    pub extrapolated: bool,
    /// Exchanges per second.
    pub throughput_per_s: Figure,
    /// The throughput cannot be higher: the asymptotic bound.
    pub bound_per_s: f64,
    /// The mean latency.
    pub mean_ms: Figure,
    /// The median latency.
    pub p50_ms: Figure,
    /// The latency at the prediction's `tail_percent`.
    pub tail_ms: Figure,
    /// The busy share of the processor.
    pub processor_share: f64,
    /// The busy share of the link; absent when its rate is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_share: Option<f64>,
    /// The station with the highest utilisation.
    pub bottleneck: &'static str,
    /// Whether that station is saturated.
    pub saturated: bool,
    /// The throughput, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_compared: Option<Compared>,
    /// The mean latency, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_compared: Option<Compared>,
    /// The tail latency, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail_compared: Option<Compared>,
}

/// The effect of a scenario at one number of users, against the same users as measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Effect {
    /// The number of users as measured, before a change of the scenario.
    pub users: u32,
    /// The change of the throughput as a share.
    pub throughput_share: Figure,
    /// The change of the mean latency as a share.
    pub mean_share: Figure,
}

/// All predictions for a series and a scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The series.
    pub series: String,
    /// What differs from the measurement.
    pub scenario: String,
    /// The law of the processor time.
    pub law: Law,
    /// Other laws that pass the check, which widen the intervals.
    pub other_laws: usize,
    /// Why laws were rejected.
    pub rejected: Vec<String>,
    /// The fitted time outside of processor and link.
    pub delay_ms: f64,
    /// The time of a user between exchanges.
    pub think_ms: f64,
    /// The server's processor in this scenario, in cores.
    pub cores: f64,
    /// Deviation and limit of the processor time, as shares.
    pub residual_busy: [f64; 2],
    /// Of the throughput.
    pub residual_throughput: [f64; 2],
    /// Of the mean latency.
    pub residual_mean: [f64; 2],
    /// Numbers of users that were fitted.
    pub fitted_users: Vec<u32>,
    /// Replicates or results that were fitted.
    pub fitted_readings: usize,
    /// From this number of users on there is queueing: where the asymptotes cross.
    pub crossing_users: f64,
    /// The percentile of `tail_ms`.
    pub tail_percent: u32,
    /// The predictions by number of users.
    pub rows: Vec<Row>,
    /// What the scenario changes at the largest measured number of users; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// What a reader must know, one sentence each.
    pub notes: Vec<String>,
}

/// Predicts a series in a scenario.
///
/// # Errors
/// When no model fits.
pub fn predict(
    series: &Series,
    scenario: &Scenario,
    options: &Options,
) -> Result<Prediction, PredictError> {
    let loads = match options.fit_up_to >= 1.0 {
        true => series.loads.clone(),
        false => series.up_to(options.fit_up_to),
    };
    let model = Model::choose(&loads, series, options.seed.stream("predict.fit"))?;
    let draws = draws(&model, &loads, series, options.draws, options.seed)?;
    let most = series
        .loads
        .iter()
        .map(|load| load.users)
        .max()
        .unwrap_or(1);
    let mut users = options.users.clone();
    if users.is_empty() {
        users = series.loads.iter().map(|load| load.users).collect();
        users.push(2 * most);
    }
    let context = Context {
        series,
        scenario,
        options,
        loads: &loads,
        model: &model,
        draws: &draws,
        tail_noise: tail_noise(&model, &loads, series)?,
    };
    let rows: Result<Vec<Row>, PredictError> = users
        .iter()
        .map(|&users| context.row(scenario.users(users)))
        .collect();
    let rows = rows?;
    let fitted = &model.fitted;
    let largest = rows.iter().map(|row| row.users).max().unwrap_or(1);
    let (_, demand) = model.exact.solve(scenario, largest)?;
    let pair = |residual: crate::fit::Residual| [residual.found, residual.limit];
    Ok(Prediction {
        series: series.name.clone(),
        scenario: scenario.to_string(),
        law: fitted.law,
        other_laws: model.accepted.len() - 1,
        rejected: model.rejected.clone(),
        delay_ms: fitted.delay.ms(),
        think_ms: fitted.think.ms(),
        cores: scenario.cores(fitted.cores),
        residual_busy: pair(model.busy),
        residual_throughput: pair(model.throughput),
        residual_mean: pair(model.response),
        fitted_users: loads.iter().map(|load| load.users).collect(),
        fitted_readings: loads.iter().map(|load| load.readings.len()).sum(),
        crossing_users: crossing(&fitted.network(scenario, demand)),
        tail_percent: series.tail(),
        effect: match scenario.is_as_measured() {
            true => None,
            false => Some(context.effect(most)?),
        },
        rows,
        notes: series.notes.clone(),
    })
}

/// The deviation of a load's tail latency from the network: of the fitted loads, and of one replicate.
fn tail_noise(model: &Model, loads: &[Load], series: &Series) -> Result<f64, PredictError> {
    let percent = series.tail();
    let share = f64::from(percent) / 100.0;
    let mut squares = Vec::new();
    for load in loads {
        let Some(measured) = load.percentile(percent) else {
            return Ok(model.response.found);
        };
        let found = model.fitted_at(load)?.quantile(share).0;
        squares.push((found / measured.0).ln().powi(2));
    }
    let residual = (squares.iter().sum::<f64>() / squares.len().max(1) as f64).sqrt();
    let tail = |reading: &Reading| reading.percentiles.get(&percent).map_or(0.0, |time| time.0);
    Ok(residual.hypot(pooled_deviation(loads, tail)))
}

struct Context<'a> {
    series: &'a Series,
    scenario: &'a Scenario,
    options: &'a Options,
    loads: &'a [Load],
    model: &'a Model,
    draws: &'a [Draw],
    tail_noise: f64,
}

impl Context<'_> {
    fn row(&self, users: u32) -> Result<Row, PredictError> {
        let fitted = &self.model.fitted;
        let seed = self.options.seed;
        let point = self
            .model
            .at(self.scenario, users, self.options.exchanges, seed)?;
        let solution = &point.exact;
        // Replicates vary, and the network deviates.
        let noise = |residual: f64, figure: fn(&Reading) -> f64| {
            residual.hypot(pooled_deviation(self.loads, figure))
        };
        let rate_noise = noise(self.model.throughput.found, |reading| reading.throughput.0);
        let time_noise = noise(self.model.response.found, |reading| reading.response.0);
        let (mut rates, mut times, mut tails) = (Vec::new(), Vec::new(), Vec::new());
        for draw in self.draws {
            let (drawn, _) = draw.fitted.solve(self.scenario, users)?;
            // A draw moves the figures as it moves the exact solution.
            let rate = point.throughput.0 * (drawn.throughput.0 / solution.throughput.0);
            let time = point.response.ms() * (drawn.response.0 / solution.response.0);
            rates.push(rate * (rate_noise * draw.normal).exp());
            // A slower replicate has the lower throughput and the longer latency.
            times.push(time * (-time_noise * draw.normal).exp());
            tails.push(time * (-self.tail_noise * draw.normal).exp());
        }
        let mean = interval(point.response.ms(), &times);
        let simulated = &point.simulated;
        let percentile = |share: f64, draws: &[f64]| {
            let ratio = simulated.quantile(share).0 / simulated.response.mean;
            let figure = interval(point.response.ms(), draws);
            Figure {
                value: figure.value * ratio,
                low: figure.low * ratio,
                high: figure.high * ratio,
            }
        };
        let share_of = |name: &str| {
            let station = solution
                .stations
                .iter()
                .find(|station| station.name == name);
            station.map_or(0.0, |station| station.utilisation)
        };
        let (processor, link) = (share_of(PROCESSOR), share_of(LINK));
        let load = self.series.loads.iter().find(|load| load.users == users);
        let load = load.filter(|_| self.scenario.is_as_measured());
        let throughput = interval(point.throughput.0, &rates);
        let tail = percentile(f64::from(self.series.tail()) / 100.0, &tails);
        let most_rate = self
            .loads
            .iter()
            .map(|load| load.throughput().0)
            .fold(0.0, f64::max);
        let most_users = self.loads.iter().map(|load| load.users).max().unwrap_or(0);
        Ok(Row {
            users,
            fitted: load.is_some() && self.loads.iter().any(|load| load.users == users),
            extrapolated: users > most_users || throughput.value > 1.05 * most_rate,
            throughput_per_s: throughput,
            bound_per_s: asymptotic(&fitted.network(self.scenario, point.demand), users)
                .most
                .0,
            mean_ms: mean,
            p50_ms: percentile(0.5, &times),
            tail_ms: tail,
            processor_share: processor,
            link_share: (fitted.link_time.0 > 0.0).then_some(link),
            bottleneck: if link > processor { LINK } else { PROCESSOR },
            saturated: link.max(processor) >= SATURATED,
            throughput_compared: load.map(|load| compared(throughput, load.throughput().0)),
            mean_compared: load.map(|load| compared(mean, load.response().ms())),
            tail_compared: load
                .and_then(|load| load.percentile(self.series.tail()))
                .map(|measured| compared(tail, measured.ms())),
        })
    }

    /// The change of both figures, as one replicate before and one after the change of the scenario would show it.
    fn effect(&self, users: u32) -> Result<Effect, PredictError> {
        let changed = self.scenario.users(users);
        let exact = |fitted: &Fitted| -> Result<(f64, f64), PredictError> {
            let (before, _) = fitted.solve(&Scenario::default(), users)?;
            let (after, _) = fitted.solve(self.scenario, changed)?;
            Ok((
                after.throughput.0 / before.throughput.0,
                after.response.0 / before.response.0,
            ))
        };
        let at = |scenario, users| {
            let options = self.options;
            self.model
                .at(scenario, users, options.exchanges, options.seed)
        };
        let unchanged = Scenario::default();
        let (before, after) = (at(&unchanged, users)?, at(self.scenario, changed)?);
        let rate = after.throughput.0 / before.throughput.0;
        let time = after.response.0 / before.response.0;
        let (exact_rate, exact_time) = exact(&self.model.exact)?;
        let noise = |figure: fn(&Reading) -> f64| {
            std::f64::consts::SQRT_2 * pooled_deviation(self.loads, figure)
        };
        let rate_noise = noise(|reading| reading.throughput.0);
        let time_noise = noise(|reading| reading.response.0);
        let (mut rates, mut times) = (Vec::new(), Vec::new());
        for draw in self.draws {
            let (drawn_rate, drawn_time) = exact(&draw.fitted)?;
            let noisy = |deviation: f64| (deviation * draw.normal).exp();
            rates.push(rate * drawn_rate / exact_rate * noisy(rate_noise) - 1.0);
            times.push(time * drawn_time / exact_time * noisy(-time_noise) - 1.0);
        }
        Ok(Effect {
            users,
            throughput_share: interval(rate - 1.0, &rates),
            mean_share: interval(time - 1.0, &times),
        })
    }
}

/// The figure with the quantiles of the draws; the interval contains the figure.
fn interval(value: f64, draws: &[f64]) -> Figure {
    let mut sorted = draws.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quantile = |share: f64| {
        let place = share * sorted.len().saturating_sub(1) as f64;
        sorted.get(place.round() as usize).copied().unwrap_or(value)
    };
    Figure {
        value,
        low: quantile(0.5 * (1.0 - LEVEL)).min(value),
        high: quantile(0.5 * (1.0 + LEVEL)).max(value),
    }
}

fn compared(predicted: Figure, measured: f64) -> Compared {
    Compared {
        measured,
        error_share: predicted.value / measured - 1.0,
        within: (predicted.low..=predicted.high).contains(&measured),
    }
}
