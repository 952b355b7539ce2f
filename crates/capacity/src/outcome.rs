//! The outcome of a search.

use serde::Serialize;

use crate::trial::TrialRecord;

/// The answer of a search for one SLO. Loads are requests per second, or users.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// The SLO is met at `works` and violated at `fails`, and the interval is as narrow as requested.
    Interval {
        /// The lower bound.
        works: f64,
        /// The upper bound.
        fails: f64,
    },
    /// The search ended before the interval was narrow enough.
    Inconclusive {
        /// The largest certified load that works, if there is one.
        works: Option<f64>,
        /// The smallest certified load that fails, if there is one.
        fails: Option<f64>,
        /// The reason why the search ended.
        reason: String,
    },
    /// The generator cannot send the load that would violate the SLO.
    Invalid {
        /// The largest load of a valid trial; `None`: no trial was valid.
        valid_up_to: Option<f64>,
        /// The reason why trials at higher loads were not valid.
        reason: String,
    },
}

/// An SLO with its answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SloOutcome {
    /// The SLO as it was written.
    pub slo: String,
    /// The answer for the SLO.
    #[serde(flatten)]
    pub answer: Answer,
    /// The median of the posterior: an estimate without a guarantee.
    pub estimate: Option<f64>,
    /// Number of pairs of ends that were tested.
    pub attempts: u32,
    /// Loads below the interval at which the SLO was violated: the server is not monotone.
    pub failing_below: Vec<f64>,
}

/// The outcome of a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// The outcome for each SLO, in the order in which they were given.
    pub slos: Vec<SloOutcome>,
    /// Whether the lower end works again after the overload; `None` if this was not tested.
    pub recovers: Option<bool>,
    /// Duration of the search in seconds.
    pub seconds: f64,
    /// All trials, in order.
    pub trials: Vec<TrialRecord>,
}
