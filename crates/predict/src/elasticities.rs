//! Predicted elasticities beside those that `fathometer bottleneck` measured.
//!
//! The elasticity of throughput X to a limit L is ln(X′/X) / ln *f* for a step that multiplies the limit by *f*
//! ([`fathometer_analysis::bottleneck`]). The model predicts X and X′, with the step that was measured. All elasticities are to
//! relief, so a positive elasticity of throughput means that relief helps.
//!
//! The interval of a prediction is that of the model alone. The noise of replicates is in the interval of the measurement.

use fathometer_analysis::bottleneck::{Elasticity, Resource, Response};
use fathometer_analysis::statistics::Estimate;
use fathometer_queueing::Seconds;
use serde::Serialize;

use crate::PredictError;
use crate::bootstrap::{Draw, draws};
use crate::fit::Model;
use crate::network::Fitted;
use crate::prediction::{Figure, Options, interval, with_further_round_trips, with_page_cache};
use crate::scenario::{Change, Scenario};
use crate::series::{Admission, FitData, Series};

/// The elasticities that a run of `fathometer bottleneck` measured.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasuredElasticities {
    /// The server, its load and its path, in words.
    pub setup: String,
    /// The number of users without pauses.
    pub users: u32,
    /// The CPU quota of the server's host, in cores; `None` if it was not limited.
    pub cores: Option<f64>,
    /// The elasticities to each limit that was varied.
    pub elasticities: Vec<Elasticity>,
}

/// The predicted and the measured elasticities of a series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Elasticities {
    /// The name of the series.
    pub series: String,
    /// The set-up of the measurement, in words.
    pub measured_setup: String,
    /// The number of users.
    pub users: u32,
    /// The server's processor, in cores.
    pub cores: f64,
    /// Whether the model was fitted to another quota.
    pub has_other_quota: bool,
    /// The steps of the limits.
    pub steps: Vec<StepRow>,
}

/// The elasticities to one limit, from one step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepRow {
    /// The limit.
    pub resource: Resource,
    /// The factor that multiplied the limit.
    pub factor: f64,
    /// The elasticity of throughput; absent if it is not predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Figure>,
    /// The measured elasticity of throughput.
    pub throughput_measured: Estimate,
    /// The elasticity of mean latency; absent if it is not predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<Figure>,
    /// The measured elasticity of mean latency.
    pub mean_measured: Estimate,
    /// The reason why nothing is predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_predicted: Option<String>,
}

/// The largest relative difference between two quotas that count as the same.
const SAME_QUOTA: f64 = 0.02;

/// Predicts the elasticities that were measured.
///
/// # Errors
/// When no model fits, or a fitted model has no solution.
pub fn elasticities(
    series: &Series,
    measured: &MeasuredElasticities,
    options: &Options,
) -> Result<Elasticities, PredictError> {
    let data = series.fit_data(&options.fit)?;
    let series = &with_further_round_trips(series, &data.loads);
    let model = Model::choose(&data, series, options.seed.stream("predict.fit"))?;
    let draws = draws(&model, &data, series, options.draws, options.seed)?;
    let quota = measured.cores.map_or(1.0, |cores| cores / series.cores);
    let has_other_quota = (quota - 1.0).abs() > SAME_QUOTA;
    let quota = if has_other_quota { quota } else { 1.0 };
    let steps = Steps {
        series,
        data: &data,
        model: &model,
        draws: &draws,
        options,
        users: measured.users,
        quota,
    };
    let rows: Result<Vec<StepRow>, PredictError> = measured
        .elasticities
        .iter()
        .flat_map(|limit| limit.responses.iter().map(|step| (limit.resource, step)))
        .map(|(resource, step)| steps.row(resource, step))
        .collect();
    Ok(Elasticities {
        series: series.name.clone(),
        measured_setup: measured.setup.clone(),
        users: measured.users,
        cores: steps.base().cores(model.fitted.cores),
        has_other_quota,
        steps: rows?,
    })
}

struct Steps<'a> {
    series: &'a Series,
    data: &'a FitData,
    model: &'a Model,
    draws: &'a [Draw],
    options: &'a Options,
    users: u32,
    /// The quota of the measurement, as a factor of the series' quota.
    quota: f64,
}

/// The system after a step.
struct Changed {
    scenario: Scenario,
    users: u32,
    /// The factor of the round-trip time.
    round_trip: f64,
}

impl Steps<'_> {
    /// The system before the steps.
    fn base(&self) -> Scenario {
        Scenario {
            cpu: (self.quota != 1.0).then_some(Change::Times(self.quota)),
            ..Scenario::default()
        }
    }

    fn row(&self, resource: Resource, step: &Response) -> Result<StepRow, PredictError> {
        let (predicted, not_predicted) = match self.changed(resource, step.factor) {
            Ok(changed) => (Some(self.predicted(&changed, step.relief)?), None),
            Err(reason) => (None, Some(reason)),
        };
        let [throughput, mean] = match predicted {
            Some(figures) => figures.map(Some),
            None => [None, None],
        };
        Ok(StepRow {
            resource,
            factor: step.factor,
            throughput,
            throughput_measured: step.throughput,
            mean,
            mean_measured: step.latency,
            not_predicted,
        })
    }

    /// The system after a step, or the reason why the model cannot predict it.
    fn changed(&self, resource: Resource, factor: f64) -> Result<Changed, String> {
        let mut changed = Changed {
            scenario: self.base(),
            users: self.users,
            round_trip: 1.0,
        };
        let scenario = &mut changed.scenario;
        match resource {
            Resource::Cpu => scenario.cpu = Some(Change::Times(self.quota * factor)),
            Resource::LinkRate if self.model.fitted.link_time.0 > 0.0 => {
                scenario.link = Some(Change::Times(factor));
            }
            Resource::LinkRate => {
                return Err(
                    "the rate of the link, or the bytes of an exchange, are unknown".into(),
                );
            }
            Resource::Memory => {
                scenario.memory = Some(Change::Times(factor));
                let found = with_page_cache(self.series, &self.data.loads, scenario);
                (*scenario, _) = found.map_err(|error| error.to_string())?;
            }
            Resource::Workers | Resource::Backlog => {
                match resource {
                    Resource::Workers => scenario.workers = Some(Change::Times(factor)),
                    _ => scenario.backlog = Some(Change::Times(factor)),
                }
                if let Some(reason) = self.series.admission.refusal(scenario) {
                    return Err(reason);
                }
            }
            Resource::Load => {
                changed.users = (f64::from(self.users) * factor).round().max(1.0) as u32;
            }
            Resource::RoundTrip if self.series.round_trip.is_some() => changed.round_trip = factor,
            Resource::RoundTrip => return Err("the round-trip time is unknown".into()),
            _ => return Err("the model does not contain it".into()),
        }
        Ok(changed)
    }

    /// The elasticities of throughput and of mean latency.
    fn predicted(&self, changed: &Changed, relief: f64) -> Result<[Figure; 2], PredictError> {
        let base = self.base();
        let elasticity = |before: f64, after: f64| (after / before).ln() / relief;
        let at = |model: &Model, scenario: &Scenario, users: u32| {
            let options = self.options;
            model.at(scenario, users, options.exchanges, options.seed)
        };
        let before = at(self.model, &base, self.users)?;
        let model = self.with_round_trip(changed.round_trip);
        let after = at(&model, &changed.scenario, changed.users)?;
        let values = [
            elasticity(before.throughput.0, after.throughput.0),
            elasticity(before.response.0, after.response.0),
        ];
        // A draw changes the elasticity by the same amount as in the exact solution.
        let exact = |fitted: &Fitted| -> Result<[f64; 2], PredictError> {
            let (before, _) = fitted.solve(&base, self.users)?;
            let fitted = self.stretched(fitted, changed.round_trip);
            let (after, _) = fitted.solve(&changed.scenario, changed.users)?;
            Ok([
                elasticity(before.throughput.0, after.throughput.0),
                elasticity(before.response.0, after.response.0),
            ])
        };
        let assumed = exact(&self.model.exact)?;
        let mut drawn = [Vec::new(), Vec::new()];
        for draw in self.draws {
            let found = exact(&draw.fitted)?;
            for (part, draws) in drawn.iter_mut().enumerate() {
                draws.push(values[part] + found[part] - assumed[part]);
            }
        }
        Ok([
            interval(values[0], &drawn[0]),
            interval(values[1], &drawn[1]),
        ])
    }

    /// The model with the round-trip time multiplied by a factor.
    fn with_round_trip(&self, factor: f64) -> Model {
        let mut model = self.model.clone();
        if factor != 1.0 {
            model.fitted = self.stretched(&model.fitted, factor);
            model.exact = self.stretched(&model.exact, factor);
            for delay in &mut model.shape.further {
                delay.0 *= factor;
            }
        }
        model
    }

    /// A network with the round-trip time multiplied by a factor. The delay contains the round trips of the exchange.
    fn stretched(&self, fitted: &Fitted, factor: f64) -> Fitted {
        let shape = &self.model.shape;
        let trip = self.series.round_trip.unwrap_or(Seconds(0.0));
        let trips = shape.mean_rounds() * trip.0 + shape.mean_further().0;
        let longer = (factor - 1.0) * trips.min(fitted.delay.0);
        Fitted {
            delay: Seconds(fitted.delay.0 + longer),
            admission: Admission {
                before: Seconds(fitted.admission.before.0 * factor),
                ..fitted.admission.clone()
            },
            ..fitted.clone()
        }
    }
}
