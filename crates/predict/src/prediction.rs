//! Predicted figures with their prediction intervals.
//!
//! The intervals come from the bootstrap (`bootstrap.rs`), with noise that combines the residual and the deviation of a
//! replicate. Percentiles come from a simulation of the fitted network.

mod figures;

use fathometer_queueing::Seconds;
use fathometer_queueing::limited::WORKERS;

use crate::PredictError;
use crate::bootstrap::{Draw, draws};
use crate::change::{Predictor, System};
use crate::fit::{Model, Point};
use crate::network::{DISK, LINK, PROCESSOR, link_time};
use crate::scenario::Scenario;
use crate::series::{FitData, Load, Reading, Series, disk_use, pooled_deviation};
use crate::simulated::Shape;

pub use crate::options::Options;
pub use figures::{
    Compared, Effect, Figure, PageCacheModel, Prediction, Row, WorkersModel, WorkersRow,
};

/// The level of the prediction intervals.
pub const LEVEL: f64 = 0.9;

/// The reason why a change of the link cannot be predicted.
pub(crate) const UNKNOWN_LINK: &str =
    "the rate of the link, or the bytes of an exchange, are unknown";

/// A station with at least this utilisation is called saturated.
const SATURATED: f64 = 0.95;

/// The factor by which the share of exchanges that find the accept queue full may be larger or smaller than predicted.
const OVERFLOW_DOUBT: f64 = 1.5;

/// The position of the tail latency on a logarithmic scale from service in order of arrival (0) to service in random
/// order (1). It is about 0.25 for the servers with which the laws were chosen (`nginx` and `embedded`, both workloads
/// of almeida96, 20 to 48 users: the median is 0.23, from -0.04 to 0.44).
const RANDOM_ORDER: f64 = 0.25;

/// Predicts a series in a scenario.
///
/// # Errors
/// When no model fits, or when the scenario changes a quantity that is unknown.
pub fn predict(
    series: &Series,
    scenario: &Scenario,
    options: &Options,
) -> Result<Prediction, PredictError> {
    if let Some(reason) = series.admission.refusal(scenario) {
        return Err(PredictError::Scenario(format!("{scenario}: {reason}")));
    }
    let data = series.fit_data(&options.fit)?;
    let loads = &data.loads;
    if scenario.link.is_some() && link_time(series, loads).is_none() {
        return Err(PredictError::Scenario(format!(
            "{scenario}: {UNKNOWN_LINK}; predict a study's run with a path that has a rate, in which packets were counted"
        )));
    }
    let series = &with_further_round_trips(series, loads);
    let (scenario, page_cache) = &with_page_cache(series, loads, scenario)?;
    let model = Model::choose(&data, series, options.seed.stream("predict.fit"))?;
    let draws = draws(&model, &data, series, options.draws, options.seed)?;
    let context = Context {
        series,
        scenario,
        options,
        data: &data,
        model: &model,
        draws: &draws,
        tail_noise: tail_noise(&model, loads, series)?,
    };
    let most = series.measured().map(|load| load.users).max().unwrap_or(1);
    let mut notes = series.notes.clone();
    let users = context.users(most, &mut notes)?;
    let effect = match scenario.is_as_measured() {
        true => None,
        false => context.effect_within_connections(most, &mut notes)?,
    };
    let rows: Result<Vec<Row>, PredictError> =
        users.iter().map(|&users| context.row(users)).collect();
    let fitted = &model.fitted;
    let largest = users.iter().copied().max().unwrap_or(1);
    let (_, demand) = model.exact.solve(scenario, largest)?;
    let pair = |residual: crate::fit::Residual| [residual.found, residual.limit];
    Ok(Prediction {
        series: series.name.clone(),
        scenario: scenario.to_string(),
        law: fitted.law.clone(),
        other_laws: model.accepted.len() - 1,
        rejected: model.rejected.clone(),
        delay_ms: fitted.delay.ms(),
        think_ms: fitted.think.ms(),
        cores: scenario.cores(fitted.cores),
        workers: context.workers(demand),
        page_cache: *page_cache,
        residual_busy: pair(model.busy),
        residual_throughput: pair(model.throughput),
        residual_mean: pair(model.response),
        fitted_users: loads.iter().map(|load| load.users).collect(),
        burst_users: data.bursts.iter().map(|load| load.users).collect(),
        batch_sizes: data
            .batches
            .as_ref()
            .map_or_else(Vec::new, |batches| batches.sizes.clone()),
        fitted_readings: data.all().iter().map(|load| load.readings.len()).sum(),
        crossing_users: fitted.crossing(scenario, largest, demand),
        tail_percent: series.tail(),
        effect,
        rows: rows?,
        notes,
    })
}

/// Returns the series, changed so that an exchange needs no worker during the further round trips of a large response.
pub(crate) fn with_further_round_trips(series: &Series, loads: &[Load]) -> Series {
    let mut series = series.clone();
    series.admission.before.0 += Shape::of(loads, &series).mean_further().0;
    series
}

/// Returns the relative deviation of a replicate's tail latency from the network: the residual of the fitted loads and
/// the deviation of a replicate, combined.
fn tail_noise(model: &Model, loads: &[Load], series: &Series) -> Result<f64, PredictError> {
    let percent = series.tail();
    let share = f64::from(percent) / 100.0;
    let mut squares = Vec::new();
    for load in loads {
        let Some(measured) = load.percentile(percent) else {
            return Ok(model.response.found);
        };
        let found = model.fitted_at(load)?.completed_quantile(share).0;
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
    data: &'a FitData,
    model: &'a Model,
    draws: &'a [Draw],
    tail_noise: f64,
}

impl Context<'_> {
    /// Returns the numbers of users in this scenario. Numbers that exceed the server's connections are left out, and a
    /// note says so.
    fn users(&self, most: u32, notes: &mut Vec<String>) -> Result<Vec<u32>, PredictError> {
        let mut users = self.options.users.clone();
        if users.is_empty() {
            users = self.series.measured().map(|load| load.users).collect();
            users.sort_unstable();
            users.push(2 * most);
        }
        let mut users: Vec<u32> = users.iter().map(|&n| self.scenario.users(n)).collect();
        let Some(connections) = self.series.admission.most_users(self.scenario) else {
            return Ok(users);
        };
        let before = users.len();
        users.retain(|users| *users <= connections);
        if users.len() < before {
            let reason = format!(
                "the server accepts {connections} connections, and users keep theirs: more users than that wait until another \
                 one closes its connection, which is not predicted"
            );
            if users.is_empty() {
                return Err(PredictError::Scenario(reason));
            }
            notes.push(reason);
        }
        Ok(users)
    }

    /// Returns the workers, if an exchange needs the CPU time `demand`.
    fn workers(&self, demand: Seconds) -> Option<WorkersModel> {
        let fitted = &self.model.fitted;
        let admission = &fitted.admission;
        Some(WorkersModel {
            count: admission.workers(self.scenario)?,
            backlog: admission.backlog(self.scenario),
            held_ms: fitted.held(self.scenario, demand).ms(),
            timeout_s: admission.timeout.map(|timeout| timeout.0),
        })
    }

    /// Returns the workers at one number of users.
    fn workers_row(&self, users: u32, point: &Point, load: Option<&Load>) -> Option<WorkersRow> {
        let admission = &self.model.fitted.admission;
        let count = admission.workers(self.scenario)?;
        let simulated = &point.simulated;
        let busy_share = match admission.limits(self.scenario, users) {
            Some(_) => simulated.workers,
            // Little's law.
            None => {
                let held = point.response.0 - self.model.fitted.delay.0.min(admission.before.0);
                point.throughput.0 * held / f64::from(count)
            }
        };
        Some(WorkersRow {
            busy_share,
            waiting: simulated.waiting,
            overflows_per_exchange: simulated.overflows,
            errors_share: simulated.failed.mean,
            errors_measured_share: load.map(|load| load.mean(|reading| reading.errors)),
        })
    }

    /// Returns the tail latency, in ms, of a server that takes waiting exchanges in random order. Light loads do not
    /// show the order; the simulation takes exchanges in the order of arrival, and real servers are in between
    /// ([`RANDOM_ORDER`]). In random order, each waiting exchange waits as if it had just arrived, so that the wait is
    /// about exponential (Kingman, "On queues in which customers are served in random order", 1962). This wait is added
    /// to the tail latency of the lightest load. `None` if that latency was not measured.
    fn tail_in_random_order(&self, point: &Point) -> Option<f64> {
        let lightest = self.data.loads.first()?;
        let unloaded = lightest.percentile(self.series.tail())?;
        let wait = (point.response.0 - lightest.response().0).max(0.0);
        let beyond = 1.0 - f64::from(self.series.tail()) / 100.0;
        Some(Seconds(unloaded.0 - wait * beyond.ln()).ms())
    }

    /// Returns the factors for the two ends of the tail's interval, because the share of exchanges that find the accept
    /// queue full is uncertain. Each of these exchanges takes a second longer, so that the tail percentile may be on
    /// either side of a gap.
    fn tail_around_overflow(&self, point: &Point) -> (f64, f64) {
        let simulated = &point.simulated;
        if simulated.overflows <= 0.0 {
            return (1.0, 1.0);
        }
        let beyond = 1.0 - f64::from(self.series.tail()) / 100.0;
        let at = |beyond: f64| simulated.completed_quantile(1.0 - beyond).0;
        let ratio = |other: f64| at(other) / at(beyond);
        (
            ratio(beyond * OVERFLOW_DOUBT),
            ratio(beyond / OVERFLOW_DOUBT),
        )
    }

    fn row(&self, users: u32) -> Result<Row, PredictError> {
        let fitted = &self.model.fitted;
        let seed = self.options.seed;
        let point = self
            .model
            .at(self.scenario, users, self.options.exchanges, seed)?;
        let solution = &point.exact;
        // The deviation of a replicate and the residual of the network, combined.
        let noise = |residual: f64, figure: fn(&Reading) -> f64| {
            residual.hypot(pooled_deviation(&self.data.loads, figure))
        };
        let rate_noise = noise(self.model.throughput.found, |reading| reading.throughput.0);
        let time_noise = noise(self.model.response.found, |reading| reading.response.0);
        let tail_share = f64::from(self.series.tail()) / 100.0;
        let ratio = |point: &Point, share: f64| {
            point.simulated.completed_quantile(share).0 / point.simulated.completed.mean
        };
        let larger =
            self.model
                .at_larger_variations(self.scenario, users, self.options.exchanges, seed)?;
        // The fitted loads do not distinguish these points, so each point is used in the same number of samples.
        let assumed = std::iter::once(&point).chain(&larger).cycle();
        let (mut rates, mut times) = (Vec::new(), Vec::new());
        let (mut medians, mut tails) = (Vec::new(), Vec::new());
        for (draw, assumed) in self.draws.iter().zip(assumed) {
            let (drawn, _) = draw.fitted.solve(self.scenario, users)?;
            // A sample changes the figures by the same factor as the exact solution.
            let rate = assumed.throughput.0 * (drawn.throughput.0 / solution.throughput.0);
            let time = assumed.response.ms() * (drawn.response.0 / solution.response.0);
            rates.push(rate * (rate_noise * draw.normal).exp());
            // Throughput and latency use the same deviate, because a slow replicate has both a lower throughput and a
            // longer latency.
            let noisy = time * (-time_noise * draw.normal).exp();
            times.push(noisy);
            medians.push(noisy * ratio(assumed, 0.5));
            tails.push(time * ratio(assumed, tail_share) * (-self.tail_noise * draw.normal).exp());
        }
        let mean = interval(point.response.ms(), &times);
        let median = interval(point.response.ms() * ratio(&point, 0.5), &medians);
        let share_of = |name: &str| {
            let station = solution
                .stations
                .iter()
                .find(|station| station.name == name);
            station.map_or(0.0, |station| station.utilisation)
        };
        let (processor, link, disk) = (share_of(PROCESSOR), share_of(LINK), share_of(DISK));
        let load = self.series.measured().find(|load| load.users == users);
        let load = load.filter(|_| self.scenario.is_as_measured());
        let timed = load.filter(|load| load.has_all_latencies);
        let throughput = interval(point.throughput.0, &rates);
        let mut tail = interval(point.response.ms() * ratio(&point, tail_share), &tails);
        if let Some(random) = self.tail_in_random_order(&point) {
            tail.value *= (random / tail.value).max(1.0).powf(RANDOM_ORDER);
            tail.high = tail.high.max(random);
        }
        let (below, above) = self.tail_around_overflow(&point);
        tail.low *= below;
        tail.high *= above;
        let most_rate = self
            .data
            .loads
            .iter()
            .map(|load| load.throughput().0)
            .fold(0.0, f64::max);
        let most_users = self
            .data
            .loads
            .iter()
            .map(|load| load.users)
            .max()
            .unwrap_or(0);
        let workers = self.workers_row(users, &point, load);
        let stations = [(PROCESSOR, processor), (LINK, link), (DISK, disk)];
        let (bottleneck, busiest) = bottleneck(stations, workers);
        Ok(Row {
            users,
            fitted: load.is_some() && self.data.loads.iter().any(|load| load.users == users),
            burst: load.is_some() && self.data.bursts.iter().any(|load| load.users == users),
            extrapolated: users > most_users || throughput.value > 1.05 * most_rate,
            throughput_per_s: throughput,
            bound_per_s: fitted.bound(self.scenario, users, point.demand).0,
            mean_ms: mean,
            p50_ms: median,
            tail_ms: tail,
            processor_share: processor,
            link_share: (fitted.link_time.0 > 0.0).then_some(link),
            disk_share: (fitted.on_disk(self.scenario).0 > 0.0).then_some(disk),
            workers,
            bottleneck,
            saturated: busiest >= SATURATED,
            throughput_compared: load.map(|load| compared(throughput, load.throughput().0)),
            mean_compared: timed.map(|load| compared(mean, load.response().ms())),
            tail_compared: timed
                .and_then(|load| load.percentile(self.series.tail()))
                .map(|measured| compared(tail, measured.ms())),
        })
    }

    /// Returns the effect at a measured number of users. `None`, with a note, if the scenario has more users than the
    /// server accepts connections: the model would give an effect of users that have no connection.
    fn effect_within_connections(
        &self,
        most: u32,
        notes: &mut Vec<String>,
    ) -> Result<Option<Effect>, PredictError> {
        let users = self.scenario.users(most);
        match self.series.admission.most_users(self.scenario) {
            Some(connections) if users > connections => {
                notes.push(format!(
                    "the effect of {} at {users} users is not predicted: the server accepts {connections} connections, so \
                     that more users have no effect beyond them",
                    self.scenario
                ));
                Ok(None)
            }
            _ => self.effect(most).map(Some),
        }
    }

    /// Returns the change of throughput and mean latency that two replicates would show, one before and one after the
    /// change of the scenario.
    fn effect(&self, users: u32) -> Result<Effect, PredictError> {
        let system = |scenario: &Scenario, users: u32| System {
            scenario: scenario.clone(),
            users,
            round_trip: 1.0,
        };
        let before = system(&Scenario::default(), users);
        let after = system(self.scenario, self.scenario.users(users));
        let predictor = Predictor {
            series: self.series,
            model: self.model,
            draws: self.draws,
            options: self.options,
        };
        let found = predictor.change(&before, &after)?;
        let noise = |figure: fn(&Reading) -> f64| {
            std::f64::consts::SQRT_2 * pooled_deviation(&self.data.loads, figure)
        };
        let rate_noise = noise(|reading| reading.throughput.0);
        let time_noise = noise(|reading| reading.response.0);
        let (mut rates, mut times) = (Vec::new(), Vec::new());
        for (draw, [rate, time]) in self.draws.iter().zip(&found.drawn) {
            let noisy = |deviation: f64| (deviation * draw.normal).exp();
            rates.push(rate * noisy(rate_noise) - 1.0);
            times.push(time * noisy(-time_noise) - 1.0);
        }
        let [rate, time] = found.ratios;
        Ok(Effect {
            users,
            throughput_share: interval(rate - 1.0, &rates),
            mean_share: interval(time - 1.0, &times),
        })
    }
}

/// Returns the scenario with the disk time that follows from its memory, and the page cache if it has an effect.
pub(crate) fn with_page_cache(
    series: &Series,
    loads: &[Load],
    scenario: &Scenario,
) -> Result<(Scenario, Option<PageCacheModel>), PredictError> {
    let failed = |reason: String| PredictError::Scenario(format!("{scenario}: {reason}"));
    let cache = match (&series.page_cache, scenario.memory) {
        (Ok(cache), _) => cache,
        (Err(_), None) => return Ok((scenario.clone(), None)),
        (Err(reason), Some(_)) => return Err(failed(reason.clone())),
    };
    let (cached, disk) = cache.of(scenario, disk_use(loads)).map_err(failed)?;
    let matters = scenario.memory.is_some() || disk.0 > 0.0;
    let model = PageCacheModel {
        bytes: cached.cache.0,
        hits_share: cached.hits,
        reads_per_exchange: cached.reads,
        disk_ms: disk.ms(),
    };
    let scenario = Scenario {
        disk: scenario.memory.map(|_| disk),
        ..scenario.clone()
    };
    Ok((scenario, matters.then_some(model)))
}

/// Returns the bottleneck and its utilisation. Workers are the bottleneck only if no station is saturated, because
/// workers that wait for a saturated station are also busy.
fn bottleneck(
    stations: [(&'static str, f64); 3],
    workers: Option<WorkersRow>,
) -> (&'static str, f64) {
    let [first, others @ ..] = stations;
    let busiest = others
        .iter()
        .fold(first, |busiest, &station| match station.1 > busiest.1 {
            true => station,
            false => busiest,
        });
    match workers {
        Some(row) if busiest.1 < SATURATED && row.busy_share > busiest.1 => {
            (WORKERS, row.busy_share)
        }
        _ => busiest,
    }
}

/// Returns the figure with an interval from the quantiles of the bootstrap samples. The interval always contains the
/// figure.
pub(crate) fn interval(value: f64, draws: &[f64]) -> Figure {
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

pub(crate) fn compared(predicted: Figure, measured: f64) -> Compared {
    Compared {
        measured,
        error_share: predicted.value / measured - 1.0,
        within: (predicted.low..=predicted.high).contains(&measured),
    }
}
