//! The predictions of several series in several scenarios.

use serde::Serialize;

use crate::PredictError;
use crate::elasticities::{Elasticities, MeasuredElasticities, elasticities};
use crate::prediction::{Options, Prediction, predict};
use crate::scalability::{self, ScalabilityPrediction};
use crate::scenario::Scenario;
use crate::series::Series;

/// The format version of predictions as JSON.
const FORMAT: u32 = 1;

/// The predictions, and the series and scenarios that have no prediction.
#[derive(Debug, Serialize)]
pub struct Predictions {
    format: u32,
    /// The predictions, by series and scenario.
    pub predictions: Vec<Prediction>,
    /// The elasticities of each series, next to the elasticities from a run of `fathometer bottleneck`; absent without
    /// such a run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub elasticities: Vec<Elasticities>,
    /// The predictions by the Universal Scalability Law, for series without a network; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scalability: Vec<ScalabilityPrediction>,
    /// The series and scenarios without a prediction by a network, except series without CPU time that the
    /// scalability law predicts.
    pub unpredicted: Vec<Unpredicted>,
}

/// A series or a scenario without a prediction.
#[derive(Debug, Serialize)]
pub struct Unpredicted {
    /// The name of the series.
    pub series: String,
    /// The reason why no model fits, or why the scenario is not possible.
    pub reason: String,
}

impl Predictions {
    /// Predicts each series in each scenario.
    ///
    /// # Errors
    /// If a fitted model has no solution.
    pub fn of(
        all: &[Series],
        scenarios: &[Scenario],
        options: &Options,
    ) -> Result<Predictions, PredictError> {
        let mut predictions = Predictions {
            format: FORMAT,
            predictions: Vec::new(),
            elasticities: Vec::new(),
            scalability: Vec::new(),
            unpredicted: Vec::new(),
        };
        for series in all {
            for scenario in scenarios {
                match predict(series, scenario, options) {
                    Ok(prediction) => predictions.predictions.push(prediction),
                    Err(PredictError::Scenario(reason)) => predictions.leave_out(series, reason),
                    Err(PredictError::NoModel(reason)) => {
                        predictions.without_network(series, scenarios, options, reason);
                        // The reason is the same in every scenario.
                        break;
                    }
                    Err(error @ PredictError::Unusable(_)) => {
                        predictions.leave_out(series, error.to_string());
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(predictions)
    }

    /// Adds the predicted elasticities of each series, next to the measured elasticities.
    ///
    /// # Errors
    /// If a fitted model has no solution.
    pub fn add_elasticities(
        &mut self,
        all: &[Series],
        measured: &MeasuredElasticities,
        options: &Options,
    ) -> Result<(), PredictError> {
        for series in all {
            let mut predictions = self.predictions.iter();
            if predictions.any(|prediction| prediction.series == series.name) {
                self.elasticities
                    .push(elasticities(series, measured, options)?);
            }
        }
        Ok(())
    }

    /// Whether a scenario of a series has no prediction.
    pub fn lacks(&self, series: &Series) -> bool {
        let mut unpredicted = self.unpredicted.iter();
        unpredicted.any(|left| left.series == series.name)
    }

    /// Handles a series that no network fits, with the reason: the scalability law may still predict its throughput.
    fn without_network(
        &mut self,
        series: &Series,
        scenarios: &[Scenario],
        options: &Options,
        reason: String,
    ) {
        let has_processor_time = series.has_processor_time;
        // The law has no resources that a scenario could change.
        let found = match scenarios.iter().all(Scenario::is_as_measured) {
            true => scalability::predict(series, options, &reason).map_err(Some),
            false => Err(None),
        };
        match found {
            Ok(prediction) => {
                self.scalability.push(prediction);
                if has_processor_time {
                    self.leave_out(
                        series,
                        format!(
                            "no network fits, so only the scalability law predicts throughput and mean latency: {reason}"
                        ),
                    );
                }
            }
            Err(Some(error)) if !has_processor_time => {
                self.leave_out(series, format!("{reason}; scalability law: {error}"));
            }
            Err(_) => self.leave_out(series, PredictError::NoModel(reason).to_string()),
        }
    }

    fn leave_out(&mut self, series: &Series, reason: String) {
        self.unpredicted.push(Unpredicted {
            series: series.name.clone(),
            reason,
        });
    }
}
