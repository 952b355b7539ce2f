//! What a prediction has.

use serde::Serialize;

use crate::law::Law;

/// A figure with its prediction interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figure {
    /// The prediction.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// What was measured at the same load, and the error of the prediction: predicted over measured minus one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Compared {
    /// The mean over the replicates.
    pub measured: f64,
    /// The error as a share.
    pub error_share: f64,
    /// Whether the measured mean lies within the prediction interval.
    pub within: bool,
}

/// What the workers and the accept queue do at one number of users.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WorkersRow {
    /// The busy share of the workers.
    pub busy_share: f64,
    /// The mean number of connections in the accept queue.
    pub waiting: f64,
    /// SYNs that find the accept queue full, per exchange.
    pub overflows_per_exchange: f64,
    /// The share of exchanges that fail because the accept queue is full: their client gives up, or TCP does.
    pub errors_share: f64,
    /// The share of exchanges that failed for any reason, if the load was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors_measured_share: Option<f64>,
}

/// The predictions for one number of users.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The number of users.
    pub users: u32,
    /// The load was used for the fit.
    pub fitted: bool,
    /// It was a burst: the processor time of its exchanges was used, and nothing else.
    pub burst: bool,
    /// The throughput or the number of users is beyond all fitted loads.
    pub extrapolated: bool,
    /// Exchanges per second that complete.
    pub throughput_per_s: Figure,
    /// The throughput cannot be higher: the asymptotic bound.
    pub bound_per_s: f64,
    /// The mean latency of exchanges that complete.
    pub mean_ms: Figure,
    /// The median latency.
    pub p50_ms: Figure,
    /// The latency at the prediction's `tail_percent`.
    pub tail_ms: Figure,
    /// The busy share of the processor.
    pub processor_share: f64,
    /// The busy share of the link; absent when its rate is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_share: Option<f64>,
    /// The busy share of the disk; absent when the run does not read from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_share: Option<f64>,
    /// The workers; absent when their number is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<WorkersRow>,
    /// The station with the highest utilisation; the workers only when no station that they wait for is saturated.
    pub bottleneck: &'static str,
    /// Whether that station is saturated.
    pub saturated: bool,
    /// The throughput, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throughput_compared: Option<Compared>,
    /// The mean latency, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_compared: Option<Compared>,
    /// The tail latency, if it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail_compared: Option<Compared>,
}

/// The effect of a scenario at one number of users, against the same users as measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Effect {
    /// The number of users as measured, before a change of the scenario.
    pub users: u32,
    /// The change of the throughput as a share.
    pub throughput_share: Figure,
    /// The change of the mean latency as a share.
    pub mean_share: Figure,
}

/// The workers of a server.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct WorkersModel {
    /// Their number in this scenario.
    pub count: u32,
    /// The listen backlog in this scenario.
    pub backlog: u32,
    /// The time for which an exchange holds a worker without queueing.
    pub held_ms: f64,
    /// After what time a client gives up; absent when it does not, as far as is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_s: Option<f64>,
}

/// The page cache of the server's host.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PageCacheModel {
    /// Its size in this scenario.
    pub bytes: u64,
    /// The share of requests whose file is in memory, by Che's approximation.
    pub hits_share: f64,
    /// Reads from the disk.
    pub reads_per_exchange: f64,
    /// The time of an exchange at the disk, without queueing.
    pub disk_ms: f64,
}

/// All predictions for a series and a scenario.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// The series.
    pub series: String,
    /// What differs from the measurement.
    pub scenario: String,
    /// The law of the processor time.
    pub law: Law,
    /// Other laws that pass the check, which widen the intervals.
    pub other_laws: usize,
    /// Why laws were rejected.
    pub rejected: Vec<String>,
    /// The fitted time outside of processor and link.
    pub delay_ms: f64,
    /// The time of a user between exchanges.
    pub think_ms: f64,
    /// The server's processor in this scenario, in cores.
    pub cores: f64,
    /// The page cache; absent when the run does not read from disk and the memory does not change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache: Option<PageCacheModel>,
    /// The workers; absent when their number is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<WorkersModel>,
    /// Deviation and limit of the processor time, as shares.
    pub residual_busy: [f64; 2],
    /// Of the throughput.
    pub residual_throughput: [f64; 2],
    /// Of the mean latency.
    pub residual_mean: [f64; 2],
    /// Numbers of users that were fitted.
    pub fitted_users: Vec<u32>,
    /// Numbers of users of bursts.
    pub burst_users: Vec<u32>,
    /// Sizes of batches.
    pub batch_sizes: Vec<u32>,
    /// Replicates or results that were fitted, with those of bursts and batches.
    pub fitted_readings: usize,
    /// From this number of users on there is queueing: where the asymptotes cross.
    pub crossing_users: f64,
    /// The percentile of `tail_ms`.
    pub tail_percent: u32,
    /// The predictions by number of users.
    pub rows: Vec<Row>,
    /// What the scenario changes at the largest measured number of users; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// What a reader must know, one sentence each.
    pub notes: Vec<String>,
}
