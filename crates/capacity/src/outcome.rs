//! What a search found.

use serde::Serialize;

use crate::trial::TrialRecord;

/// What a search found of one promise. Loads are requests per second, or users.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// The promise holds at `works` and is broken at `fails`, and the interval is as narrow as asked for.
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
        /// Why it ended.
        reason: String,
    },
    /// The load that would break the promise is beyond what can be generated.
    Invalid {
        /// The largest load of a valid trial; `None`: no trial was valid.
        valid_up_to: Option<f64>,
        /// Why those above were not.
        reason: String,
    },
}

/// A promise with its answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PromiseOutcome {
    /// As it was written.
    pub promise: String,
    /// What was found.
    #[serde(flatten)]
    pub answer: Answer,
    /// The median of the posterior, which promises nothing.
    pub estimate: Option<f64>,
    /// Pairs of ends that were tested.
    pub attempts: u32,
    /// Lower loads than the interval at which the promise was broken: the server is not monotone.
    pub failing_below: Vec<f64>,
}

/// The outcome of a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Outcome {
    /// Each promise, in the order in which they were given.
    pub promises: Vec<PromiseOutcome>,
    /// Whether the lower end works again after the overload; `None`: not tested.
    pub recovers: Option<bool>,
    /// Seconds that the search took.
    pub seconds: f64,
    /// All trials, in order.
    pub trials: Vec<TrialRecord>,
}
