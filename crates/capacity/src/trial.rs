//! A trial: one load, applied for some time.

use serde::Serialize;

use crate::evidence::Evidence;
use crate::series::Series;
use crate::slo_limit::SloLimit;

/// The purpose of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// To find a load that works and a load that fails.
    Bracket,
    /// To narrow the estimate.
    Locate,
    /// To certify that the load works: it meets an SLO.
    Works,
    /// To certify that the load fails: it violates an SLO.
    Fails,
    /// To test whether the server works again after an overload.
    Recovery,
}

/// The next trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialPlan {
    /// Requests per second, or users.
    pub load: f64,
    /// The purpose of the trial.
    pub purpose: Purpose,
    /// The index of the SLO that the trial is for.
    pub slo: usize,
    /// Seconds of warm-up at the start, which are not measured.
    pub warm_up: f64,
    /// Maximum of the measured seconds.
    pub longest: f64,
}

/// The measurements of a trial so far.
#[derive(Debug, Clone, Default)]
pub struct TrialSoFar {
    /// Measured seconds.
    pub seconds: f64,
    /// For each SLO, the exchanges planned in the measured time. An exchange in flight is bad as soon as it lasts
    /// longer than the limit; a slot is evaluated only after this time.
    pub series: Vec<Series>,
    /// Seconds after the planned instant after which an exchange counts as failed, if the SLO has no latency limit.
    pub timeout: f64,
}

impl TrialSoFar {
    /// Creates a trial without exchanges, for this number of SLOs.
    pub fn new(slos: usize, timeout: f64) -> TrialSoFar {
        TrialSoFar {
            seconds: 0.0,
            series: vec![Series::default(); slos],
            timeout,
        }
    }

    /// Returns the evidence for an SLO from all slots in which the outcome of every exchange is known.
    pub fn evidence(&self, place: usize, slo: &SloLimit) -> Evidence {
        Evidence::of(self.series[place].until(self.known(slo)), slo)
    }

    /// Returns the measured seconds in which the outcome of every exchange is known.
    pub fn known(&self, slo: &SloLimit) -> f64 {
        self.seconds - slo.limit.unwrap_or(self.timeout)
    }
}

/// The results of a trial, for the curve and the files.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrialRecord {
    /// Requests per second, or users.
    pub load: f64,
    /// The purpose of the trial.
    pub purpose: Purpose,
    /// Start of the trial, in seconds since the start of the search.
    pub at_s: f64,
    /// Measured seconds.
    pub measured_s: f64,
    /// Completed exchanges per second, if known.
    pub achieved_per_s: Option<f64>,
    /// Median and 99th percentile of the latency in milliseconds, if known.
    pub latency_ms: Option<[f64; 2]>,
    /// The reasons why the trial does not count; empty if the trial is valid.
    pub invalid: Vec<String>,
    /// The results for each SLO.
    pub slos: Vec<SloResult>,
}

impl TrialRecord {
    /// Whether any exchange completed; true if this is not known.
    pub fn has_answers(&self) -> bool {
        self.achieved_per_s.is_none_or(|rate| rate > 0.0)
    }
}

/// The results of a trial for one SLO.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SloResult {
    /// Number of exchanges.
    pub exchanges: u64,
    /// The share of bad exchanges (RFC 9971: trial loss ratio), 0 to 1.
    pub bad_share: f64,
    /// The variance of this share, divided by the variance that the same number of independent exchanges would have.
    pub dispersion: f64,
    /// Seconds of warm-up that were detected and excluded.
    pub warm_up_s: f64,
    /// Whether the latency rose so fast that the SLO would soon be violated.
    pub rising: bool,
}
