//! The predictions of several series in several scenarios.

use serde::Serialize;

use crate::PredictError;
use crate::prediction::{Options, Prediction, predict};
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
    /// The series and scenarios without a prediction.
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
            unpredicted: Vec::new(),
        };
        for series in all {
            for scenario in scenarios {
                match predict(series, scenario, options) {
                    Ok(prediction) => predictions.predictions.push(prediction),
                    Err(PredictError::Scenario(reason)) => predictions.leave_out(series, reason),
                    Err(error @ (PredictError::NoModel(_) | PredictError::Unusable(_))) => {
                        predictions.leave_out(series, error.to_string());
                        // The reason is the same in every scenario.
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(predictions)
    }

    /// Whether a scenario of a series has no prediction.
    pub fn lacks(&self, series: &Series) -> bool {
        let mut unpredicted = self.unpredicted.iter();
        unpredicted.any(|left| left.series == series.name)
    }

    fn leave_out(&mut self, series: &Series, reason: String) {
        self.unpredicted.push(Unpredicted {
            series: series.name.clone(),
            reason,
        });
    }
}
