//! Predictions for loads that were not measured.
//!
//! 1. [`series`]: the measurements of one server at several numbers of users, from [`of_run`] or [`of_loads`].
//! 2. [`law`]: the CPU time of an exchange as a function of the load.
//! 3. [`network`]: a closed network of the path, the link and the processor, and its exact solution.
//! 4. [`simulated`]: a simulation of the same network in virtual time, for percentiles and quotas.
//! 5. [`page_cache`]: cache hits and disk reads, by memory.
//! 6. [`fit`]: the choice of a network, with its residual check; `bootstrap`: resampled networks for the intervals.
//! 7. [`prediction`]: throughput, latency and utilisations with prediction intervals, for a [`scenario`].
//! 8. [`elasticities`]: the predicted effect of small changes of the limits, next to the measured effect.
//! 9. [`scalability`]: predictions of throughput alone, for series without a network.
//! 10. [`screen`]: a prediction as text; [`markdown`]: a table of predictions and measurements.
//!
//! All results are functions of recorded results and a seed.

mod bootstrap;
mod change;
pub mod elasticities;
pub mod fit;
pub mod law;
pub mod markdown;
pub mod network;
pub mod of_loads;
pub mod of_run;
mod options;
pub mod page_cache;
pub mod prediction;
pub mod predictions;
pub mod scalability;
pub mod scenario;
pub mod screen;
pub mod series;
pub mod simulated;
mod slow_start;

use fathometer_queueing::ModelError;
/// The type of all times in [`series`].
pub use fathometer_queueing::Seconds;

/// Why there is no prediction.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PredictError {
    /// The result lacks figures that a model needs.
    #[error("{0}")]
    Unusable(String),
    /// No model passes its residual check.
    #[error("no model fits, so nothing is predicted: {0}")]
    NoModel(String),
    /// The scenario changes a quantity that is unknown, or is not possible.
    #[error("{0}")]
    Scenario(String),
    /// A fitted model has no solution.
    #[error(transparent)]
    Model(#[from] ModelError),
}
