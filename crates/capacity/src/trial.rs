//! A trial: one load, applied for some time.

use serde::Serialize;

use crate::evidence::Evidence;
use crate::promise::Promise;
use crate::series::Series;

/// Why a trial is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// To find a load that works and one that fails.
    Bracket,
    /// To narrow the estimate.
    Locate,
    /// To certify that its load works for a promise.
    Works,
    /// To certify that its load fails a promise.
    Fails,
    /// To test whether the server works again after an overload.
    Recovery,
}

/// The next trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialPlan {
    /// Requests per second, or users.
    pub load: f64,
    /// Why.
    pub purpose: Purpose,
    /// The promise that it is about, by its place.
    pub promise: usize,
    /// Seconds at the start that are not measured.
    pub warm_up: f64,
    /// The most measured seconds.
    pub longest: f64,
}

/// What was measured so far.
#[derive(Debug, Clone, Default)]
pub struct TrialSoFar {
    /// Measured seconds.
    pub seconds: f64,
    /// Of each promise: the exchanges planned in the measured time. An exchange that did not end yet is bad if it has
    /// already lasted longer than the limit; a slot is read only from then on.
    pub series: Vec<Series>,
    /// Seconds after its planned instant after which an exchange counts as failed, if there is no limit of latency.
    pub timeout: f64,
}

impl TrialSoFar {
    /// A trial of this number of promises.
    pub fn new(promises: usize, timeout: f64) -> TrialSoFar {
        TrialSoFar {
            seconds: 0.0,
            series: vec![Series::default(); promises],
            timeout,
        }
    }

    /// What is known of a promise: the exchanges that were planned so long ago that their outcome is known.
    pub fn evidence(&self, place: usize, promise: &Promise) -> Evidence {
        Evidence::of(self.series[place].until(self.known(promise)), promise)
    }

    /// The measured seconds of which every outcome is known.
    pub fn known(&self, promise: &Promise) -> f64 {
        self.seconds - promise.limit.unwrap_or(self.timeout)
    }
}

/// What a trial found, for the curve and the files.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrialRecord {
    /// Requests per second, or users.
    pub load: f64,
    /// Why it was run.
    pub purpose: Purpose,
    /// Seconds since the start of the search at its start.
    pub at_s: f64,
    /// Measured seconds.
    pub measured_s: f64,
    /// Completed exchanges per second, if known.
    pub achieved_per_s: Option<f64>,
    /// Median and 99th percentile of the latency in milliseconds, if known.
    pub latency_ms: Option<[f64; 2]>,
    /// Why it is no trial of the server; empty: it is valid.
    pub invalid: Vec<String>,
    /// Of each promise.
    pub promises: Vec<PromiseSeen>,
}

impl TrialRecord {
    /// Whether any exchange completed, as far as that is known.
    pub fn has_answers(&self) -> bool {
        self.achieved_per_s.is_none_or(|rate| rate > 0.0)
    }
}

/// What a trial saw of a promise.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PromiseSeen {
    /// Exchanges.
    pub exchanges: u64,
    /// The share of them that broke the promise (RFC 9971: trial loss ratio), 0 to 1.
    pub bad_share: f64,
    /// The variance of that share over that of as many independent exchanges.
    pub dispersion: f64,
    /// Seconds of warm-up that were found and left out.
    pub warm_up_s: f64,
    /// Whether the latency rose so fast that the promise would be broken soon.
    pub rising: bool,
}
