//! Predicted elasticities, next to the elasticities that `fathometer bottleneck` measured.
//!
//! The elasticity of throughput X to a limit L is ln(X′/X) / ln *f* for a step that multiplies the limit by *f*
//! ([`fathometer_analysis::bottleneck`]). The model predicts X and X′ for the measured step. All elasticities are to
//! relief: a positive elasticity of throughput means that relief increases the throughput.
//!
//! The interval of a prediction covers only the uncertainty of the model. The interval of the measurement covers the
//! noise of replicates.

use fathometer_analysis::bottleneck::{Elasticity, Resource, Response};
use fathometer_analysis::statistics::Estimate;
use serde::Serialize;

use crate::PredictError;
use crate::bootstrap::draws;
use crate::change::{Predictor, System};
use crate::fit::Model;
use crate::prediction::{
    Figure, Options, UNKNOWN_LINK, interval, with_further_round_trips, with_page_cache,
};
use crate::scenario::{Change, Scenario};
use crate::series::{FitData, Series};

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
    /// The server's CPU capacity, in cores.
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
    /// The reason why there is no prediction.
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
        predictor: Predictor {
            series,
            model: &model,
            draws: &draws,
            options,
        },
        data: &data,
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
        cores: steps.unchanged().scenario.cores(model.fitted.cores),
        has_other_quota,
        steps: rows?,
    })
}

struct Steps<'a> {
    predictor: Predictor<'a>,
    data: &'a FitData,
    users: u32,
    /// The quota of the measurement, divided by the quota of the series.
    quota: f64,
}

impl Steps<'_> {
    /// The system before the steps.
    fn unchanged(&self) -> System {
        System {
            scenario: Scenario {
                cpu: (self.quota != 1.0).then_some(Change::Times(self.quota)),
                ..Scenario::default()
            },
            users: self.users,
            round_trip: 1.0,
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

    /// Returns the system after a step, or the reason why the model cannot predict it.
    fn changed(&self, resource: Resource, factor: f64) -> Result<System, String> {
        let mut changed = self.unchanged();
        let series = self.predictor.series;
        let scenario = &mut changed.scenario;
        match resource {
            Resource::Cpu => scenario.cpu = Some(Change::Times(self.quota * factor)),
            Resource::LinkRate if self.predictor.model.fitted.link_time.0 > 0.0 => {
                scenario.link = Some(Change::Times(factor));
            }
            Resource::LinkRate => {
                return Err(UNKNOWN_LINK.into());
            }
            Resource::Memory => {
                scenario.memory = Some(Change::Times(factor));
                let found = with_page_cache(series, &self.data.loads, scenario);
                (*scenario, _) = found.map_err(|error| error.to_string())?;
            }
            Resource::Workers | Resource::Backlog => {
                match resource {
                    Resource::Workers => scenario.workers = Some(Change::Times(factor)),
                    _ => scenario.backlog = Some(Change::Times(factor)),
                }
                if let Some(reason) = series.admission.refusal(scenario) {
                    return Err(reason);
                }
            }
            Resource::Load => {
                changed.users = (f64::from(self.users) * factor).round().max(1.0) as u32;
            }
            Resource::RoundTrip if series.round_trip.is_some() => changed.round_trip = factor,
            Resource::RoundTrip => return Err("the round-trip time is unknown".into()),
            _ => return Err("the model does not contain this limit".into()),
        }
        Ok(changed)
    }

    /// Returns the elasticities of throughput and of mean latency.
    fn predicted(&self, changed: &System, relief: f64) -> Result<[Figure; 2], PredictError> {
        let found = self.predictor.change(&self.unchanged(), changed)?;
        let elasticity = |ratio: f64| ratio.ln() / relief;
        Ok([0, 1].map(|part| {
            let drawn = found.drawn.iter().map(|ratios| elasticity(ratios[part]));
            interval(elasticity(found.ratios[part]), &drawn.collect::<Vec<_>>())
        }))
    }
}
